"""Which tables and prices count: the same options for every verb that plans."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from gpufleet.errors import UsageError
from gpufleet.questions.words import FileUse
from gpufleet.records import dataclass

if TYPE_CHECKING:
    from gpufleet.catalog.tables import Catalog

AGE = "'30d' for thirty days"
CatalogOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        "--catalog", metavar="DIR", help="Folder of your own tables, on top of the shipped ones (or GPUFLEET_CATALOG)."
    ),
    FileUse.HERE,
]
MaxAgeOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--max-age", metavar="TIME", help="End with exit code 5 if a price considered is older: 30d."),
]
AsOfOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--as-of", metavar="DAY", help="Use the prices known on that day: 2026-08-31."),
]
PricesOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--prices", metavar="+N%", help="What if rented machines cost this much more or less: +20%, -10%."),
]


@dataclass(frozen=True)
class MarketFlags:
    """What the command line says of tables and prices, unparsed; a verb that takes them has an option for each."""

    catalog_dir: CatalogOption = None
    max_age: MaxAgeOption = None
    as_of: AsOfOption = None
    prices: PricesOption = None

    @property
    def price_change(self) -> float | None:
        """How much more or less rented machines cost than known here, where somebody asks what if."""
        from gpufleet.units import parse_change

        return None if self.prices is None else parse_change(self.prices)

    @property
    def today(self) -> date | None:
        """The day as of which prices count, where one was named."""
        if self.as_of is None:
            return None
        try:
            return date.fromisoformat(self.as_of)
        except ValueError:
            raise UsageError("--as-of is not a day", found=self.as_of, expected="a day such as 2026-11-21") from None

    @property
    def max_price_age_s(self) -> float | None:
        """How old a price may be, where that was said."""
        from gpufleet.units import parse_duration

        return None if self.max_age is None else parse_duration(self.max_age, AGE)

    def tables(self) -> Catalog:
        """The shipped tables, under one's own, with the prices of the day."""
        from gpufleet.catalog.load import load_catalog
        from gpufleet.cli.money import refuse_two_rates

        tables = load_catalog(self.catalog_dir, as_of=self.today)
        refuse_two_rates(tables)
        return tables


SHIPPED_MARKET = MarketFlags()
