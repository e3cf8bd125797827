"""Gated delta nets on one device: the state of every sequence updated by a token, and whole prompts in chunks.

Heads are counted in states of 128 x 128 elements, the size that was measured. Gated DeltaNet forgets by one number per
head, Kimi Delta Attention by one per channel: their kernels differ, their shapes do not.
"""

from __future__ import annotations

import numpy as np

from gpufleet.domain.arrays import FloatArray, Floats
from gpufleet.domain.calibration import Curves
from gpufleet.performance.interpolation import curve_s, log2
from gpufleet.performance.roofline import roofline_s

STATE_ELEMENTS = 128 * 128


def update_roofline_s(curves: Curves, sequences: Floats, state_bytes: Floats) -> FloatArray:
    """Least seconds of one layer for one new token of each sequence: every state read and written once.

    2 sequences x state / bandwidth   [s]
    """
    return np.asarray(2.0 * sequences * state_bytes / curves.bandwidth_bytes_per_s)


def update_coordinates(sequences: Floats, heads: Floats) -> tuple[FloatArray, ...]:
    """Where an update stands in the grid: states of all sequences.

    >>> [float(c) for c in update_coordinates(64, 32)]
    [11.0]
    """
    return (log2(sequences * np.asarray(heads)),)


def update_s(curves: Curves, sequences: Floats, heads: Floats, state_bytes: Floats) -> FloatArray:
    """Seconds of one layer's convolution and state update, for one new token of each of `sequences`.

    t = exp(grid) (2 sequences x state / bandwidth + 4 us)   [s]
    Source: measured decode kernels of Qwen3.5 and Kimi-K3, `data/calibration/kernels.csv`. Valid: 1-1,024 sequences,
    2-96 heads a device, states in fp32.
    """
    roofline = update_roofline_s(curves, sequences, state_bytes)
    return curve_s(curves, roofline, update_coordinates(sequences, heads))


def chunks_roofline_s(curves: Curves, flop: Floats, moved_bytes: Floats) -> FloatArray:
    """Least seconds of the recurrence over prompts, counted token by token."""
    return roofline_s(flop, curves.peak_flop_per_s, moved_bytes, curves.bandwidth_bytes_per_s)


def chunks_coordinates(prompts: Floats, tokens: Floats, heads: Floats, heads_per_key: Floats) -> tuple[FloatArray, ...]:
    """Where prompts stand in the grid: states of all prompts, tokens of each, value heads that share a key head.

    Chunks of one state follow one another, states run beside each other.

    >>> [float(c) for c in chunks_coordinates(2, 4096, 32, 2)]
    [6.0, 12.0, 1.0]
    """
    return log2(prompts * np.asarray(heads)), log2(tokens), log2(heads_per_key)


def chunks_s(
    curves: Curves,
    prompts: Floats,
    tokens: Floats,
    heads: Floats,
    heads_per_key: Floats,
    flop: Floats,
    moved_bytes: Floats,
) -> FloatArray:
    """Seconds of one layer's convolution and chunked recurrence over `prompts` of `tokens`.

    t = exp(grid) (max(flop / peak, bytes / bandwidth) + 20 us)   [s]
    Source: measured prefill kernels of Qwen3.5 and Kimi-K3, `data/calibration/kernels.csv`. Valid: 1-1,024 prompts of
    1-32,768 tokens, 2-96 heads a device.
    """
    place = chunks_coordinates(prompts, tokens, heads, heads_per_key)
    return curve_s(curves, chunks_roofline_s(curves, flop, moved_bytes), place)
