"""`--currency`: in which money an answer is written, and amounts that are typed in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Optional

import typer

if TYPE_CHECKING:
    from gpufleet.domain.currency import Currency

CurrencyOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--currency", metavar="CODE@RATE", help="Money in another currency, at your rate: EUR@0.92."),
]


def write_money_in(*said: str | None) -> None:
    """Write money in the first currency that anybody said: a flag, a file, a preference."""
    from gpufleet.report.shown_currency import show_money_in

    show_money_in(currency_of(next(filter(None, said), None)))


def currency_of(said: str | None) -> Currency | None:
    """A currency with its rate; None: dollars."""
    from gpufleet.inputs.currency import parse_currency

    return None if said is None else parse_currency(said)


def usd_of(said: str | None, currency: str | None, read: Callable[[str], float]) -> float | None:
    """An amount of money in dollars, typed in dollars or in the currency of the answer."""
    from gpufleet.inputs.currency import said_usd

    return None if said is None else said_usd(said, currency_of(currency), read)
