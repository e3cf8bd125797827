"""Where a job runs: what machines of a plan cost in every region that sells them, and which region costs least.

A plan says how long its machines work. That is the same wherever they stand; prices, how often spot machines are taken
away, the carbon of the grid and the bytes that move differ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

import numpy as np

from gpufleet.domain.instance import Instance
from gpufleet.domain.interruption import NEVER, Interruptions, Spread
from gpufleet.domain.offer import Offer, PriceKind
from gpufleet.optimize.market import effective_price
from gpufleet.optimize.spot_plays import PlannedJob, SpotPlay, SpotPlays, settled
from gpufleet.optimize.training import run_times
from gpufleet.performance.restarts import stops_per_s
from gpufleet.pricing.commitment import billed_s
from gpufleet.pricing.energy import site_g_co2_per_hour, site_kwh_per_hour
from gpufleet.pricing.spot import elapsed_work_s, paid_work_s
from gpufleet.records import dataclass
from gpufleet.units import HOUR

RegionKey = tuple[str, str]
LATE_ON_SPOT = "late_on_spot"


class Run(Protocol):
    """How work becomes time."""

    def times_s(self, work_s: float, per_hour: float, wait_s: float) -> tuple[float, float]:
        """From the start to the end, and what a machine is paid for that is taken away so often   [s]."""


@dataclass(frozen=True)
class BatchRun:
    """A batch job: it starts, works in waves, and repeats the half of one that is lost."""

    startup_s: float
    wave_s: float

    def times_s(self, work_s: float, per_hour: float, wait_s: float) -> tuple[float, float]:
        """`elapsed_work_s` and `paid_work_s`."""
        lost = (work_s, per_hour / HOUR, self.startup_s, self.wave_s / 2)
        return float(elapsed_work_s(*lost, wait_s)), float(paid_work_s(*lost))


@dataclass(frozen=True)
class TrainingRun:
    """A run of training: machines that fail or are taken away stop all, and it goes on from its last checkpoint."""

    startup_s: float
    write_s: float
    recovery_s: float
    num_gpus: float
    machines: int
    failures_per_gpu_hour: float

    def times_s(self, work_s: float, per_hour: float, wait_s: float) -> tuple[float, float]:
        """As a plan of training times it."""
        stops = stops_per_s(self.num_gpus, self.failures_per_gpu_hour, self.machines, per_hour)
        work, write, restarted = (np.array(each) for each in (work_s, self.write_s, self.recovery_s + self.write_s))
        times = run_times(work, stops, write, restarted, wait_s, self.startup_s)
        return float(times.elapsed_s), float(times.paid_s)


@dataclass(frozen=True)
class JobWay:
    """Machines that get a job done, as a plan has them; `kwh_per_hour` is what their GPUs draw while they run.

    On spot it stops `write_s` for a checkpoint, every `checkpoint_every_s` of work (None: as often as is best); so many
    machines at once may be too many for spot.
    """

    instance: Instance
    machines: int
    work_s: Spread
    run: Run
    startup_s: float
    write_s: float
    checkpoint_every_s: float | None
    kwh_per_hour: float | None
    may_be_on_spot: bool
    grade: str

    @property
    def num_gpus(self) -> float:
        """GPUs that are paid for."""
        return self.machines * self.instance.gpu_count


@dataclass(frozen=True, eq=False)
class JobTerms:
    """What holds of a job wherever it runs: a machine of a term is paid for `held_s`; on drawn markets, `plays`."""

    held_s: float
    confidence: float
    interruptions: Interruptions
    plays: SpotPlays | None


@dataclass(frozen=True)
class RegionSite:
    """What a region adds to a job: its grid and site, and dollars for the bytes that move.

    Not `is_moved_known`: bytes that move at a price that is not known are not among them.
    """

    grid_g_per_kwh: Spread | None
    machine_over_gpu_watts: Spread
    power_usage_ratio: Spread
    moved_usd: float
    is_moved_known: bool


@dataclass(frozen=True, eq=False)
class JobAt:
    """A job on machines of one offer: time of each machine, time to the end, and dollars, at the advisor's rate.

    `play` is what drawn spot markets make of it.
    """

    way: JobWay
    offer: Offer
    site: RegionSite
    used_s: Spread
    done_s: Spread
    machines_usd: Spread
    play: SpotPlay | None = None

    @property
    def usd(self) -> float:
        """What it is expected to cost, with the bytes that move."""
        machines = self.machines_usd.expected if self.play is None else float(self.play.usd.mean())
        return machines + self.site.moved_usd

    @property
    def machine_s(self) -> Spread:
        """How long each machine runs: of a play, its mean and the 10th and 90th percentile of draws."""
        return self.used_s if self.play is None else drawn_spread(self.play)

    @property
    def kwh(self) -> Spread | None:
        """Electricity of the site for the job; None where the power of its GPUs is not known."""
        if self.way.kwh_per_hour is None:
            return None
        hours, site = self.machine_s, self.site
        gpus = Spread(*(self.way.kwh_per_hour * s / HOUR for s in (hours.low, hours.expected, hours.high)))
        return site_kwh_per_hour(gpus, site.machine_over_gpu_watts, site.power_usage_ratio)

    @property
    def g_co2e(self) -> Spread | None:
        """What that emits; None where the grid is not known either."""
        kwh, grid = self.kwh, self.site.grid_g_per_kwh
        return None if kwh is None or grid is None else site_g_co2_per_hour(kwh, grid)


def drawn_spread(play: SpotPlay) -> Spread:
    """Time of each machine over all draws."""
    mean = float(play.machine_s.mean())
    low, high = (float(np.quantile(play.machine_s, end)) for end in (0.1, 0.9))
    return Spread(min(low, mean), mean, max(high, mean))


def job_at(way: JobWay, offer: Offer, site: RegionSite, terms: JobTerms) -> JobAt:
    """A job on machines of one offer, as often taken away as its cloud says."""
    is_spot, known = offer.price_kind is PriceKind.SPOT, terms.interruptions
    rate, wait = (known.per_hour(offer.interruption), known.wait_s) if is_spot else (NEVER, NEVER)
    ends = [
        way.run.times_s(getattr(way.work_s, end), getattr(rate, end), getattr(wait, end))
        for end in ("low", "expected", "high")
    ]
    used, done = (Spread(*(times[which] for times in ends)) for which in (1, 0))
    hourly = way.machines * effective_price(offer) / HOUR
    paid = [float(billed_s(offer.price_kind, s, terms.held_s)) for s in (used.low, used.expected, used.high)]
    return JobAt(way, offer, site, used, done, Spread(*(hourly * s for s in paid)))


def as_played(at: JobAt, terms: JobTerms) -> JobAt:
    """A job on spot as drawn markets play it; any other, or what they cannot play, as it is."""
    if terms.plays is None or at.play is not None or at.offer.price_kind is not PriceKind.SPOT:
        return at
    way = at.way
    job = PlannedJob(at.offer, way.machines, way.work_s, way.startup_s, way.write_s, way.checkpoint_every_s)
    play = terms.plays.play(job)
    return at if play is None else replace(at, play=play)


class JobLimit(NamedTuple):
    """A limit of the question: what it is of, its name, the most, and what a job takes of it (None: not known)."""

    code: str
    name: str
    most: float
    taken: Callable[[JobAt], float | None]

    def holds(self, at: JobAt) -> bool:
        """Whether a job keeps it; what is not known is not kept."""
        taken = self.taken(at)
        return taken is not None and taken <= self.most


class Judged(NamedTuple):
    """The cheapest way through a region that keeps all limits, or the code of what stands against it."""

    best: JobAt | None
    against: str | None


def judged(found: Sequence[JobAt], limits: Sequence[JobLimit], terms: JobTerms) -> Judged:
    """What a region makes of a job that can be bought there; on spot only what may be the cheapest is played."""
    best, tried = least(found, limits, terms, lambda at: at.usd)
    if best is not None:
        return Judged(best, None)
    return Judged(None, LATE_ON_SPOT if any(is_late(at, terms) for at in tried) else against(tried or found, limits))


def least(
    found: Iterable[JobAt], limits: Sequence[JobLimit], terms: JobTerms, of: Callable[[JobAt], float]
) -> tuple[JobAt | None, list[JobAt]]:
    """Of the ways that keep all limits the one with the least of something, and all that were played on the way."""
    tried: list[JobAt] = []

    def kept(at: JobAt) -> JobAt | None:
        tried.append(as_played(at, terms))
        is_kept = not is_late(tried[-1], terms) and all(limit.holds(tried[-1]) for limit in limits)
        return tried[-1] if is_kept else None

    best = settled((at for at in found if all(limit.holds(at) for limit in limits)), of, kept, 1)
    return (best[0] if best else None), tried


def is_late(at: JobAt, terms: JobTerms) -> bool:
    """Whether it ends after the deadline too often, or never."""
    return not math.isfinite(at.usd) or (at.play is not None and at.play.is_late(terms.confidence))


def against(found: Sequence[JobAt], limits: Sequence[JobLimit]) -> str:
    """The code of the limit that stands against the way that breaks the fewest."""
    return min(([limit.code for limit in limits if not limit.holds(at)] for at in found), key=len)[0]


def least_changes(
    found: Mapping[RegionKey, Iterable[JobAt]], limits: Sequence[JobLimit], terms: JobTerms
) -> dict[str, float]:
    """For each limit, the least to which it alone would have to give way; none where that helps nothing."""
    every = [at for of_region in found.values() for at in of_region]
    needed = ((limit, least_taken(every, limit, limits, terms)) for limit in limits)
    return {limit.name: taken for limit, taken in needed if limit.most < taken < math.inf}


def least_taken(found: Sequence[JobAt], limit: JobLimit, limits: Sequence[JobLimit], terms: JobTerms) -> float:
    """The least that any way takes of a limit while it keeps all others; infinite where none does."""

    def taken(at: JobAt) -> float:
        amount = limit.taken(at)
        return math.inf if amount is None else amount

    others = [other for other in limits if other is not limit]
    best, _ = least((at for at in found if math.isfinite(taken(at))), others, terms, taken)
    return math.inf if best is None else taken(best)
