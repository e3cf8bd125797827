"""How often spot machines are taken away, from `data/spot_interruptions.toml`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from gpufleet.catalog.table_files import SHIPPED, toml_of
from gpufleet.domain.interruption import Interruptions, Spread
from gpufleet.pricing.spot import interruptions_per_hour
from gpufleet.units import HOUR


@lru_cache(maxsize=1)
def load_interruptions() -> Interruptions:
    """The shipped table.

    >>> round(load_interruptions().per_hour("5-10%").expected, 6)
    0.000107
    """
    table = toml_of(SHIPPED / "spot_interruptions.toml")
    published, unknown, wait = table["band"], table["unknown"], table["wait"]
    bands = {band: band_spread(published, band) for band in published["reclaimed_per_month_ratio"]}
    named = (unknown["low_source_id"], unknown["high_source_id"], wait["source_id"])
    return Interruptions(
        per_hour_of_band=bands,
        per_hour_unknown=Spread(*unknown["per_hour"]),
        wait_s=Spread(*(hours * HOUR for hours in wait["hours"])),
        source_of_bands=published["source_id"],
        source_of_unknown=unknown["source_id"],
        sources=tuple(dict.fromkeys((published["source_id"], unknown["source_id"], *named))),
    )


def band_spread(published: Mapping[str, Any], band: str) -> Spread:
    """Interruptions per hour of one band; an open one names its high end by the hour."""
    shares = published["reclaimed_per_month_ratio"][band]
    rates = [interruptions_per_hour(share, ran) for share, ran in zip(shares, published["ran_hours"], strict=False)]
    return Spread(*rates, *([published["high_per_hour"][band]] if band in published["high_per_hour"] else []))
