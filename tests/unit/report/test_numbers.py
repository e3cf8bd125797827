"""Numbers as people read them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.report import numbers

SHOWERS = (
    numbers.significant,
    numbers.duration,
    numbers.gib,
    numbers.usd,
    numbers.usd_per_hour,
    numbers.usd_per_month,
    numbers.usd_per_million_tokens,
    numbers.percent,
    numbers.count,
)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0"),
        (9.999, "10.0"),
        (999.9, "1,000"),
        (0.0999, "0.0999"),
        (-1234.5, "-1,234"),
        (1e15, "1,000,000,000,000,000"),
        (1e-9, "0.00000000100"),
    ],
)
def test_three_digits_and_never_an_exponent(value: float, shown: str) -> None:
    assert numbers.significant(value) == shown


@pytest.mark.parametrize(
    ("dollars", "shown"),
    [
        (0.0, "$0.00"),
        (0.004, "$0.00400"),
        (0.5, "$0.50"),
        (12.345, "$12.35"),
        (999.994, "$999.99"),
        (21994.9, "$21,995"),
        (-3.5, "-$3.50"),
    ],
)
def test_dollars_have_cents_below_a_thousand_and_digits_below_a_dime(dollars: float, shown: str) -> None:
    assert numbers.usd(dollars) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0.0, "0 s"), (3.2e-6, "3.20 µs"), (0.0314, "31.4 ms"), (1.0, "1.00 s"), (90.0, "90.0 s"), (7200, "2.00 h")],
)
def test_a_time_is_said_in_the_unit_that_people_use(seconds: float, shown: str) -> None:
    assert numbers.duration(seconds) == shown


def test_a_range_stands_beside_its_value_in_one_unit() -> None:
    assert numbers.ranged_duration(0.98, 0.8, 1.3) == "980 (800-1,300) ms"
    assert numbers.ranged(42.0, None, None, "req/s") == "42 req/s"


def test_a_twentieth_of_a_gib_is_not_shown_as_zero() -> None:
    assert numbers.gib(2**30 / 200) == "0.0050 GiB"


@pytest.mark.parametrize("show", SHOWERS)
def test_unknown_is_said_and_unlimited_is_said(show: object) -> None:
    assert callable(show)
    assert show(None) == "unknown"
    assert show(math.inf) == "unlimited"


@given(st.floats(min_value=1e-6, max_value=1e12))
def test_what_is_shown_is_within_half_a_percent_of_the_value(value: float) -> None:
    assert float(numbers.significant(value).replace(",", "")) == pytest.approx(value, rel=0.005)


@given(st.floats(min_value=1e-6, max_value=1e9))
def test_an_amount_keeps_the_size_of_its_number(number: float) -> None:
    shown = numbers.amount(number)
    assert float(shown.replace(",", "")) == pytest.approx(number, rel=0.0051)
    assert "." not in shown or shown[-1] not in "0."


@given(st.integers(1, 10_000_000), st.sampled_from((-1, 1)))
def test_a_mean_that_missed_a_whole_number_by_rounding_keeps_its_zeros(whole: int, side: int) -> None:
    nearly = math.nextafter(float(whole), side * math.inf)
    assert float(numbers.amount(nearly).replace(",", "")) == pytest.approx(whole, rel=0.0051)
