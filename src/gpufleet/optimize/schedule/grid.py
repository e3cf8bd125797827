"""A schedule on a grid of slots: whole numbers of slots, thousandths of GPUs, thousandths of dollars."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from gpufleet.domain.arrays import IntArray
from gpufleet.domain.schedule import SPOT, WHOLE_MILLI, Piece, Pool, Run, ScheduledJob, Way
from gpufleet.records import dataclass
from gpufleet.units import DAY, HOUR

NEVER = 2**40  # not a conversion
MILLI_USD = 1000
FINE_WEIGHT = 100
"""Weights that are no whole numbers are counted in hundredths."""
A_MOMENT = 1e-9


class SlotWay(NamedTuple):
    """A way on the grid: `slots` at work, `restart` more where it pauses, `watts` and `watt_slots` of all its GPUs."""

    pool: int
    milli: int
    slots: int
    restart: int
    watts: int

    @property
    def gpus(self) -> int:
        """Whole GPUs that it keeps busy; none of a share."""
        return self.milli // WHOLE_MILLI


class Placement(NamedTuple):
    """Which way a job takes, and its pieces: first slot and number of slots of each.

    `lane` is the shared GPU of a job that takes a share of one.
    """

    way: int
    pieces: tuple[tuple[int, int], ...]
    lane: int = -1

    @property
    def start(self) -> int:
        """The first slot."""
        return self.pieces[0][0]

    @property
    def end(self) -> int:
        """The slot after the last."""
        return self.pieces[-1][0] + self.pieces[-1][1]


class Score(NamedTuple):
    """What a schedule is judged by, in this order: late slots by weight, thousandths of dollars, watt-slots."""

    late: int
    milli_usd: int
    watt_slots: int


class SlotJob(NamedTuple):
    """A job on the grid."""

    ways: tuple[SlotWay, ...]
    earliest: int
    deadline: int
    weight: int
    after: tuple[int, ...]
    can_pause: bool


def may_be_cut(job: SlotJob, way: SlotWay) -> bool:
    """Whether a run may have two pieces."""
    return job.can_pause and way.gpus > 0 and way.slots - 1 > way.restart


class Held(NamedTuple):
    """A run that nobody moves: it keeps its GPUs busy from the first slot on."""

    way: SlotWay
    placed: Placement


@dataclass(frozen=True, eq=False)
class Grid:
    """Jobs and pools in slots of `slot_s`. Work is rounded up, deadlines are rounded down: promises are kept.

    `held` runs beside the jobs and is judged by nobody.
    """

    pools: tuple[Pool, ...]
    asked: tuple[ScheduledJob, ...]
    slot_s: float
    budget_usd: float = math.inf
    held: tuple[Held, ...] = ()

    @cached_property
    def jobs(self) -> tuple[SlotJob, ...]:
        """Jobs in their order."""
        pools = {pool.name: number for number, pool in enumerate(self.pools)}
        numbers = {job.name: number for number, job in enumerate(self.asked)}
        return tuple(self._job(job, pools, numbers) for job in self.asked)

    def _job(self, job: ScheduledJob, pools: Mapping[str, int], numbers: Mapping[str, int]) -> SlotJob:
        return SlotJob(
            ways=tuple(self.slot_way(way, pools[way.pool]) for way in job.ways),
            earliest=self.up(job.earliest_s),
            deadline=NEVER if math.isinf(job.deadline_s) else math.floor(job.deadline_s / self.slot_s + A_MOMENT),
            weight=round(job.weight * self.weight_scale),
            after=tuple(dict.fromkeys(numbers[name] for name in job.after)),
            can_pause=job.can_pause,
        )

    def slot_way(self, way: Way, number: int) -> SlotWay:
        """A way on the grid, on the pool of that number."""
        each = self.pools[number].watts if way.watts_per_gpu is None else way.watts_per_gpu
        return SlotWay(
            number, way.milli_gpus, max(self.up(way.work_s), 1), self.up(way.restart_s), math.ceil(each * way.gpus)
        )

    @cached_property
    def weight_scale(self) -> int:
        """Into how many parts a weight is divided."""
        return 1 if all(float(job.weight).is_integer() for job in self.asked) else FINE_WEIGHT

    def up(self, seconds: float) -> int:
        """Whole slots that hold a time."""
        return math.ceil(seconds / self.slot_s - A_MOMENT)

    @cached_property
    def budget_milli_usd(self) -> int:
        """What may be spent on rented GPUs."""
        return NEVER if math.isinf(self.budget_usd) else math.floor(self.budget_usd * MILLI_USD + A_MOMENT)

    @cached_property
    def outages(self) -> tuple[tuple[tuple[int, int, int], ...], ...]:
        """By pool: first slot, slot after the last, GPUs that are missing."""
        return tuple(
            tuple((math.floor(o.start_s / self.slot_s + A_MOMENT), self.up(o.end_s), o.gpus) for o in pool.outages)
            for pool in self.pools
        )

    @cached_property
    def last_fixed(self) -> int:
        """The slot from which on nothing but jobs changes: all outages are over, all jobs may have begun."""
        ends = [end for outages in self.outages for _, end, _ in outages]
        return max([0, *ends, *(job.earliest for job in self.jobs), *(held.placed.end for held in self.held)])

    @cached_property
    def serial_end(self) -> int:
        """A slot by which everything is done one job after another, and a day later where hours differ in price."""
        work = sum(max(w.slots + w.restart for w in job.ways) for job in self.jobs)
        return self.last_fixed + work + self.price_slots + 1

    @cached_property
    def price_slots(self) -> int:
        """After how many slots prices come again; none where no hour is cheaper than another."""
        return 0 if all(pool.prices.is_flat for pool in self.pools) else math.ceil(DAY / self.slot_s)

    @cached_property
    def spent(self) -> tuple[IntArray, ...]:
        """By pool: thousandths of dollars of one GPU from the beginning to each slot, up to `serial_end`."""
        return tuple(self._spent(pool) for pool in self.pools)

    def _spent(self, pool: Pool) -> IntArray:
        scale = MILLI_USD * self.slot_s / HOUR
        if pool.prices.is_flat:
            flat = np.arange(self.serial_end + 1) * pool.prices.usd_per_hour[0]
            return np.asarray(np.rint(flat * scale), dtype=np.int64)
        usd = [pool.prices.at(slot * self.slot_s) for slot in range(self.serial_end)]
        return np.asarray(np.rint(np.concatenate([[0.0], np.cumsum(usd)]) * scale), dtype=np.int64)

    def milli_usd(self, job: int, placed: Placement) -> int:
        """What a run costs   [thousandths of USD]."""
        way = self.jobs[job].ways[placed.way]
        spent = self.spent[way.pool]
        per_gpu = sum(int(spent[start + slots] - spent[start]) for start, slots in placed.pieces)
        return round(per_gpu * way.milli / WHOLE_MILLI)

    def late(self, job: int, placed: Placement) -> int:
        """Slots after the deadline."""
        return max(placed.end - self.jobs[job].deadline, 0)

    def watt_slots(self, job: int, placed: Placement) -> int:
        """Energy of a run   [W x slot]."""
        return self.jobs[job].ways[placed.way].watts * sum(slots for _, slots in placed.pieces)

    def rent_of(self, job: int, placed: Placement) -> int:
        """What a run takes of the budget   [thousandths of USD]."""
        return self.milli_usd(job, placed) if self.pools[self.jobs[job].ways[placed.way].pool].is_rented else 0

    @cached_property
    def has_rent(self) -> bool:
        """Whether any pool is paid from the budget."""
        return any(pool.is_rented for pool in self.pools)

    @cached_property
    def least(self) -> Score:
        """What no schedule is better than, part by part: each job alone, in its cheapest hours, on its best way."""
        late = usd = energy = 0
        for number, job in enumerate(self.jobs):
            ways = [job.ways[w] for w in self.possible[number]]
            late += job.weight * max(job.earliest + min(way.slots for way in ways) - job.deadline, 0)
            usd += self.least_milli_usd(number)
            energy += min(way.watts * way.slots for way in ways)
        return Score(late, usd, energy)

    def least_milli_usd(self, number: int) -> int:
        """What a job costs at least, in the cheapest hours on its cheapest way   [thousandths of USD]."""
        job = self.jobs[number]
        return min(self._least_of(job, job.ways[w]) for w in self.possible[number])

    def _least_of(self, job: SlotJob, way: SlotWay) -> int:
        """In one piece the cheapest slots in a row; with a pause no less than as many of the cheapest of all."""
        spent = self.spent[way.pool]
        per_gpu = (spent[way.slots :] - spent[: -way.slots]).min()
        if may_be_cut(job, way) and not self.pools[way.pool].prices.is_flat:
            busy = way.slots + way.restart
            per_gpu = min(per_gpu, np.partition(np.diff(spent), busy - 1)[:busy].sum())
        return int(np.rint(per_gpu * way.milli / WHOLE_MILLI))

    def rent(self, placed: Sequence[Placement]) -> int:
        """What a schedule takes of the budget   [thousandths of USD]."""
        return sum(self.rent_of(j, p) for j, p in enumerate(placed))

    @cached_property
    def possible(self) -> tuple[tuple[int, ...], ...]:
        """By job: the ways that can ever run."""
        return tuple(tuple(w for w, way in enumerate(job.ways) if self.is_possible(job, way)) for job in self.jobs)

    def score(self, placed: Sequence[Placement]) -> Score:
        """What a schedule is judged by."""
        return Score(
            sum(self.jobs[j].weight * self.late(j, p) for j, p in enumerate(placed)),
            sum(self.milli_usd(j, p) for j, p in enumerate(placed)),
            sum(self.watt_slots(j, p) for j, p in enumerate(placed)),
        )

    def is_possible(self, job: SlotJob, way: SlotWay) -> bool:
        """Whether a way can ever run: enough GPUs, power for them, and no machine that may be taken away too early."""
        pool = self.pools[way.pool]
        if pool.kind == SPOT and not job.can_pause:
            return False
        return way.milli <= pool.gpus * WHOLE_MILLI and way.watts <= pool.power_cap_watts

    def runs(self, placed: Sequence[Placement]) -> list[Run]:
        """The schedule in seconds."""
        return [self._run(job, placed[number]) for number, job in enumerate(self.asked)]

    def _run(self, job: ScheduledJob, placed: Placement) -> Run:
        ends = [(start * self.slot_s, (start + slots) * self.slot_s) for start, slots in placed.pieces]
        lane = placed.lane if job.ways[placed.way].is_share else None
        return Run(job.name, placed.way, tuple(Piece(*end) for end in ends), lane)


def usual_slot_s(jobs: Sequence[ScheduledJob], pools: Sequence[Pool]) -> float:
    """The finest of some round times with which the schedule has not too many slots."""
    gpu_s = sum(min(way.work_s * way.gpus for way in job.ways) for job in jobs)
    ends = [job.deadline_s for job in jobs if job.deadline_s < math.inf]
    span = max([gpu_s / sum(pool.gpus for pool in pools), *ends, *(job.earliest_s for job in jobs)])
    return next((slot for slot in ROUND_S if span / slot <= MOST_USUAL_SLOTS), DAY / 24)


ROUND_S, MOST_USUAL_SLOTS = (60.0, 300.0, 600.0, 900.0, 1800.0), 1500
