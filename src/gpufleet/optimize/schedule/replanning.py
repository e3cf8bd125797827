"""Ours: at each arrival and each end the search for a schedule of all jobs that are known by then."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from gpufleet.domain.schedule import Outage, Pool, ScheduledJob, Way
from gpufleet.optimize.schedule.at_once import by_deadline, placed_in_order
from gpufleet.optimize.schedule.grid import NEVER, Grid, Held, Placement
from gpufleet.optimize.schedule.search import improved, least_size
from gpufleet.simulate.job_queue import Hold, JobQueue, Selection
from gpufleet.simulate.pool_room import WHOLE

MOST_PLANNED = 150
"""Jobs that are planned at once; others wait."""


class Replanned(NamedTuple):
    """A plan from now on: which jobs it places, where, and how late all are, those that run among them."""

    grid: Grid
    numbers: Sequence[int]
    placed: Sequence[Placement]
    late: float


class Replanning:
    """Late by as little as can be among the jobs known so far, then for the least money, then for the least energy.

    The search of the offline schedule has so many `steps` at each event. Jobs that run stay; where somebody would be
    late, those that may pause are planned anew, with the restart that a pause costs. Where no job has a deadline, each
    is due when it could be done first, so that what is late is what waits.
    """

    def __init__(self, slot_s: float, steps: int, rng: np.random.Generator, has_deadlines: bool) -> None:
        self.slot_s, self.steps, self.rng, self.has_deadlines = slot_s, steps, rng, has_deadlines
        self.last_start_s: dict[int, float] = {}

    def choose(self, queue: JobQueue) -> Selection:
        """Those that begin now in the best plan that was found."""
        if not queue.waiting:
            return Selection(queue)
        plan = self.planned(queue, frozenset())
        movable = frozenset(j for j, hold in queue.running.items() if queue.may_pause(j, hold.way))
        if plan.late and movable:
            plan = min(plan, self.planned(queue, movable), key=lambda one: one.late)
        return self.begun(queue, plan)

    def begun(self, queue: JobQueue, plan: Replanned) -> Selection:
        """What the plan begins now, and when it next begins what waits for a cheaper hour, or pauses what began."""
        self.last_start_s = {
            j: queue.now_s + p.start * self.slot_s for j, p in zip(plan.numbers, plan.placed, strict=True)
        }
        selection = Selection(queue, [j for j in queue.running if j not in plan.numbers])
        for job, placed in sorted(zip(plan.numbers, plan.placed, strict=True), key=lambda one: one[1].start):
            way = queue.ways_now_or_later(job)[placed.way]
            priced = not queue.pools[queue.pool_of(job, way)].prices.is_flat
            if placed.start == 0 and job not in queue.blocked:
                hold = selection.fitting(job, [way])
                if hold is not None:
                    selection.take(hold)
                if len(placed.pieces) > 1:
                    selection.wake_s = min(selection.wake_s, queue.now_s + placed.pieces[0][1] * self.slot_s)
            elif priced:
                selection.wake_s = min(selection.wake_s, self.last_start_s[job])
        return selection

    def planned(self, queue: JobQueue, movable: frozenset[int]) -> Replanned:
        """A plan of all that are known, and of those at work that may be moved."""
        stay = [hold for j, hold in queue.running.items() if j not in movable]
        numbers = self.looked_at(queue, movable)
        grid = self.grid_of(queue, numbers, stay)
        placed = self.searched(grid, numbers)
        late = sum(self.late_of(queue, hold) for hold in stay)
        return Replanned(grid, numbers, placed, late + grid.score(placed).late / grid.weight_scale)

    def looked_at(self, queue: JobQueue, movable: frozenset[int]) -> list[int]:
        """Jobs that are planned: those that could begin now first, then those whose turn comes with them."""
        ready = self.some_of(queue, queue.waiting, MOST_PLANNED)
        later = self.some_of(queue, queue.blocked, MOST_PLANNED - len(ready))
        settled = {queue.jobs[j].name for j in (*ready, *queue.running, *queue.ended)} if later else set[str]()
        while True:
            known = settled | {queue.jobs[j].name for j in later}
            kept = [j for j in later if known.issuperset(queue.jobs[j].after)]
            if len(kept) == len(later):
                return [*ready, *later, *sorted(movable)]
            later = kept

    def some_of(self, queue: JobQueue, jobs: Sequence[int], most: int) -> list[int]:
        """All, or where there are too many half of them by deadline and half by weight over work."""
        if len(jobs) <= most:
            return sorted(jobs)
        due = heapq.nsmallest(most - most // 2, jobs, key=lambda j: self.due_s(queue, j))
        return sorted({*due, *heapq.nsmallest(most // 2, jobs, key=lambda j: work_over_weight(queue, j))})

    def searched(self, grid: Grid, numbers: Sequence[int]) -> list[Placement]:
        """The best of three orders, improved: by deadline, as in the last plan, by weight over work (Smith 1956)."""
        last = [round(self.last_start_s.get(j, NEVER)) for j in numbers]
        work = [round(least_size(grid, n) / job.weight) if job.weight else NEVER for n, job in enumerate(grid.jobs)]
        starts = [
            placed_in_order(grid, rank) for rank in (by_deadline(grid), lambda n: (last[n], n), lambda n: (work[n], n))
        ]
        best = min((placed for placed in starts if placed is not None), key=grid.score)
        return improved(grid, best, self.rng, lambda tries: tries < self.steps)

    def late_of(self, queue: JobQueue, hold: Hold) -> float:
        """How late a job at work will be by weight   [slots]."""
        late_s = hold.expected_end_s - self.due_s(queue, hold.job)
        return queue.jobs[hold.job].weight * math.ceil(late_s / self.slot_s) if late_s > 0 else 0.0

    def due_s(self, queue: JobQueue, number: int) -> float:
        """When a job has to be done; where none has a deadline, when it could be done first."""
        job = queue.jobs[number]
        if self.has_deadlines:
            return job.deadline_s
        return job.earliest_s + min(job.ways[w].work_s for w in queue.ways[number])

    def grid_of(self, queue: JobQueue, numbers: Sequence[int], stay: Sequence[Hold]) -> Grid:
        """What is known as a question that begins now."""
        pools = tuple(pool_from(pool, queue.now_s) for pool in queue.pools)
        left = {queue.jobs[j].name for j in numbers}
        asked = tuple(self.job_from(queue, j, stay, left) for j in numbers)
        grid = Grid(pools, asked, self.slot_s)
        return replace(grid, held=tuple(self.held_of(queue, grid, hold) for hold in stay))

    def job_from(self, queue: JobQueue, number: int, stay: Sequence[Hold], left: set[str]) -> ScheduledJob:
        """A job as it is now: what is left of it, not before those at work are done that it waits for."""
        job = queue.jobs[number]
        ends = [hold.expected_end_s - queue.now_s for hold in stay if queue.jobs[hold.job].name in job.after]
        return replace(
            job,
            ways=tuple(self.way_left(queue, number, w) for w in queue.ways_now_or_later(number)),
            earliest_s=max([0.0, *ends]),
            deadline_s=self.due_s(queue, number) - queue.now_s,
            after=tuple(name for name in job.after if name in left),
        )

    def way_left(self, queue: JobQueue, number: int, w: int) -> Way:
        """A way with what is left of the work; one that runs is planned as if it paused."""
        way = queue.jobs[number].ways[w]
        pause_s = way.restart_s if number in queue.running else 0.0
        return replace(way, work_s=max(queue.left_s(number, w) + pause_s, self.slot_s))

    def held_of(self, queue: JobQueue, grid: Grid, hold: Hold) -> Held:
        """A job at work that stays: a slot at least, for it has not ended yet."""
        way = grid.slot_way(queue.jobs[hold.job].ways[hold.way], queue.pool_of(hold.job, hold.way))
        slots = max(grid.up(hold.expected_end_s - queue.now_s), 1)
        return Held(way, Placement(0, ((0, slots),), -1 if hold.place == WHOLE else hold.place))


def work_over_weight(queue: JobQueue, number: int) -> float:
    """GPU-time of a job on its first way over what an hour too late counts."""
    job = queue.jobs[number]
    way = job.ways[queue.ways[number][0]]
    return way.work_s * way.gpus / job.weight if job.weight else math.inf


def pool_from(pool: Pool, now_s: float) -> Pool:
    """A pool from a moment on."""
    outages = tuple(
        Outage(max(o.start_s - now_s, 0.0), o.end_s - now_s, o.gpus) for o in pool.outages if o.end_s > now_s
    )
    return replace(pool, prices=pool.prices.later(now_s), outages=outages)
