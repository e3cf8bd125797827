"""`--currency`: in which money an answer is written, and amounts that are typed in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Optional

import typer

if TYPE_CHECKING:
    from gpufleet.catalog.tables import Catalog
    from gpufleet.domain.currency import Currency

CurrencyOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--currency", metavar="CODE@RATE", help="Show money in another currency, at your rate: EUR@0.92."),
]


def write_money_in(*said: str | None) -> None:
    """Write money in the first currency that anybody said: a flag, a file, a preference."""
    from gpufleet.report.numbers import show_money_in

    show_money_in(currency_of(next(filter(None, said), None)))


def currency_of(said: str | None) -> Currency | None:
    """A currency with its rate; None: dollars."""
    from gpufleet.inputs.currency import parse_currency

    return None if said is None else parse_currency(said)


def usd_of(said: str | None, currency: str | None, read: Callable[[str], float]) -> float | None:
    """An amount of money in dollars, typed in dollars or in the currency of the answer."""
    from gpufleet.inputs.currency import said_usd

    return None if said is None else said_usd(said, currency_of(currency), read)


def refuse_two_rates(tables: Catalog) -> None:
    """The rate of the answer and that of the user's price list must be the same, or the answer mixes two."""
    from gpufleet.errors import UsageError
    from gpufleet.report.numbers import shown_currency

    shown = shown_currency()
    for rate in tables.exchange_rates:
        if shown is not None and rate.currency == shown.code and not shown.agrees_with(rate.usd_per_unit):
            held, asked = rate.usd_per_unit, f"--currency {shown.code}@"
            raise UsageError(
                f"two rates of {shown.code} that differ by more than 5 %",
                found=f"{asked}{shown.per_usd:g}, and exchange_rates.csv has {held:g} USD for one",
                expected=f"{1 / shown.per_usd:.4g} in exchange_rates.csv, or {asked}{1 / held:.4g}",
            )
