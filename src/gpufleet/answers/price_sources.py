"""Where the prices of an answer come from, and of which day they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date

from gpufleet.provenance import Source
from gpufleet.results.answer import PriceSource
from gpufleet.results.rented import RentedMachines


def price_sources(used: Iterable[tuple[str, date | None]], sources: Mapping[str, Source]) -> list[PriceSource]:
    """Each source and date that a shown price comes from, once."""
    return [
        PriceSource(id=id_, title=sources[id_].title, as_of=day, first_seen=sources[id_].first_seen)
        for id_, day in sorted({(id_, day) for id_, day in used if day is not None})
    ]


def price_days(rented: Iterable[RentedMachines]) -> list[tuple[str, date | None]]:
    """Source and day of the price of each."""
    return [(d.price_source, d.price_as_of) for d in rented]
