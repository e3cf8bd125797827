"""Norms, rotary embedding and activations: kernels that only stream memory."""

from __future__ import annotations

import numpy as np

from gpufleet.domain.arrays import FloatArray, Floats

FIXED_S = 1.9e-6
STREAM_RATIO = 0.88


def elementwise_s(bandwidth_bytes_per_s: Floats, size_bytes: Floats) -> FloatArray:
    """Seconds of a kernel that reads and writes `size_bytes` in all.

    t = 1.9 us + bytes / (0.88 bandwidth)   [s]   Source: medians of measured fp8 quantisation kernels on six GPUs,
    `docs/calibration.md`: floor 1.4-2.7 us, 0.76-0.93 of the bandwidth over 800 MB.

    Normalising 8,192 tokens of width 8,192 in bf16 (read and write, 268 MB) on an H100:

    >>> round(float(elementwise_s(3.35e12, 2 * 8192 * 8192 * 2)) * 1e6)
    93
    """
    return np.asarray(FIXED_S + size_bytes / (STREAM_RATIO * np.asarray(bandwidth_bytes_per_s)))
