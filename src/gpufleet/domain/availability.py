"""Which machines could be had, and when: by zone and tick, as seen or as drawn."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gpufleet.domain.arrays import BoolArray, IntArray
from gpufleet.provenance import Grade, Sourced
from gpufleet.records import dataclass

TICK_ROUNDING = 1e-9
"""Of a tick: what counts as the same moment."""


@dataclass(frozen=True, eq=False)
class Availability:
    """Nodes that could be had in every zone: `nodes[zone, i]` at `i * tick_s`, and until the next point.

    `num_filled` points, of all zones together, were not seen: they count as unavailable.
    """

    tick_s: float
    zones: tuple[str, ...]
    nodes: IntArray
    num_filled: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.tick_s < np.inf:
            raise ValueError("availability: a tick lasts a positive time")
        if self.nodes.ndim != 2 or not self.nodes.size or len(self.nodes) != len(self.zones):
            raise ValueError("availability: a row of nodes for every zone, with a tick at least")
        if len(set(self.zones)) < len(self.zones):
            raise ValueError("availability: every zone has a name of its own")
        if self.nodes.min() < 0:
            raise ValueError("availability: a number of nodes is not negative")

    @property
    def num_ticks(self) -> int:
        """How many points every zone has."""
        return int(self.nodes.shape[1])

    @property
    def span_s(self) -> float:
        """Seconds from the first point to the end of the last."""
        return self.num_ticks * self.tick_s

    def regridded(self, tick_s: float) -> IntArray:
        """Nodes that could be had throughout each tick of another length: the fewest of the points in it.

        A tick without a point has what the last point before it had. A tick that the end cuts short is left out.

        >>> Availability(200.0, ("a",), np.array([[2, 1, 2, 2, 0, 1, 4]])).regridded(600.0).tolist()
        [[1, 0]]
        """
        num = int(self.span_s / tick_s + TICK_ROUNDING)
        firsts = np.ceil(np.arange(num + 1) * (tick_s / self.tick_s) - TICK_ROUNDING).astype(np.int64)
        if not num:
            return np.zeros((len(self.zones), 0), dtype=np.int64)
        starts = np.where(np.diff(firsts) > 0, firsts[:-1], firsts[:-1] - 1)
        return np.asarray(np.minimum.reduceat(self.nodes[:, : firsts[-1]], starts, axis=1))

    def available(self, nodes: int, tick_s: float) -> BoolArray:
        """Whether so many nodes could be had in a zone throughout a tick: at every point in it   [zone, tick]."""
        return np.asarray(self.regridded(tick_s) >= nodes)


@dataclass(frozen=True)
class SpotZone:
    """A place where a machine can be had at times: the share of time, and how long it is kept on average.

    `mean_up_s` is the time up for each time that it is lost; inf: never lost. Zones of one `region` fail together.
    """

    name: str
    region: str
    availability_ratio: float
    mean_up_s: float
    grade: Grade = Grade.TRANSFERRED

    def __post_init__(self) -> None:
        if not 0 <= self.availability_ratio <= 1:
            raise ValueError("spot zone: an availability is a share of time, from 0 to 1")
        if not self.mean_up_s > 0:
            raise ValueError("spot zone: a machine is kept for a positive time")


@dataclass(frozen=True)
class MeasuredZone:
    """What a trace of one zone said, on ticks of the fit: `num_nodes` at once of machines with a GPU of a kind."""

    zone: SpotZone
    gpu: str
    gpus_per_node: int
    num_nodes: int
    began: str
    days: float
    median_up_s: float
    source_id: str


@dataclass(frozen=True)
class AvailabilityFit:
    """What `simulate.spot_availability` draws by, one figure a row.

    - `tick_s`: the length of a tick on which it was fitted and draws.
    - `fast_ratio`, `middle_ratio`, `slow_ratio`, `day_ratio`: shares of the variance of a zone's spare capacity.
    - `fast_s`, `middle_s`, `slow_s`: time after which a share has faded to 1/e, in a zone of pace 1; `day_fades_s`.
    - `region_ratio`, `everywhere_ratio`: correlation of spare capacity between zones of one region, and any two.
    - `doubling_step`: spare capacity that twice as many nodes want more, in standard deviations.
    - `level_mean`, `level_sd`: what one node wants, over zones; `log_pace_mean`, `log_pace_sd` of their paces;
      `level_pace_correlation` of both.
    - `moved_ratio`: how far a market that is stated moves on, of what lies between all on spot and all on demand.
    """

    figures: Mapping[str, Sourced]

    def value(self, name: str) -> float:
        """A figure by its name."""
        return self.figures[name].value

    @property
    def tick_s(self) -> float:
        """Seconds of a tick."""
        return self.value("tick_s")
