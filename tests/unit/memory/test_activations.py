"""Buffers of a forward pass and a sampler, counted by hand from a model's shape."""

from __future__ import annotations

from dataclasses import replace

from gpufleet.catalog.engines import find_engine
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.models import shipped_architecture
from gpufleet.domain.architecture import Attention, Block, DenseMlp, MixtureOfExperts
from gpufleet.memory.activations import forward_bytes, mlp_elements_per_token, moe_workspace_bytes, sampler_bytes
from gpufleet.memory.band import Band
from gpufleet.memory.overhead import EngineMemory

ATTENTION = Attention(32, 8, 128)
VLLM = EngineMemory.of(find_engine("vllm"), load_catalog().accelerators["H100-SXM"])


def counting(**copies: float) -> EngineMemory:
    """An engine that keeps so many copies, without a range."""
    return replace(VLLM, **{name: Band.exact(number) for name, number in copies.items()})


def test_a_gated_mlp_keeps_gate_and_up_of_its_cut_width() -> None:
    assert mlp_elements_per_token(Block(1, ATTENTION, DenseMlp(14336, True)), 4096, 4, 4) == 2 * 14336 / 4
    assert mlp_elements_per_token(Block(1, ATTENTION, DenseMlp(16384, False)), 4096, 1, 1) == 16384


def test_shared_experts_work_beside_the_routed_ones() -> None:
    """DeepSeek-V3: 8 of 256 experts of 2,048 and one shared expert of the same width."""
    routed = MixtureOfExperts(256, 8, 2048, True)
    shared = MixtureOfExperts(256, 8, 2048, True, shared_width=2048)
    alone, both = (mlp_elements_per_token(Block(1, ATTENTION, part), 7168, 2, 1) for part in (routed, shared))
    assert alone == 8 * (2 * 2048 + 7168)
    assert both - alone == 2 * 2048 / 2


def test_the_widest_layer_decides_wherever_it_stands() -> None:
    arch = shipped_architecture("deepseek-v2-lite")
    narrow, wide = Block(2, ATTENTION, DenseMlp(1000, True)), Block(1, ATTENTION, DenseMlp(9000, True))
    engine = counting(hidden_copies=3.0, mlp_copies=1.0)
    for blocks in ((narrow, wide), (wide, narrow)):
        held = forward_bytes(engine, replace(arch, blocks=blocks), 10.0, 1, 1)
        assert held.expected == 10 * 2 * (3 * arch.hidden_size + 2 * 9000)


def test_a_sampler_holds_logits_and_hidden_states() -> None:
    arch = shipped_architecture("llama-3.1-8b")
    held = sampler_bytes(counting(logit_bytes=14.0, sampler_hidden_copies=2.0), arch, 256.0, 8192.0)
    assert held.expected == 256 * 128_256 * 14 + 2 * 8192 * 2 * 4096


def test_wide_experts_work_on_gate_and_up_and_half_as_much_again() -> None:
    """Mixtral: gate and up of two experts have 28,672 elements each, the hidden state 4,096."""
    held = moe_workspace_bytes(counting(moe_workspace_copies=1.0), shipped_architecture("mixtral-8x7b"), 100.0, 1)
    assert held.expected == 100 * 2 * 2 * (28_672 + 28_672 / 2)


def test_narrow_experts_work_on_the_hidden_state() -> None:
    """Mixtral's experts cut by 16: gate and up have 1,792 elements, the hidden state 4,096."""
    held = moe_workspace_bytes(counting(moe_workspace_copies=1.0), shipped_architecture("mixtral-8x7b"), 100.0, 16)
    assert held.expected == 100 * 2 * 2 * (4096 + 1792 / 2)
