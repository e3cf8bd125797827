"""Percentiles of sums: each part is known by its mean, its variance and how far its quantile is off a normal one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpufleet.domain.arrays import FloatArray, Floats
from gpufleet.performance.queueing import normal_quantile
from gpufleet.records import dataclass

LEAST = 1e-30
RARE, SHORT, NEWTON_STEPS, FURTHEST, LARGEST_EXPONENT = 0.1, 3.0, 4, 10.0, 300.0
ROOT_OF_TWO_PI = (2 * np.pi) ** 0.5


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


def after_wait(time: Spread, wait_s: FloatArray, waiting_ratio: FloatArray, quantile: float) -> Spread:
    """A time after a wait that a share p meets, exponential for them: `wait_s` over all, W   [s].

    m + W, v + W^2 (2 / p - 1). Beyond a normal time lies u sqrt(v) more than for the time alone, u as for a normal one:
    Q(u) + p exp(k^2 / 2 - k u) Phi(u - k) = 1 - quantile, k = p sqrt(v) / W   (an exponentially modified normal time)
    """
    variance = np.broadcast_to(time.variance, wait_s.shape)
    met = waiting_ratio > RARE * (1 - quantile)
    share = np.where(met, waiting_ratio, 1.0)
    mean_s, whole = time.mean_s + wait_s, variance + wait_s**2 * (2 / share - 1)
    normal = normal_quantile(quantile)
    further = np.zeros_like(wait_s)
    deviation_s = np.sqrt(variance[met])
    further[met] = deviation_s * (standard_after_wait(share[met], deviation_s / wait_s[met], quantile) - normal)
    return known_at(time.at_s(quantile) + further, mean_s, np.sqrt(whole), quantile)


def standard_after_wait(share: FloatArray, deviations: FloatArray, quantile: float) -> FloatArray:
    """The quantile of a standard normal time after a wait that a share meets: `deviations` per mean wait.

    Newton's steps on the logarithm of how many are later, from where more are: the normal time or the wait alone. A
    wait that is short beside them adds its mean and its variance, (2 / p - 1) / deviations^2.

    >>> float(standard_after_wait(np.array([1.0]), np.array([1e-3]), 0.95)[0].round(-1))  # 1,000 ln 20
    3000.0
    """
    rate, normal, later = share * deviations, normal_quantile(quantile), 1 - quantile
    at = np.maximum(np.log(share / later) / rate + np.minimum(rate, SHORT) / 2, normal)
    for _ in range(NEWTON_STEPS):
        waited = share * np.exp(np.minimum(rate * (rate / 2 - at), LARGEST_EXPONENT)) * normal_share(at - rate)
        tail = normal_share(-at) + waited
        slope = (1 - share) * np.exp(-at * at / 2) / ROOT_OF_TWO_PI + rate * waited
        at = np.maximum(at + np.log(tail / later) * tail / np.maximum(slope, LEAST), normal)
    wider = np.sqrt(1 + (2 / share - 1) / deviations**2)
    return np.where(rate > SHORT, 1 / deviations + normal * wider, at)


def normal_share(deviations: FloatArray) -> FloatArray:
    """Share of standard normal times below, within 0.0002: 1 / (1 + exp(-(1.5976 x + 0.07056 x^3)))   [1].

    >>> normal_share(np.array([-1.0, 0.0, 1.6449])).round(3).tolist()
    [0.159, 0.5, 0.95]
    """
    x = np.clip(deviations, -FURTHEST, FURTHEST)
    return np.asarray(1 / (1 + np.exp(-(1.5976 * x + 0.07056 * x**3))))


def sum_of(values: Sequence[Floats]) -> Floats:
    """The sum of arrays that broadcast; nothing sums to zero."""
    total, *others = values or [0.0]
    for value in others:
        total = total + value
    return total
