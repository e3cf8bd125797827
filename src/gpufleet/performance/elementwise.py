"""Norms, rotary embedding and activations: kernels that only stream memory."""

from __future__ import annotations

import numpy as np

from gpufleet.domain.arrays import FloatArray, Floats
from gpufleet.domain.calibration import StreamFormula


def elementwise_s(formula: StreamFormula, bandwidth_bytes_per_s: Floats, size_bytes: Floats) -> FloatArray:
    """Seconds of a kernel that reads and writes `size_bytes` in all.

    t = fixed + bytes / (ratio x bandwidth)   [s]   Constants: `data/calibration/formulas.toml`.

    Normalising 8,192 tokens of width 8,192 in bf16 (read and write, 268 MB) on an H100, with 1.9 us and 0.88:

    >>> from gpufleet.provenance import Sourced
    >>> formula = StreamFormula(Sourced(1.9e-6, "s", "example"), Sourced(0.88, "ratio", "example"))
    >>> round(float(elementwise_s(formula, 3.35e12, 2 * 8192 * 8192 * 2)) * 1e6)
    93
    """
    reached_bytes_per_s = formula.bandwidth_ratio.value * np.asarray(bandwidth_bytes_per_s)
    return np.asarray(formula.fixed_s.value + size_bytes / reached_bytes_per_s)
