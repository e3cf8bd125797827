"""When requests come: rates, burstiness and curves within statistical bounds, on fixed seeds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.domain.rate_curve import RateCurve
from gpufleet.errors import UsageError
from gpufleet.simulate.arrivals import (
    MOST_REQUESTS,
    burst_times_s,
    burstiness_of_cv,
    curve_times_s,
    even_times_s,
    renewal_times_s,
    renewal_times_within_s,
)
from gpufleet.simulate.day_curves import daily_curve, hourly_curve, weekly_curve
from gpufleet.units import DAY, HOUR

SIGMAS = 4.0


def dice(seed: int = 17) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize("burstiness", [0.1, 0.5, 1.0, 4.0, 100.0])
def test_gaps_have_the_mean_and_the_variation_of_vllms_burstiness(burstiness: float) -> None:
    """vLLM's benchmark: gaps are Gamma of shape `burstiness`, their cv is 1 / sqrt(burstiness)."""
    num, rate = 200_000, 5.0
    gaps = np.diff(renewal_times_s(dice(), rate, num, burstiness))
    cv = 1 / math.sqrt(burstiness)
    assert gaps.mean() * rate == pytest.approx(1.0, abs=SIGMAS * cv / math.sqrt(num))
    assert gaps.std() / gaps.mean() == pytest.approx(cv, rel=0.03)
    assert burstiness_of_cv(cv) == pytest.approx(burstiness)


def test_poisson_gaps_are_exponential() -> None:
    """The largest distance between sample and law stays below Kolmogorov's 0.1 % bound, 1.95 / sqrt(n)."""
    gaps = np.sort(np.diff(renewal_times_s(dice(3), 2.0, 50_001)))
    law, seen = 1 - np.exp(-2.0 * gaps), (np.arange(len(gaps)) + 0.5) / len(gaps)
    assert np.abs(law - seen).max() < 1.95 / math.sqrt(len(gaps))


@pytest.mark.slow
@pytest.mark.parametrize("burstiness", [0.05, 0.3, 1.0, 20.0])
def test_a_span_holds_its_rate_times_its_length_however_bursty(burstiness: float) -> None:
    """A stream that began at an arrival would hold (cv^2 - 1) / 2 more: 9.5 instead of none at 0.05."""
    counts = [len(renewal_times_within_s(dice(seed), 1.0, 20.0, burstiness)) for seed in range(4000)]
    assert np.mean(counts) == pytest.approx(20.0, abs=SIGMAS * np.std(counts) / math.sqrt(len(counts)))


def test_even_arrivals_and_a_burst_are_what_they_say() -> None:
    assert even_times_s(4.0, 5).tolist() == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert burst_times_s(3, 2.0).tolist() == [2.0, 2.0, 2.0]


