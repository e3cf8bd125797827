"""How often spot machines are taken away, from `data/spot_interruptions.toml`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from gpufleet.catalog.load import SHIPPED, toml_of
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
    bands = {band: band_spread(row) for band, row in table["band"].items()}
    waits = Spread(*(hours * HOUR for hours in table["wait"]["hours"]))
    rows = [*table["band"].values(), table["unknown"], table["wait"]]
    sources = tuple(dict.fromkeys(row["source_id"] for row in rows))
    return Interruptions(bands, Spread(*table["unknown"]["per_hour"]), waits, sources)


def band_spread(row: Mapping[str, Any]) -> Spread:
    """Interruptions per hour of one band; an open one names its high end by the hour."""
    rates = [interruptions_per_hour(share) for share in row["reclaimed_per_month_ratio"]]
    return Spread(*rates, *([row["high_per_hour"]] if "high_per_hour" in row else []))
