"""Seconds of state-space layers: rooflines with one efficiency each, no curve over shapes."""

from __future__ import annotations

import math

import numpy as np

from gpufleet.domain.architecture import Architecture, Attention, LatentAttention
from gpufleet.domain.arrays import FloatArray, Floats
from gpufleet.domain.calibration import StateFormulas
from gpufleet.domain.mixers import CompressedAttention, StateSpace


def state_update_s(
    formulas: StateFormulas, bandwidth_bytes_per_s: Floats, sequences: Floats, state_bytes: Floats
) -> FloatArray:
    """Seconds of one recurrent layer for one new token of each sequence: every state read and written once.

    t = fixed + 2 sequences x state / (ratio x bandwidth)   [s]   Constants: `data/calibration/formulas.toml`.
    """
    moved_bytes, ratio = 2.0 * sequences * state_bytes, formulas.update_stream_ratio.value
    return np.asarray(formulas.update_fixed_s.value + moved_bytes / (ratio * np.asarray(bandwidth_bytes_per_s)))


def scan_s(
    formulas: StateFormulas, peak_flop_per_s: Floats, bandwidth_bytes_per_s: Floats, flop: Floats, moved_bytes: Floats
) -> FloatArray:
    """Seconds of one recurrent layer over whole prompts, in chunks.

    t = fixed + max(flop / (flop ratio x peak), bytes / (stream ratio x bandwidth))   [s]   Kernels differ by six
    between engines. Constants: `data/calibration/formulas.toml`.
    """
    arithmetic_s = flop / (formulas.scan_flop_ratio.value * np.asarray(peak_flop_per_s))
    stream_s = moved_bytes / (formulas.scan_stream_ratio.value * np.asarray(bandwidth_bytes_per_s))
    return np.asarray(formulas.scan_fixed_s.value + np.maximum(arithmetic_s, stream_s))


def is_timed_by_formula(arch: Architecture) -> bool:
    """Whether any layer runs a kernel that no curve describes: state spaces."""
    return any(isinstance(block.mixer, StateSpace) for block in arch.blocks)


def borrows_full_attention(arch: Architecture) -> bool:
    """Whether any layer attends to compressed or chosen entries: curves of full attention stand for its decode."""
    return any(
        isinstance(mixer, CompressedAttention)
        or (isinstance(mixer, (Attention, LatentAttention)) and math.isfinite(mixer.kept_tokens))
        for mixer in (block.mixer for block in arch.blocks)
    )
