"""A schedule improved by taking jobs out that run about the same time and putting them back in another order.

Ruin and recreate (Schrimpf et al. 2000, doi:10.1006/jcph.1999.6413): what is not better is undone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import numpy as np

from gpufleet.domain.arrays import FloatArray, IntArray
from gpufleet.optimize.schedule.at_once import best_hole, empty_pools, inherited_deadlines
from gpufleet.optimize.schedule.grid import Grid, Placement, Score

Answer = TypeVar("Answer")
FEWEST, MOST = 2, 24
"""Jobs that are taken out at once."""
OF_WORST, AT_FRONT, SWAPPED = 0.7, 0.5, 0.5
"""Chances: the middle of what is taken out is a late job, or one that costs where none is late; it is put back first;
two neighbours change places."""
SPREADS = (0.25, 1.0, 4.0)
"""How far around a moment jobs are taken, in mean durations."""
PATIENCE_PER_JOB, LEAST_PATIENCE = 200, 4000
"""Tries without any gain after which the search ends."""


class Workbench:
    """A schedule on which jobs are moved."""

    def __init__(self, grid: Grid, placed: Sequence[Placement]) -> None:
        self.grid, self.placed = grid, dict(enumerate(placed))
        self.pools = empty_pools(grid)
        for number in self.placed:
            self._take(number)
        self.score = grid.score(placed)
        self.rent = sum(grid.rent_of(j, p) for j, p in self.placed.items())
        self.start: IntArray = np.array([p.start for p in placed], dtype=np.int64)
        self.end: IntArray = np.array([p.end for p in placed], dtype=np.int64)
        self.usd: IntArray = np.array([grid.milli_usd(j, p) for j, p in enumerate(placed)], dtype=np.int64)
        self.waiting: list[list[int]] = [[] for _ in grid.jobs]
        for number, job in enumerate(grid.jobs):
            for before in job.after:
                self.waiting[before].append(number)

    def _take(self, number: int) -> None:
        way = self.grid.jobs[number].ways[self.placed[number].way]
        self.pools[way.pool].take(way, self.placed[number])

    def _give_back(self, number: int) -> None:
        way = self.grid.jobs[number].ways[self.placed[number].way]
        self.pools[way.pool].give_back(way, self.placed[number])

    def score_of(self, numbers: Iterable[int]) -> Score:
        """What some of the jobs add to the score."""
        grid, placed = self.grid, self.placed
        late = usd = energy = 0
        for j in numbers:
            late += grid.jobs[j].weight * grid.late(j, placed[j])
            usd += grid.milli_usd(j, placed[j])
            energy += grid.watt_slots(j, placed[j])
        return Score(late, usd, energy)

    def reorder(self, numbers: Sequence[int]) -> bool:
        """Take jobs out and put them back in this order; whether that is better, else all is as it was."""
        before, old = {j: self.placed[j] for j in numbers}, self.score_of(numbers)
        rent = self.rent - sum(self.grid.rent_of(j, p) for j, p in before.items())
        for j in numbers:
            self._give_back(j)
            del self.placed[j]
        put_back = self._put_back(numbers, old, rent)
        new = self.score_of(numbers) if put_back == len(numbers) else None
        if new is None or new > old:
            for j in numbers[:put_back]:
                self._give_back(j)
            self.placed.update(before)
            for j in numbers:
                self._take(j)
            return False
        self._keep(numbers, old, new)
        return new < old

    def _put_back(self, numbers: Sequence[int], old: Score, rent: int) -> int:
        """Jobs one by one in the best holes that are left; how many of them, until it is worse than it was."""
        grid, late = self.grid, 0
        for count, j in enumerate(numbers):
            job = grid.jobs[j]
            earliest = max([job.earliest, *(self.placed[b].end for b in job.after)]) if job.after else job.earliest
            found = best_hole(grid, self.pools, j, grid.possible[j], earliest, grid.budget_milli_usd - rent)
            if found is None or any(self.start[w] < found.end for w in self.waiting[j] if w in self.placed):
                return count
            late += job.weight * grid.late(j, found)
            if late > old.late:
                return count
            self.placed[j] = found
            self._take(j)
            rent += grid.rent_of(j, found)
        return len(numbers)

    def _keep(self, numbers: Sequence[int], old: Score, new: Score) -> None:
        self.score = Score(*(total + n - o for total, n, o in zip(self.score, new, old, strict=True)))
        self.rent = sum(self.grid.rent_of(j, p) for j, p in self.placed.items()) if self.grid.has_rent else 0
        for j in numbers:
            self.start[j], self.end[j] = self.placed[j].start, self.placed[j].end
            self.usd[j] = self.grid.milli_usd(j, self.placed[j])

    def without(self, number: int, ask: Callable[[int], Answer]) -> Answer:
        """What is asked while a job is taken out of its pool."""
        self._give_back(number)
        try:
            return ask(number)
        finally:
            self._take(number)

    @property
    def schedule(self) -> list[Placement]:
        """Where every job is now."""
        return [self.placed[j] for j in range(len(self.grid.jobs))]


class Neighbours:
    """Which jobs are taken out together, and in which order they are put back."""

    def __init__(self, grid: Grid) -> None:
        jobs = grid.jobs
        shortest = np.array([min(job.ways[w].slots for w in grid.possible[j]) for j, job in enumerate(jobs)])
        size = np.array([least_size(grid, j) for j in range(len(jobs))])
        deadline = np.array(inherited_deadlines(grid), dtype=np.int64)
        self.weight: IntArray = np.array([job.weight for job in jobs], dtype=np.int64)
        self.deadline: IntArray = np.array([job.deadline for job in jobs], dtype=np.int64)
        self.earliest: IntArray = np.array([job.earliest for job in jobs], dtype=np.int64)
        self.worth: FloatArray = self.weight / size
        self.ranks: tuple[FloatArray, ...] = tuple(
            np.asarray(rank, dtype=np.float64)
            for rank in (deadline, deadline - shortest, -self.worth, self.earliest, -size)
        )
        self.mean_slots = float(shortest.mean())
        self.pools: IntArray = np.array([pools_of(grid, j) for j in range(len(jobs))], dtype=np.int64)
        self.after = [job.after for job in jobs]

    def taken_out(self, bench: Workbench, rng: np.random.Generator) -> list[int]:
        """Jobs that run about a moment at which one of them could, in a new order."""
        late = self.weight * np.maximum(bench.end - self.deadline, 0)
        worst = late if late.any() else bench.usd
        total = int(worst.sum())
        if total and rng.random() < OF_WORST:
            middle = int(np.searchsorted(np.cumsum(worst), rng.integers(total), side="right"))
        else:
            middle = int(rng.integers(len(late)))
        moment = int(rng.integers(self.earliest[middle], bench.end[middle]))
        spread = SPREADS[int(rng.integers(len(SPREADS)))] * self.mean_slots
        away = np.maximum(np.maximum(bench.start - moment, moment - bench.end), 0) + rng.exponential(spread, len(late))
        away[(self.pools & self.pools[middle]) == 0] = np.inf
        away[middle] = -1.0
        count = min(int(rng.integers(FEWEST, MOST)), len(late))
        nearest = np.argpartition(away, count - 1)[:count]
        return self.in_order(nearest[np.isfinite(away[nearest])], middle, rng)

    def in_order(self, numbers: IntArray, middle: int, rng: np.random.Generator) -> list[int]:
        """By one of the ranks, with a little chance, and none before those that it waits for."""
        rank = self.ranks[int(rng.integers(len(self.ranks)))]
        order: list[int] = numbers[np.argsort(rank[numbers], kind="stable")].tolist()
        if rng.random() < AT_FRONT:
            order.remove(middle)
            order.insert(0, middle)
        if rng.random() < SWAPPED and len(order) > FEWEST:
            at = int(rng.integers(len(order) - 1))
            order[at], order[at + 1] = order[at + 1], order[at]
        return self.after_their_own(order)

    def after_their_own(self, order: list[int]) -> list[int]:
        """The same with those that others wait for before these."""
        left, found = dict.fromkeys(order), list[int]()
        while left:
            number = next(j for j in left if not any(before in left for before in self.after[j]))
            del left[number]
            found.append(number)
        return found


def least_size(grid: Grid, number: int) -> int:
    """What a job takes of GPUs and time at least   [thousandths of a GPU x slot]."""
    job = grid.jobs[number]
    return min(job.ways[w].slots * job.ways[w].milli for w in grid.possible[number])


def pools_of(grid: Grid, number: int) -> int:
    """The pools that a job may run on, a bit each."""
    bits = 0
    for way in grid.possible[number]:
        bits |= 1 << (grid.jobs[number].ways[way].pool % 62)
    return bits


def improved(
    grid: Grid, placed: Sequence[Placement], rng: np.random.Generator, goes_on: Callable[[int], bool]
) -> list[Placement]:
    """A schedule that is no worse: tries follow one another while `goes_on` says so of their number."""
    bench, neighbours = Workbench(grid, placed), Neighbours(grid)
    patience = max(PATIENCE_PER_JOB * len(grid.jobs), LEAST_PATIENCE)
    tries = gained = 0
    while bench.score > grid.least and tries - gained < patience and goes_on(tries):
        tries += 1
        if bench.reorder(neighbours.taken_out(bench, rng)):
            gained = tries
    return bench.schedule
