"""Whether a queue grows: above capacity no percentile means anything but how long one has watched."""

from __future__ import annotations

import math

import numpy as np

from gpufleet.domain.arrays import FloatArray
from gpufleet.domain.replay import Timeline
from gpufleet.records import dataclass
from gpufleet.simulate.step_function import means_between

BLOCKS = 20
SURE_IN_ERRORS = 3.0
BY_CHANCE_IN_DEVIATIONS = 2.0
MOST_CORRELATION = 0.9


@dataclass(frozen=True)
class QueueTrend:
    """How fast the queue grew over the second half of the arrivals, the error of that, and whether it is no chance."""

    growth_requests_per_s: float
    error_requests_per_s: float
    is_growing: bool


LEVEL = QueueTrend(0.0, 0.0, False)


def queue_trend(timeline: Timeline, start_s: float, end_s: float, rate_requests_per_s: float) -> QueueTrend:
    """The slope of waiting requests between the middle of the arrivals and their end, by least squares over blocks.

    It grows where the slope is above three of its errors, and where more came to wait than chance explains: of n
    requests that arrive at a queue of load 1, arrivals less departures deviate by sqrt(2 n) (a random walk, M/M/1), and
    two of these are asked for. At a load L > 1 it is n (1 - 1 / L) that wait; below 1 no more than the queue's usual
    length. Errors are those of residuals of blocks, widened by sqrt((1 + r) / (1 - r)) for the correlation r of
    neighbours.
    """
    half_s = (end_s - start_s) / 2
    if not half_s > 0 or len(timeline.time_s) < 2:
        return LEVEL
    edges = np.linspace(start_s + half_s, end_s, BLOCKS + 1)
    waiting = means_between(timeline.time_s, timeline.waiting, edges)
    slope, error = slope_and_error((edges[1:] + edges[:-1]) / 2, waiting)
    by_chance = BY_CHANCE_IN_DEVIATIONS * math.sqrt(2 * rate_requests_per_s * half_s)
    is_growing = slope > SURE_IN_ERRORS * error and slope * half_s > by_chance
    return QueueTrend(slope, error, is_growing)


def slope_and_error(times: FloatArray, values: FloatArray) -> tuple[float, float]:
    """Least squares through values that neighbours may share, and the standard error of the slope.

    >>> slope_and_error(np.array([0.0, 1.0, 2.0, 3.0]), np.array([1.0, 3.0, 5.0, 7.0]))
    (2.0, 0.0)
    """
    off = times - times.mean()
    slope = float(off @ values / (off @ off))
    residuals = values - values.mean() - slope * off
    power = float(residuals @ residuals)
    if power <= 0:
        return slope, 0.0
    correlation = min(max(float(residuals[1:] @ residuals[:-1]) / power, 0.0), MOST_CORRELATION)
    variance = power / (len(values) - 2) / float(off @ off)
    return slope, math.sqrt(variance * (1 + correlation) / (1 - correlation))
