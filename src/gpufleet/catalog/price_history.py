"""How prices of providers moved between two looks at their pages: per GPU, as written there, and nothing to rent at."""

from __future__ import annotations

from datetime import date
from functools import lru_cache
from typing import NamedTuple

from gpufleet.catalog.schema import Place, Row, day, required_number, text, whole
from gpufleet.catalog.table_files import SHIPPED, table_in

HISTORY_COLUMNS = (
    *("provider", "gpu_as_written", "price_kind_as_written", "min_gpus"),
    *("first_day", "first_price_per_gpu_usd_per_hour", "last_day", "last_price_per_gpu_usd_per_hour"),
    *("changes_seen", "source_id"),
)


class PriceHistory(NamedTuple):
    """A price at its first look and at its last; `changes_seen` in the daily looks between, not all of the time."""

    provider: str
    gpu_as_written: str
    price_kind_as_written: str
    min_gpus: int | None
    first_day: date
    first_usd_per_gpu_hour: float
    last_day: date
    last_usd_per_gpu_hour: float
    changes_seen: int
    source: str

    @property
    def ratio(self) -> float:
        """The last price over the first."""
        return self.last_usd_per_gpu_hour / self.first_usd_per_gpu_hour


@lru_cache(maxsize=1)
def price_histories() -> tuple[PriceHistory, ...]:
    """Rows of price_history.csv.

    >>> [round(row.ratio, 2) for row in price_histories() if row[:3] == ("verda", "h100-sxm", "on-demand")]
    [1.21]
    """
    return tuple(table_in(SHIPPED, "price_history.csv", HISTORY_COLUMNS, price_history_from))


def price_history_from(place: Place, row: Row) -> PriceHistory:
    """A row of price_history.csv."""
    first, last = "first_price_per_gpu_usd_per_hour", "last_price_per_gpu_usd_per_hour"
    return PriceHistory(
        provider=text(place, "provider", row["provider"]),
        gpu_as_written=text(place, "gpu_as_written", row["gpu_as_written"]),
        price_kind_as_written=text(place, "price_kind_as_written", row["price_kind_as_written"]),
        min_gpus=whole(place, "min_gpus", row["min_gpus"]),
        first_day=day(place, "first_day", row["first_day"]),
        first_usd_per_gpu_hour=required_number(place, first, row[first]),
        last_day=day(place, "last_day", row["last_day"]),
        last_usd_per_gpu_hour=required_number(place, last, row[last]),
        changes_seen=whole(place, "changes_seen", row["changes_seen"]) or 0,
        source=text(place, "source_id", row["source_id"]),
    )
