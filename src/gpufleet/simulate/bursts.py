"""How fast requests come in the busiest stretch of their time that is long enough not to be chance."""

from __future__ import annotations

import math

from gpufleet.domain.arrays import FloatArray

ENOUGH, FAR, AT_LEAST_S = 100, 4.0, 1.0
"""Requests that a stretch has at least; standard deviations of its time beyond which it is no chance; the seconds
that it takes at least, since requests that come at once have no rate."""


def busiest_rate(times_s: FloatArray, late_ratio: float) -> float | None:
    """The rate of the busiest stretch of as many requests as may not be late   [1/s]; None where chance explains it.

    A stretch of k = max(late_ratio x N, 100) requests that takes s seconds has the rate (k - sqrt(k)) / s: one standard
    deviation of a Poisson number less than was seen, since the busiest of many stretches is busy by chance too. Chance
    explains stretches that take no less than (k - 4 sqrt(k)) / mean rate. Machines that carry less than the busiest
    rate are late for more requests than the limit allows; shorter stretches do not break it.

    >>> import numpy as np
    >>> busiest_rate(np.arange(1000.0), 0.05) is None
    True
    """
    stretch = max(math.ceil(late_ratio * len(times_s)), ENOUGH)
    if len(times_s) <= stretch or not times_s[-1] > times_s[0]:
        return None
    mean = (len(times_s) - 1) / float(times_s[-1] - times_s[0])
    took_s = max(float((times_s[stretch:] - times_s[:-stretch]).min()), AT_LEAST_S)
    if took_s * mean >= stretch - FAR * math.sqrt(stretch):
        return None
    return max((stretch - math.sqrt(stretch)) / took_s, mean)
