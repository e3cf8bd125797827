"""Norms, rotary embedding, activation and quantisation: kernels that only stream memory."""

from __future__ import annotations

import numpy as np

from gpufleet.domain.arrays import FloatArray, Floats

FIXED_S = 2e-6
STREAM_RATIO = 0.8


def elementwise_s(bandwidth_bytes_per_s: Floats, size_bytes: Floats) -> FloatArray:
    """Seconds of a kernel that reads and writes `size_bytes` in all.

    t = 2 us + bytes / (0.8 bandwidth)   [s]   Source: decode kernels that stream over 256 MB reach 0.8 of the
    bandwidth on H100, H200 and B200; the launch floor of the smallest measured kernel is 1.7-2.5 us.

    Normalising 8,192 tokens of width 8,192 in bf16 (read and write, 268 MB) on an H100:

    >>> round(float(elementwise_s(3.35e12, 2 * 8192 * 8192 * 2)) * 1e6)
    102
    """
    return np.asarray(FIXED_S + size_bytes / (STREAM_RATIO * np.asarray(bandwidth_bytes_per_s)))
