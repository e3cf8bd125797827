"""How long a round trip over the network takes, and what it is reckoned by."""

from __future__ import annotations

from collections.abc import Mapping

from gpufleet.domain.arrays import FloatArray
from gpufleet.provenance import Grade, Sourced
from gpufleet.records import dataclass

PairOfRegions = tuple[str, str, str, str]


@dataclass(frozen=True)
class NetworkLatency:
    """Round trips of the users of a place: half take at most `median_s`, 95 of 100 at most `p95_s`.

    `low_s` and `high_s` are the 10th and 90th percentile of where the median may lie. `grade`: measured between these
    regions, transferred from the nearest that were measured, or reckoned from the distance.
    """

    median_s: float
    p95_s: float
    low_s: float
    high_s: float
    grade: Grade
    source: str

    def __post_init__(self) -> None:
        if not 0 <= self.low_s <= self.median_s <= min(self.high_s, self.p95_s):
            raise ValueError(f"low, median, high and p95 of a round trip are out of order: {self!r}")

    @property
    def is_measured(self) -> bool:
        """Whether the median was measured between these very regions."""
        return self.grade is Grade.MEASURED


@dataclass(frozen=True)
class NetworkModel:
    """What round trips are reckoned by where nobody measured them (performance/network_latency.py).

    `intercept_s` and `per_km_s` give them from the distance; the ratios hold how far a measured one lies from what is
    reckoned: from the distance, or from the nearest measured pair, whose ends lie within `near_km` or `far_km`, and
    `repeated_ratio` of one that was measured itself. `jitter_ratio`: 95th percentile over median of a path between
    regions. The last mile is what lies between users and the network of the clouds.
    """

    intercept_s: Sourced
    per_km_s: Sourced
    distance_ratio: Sourced
    far_ratio: Sourced
    near_ratio: Sourced
    repeated_ratio: Sourced
    near_km: Sourced
    far_km: Sourced
    jitter_ratio: Sourced
    last_mile_s: Sourced
    last_mile_p95_s: Sourced


@dataclass(frozen=True, eq=False)
class MeasuredRoundTrips:
    """Measured pairs of regions: where both ends lie [pair, end], the median round trip and its source [pair].

    `rows` finds a pair by (cloud, region, other cloud, other region), in either order.
    """

    latitude_degrees: FloatArray
    longitude_degrees: FloatArray
    median_s: FloatArray
    sources: tuple[str, ...]
    rows: Mapping[PairOfRegions, int]
