"""Percentiles of sums of random times."""

from __future__ import annotations

import numpy as np
import pytest

from gpufleet.performance.spread import Spread, known_at, log_normal, summed

QUANTILES = (0.5, 0.9, 0.95, 0.99)


@pytest.mark.parametrize("quantile", QUANTILES)
def test_normal_times_add_as_squares(quantile: float) -> None:
    one, other, both = Spread(1.0, 9.0), Spread(2.0, 16.0), Spread(3.0, 25.0)
    assert summed([one, other]).at_s(quantile) == pytest.approx(both.at_s(quantile))


@pytest.mark.parametrize("quantile", QUANTILES)
def test_what_never_varies_is_added_to_any_percentile(quantile: float) -> None:
    time = log_normal(np.array([2.0]), np.array([3.0]), quantile)
    assert summed([time, Spread(5.0, 0.0)]).at_s(quantile) == pytest.approx(5 + time.at_s(quantile))


@pytest.mark.parametrize("quantile", QUANTILES)
@pytest.mark.parametrize("spreads", [(0.9, 0.7), (0.9, 0.2), (0.3, 0.3)])
def test_log_normal_times_that_are_drawn_add_to_what_is_said(quantile: float, spreads: tuple[float, float]) -> None:
    """Within 7 %, where their 95th percentiles together would be up to a quarter too much."""
    dice, parts, total = np.random.default_rng(7), [], np.zeros(400_000)
    for log_spread in spreads:
        drawn = dice.lognormal(0.0, log_spread, len(total))
        mean, deviation = drawn.mean(keepdims=True), drawn.std(keepdims=True)
        parts.append(known_at(np.quantile(drawn, quantile), mean, deviation, quantile))
        total += drawn
    assert summed(parts).at_s(quantile) == pytest.approx(np.quantile(total, quantile), rel=0.07)


def test_a_log_normal_time_has_its_mean_and_variance() -> None:
    share = (np.arange(20_000) + 0.5) / 20_000
    drawn = [float(log_normal(np.array(2.0), np.array(1.0), q).at_s(q)) for q in share]
    assert (np.mean(drawn), np.var(drawn)) == (pytest.approx(2.0, rel=1e-3), pytest.approx(1.0, rel=0.02))
