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

from gpufleet.domain.arrays import FloatArray, Floats
from gpufleet.domain.instance import Instance
from gpufleet.domain.interruption import NEVER, Interruptions, Spread
from gpufleet.domain.offer import Offer, PriceKind
from gpufleet.optimize.caution import planned_value, slow_ratio
from gpufleet.optimize.market import ROUNDING, effective_price
from gpufleet.optimize.spot_plays import PlannedJob, SpotPlay, SpotPlays
from gpufleet.optimize.training import RunTimes, end_of_run, run_times
from gpufleet.performance.restarts import stops_per_s
from gpufleet.pricing.commitment import billed_s
from gpufleet.pricing.energy import site_g_co2_per_hour, site_kwh_per_hour
from gpufleet.pricing.spot import elapsed_work_s, paid_work_s
from gpufleet.records import dataclass
from gpufleet.units import HOUR

RegionKey = tuple[str, str]
LATE = "late"


@dataclass(frozen=True)
class Promise:
    """A job is done by `deadline_s` though it works `headroom_ratio` longer, or with `confidence` if that is later."""

    deadline_s: float
    headroom_ratio: float
    confidence: float

    def slow_s(self, work_s: Spread) -> float:
        """Work as long as it is planned to be   [s]."""
        slow = slow_ratio(self.confidence, np.array(work_s.high / work_s.expected))
        return work_s.expected * max(1 + self.headroom_ratio, float(slow))


class Run(Protocol):
    """How work becomes time."""

    def times_s(self, work_s: Spread, per_hour: Spread, wait_s: Spread) -> tuple[Spread, Spread]:
        """From the start to the end, and what a machine is paid for that is taken away so often   [s]."""

    def planned_s(self, work_s: Spread, per_hour: Spread, wait_s: Spread, promise: Promise) -> float:
        """The time to the end that has to meet the deadline, as a plan of such a job counts it   [s]."""


@dataclass(frozen=True)
class BatchRun:
    """A batch job: it starts, works in waves, and repeats the half of one that is lost."""

    startup_s: float
    wave_s: float

    def times_s(self, work_s: Spread, per_hour: Spread, wait_s: Spread) -> tuple[Spread, Spread]:
        """`elapsed_work_s` and `paid_work_s`, at the fastest with the fewest stops and at the slowest with the most."""
        ends = list(zip(*(ends_of(each) for each in (work_s, per_hour, wait_s)), strict=True))
        lost = [(work, rate / HOUR, self.startup_s, self.wave_s / 2) for work, rate, _ in ends]
        elapsed = (float(elapsed_work_s(*each, wait)) for each, (_, _, wait) in zip(lost, ends, strict=True))
        return Spread(*elapsed), Spread(*(float(paid_work_s(*each)) for each in lost))

    def planned_s(self, work_s: Spread, per_hour: Spread, wait_s: Spread, promise: Promise) -> float:
        """`JobPlacement.planned_s`."""
        rate, wait = (planned_value(promise.confidence, each) for each in (per_hour, wait_s))
        return float(elapsed_work_s(promise.slow_s(work_s), rate / HOUR, self.startup_s, self.wave_s / 2, wait))


@dataclass(frozen=True)
class TrainingRun:
    """A run of training: machines that fail or are taken away stop all, and it goes on from its last checkpoint."""

    startup_s: float
    write_s: float
    recovery_s: Spread
    num_gpus: float
    machines: int
    failures_per_gpu_hour: Spread

    def times_s(self, work_s: Spread, per_hour: Spread, wait_s: Spread) -> tuple[Spread, Spread]:
        """As a plan of training times it: each of what is not sure moves alone."""
        low, usual, high = zip(
            *map(ends_of, (self.failures_per_gpu_hour, per_hour, wait_s, self.recovery_s)), strict=True
        )
        work = [np.array(each) for each in ends_of(work_s)]
        expected = self.times(work[1], *usual)
        found = (
            end_of_run(self.times, expected, work[1], usual, work[0], low, -1),
            expected,
            end_of_run(self.times, expected, work[1], usual, work[2], high, 1),
        )
        return Spread(*(float(each.elapsed_s) for each in found)), Spread(*(float(each.paid_s) for each in found))

    def planned_s(self, work_s: Spread, per_hour: Spread, wait_s: Spread, promise: Promise) -> float:
        """As `optimize.training` plans it: at the confidence of each of what is not sure, each moved alone."""
        unsure = (self.failures_per_gpu_hour, per_hour, wait_s, self.recovery_s)
        usual = [each.expected for each in unsure]
        planned = [planned_value(promise.confidence, each) for each in unsure]
        usual_s, slow_s = np.array(work_s.expected), np.array(promise.slow_s(work_s))
        expected = self.times(usual_s, *usual)
        return float(end_of_run(self.times, expected, usual_s, usual, slow_s, planned, 1).elapsed_s)

    def times(
        self, work_s: FloatArray, failures: Floats, per_hour: Floats, wait_s: Floats, recovery_s: Floats
    ) -> RunTimes:
        """One run."""
        stops = stops_per_s(self.num_gpus, failures, self.machines, per_hour)
        write_s = np.array(self.write_s)
        return run_times(work_s, stops, write_s, recovery_s + write_s, wait_s, self.startup_s)


