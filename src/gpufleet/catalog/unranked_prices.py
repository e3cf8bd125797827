"""Prices that pages name per GPU and no machine of the tables has: listed with what they lack, never ranked."""

from __future__ import annotations

from datetime import date
from functools import lru_cache
from typing import NamedTuple

from gpufleet.catalog.schema import Place, Row, day, required_number, text, whole
from gpufleet.catalog.table_files import SHIPPED, table_in

PRICE = "price_per_gpu_usd_per_hour"
UNRANKED_COLUMNS = (
    *("provider", "gpu_as_written", "min_gpus", "price_kind_as_written", PRICE),
    *("lacks", "note", "source_id", "as_of"),
)


class UnrankedPrice(NamedTuple):
    """A price of one GPU as a page writes it, and why it is none of a machine that can be planned with."""

    provider: str
    gpu_as_written: str
    min_gpus: int | None
    price_kind_as_written: str
    price_per_gpu_usd_per_hour: float
    lacks: str
    note: str
    source: str
    as_of: date


@lru_cache(maxsize=1)
def unranked_prices() -> tuple[UnrankedPrice, ...]:
    """Rows of unranked_prices.csv."""
    return tuple(table_in(SHIPPED, "unranked_prices.csv", UNRANKED_COLUMNS, unranked_price_from))


def unranked_price_from(place: Place, row: Row) -> UnrankedPrice:
    """A row of unranked_prices.csv; what a price lacks must be said."""
    return UnrankedPrice(
        provider=text(place, "provider", row["provider"]),
        gpu_as_written=text(place, "gpu_as_written", row["gpu_as_written"]),
        min_gpus=whole(place, "min_gpus", row["min_gpus"]),
        price_kind_as_written=text(place, "price_kind_as_written", row["price_kind_as_written"]),
        price_per_gpu_usd_per_hour=required_number(place, PRICE, row[PRICE]),
        lacks=text(place, "lacks", row["lacks"]),
        note=row["note"],
        source=text(place, "source_id", row["source_id"]),
        as_of=day(place, "as_of", row["as_of"]),
    )
