"""How a row of training memory is read, column by column, and what a blank cell means."""

import pytest

from gpufleet.accuracy.training_cells import why_not_measured
from gpufleet.accuracy.training_rows import (
    conditions_of,
    device_bytes_of,
    layout_of,
    possible_conditions,
    recipe_of,
    says_reserved,
)
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.models import shipped_architecture
from gpufleet.catalog.training_constants import load_training_memory_constants
from gpufleet.domain.training import ALL_LINEAR, Method, Recompute, Sharding
from gpufleet.errors import UsageError
from gpufleet.inputs.measurements import MeasurementRow
from gpufleet.units import GIB

CONSTANTS = load_training_memory_constants()
LLAMA = shipped_architecture("llama-3.1-8b")


def row(**cells: str) -> MeasurementRow:
    return MeasurementRow(1, {"method": "full", "seq_len": "2048", "micro_batch": "2", "precision": "bf16", **cells})


def test_lightning_is_told_by_its_words_for_precision() -> None:
    read = recipe_of(row(method="lora", precision="bf16-true", sharding="fsdp", num_gpus="4"))
    assert (read.compiled, read.flash, read.chunked_loss, read.flat_blocks) == (False, True, True, True)
    assert read.adapter is not None
    assert (read.adapter.rank, read.adapter.modules) == (8, ("q", "v"))
    layout = layout_of(row(method="lora", precision="bf16-true", sharding="fsdp", num_gpus="4"))
    assert (int(layout.dp[0]), int(layout.sharding[0]), int(layout.recompute[0])) == (
        4,
        Sharding.ZERO_3,
        Recompute.FULL,
    )
    assert int(layout.num_micro_batches[0]) == 2


def test_on_one_gpu_lightning_recomputes_nothing() -> None:
    alone = row(method="lora", precision="bf16-true", sharding="none", num_gpus="1")
    assert int(layout_of(alone).recompute[0]) == Recompute.NONE
    assert len(list(possible_conditions(alone))) == 1


def test_nf4_in_the_precision_is_qlora_and_dq_halves_its_scales() -> None:
    plain = recipe_of(row(method="lora", precision="bf16-true+bnb.nf4"))
    twice = recipe_of(row(method="qlora", precision="bf16-true+bnb.nf4-dq"))
    assert plain.method is twice.method is Method.QLORA
    assert plain.base.mlp.bytes_per_element == 0.5625
    assert twice.base.mlp.bytes_per_element == pytest.approx(0.516, rel=1e-3)


def test_megatron_has_dropout_no_flash_attention_and_fp32_master_weights() -> None:
    cells = {"method": "full (pretrain)", "precision": "fp16 mixed", "recompute": "none"}
    read = recipe_of(row(**cells, source="arXiv 2205.05198"))
    assert (read.dropout, read.flash, read.compiled, read.chunked_loss) == (True, False, True, False)
    assert (read.formats.master_bytes, read.formats.gradient_bytes) == (4.0, 4.0)
    assert not read.optimizer.follows_weights
    today = recipe_of(row(**cells))
    assert (today.dropout, today.flash) == (False, True)


def test_layouts_are_read_from_columns_and_words() -> None:
    cells = {"tp": "8", "pp": "8", "num_gpus": "128", "sharding": "tp=8 pp=8 interleave 3 + sequence parallel"}
    layout = layout_of(row(method="full (pretrain)", precision="bf16 mixed", recompute="selective", **cells))
    assert (int(layout.dp[0]), int(layout.interleave[0]), bool(layout.sequence_parallel[0])) == (2, 3, True)
    assert int(layout.recompute[0]) == Recompute.SELECTIVE


@pytest.mark.parametrize(
    ("words", "stage"),
    [
        ("none", Sharding.DDP),
        ("", Sharding.DDP),
        ("FSDP", Sharding.ZERO_3),
        ("DeepSpeed ZeRO-2", Sharding.ZERO_2),
        ("zero_1", Sharding.ZERO_1),
        ("distributed optimizer", Sharding.ZERO_1),
        ("HSDP", Sharding.HYBRID),
        ("2", Sharding.ZERO_2),
    ],
)
def test_sharding_is_read_in_words(words: str, stage: Sharding) -> None:
    assert int(layout_of(row(sharding=words)).sharding[0]) == stage


def test_a_row_that_itemises_left_off_what_it_leaves_blank() -> None:
    (way,) = possible_conditions(row(recompute="none", optimizer="AdamW"))
    assert not way.recipe.chunked_loss
    assert not way.recipe.optimizer.in_backward


