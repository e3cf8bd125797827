"""Numbers as people read them: three digits, a unit, and the range beside the value; money in the currency shown.

That is dollars, unless whoever asks states another one with its rate. It is a matter of writing alone: results, JSON
and every comparison stay in dollars, so that nothing is ever mixed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from gpufleet import units
from gpufleet.domain.currency import DOLLAR, Currency
from gpufleet.provenance import WIDEST_RATIO

_SHOWN: ContextVar[Currency | None] = ContextVar("shown currency", default=None)
DIGITS = 3
MOST_DECIMALS = 12
UNKNOWN, UNLIMITED = "unknown", "unlimited"
DIME, WHOLE_DOLLARS_FROM, MULTIPLE_FROM = 0.1, 1000, 9.0

MANY_DAYS = 10


def show_money_in(currency: Currency | None) -> None:
    """From here on, money is written so; it ends with the context (`contextvars`) in which it was said."""
    _SHOWN.set(currency)


def shown_currency() -> Currency | None:
    """The currency in which money is written; None: dollars."""
    return _SHOWN.get()


def shown_code() -> str:
    """Its three letters."""
    currency = shown_currency()
    return DOLLAR if currency is None else currency.code


def shown_amount(usd: float) -> float:
    """An amount of dollars as it is written."""
    currency = shown_currency()
    return usd if currency is None else currency.amount(usd)


def significant(value: float | None, digits: int = DIGITS) -> str:
    """A number rounded to significant digits, never in scientific notation; whole digits are kept, decimals end at 12.

    >>> significant(1234.56), significant(0.012345), significant(131.43), significant(1e-300)
    ('1,235', '0.0123', '131', '0.000000000000')
    """
    if value is None:
        return UNKNOWN
    if math.isinf(value):
        return UNLIMITED if value > 0 else "-" + UNLIMITED
    if value == 0:
        return "0"
    magnitude = math.floor(math.log10(abs(float(f"{value:.{digits - 1}e}"))))
    return f"{value:,.{min(max(0, digits - 1 - magnitude), MOST_DECIMALS)}f}"


def ranged(
    value: float | None,
    low: float | None,
    high: float | None,
    unit: str = "",
    scale: float = 1.0,
    digits: int = 2,
) -> str:
    """A value with its 10th and 90th percentile, divided by `scale`; of one without end so much as is known.

    >>> ranged(0.031, 0.027, 0.036, "ms", units.MILLISECOND), ranged(3.0, 2.0, math.inf)
    ('31 (27-36) ms', '3.0 (2.0-over 30)')
    """
    if value is None:
        return UNKNOWN
    shown = significant(value / scale, digits)
    if low is not None and high is not None:
        no_end = f"over {significant(WIDEST_RATIO * value / scale, digits)}"
        end = no_end if math.isinf(high) else significant(high / scale, digits)
        shown += f" ({significant(low / scale, digits)}-{end})"
    return f"{shown} {unit}".strip()


def duration(seconds: float | None) -> str:
    """A time in the unit that people would say.

    >>> duration(0.031), duration(12.4), duration(5400), duration(0.000004)
    ('31.0 ms', '12.4 s', '1.50 h', '4.00 µs')
    """
    if seconds is None or math.isinf(seconds):
        return significant(seconds)
    unit, scale = duration_unit(seconds)
    return f"{significant(seconds / scale)} {unit}"


def ranged_duration(seconds: float | None, low: float | None, high: float | None) -> str:
    """A time with its range in one unit.

    >>> ranged_duration(0.42, 0.38, 0.51)
    '420 (380-510) ms'
    """
    if seconds is None or math.isinf(seconds):
        return significant(seconds)
    unit, scale = duration_unit(seconds)
    return ranged(seconds, low, high, unit, scale)


def duration_unit(seconds: float) -> tuple[str, float]:
    """The largest unit in which the time is at least one: µs, ms, s, min, h; days from ten of them on."""
    if seconds == 0:
        return "s", 1.0
    if abs(seconds) >= MANY_DAYS * units.DAY:
        return "days", units.DAY
    steps = [("h", units.HOUR), ("min", 2 * units.MINUTE), ("s", 1.0), ("ms", units.MILLISECOND)]
    for name, least in steps:
        if abs(seconds) >= least:
            return name, units.MINUTE if name == "min" else least
    return "µs", units.MICROSECOND


def gib(size_bytes: float | None) -> str:
    """Bytes in GiB with one decimal.

    >>> gib(141107412992)
    '131.4 GiB'
    """
    if size_bytes is None or math.isinf(size_bytes):
        return significant(size_bytes)
    value = size_bytes / units.GIB
    return f"{value:,.1f} GiB" if abs(value) >= 1 or value == 0 else f"{significant(value, 2)} GiB"


def usd(amount: float | None) -> str:
    """Dollars and cents below a thousand, whole dollars above, more digits below a dime; another currency alike.

    >>> usd(12.3), usd(23456.7), usd(0.00123)
    ('$12.30', '$23,457', '$0.00123')
    """
    if amount is None or math.isinf(amount):
        return significant(amount)
    sign, size = "-" if amount < 0 else "", abs(shown_amount(amount))
    if 0 < size < DIME:
        return sign + with_unit_of_money(significant(size))
    return sign + with_unit_of_money(f"{size:,.0f}" if size >= WHOLE_DOLLARS_FROM else f"{size:,.2f}")


def with_unit_of_money(figure: str) -> str:
    """A figure that is in the shown currency already: '$12.30', '11.32 EUR'."""
    return f"${figure}" if shown_currency() is None else f"{figure} {shown_code()}"


def usd_per_hour(price: float | None) -> str:
    """A price by the hour.

    >>> usd_per_hour(30.13)
    '$30.13/h'
    """
    return with_suffix(usd, price, "/h")


def usd_per_month(price: float | None) -> str:
    """A price by the month of 730 hours.

    >>> usd_per_month(21994.9)
    '$21,995/mo'
    """
    return with_suffix(usd, price, "/mo")


def usd_per_million_tokens(price: float | None) -> str:
    """A price for a million tokens.

    >>> usd_per_million_tokens(0.4231)
    '$0.42/1M'
    """
    return with_suffix(usd, price, "/1M")


def roughly(show: Callable[[float], str], amount_usd: float) -> str:
    """An amount that rests on guesses, in two digits and marked.

    >>> roughly(usd_per_month, 131_225.0)
    '~$130,000/mo'
    """
    rounded, unit = float(f"{shown_amount(amount_usd):.1e}"), show(amount_usd).partition("/")
    return f"~{with_unit_of_money(significant(rounded, 2))}{unit[1]}{unit[2]}"


def or_dash(show: Callable[[Any], str]) -> Callable[[Any], str]:
    """What shows a value, or a dash where there is none.

    >>> or_dash(usd)(None), or_dash(usd)(2.0)
    ('-', '$2.00')
    """
    return lambda value: "-" if value is None else show(value)


def percent(share: float | None) -> str:
    """A share of one as a percentage.

    >>> percent(0.183)
    '18%'
    """
    if share is None or math.isinf(share):
        return significant(share)
    return f"{share * units.PERCENT:.0f}%"


def spare(share: float | None) -> str:
    """How much more than asked is carried; what is many times as much is said as a multiple.

    >>> spare(0.32), spare(9.5), spare(387.1)
    ('32%', '10.5x', '388x')
    """
    if share is None or math.isinf(share) or share < MULTIPLE_FROM:
        return percent(share)
    return f"{significant(share + 1)}x"


def headroom(share: float) -> str:
    """How much more than asked is carried, in words.

    >>> headroom(0.32), headroom(9.5)
    ('32%', '10.5x what is asked')
    """
    return f"{spare(share)}{' what is asked' if share >= MULTIPLE_FROM else ''}"


def wanted_beside(share: float, wanted: float) -> str:
    """The headroom that is wanted, said as what is had is.

    >>> wanted_beside(0.32, 0.2), wanted_beside(9.5, 0.2)
    ('20%', '1.2x')
    """
    return f"{amount(1 + wanted)}x" if share >= MULTIPLE_FROM else percent(wanted)


def count(amount: float | None) -> str:
    """A whole number with thousands separated.

    >>> count(70553706496)
    '70,553,706,496'
    """
    if amount is None or math.isinf(amount):
        return significant(amount)
    return f"{amount:,.0f}"


def amount(number: float) -> str:
    """A whole number as it is, any other to three digits, without zeros at the end.

    >>> amount(50.0), amount(0.0123456), amount(0.5), amount(349.99999999999994)
    ('50', '0.0123', '0.5', '350')
    """
    if math.isinf(number) or number == round(number):
        return count(number)
    whole, point, decimals = significant(number).partition(".")
    return f"{whole}{point}{decimals.rstrip('0')}".removesuffix(".")


def several(number: float, noun: str) -> str:
    """A number with its noun in the right form.

    >>> several(1, "request"), several(0.5, "request"), several(1200, "request")
    ('1 request', '0.5 requests', '1,200 requests')
    """
    return f"{amount(number)} {noun}" if number == 1 else f"{amount(number)} {noun}s"


def plural(number: float, noun: str) -> str:
    """A count with its noun.

    >>> plural(1, "machine"), plural(1200, "machine")
    ('1 machine', '1,200 machines')
    """
    return f"{count(number)} {noun}" if number == 1 else f"{count(number)} {noun}s"


def with_suffix(show: Callable[[float | None], str], value: float | None, suffix: str) -> str:
    """The shown value and its unit; unknown and unlimited stay without one."""
    return show(value) if value is None or math.isinf(value) else show(value) + suffix
