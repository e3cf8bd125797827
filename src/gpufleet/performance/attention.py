"""Softmax attention over a KV cache (decode) and over prompts (prefill); heads are those of one device."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gpufleet.domain.arrays import FloatArray, Floats
from gpufleet.domain.calibration import AttentionCurves, Curves
from gpufleet.performance.interpolation import curve_s, interpolate, log2
from gpufleet.performance.roofline import PairRoofline, RowRoofline, roofline_s

ACTIVATION_BYTES = 2.0
FULL_PRICE_DOUBLINGS = 0.5
TOKENS_PER_WINDOW = "log2 context / window"


def decode_flop(batch: Floats, num_heads: Floats, head_dim: Floats, context_tokens: Floats) -> Floats:
    """Operations of one decode step: query x keys and weights x values, 2 flop each.

    >>> decode_flop(1, 32, 128, 1000)
    16384000
    """
    return 4 * batch * num_heads * head_dim * context_tokens


def decode_bytes(
    batch: Floats, num_heads: Floats, num_kv_heads: Floats, head_dim: Floats, context_tokens: Floats, kv_bytes: Floats
) -> Floats:
    """Bytes of one decode step: K and V of every token read, query and output of every head.

    >>> decode_bytes(1, 32, 8, 128, 1000, 2.0)
    4112384.0
    """
    per_dimension = context_tokens * (num_kv_heads * kv_bytes) + num_heads * ACTIVATION_BYTES
    return 2 * batch * head_dim * per_dimension


def prefill_flop(sequences: Floats, pairs: Floats, num_heads: Floats, head_dim: Floats) -> Floats:
    """Operations of a prefill: query x keys and weights x values, 2 flop each for every pair that may see each other.

    >>> prefill_flop(1, 1000 * 1001 / 2, 32, 128) / 1e9
    8.200192
    """
    return 4 * sequences * pairs * num_heads * head_dim


def prefill_bytes(
    sequences: Floats,
    query_tokens: Floats,
    context_tokens: Floats,
    num_heads: Floats,
    num_kv_heads: Floats,
    head_dim: Floats,
    kv_bytes: Floats,
) -> Floats:
    """Bytes of a prefill: queries and outputs of every head, K and V of every token that is seen, once.

    >>> prefill_bytes(1, 1000, 1000, 32, 8, 128, 2.0)
    20480000.0
    """
    queries = 2 * query_tokens * num_heads * ACTIVATION_BYTES
    return sequences * head_dim * (queries + 2 * context_tokens * num_kv_heads * kv_bytes)


def causal_pairs(query_tokens: Floats, context_tokens: Floats, window_tokens: Floats = np.inf) -> FloatArray:
    """Query-key pairs of one sequence: the last `query_tokens` of `context_tokens` see what precedes them.

    sum over queries of min(position, window)   [pairs]

    >>> float(causal_pairs(4, 4)), float(causal_pairs(2, 10)), float(causal_pairs(4, 4, 2))
    (10.0, 19.0, 7.0)
    """
    context = np.asarray(context_tokens, dtype=np.float64)
    prefix = np.maximum(context - query_tokens, 0.0)
    return prompt_pairs(context, window_tokens) - prompt_pairs(prefix, window_tokens)


def prompt_pairs(tokens: FloatArray, window_tokens: Floats = np.inf) -> FloatArray:
    """Query-key pairs of a sequence that nothing precedes: every token sees up to a window of those before it.

    >>> float(prompt_pairs(np.array(4.0))), float(prompt_pairs(np.array(4.0), 2))
    (10.0, 7.0)
    """
    if isinstance(window_tokens, float) and window_tokens == np.inf:
        return np.asarray(tokens * (tokens + 1) / 2)
    seen: FloatArray = np.minimum(tokens, window_tokens)
    return seen * (seen + 1) / 2 + (tokens - seen) * seen


def decode_coordinates(
    batch: Floats, num_heads: Floats, num_kv_heads: Floats, head_dim: Floats, context_tokens: Floats
) -> tuple[FloatArray, ...]:
    """Where a decode step stands in the grid: parallel KV streams, context, queries per KV head, head size.

    >>> [float(c) for c in decode_coordinates(8, 32, 8, 128, 4096)]
    [6.0, 12.0, 2.0, 7.0]
    """
    streams = batch * np.asarray(num_kv_heads)
    return log2(streams), log2(context_tokens), log2(num_heads / np.asarray(num_kv_heads)), log2(head_dim)


def window_coordinates(
    batch: Floats, num_kv_heads: Floats, head_dim: Floats, context_tokens: Floats, window_tokens: Floats
) -> tuple[FloatArray, ...]:
    """Where a windowed decode step stands in the grid of what windows cost: streams, tokens per window, both sizes.

    >>> [float(c) for c in window_coordinates(8, 8, 64, 4096, 128)]
    [6.0, 5.0, 7.0, 6.0]
    """
    per_window = context_tokens / np.asarray(window_tokens)
    return log2(batch * np.asarray(num_kv_heads)), log2(per_window), log2(window_tokens), log2(head_dim)


def prefill_coordinates(
    sequences: Floats, query_tokens: Floats, pairs: Floats, num_heads: Floats, num_kv_heads: Floats, head_dim: Floats
) -> tuple[FloatArray, ...]:
    """Where a prefill stands in the grid: query rows, mean keys per query, head size, queries per KV head.

    >>> [float(c) for c in prefill_coordinates(2, 1024, 1024 * 512, 16, 4, 128)]
    [15.0, 9.0, 7.0, 2.0]
    """
    rows = sequences * np.asarray(query_tokens) * num_heads
    mean_keys = pairs / np.maximum(query_tokens, 1.0)
    return log2(rows), log2(mean_keys), log2(head_dim), log2(num_heads / np.asarray(num_kv_heads))


def decode_roofline_s(
    curves: Curves,
    batch: Floats,
    num_heads: Floats,
    num_kv_heads: Floats,
    head_dim: Floats,
    context_tokens: Floats,
) -> FloatArray:
    """Least seconds of a decode step on each candidate's device."""
    size_bytes = decode_bytes(batch, num_heads, num_kv_heads, head_dim, context_tokens, curves.bytes_per_element)
    flop = decode_flop(batch, num_heads, head_dim, context_tokens)
    return roofline_s(flop, curves.peak_flop_per_s, size_bytes, curves.bandwidth_bytes_per_s)


