"""What was fitted and seen of spot availability: `data/spot_availability.toml`, `data/spot_traces.csv`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from gpufleet.catalog.profiles import sourced
from gpufleet.catalog.table_files import SHIPPED, rows_of, toml_of
from gpufleet.domain.availability import AvailabilityFit, MeasuredZone, SpotZone
from gpufleet.provenance import Grade
from gpufleet.units import HOUR

ALL, UNTIL_2022 = "all", "until-2022"
"""Fits: of all traces, and of those that policies scored on 2023 may know."""
COLUMNS = (
    *("zone", "region", "gpu", "gpus_per_node", "num_nodes", "began", "days"),
    *("availability_ratio", "mean_up_hours", "median_up_hours", "source_id"),
)


@lru_cache(maxsize=2)
def load_availability_fit(name: str = ALL) -> AvailabilityFit:
    """A shipped fit by its name.

    >>> load_availability_fit().tick_s
    600.0
    """
    table = toml_of(SHIPPED / "spot_availability.toml")[name]
    return AvailabilityFit({figure: sourced(row) for figure, row in table.items()})


@lru_cache(maxsize=1)
def load_measured_zones() -> tuple[MeasuredZone, ...]:
    """What each measured trace said, on ticks of the fit."""
    return tuple(measured_zone(row) for _, row in rows_of(SHIPPED / "spot_traces.csv", COLUMNS))


def measured_zone(row: Mapping[str, str]) -> MeasuredZone:
    """One row of the table."""
    up_s = float(row["mean_up_hours"]) * HOUR
    return MeasuredZone(
        zone=SpotZone(row["zone"], row["region"], float(row["availability_ratio"]), up_s, Grade.MEASURED),
        gpu=row["gpu"],
        gpus_per_node=int(row["gpus_per_node"]),
        num_nodes=int(row["num_nodes"]),
        began=row["began"],
        days=float(row["days"]),
        median_up_s=float(row["median_up_hours"]) * HOUR,
        source_id=row["source_id"],
    )
