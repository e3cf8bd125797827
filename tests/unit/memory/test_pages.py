"""Pools of equal pages: block sizes, groups and sequences that vLLM logged."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gpufleet.catalog.engine_eras import load_engine
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.models import shipped_architecture
from gpufleet.domain.architecture import Architecture, Attention, Block, DenseMlp
from gpufleet.domain.engine_start import EngineStart
from gpufleet.domain.layout import Layout
from gpufleet.domain.precision import FP8
from gpufleet.memory.fit import Demand, MemoryBudget, memory_budget, memory_terms, pool_bytes_per_sequence
from gpufleet.memory.kv import kv_bytes_per_sequence_per_device, state_bytes_per_sequence_per_device
from gpufleet.memory.overhead import EngineMemory
from gpufleet.memory.pages import (
    Pages,
    blocks_per_sequence,
    group_size,
    paged_bytes_per_sequence,
    pages_of,
    shares_pages,
)
from gpufleet.units import GIB


def whole_blocks(pages: Pages, pool_gib: float) -> int:
    return int(pool_gib * GIB / float(pages.block_bytes))


def sequences(pages: Pages, blocks: int, context_tokens: int, states: int, prefill_tokens: int = 0) -> float:
    per_sequence = paged_bytes_per_sequence(pages, context_tokens, states, prefill_tokens)
    return blocks * float(pages.block_bytes) / float(per_sequence)


@pytest.mark.parametrize(
    ("model", "tp", "pool_gib", "logged_tokens"),
    [
        ("qwen3.6-35b-a3b-nvfp4", 1, 5.98, 567_978),  # noonghunna/club-3090 issues/612, vLLM 0.24
        ("qwen3.6-35b-a3b-nvfp4", 1, 6.01, 569_878),  # noonghunna/club-3090 issues/652, vLLM 0.24
        ("qwen3.5-27b", 2, 4.99, 302_921),  # mitchross/talos-argocd-proxmox pull/1995, Qwen3.8-27B: the same shape
    ],
)
def test_pools_of_hybrids_hold_the_tokens_that_vllm_logs(
    model: str, tp: int, pool_gib: float, logged_tokens: int
) -> None:
    """fp8 KV, prefix caching (two states a sequence), max_model_len 131,072; tolerance: none."""
    pages = pages_of(shipped_architecture(model), 1.0, tp)
    held = sequences(pages, whole_blocks(pages, pool_gib), 131_072, states=2)
    assert int(held * 131_072) == logged_tokens


def test_before_0_21_tokens_were_counted_as_if_blocks_were_dealt_out_evenly() -> None:
    """vllm-project/vllm issues/40691, vLLM 0.19, Qwen3.5-27B in bf16: 290,864 tokens beside 33.04 x 32,768."""
    pages = pages_of(shipped_architecture("qwen3.5-27b"), 2.0)
    assert sequences(pages, 1487, 32_768, states=1) == pytest.approx(33.04, abs=0.005)
    in_groups = 1487 // sum(pages.groups) * sum(pages.groups) * float(pages.block_bytes)
    assert in_groups / float(pages.bytes_per_logged_token) == pytest.approx(290_864)


@pytest.mark.parametrize(
    ("model", "kv_bytes", "tp", "block_tokens"),
    [
        ("qwen3.5-27b", 1.0, 1, 1568),  # club-3090 issues/1047: "Setting attention block size to 1568 tokens"
        ("qwen3.5-27b", 1.0, 2, 1568),  # talos-argocd-proxmox pull/1995
        ("qwen3.5-27b", 2.0, 1, 784),  # vllm issues/40691
        ("qwen3-next-80b-a3b", 2.0, 1, 544),  # logs of vLLM 0.11: "Setting attention block size to 544 tokens"
        ("qwen3-next-80b-a3b", 2.0, 2, 544),
    ],
)
def test_attention_blocks_are_enlarged_until_a_state_fits(
    model: str, kv_bytes: float, tp: int, block_tokens: int
) -> None:
    pages = pages_of(shipped_architecture(model), kv_bytes, tp)
    assert min(float(tokens) for tokens in pages.block_tokens) == block_tokens


def test_padding_a_state_to_its_page_costs_what_vllm_says() -> None:
    """club-3090 issues/1047: "Padding mamba page size by 0.13%"."""
    arch = shipped_architecture("qwen3.5-27b")
    state = 48 * 128 * 128 * 4 + 3 * 10_240 * 2
    assert float(pages_of(arch, 1.0).page_bytes) / state - 1 == pytest.approx(0.0013, abs=0.00005)


def test_a_state_of_qwen3_next_has_sixteen_bits_in_vllm_and_thirty_two_in_sglang() -> None:
    """vLLM 0.11 logs "Padding mamba page size by 1.49%" for it; SGLang's default is float32 (sglang pull/15337)."""
    arch = shipped_architecture("qwen3-next-80b-a3b")
    state = 32 * 128 * 128 * 2 + 3 * 8192 * 2
    assert float(pages_of(arch, 2.0).page_bytes) / state - 1 == pytest.approx(0.0149, abs=0.00005)
    engine = EngineMemory.of(load_engine("sglang"), load_catalog().accelerators["H100-SXM"])
    wide = state_bytes_per_sequence_per_device(arch, least_bytes_per_element=engine.least_state_bytes)
    assert float(wide) == 36 * (32 * 128 * 128 * 4 + 3 * 8192 * 2)


