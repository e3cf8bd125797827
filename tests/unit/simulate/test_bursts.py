"""The busiest stretch of arrivals: what chance explains is none, a burst is found, and a second count agrees."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpufleet.simulate.bursts import busiest_rate


def quiet_and_burst(seed: int, num: int, times_as_fast: float, share: float) -> np.ndarray:
    """Poisson arrivals at one a second, a share of them in one burst in the middle."""
    gaps = np.random.default_rng(seed).exponential(1.0, num)
    middle, half = num // 2, int(share * num / 2)
    gaps[middle - half : middle + half] /= times_as_fast
    return np.cumsum(gaps)


@pytest.mark.parametrize("num", [500, 2_000, 20_000])
def test_chance_is_no_burst(num: int) -> None:
    found = [busiest_rate(quiet_and_burst(seed, num, 1.0, 0.0), late) for seed in range(30) for late in (0.01, 0.05)]
    assert sum(rate is not None for rate in found) <= 1


@pytest.mark.parametrize("times_as_fast", [2.0, 3.5, 10.0])
def test_a_burst_of_a_third_of_the_requests_is_found_at_its_rate(times_as_fast: float) -> None:
    for seed in range(10):
        found = busiest_rate(quiet_and_burst(seed, 3_000, times_as_fast, 1 / 3), 0.05)
        assert found is not None
        assert found == pytest.approx(times_as_fast, rel=0.2)


def test_a_burst_of_fewer_requests_than_may_be_late_breaks_no_limit() -> None:
    short = quiet_and_burst(1, 20_000, 50.0, 0.01)
    wide, strict = busiest_rate(short, 0.10), busiest_rate(short, 0.01)
    assert wide is None or wide < 1.2, "within any headroom"
    assert strict is not None
    assert strict > 20


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**31), st.sampled_from([0.01, 0.05, 0.2]), st.floats(1.5, 20.0))
def test_no_stretch_of_so_many_requests_is_faster(seed: int, late_ratio: float, times_as_fast: float) -> None:
    """A second count, stretch by stretch."""
    times = quiet_and_burst(seed, 700, times_as_fast, 0.4)
    found, num = busiest_rate(times, late_ratio), max(math.ceil(late_ratio * 700), 100)
    spans = [times[i + num] - times[i] for i in range(700 - num)]
    seen, mean = num / max(min(spans), 1.0), 699 / (times[-1] - times[0])
    if found is None:
        assert num / seen * mean >= (num - 4 * math.sqrt(num)) * (1 - 1e-9)
    else:
        assert found == pytest.approx(max(seen * (1 - 1 / math.sqrt(num)), mean))


def test_requests_at_once_and_few_requests_have_no_busiest_stretch() -> None:
    assert busiest_rate(np.zeros(500), 0.05) is None
    assert busiest_rate(np.arange(50.0), 0.05) is None
    at_once = busiest_rate(np.sort(np.concatenate([np.zeros(400), np.arange(600.0)])), 0.05)
    assert at_once == pytest.approx(90.0), "a second at the least"
