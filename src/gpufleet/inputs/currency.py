"""The currency of an answer, and amounts that are typed in it: '--currency EUR@0.92', "--budget '20 EUR/h'"."""

from __future__ import annotations

import re
from collections.abc import Callable

from gpufleet.domain.currency import CODE, DOLLAR, Currency
from gpufleet.errors import UsageError

EXPECTED = "a code and how much of it one US dollar is, such as EUR@0.92"
NO_RATE = "Rates move, so none is shipped: take one of today, from your bank or your books."
SYMBOLS = {"€": "EUR", "£": "GBP"}
SAID_CODE = re.compile(r"\s*(?<![A-Za-z])(?!DAY)([A-Z]{3})(?![A-Za-z])\s*")


def parse_currency(text: str) -> Currency | None:
    """The currency and its rate; None for US dollars, in which prices are held.

    >>> parse_currency("eur@0.92"), parse_currency("USD")
    (Currency(code='EUR', per_usd=0.92), None)
    """
    code, _, rate = (part.strip().upper() for part in str(text).partition("@"))
    if not CODE.fullmatch(code):
        raise UsageError("--currency is no currency", found=text, expected=EXPECTED)
    if code == DOLLAR and rate in ("", "1"):
        return None
    if code == DOLLAR:
        raise UsageError("--currency: one US dollar is one US dollar", found=text, expected=f"USD, or {EXPECTED}")
    if not rate:
        raise UsageError(f"--currency has no rate for {code}", found=text, expected=EXPECTED, hint=NO_RATE)
    try:
        return Currency(code, float(rate))
    except ValueError as refusal:
        raise UsageError(f"--currency: not a rate of {code}", found=text, expected=EXPECTED) from refusal


def said_usd(text: str, currency: Currency | None, read: Callable[[str], float]) -> float:
    """An amount that `read` understands, in dollars: one without a currency is in dollars, as ever.

    >>> said_usd("92 EUR", Currency("EUR", 0.92), float), said_usd("92", Currency("EUR", 0.92), float)
    (100.0, 92.0)
    """
    code, bare = code_and_rest(str(text))
    if code in (None, DOLLAR):
        return read(bare)
    if currency is None or currency.code != code:
        raise UsageError(
            f"no rate for {code} is stated",
            found=text,
            expected=f"US dollars, or a rate beside it: --currency {code}@RATE, such as EUR@0.92",
        )
    return currency.usd(read(bare))


def code_and_rest(text: str) -> tuple[str | None, str]:
    """The currency that an amount names, and the amount without it.

    >>> code_and_rest("20 EUR/h"), code_and_rest("€15k/mo"), code_and_rest("$20/h")
    (('EUR', '20/h'), ('EUR', '15k/mo'), (None, '$20/h'))
    """
    for symbol, code in SYMBOLS.items():
        text = text.replace(symbol, f" {code} ")
    found = SAID_CODE.search(text)
    return (None, text) if found is None else (found[1], SAID_CODE.sub("", text, count=1))
