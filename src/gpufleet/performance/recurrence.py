"""Seconds of state-space layers: rooflines with one efficiency each, no curve over shapes.

Judgements: the medians of measured kernels of aiconfigurator-core 0.12.0 (gated delta net and Kimi delta attention on
H100, H200 and B200 under vLLM, SGLang and TensorRT-LLM), which move a state of the same kind. Of Mamba-2 those tables
hold the convolution alone.
"""

from __future__ import annotations

import math

import numpy as np

from gpufleet.domain.architecture import Architecture, Attention, LatentAttention
from gpufleet.domain.arrays import FloatArray, Floats
from gpufleet.domain.mixers import CompressedAttention, StateSpace

STATE_FIXED_S = 6.0e-6
STATE_STREAM_RATIO = 0.8
SCAN_FIXED_S = 2.2e-5
SCAN_FLOP_RATIO = 0.1
SCAN_STREAM_RATIO = 0.45
FORMULA_LOG_LOW = math.log(0.75)
FORMULA_LOG_HIGH = math.log(1.6)


def state_update_s(bandwidth_bytes_per_s: Floats, sequences: Floats, state_bytes: Floats) -> FloatArray:
    """Seconds of one recurrent layer for one new token of each sequence: every state read and written once.

    t = 6 us + 2 sequences x state / (0.8 bandwidth)   [s]
    Measured over that roofline at large batches: 0.75-0.95 of the bandwidth; floors of 4 us for the update and 2 us for
    the convolution. 64 sequences with states of 2.15 MB on an H100:

    >>> round(float(state_update_s(3.35e12, 64, 2.15e6)) * 1e6)
    109
    """
    moved_bytes = 2.0 * sequences * state_bytes
    return np.asarray(STATE_FIXED_S + moved_bytes / (STATE_STREAM_RATIO * np.asarray(bandwidth_bytes_per_s)))


def scan_s(peak_flop_per_s: Floats, bandwidth_bytes_per_s: Floats, flop: Floats, moved_bytes: Floats) -> FloatArray:
    """Seconds of one recurrent layer over whole prompts, in chunks.

    t = 22 us + max(flop / (0.1 peak), bytes / (0.45 bandwidth))   [s]
    Kernels differ by six between engines: 0.02-0.03 of the peak under SGLang, 0.10-0.17 under vLLM.

    >>> round(float(scan_s(989e12, 3.35e12, 8192 * 3.2e6, 8192 * 3.3e4)) * 1e6)
    287
    """
    arithmetic = flop / (SCAN_FLOP_RATIO * np.asarray(peak_flop_per_s))
    return np.asarray(
        SCAN_FIXED_S + np.maximum(arithmetic, moved_bytes / (SCAN_STREAM_RATIO * np.asarray(bandwidth_bytes_per_s)))
    )


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