@given(
    rates=st.lists(st.floats(0.0, 50.0), min_size=1, max_size=12),
    cvs=st.lists(st.floats(0.0, 5.0), min_size=12, max_size=12),
    has_cv=st.booleans(),
    seed=st.integers(0, 2**32),
)
def test_a_curve_gives_the_same_times_for_a_seed_in_order_and_none_where_it_is_zero(
    rates: list[float], cvs: list[float], has_cv: bool, seed: int
) -> None:
    curve = RateCurve(100.0, np.array(rates), 10.0, np.array(cvs[: len(rates)]) if has_cv else None)
    times = curve_times_s(dice(seed), curve)
    assert times.tobytes() == curve_times_s(dice(seed), curve).tobytes()
    assert np.all(np.diff(times) >= 0)
    assert np.all((times >= 0) & (times <= curve.span_s))
    inside = times[(times % curve.bin_s > 1e-6) & (times % curve.bin_s < curve.bin_s - 1e-6)]
    assert np.all(curve.rate_per_s[(inside // curve.bin_s).astype(int)] > 0)


def test_every_bin_of_a_poisson_curve_has_a_poisson_count() -> None:
    curve = RateCurve(0.0, np.array([1.0, 0.0, 30.0, 4.0, 0.5]), 50.0)
    counts = np.array([np.bincount((curve_times_s(dice(s), curve) // 50).astype(int), minlength=5) for s in range(600)])
    expected = curve.rate_per_s * 50
    assert np.all(np.abs(counts.mean(axis=0) - expected) <= SIGMAS * np.sqrt(expected / 600))
    busy = expected > 0
    assert counts.var(axis=0)[busy] / expected[busy] == pytest.approx(1.0, abs=SIGMAS * math.sqrt(2 / 600))


def test_each_bin_has_the_burstiness_of_its_own_cv() -> None:
    cv = np.array([0.2, 3.0])
    times = curve_times_s(dice(), RateCurve(0.0, np.array([100.0, 20.0]), 2000.0, cv))
    for i, rate in enumerate((100.0, 20.0)):
        gaps = np.diff(times[(times >= i * 2000) & (times < (i + 1) * 2000)])
        assert gaps.std() / gaps.mean() == pytest.approx(cv[i], rel=0.05)
        assert len(gaps) == pytest.approx(rate * 2000, abs=SIGMAS * cv[i] * math.sqrt(rate * 2000))


def test_a_stated_burstiness_replaces_that_of_the_curve() -> None:
    curve = RateCurve(0.0, np.full(50, 20.0), 100.0, np.full(50, 3.0))
    gaps = np.diff(curve_times_s(dice(), curve, burstiness=1.0))
    assert gaps.std() / gaps.mean() == pytest.approx(1.0, rel=0.03)


def test_a_curve_of_one_rate_is_the_stream_of_that_rate() -> None:
    whole = curve_times_s(dice(), RateCurve(0.0, np.full(10, 3.0), 100.0), burstiness=0.5)
    assert whole == pytest.approx(renewal_times_within_s(dice(), 3.0, 1000.0, 0.5))


def test_a_curve_without_requests_gives_none() -> None:
    assert len(curve_times_s(dice(), RateCurve(0.0, np.zeros(4), 10.0, np.ones(4)))) == 0
    assert len(curve_times_s(dice(), RateCurve(0.0, np.zeros(4), 10.0))) == 0


def test_days_and_weeks_keep_their_mean_and_peak_where_asked() -> None:
    day = daily_curve(10.0, 1.8, 15 * HOUR, 1, HOUR)
    assert day.mean_rate_per_s == pytest.approx(10.0)
    assert int(day.rate_per_s.argmax()) in (14, 15)
    week = weekly_curve(day, 0.5, 2)
    assert week.span_s == 14 * DAY
    by_day = week.rate_per_s.reshape(14, 24).mean(axis=1)
    assert by_day == pytest.approx([10, 10, 10, 10, 10, 5, 5] * 2)
    assert hourly_curve([1.0, 3.0]).num_expected == 4 * HOUR


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (lambda: renewal_times_s(dice(), 1.0, 1e9), "found '1,000,000,000'; expected at most 20,000,000"),
        (lambda: renewal_times_s(dice(), 1.0, -1), "not negative"),
        (lambda: renewal_times_s(dice(), 1.0, math.nan), "not negative"),
        (lambda: renewal_times_s(dice(), 1.0, math.inf), "too many requests"),
        (lambda: renewal_times_s(dice(), 0.0, 5), "the rate is out of range"),
        (lambda: renewal_times_s(dice(), math.nan, 5), "the rate is out of range"),
        (lambda: renewal_times_s(dice(), 1.0, 5, 0.0), "the burstiness is out of range"),
        (lambda: renewal_times_s(dice(), 1.0, 5, math.nan), "the burstiness is out of range"),
        (lambda: renewal_times_within_s(dice(), 1e6, 1e6), "too many requests"),
        (lambda: even_times_s(1.0, MOST_REQUESTS + 1), "too many requests"),
        (lambda: burst_times_s(1e12), "too many requests"),
        (lambda: daily_curve(1.0, 3.0, 0.0, 1, HOUR), "the peak of a day over its mean"),
        (lambda: daily_curve(1.0, 1.5, 0.0, 1, 7000.0), "do not divide"),
    ],
)
def test_what_nobody_means_is_refused(asked: object, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        asked()  # type: ignore[operator]


@pytest.mark.parametrize(
    "broken",
    [
        (0.0, np.array([1.0, -1.0]), 1.0),
        (0.0, np.array([np.nan]), 1.0),
        (0.0, np.array([]), 1.0),
        (0.0, np.array([1.0]), 0.0),
        (np.inf, np.array([1.0]), 1.0),
        (0.0, np.array([1.0]), 1.0, np.array([1.0, 1.0])),
        (0.0, np.array([1.0]), 1.0, np.array([-1.0])),
    ],
)
def test_a_curve_that_cannot_be_is_refused_at_birth(broken: tuple[object, ...]) -> None:
    with pytest.raises(ValueError, match="rate curve"):
        RateCurve(*broken)  # type: ignore[arg-type]
