"""Jobs with a deadline replayed on availability of spot machines: many starts at once, tick by tick.

Within a tick a job waits, or runs on spot or on demand. A start takes its time before work goes on. Who runs on spot at
a place that has none in the next tick has lost the machine, and what was done since the last checkpoint. Machines are
paid by the second, starts included.
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

from gpufleet.domain.arrays import BoolArray, FloatArray, IntArray
from gpufleet.domain.spot import ON_DEMAND, ON_SPOT, WAITING, DeadlineJob, SpotMarket
from gpufleet.records import dataclass
from gpufleet.units import HOUR

NO_WORK_S = 1e-6


@dataclass(frozen=True, eq=False)
class Sight:
    """What a policy sees of every job at the begin of a tick; arrays have one entry per job.

    `work_s` is left to be done, `starting_s` of the present start is left. `age_s` is for how long the place that a job
    would take has had a machine, or all have had none, this tick included, as far as the job has seen.
    """

    elapsed_s: float
    left_s: float
    work_s: FloatArray
    starting_s: FloatArray
    running: IntArray
    is_available: BoolArray
    age_s: FloatArray


class SpotPolicy(Protocol):
    """Where a job runs in the next tick."""

    def choose(self, job: DeadlineJob, sight: Sight) -> IntArray:
        """WAITING, ON_SPOT or ON_DEMAND of every job."""
        ...


@dataclass(frozen=True, eq=False)
class Luck:
    """How the world turns out, by job: the work, a start, and how long on demand is refused at each start."""

    work_s: FloatArray
    restart_s: FloatArray
    refused_s: FloatArray

    @classmethod
    def none(cls, job: DeadlineJob, num_jobs: int) -> Luck:
        """As the job says, and never refused."""
        return cls(np.full(num_jobs, job.work_s), np.full(num_jobs, job.restart_s), np.zeros(num_jobs))


@dataclass(frozen=True, eq=False)
class SpotRuns:
    """What came of jobs, one entry each: dollars, seconds from start to end, machine time of both kinds, and losses.

    `first_on_demand_s`: when on demand took over for the first time; infinite where it never did.
    """

    cost_usd: FloatArray
    elapsed_s: FloatArray
    spot_s: FloatArray
    on_demand_s: FloatArray
    losses: IntArray
    starts: IntArray
    first_on_demand_s: FloatArray


class Jobs:
    """Jobs under way; arrays have one entry per job."""

    def __init__(self, job: DeadlineJob, market: SpotMarket, first_tick: IntArray, luck: Luck) -> None:
        self.job, self.market, self.first_tick, self.luck = job, market, first_tick, luck
        n = len(first_tick)
        self.who = np.arange(n)
        self.work_s, self.starting_s, self.unsaved_s = luck.work_s, np.zeros(n), np.zeros(n)
        self.refused_s, self.first_on_demand_s = np.zeros(n), np.full(n, np.inf)
        self.running, self.place = np.full(n, WAITING), np.zeros(n, dtype=np.int64)
        self.cost_usd, self.spot_s, self.on_demand_s = np.zeros(n), np.zeros(n), np.zeros(n)
        self.elapsed_s = np.full(n, np.inf)
        self.losses, self.starts = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
        self.without_ticks = np.zeros(n, dtype=np.int64)

        self.is_live = self.work_s > NO_WORK_S

    def see(self, tick: int) -> Sight:
        """Machines that are lost, places that are chosen, and what a policy sees."""
        at = self.first_tick + tick
        available = self.market.is_available.take(at, axis=1)
        self._lose(available)
        seen_ticks = np.minimum(self.market.age.take(at, axis=1), tick + 1)
        self._choose_place(available, seen_ticks)
        has_one = available[self.place, self.who]
        self.without_ticks = np.where(has_one, 0, self.without_ticks + 1)
        age = np.where(has_one, seen_ticks[self.place, self.who], self.without_ticks)
        elapsed = tick * self.market.tick_s
        left = self.job.deadline_s - elapsed
        return Sight(elapsed, left, self.work_s, self.starting_s, self.running, has_one, age * self.market.tick_s)

    def _lose(self, available: BoolArray) -> None:
        lost = (self.running == ON_SPOT) & ~available[self.place, self.who] & self.is_live
        if not lost.any():
            return
        self.work_s = self.work_s + np.where(lost, np.minimum(self.unsaved_s, self.job.loss_s), 0.0)
        self.running = np.where(lost, WAITING, self.running)
        self.losses = self.losses + lost

    def _choose_place(self, available: BoolArray, seen_ticks: IntArray) -> None:
        """Who runs on spot stays; others look to the cheapest place, of those to the one that has lasted longest."""
        if len(available) == 1:
            return
        usd = np.where(available, self.market.spot_usd_per_hour[:, None], np.inf)
        lasted = np.where(usd == usd.min(axis=0), seen_ticks * available, -1)
        self.place = np.where(self.running == ON_SPOT, self.place, lasted.argmax(axis=0))

    def run(self, chosen: IntArray, elapsed_s: float) -> None:
        """One tick of what was chosen, from that time on."""
        is_start = (chosen != WAITING) & (chosen != self.running)
        self.starting_s = np.where(is_start, self.luck.restart_s, self.starting_s)
        self.unsaved_s = np.where(is_start, 0.0, self.unsaved_s)
        idle_s = self._refused(is_start, chosen, elapsed_s)
        most_s = np.where(chosen == WAITING, 0.0, self.market.tick_s - idle_s)
        ran_s = np.minimum(self.work_s + self.starting_s, most_s)
        done_s = np.maximum(ran_s - self.starting_s, 0.0)
        self.starting_s = np.maximum(self.starting_s - ran_s, 0.0)
        self.work_s = self.work_s - done_s
        self.unsaved_s = self.unsaved_s + done_s
        self.running, self.starts = chosen, self.starts + is_start
        self._pay(chosen, ran_s)
        live = self.work_s > NO_WORK_S
        self.elapsed_s = np.where(self.is_live & ~live, elapsed_s + idle_s + ran_s, self.elapsed_s)
        self.is_live = live

    def _refused(self, is_start: BoolArray, chosen: IntArray, elapsed_s: float) -> FloatArray:
        """How much of the tick passes until a machine on demand is to be had, unpaid."""
        on_demand = chosen == ON_DEMAND
        begins = is_start & on_demand
        self.first_on_demand_s = np.where(begins, np.minimum(self.first_on_demand_s, elapsed_s), self.first_on_demand_s)
        self.refused_s = np.where(begins, self.luck.refused_s, np.where(on_demand, self.refused_s, 0.0))
        idle_s = np.minimum(self.refused_s, self.market.tick_s)
        self.refused_s = self.refused_s - idle_s
        return idle_s

    def _pay(self, chosen: IntArray, ran_s: FloatArray) -> None:
        on_spot, on_demand = chosen == ON_SPOT, chosen == ON_DEMAND
        self.spot_s = self.spot_s + np.where(on_spot, ran_s, 0.0)
        self.on_demand_s = self.on_demand_s + np.where(on_demand, ran_s, 0.0)
        price = np.where(on_spot, self.market.spot_usd_per_hour[self.place], self.market.on_demand_usd_per_hour)
        self.cost_usd = self.cost_usd + ran_s / HOUR * price


def replay_jobs(
    job: DeadlineJob, market: SpotMarket, first_tick: IntArray, policy: SpotPolicy, luck: Luck | None = None
) -> SpotRuns:
    """Every start of the job under a policy, until it is done, or until availability ends.

    A job that is not done when availability ends has `elapsed_s` infinite. Policies see the work that is left, but not
    whether on demand will be refused.
    """
    jobs = Jobs(job, market, np.asarray(first_tick), luck or Luck.none(job, len(first_tick)))
    for tick in range(market.ticks - int(np.max(first_tick))):
        if not jobs.is_live.any():
            break
        sight = jobs.see(tick)
        jobs.run(np.where(jobs.is_live, policy.choose(job, sight), WAITING), sight.elapsed_s)
    return SpotRuns(
        cost_usd=jobs.cost_usd,
        elapsed_s=jobs.elapsed_s,
        spot_s=jobs.spot_s,
        on_demand_s=jobs.on_demand_s,
        losses=jobs.losses,
        starts=jobs.starts,
        first_on_demand_s=jobs.first_on_demand_s,
    )


def ticks_needed(job: DeadlineJob, market: SpotMarket) -> int:
    """Ticks until the deadline of a job."""
    return math.ceil(job.deadline_s / market.tick_s)


def every_start(job: DeadlineJob, market: SpotMarket, apart_s: float = HOUR) -> IntArray:
    """Starts so far apart whose deadline lies within what is known."""
    step = max(round(apart_s / market.tick_s), 1)
    return np.arange(0, max(market.ticks - ticks_needed(job, market), 0), step)
