"""Laws of operators: what must hold on every accelerator and every shape."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gpufleet.catalog.calibration import load_calibration
from gpufleet.catalog.load import load_catalog
from gpufleet.domain.calibration import Calibration, engine_index
from gpufleet.performance.attention import attention_decode_s, attention_prefill_s, rising_window
from gpufleet.performance.collectives import all_reduce_s
from gpufleet.performance.gemm import gemm_roofline_s, gemm_s
from gpufleet.performance.moe import busiest_rank, experts_s
from gpufleet.units import GIGA

ACCELERATORS = tuple(load_catalog().accelerators.values())
WEIGHTS = ["bf16", "fp16", "fp8", "int4", "nvfp4", "mxfp4"]
counts = st.integers(1, 65536)
accelerator_indices = st.integers(0, len(ACCELERATORS) - 1)
weight_indices = st.integers(0, len(WEIGHTS) - 1)


@lru_cache(maxsize=2)
def calibration(speed: float = 1.0) -> Calibration:
    faster = [replace(a, bandwidth_bytes_per_s=speed * a.bandwidth_bytes_per_s) for a in ACCELERATORS]
    return load_calibration([replace(f, name=a.name) for f, a in zip(faster, ACCELERATORS, strict=True)])


def one(value: int) -> np.ndarray:
    return np.array([value])


@settings(max_examples=60, deadline=None)
@given(accelerator_indices, weight_indices, counts, counts, counts)
def test_no_product_beats_the_roofline(gpu: int, weights: int, m: int, n: int, k: int) -> None:
    curves = calibration().gemm(one(gpu), WEIGHTS, one(weights))
    assert gemm_s(curves, m, n, k)[0] >= gemm_roofline_s(curves, m, n, k)[0]


@settings(max_examples=60, deadline=None)
@given(accelerator_indices, weight_indices, counts, counts, counts)
def test_faster_memory_never_slows_a_product(gpu: int, weights: int, m: int, n: int, k: int) -> None:
    before, after = (calibration(speed).gemm(one(gpu), WEIGHTS, one(weights)) for speed in (1.0, 1.5))
    if before.table != after.table:  # a rule may see a card with faster memory as an HBM card
        after = replace(after, table=before.table, log_slowdown=before.log_slowdown)
    assert gemm_s(after, m, n, k)[0] <= gemm_s(before, m, n, k)[0]


@settings(max_examples=60, deadline=None)
@given(accelerator_indices, st.integers(1, 512), st.integers(1, 131072), st.sampled_from([1, 2, 8, 32]))
def test_decode_attention_is_positive_and_takes_longer_over_eight_times_the_context(
    gpu: int, batch: int, context: int, kv_heads: int
) -> None:
    curves = calibration().attention(one(gpu), ["fp16"], one(0))
    near, far = (attention_decode_s(curves, batch, 32, kv_heads, 128, tokens)[0] for tokens in (context, 8 * context))
    assert near > 0
    assert far >= 0.9 * near


@settings(max_examples=60, deadline=None)
@given(accelerator_indices, st.integers(1, 64), st.integers(1, 16384), st.integers(0, 65536))
def test_a_prefix_never_makes_a_prompt_cheaper_by_much(gpu: int, sequences: int, queries: int, prefix: int) -> None:
    """Of a few tokens a lent curve may fall by a quarter between two of its knots."""
    curves = calibration().attention(one(gpu), ["fp16"], one(0))
    alone = attention_prefill_s(curves, sequences, queries, queries, 32, 8, 128)[0]
    assert attention_prefill_s(curves, sequences, queries, queries + prefix, 32, 8, 128)[0] >= 0.7 * alone


@settings(max_examples=60, deadline=None)
@given(accelerator_indices, st.integers(1, 8192), st.sampled_from([1.0, 2.0, 4.0, 8.0]))
def test_eight_times_the_tokens_never_make_experts_cheaper(gpu: int, tokens: int, ep: float) -> None:
    curves = calibration().experts(one(gpu), ["fp16"], one(0))
    loads = (busiest_rank(float(count), 128, 8, ep, 0.5) for count in (tokens, 8 * tokens))
    few, many = (experts_s(curves, load, 4096, 1536, ep, 1.0)[0] for load in loads)
    assert many >= 0.9 * few


@settings(max_examples=60, deadline=None)
@given(accelerator_indices, st.floats(8, 2**31), st.sampled_from([2, 3, 4, 6, 8, 16]), st.booleans())
def test_a_wider_link_never_slows_an_all_reduce(gpu: int, size_bytes: float, ranks: int, pcie: bool) -> None:
    slow, fast = (calibration().collectives(one(gpu), np.array([pcie]), np.array([w * GIGA])) for w in (16, 64))
    narrow, wide = (all_reduce_s(curves, size_bytes, one(ranks))[0] for curves in (slow, fast))
    assert 0 < wide <= narrow


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(accelerator_indices, counts), min_size=1, max_size=8))
def test_many_candidates_at_once_equal_each_on_its_own(rows: list[tuple[int, int]]) -> None:
    gpus, tokens = (np.array(column) for column in zip(*rows, strict=True))
    together = gemm_s(calibration().gemm(gpus, ["fp16"], np.zeros_like(gpus)), tokens, 4096, 4096)
    alone = [gemm_s(calibration().gemm(one(g), ["fp16"], one(0)), t, 4096, 4096)[0] for g, t in rows]
    np.testing.assert_allclose(together, alone, rtol=1e-12)


@settings(max_examples=60, deadline=None)
@given(
    accelerator_indices,
    st.sampled_from(["", "vllm", "sglang", "tensorrt-llm"]),
    st.floats(16, 8192),
    st.floats(128, 131072),
    st.sampled_from([128.0, 1024.0, np.inf]),
)
def test_one_percent_more_changes_seconds_by_little_and_never_down(
    gpu: int, name: str, tokens: float, context: float, window: float
) -> None:
    """No step down beyond the springs of the fit, no jump up, at any engine and in any cell."""
    engine = engine_index([name])
    curves = calibration().attention(one(gpu), ["fp16"], one(0), engine)
    attention = replace(curves, window=rising_window(curves.window))
    experts = calibration().experts(one(gpu), ["fp16"], one(0), engine)
    product = calibration().gemm(one(gpu), ["fp16"], one(0))
    for rise in (
        lambda x: gemm_s(product, tokens * x, 4096, 4096),
        lambda x: experts_s(experts, busiest_rank(tokens * x, 128, 8, 1.0, 0.5), 4096, 1536, 1.0, 1.0),
        lambda x: attention_decode_s(attention, 32, 32, 8, 128, context * x, window),
        lambda x: attention_decode_s(attention, tokens * x, 32, 8, 128, 1000, window),
    ):
        before, after = (float(rise(x)[0]) for x in (1.0, 1.01))
        assert 0.995 * before <= after <= 1.04 * before or not np.isfinite(before)