def decode_rows(curves: Curves, num_heads: Floats, num_kv_heads: Floats, head_dim: Floats) -> RowRoofline:
    """The same roofline as what each cached token adds to the query and output of its sequence."""
    stored, bandwidth_bytes_per_s = curves.bytes_per_element, curves.bandwidth_bytes_per_s
    return RowRoofline(
        compute_s=decode_flop(1.0, num_heads, head_dim, 1.0) / curves.peak_flop_per_s,
        read_s=decode_bytes(1.0, num_heads, num_kv_heads, head_dim, 0.0, stored) / bandwidth_bytes_per_s,
        moved_s=decode_bytes(1.0, 0.0, num_kv_heads, head_dim, 1.0, stored) / bandwidth_bytes_per_s,
    )


def prefill_roofline_s(
    curves: Curves,
    sequences: Floats,
    query_tokens: Floats,
    context_tokens: Floats,
    pairs: Floats,
    num_heads: Floats,
    num_kv_heads: Floats,
    head_dim: Floats,
) -> FloatArray:
    """Least seconds of a prefill: 4 flop per pair, head and dimension; queries, outputs, K and V moved once."""
    flop = prefill_flop(sequences, pairs, num_heads, head_dim)
    size_bytes = prefill_bytes(
        sequences, query_tokens, context_tokens, num_heads, num_kv_heads, head_dim, curves.bytes_per_element
    )
    return roofline_s(flop, curves.peak_flop_per_s, size_bytes, curves.bandwidth_bytes_per_s)


def prompt_roofline(curves: Curves, num_heads: Floats, num_kv_heads: Floats, head_dim: Floats) -> PairRoofline:
    """The same roofline of prompts that nothing precedes, by their pairs and tokens."""
    moved_bytes = prefill_bytes(1.0, 1.0, 1.0, num_heads, num_kv_heads, head_dim, curves.bytes_per_element)
    return PairRoofline(
        compute_s=prefill_flop(1.0, 1.0, num_heads, head_dim) / curves.peak_flop_per_s,
        moved_s=moved_bytes / curves.bandwidth_bytes_per_s,
    )


