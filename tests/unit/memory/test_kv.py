"""KV bytes of one sequence on one device."""

import numpy as np
import pytest

from gpufleet.architecture.kv_cache import kv_bytes_per_sequence
from gpufleet.catalog.models import shipped_architecture
from gpufleet.memory.kv import kv_bytes_per_sequence_per_device
from gpufleet.units import GIB


def test_sixteen_sequences_of_llama_70b_take_twenty_gib() -> None:
    arch = shipped_architecture("llama-3.1-70b")
    assert 16 * float(kv_bytes_per_sequence_per_device(arch, 2.0, 4096)) == 20 * GIB


@pytest.mark.parametrize("name", ["llama-3.3-70b", "deepseek-v3", "gpt-oss-20b", "gemma-3-12b-text"])
def test_one_device_caches_what_the_model_caches(name: str) -> None:
    arch = shipped_architecture(name)
    assert float(kv_bytes_per_sequence_per_device(arch, 2.0, 32768)) == float(kv_bytes_per_sequence(arch, 2.0, 32768))


def test_every_rank_keeps_the_latent_of_deepseek() -> None:
    arch = shipped_architecture("deepseek-v3")
    assert set(kv_bytes_per_sequence_per_device(arch, 2.0, 1000, np.array([1, 4, 8]))) == {61 * 576 * 2 * 1000.0}


def test_kv_heads_are_copied_when_tp_exceeds_them() -> None:
    arch = shipped_architecture("llama-3.3-70b")
    per_rank = kv_bytes_per_sequence_per_device(arch, 2.0, 8192, np.array([4, 8, 16]))
    assert (per_rank / per_rank[1]).tolist() == [2, 1, 1]


def test_blocks_are_whole() -> None:
    arch = shipped_architecture("llama-3.1-8b")
    assert float(kv_bytes_per_sequence_per_device(arch, 2.0, 17, block_tokens=16)) == 32 * 131072
    assert float(kv_bytes_per_sequence_per_device(arch, 2.0, 17)) == 17 * 131072


def test_a_window_stops_the_growth() -> None:
    arch = shipped_architecture("mistral-7b-v0.1")
    four, thirty_two = kv_bytes_per_sequence_per_device(arch, 2.0, np.array([4096.0, 32768.0]))
    assert four == thirty_two
