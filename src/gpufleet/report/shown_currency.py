"""The currency that money is written in: dollars, unless whoever asks states another one with its rate.

It is a matter of writing alone: results, JSON and every comparison stay in dollars, so that nothing is ever mixed.
"""

from __future__ import annotations

from contextvars import ContextVar

from gpufleet.domain.currency import DOLLAR, Currency

_SHOWN: ContextVar[Currency | None] = ContextVar("shown currency", default=None)


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
