"""KV cache against values computed by hand from the published shapes."""

from __future__ import annotations

import numpy as np
import pytest

from gpufleet.architecture.kv_cache import (
    kv_bytes_per_sequence,
    layer_kv_bytes,
    state_bytes_per_sequence,
)
from gpufleet.catalog.models import shipped_architecture
from gpufleet.memory.kv import state_bytes_per_sequence_per_device
from gpufleet.units import GIB

BF16_BYTES = 2.0


def test_sixteen_sequences_of_llama_70b_at_4096_tokens_take_twenty_gib():
    arch = shipped_architecture("llama-3.1-70b")
    by_hand = 16 * 2 * 80 * 8 * 128 * 2 * 4096
    assert 16 * kv_bytes_per_sequence(arch, BF16_BYTES, 4096) == by_hand == 20 * GIB


def test_deepseek_v3_keeps_one_latent_of_576_numbers_per_layer():
    """DeepSeek-V3 (arXiv:2412.19437): 61 layers, latent 512, rotary key 64: 70,272 bytes a token in bf16."""
    arch = shipped_architecture("deepseek-v3")
    assert kv_bytes_per_sequence(arch, BF16_BYTES, 1) == 61 * (512 + 64) * 2 == 70_272
    assert kv_bytes_per_sequence(arch, BF16_BYTES, 32_768) == 70_272 * 32_768


def test_mistral_7b_stops_growing_at_its_window():
    """Mistral 7B (arXiv:2310.06825): 32 layers, 8 KV heads of 128, window 4096."""
    arch = shipped_architecture("mistral-7b-v0.1")
    per_token = 2 * 32 * 8 * 128 * 2
    contexts = np.array([1.0, 4095.0, 4096.0, 4097.0, 32_768.0])
    expected = per_token * np.array([1, 4095, 4096, 4096, 4096])
    assert kv_bytes_per_sequence(arch, BF16_BYTES, contexts).tolist() == expected.tolist()


def test_gpt_oss_slides_over_128_tokens_in_every_other_layer():
    """gpt-oss (arXiv:2508.10925): 36 layers, half of them with a window of 128; 8 KV heads of 64."""
    arch = shipped_architecture("gpt-oss-120b")
    per_layer_token = 2 * 8 * 64 * 2
    kept = [(block.count, layer_kv_bytes(block.mixer, BF16_BYTES, 8192)) for block in arch.blocks]
    assert sorted(kept) == [(18, per_layer_token * 128), (18, per_layer_token * 8192)]


def test_gemma_3_has_five_local_layers_for_each_global_one():
    """Gemma 3 12B (arXiv:2503.19786): 48 layers, 8 global, window 1024; 8 KV heads of 256."""
    arch = shipped_architecture("gemma-3-12b")
    per_layer_token = 2 * 8 * 256 * 2
    by_hand = per_layer_token * (8 * 32_768 + 40 * 1024)
    assert kv_bytes_per_sequence(arch, BF16_BYTES, 32_768) == by_hand == 2_483_027_968


def test_llama_4_keeps_one_chunk_in_three_layers_of_four():
    """Llama 4 Scout: 48 layers, every fourth sees everything, chunks of 8192; 8 KV heads of 128."""
    arch = shipped_architecture("llama-4-scout")
    per_layer_token = 2 * 8 * 128 * 2
    assert kv_bytes_per_sequence(arch, BF16_BYTES, 100_000) == per_layer_token * (12 * 100_000 + 36 * 8192)


@pytest.mark.parametrize("bytes_per_element", [1.0, 2.0])
def test_fp8_cache_is_half_of_bf16(bytes_per_element):
    arch = shipped_architecture("llama-3.3-70b")
    assert kv_bytes_per_sequence(arch, bytes_per_element, 1) == 163_840 * bytes_per_element


def test_deepseek_v32_caches_656_bytes_a_token_in_fp8_and_132_for_its_index():
    """vLLM v1/kv_cache_interface.py, MLAAttentionSpec (fp8_ds_mla), and its index in fp8: 61 layers."""
    arch = shipped_architecture("deepseek-v3.2")
    assert kv_bytes_per_sequence(arch, 1.0, 1000) == 1000 * 61 * (656 + 132)
    assert kv_bytes_per_sequence(arch, BF16_BYTES, 1000) == 1000 * 61 * (576 * 2 + 132)


def test_a_block_of_256_tokens_of_deepseek_v4_flash_is_what_vllm_allocates():
    """vllm-project/vllm issues/54703: 1,002,240 bytes for 62 caches and indices, pages of whole 576 bytes; 2 %."""
    arch = shipped_architecture("deepseek-v4-flash")
    grown = kv_bytes_per_sequence(arch, 1.0, 512_000) - kv_bytes_per_sequence(arch, 1.0, 256_000)
    assert grown / 1000 == pytest.approx(1_002_240, rel=0.02)


def test_the_state_of_nemotron_3_ultra_is_what_sglang_allocates():
    """A log of the dgxarley project: 48 states and a spare one take 4.59 + 0.06 GiB on each of four GPUs; 1 %."""
    arch = shipped_architecture("nemotron-3-ultra-550b-a55b")
    state = float(state_bytes_per_sequence_per_device(arch, 4))
    assert 49 * state / GIB == pytest.approx(4.59 + 0.06, rel=0.01)
    caches = kv_bytes_per_sequence(arch, 1.0, 774_547) - state_bytes_per_sequence(arch)
    assert caches / 2 / GIB == pytest.approx(1.11 + 1.11, rel=0.01)
