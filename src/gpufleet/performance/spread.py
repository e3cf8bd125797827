"""Percentiles of sums: each part is known by its mean, its variance and how far its quantile is off a normal one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpufleet.domain.arrays import FloatArray, Floats
from gpufleet.performance.queueing import normal_quantile
from gpufleet.records import dataclass

LEAST = 1e-30


@dataclass(frozen=True, eq=False)
class Spread:
    """A random time at one quantile: its mean   [s], its variance   [s^2] and what lies beyond a normal time's   [s].

    x = m + z sqrt(v) + beyond
    """

    mean_s: Floats
    variance: Floats
    beyond_s: Floats = 0.0

    def at_s(self, quantile: float) -> FloatArray:
        """The time at the quantile for which this was found."""
        return np.asarray(self.mean_s + normal_quantile(quantile) * np.sqrt(self.variance) + self.beyond_s)


def known_at(at_s: Floats, mean_s: Floats, deviation_s: Floats, quantile: float) -> Spread:
    """A time of which the value at a quantile is known.

    >>> float(known_at(7.0, 1.0, 2.0, 0.95).at_s(0.95))
    7.0
    """
    return Spread(mean_s, deviation_s**2, at_s - mean_s - normal_quantile(quantile) * deviation_s)


def log_normal(mean_s: FloatArray, variance: FloatArray, quantile: float) -> Spread:
    """A time whose logarithm is normal: x = m exp(z s - s^2 / 2), s^2 = ln(1 + v / m^2)   [s].

    >>> round(float(log_normal(np.array(1.0), np.array(1.0), 0.95).at_s(0.95)), 3)
    2.781
    """
    mean = np.maximum(mean_s, LEAST)
    log_variance = np.log1p(variance / (mean * mean))
    at_s = mean * np.exp(normal_quantile(quantile) * np.sqrt(log_variance) - log_variance / 2)
    return known_at(at_s, mean_s, np.sqrt(variance), quantile)


def summed(parts: Sequence[Spread]) -> Spread:
    """The sum of independent times, all at one quantile.

    m = sum m_i, v = sum v_i, beyond = sum v_i / v beyond_i
    A sum keeps of each part's deviation from a normal time as much as that part has of the variance: exact where one
    part varies, and to the skewness by the expansion of Cornish and Fisher, in which third moments add up.
    Source: cornish-fisher-1938

    >>> one, other = known_at(7.0, 1.0, 2.0, 0.95), Spread(5.0, 0.0)
    >>> float(summed([one, other]).at_s(0.95))
    12.0
    """
    mean_s, variance = sum_of([p.mean_s for p in parts]), sum_of([p.variance for p in parts])
    beyond = sum_of([p.variance * p.beyond_s for p in parts if np.ndim(p.beyond_s) or p.beyond_s])
    return Spread(mean_s, variance, beyond / np.maximum(variance, LEAST))


def sum_of(values: Sequence[Floats]) -> Floats:
    """The sum of arrays that broadcast; nothing sums to zero."""
    total, *others = values or [0.0]
    for value in others:
        total = total + value
    return total
