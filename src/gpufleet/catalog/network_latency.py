"""Measured round trips between regions, and what others are reckoned by: `data/network_latency/`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from gpufleet.catalog.calibration import DATA
from gpufleet.catalog.profiles import sourced
from gpufleet.catalog.schema import Place as PlaceOfRow
from gpufleet.catalog.schema import required_number, text
from gpufleet.catalog.table_files import SHIPPED, placed_rows, toml_of
from gpufleet.catalog.table_rows import located_regions_in
from gpufleet.catalog.user_places import place_of
from gpufleet.domain.network_latency import MeasuredRoundTrips, NetworkModel, PairOfRegions
from gpufleet.domain.place import Place
from gpufleet.units import MILLISECOND

COLUMNS = ("cloud", "region", "other_cloud", "other_region", "median_rtt_ms", "source_id", "as_of")


class MeasuredPair(NamedTuple):
    """One row of the tables, with both ends on the map."""

    place: Place
    other: Place
    median_s: float
    source: str


@lru_cache(maxsize=1)
def load_network_model() -> NetworkModel:
    """What round trips are reckoned by (calibration/network_latency.toml).

    >>> 200e3 > 2 / load_network_model().per_km_s.value > 100e3  # km/s, with the detours of cables
    True
    """
    return NetworkModel(**{name: sourced(row) for name, row in toml_of(DATA / "network_latency.toml").items()})


@lru_cache(maxsize=1)
def load_measured_round_trips() -> MeasuredRoundTrips:
    """Pairs of regions between which the median was measured.

    >>> trips = load_measured_round_trips()
    >>> round(float(trips.median_s[trips.rows["aws", "us-east-1", "aws", "eu-west-1"]]), 2)
    0.07
    """
    return measured_round_trips(measured_pairs())


def measured_round_trips(pairs: Iterable[MeasuredPair]) -> MeasuredRoundTrips:
    """Pairs as arrays; of one pair in two rows the first counts."""
    pairs = tuple(pairs)
    rows: dict[PairOfRegions, int] = {}
    for row, (place, other, _, _) in enumerate(pairs):
        for first, second in ((place, other), (other, place)):
            rows.setdefault((first.cloud, first.region, second.cloud, second.region), row)
    return MeasuredRoundTrips(
        latitude_degrees=np.array([(p.place.latitude_degrees, p.other.latitude_degrees) for p in pairs]).reshape(-1, 2),
        longitude_degrees=np.array([(p.place.longitude_degrees, p.other.longitude_degrees) for p in pairs]).reshape(
            -1, 2
        ),
        median_s=np.array([pair.median_s for pair in pairs]),
        sources=tuple(pair.source for pair in pairs),
        rows=rows,
    )


def measured_pairs() -> Iterator[MeasuredPair]:
    """Rows of network_latency/*.csv."""
    located = {key: place_of(region) for key, region in located_regions_in(SHIPPED).items()}

    def pair_of(at: PlaceOfRow, row: Mapping[str, str]) -> MeasuredPair:
        place, other = located[row["cloud"], row["region"]], located[row["other_cloud"], row["other_region"]]
        assert place is not None
        assert other is not None
        median_s = required_number(at, "median_rtt_ms", row["median_rtt_ms"]) * MILLISECOND
        return MeasuredPair(place, other, median_s, text(at, "source_id", row["source_id"]))

    return (pair for _, pair in placed_rows(SHIPPED / "network_latency", COLUMNS, pair_of))
