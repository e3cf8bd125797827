"""Jobs with deadlines and the GPUs that they may run on: pools, ways to run a job, when it runs."""

from __future__ import annotations

import math

from gpufleet.errors import Infeasible
from gpufleet.records import dataclass
from gpufleet.units import DAY, HOUR

OWNED, ON_DEMAND, SPOT = "owned", "on-demand", "spot"
KINDS = (OWNED, ON_DEMAND, SPOT)
WHOLE_MILLI = 1000
"""Thousandths of a GPU: shares are counted in them, so that sums are exact."""


@dataclass(frozen=True)
class Outage:
    """GPUs of a pool that are not to be had from one moment to another."""

    start_s: float
    end_s: float
    gpus: int

    def __post_init__(self) -> None:
        if not (0 <= self.start_s < self.end_s < math.inf and self.gpus >= 1):
            raise ValueError(f"not an outage: {self!r}")


@dataclass(frozen=True)
class DayPrices:
    """What a GPU costs by the hour: `usd_per_hour` of each hour of the day; the schedule begins at `starts_at_s`."""

    usd_per_hour: tuple[float, ...]
    starts_at_s: float = 0.0

    def __post_init__(self) -> None:
        if len(self.usd_per_hour) not in (1, round(DAY / HOUR)):
            raise ValueError("one price, or one for each hour of the day")
        if not all(0 <= usd < math.inf for usd in self.usd_per_hour):
            raise ValueError(f"a price is negative or endless: {self.usd_per_hour}")

    @property
    def is_flat(self) -> bool:
        """Whether all hours cost the same."""
        return len(set(self.usd_per_hour)) == 1

    def at(self, elapsed_s: float) -> float:
        """The price at a moment   [USD/h].

        >>> DayPrices((2.0,) * 8 + (3.0,) * 16, starts_at_s=6 * 3600.0).at(3 * 3600.0)
        3.0
        """
        return self.usd_per_hour[int((self.starts_at_s + elapsed_s) % DAY // HOUR) % len(self.usd_per_hour)]

    def over(self, start_s: float, end_s: float) -> float:
        """What one GPU costs from one moment to another   [USD].

        >>> DayPrices((2.0,) * 8 + (3.0,) * 16).over(7.5 * 3600.0, 9 * 3600.0)
        4.0
        """
        if self.is_flat:
            return self.usd_per_hour[0] * (end_s - start_s) / HOUR
        usd, moment_s = 0.0, start_s
        while moment_s < end_s:
            hour = math.floor((self.starts_at_s + moment_s) / HOUR) + 1
            until_s = min(hour * HOUR - self.starts_at_s, end_s)
            usd += self.at((moment_s + until_s) / 2) * (until_s - moment_s) / HOUR
            moment_s = until_s
        return usd

    def later(self, elapsed_s: float) -> DayPrices:
        """The same as they go on from a later moment."""
        return DayPrices(self.usd_per_hour, self.starts_at_s + elapsed_s)


@dataclass(frozen=True)
class Pool:
    """GPUs of one type that jobs share: one's own, or rented by the hour.

    `watts` is what a GPU at work draws. `power_cap_watts` holds for all jobs that run at once.
    """

    name: str
    gpu: str
    gpus: int
    kind: str = OWNED
    prices: DayPrices = DayPrices((0.0,))
    watts: float = 0.0
    power_cap_watts: float = math.inf
    outages: tuple[Outage, ...] = ()

    def __post_init__(self) -> None:
        if not self.name or self.gpus < 1 or self.kind not in KINDS or not 0 <= self.watts < math.inf:
            raise ValueError(f"not a pool: {self!r}")
        if not self.power_cap_watts > 0 or any(outage.gpus > self.gpus for outage in self.outages):
            raise ValueError(f"not a pool: {self!r}")

    @property
    def is_rented(self) -> bool:
        """Whether the budget pays for it."""
        return self.kind != OWNED


@dataclass(frozen=True)
class Duration:
    """How long a job takes, with its range where a model tells it."""

    work_s: float
    low_s: float
    high_s: float
    grade: str = "given"


@dataclass(frozen=True)
class Way:
    """One way to run a job: so many GPUs of a pool at once, or a share of one, for so long.

    A run that is cut by a pause takes `restart_s` longer.
    """

    pool: str
    milli_gpus: int
    work_s: float
    restart_s: float = 0.0
    watts_per_gpu: float | None = None

    def __post_init__(self) -> None:
        if not (0 < self.work_s < math.inf and 0 <= self.restart_s < math.inf and self.milli_gpus >= 1):
            raise ValueError(f"not a way to run a job: {self!r}")
        if self.milli_gpus > WHOLE_MILLI and self.milli_gpus % WHOLE_MILLI:
            raise ValueError(f"whole GPUs, or a share of one: {self!r}")

    @property
    def gpus(self) -> float:
        """GPUs at once."""
        return self.milli_gpus / WHOLE_MILLI

    @property
    def is_share(self) -> bool:
        """Whether it leaves room for others on its GPU."""
        return self.milli_gpus < WHOLE_MILLI


@dataclass(frozen=True)
class ScheduledJob:
    """Work that is to be done by a moment: all of its GPUs at once, or none.

    `weight` is what an hour too late counts. `after` names jobs that must be done before. One that `can_pause` writes
    checkpoints: it may be cut in two, and run on machines that may be taken away. `user` is whose it is.
    """

    name: str
    ways: tuple[Way, ...]
    earliest_s: float = 0.0
    deadline_s: float = math.inf
    weight: float = 1.0
    after: tuple[str, ...] = ()
    can_pause: bool = False
    user: str = ""

    def __post_init__(self) -> None:
        if not self.name or not 0 <= self.earliest_s < math.inf or math.isnan(self.deadline_s):
            raise ValueError(f"not a job: {self!r}")
        if not 0 <= self.weight < math.inf or self.name in self.after:
            raise ValueError(f"not a job: {self!r}")


@dataclass(frozen=True)
class Piece:
    """A stretch of a run without a pause."""

    start_s: float
    end_s: float


@dataclass(frozen=True)
class Run:
    """When and where a job runs: on one of its ways, in one piece or two; of those that take a share, on which GPU."""

    job: str
    way: int
    pieces: tuple[Piece, ...]
    shared_gpu: int | None = None

    @property
    def start_s(self) -> float:
        """When it begins."""
        return self.pieces[0].start_s

    @property
    def end_s(self) -> float:
        """When it is done."""
        return self.pieces[-1].end_s


@dataclass(frozen=True)
class BatchDuration:
    """A batch job by the replicas that share it: `replica_s` of work for one of them."""

    replica_s: float
    startup_s: float
    gpus_per_replica: int
    low_ratio: float
    high_ratio: float
    grade: str

    def on(self, gpus: int) -> Duration:
        """With so many GPUs, all replicas at once."""
        replicas = gpus // self.gpus_per_replica
        if not replicas:
            raise Infeasible(f"one replica takes {self.gpus_per_replica} GPUs, {gpus} are asked for")
        work = self.startup_s + self.replica_s / replicas
        return Duration(work, work * self.low_ratio, work * self.high_ratio, self.grade)
