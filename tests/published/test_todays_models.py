"""Hybrids, windows and sparse attention against values computed by hand from published shapes, and model cards."""

from __future__ import annotations

from collections import Counter

import pytest

from gpufleet.architecture.flops import flop_per_token
from gpufleet.architecture.kv_cache import (
    bytes_per_vector,
    index_bytes_per_sequence,
    kv_bytes_per_sequence,
    layer_kv_bytes,
    state_bytes_per_sequence,
)
from gpufleet.architecture.parameters import num_active_parameters, num_parameters, num_text_parameters, weights_bytes
from gpufleet.catalog.models import shipped_architecture
from gpufleet.domain.architecture import Architecture
from gpufleet.units import GIGA, MIB

BF16_BYTES, FP8_BYTES = 2.0, 1.0
MILLION_TOKENS = 2**20


def layers_by_kv_bytes(arch: Architecture, context_tokens: int) -> dict[float, int]:
    """How many layers keep so many bytes of one sequence in bf16."""
    counts: Counter[float] = Counter()
    for block in arch.blocks:
        counts[float(layer_kv_bytes(block.mixer, BF16_BYTES, context_tokens))] += block.count
    return dict(counts)


def test_qwen3_5_keeps_a_matrix_per_head_in_three_layers_of_four():
    """Qwen3.5-35B-A3B: 30 of 40 layers with 32 heads of 128 x 128 in fp32; 10 with 2 KV heads of 256."""
    arch = shipped_architecture("Qwen/Qwen3.5-35B-A3B")
    state = 30 * (32 * 128 * 128 * 4 + 3 * (2 * 16 * 128 + 32 * 128) * 2)
    assert state_bytes_per_sequence(arch) == state == pytest.approx(61.4 * MIB, rel=1e-3)
    assert layers_by_kv_bytes(arch, 1) == {2 * 2 * 256 * 2: 10, state / 30: 30}
    assert kv_bytes_per_sequence(arch, BF16_BYTES, 32_768) == state + 20_480 * 32_768


def test_nemotron_3_nano_grows_only_in_its_six_attention_layers():
    """Nemotron 3 Nano: 23 Mamba-2 layers of 64 heads x 64 x 128, 6 attention layers with 2 KV heads of 128."""
    arch = shipped_architecture("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16")
    growth = kv_bytes_per_sequence(arch, BF16_BYTES, 2) - kv_bytes_per_sequence(arch, BF16_BYTES, 1)
    assert growth == 6 * 2 * 2 * 128 * 2
    element_bytes = 4 if "float32" in str(arch.notes) else arch.blocks[0].mixer.state_bytes_per_element
    assert state_bytes_per_sequence(arch) == 23 * (64 * 64 * 128 * element_bytes + 3 * (4096 + 2 * 8 * 128) * 2)


def test_deepseek_v3_2_adds_an_index_to_its_latent():
    """DeepSeek-V3.2 (arXiv:2512.02556): 61 layers, index keys of 128 in fp8 with one fp32 scale."""
    arch = shipped_architecture("deepseek-v3.2")
    assert 61 * bytes_per_vector(arch.blocks[0].mixer, BF16_BYTES) == 70_272
    assert index_bytes_per_sequence(arch, 1) == 61 * (128 + 4)
    assert kv_bytes_per_sequence(arch, BF16_BYTES, 10_000) == 10_000 * (70_272 + 8_052)


def test_three_glm_5_2_layers_of_four_borrow_the_index_below():
    """GLM-5.2: 78 layers, 21 with an index of their own."""
    arch = shipped_architecture("zai-org/GLM-5.2")
    assert index_bytes_per_sequence(arch, 1) == 21 * 132
    assert all(block.mixer.kept_tokens == 2048 for block in arch.blocks)


# Model cards of DeepSeek-V4-Pro and -Flash, huggingface.co/deepseek-ai, April 2026: share of DeepSeek-V3.2 at a million
# tokens. The cache of V3.2 counts as its card does, in fp8 with bf16 positions and scales: 656 bytes a token and layer.
V4_SHARES = {"deepseek-v4-pro": (0.10, 0.27), "deepseek-v4-flash": (0.07, 0.10)}


