"""Dollars per hour, month, token and request."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.domain.offer import OwnPower, PriceKind
from gpufleet.pricing.commitment import billed_s
from gpufleet.pricing.effective_price import effective_usd_per_hour, usd_per_month
from gpufleet.pricing.owned import owned_usd_per_hour
from gpufleet.pricing.unit_cost import usd_per_million_tokens, usd_per_request
from gpufleet.units import DAY

prices = st.floats(0.01, 1e4)
rates = st.floats(1e-3, 1e6)


def test_a_month_has_730_hours() -> None:
    assert usd_per_month(98.32) == pytest.approx(71_773.6)


def test_a_shorter_month_can_be_asked_for() -> None:
    assert usd_per_month(2.0, hours_per_month=720) == 1440


def test_an_upfront_payment_is_spread_over_its_year() -> None:
    """All upfront: 100,000 USD for 8,760 hours are 11.42 USD/h."""
    assert effective_usd_per_hour(0.0, 100_000, 8760) == pytest.approx(11.4155, abs=1e-4)


def test_what_else_a_year_costs_is_spread_over_its_hours() -> None:
    """8,760 USD a year for the rack are 1 USD an hour, beside 0.2413 for purchase and power."""
    power = OwnPower(500.0, 1.0, 0.30)
    bare, racked = (owned_usd_per_hour(power, 2400, 3, other_usd_per_year=usd) for usd in (0.0, 8760.0))
    assert racked - bare == pytest.approx(1.0)


def test_nothing_upfront_leaves_the_hourly_price() -> None:
    assert effective_usd_per_hour(3.5) == 3.5


def test_a_million_tokens_of_one_h100_at_a_thousand_a_second() -> None:
    """3 USD/h over 3.6 million tokens an hour."""
    assert usd_per_million_tokens(3.0, 1000.0) == pytest.approx(0.83333, abs=1e-5)


@given(prices, rates, st.floats(1, 1e4))
def test_tokens_and_requests_cost_the_same_hour(usd_per_hour: float, rate: float, output_tokens: float) -> None:
    per_token = usd_per_million_tokens(usd_per_hour, rate * output_tokens) / 1e6
    assert per_token * output_tokens == pytest.approx(usd_per_request(usd_per_hour, rate))


@given(prices, rates, st.floats(1.0, 100))
def test_more_tokens_from_the_same_machine_are_never_dearer(usd_per_hour: float, rate: float, factor: float) -> None:
    assert usd_per_million_tokens(usd_per_hour, factor * rate) <= usd_per_million_tokens(usd_per_hour, rate)


def test_arrays_of_offers_are_priced_at_once() -> None:
    found = effective_usd_per_hour(np.array([1.0, 2.0]), np.array([0.0, 8760.0]), 8760.0)
    np.testing.assert_allclose(found, [1.0, 3.0])


@pytest.mark.parametrize(
    ("used_s", "days"), [(0.0, 0), (1.0, 1), (DAY - 1, 1), (DAY, 1), (DAY + 1, 2), (13.5 * DAY, 14), (14 * DAY, 14)]
)
def test_a_capacity_block_is_paid_by_the_day_begun(used_s: float, days: int) -> None:
    """EC2 Capacity Blocks for ML: "in 1-day increments up to 14 days"; a whole day used is a day, not two."""
    assert billed_s(PriceKind.CAPACITY_BLOCK, used_s, held_s=DAY / 2) == days * DAY


@given(st.lists(st.floats(0, 1e7), min_size=1, max_size=5), st.sampled_from(PriceKind))
def test_no_machine_is_paid_for_less_than_it_works_or_for_a_day_more_than_it_is_had(used: list[float], kind: PriceKind):
    used_s, held_s = np.array(used), max(used)
    paid_s = billed_s(kind, used_s, held_s)
    assert (paid_s >= used_s).all()
    assert (paid_s <= held_s + DAY).all()
    assert paid_s.tolist() == [float(billed_s(kind, alone, held_s)) for alone in used]
