"""Latency of a server that runs one pass after another, against the same server simulated request by request."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import pytest

from gpufleet.domain.arrays import FloatArray
from gpufleet.performance.passes import (
    arrivals_grid,
    busy_ratio,
    mean_pass_requests,
    own_pass_requests,
    rest_of_pass_s,
    wait_for_others_s,
)

FULL = 256.0
Seconds = Callable[[FloatArray], FloatArray]


def waits_for_host(launch_s: float, per_s: float) -> Seconds:
    """A pass that takes the longer of the host and of the kernels: the shape of an encoder's."""
    return lambda requests: np.maximum(launch_s, requests / per_s)


def grows(start_s: float, per_s: float) -> Seconds:
    return lambda requests: start_s + requests / per_s


SHAPES = {
    "host, then kernels": waits_for_host(0.01, 1000),
    "host, then fast kernels": waits_for_host(0.01, 5000),
    "a slow host": waits_for_host(0.03, 500),
    "start, then kernels": grows(0.01, 1000),
    "start, then fast kernels": grows(0.01, 5000),
}
LOADS = (0.05, 0.3, 0.6, 0.8, 0.9)
QUANTILES = (0.5, 0.9, 0.95, 0.99)


@lru_cache(maxsize=64)
def simulated(shape: str, load: float) -> FloatArray:
    """Latencies of 100,000 requests that a server takes together as they wait."""
    seconds, generator = SHAPES[shape], np.random.default_rng(7)
    rate = load * FULL / float(seconds(np.array(FULL)))
    came = np.cumsum(generator.exponential(1 / rate, 100_000))
    latency, first, now = np.empty_like(came), 0, 0.0
    while first < len(came):
        now = max(now, came[first])
        last = min(max(int(np.searchsorted(came, now, side="right")), first + 1), first + int(FULL))
        now += float(seconds(np.array(float(last - first))))
        latency[first:last] = now - came[first:last]
        first = last
    return latency


def foretold(shape: str, load: float, quantile: float | None) -> float:
    """The same by the equations, between the points of the grid."""
    seconds, arrivals = SHAPES[shape], arrivals_grid()
    full_per_s = FULL / float(seconds(np.array(FULL)))
    requests = mean_pass_requests(arrivals)
    pass_s = seconds(requests)
    rates = np.maximum.accumulate(arrivals / pass_s)
    growth = rates * np.gradient(pass_s, requests)
    latency = (
        rest_of_pass_s(quantile, arrivals, pass_s)
        + wait_for_others_s(quantile, load, 1 / full_per_s)
        + seconds(own_pass_requests(quantile, arrivals, growth))
    )
    return float(np.interp(load * full_per_s, rates, latency))


@pytest.mark.slow
@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("shape", SHAPES)
def test_percentiles_are_those_of_a_simulated_server(shape: str, load: float) -> None:
    """Up to a third above, at most an eighth below: a limit that is kept on paper is kept by the server."""
    found = simulated(shape, load)
    for quantile in QUANTILES:
        assert -0.125 < foretold(shape, load, quantile) / float(np.quantile(found, quantile)) - 1 < 0.33
    assert foretold(shape, load, None) == pytest.approx(float(found.mean()), rel=0.07)


def test_an_idle_server_answers_after_one_pass() -> None:
    assert foretold("start, then kernels", 1e-4, 0.5) == pytest.approx(0.011, rel=0.01)


def test_the_share_of_busy_time_is_that_of_a_simulated_server() -> None:
    """Passes of 10 ms, 100 requests/s: one arrival a pass; busy 1 / (1 + 1/e) of the time."""
    assert float(busy_ratio(1.0)) == pytest.approx(1 / (1 + np.exp(-1)))
    waited = simulated("host, then kernels", 0.1) > 0.01 + 1e-12
    assert float(waited.mean()) == pytest.approx(float(busy_ratio(1.0)), abs=0.01)


def test_every_part_of_the_latency_rises_with_load() -> None:
    arrivals = arrivals_grid()
    for quantile in QUANTILES:
        assert (np.diff(rest_of_pass_s(quantile, arrivals, 0.01)) >= 0).all()
        assert (np.diff(own_pass_requests(quantile, arrivals, 0.5)) > 0).all()
        assert (np.diff(wait_for_others_s(quantile, np.linspace(0, 0.99, 50), 0.001)) >= 0).all()


def test_higher_percentiles_wait_longer() -> None:
    for arrivals in (0.1, 1.0, 30.0):
        rests = [float(rest_of_pass_s(q, arrivals, 0.01)) for q in QUANTILES]
        own = [float(own_pass_requests(q, arrivals, 0.3)) for q in QUANTILES]
        assert rests == sorted(rests)
        assert own == sorted(own)
