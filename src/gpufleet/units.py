"""The only conversions between human units and base units (bytes, seconds, tokens, USD, watts).

Parsers refuse what they do not understand, `nan`, and bare numbers where a unit decides the size. A comma groups
thousands ('1,000'); a decimal comma ('1,5') is refused, because it would be read as fifteen, and so is '388.000' of
money, which is 388 thousand where dots group.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import NamedTuple

from gpufleet.errors import UsageError

KB, MB, GB, TB = 1e3, 1e6, 1e9, 1e12
GBIT = GB / 8
TBIT = TB / 8
KIB, MIB, GIB, TIB = 2.0**10, 2.0**20, 2.0**30, 2.0**40
KILO, MEGA, GIGA, TERA = 1e3, 1e6, 1e9, 1e12
NANOSECOND, MICROSECOND, MILLISECOND, MINUTE, HOUR, DAY = 1e-9, 1e-6, 1e-3, 60.0, 3600.0, 86400.0
HOURS_PER_MONTH = 730.0
HOURS_PER_MONTH_SEEDS = 720.0
HOURS_PER_YEAR = 8760.0
PERCENT = 100.0

_COUNT_SUFFIX = {"": 1.0, "k": 1e3, "m": 1e6, "b": 1e9, "ki": 2.0**10, "mi": 2.0**20}
_TOKEN_SUFFIX = {"": 1.0, "k": 1024.0, "m": 1024.0**2, "ki": 1024.0, "mi": 1024.0**2}
_BYTE_SUFFIX = {"b": 1.0, "kb": KB, "mb": MB, "gb": GB, "tb": TB, "kib": KIB, "mib": MIB, "gib": GIB, "tib": TIB}
_TIME_SUFFIX = {
    "us": MICROSECOND,
    "µs": MICROSECOND,
    "μs": MICROSECOND,
    "ms": MILLISECOND,
    **dict.fromkeys(("s", "sec"), 1.0),
    "min": MINUTE,
    **dict.fromkeys(("h", "hour", "hours"), HOUR),
    **dict.fromkeys(("d", "day", "days"), DAY),
    **dict.fromkeys(("w", "week", "weeks"), 7 * DAY),
}
PERIODS = {**dict.fromkeys(("d", "day"), "day"), **dict.fromkeys(("mo", "month"), "month")}
TIME_UNITS = "ms, s, min, h, day, week"
_WHOLE = r"(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+(?:_[0-9]+)*)"
_NUMBER = rf"([+-]?(?:{_WHOLE}(?:\.[0-9]*)?|\.[0-9]+)(?:e[+-]?[0-9]+)?)"
_TWO_READINGS = re.compile(r"([1-9][0-9]{0,2})\.([0-9]{3})")
LONGEST_QUANTITY = 64
DIGITS_IN_FULL = 8


class Bounds(NamedTuple):
    """The least and the most that a stated quantity may be, in its base unit; zero may be more than that.

    Wider than any question that is meant, and so narrow that products of a few of them stay inside of a float and are
    written in a line.
    """

    least: float
    most: float
    unit: str

    def refuse_outside(self, value: float, what: str, found: object) -> None:
        """Refuse what nobody means: 1e300 of anything, or 1e-300.

        >>> USD.refuse_outside(1e300, "the price", "1e300")
        Traceback (most recent call last):
        gpufleet.errors.UsageError: the price is out of range; found '1e300'; expected from 0.000000001 to 1e+15 USD.
        """
        if not self.holds(value):
            raise UsageError(f"{what} is out of range", found=found, expected=str(self))

    def holds(self, value: float) -> bool:
        """Whether a value can be meant; nan never is."""
        return self.least <= value <= self.most

    def __str__(self) -> str:
        least = in_full(self.least)
        if self.most == math.inf:
            return f"{self.unit} from {least}".lstrip()
        return f"from {least} to {self.most:,.15g} {self.unit}".rstrip()


TOKENS = Bounds(1.0, 1e8, "tokens")
COUNTS = Bounds(1e-3, 1e18, "of them")
REQUESTS_PER_S = Bounds(1e-9, 1e6, "requests per second")
SECONDS = Bounds(1e-9, 1e10, "seconds")
BYTES = Bounds(1.0, 1e18, "bytes")
USD = Bounds(1e-9, 1e15, "USD")
USD_PER_HOUR = Bounds(1e-6, 1e9, "USD per hour")
USD_PER_MILLION = Bounds(1e-6, 1e6, "USD per 1M tokens")
TABLE_NUMBERS = Bounds(1e-9, 1e15, "in its unit")
LEAST_RATIO = 1e-6


def _quantity(
    text: object, suffixes: dict[str, float], what: str, example: str, bounds: Bounds, per: float = 1.0
) -> float:
    typed = str(text).strip().lower()
    match = re.fullmatch(_NUMBER + r"\s*([a-zµμ]*)", typed) if len(typed) <= LONGEST_QUANTITY else None
    if match is None or match.group(2) not in suffixes:
        number = "a positive number" if "" in suffixes else "a number with unit"
        raise UsageError(f"cannot read {what}", found=text, expected=f"{number} such as {example}")
    value = float(match.group(1).replace(",", "").replace("_", "")) * suffixes[match.group(2)] / per
    if value <= 0:
        raise UsageError(f"{what} must be positive", found=text, expected=example)
    bounds.refuse_outside(value, what, text)
    return value


def parse_tokens(text: object) -> float:
    """Tokens: '1000', '8k' (8 x 1024: context sizes), '1.5k'.

    >>> parse_tokens("8k")
    8192.0
    """
    return _quantity(text, _TOKEN_SUFFIX, "a number of tokens", "'1000' or '8k'", TOKENS)


def parse_whole_tokens(text: object) -> int:
    """The same where a part of a token is none: '8k'.

    >>> parse_whole_tokens("8k")
    8192
    """
    return int(parse_tokens(text))


def parse_count(text: object, what: str = "a count") -> float:
    """A count in thousands and millions: '10M' = 1e7, '2.5k' = 2500.

    >>> parse_count("10M")
    10000000.0
    """
    return _quantity(text, _COUNT_SUFFIX, what, "'500', '2.5k' or '10M'", COUNTS)


def parse_corpus(text: object, what: str = "a number of tokens") -> float:
    """Tokens to train on: '50M', '2T', '1.5B'.

    >>> parse_corpus("2T")
    2000000000000.0
    """
    return _quantity(text, {**_COUNT_SUFFIX, "t": TERA}, what, "'50M', '100B' or '2T'", COUNTS)


def parse_rate(text: object) -> float:
    """Requests per second: '50/s', '3000/min', '1k/h'.

    >>> parse_rate("3000/min")
    50.0
    """
    amount, slash, per = str(text).strip().partition("/")
    seconds = {"s": 1.0, "sec": 1.0, "min": MINUTE, "m": MINUTE, "h": HOUR, "hour": HOUR, "d": DAY, "day": DAY}
    per = per.strip().lower()
    if not slash or per not in seconds:
        bare = re.fullmatch(_NUMBER + "[kmKM]?", amount.strip()) is not None and not slash
        hint = f"Type '{amount.strip()}/s' for as many a second." if bare else None
        expected = "a number with unit such as '50/s' or '3000/min'"
        raise UsageError("cannot read a rate", found=text, expected=expected, hint=hint)
    return _quantity(amount, _COUNT_SUFFIX, "a rate", "'50/s'", REQUESTS_PER_S, seconds[per])


def parse_duration(text: object, example: str = "'500ms' or '12s'") -> float:
    """Seconds: '500ms', '12s', '24h', '1week'; an error shows the example and the units.

    >>> parse_duration("500ms"), parse_duration("1week")
    (0.5, 604800.0)
    """
    return _quantity(text, _TIME_SUFFIX, "a duration", f"{example}, in {TIME_UNITS}", SECONDS)


def parse_usd_per_hour(text: object, what: str = "USD per time") -> float:
    """What may be spent: '20/h', '$500/d', '15,000/mo' (730 hours).

    >>> parse_usd_per_hour("$7,300/mo")
    10.0
    """
    amount, slash, per = str(text).strip().removeprefix("$").partition("/")
    hours = {"h": 1.0, "hour": 1.0, "d": DAY / HOUR, "day": DAY / HOUR}
    hours |= dict.fromkeys(("mo", "month"), HOURS_PER_MONTH) | dict.fromkeys(("y", "year"), HOURS_PER_YEAR)
    per = per.strip().lower()
    if not slash or per not in hours:
        raise UsageError(f"cannot read {what}", found=text, expected="such as '20/h' or '15000/mo'")
    _refuse_two_readings(amount)
    return _quantity(amount, _COUNT_SUFFIX, what, "'20/h'", USD_PER_HOUR, hours[per])


def parse_usd_per_period(text: object) -> tuple[float, str]:
    """A limit of spending, and the period that it is for, 'day' or 'month': '1000/day', '$24,000/mo'.

    >>> parse_usd_per_period("$24k/mo")
    (24000.0, 'month')
    """
    amount, slash, per = str(text).strip().removeprefix("$").partition("/")
    period = PERIODS.get(per.strip().lower())
    if not slash or period is None:
        raise UsageError("cannot read a budget", found=text, expected="USD a day or a month: '1000/day' or '24000/mo'")
    _refuse_two_readings(amount)
    return _quantity(amount, _COUNT_SUFFIX, "a budget", "'1000/day' or '24000/mo'", USD), period


def parse_utc_offset(text: object) -> float:
    """Seconds that a clock is ahead of UTC: '+02:00', '-5:30', 'UTC'.

    >>> parse_utc_offset("+05:30") / HOUR, parse_utc_offset("UTC")
    (5.5, 0.0)
    """
    typed = str(text).strip().upper().removeprefix("UTC")
    match = re.fullmatch(r"([+-])([0-9]{1,2})(?::([0-5][0-9]))?", typed)
    offset_s = 0.0
    if match:
        offset_s = (int(match[2]) * HOUR + int(match[3] or 0) * MINUTE) * (-1.0 if match[1] == "-" else 1.0)
    if (match is None and typed) or not -12 * HOUR <= offset_s <= 14 * HOUR:
        raise UsageError("cannot read how far a clock is from UTC", found=text, expected="'UTC', '+02:00' or '-05:30'")
    return offset_s


def parse_usd(text: object) -> float:
    """An amount of money: '500', '$2.5k'.

    >>> parse_usd("$2.5k")
    2500.0
    """
    amount = str(text).strip().removeprefix("$")
    _refuse_two_readings(amount)
    return _quantity(amount, _COUNT_SUFFIX, "an amount of USD", "'500' or '$2.5k'", USD)


def _refuse_two_readings(amount: str) -> None:
    """'388.000' is 388 to some readers and 388 thousand to others: a bill must not be read as a thousandth."""
    match = _TWO_READINGS.fullmatch(amount.strip())
    if match is None:
        return
    whole, decimals = match.groups()
    raise UsageError(
        "an amount of money can be read in two ways",
        found=amount.strip(),
        expected=f"'{whole}{decimals}' or '{whole},{decimals}' where the dot groups thousands, else "
        f"'{whole}.{decimals.rstrip('0') or '0'}{'0' if decimals[-1] != '0' else ''}'",
    )


def parse_bytes(text: object) -> float:
    """Bytes: '80GB' (1e9) and '80GiB' (2**30) differ.

    >>> parse_bytes("1GiB")
    1073741824.0
    """
    return _quantity(text, _BYTE_SUFFIX, "a size in bytes", "'80GiB' or '80GB'", BYTES)


def parse_change(text: object) -> float:
    """How much more or less, with its sign: '+20%' or '-10%'.

    >>> parse_change("+20%"), parse_change("-0.1")
    (0.2, -0.1)
    """
    stripped = str(text).strip()
    try:
        value = float(stripped.removesuffix("%")) / (PERCENT if stripped.endswith("%") else 1.0)
    except ValueError:
        value = math.nan
    bare = stripped.lstrip("+-").removesuffix("%")
    is_number = math.isfinite(value) and bool(bare)
    like = f"'+{bare}%' for dearer, '-{bare}%' for cheaper" if is_number else "'+20%' for dearer, '-10%' for cheaper"
    is_bare = abs(value) > 1 and not stripped.endswith("%")
    if stripped[:1] not in ("+", "-") or not math.isfinite(value) or is_bare:
        raise UsageError("cannot read a change", found=text, expected=f"a share with its sign: {like}")
    return value


def parse_ratio(text: object) -> float:
    """A share from 0 to 1: '20%' or '0.2'; a millionth is the least above nothing.

    >>> parse_ratio("20%")
    0.2
    """
    stripped = str(text).strip()
    try:
        value = float(stripped.removesuffix("%")) / (PERCENT if stripped.endswith("%") else 1.0)
    except ValueError:
        value = math.nan
    if value != 0 and not LEAST_RATIO <= value <= 1:
        raise UsageError("cannot read a share", found=text, expected="'20%' or '0.2', between 0 and 1")
    return value


def in_full(number: float) -> str:
    """A number as it would be typed: no exponent, no separators, at most eight digits that are not zero.

    >>> in_full(1048576), in_full(0.25), in_full(349.99999999999994), in_full(1e-9)
    ('1048576', '0.25', '350', '0.000000001')
    """
    return f"{Decimal(f'{number:.{DIGITS_IN_FULL}g}'):f}"