def test_kinds_are_dealt_into_groups_of_the_rarest() -> None:
    """Gemma 3 27B has 52 windowed and 10 full layers: seven groups of ten (vllm v1/core/kv_cache_utils.py)."""
    assert group_size([52, 10]) == 10
    assert group_size([12, 13]) == 13
    assert sum(pages_of(shipped_architecture("gemma-3-12b-text"), 2.0).groups) == 6


def test_padding_is_taken_for_fewer_groups_while_the_commoner_kind_has_less_than_half_more_layers() -> None:
    """vllm v1/core/kv_cache_utils.py: 12 and 13 layers lie in groups of 13; 20 and 30 are the first that do not."""
    assert [group_size([20, commoner]) for commoner in (20, 21, 29, 30, 31, 40)] == [20, 21, 29, 20, 20, 20]


@pytest.mark.parametrize(("window", "prefill", "block"), [(4, 1, 4), (128, 1, 16), (512, 2048, 16), (1000, 1, 32)])
def test_a_window_has_blocks_wherever_it_starts(window: int, prefill: int, block: int) -> None:
    """vllm v1/kv_cache_interface.py: four tokens CDEF take two blocks of four, XXCD and EF."""
    kept = window - 1 + prefill
    touched = [(start + kept - 1) // block - start // block + 1 for start in range(block)]
    attention = Attention(8, 8, 64, window_tokens=window)
    assert blocks_per_sequence(attention, 10**6, block, 1, prefill) == max(touched)


def test_full_heads_of_another_size_get_smaller_blocks() -> None:
    """Gemma 4: a page holds 16 tokens of one kind and 32 of the other, never a part of a block."""
    pages = pages_of(shipped_architecture("gemma-4-26b-a4b"), 2.0)
    assert sorted(float(tokens) for tokens in pages.block_tokens) == [16, 32]


@pytest.mark.parametrize("model", ["llama-3.1-8b", "deepseek-v3.2", "mamba2-2.7b", "deepseek-v4-flash"])
def test_layers_that_grow_alike_lie_side_by_side(model: str) -> None:
    arch = shipped_architecture(model)
    assert not shares_pages(arch)
    engine = EngineMemory.of(load_engine("vllm"), load_catalog().accelerators["H100-SXM"])
    demand = Demand(2.0, 4096.0)
    apart = kv_bytes_per_sequence_per_device(arch, 2.0, 4096.0, block_tokens=engine.kv_block_tokens)
    assert float(pool_bytes_per_sequence(arch, engine, demand)) == float(apart)


@pytest.mark.parametrize("model", ["gpt-oss-20b", "qwen3.5-35b-a3b", "nemotron-h-56b", "kimi-linear-48b-a3b"])
def test_equal_pages_never_take_less_than_the_caches_in_them(model: str) -> None:
    arch, contexts = shipped_architecture(model), np.array([1.0, 1000.0, 32768.0, 131072.0])
    paged = paged_bytes_per_sequence(pages_of(arch, 2.0), contexts)
    assert (paged >= kv_bytes_per_sequence_per_device(arch, 2.0, contexts)).all()
    assert (np.diff(paged) >= 0).all()


def test_engines_with_pools_of_their_own_are_gathered_beside_those_with_shared_pages() -> None:
    arch, gpu = shipped_architecture("qwen3.5-35b-a3b"), load_catalog().accelerators["H100-SXM"]
    both = EngineMemory.gather([load_engine("vllm"), load_engine("sglang")], [gpu], np.array([0, 1]), np.array([0, 0]))
    shared, apart = np.asarray(pool_bytes_per_sequence(arch, both, Demand(2.0, 4096.0)))
    assert shared == paged_bytes_per_sequence(pages_of(arch, 2.0), 4096.0)
    assert apart == pytest.approx(5 * 30 * (32 * 128 * 128 * 4 + 3 * 8192 * 2) * 1.9 / 0.9)


def test_sglang_splits_its_pool_between_caches_and_states() -> None:
    """sgl-project/sglang issues/25993: Qwen3.5-122B, TP4: 47 % of the rest, 15.9 GB, hold about 435 states; 3 %."""
    arch, gpu = shipped_architecture("qwen3.5-122b-a10b"), load_catalog().accelerators["H100-SXM"]
    engine = EngineMemory.of(load_engine("sglang"), gpu)
    rest = 15.9 * GIB / (0.9 / 1.9)
    short = float(pool_bytes_per_sequence(arch, engine, Demand(2.0, 1024.0, tp=4)))
    assert 5 * rest / short == pytest.approx(435, rel=0.03)
    longer = [float(pool_bytes_per_sequence(arch, engine, Demand(2.0, c, tp=4))) for c in (1024.0, 8192.0, 262144.0)]
    assert longer[0] == longer[1] < longer[2]


def test_sglang_keeps_a_buffer_of_states_for_each_request_since_it_is_the_default() -> None:
    """sgl-project/sglang pull/26127: auto takes the extra buffer, 3 states and 2; before, states / 3 ran."""
    arch, demand = shipped_architecture("qwen3.5-27b"), Demand(2.0, 1024.0)
    earlier, today = (float(pool_bytes_per_sequence(arch, sglang(v), demand)) for v in ("0.5.9", "0.5.16"))
    assert today / earlier == pytest.approx(5 / 3)


def sglang(version: str | None = None) -> EngineMemory:
    return EngineMemory.of(load_engine("sglang", version), load_catalog().accelerators["H100-SXM"])


@pytest.mark.parametrize(("version", "pool_ratio"), [("0.4.6", 1.0), (None, 0.8)])
def test_layers_with_windows_have_a_pool_of_their_own_in_sglang(version: str | None, pool_ratio: float) -> None:
    """pull/39310: 18,432 and 55,296 bytes a token of 9 layers that see everything and 27 with a window of 512, fp8."""
    mlp = DenseMlp(1024, True)
    blocks = (Block(9, Attention(16, 4, 256), mlp), Block(27, Attention(16, 4, 256, window_tokens=512), mlp))
    arch = Architecture("spark-x2.5", "spark2_5", 2048, 128256, blocks, False, 131072)
    for context in (1000.0, 100_000.0):
        expected = context * (18432 + pool_ratio * 55296)
        assert float(pool_bytes_per_sequence(arch, sglang(version), Demand(1.0, context))) == pytest.approx(
            expected, rel=1e-3
        )


def test_windows_had_no_pools_in_tensorrt_llm_before_1_0() -> None:
    """pull/5151."""
    arch, gpu = shipped_architecture("gemma-3-27b"), load_catalog().accelerators["H100-SXM"]
    old, new = (
        float(pool_bytes_per_sequence(arch, EngineMemory.of(load_engine("tensorrt-llm", v), gpu), Demand(2.0, 32768.0)))
        for v in ("0.21", "1.0")
    )
    assert old / new == pytest.approx(62 / (10 + 52 * 1024 / 32768), rel=0.01)


@pytest.mark.parametrize(
    ("model", "engine", "words"),
    [
        ("qwen3.6-35b-a3b-nvfp4", "vllm", "blocks of 20.5 MiB: 3 x a state, 1 x 2096 tokens"),
        ("qwen3.5-35b-a3b", "sglang", "max(caches (1 + r), states x state (1 + r) / r)"),
        ("llama-3.1-8b", "vllm", "min(context, window) in blocks"),
    ],
)
def test_a_budget_says_how_a_sequence_takes_its_pool(model: str, engine: str, words: str) -> None:
    arch, profile = shipped_architecture(model), load_engine(engine)
    rules = EngineMemory.of(profile, load_catalog().accelerators["H100-SXM"])
    budget = memory_budget(arch, arch.weights, rules, Demand(1.0, 131_072.0))
    terms = {term.name: term for term in memory_terms(arch, arch.weights, FP8, profile, Layout(), budget)}
    assert words in f"{terms['KV of one sequence'].formula}; {terms['KV of one sequence'].inputs}"
    assert ("graphs" in terms["KV pool"].formula) == (engine == "vllm")
    assert ("image" in terms["activations"].formula) == (engine == "vllm" and arch.vision is not None)


def test_a_start_needs_room_for_windows_with_a_whole_step_of_a_prompt() -> None:
    """vLLM refuses gemma-3-27b at 40,960 tokens on an RTX 4090: it wants 4.54 GiB of KV where 3.6 are held later."""
    budget = budget_of("gemma-3-27b", "RTX-4090", 40_960)
    assert float(budget.startup_kv_bytes) / GIB == pytest.approx(4.54, abs=0.005)
    assert float(budget.kv_bytes_per_sequence) / GIB == pytest.approx(3.60, abs=0.005)
    assert budget.start_decides


@pytest.mark.parametrize(
    "model", ["gemma-2-9b", "gemma-3-12b", "gpt-oss-20b", "mistral-7b-v0.1", "phi-3-mini-4k", "qwen3-next-80b-a3b"]
)
def test_a_start_needs_no_less_than_decoding_and_no_more_than_everything_kept(model: str) -> None:
    """Shorter steps ask for less; a context within window and step asks for no more than a model without windows."""
    small, large = (budget_of(model, "L4", 65_536, step) for step in (512, 4096))
    assert small.kv_bytes_per_sequence <= small.startup_kv_bytes <= large.startup_kv_bytes
    has_window = any(getattr(b.mixer, "window_tokens", math.inf) < math.inf for b in shipped_architecture(model).blocks)
    assert bool(large.startup_kv_bytes > large.kv_bytes_per_sequence) is has_window


def test_a_pool_that_an_engine_does_not_start_with_serves_nobody() -> None:
    budget = budget_of("gemma-3-27b", "RTX-4090", 40_960)
    between = (float(budget.startup_kv_bytes) + float(budget.kv_bytes_per_sequence)) / 2
    assert (budget.sequences_in(between), budget.sequences_in(float(budget.startup_kv_bytes))) == (0.0, 1.0)


def test_vllm_before_v1_has_no_such_check() -> None:
    budget = budget_of("mistral-7b-v0.1", "L4", 32_768, version="0.7.3")
    assert budget.startup_kv_bytes == budget.kv_bytes_per_sequence


def budget_of(
    model: str, gpu: str, context_tokens: int, step_tokens: int | None = None, version: str | None = None
) -> MemoryBudget:
    arch, accelerator = shipped_architecture(model), load_catalog().accelerators[gpu]
    engine = load_engine("vllm", version).started_with(EngineStart(max_step_tokens=step_tokens))
    demand = Demand(kv_bytes_per_element=2.0, context_tokens=context_tokens)
    return memory_budget(arch, arch.weights, EngineMemory.of(engine, accelerator), demand)