@pytest.mark.parametrize(("model", "shares"), V4_SHARES.items())
def test_deepseek_v4_needs_the_published_share_of_cache_and_work_at_a_million_tokens(model, shares):
    arch, before = shipped_architecture(model), shipped_architecture("deepseek-v3.2")
    cache = kv_bytes_per_sequence(arch, FP8_BYTES, MILLION_TOKENS) / (61 * (656 + 132) * MILLION_TOKENS)
    work = flop_per_token(arch, MILLION_TOKENS).total / flop_per_token(before, MILLION_TOKENS).total
    assert cache == pytest.approx(shares[0], rel=0.35)
    assert work == pytest.approx(shares[1], rel=0.35)


def test_deepseek_v4_flash_keeps_one_vector_in_four_or_in_a_hundred_and_twenty_eight_tokens():
    """DeepSeek-V4-Flash: 43 layers: 2 windows of 128, 21 with 4 tokens an entry, 20 with 128; vectors of 512."""
    arch = shipped_architecture("deepseek-v4-flash")
    entries = 43 * 128 + 21 * 4096 // 4 + 20 * 4096 // 128
    index_bytes = 21 * 1024 * 132
    assert index_bytes_per_sequence(arch, 4096) == index_bytes
    assert kv_bytes_per_sequence(arch, BF16_BYTES, 4096) == entries * 512 * 2 + index_bytes


def test_gemma_4_has_wider_heads_in_its_global_layers():
    """Gemma 4 26B-A4B: 30 layers, 5 global with 2 KV heads of 512, 25 over 1,024 tokens with 8 of 256."""
    arch = shipped_architecture("google/gemma-4-26B-A4B")
    assert layers_by_kv_bytes(arch, 8192) == {2 * 2 * 512 * 2 * 8192: 5, 2 * 8 * 256 * 2 * 1024: 25}


def test_mimo_v2_keeps_narrow_values():
    """MiMo-V2-Flash: keys of 192, values of 128; 9 full layers with 4 KV heads, 39 windows of 128 with 8."""
    arch = shipped_architecture("XiaomiMiMo/MiMo-V2-Flash")
    assert layers_by_kv_bytes(arch, 1000) == {4 * (192 + 128) * 2 * 1000: 9, 8 * (192 + 128) * 2 * 128: 39}


# Sizes on model cards, in billions: all parameters, and those that serve a token; cards round, and leave out embeddings
# or count modules that predict several tokens.
MODEL_CARDS = {
    "deepseek-v4-pro": (1600, 49),
    "deepseek-v4-flash": (284, 13),
    "glm-5": (744, 40),
    "kimi-k2": (1000, 32),
    "minimax-m2.5": (230, 10),
    "mimo-v2-flash": (309, 15),
    "nemotron-3-super-120b-a12b-nvfp4": (120, 12),
    "nemotron-3-ultra-550b-a55b": (550, 55),
    "nemotron-super-49b-v1": (49.9, 49.9),
    "olmoe-1b-7b": (6.9, 1.3),
    "qwen-7b": (7.72, 7.72),
    "qwen3-next-80b-a3b": (80, 3.9),
    "qwen3.5-397b-a17b": (397, 17),
    "step-3.7-flash": (196, 11),
}


@pytest.mark.parametrize(("model", "billions"), MODEL_CARDS.items())
def test_sizes_are_those_of_the_model_cards(model, billions):
    arch = shipped_architecture(model)
    assert num_text_parameters(arch) / GIGA == pytest.approx(billions[0], rel=0.03)
    assert num_active_parameters(arch) / GIGA == pytest.approx(billions[1], rel=0.12)


def test_kimi_k3_is_a_checkpoint_of_1560_gigabytes():
    """moonshotai/Kimi-K3 as its loaders report it: 1.56 TB, experts in MXFP4; no class counts its parameters."""
    arch = shipped_architecture("moonshotai/Kimi-K3")
    assert weights_bytes(arch, arch.weights) / GIGA == pytest.approx(1560, rel=0.005)
    assert num_text_parameters(arch) == 2_779_484_393_568


def test_a_vision_tower_counts_among_parameters_and_weights_but_serves_no_token_of_text():
    arch = shipped_architecture("qwen3.5-27b")
    assert num_parameters(arch) - num_text_parameters(arch) == arch.vision.params == 460_730_096
    assert num_active_parameters(arch) == num_text_parameters(arch)
    assert weights_bytes(arch, arch.weights) == 2 * num_parameters(arch)