def test_savers_that_a_row_does_not_state_are_the_fewest_with_room() -> None:
    bare = row(method="lora", compile="yes", num_gpus="1")
    roomy = conditions_of(bare, LLAMA, 48 * GIB, CONSTANTS)
    tight = conditions_of(bare, LLAMA, 24 * GIB, CONSTANTS)
    assert int(roomy.layout.recompute[0]) == Recompute.NONE
    assert int(tight.layout.recompute[0]) == Recompute.FULL
    paged = conditions_of(row(compile="yes", num_gpus="1"), LLAMA, 24 * GIB, CONSTANTS).recipe.optimizer
    assert (paged.is_paged, paged.in_backward) == (True, True)
    stated = conditions_of(row(num_gpus="1", optimizer="AdamW"), LLAMA, 24 * GIB, CONSTANTS).recipe.optimizer
    assert not stated.is_paged
    assert int(conditions_of(row(method="qlora"), LLAMA, None, CONSTANTS).layout.recompute[0]) == Recompute.FULL


def test_adapters_and_optimizers_are_read_as_stated() -> None:
    read = recipe_of(row(method="lora", lora_rank="64", lora_modules="q, k, v"))
    assert read.adapter is not None
    assert (read.adapter.rank, read.adapter.modules) == (64, ("q", "k", "v"))
    blank = recipe_of(row(method="lora", lora_modules="all_linear")).adapter
    assert blank is not None
    assert (blank.rank, blank.modules) == (8, ALL_LINEAR)
    eight_bit = recipe_of(row(optimizer="PagedAdamW8bit (in backward)")).optimizer
    assert (eight_bit.state_bytes, eight_bit.is_paged, eight_bit.in_backward) == (2.03125, True, True)


def test_cpu_offload_is_read_in_words_and_its_absence_too() -> None:
    assert recipe_of(row(sharding="fsdp + cpu offload")).offloads_weights
    assert not recipe_of(row(sharding="fsdp", notes="no CPU offload")).offloads_weights


def test_memory_of_a_gpu_that_nobody_lists_is_read_from_its_name() -> None:
    catalog = load_catalog()
    assert device_bytes_of(row(gpu="RTX-X9999-48GB"), catalog) == 48 * GIB
    assert device_bytes_of(row(gpu="40GB GPU"), catalog) == 40 * GIB
    assert (
        device_bytes_of(row(gpu_id="A100-SXM4-40GB"), catalog)
        == load_catalog().accelerators["A100-SXM4-40GB"].memory_bytes
    )
    assert device_bytes_of(row(), catalog) is None


@pytest.mark.parametrize(
    ("cells", "problem"),
    [
        ({"method": "adapter_v2"}, "not modelled"),
        ({"seq_len": ""}, "sequence length"),
        ({"micro_batch": ""}, "micro-batch"),
    ],
)
def test_rows_that_do_not_say_enough_are_refused(cells: dict[str, str], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        list(possible_conditions(row(**cells)))


def test_a_stated_dp_may_count_the_ranks_of_cp() -> None:
    apart = layout_of(row(num_gpus="64", tp="8", cp="2", dp="4"))
    counted = layout_of(row(num_gpus="64", tp="8", cp="2", dp="8"))
    assert int(apart.dp[0]) == int(counted.dp[0]) == 4


def test_what_splits_tensors_is_not_lightning() -> None:
    assert recipe_of(row(precision="bf16-mixed")).flat_blocks
    assert not recipe_of(row(precision="bf16-mixed", tp="4")).flat_blocks


@pytest.mark.parametrize(
    ("words", "mode"),
    [
        ("full", Recompute.FULL),
        ("activation checkpointing", Recompute.FULL),
        ("yes", Recompute.FULL),
        ("selective (op)", Recompute.SELECTIVE),
        ("no recompute, no seq-par", Recompute.NONE),
        ("no checkpointing", Recompute.NONE),
        ("none", Recompute.NONE),
    ],
)
def test_recompute_is_read_in_words(words: str, mode: Recompute) -> None:
    assert int(layout_of(row(recompute=words)).recompute[0]) == mode


def test_conditions_in_columns_say_which_peak_is_printed_and_how_stages_are_cut() -> None:
    assert says_reserved(row(memory_kind="reserved"))
    assert not says_reserved(row(memory_kind="active", notes="reserved is not printed"))
    pipeline = {"pp": "8", "num_gpus": "8", "micro_batch": "4", "sharding": "fsdp"}
    cut = layout_of(row(**pipeline, notes="Interleaved 1F1B; local batch 32 split into micro-batches"))
    assert (int(cut.interleave[0]), int(cut.num_micro_batches[0])) == (2, 8)
    assert int(layout_of(row(**pipeline, notes="1F1B")).interleave[0]) == 1


def test_rows_that_their_file_calls_unusable_or_sets_apart_are_not_scored() -> None:
    assert why_not_measured(row(usable="no", why_not="slow release")) == "not usable: slow release"
    assert why_not_measured(row(usable="")) == "not usable: no reason given"
    assert why_not_measured(row(usable="apart")) is not None
    assert why_not_measured(row(usable="yes")) is None is why_not_measured(row())
