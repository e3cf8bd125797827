"""Rows of training speed: what is scored, what is not and why, and what stands in for blank cells."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.accuracy.own_file import scored

from gpufleet.accuracy.models import ModelFinder
from gpufleet.accuracy.score import score_file
from gpufleet.accuracy.training_rows import run_of
from gpufleet.domain.training import AttentionKernel, Recompute, Sharding
from gpufleet.errors import UsageError
from gpufleet.inputs.measurements import MeasurementRow, read_measurements
from gpufleet.units import GBIT

GOOD = {
    "source": "somebody",
    "model_id": "llama-3.1-8b",
    "gpu_id": "H100-SXM",
    "num_gpus": "8",
    "dp": "8",
    "zero_or_fsdp": "fsdp",
    "seq_len": "8192",
    "micro_batch": "1",
    "global_batch": "128",
    "recompute": "none",
    "precision": "bf16",
    "task": "pretrain",
    "tokens_per_s_per_gpu": "9000",
    "tp": "",
    "value_kind": "",
}
HOSTILE = {
    "an unknown GPU": ({"gpu_id": "no-such-gpu"}, "unknown GPU"),
    "no GPU": ({"gpu_id": ""}, "GPU not stated"),
    "an unknown model": ({"model_id": "no-such-model"}, "unknown model"),
    "a layout of other GPUs": ({"tp": "3", "num_gpus": "8"}, "the layout does not use the GPUs"),
    "text for a number": ({"global_batch": "many"}, "global_batch is not a number"),
    "no GPU at all": ({"num_gpus": "0"}, "num_gpus must be positive"),
    "half a rank": ({"tp": "1.5"}, "tp must be a whole number"),
    "8 bits on a GPU without": ({"gpu_id": "A100-SXM4-80GB", "precision": "fp8"}, "does not compute in fp8"),
    "a method of its own": ({"task": "galore"}, "training method 'galore' is not modelled"),
    "less than a token": ({"seq_len": "0.5"}, "at least one token"),
    "a huge sequence": ({"seq_len": "1e300"}, ""),
}
LEFT_OUT = {
    "no rate": ({"tokens_per_s_per_gpu": ""}, "states no rate"),
    "no sequence": ({"seq_len": ""}, "does not state the sequence length"),
    "a formula": ({"value_kind": "estimate"}, "states what a formula gives, not a run"),
    "zero": ({"tokens_per_s_per_gpu": "0"}, "tokens_per_s_per_gpu must be positive"),
}


def row(**cells: str) -> MeasurementRow:
    return MeasurementRow(2, {**GOOD, **cells})


def test_a_run_is_predicted_with_its_range(tmp_path: Path) -> None:
    (figure,) = scored(tmp_path, GOOD, {}).figures
    assert (figure.quantity, figure.unit, figure.group) == ("tokens_per_s_per_gpu", "tokens/s", "pretrain, bf16")
    assert figure.predicted == pytest.approx(9000, rel=0.35)
    assert (figure.low or 0) < (figure.predicted or 0) < (figure.high or 0)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_row_that_cannot_be_predicted_says_why_and_the_next_one_is_scored(tmp_path: Path, name: str) -> None:
    cells, words = HOSTILE[name]
    found = scored(tmp_path, GOOD, cells, {})
    assert found.num_scored_rows == 2
    refused, good = found.figures
    assert refused.predicted is None
    assert refused.reason
    assert words in refused.reason
    assert good.predicted is not None


@pytest.mark.parametrize("name", LEFT_OUT)
def test_a_row_that_is_no_measured_run_is_not_scored(tmp_path: Path, name: str) -> None:
    cells, words = LEFT_OUT[name]
    found = scored(tmp_path, GOOD, cells, {})
    assert found.num_scored_rows == 1
    assert [reason.reason for reason in found.left_out] == [words]


def test_a_run_out_of_memory_is_a_verdict(tmp_path: Path) -> None:
    alone = {"num_gpus": "1", "dp": "1", "micro_batch": "16", "global_batch": "16", "tokens_per_s_per_gpu": "OOM"}
    found = scored(tmp_path, GOOD, alone)
    assert (found.verdicts.num_failed, found.verdicts.num_false_fits) == (1, 0)


def test_columns_that_a_file_does_not_have_are_no_obstacle(tmp_path: Path) -> None:
    header = "model,params_b,layers,hidden,vocab,gpu,seq_len,tokens_per_s_per_gpu"
    (tmp_path / "few.csv").write_text(f"{header}\nmine,1.3,24,2048,50368,H100,2048,40000\n", encoding="utf-8")
    found = score_file(read_measurements(tmp_path / "few.csv"), ModelFinder())
    assert found.num_covered_rows == 1


def test_a_micro_batch_that_nobody_states_divides_the_batch_and_has_room() -> None:
    finder = ModelFinder()
    roomy = run_of(row(model_id="llama-3.2-1b", micro_batch="", seq_len="512", num_gpus="1", dp="1"), finder)
    tight = run_of(row(micro_batch="", seq_len="4096", recompute="full"), finder)
    assert float(roomy.layouts.micro_batch[0]) == 16.0
    assert float(roomy.layouts.num_micro_batches[0]) == 8.0
    assert 1.0 <= float(tight.layouts.micro_batch[0]) < 16.0
    assert float(tight.layouts.micro_batch[0] * tight.layouts.num_micro_batches[0]) == 16.0


def test_a_pipeline_of_unknown_batch_has_four_micro_batches_a_stage() -> None:
    found = run_of(row(micro_batch="", global_batch="", pp="4", dp="2"), ModelFinder()).layouts
    assert (float(found.micro_batch[0]), float(found.num_micro_batches[0])) == (1.0, 16.0)


def test_early_software_recomputes_everything_and_has_no_flash_attention() -> None:
    early = run_of(row(source="arXiv 2104.04473", recompute="", precision="fp16", zero_or_fsdp=""), ModelFinder())
    today = run_of(row(recompute=""), ModelFinder())
    assert (early.recipe.flash, int(early.layouts.recompute[0])) == (False, Recompute.FULL)
    assert (today.recipe.flash, int(today.layouts.recompute[0])) == (True, Recompute.NONE)
    assert early.software_year == pytest.approx(2021 + 4 / 12)


@pytest.mark.parametrize(
    ("words", "stage"),
    [
        ("fsdp_full_shard", Sharding.ZERO_3),
        ("no_fsdp", Sharding.ZERO_1),
        ("fsdp_shard_grad_op", Sharding.ZERO_2),
        ("ZeRO-1", Sharding.ZERO_1),
        ("deepspeed stage 2", Sharding.ZERO_2),
        ("FSDP2 hybrid", Sharding.HYBRID),
        ("none", Sharding.DDP),
    ],
)
def test_sharding_is_read_in_the_words_of_many(words: str, stage: Sharding) -> None:
    assert int(run_of(row(zero_or_fsdp=words), ModelFinder()).layouts.sharding[0]) == stage


@pytest.mark.parametrize(
    ("words", "gbit"),
    [("1600 Gbps RoCE per node", 1600), ("8x400 Gbps", 3200), ("3.2 Tbps", 3200), ("400 Gb/s per GPU", 3200)],
)
def test_the_network_is_read_in_words(words: str, gbit: float) -> None:
    machine = run_of(row(interconnect=words), ModelFinder()).machine
    assert machine.network_bytes_per_s == pytest.approx(gbit * GBIT)


def test_a_name_that_may_mean_several_gpus_is_not_guessed_from() -> None:
    with pytest.raises(UsageError, match="not stated for certain"):
        run_of(row(gpu_id="", gpu="RTX-A6000"), ModelFinder())


@pytest.mark.parametrize(
    ("cells", "kernel"),
    [
        ({"stack": "te"}, AttentionKernel.FUSED),
        ({"release": "26.04"}, AttentionKernel.FUSED),
        ({"stack": "jax"}, AttentionKernel.FUSED),
        ({"stack": "te", "attention_kernel": "flash-attn 2"}, AttentionKernel.FLASH_2),
        ({"stack": "pytorch-sdpa"}, AttentionKernel.FLASH_2),
        ({"attention_kernel": "flex"}, AttentionKernel.FLASH_2),
        ({"attention_kernel": "cudnn (te)"}, AttentionKernel.FUSED),
        ({"attention_kernel": "flash-attn 3"}, AttentionKernel.FUSED),
        ({"attention_kernel": "flash-attn"}, AttentionKernel.FLASH_1),
        ({"attention_kernel": "flash-attn", "source": "a page of 2025"}, AttentionKernel.FLASH_2),
        ({}, AttentionKernel.FLASH_2),
    ],
)
def test_the_kernels_of_attention_are_read_from_kernel_stack_and_date(
    cells: dict[str, str], kernel: AttentionKernel
) -> None:
    assert (
        run_of(row(source="", **cells) if "source" not in cells else row(**cells), ModelFinder()).recipe.attention
        is kernel
    )


def test_what_is_computed_again_is_the_least_that_has_room() -> None:
    """1.3B on one H100 of 80 GB keeps all at a micro-batch of 1, not at 32; stated words are kept."""
    finder = ModelFinder()
    of = {"num_gpus": "1", "dp": "1", "recompute": "", "model_id": "llama-3.2-1b", "seq_len": "4096"}
    small, large = (run_of(row(**of, micro_batch=size, global_batch="512"), finder) for size in ("1", "32"))
    assert int(small.layouts.recompute[0]) < int(large.layouts.recompute[0])
    assert int(run_of(row(**{**of, "recompute": "none"}, micro_batch="32"), finder).layouts.recompute[0]) == 0


def test_a_pipeline_of_which_no_more_is_said_has_two_chunks_a_stage() -> None:
    finder, of = ModelFinder(), {"num_gpus": "8", "pp": "4", "dp": "2"}
    assert [int(run_of(row(**of, vp=vp), finder).layouts.interleave[0]) for vp in ("", "1", "5")] == [2, 1, 5]