def attention_decode_s(
    curves: AttentionCurves,
    batch: Floats,
    num_heads: Floats,
    num_kv_heads: Floats,
    head_dim: Floats,
    context_tokens: Floats,
    window_tokens: Floats = np.inf,
) -> FloatArray:
    """Seconds of one layer's attention for one new token of each of `batch` sequences.

    t = exp(grid) (max(flop / peak, bytes / bandwidth) + 5 us) w   [s]
    over min(context, window) tokens, heads per device; w = exp(grid) where a window hides tokens: kernels skip them at
    a price. Source: measured decode kernels, `data/calibration/kernels.csv`. Valid: 1-2,048 sequences, 1-131,072
    tokens, head size 64-256, windows 128-8,192.
    """
    seen_tokens = np.minimum(context_tokens, window_tokens)
    roofline = decode_roofline_s(curves.decode, batch, num_heads, num_kv_heads, head_dim, seen_tokens)
    coordinates = decode_coordinates(batch, num_heads, num_kv_heads, head_dim, seen_tokens)
    seconds = curve_s(curves.decode, roofline, coordinates)
    if not np.any(np.isfinite(window_tokens)):
        return seconds
    return seconds * window_factor(curves.window, batch, num_kv_heads, head_dim, context_tokens, window_tokens)


def rising_window(curves: Curves) -> Curves:
    """What windows cost, rising over the context from nothing: what it hides never makes a step faster."""
    over_context = 1 + [axis.name for axis in curves.grids.axes].index(TOKENS_PER_WINDOW)
    values = np.maximum.accumulate(np.maximum(curves.grids.values, 0.0), axis=over_context)
    return replace(curves, grids=replace(curves.grids, values=values))


def window_factor(
    curves: Curves,
    batch: Floats,
    num_kv_heads: Floats,
    head_dim: Floats,
    context_tokens: Floats,
    window_tokens: Floats,
) -> FloatArray:
    """How much longer a decode step over a window takes than one over as many tokens without; 1 without a window.

    Kernels switch where the first token is hidden; a mix of sequences does so gradually, here over half a doubling.
    """
    is_hiding = np.isfinite(window_tokens) & (np.asarray(context_tokens) > window_tokens) & curves.is_supported
    window = np.where(is_hiding, window_tokens, 1.0)
    place = window_coordinates(batch, num_kv_heads, head_dim, context_tokens, window)
    share = np.clip(place[1] / FULL_PRICE_DOUBLINGS, 0.0, 1.0)
    return np.where(is_hiding, np.exp(share * interpolate(curves, place)), 1.0)


def attention_prefill_s(
    curves: AttentionCurves,
    sequences: Floats,
    query_tokens: Floats,
    context_tokens: Floats,
    num_heads: Floats,
    num_kv_heads: Floats,
    head_dim: Floats,
    window_tokens: Floats = np.inf,
    pairs: Floats | None = None,
) -> FloatArray:
    """Seconds of one layer's causal attention over the last `query_tokens` of `context_tokens` (prefix + chunk).

    `pairs` of query and key of one sequence, where not every token sees all before it, or sees those behind it too.

    t = exp(grid) (max(4 pairs heads head_dim / peak, bytes / bandwidth) + 8 us)   [s]
    Source: measured prefill kernels without a prefix, `data/calibration/kernels.csv`; a prefix enters through the
    mean number of keys per query. Valid: 1-256 sequences of 1-16,384 tokens, head size 64-256.
    """
    pairs = causal_pairs(query_tokens, context_tokens, window_tokens) if pairs is None else pairs
    seen_tokens = np.minimum(context_tokens, np.asarray(query_tokens) + window_tokens)
    roofline = prefill_roofline_s(
        curves.prefill, sequences, query_tokens, seen_tokens, pairs, num_heads, num_kv_heads, head_dim
    )
    coordinates = prefill_coordinates(sequences, query_tokens, pairs, num_heads, num_kv_heads, head_dim)
    return curve_s(curves.prefill, roofline, coordinates)
