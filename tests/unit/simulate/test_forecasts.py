"""Forecasts see the past alone, and get right what repeats."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.simulate.scaled_services import seen_at, small_service

from gpufleet.simulate.forecasts import Forecast, HoltWinters, LeadForecast, SeasonalNaive
from gpufleet.simulate.predictive import QUANTILES, WEIGHTS, DayBudget, Predictive, lead_steps

DAY_STEPS = 24
DAYS = [10 + 5 * math.sin(2 * math.pi * step / DAY_STEPS) for step in range(DAY_STEPS)] * 6


def lead_forecast() -> LeadForecast:
    return LeadForecast(2, DAY_STEPS, 3, 0.01)


def after(forecast: Forecast, values: list[float]) -> Forecast:
    for value in values:
        forecast.add(value)
    return forecast


@pytest.mark.parametrize("forecast", [SeasonalNaive(DAY_STEPS), HoltWinters(DAY_STEPS)])
@pytest.mark.parametrize("steps", [1, 5, DAY_STEPS, DAY_STEPS + 3])
def test_what_repeats_exactly_is_forecast_exactly(forecast: Forecast, steps: int) -> None:
    after(forecast, DAYS[: 2 * DAY_STEPS])
    expected = {n: forecast.ahead(n) for n in range(1, steps + 1)}[steps]
    assert expected == pytest.approx(DAYS[(2 * DAY_STEPS + steps - 1) % DAY_STEPS])


def test_holt_winters_follows_a_season_on_a_trend() -> None:
    values = [0.1 * step + 2 * DAYS[step % DAY_STEPS] for step in range(30 * DAY_STEPS)]
    forecast = after(HoltWinters(DAY_STEPS, level=0.3, trend=0.1, season=0.3), values)
    expected = 0.1 * (30 * DAY_STEPS + 3) + 2 * DAYS[3]
    assert forecast.ahead(4) == pytest.approx(expected, rel=0.03)


def test_holt_winters_by_hand() -> None:
    forecast = after(HoltWinters(2, level=0.5, trend=0.5, season=0.5), [10.0, 20.0, 14.0])
    level = 0.5 * (14.0 + 5.0) + 0.5 * 15.0
    trend = 0.5 * (level - 15.0)
    assert forecast.ahead(1) == pytest.approx(level + trend + 5.0)
    assert forecast.ahead(2) == pytest.approx(level + 2 * trend + 0.5 * (14.0 - level) + 0.5 * -5.0)


@given(st.lists(st.floats(0.1, 100.0), min_size=3, max_size=60), st.integers(1, 30))
def test_no_forecast_depends_on_what_comes_later(values: list[float], cut: int) -> None:
    cut = min(cut, len(values) - 1)
    for made in (lambda: SeasonalNaive(8), lambda: HoltWinters(8)):
        known, all_of_them = after(made(), values[:cut]), made()
        seen = []
        for value in values:
            all_of_them.add(value)
            seen.append(all_of_them.ahead(2))
        assert known.ahead(2) == seen[cut - 1]


def test_the_own_forecast_learns_a_days_shape_that_the_level_of_now_does_not_tell() -> None:
    steps, lead = 288, 6
    values = [10 + 5 * math.sin(2 * math.pi * step / steps) for step in range(5 * steps)]
    forecast, errors, naive = LeadForecast(lead, steps, 12, 0.01), [], []
    for step, value in enumerate(values):
        if step >= 3 * steps:
            errors.append(abs(math.log(value) - forecast.asked[0][2]))
            naive.append(abs(math.log(value) - math.log(values[step - lead])))
        forecast.add(value)
    assert np.mean(errors) < 0.3 * np.mean(naive)


def test_quantiles_of_errors_rise_and_are_one_where_nothing_changes() -> None:
    generator = np.random.default_rng(1)
    forecast = lead_forecast()
    for _ in range(200):
        forecast.add(5.0 * math.exp(0.2 * generator.normal()))
    ratios = forecast.ratios(QUANTILES)
    assert ratios is not None
    assert np.all(np.diff(ratios) >= 0)
    assert ratios[0] < 1 < ratios[-1]
    steady = lead_forecast()
    for _ in range(100):
        steady.add(3.0)
    assert steady.ratios(QUANTILES) == pytest.approx(np.ones(len(QUANTILES)))
    assert steady.expected == pytest.approx(3.0)


def test_weights_of_the_quantiles_are_those_of_all_cases() -> None:
    assert pytest.approx(1.0) == WEIGHTS.sum()
    assert np.all(WEIGHTS > 0)


@pytest.mark.parametrize(("cold_s", "steps"), [(0.0, 1), (15.0, 2), (60.0, 2), (75.0, 3), (300.0, 6)])
def test_the_lead_is_the_first_step_in_which_a_machine_ordered_now_is_ready(cold_s: float, steps: int) -> None:
    assert lead_steps(small_service(cold_s), 60.0) == steps


def test_a_day_that_lost_its_budget_is_strict_until_midnight() -> None:
    budget = DayBudget(0.05, 60.0)
    for _ in range(1440 + 100):
        budget.add(100.0, 1.0)
    assert budget.now > 2 * budget.tolerance * budget.LEAST_RATIO
    budget.add(100.0, 100.0)
    for _ in range(10):
        budget.add(100.0, 60.0)
    for _ in range(20):
        budget.add(100.0, 60.0)
    strict = budget.tolerance * budget.LEAST_RATIO
    for _ in range(100):
        budget.add(100.0, 100.0)
    assert budget.now <= max(strict, budget.tolerance * budget.LEAST_RATIO)
    for _ in range(1440 - 231):
        budget.add(100.0, 0.0)
    assert budget.came == budget.missed == 0


def test_tolerance_grows_while_fewer_miss_than_may_and_shrinks_while_more_do() -> None:
    easy, hard = DayBudget(0.05, 60.0), DayBudget(0.05, 60.0)
    for _ in range(300):
        easy.add(100.0, 0.0)
        hard.add(100.0, 12.0)
    assert hard.tolerance < 0.03 < easy.tolerance


def test_a_late_request_is_dear_where_another_bad_hour_does_not_fit_in_the_day() -> None:
    budget = DayBudget(0.05, 60.0)
    for _ in range(1440):
        budget.add(100.0, 1.0)
    for _ in range(600):
        budget.add(100.0, 1.0)
    calm = budget.price
    assert calm == budget.price_at(0.0)
    for _ in range(60):
        budget.add(100.0, 100.0)
    assert budget.price == min(budget.price_at(0.0) * budget.DIRE, budget.MOST_PRICE) > calm


def test_what_is_rare_and_large_is_covered_only_where_late_requests_are_dear() -> None:
    law = Predictive(small_service())
    rates, weights = np.array([50.0, 50.0, 50.0, 150.0]), np.array([0.4, 0.3, 0.29, 0.01])
    wanted = {}
    law.budget.now = 1e-4
    for price in (1.0, 300.0):
        law.budget.price = price
        wanted[price] = law.fewest(rates, weights)
    assert law.needed_now(50.0) <= wanted[1.0] <= law.needed_now(50.0) + 2
    assert wanted[300.0] > 2 * law.needed_now(50.0)


def test_a_backlog_is_worked_off_in_a_small_part_of_a_start() -> None:
    service = small_service()
    law = Predictive(service)
    seen = seen_at(15.0, 5, rate_per_s=0.0, queue=600.0)
    assert law.needed_for_backlog(seen, 0.0) == law.needed_now(600.0 / (law.DRAIN_RATIO * service.cold_start_s))


def test_our_law_never_wants_fewer_than_the_rate_of_now_needs_and_works_off_a_backlog() -> None:
    service = small_service()
    law = Predictive(service)
    for tick in range(40):
        wanted = law.decide(seen_at(15.0 * (tick + 1), 5, rate_per_s=40.0))
    assert wanted >= 5
    assert law.decide(seen_at(15.0 * 41, 5, rate_per_s=40.0, queue=4800.0)) >= wanted + 1


def test_our_law_goes_to_none_after_an_empty_hour_only_where_it_may() -> None:
    service = small_service()
    runs = {least: Predictive(service, min_replicas=least) for least in (0, 1)}
    for tick in range(300):
        wanted = {least: law.decide(seen_at(15.0 * (tick + 1), 1)) for least, law in runs.items()}
    assert wanted == {0: 0, 1: 1}
    assert runs[0].decide(seen_at(15.0 * 301, 0, rate_per_s=1.0, queue=15.0)) >= 1


@pytest.mark.slow
def test_weeks_in_which_nothing_changes_do_not_make_it_forget_beyond_what_it_knew() -> None:
    """Least squares that forget lose what is not seen: after years of flat days a change was forecast at infinity."""
    forecast = lead_forecast()
    after(forecast, [10.0] * (2500 * DAY_STEPS))
    assert np.trace(forecast.spread) <= 8 * forecast.MOST_SPREAD / forecast.PRIOR
    after(forecast, [*DAYS, *DAYS])
    assert 1 < forecast.expected < 100
