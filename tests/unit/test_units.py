"""Quantities as people type them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet import units
from gpufleet.errors import UsageError

PARSERS: tuple[Callable[[object], float], ...] = (
    units.parse_tokens,
    units.parse_count,
    units.parse_rate,
    units.parse_duration,
    units.parse_bytes,
    units.parse_ratio,
)


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (units.parse_tokens, "8k", 8192),
        (units.parse_tokens, "128K", 131072),
        (units.parse_tokens, "1000", 1000),
        (units.parse_tokens, "1,000,000", 1e6),
        (units.parse_tokens, " 1.5 k ", 1536),
        (units.parse_tokens, 4096, 4096),
        (units.parse_count, "10M", 1e7),
        (units.parse_count, "2.5k", 2500),
        (units.parse_rate, "50/s", 50),
        (units.parse_rate, "3000/min", 50),
        (units.parse_rate, "0.5 / s", 0.5),
        (units.parse_rate, "1k/h", 1000 / 3600),
        (units.parse_duration, "500ms", 0.5),
        (units.parse_duration, "24h", 86400),
        (units.parse_duration, "36 hours", 129_600),
        (units.parse_duration, "2days", 172_800),
        (units.parse_duration, "1week", 604_800),
        (units.parse_duration, "2 w", 1_209_600),
        (units.parse_duration, "5μs", 5e-6),
        (units.parse_duration, "5µs", 5e-6),
        (units.parse_bytes, "80GB", 80e9),
        (units.parse_bytes, "80GiB", 80 * 2**30),
        (units.parse_ratio, "20%", 0.2),
        (units.parse_ratio, "0.2", 0.2),
        (units.parse_ratio, "0", 0),
        (units.parse_ratio, "100%", 1),
    ],
)
def test_a_quantity_is_read_with_its_unit(parse: Callable[[object], float], text: object, value: float) -> None:
    assert parse(text) == pytest.approx(value)


@pytest.mark.parametrize("parse", PARSERS)
@pytest.mark.parametrize(
    "text",
    ["", " ", "nan", "inf", "-inf", "-5", "-5/s", "-5s", "-5GB", "abc", "1e400", "0x10", "1 2", "--", None, True],
)
def test_nonsense_is_refused_by_every_parser(parse: Callable[[object], float], text: object) -> None:
    with pytest.raises(UsageError):
        parse(text)


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (units.parse_duration, "500"),
        (units.parse_duration, "60m"),
        (units.parse_bytes, "80"),
        (units.parse_bytes, "80G"),
        (units.parse_rate, "50"),
        (units.parse_rate, "50/fortnight"),
        (units.parse_rate, "50/s/s"),
        (units.parse_tokens, "8 kB"),
    ],
)
def test_a_missing_or_foreign_unit_is_refused_with_an_example(parse: Callable[[object], float], text: str) -> None:
    with pytest.raises(UsageError, match=r"expected a (number with unit|positive number) such as '\d"):
        parse(text)


def test_a_decimal_comma_is_not_read_as_fifteen() -> None:
    with pytest.raises(UsageError):
        units.parse_tokens("1,5")


@pytest.mark.parametrize("parse", PARSERS[:-1])
def test_zero_is_refused_where_it_would_divide(parse: Callable[[object], float]) -> None:
    for text in ("0", "0/s", "0s", "0GiB"):
        with pytest.raises(UsageError):
            parse(text)


def test_a_rate_too_small_for_a_float_is_refused() -> None:
    with pytest.raises(UsageError):
        units.parse_rate("1e-323/d")


@pytest.mark.parametrize(
    ("parse", "unit"),
    [
        (units.parse_tokens, ""),
        (units.parse_count, ""),
        (units.parse_rate, "/s"),
        (units.parse_rate, "k/d"),
        (units.parse_duration, "week"),
        (units.parse_bytes, "TiB"),
        (units.parse_usd, ""),
        (units.parse_usd_per_hour, "/h"),
        (units.parse_usd_per_hour, "/y"),
    ],
)
@pytest.mark.parametrize("number", ["1e300", "1e-300", "9" * 40, "1e-40"])
def test_what_nobody_means_is_out_of_range(parse: Callable[[object], float], unit: str, number: str) -> None:
    with pytest.raises(UsageError, match=r"is out of range; found '.*'; expected from [0-9.]+ to "):
        parse(number + unit)


def test_a_share_is_nothing_or_a_millionth_at_least() -> None:
    assert (units.parse_ratio("0%"), units.parse_ratio("0.0001%")) == (0, pytest.approx(1e-6))
    with pytest.raises(UsageError):
        units.parse_ratio("1e-300")


def test_a_long_number_is_refused_at_once() -> None:
    start = time.process_time()
    with pytest.raises(UsageError):
        units.parse_tokens("9" * 1_000_000 + "x")
    assert time.process_time() - start < 1


@given(st.text(max_size=30))
def test_any_text_is_a_positive_number_or_a_usage_error(text: str) -> None:
    for parse in PARSERS:
        try:
            value = parse(text)
        except UsageError:
            continue
        assert math.isfinite(value)
        assert value >= 0


@given(st.integers(min_value=1, max_value=10**8))
def test_plain_token_counts_are_read_exactly(tokens: int) -> None:
    assert units.parse_tokens(tokens) == tokens
    assert units.parse_tokens(f"{tokens:,}") == tokens


def test_binary_and_decimal_bytes_differ_by_seven_percent() -> None:
    assert pytest.approx(1.0737, abs=1e-4) == units.GIB / units.GB


def test_a_bare_rate_is_refused_with_the_word_that_is_missing() -> None:
    with pytest.raises(UsageError, match="Type '20/s' for as many a second"):
        units.parse_rate("20")
    with pytest.raises(UsageError) as caught:
        units.parse_rate("often")
    assert caught.value.hint is None


@given(st.integers(1, 99_999_999))
def test_a_number_in_full_reads_back_as_itself(number: int) -> None:
    assert units.in_full(number) == str(number)
    assert float(units.in_full(number / 10**6)) == pytest.approx(number / 10**6, rel=1e-7)


@pytest.mark.parametrize("text", ["388.000", "$1.250", "999.999"])
def test_money_that_is_a_thousandth_where_dots_group_is_refused(text: str) -> None:
    for read, typed in ((units.parse_usd, text), (units.parse_usd_per_hour, f"{text}/mo")):
        with pytest.raises(UsageError, match="read in two ways"):
            read(typed)


@pytest.mark.parametrize("text", ["0.600", "388.00", "388000", "388,000", "1234.567", "388.0"])
def test_money_with_one_reading_is_read(text: str) -> None:
    assert units.parse_usd(text) == float(text.replace(",", ""))