def ends_of(spread: Spread) -> tuple[float, float, float]:
    """Its low end, what is expected, and its high end."""
    return spread.low, spread.expected, spread.high


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
    promise: Promise
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

    `planned_s` has to meet the deadline; `play` is what drawn spot markets make of it.
    """

    way: JobWay
    offer: Offer
    site: RegionSite
    used_s: Spread
    done_s: Spread
    machines_usd: Spread
    planned_s: float
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
        gpus = Spread(*(self.way.kwh_per_hour * s / HOUR for s in ends_of(hours)))
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
    done, used = way.run.times_s(way.work_s, rate, wait)
    hourly = way.machines * effective_price(offer) / HOUR
    paid = [float(billed_s(offer.price_kind, s, terms.held_s)) for s in ends_of(used)]
    planned_s = way.run.planned_s(way.work_s, rate, wait, terms.promise)
    return JobAt(way, offer, site, used, done, Spread(*(hourly * s for s in paid)), planned_s)


def as_played(at: JobAt, terms: JobTerms) -> JobAt:
    """A job on spot as drawn markets play it; any other, or what they cannot play, as it is."""
    if terms.plays is None or at.play is not None or at.offer.price_kind is not PriceKind.SPOT:
        return at
    play = terms.plays.play(planned_job(at), terms.promise.confidence)
    return at if play is None else replace(at, play=play)


def planned_job(at: JobAt) -> PlannedJob:
    """What is played of a job."""
    way = at.way
    return PlannedJob(at.offer, way.machines, way.work_s, way.startup_s, way.write_s, way.checkpoint_every_s)


def least_usd(at: JobAt, terms: JobTerms) -> float:
    """What a job costs at least, however it is played."""
    is_played = terms.plays is not None and at.play is None and at.offer.price_kind is PriceKind.SPOT
    steady = terms.plays.beside(at.offer) if terms.plays is not None and is_played else None
    if terms.plays is None or steady is None:
        return at.usd
    return terms.plays.least_usd(planned_job(at), steady) + at.site.moved_usd


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
    best, tried = least(found, limits, terms, lambda at: at.usd, lambda at: least_usd(at, terms))
    if best is not None:
        return Judged(best, None)
    is_in_vain = any(is_late(at, terms) for at in tried or found)
    return Judged(None, LATE if is_in_vain else against(tried or found, limits))


def least(
    found: Iterable[JobAt],
    limits: Sequence[JobLimit],
    terms: JobTerms,
    of: Callable[[JobAt], float],
    at_least: Callable[[JobAt], float],
) -> tuple[JobAt | None, list[JobAt]]:
    """Of the ways that keep all limits the one with the least of something, and all that were played on the way.

    No play of a way has less of it than `at_least`.
    """
    able = (at for at in found if not is_late(at, terms) and all(limit.holds(at) for limit in limits))
    best, tried = None, []
    for at in sorted(able, key=at_least):
        if best is not None and at_least(at) >= of(best):
            break
        played = as_played(at, terms)
        tried.append(played)
        is_kept = not is_late(played, terms) and all(limit.holds(played) for limit in limits)
        if is_kept and (best is None or of(played) < of(best)):
            best = played
    return best, tried


def is_late(at: JobAt, terms: JobTerms) -> bool:
    """Whether it is planned to end after the deadline, never ends, or is late in too many draws."""
    if at.planned_s > terms.promise.deadline_s * (1 + ROUNDING) or not math.isfinite(at.usd):
        return True
    return at.play is not None and at.play.is_late(terms.promise.confidence)


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
    best, _ = least((at for at in found if math.isfinite(taken(at))), others, terms, taken, taken)
    return math.inf if best is None else taken(best)
