"""Prices of bytes that leave a region: `data/egress_prices.csv`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import date
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from gpufleet.catalog.schema import Place, day, number, text
from gpufleet.catalog.table_files import SHIPPED, rows_of
from gpufleet.domain.egress import EgressPrice, EgressTier

if TYPE_CHECKING:
    from gpufleet.catalog.tables import Catalog

COLUMNS = ("cloud", "from", "to", "from_gb", "to_gb", "usd_per_gb", "source_id", "as_of")
INTERNET, ANOTHER_REGION, ANYWHERE = "internet", "region", "all"
RegionKey = tuple[str, str]


class EgressRow(NamedTuple):
    """One tier: from a region, areas or anywhere; to the internet, any other region, one region, or an area."""

    cloud: str
    sent_from: tuple[str, ...]
    sent_to: str
    tier: EgressTier
    source: str
    as_of: date


def egress_price(catalog: Catalog, cloud: str, region: str, to: RegionKey | None = None) -> EgressPrice | None:
    """What bytes from a region cost: to the internet, which another cloud is too, or `to` a region of the same cloud.

    Of rows that hold, the one with the closest destination counts, then the one with the closest origin. None: nobody
    has published it here.

    >>> from gpufleet.catalog.load import load_catalog
    >>> egress_price(load_catalog(), "aws", "us-east-1", ("aws", "us-east-2")).tiers[0].usd_per_gb
    0.01
    """
    is_inside = to is not None and to[0] == cloud
    targets = words_of(catalog, *to, ANOTHER_REGION) if to is not None and is_inside else (INTERNET,)
    origins = words_of(catalog, cloud, region, ANYWHERE)
    found: dict[tuple[int, int], list[EgressRow]] = {}
    for row in egress_rows():
        nearest = min((origins.index(word) for word in row.sent_from if word in origins), default=None)
        if row.cloud == cloud and row.sent_to in targets and nearest is not None:
            found.setdefault((targets.index(row.sent_to), nearest), []).append(row)
    if not found:
        return None
    rows = found[min(found)]
    to_region = to[1] if to is not None and is_inside else ""
    return EgressPrice(cloud, region, to_region, tuple(row.tier for row in rows), rows[0].source, rows[0].as_of)


def words_of(catalog: Catalog, cloud: str, region: str, last: str) -> tuple[str, ...]:
    """A region as rows may name it, the closest first: itself, its areas, and a last word."""
    located = catalog.located_regions.get((cloud, region))
    country = catalog.countries.get(located.country) if located is not None else None
    return (region, *(country.areas if country is not None else ()), last)


@lru_cache(maxsize=1)
def egress_rows() -> tuple[EgressRow, ...]:
    """Rows of the table, in its order."""
    return tuple(egress_row(place, row) for place, row in rows_of(SHIPPED / "egress_prices.csv", COLUMNS))


def egress_row(place: Place, row: Mapping[str, str]) -> EgressRow:
    """One row of the table."""
    ends = (number(place, "from_gb", row["from_gb"]) or 0.0, number(place, "to_gb", row["to_gb"]) or math.inf)
    return EgressRow(
        cloud=text(place, "cloud", row["cloud"]),
        sent_from=tuple(text(place, "from", row["from"]).split()),
        sent_to=text(place, "to", row["to"]),
        tier=EgressTier(*ends, number(place, "usd_per_gb", row["usd_per_gb"]) or 0.0),
        source=text(place, "source_id", row["source_id"]),
        as_of=day(place, "as_of", row["as_of"]),
    )


def dearest_egress(tables: Catalog) -> dict[str, float]:
    """What a GB costs on its way out of the dearest region of each cloud that has published a price   [USD/GB]."""
    dearest: dict[str, float] = {}
    for cloud, region in tables.located_regions:
        price = egress_price(tables, cloud, region) if tables.is_open(cloud, region) else None
        if price is not None:
            dearest[cloud] = max(dearest.get(cloud, 0.0), price.first_paid_usd_per_gb)
    return dearest


def egress_usd_per_gb(
    tables: Catalog, source: RegionKey, to: RegionKey | None, dearest: Mapping[str, float]
) -> float | None:
    """What a GB costs on its way out of a region, to the internet or `to` another one: at the first price that is paid.

    Nothing within a region. One without a price costs what the dearest of its cloud does; None of a cloud without any.
    """
    if source == to:
        return 0.0
    price = egress_price(tables, *source, to)
    return dearest.get(source[0]) if price is None else price.first_paid_usd_per_gb
