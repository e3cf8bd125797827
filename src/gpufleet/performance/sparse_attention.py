"""Attention over chosen tokens on one device: latent heads over single tokens, plain heads over blocks of them.

Modules of whole layers were measured; what their projections and their index take by curves of their own is taken off.
"""

from __future__ import annotations

import numpy as np

from gpufleet.domain.arrays import FloatArray, Floats
from gpufleet.domain.calibration import Curves
from gpufleet.performance.attention import prefill_flop
from gpufleet.performance.interpolation import curve_s, log2
from gpufleet.performance.latent_attention import (
    latent_prefill_bytes,
    latent_prefill_flop,
)
from gpufleet.performance.roofline import roofline_s

BLOCK_HEAD_DIM = 128


def sparse_prefill_roofline_s(curves: Curves, queries: Floats, kept_tokens: Floats, heads: Floats) -> FloatArray:
    """Least seconds of prompts whose tokens each read a mean of `kept_tokens`: 640 flop per head and pair."""
    flop = latent_prefill_flop(1.0, queries * np.asarray(kept_tokens), heads)
    moved_bytes = latent_prefill_bytes(1.0, queries, heads)
    return roofline_s(flop, curves.peak_flop_per_s, moved_bytes, curves.bandwidth_bytes_per_s)


def block_prefill_roofline_s(
    curves: Curves, queries: Floats, seen_tokens: Floats, kept_tokens: Floats, heads: Floats, flop_per_entry: float
) -> FloatArray:
    """Least seconds of prompts whose tokens each score a mean of `seen_tokens` and read a mean of `kept_tokens`."""
    scoring = queries * np.asarray(seen_tokens) * flop_per_entry
    flop = scoring + prefill_flop(1.0, queries * np.asarray(kept_tokens), heads, BLOCK_HEAD_DIM)
    return np.asarray(flop / curves.peak_flop_per_s)


def sparse_coordinates(queries: Floats, tokens: Floats, heads: Floats) -> tuple[FloatArray, ...]:
    """Where attention over chosen tokens stands in its grid: queries, tokens that each of them meets, heads.

    >>> [float(c) for c in sparse_coordinates(64, 2048, 16)]
    [6.0, 11.0, 4.0]
    """
    return log2(queries), log2(tokens), log2(heads)


def sparse_prefill_s(curves: Curves, queries: Floats, kept_tokens: Floats, heads: Floats) -> FloatArray:
    """Seconds of one layer's latent attention for the `queries` of prompts that each read a mean of `kept_tokens`.

    t = exp(grid) (max(640 heads queries kept / peak, bytes / bandwidth) + 8 us)   [s]
    Source: measured attention modules of DeepSeek-V3.2 less their other operators, `data/calibration/kernels.csv`.
    Some engines read full slots of 2,048 tokens for any prompt, some expand short prompts. Valid: 256-131,072 queries,
    16-128 heads a device.
    """
    roofline = sparse_prefill_roofline_s(curves, queries, kept_tokens, heads)
    return curve_s(curves, roofline, sparse_coordinates(queries, kept_tokens, heads))


def block_prefill_s(
    curves: Curves, queries: Floats, seen_tokens: Floats, kept_tokens: Floats, heads: Floats, flop_per_entry: float
) -> FloatArray:
    """Seconds of one layer that scores all earlier tokens of its prompts and reads the best blocks of them.

    t = exp(grid) ((queries seen flop per entry + 512 heads queries kept) / peak + 8 us)   [s]   Heads of 128.
    Source: measured attention modules of MiniMax-M3 less their projections, `data/calibration/kernels.csv`. Valid:
    256-131,072 queries, 8-64 heads a device, 2,048 kept tokens.
    """
    roofline = block_prefill_roofline_s(curves, queries, seen_tokens, kept_tokens, heads, flop_per_entry)
    return curve_s(curves, roofline, sparse_coordinates(queries, seen_tokens, heads))
