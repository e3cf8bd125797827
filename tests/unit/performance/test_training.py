"""Seconds of a training step, in small cases that can be told without a computer."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from gpufleet.architecture.parameters import num_parameters
from gpufleet.catalog.calibration import calibration_of
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.models import shipped_architecture
from gpufleet.catalog.training_time import load_training_time
from gpufleet.domain.training import (
    ADAMW,
    BF16_MIXED,
    BF16_PURE,
    QLORA_BASE,
    Adapter,
    AttentionKernel,
    Method,
    Recipe,
    Recompute,
    Sharding,
    TrainingLayouts,
    TrainingMachine,
    one_layout,
)
from gpufleet.performance.training import Stage, StepTerms, step_terms
from gpufleet.performance.training_bounds import time_bounds
from gpufleet.performance.training_kernels import KernelModel, Shards
from gpufleet.performance.training_time import (
    Held,
    TrainingTime,
    immature_ratio,
    launched_ratio,
    slot_bytes_per_s,
    tokens_per_s_per_gpu,
)
from gpufleet.performance.training_traffic import sharded_seconds, waited_seconds
from gpufleet.units import GB

TABLES, CONSTANTS = load_catalog(), load_training_time()
CALIBRATION = calibration_of(TABLES)
LLAMA = shipped_architecture("llama-3.1-8b")
FULL = Recipe(Method.FULL, BF16_MIXED, ADAMW, 4096)
LORA = Recipe(Method.LORA, BF16_PURE, ADAMW, 4096, Adapter(16))
NODE = TrainingMachine(TABLES.accelerators["H100-SXM"], 8, False, 450 * GB, 400 * GB)


def time_of(layout: TrainingLayouts, recipe: Recipe = FULL, machine: TrainingMachine = NODE) -> TrainingTime:
    return TrainingTime(KernelModel(LLAMA, recipe, (machine,), CALIBRATION), layout, CONSTANTS)


def terms_of(layout: TrainingLayouts, recipe: Recipe = FULL, machine: TrainingMachine = NODE) -> StepTerms:
    return step_terms(time_of(layout, recipe, machine))


def test_software_that_is_old_enough_for_its_gpu_costs_nothing() -> None:
    mature = CONSTANTS.value("mature_years")
    assert immature_ratio(CONSTANTS, 2022, 2022 + mature) == 1.0
    assert immature_ratio(CONSTANTS, 2022, 2035.0) == 1.0


def test_every_year_that_software_is_too_young_costs_as_much_up_to_its_release() -> None:
    mature, each = CONSTANTS.value("mature_years"), CONSTANTS.value("immaturity")
    assert immature_ratio(CONSTANTS, 2022, 2022 + mature - 1) == pytest.approx(math.exp(each))
    assert immature_ratio(CONSTANTS, 2022, 2022.0) == pytest.approx(math.exp(each * mature))
    assert immature_ratio(CONSTANTS, 2022, 2010.0) == pytest.approx(math.exp(each * mature))


def test_software_or_gpus_without_a_date_are_as_young_as_is_usual() -> None:
    usual = math.exp(CONSTANTS.value("immaturity") * CONSTANTS.value("unknown_immaturity_years"))
    assert immature_ratio(CONSTANTS, 2022, None) == pytest.approx(usual)
    assert immature_ratio(CONSTANTS, None, 2024.0) == pytest.approx(usual)


def test_a_slot_doubles_with_each_generation_and_the_oldest_stands_for_what_is_not_known() -> None:
    assert [slot_bytes_per_s(each) / GB for each in (None, 3, 4, 5)] == [16.0, 16.0, 32.0, 64.0]


def test_one_stage_has_no_bubble_and_one_copy_no_traffic() -> None:
    terms = terms_of(one_layout(num_micro_batches=4))
    idle = ("bubble", "uneven_stages", "data_parallel", "tensor_parallel", "context_parallel", "expert_parallel")
    step = float(terms.total[0])
    waited = {name: float(getattr(terms, name)[0]) for name in (*idle, "recompute", "adapters", "offload")}
    assert max(map(abs, waited.values())) < 1e-12 * step, waited
    assert min(float(getattr(terms, name)[0]) for name in ("products", "attention", "output_head", "optimizer")) > 0


def test_two_stages_halve_what_each_computes_and_wait_for_one_another() -> None:
    """32 layers on two stages: half the products each, and a bubble of one micro-batch on a mean stage."""
    one, two = terms_of(one_layout(num_micro_batches=8)), terms_of(one_layout(pp=2, num_micro_batches=8))
    for name in ("products", "attention", "elementwise", "output_head"):
        assert float(getattr(two, name)[0]) == pytest.approx(float(getattr(one, name)[0]) / 2)
    computed = sum(float(getattr(two, name)[0]) for name in ("products", "attention", "elementwise", "output_head"))
    assert float(one.stage_traffic[0]) == 0 < float(two.stage_traffic[0])
    assert float(two.bubble[0]) == pytest.approx((computed + float(two.stage_traffic[0])) / 8, rel=1e-6)


def test_chunks_of_layers_divide_the_bubble() -> None:
    whole, chunked = (terms_of(one_layout(pp=4, num_micro_batches=8, interleave=v)) for v in (1, 4))
    computed = [float(t.bubble[0]) * v - 3 * float(t.stage_traffic[0]) / 8 for t, v in ((whole, 1), (chunked, 4))]
    assert computed[0] == pytest.approx(computed[1])


def test_the_last_stage_has_the_head_and_no_more_layers_than_the_others() -> None:
    """32 layers on 3 stages of 11, 11 and 10; the head of half a second makes the last one the slowest or not."""
    time = time_of(one_layout(pp=3))
    for head_s, slowest_s in ((0.5, 11.0), (2.0, 12.0)):
        stage = Stage.of(time, np.array([32.0]), np.array([head_s]), np.array([0.25]))
        assert float(stage.slowest_s[0]) == pytest.approx(slowest_s + 0.25)
        assert float(stage.mean_s[0]) == pytest.approx((32.0 + head_s) / 3 + 0.25)


def test_steps_of_as_many_micro_batches_take_so_many_times_as_long() -> None:
    one, four = (terms_of(one_layout(num_micro_batches=n)) for n in (1, 4))
    assert float(four.products[0]) == pytest.approx(4 * float(one.products[0]))
    assert float(four.optimizer[0]) == pytest.approx(float(one.optimizer[0]))


def test_full_recompute_adds_less_than_half_of_what_a_pass_forward_and_backward_takes() -> None:
    """A forward pass is a third of the products and less of attention."""
    terms = terms_of(one_layout(recompute=Recompute.FULL))
    computed = float((terms.products + terms.attention + terms.elementwise)[0])
    assert 0.2 * computed < float(terms.recompute[0]) < 0.4 * computed


def test_selective_recompute_is_next_to_nothing_where_attention_is_flash() -> None:
    flash, plain = (replace(FULL, flash=flash) for flash in (True, False))
    some = one_layout(recompute=Recompute.SELECTIVE)
    assert float(terms_of(some, flash).recompute[0]) < 0.05 * float(terms_of(some, flash).total[0])
    assert float(terms_of(some, plain).recompute[0]) > float(terms_of(some, flash).recompute[0])


def test_frozen_weights_have_no_gradients_and_no_optimizer() -> None:
    full, lora = terms_of(one_layout(), replace(FULL, formats=BF16_PURE)), terms_of(one_layout(), LORA)
    assert float(lora.products[0]) == pytest.approx(2 / 3 * float(full.products[0]), rel=0.1)
    assert (float(lora.optimizer[0]), float(full.adapters[0])) == (0.0, 0.0)
    assert float(lora.adapters[0]) > 0


def test_weights_of_four_bits_are_widened_twice_a_micro_batch() -> None:
    lora, qlora = (
        terms_of(one_layout(), LORA),
        terms_of(one_layout(), replace(LORA, base=QLORA_BASE, method=Method.QLORA)),
    )
    read_and_written = 2 * num_parameters(LLAMA) * 2.0 / NODE.accelerator.bandwidth_bytes_per_s
    assert float(qlora.adapters[0] - lora.adapters[0]) > read_and_written * 0.9


def test_of_traffic_some_is_always_waited_for_and_the_rest_hides_behind_computing() -> None:
    time, always, hidden = time_of(one_layout()), CONSTANTS.value("shard_exposed"), CONSTANTS.value("hidden_ratio")
    assert float(waited_seconds(time, np.array([1.0]), np.array([100.0]))[0]) == pytest.approx(always)
    assert float(waited_seconds(time, np.array([1.0]), np.array([0.0]))[0]) == pytest.approx(1.0)
    assert float(waited_seconds(time, np.array([10.0]), np.array([1.0]))[0]) == pytest.approx(10.0 - hidden)


def test_a_sharded_optimizer_steps_a_share_of_the_weights() -> None:
    whole, shared = (terms_of(one_layout(dp=8, sharding=kind)) for kind in (Sharding.DDP, Sharding.ZERO_1))
    assert float(shared.optimizer[0]) == pytest.approx(float(whole.optimizer[0]) / 8)


def test_tokens_are_those_of_the_whole_batch_over_all_gpus() -> None:
    time = time_of(one_layout(tp=2, pp=2, dp=4, micro_batch=2, num_micro_batches=8))
    assert float(tokens_per_s_per_gpu(time, np.array([2.0]))[0]) == 2 * 8 * 4 * 4096 / 2.0 / 16


def test_steps_of_ones_own_scale_every_term_and_narrow_the_range() -> None:
    time = time_of(one_layout())
    own = replace(time, measured_ratio=1.5, range_ratio=0.7)
    assert float(step_terms(own).total[0]) == pytest.approx(1.5 * float(step_terms(time).total[0]))
    usual, narrower = time_bounds(time), time_bounds(own)
    assert float(narrower.high_ratio[0]) < float(usual.high_ratio[0])
    assert float(usual.low_ratio[0]) < 1 < float(usual.high_ratio[0])


def test_layouts_that_differ_only_between_devices_share_their_kernels() -> None:
    parts = [one_layout(dp=dp, pp=pp, recompute=again) for dp in (1, 8) for pp in (1, 2) for again in Recompute]
    names = parts[0].columns()
    together = TrainingLayouts(**{name: np.concatenate([getattr(each, name) for each in parts]) for name in names})
    shards = Shards.of(together)
    assert (len(shards), set(shards.place.tolist())) == (1, {0})


def test_experts_on_two_large_machines_are_gathered_over_their_network() -> None:
    """The copies of an expert lie 16 ranks apart, on two machines of 16 GPUs, whatever lies on one of them."""
    large = TrainingMachine(TABLES.accelerators["B200"], 16, False, 900 * GB, 400 * GB)
    layout = one_layout(dp=32, ep=16, sharding=Sharding.ZERO_3, ranks_per_node=16)
    model = KernelModel(shipped_architecture("deepseek-v3"), FULL, (large,), CALIBRATION)
    time = TrainingTime(model, layout, CONSTANTS)
    moved_bytes = 16 * float(Held.of(time.arch, layout).experts[0]) * (2 * BF16_MIXED.gathered_bytes + 2) / 2
    seconds = sharded_seconds(time, np.zeros(1))
    assert float(seconds[0]) > moved_bytes / (400 * GB)


def test_attention_belongs_to_its_kernel_and_to_the_gpu() -> None:
    """Kernels of Hopper's own are twice as fast as FlashAttention-2; on A100 they are the same."""
    long = replace(FULL, sequence_tokens=65_536)
    a100 = TrainingMachine(TABLES.accelerators["A100-SXM4-80GB"], 8, False, 300 * GB, 200 * GB)
    for machine, apart in ((NODE, (1.6, 2.6)), (a100, (1.0, 1.0))):
        fused, second, first = (
            float(terms_of(one_layout(), replace(long, attention=each), machine).attention[0])
            for each in AttentionKernel
        )
        assert apart[0] <= second / fused <= apart[1]
        assert 1.3 < first / second < 2.2


def test_launching_experts_one_by_one_ends_with_the_software_that_groups_them() -> None:
    """Megatron Bridge at one layout: GB200 from 26.04 to 26.06, nothing on H100."""
    before, after = (launched_ratio(CONSTANTS, "Blackwell", year) for year in (2026.33, 2026.5))
    assert before == 1.0 > launched_ratio(CONSTANTS, "Blackwell", None) > after
    assert launched_ratio(CONSTANTS, "Hopper", 2026.5) == 1.0 == launched_ratio(CONSTANTS, "Hopper", None)


def test_layers_with_experts_wait_for_the_host_and_dense_ones_hide_it() -> None:
    sparse = shipped_architecture("qwen3-30b-a3b")
    time = TrainingTime(KernelModel(sparse, FULL, (NODE,), CALIBRATION), one_layout(dp=8, ep=8), CONSTANTS)
    assert float(step_terms(time).host[0]) >= 48 * CONSTANTS.value("expert_layer_s")
    assert terms_of(one_layout(dp=8)).host[0] == 0
