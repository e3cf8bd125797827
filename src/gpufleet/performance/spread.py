"""Percentiles of sums: a part of a time is known by its mean, its variance and its own value at the percentile."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpufleet.domain.arrays import FloatArray, Floats
from gpufleet.performance.queueing import normal_quantile
from gpufleet.records import dataclass

LEAST_VARIANCE = 1e-30


@dataclass(frozen=True, eq=False)
class Spread:
    """A random time at one quantile: its mean   [s], its variance   [s^2] and its value there   [s]."""

    mean_s: Floats
    variance: Floats
    at_s: Floats


def constant(seconds: Floats) -> Spread:
    """A time that is always the same."""
    return Spread(seconds, 0.0, seconds)


def normal(mean_s: Floats, variance: Floats, quantile: float) -> Spread:
    """A time that is normally distributed."""
    return Spread(mean_s, variance, mean_s + normal_quantile(quantile) * np.sqrt(variance))


def log_normal(mean_s: FloatArray, variance: FloatArray, quantile: float) -> Spread:
    """A time whose logarithm is normal: x = m exp(z s - s^2 / 2), s^2 = ln(1 + v / m^2)   [s].

    >>> round(float(log_normal(np.array(1.0), np.array(1.0), 0.95).at_s), 3)
    2.781
    """
    mean = np.maximum(mean_s, LEAST_VARIANCE)
    log_variance = np.log1p(variance / (mean * mean))
    z = normal_quantile(quantile)
    return Spread(mean_s, variance, mean * np.exp(z * np.sqrt(log_variance) - log_variance / 2))


def summed(parts: Sequence[Spread], quantile: float) -> Spread:
    """The sum of independent times.

    x = sum m + z sqrt(V) + sum v / V (x_i - m_i - z sqrt(v_i))   [s]   V = sum v
    Beyond the normal value a sum keeps of each part's deviation its share of the variance: exact where one part varies,
    and to the skewness by the expansion of Cornish and Fisher, in which third moments add up. Source: cornish-fisher-1938

    >>> one, other = Spread(1.0, 4.0, 7.0), Spread(5.0, 0.0, 5.0)
    >>> float(summed([one, other], 0.95).at_s)
    12.0
    """
    z = normal_quantile(quantile)
    mean_s, variance = sum_of([p.mean_s for p in parts]), sum_of([p.variance for p in parts])
    varying = [p for p in parts if p.variance is not None and np.any(np.asarray(p.variance) > 0)]
    beyond = sum_of([p.variance * (p.at_s - p.mean_s - z * np.sqrt(p.variance)) for p in varying])
    at_s = mean_s + z * np.sqrt(variance) + beyond / np.maximum(variance, LEAST_VARIANCE)
    return Spread(mean_s, variance, np.asarray(at_s))


def sum_of(values: Sequence[Floats]) -> FloatArray:
    """The sum of arrays that broadcast; nothing sums to zero."""
    total: Floats = 0.0
    for value in values:
        total = total + value
    return np.asarray(total, dtype=np.float64)
