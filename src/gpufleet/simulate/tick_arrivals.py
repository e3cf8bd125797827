"""How many requests come in each tick of a rate curve."""

from __future__ import annotations

import numpy as np

from gpufleet.domain.arrays import FloatArray
from gpufleet.domain.rate_curve import RateCurve


def rate_of_ticks(curve: RateCurve, tick_s: float) -> FloatArray:
    """The mean rate of every whole tick of a curve: each of its bins at its own rate   [1/s]."""
    number = int(curve.span_s / tick_s + 1e-9)
    came = np.concatenate([[0.0], np.cumsum(curve.rate_per_s)]) * curve.bin_s
    edges = np.arange(len(came)) * curve.bin_s
    return np.asarray(np.diff(np.interp(np.arange(number + 1) * tick_s, edges, came)) / tick_s)


def draw_ticks(curve: RateCurve, tick_s: float, generator: np.random.Generator) -> FloatArray:
    """Requests of every tick, drawn: Poisson, or as burstily as the curve says.

    Gaps with a coefficient of variation c give counts with a variance of c^2 times their mean: above 1 a Poisson number
    with a mean drawn from a gamma distribution, below 1 what a Poisson number becomes that is drawn in to its mean.
    """
    mean = rate_of_ticks(curve, tick_s) * tick_s
    if curve.cv is None:
        return generator.poisson(mean).astype(np.float64)
    bins = np.minimum((np.arange(len(mean)) * tick_s / curve.bin_s).astype(np.int64), len(curve) - 1)
    beyond = np.maximum(curve.cv[bins] ** 2 - 1, 0.0)
    wide = (beyond > 0) & (mean > 0)
    drawn = mean.copy()
    drawn[wide] = generator.gamma(mean[wide] / beyond[wide], beyond[wide])
    counts = generator.poisson(drawn)
    narrow = curve.cv[bins] < 1
    steadier = np.round(mean + (counts - mean) * np.where(narrow, curve.cv[bins], 1.0))
    return np.asarray(np.where(narrow, steadier, counts), dtype=np.float64)
