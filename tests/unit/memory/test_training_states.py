"""Weights, gradients and optimizer states of a rank: published bytes per weight, sharding, experts, adapters."""

from dataclasses import replace

import numpy as np
import pytest

from gpufleet.architecture.linears import num_adapter_parameters
from gpufleet.architecture.parameters import num_parameters, parameter_parts
from gpufleet.catalog.models import shipped_architecture
from gpufleet.catalog.training_constants import load_training_memory_constants
from gpufleet.domain.architecture import Architecture
from gpufleet.domain.training import (
    ADAMW,
    ADAMW_8BIT,
    BF16_AUTOCAST,
    BF16_MIXED,
    BF16_PURE,
    EAGER_QLORA_BASE,
    QLORA_BASE,
    Adapter,
    Method,
    NumberFormats,
    Optimizer,
    Recipe,
    Sharding,
    TrainingLayouts,
    one_layout,
)
from gpufleet.memory.training_states import ModelStates, expert_shard_ranks, model_states
from gpufleet.units import GB

CONSTANTS = load_training_memory_constants()
LLAMA = shipped_architecture("llama-2-7b")
MIXTRAL = shipped_architecture("mixtral-8x7b")


def full(formats: NumberFormats = BF16_MIXED, optimizer: Optimizer = ADAMW) -> Recipe:
    return Recipe(Method.FULL, formats, optimizer, 2048)


def lora(method: Method = Method.LORA, **changes: object) -> Recipe:
    recipe = Recipe(method, BF16_PURE, replace(ADAMW, follows_weights=True), 2048, Adapter(8))
    return replace(recipe, **changes)


def states(arch: Architecture, recipe: Recipe, layout: TrainingLayouts) -> ModelStates:
    return model_states(arch, recipe, layout, CONSTANTS)


def kept(each: ModelStates) -> float:
    """All that is there at the end of a step, but for blocks in use."""
    return float((each.resident + each.gradients)[0])


@pytest.mark.parametrize(
    ("formats", "optimizer", "bytes_per_weight"),
    [
        (BF16_MIXED, ADAMW, 18.0),  # Megatron-LM, arXiv:2205.05198
        (BF16_AUTOCAST, ADAMW, 16.0),  # ZeRO, arXiv:1910.02054, counts 16
        (BF16_PURE, replace(ADAMW, follows_weights=True), 8.0),
        (BF16_PURE, ADAMW_8BIT, 4.0 + 2.0 + 2 * 4 / 256),
        (BF16_PURE, replace(ADAMW_8BIT, in_backward=True, is_paged=True), 2.0),
    ],
)
def test_bytes_per_weight_are_those_of_the_number_formats(
    formats: NumberFormats, optimizer: Optimizer, bytes_per_weight: float
) -> None:
    found = kept(states(LLAMA, full(formats, optimizer), one_layout()))
    assert found == pytest.approx(bytes_per_weight * num_parameters(LLAMA), rel=1e-9)


@pytest.mark.parametrize(
    ("sharding", "gigabytes"),
    [(Sharding.DDP, 120.0), (Sharding.ZERO_1, 31.4), (Sharding.ZERO_2, 16.6), (Sharding.ZERO_3, 1.88)],
)
def test_figure_1_of_zero_comes_out(sharding: Sharding, gigabytes: float) -> None:
    """arXiv:1910.02054, figure 1: 7.5 billion weights over 64 GPUs, 2 + 2 + 12 bytes."""
    mixed = NumberFormats("fp16", "fp16", 2.0, 2.0, 4.0, 2.0)
    layout = one_layout(dp=64, sharding=sharding)
    per_weight = kept(states(LLAMA, full(mixed), layout)) / num_parameters(LLAMA)
    assert per_weight * 7.5 == pytest.approx(gigabytes, rel=0.01)


def test_hybrid_sharding_spreads_over_one_machine() -> None:
    over_node = states(LLAMA, full(), one_layout(dp=64, sharding=Sharding.HYBRID, ranks_per_node=8))
    over_eight = states(LLAMA, full(), one_layout(dp=8, sharding=Sharding.ZERO_3))
    assert kept(over_node) == pytest.approx(kept(over_eight))


def test_experts_are_spread_over_the_ranks_that_have_the_same_ones() -> None:
    layout = one_layout(tp=2, dp=8, ep=8, sharding=Sharding.ZERO_3)
    assert float(expert_shard_ranks(layout)[0]) == 2.0
    parts = parameter_parts(MIXTRAL)
    found = states(MIXTRAL, full(), layout)
    routed = 2.0 * parts.routed_experts / 16
    rest = 2.0 * (parts.total - parts.routed_experts) / 16
    assert float(found.weights[0]) == pytest.approx(routed + rest, rel=0.01)


def test_without_sharding_experts_over_eight_ranks_leave_an_eighth_on_each() -> None:
    parts = parameter_parts(MIXTRAL)
    found = float(states(MIXTRAL, full(), one_layout(dp=8, ep=8)).weights[0])
    assert found == pytest.approx(2.0 * (parts.total - parts.routed_experts * 7 / 8), rel=1e-9)


