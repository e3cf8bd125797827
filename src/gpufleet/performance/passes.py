"""Latency where a server runs one pass after another, each over all requests that wait (dynamic batching).

With Poisson arrivals, a pass of t seconds is followed by one over those that came meanwhile: a = rate x t of them on
average, or over the next one that comes where there were none. A request waits for the rest of the running pass, then
for its own pass, which holds those that came in the same time.
"""

from __future__ import annotations

import numpy as np

from gpufleet.domain.arrays import FloatArray, Floats
from gpufleet.performance.queueing import mean_wait_s, normal_quantile, wait_percentile_s

FEWEST, MOST, GRID_RATIO = 1 / 64, 16_384.0, 1.2
MOST_GROWTH = 0.95


def arrivals_grid() -> FloatArray:
    """Mean arrivals during a pass, from one in 64 passes to 16,384, 20 % apart."""
    steps = int(np.ceil(np.log(MOST / FEWEST) / np.log(GRID_RATIO)))
    return np.asarray(np.geomspace(FEWEST, MOST, steps + 1))


def mean_pass_requests(arrivals: Floats) -> FloatArray:
    """Requests of a pass: those that came during the last one, or the next one where none came.

    m = a + exp(-a)   [1]

    >>> float(mean_pass_requests(0.0)), round(float(mean_pass_requests(1.0)), 2), round(float(mean_pass_requests(20)))
    (1.0, 1.37, 20)
    """
    return np.asarray(arrivals + np.exp(-np.asarray(arrivals, dtype=np.float64)))


def busy_ratio(arrivals: Floats) -> FloatArray:
    """Share of the time in which a pass runs: t seconds each, and a pause of 1 / rate after those without arrivals.

    rho = t / (t + exp(-a) / rate) = a / (a + exp(-a))   [1]
    """
    return np.asarray(arrivals / mean_pass_requests(arrivals))


def rest_of_pass_s(quantile: float | None, arrivals: Floats, pass_s: Floats) -> FloatArray:
    """Wait for the running pass at a quantile of requests, or (None) its mean: uniform over the pass where one runs.

    W_q = t max(0, 1 - (1 - q) / rho)   [s]

    >>> float(rest_of_pass_s(0.5, 1e9, 0.01)), float(rest_of_pass_s(None, 1e9, 0.01))
    (0.005, 0.005)
    """
    busy = busy_ratio(arrivals)
    if quantile is None:
        return np.asarray(busy * pass_s / 2)
    return np.asarray(pass_s * np.maximum(0.0, 1 - (1 - quantile) / busy))


def own_pass_requests(quantile: float | None, arrivals: Floats, growth: Floats) -> FloatArray:
    """Requests in the pass of a request at a quantile: itself and those that came in the same time.

    1 + a + z sqrt(a / (1 - s^2))   [1]   s: seconds that a further request adds to a pass x rate. A pass that is longer
    by chance lets more come, which lengthens the next: the count spreads wider than a Poisson count.

    >>> round(float(own_pass_requests(0.95, 16.0, 0.6)), 1)
    25.2
    """
    spread = np.sqrt(arrivals / (1 - np.minimum(growth, MOST_GROWTH) ** 2))
    beyond_mean = 0.0 if quantile is None else normal_quantile(quantile) * spread
    return np.asarray(np.maximum(1.0 + arrivals + beyond_mean, 1.0))


def wait_for_others_s(quantile: float | None, load_ratio: Floats, request_s: Floats) -> FloatArray:
    """Wait for others' work where a copy is nearly full: M/D/1 of the seconds that a request takes of a full pass."""
    if quantile is None:
        return mean_wait_s(load_ratio, request_s)
    return wait_percentile_s(quantile, load_ratio, request_s)