def test_the_fullest_stage_has_the_layers_left_over_and_one_end() -> None:
    """32 layers over 3 stages: 11 on the fullest."""
    parts = parameter_parts(LLAMA)
    of_layers = parts.total - parts.embedding - parts.head
    found = float(states(LLAMA, full(), one_layout(pp=3)).weights[0])
    assert found == pytest.approx(2.0 * (of_layers * 11 / 32 + parts.head), rel=1e-3)


def test_qlora_keeps_vectors_embedding_and_head_in_16_bits() -> None:
    found = states(LLAMA, lora(Method.QLORA, base=QLORA_BASE), one_layout())
    parts = parameter_parts(LLAMA)
    quantised = parts.attention + parts.dense_mlp
    assert float(found.weights[0]) == pytest.approx(2.0 * (parts.total - quantised) + 0.516 * quantised, rel=1e-3)
    assert float(found.gradients[0]) == 0.0


def test_adapters_take_weights_gradients_and_states() -> None:
    adapters = num_adapter_parameters(LLAMA, Adapter(8))
    assert float(states(LLAMA, lora(), one_layout()).adapters[0]) == pytest.approx(8.0 * adapters)
    cut = float(states(LLAMA, lora(), one_layout(tp=8)).adapters[0])
    assert 8.0 * adapters / 8 < cut < 8.0 * adapters


def test_frozen_weights_in_a_flat_block_get_gradients_that_stay_whole_while_they_accumulate() -> None:
    """LoRA of Llama 2 13B over 4 A100 with LitGPT takes 35.6 GB, 26.0 of which its weights would be on one."""
    llama = shipped_architecture("llama-2-13b")
    one, many = (
        states(llama, lora(flat_blocks=True), one_layout(dp=4, sharding=Sharding.ZERO_3, num_micro_batches=m))
        for m in (1, 2)
    )
    assert float(many.gradients[0]) / GB == pytest.approx(25.4, rel=0.01)
    assert float(one.gradients[0]) == pytest.approx(float(many.gradients[0]) / 4)


def test_offloaded_states_lie_in_host_memory() -> None:
    on_host = states(LLAMA, full(BF16_MIXED, replace(ADAMW, is_offloaded=True)), one_layout())
    assert float(on_host.host[0]) == pytest.approx(12.0 * num_parameters(LLAMA))
    assert float(on_host.optimizer[0] + on_host.master[0]) == 0.0
    layout = one_layout(dp=8, sharding=Sharding.ZERO_3)
    all_away = states(LLAMA, replace(full(), offloads_weights=True), layout)
    assert float(all_away.resident[0]) == 0.0
    assert float(all_away.host[0]) == pytest.approx(18.0 * num_parameters(LLAMA) / 8)


def test_gradients_in_the_backward_pass_leave_only_the_largest() -> None:
    in_backward = states(LLAMA, full(BF16_PURE, replace(ADAMW, in_backward=True)), one_layout())
    largest = max(2.0 * 32000 * 4096, 2.0 * 202_383_360)
    assert float(in_backward.last_gradients[0]) == pytest.approx(largest)


def test_autocast_keeps_16_bit_copies_where_weights_are_not_gathered() -> None:
    found = states(LLAMA, full(BF16_AUTOCAST), one_layout())
    parts = parameter_parts(LLAMA)
    assert float(found.gathered[0]) == pytest.approx(2.0 * (parts.total - parts.embedding - parts.head), rel=1e-3)


def test_ddp_copies_gradients_into_buckets_unless_they_have_a_buffer() -> None:
    two, alone = (states(LLAMA, full(BF16_PURE), one_layout(dp=dp)) for dp in (2, 1))
    assert float(two.buffers[0]) == pytest.approx(2.0 * num_parameters(LLAMA))
    assert float(alone.buffers[0]) == 0.0
    assert float(states(LLAMA, full(BF16_MIXED), one_layout(dp=2)).buffers[0]) == 0.0


def test_many_layouts_are_what_each_is_alone() -> None:
    layouts = [one_layout(tp=2, dp=4, sharding=Sharding.ZERO_3), one_layout(pp=4, dp=2), one_layout(cp=2, dp=8)]
    together = TrainingLayouts(
        **{name: np.concatenate([each.columns()[name] for each in layouts]) for name in layouts[0].columns()}
    )
    found = states(LLAMA, full(), together).resident
    assert found == pytest.approx([float(states(LLAMA, full(), each).resident[0]) for each in layouts])


def test_weights_of_4_bits_are_widened_a_matrix_at_a_time_and_stock_trainers_keep_ends_in_fp32() -> None:
    """70B: down projection of 28,672 x 8,192; embedding and head of 32,000 words, 2 bytes more each."""
    large = shipped_architecture("llama-2-70b")
    four_bits, wide = lora(Method.QLORA, base=QLORA_BASE), lora()
    widened = states(large, four_bits, one_layout()).gathered - states(large, wide, one_layout()).gathered
    assert float(widened[0]) == 28_672 * 8_192 * 2
    stock = states(large, lora(Method.QLORA, base=EAGER_QLORA_BASE), one_layout())
    more = float((stock.weights - states(large, four_bits, one_layout()).weights)[0])
    assert more >= 2 * 2 * 32_000 * 8_192
