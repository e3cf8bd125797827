"""Holes that a pool finds for jobs, against looking at every slot, GPU and start in turn."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from tests.properties.random_schedules import random_grid

from gpufleet.optimize.schedule.at_once import inherited_deadlines, ordered
from gpufleet.optimize.schedule.grid import Grid, Held, Placement, SlotJob, SlotWay
from gpufleet.optimize.schedule.occupancy import MOST_GAPS, PoolOccupancy

Hole = tuple[int, int]


class SlotBook:
    """One pool, told slot by slot by the runs that are in it."""

    def __init__(self, grid: Grid, number: int) -> None:
        self.grid, self.number, self.pool = grid, number, grid.pools[number]
        self.taken: list[tuple[SlotWay, Placement]] = [
            (one.way, one.placed) for one in grid.held if one.way.pool == number
        ]

    def running(self, slot: int) -> list[tuple[SlotWay, int]]:
        return [
            (way, placed.lane)
            for way, placed in self.taken
            if any(start <= slot < start + slots for start, slots in placed.pieces)
        ]

    def lanes_at(self, way: SlotWay, slot: int) -> dict[int, int]:
        """GPUs that would take a way in a slot, with what others use of them; -1 stands for whole ones."""
        running = self.running(slot)
        used = [sum(one.milli for one, at in running if at == lane) for lane in range(self.pool.gpus)]
        missing = sum(gpus for start, end, gpus in self.grid.outages[self.number] if start <= slot < end)
        free = self.pool.gpus - missing - sum(one.gpus for one, _ in running) - sum(each > 0 for each in used)
        if sum(one.watts for one, _ in running) + way.watts > self.pool.power_cap_watts:
            return {}
        if way.gpus:
            return {-1: 0} if free >= way.gpus else {}
        return {lane: each for lane, each in enumerate(used) if each + way.milli <= 1000 and (each or free >= 1)}

    def lane(self, way: SlotWay, start: int, slots: int) -> int | None:
        """The fullest GPU that takes a way for all of these slots, the first of several; None where none does."""
        at = [self.lanes_at(way, slot) for slot in range(start, start + slots)]
        shared = [lane for lane in at[0] if all(lane in each for each in at)]
        return max(shared, key=lambda lane: (sum(each[lane] for each in at), -lane), default=None)

    def first(self, way: SlotWay, earliest: int, slots: int) -> Hole:
        """The earliest start and its GPU."""
        found = ((start, self.lane(way, start, slots)) for start in itertools.count(earliest))
        return next((start, lane) for start, lane in found if lane is not None)

    def cheapest(self, way: SlotWay, earliest: int, latest_end: int, slots: int) -> Hole | None:
        """The cheapest start in time, the earliest of several."""
        spent = self.grid.spent[self.number]
        found = [(start, self.lane(way, start, slots)) for start in range(earliest, latest_end - slots + 1)]
        there = [(start, lane) for start, lane in found if lane is not None]
        return min(there, key=lambda hole: (spent[hole[0] + slots] - spent[hole[0]], hole[0]), default=None)

    def hole(self, job: SlotJob, number: int, earliest: int) -> Placement:
        """The cheapest run in time, else that which ends first, of as few pieces as may be."""
        way = job.ways[number]
        if not self.pool.prices.is_flat:
            cheapest = self.cheapest(way, earliest, min(job.deadline, self.grid.serial_end), way.slots)
            if cheapest is not None:
                return Placement(number, ((cheapest[0], way.slots),), cheapest[1])
        start, lane = self.first(way, earliest, way.slots)
        runs = [Placement(number, ((start, way.slots),), lane)]
        if job.can_pause and way.gpus:
            runs += self.in_two(number, way, earliest, start)
        return min(runs, key=lambda run: (run.end, len(run.pieces)))

    def in_two(self, number: int, way: SlotWay, earliest: int, before: int) -> list[Placement]:
        """Runs that begin in a gap that is too short, and do the rest and a restart later."""
        gaps = [
            [slot for slot, _ in each]
            for fits, each in itertools.groupby(
                ((slot, bool(self.lanes_at(way, slot))) for slot in range(earliest, before)), key=lambda pair: pair[1]
            )
            if fits
        ]
        found = []
        for gap in gaps[:MOST_GAPS]:
            done = min(len(gap), way.slots - 1)
            if done > way.restart:
                rest = way.slots - done + way.restart
                found.append(Placement(number, ((gap[0], done), (self.first(way, gap[0] + done + 1, rest)[0], rest))))
        return found


@pytest.mark.parametrize("seed", range(40))
def test_holes_are_those_of_looking_everywhere(seed: int) -> None:
    """Jobs come and go on all pools of a random question; each is looked for from some slot on."""
    dice = np.random.default_rng([7, seed])
    grid = random_grid(dice, 9)
    pools = [(PoolOccupancy(grid, number), SlotBook(grid, number)) for number in range(len(grid.pools))]
    for at, job in enumerate(grid.jobs):
        for number in grid.possible[at]:
            way = job.ways[number]
            pool, book = pools[way.pool]
            earliest = int(dice.integers(0, 12))
            assert pool.first_hole(way, earliest, way.slots) == book.first(way, earliest, way.slots)
            found = pool.hole(job, number, earliest)
            assert found == book.hole(job, number, earliest)
            if number == grid.possible[at][-1] or dice.random() < 0.3:
                pool.take(way, found)
                book.taken.append((way, found))
            if book.taken and dice.random() < 0.2:
                pool.give_back(*book.taken.pop(int(dice.integers(len(book.taken)))))


def test_runs_that_nobody_moves_are_there_from_the_beginning() -> None:
    grid = random_grid(np.random.default_rng(3), 1, rents=False)
    way = SlotWay(0, 1000 * grid.pools[0].gpus, 4, 0, 0)
    held = Grid(grid.pools, grid.asked, grid.slot_s, held=(Held(way, Placement(0, ((30, 5),))),))
    one = SlotWay(0, 1000, 1, 0, 0)
    pool, book = PoolOccupancy(held, 0), SlotBook(held, 0)
    for earliest in (29, 30, 34, 35):
        assert pool.first_hole(one, earliest, 1) == book.first(one, earliest, 1)
    assert pool.first_hole(one, 30, 1).start == 35
    other = SlotWay(1, 1000, 1, 0, 0)
    elsewhere = Grid(grid.pools, grid.asked, grid.slot_s, held=(Held(other, Placement(0, ((30, 5),))),))
    assert PoolOccupancy(elsewhere, 0).first_hole(way, 30, 1).start == 30


@pytest.mark.parametrize("seed", range(8))
def test_jobs_come_by_rank_and_none_before_what_it_waits_for(seed: int) -> None:
    """At every place stands the job of least rank of those whose predecessors have all come."""
    dice = np.random.default_rng([8, seed])
    grid = random_grid(dice, 14)
    count = len(grid.jobs)
    waits = [tuple(int(x) for x in np.flatnonzero(dice.random(number) < 0.2)) for number in range(count)]
    jobs = [job._replace(after=after) for job, after in zip(grid.jobs, waits, strict=True)]
    rank = [int(x) for x in dice.integers(0, 4, count)]
    found = ordered(jobs, lambda job: (rank[job], job))
    assert sorted(found) == list(range(count))
    for place, number in enumerate(found):
        begun = set(found[:place])
        ready = [job for job in range(count) if job not in begun and begun.issuperset(waits[job])]
        assert number == min(ready, key=lambda job: (rank[job], job))


def test_a_deadline_leaves_time_for_all_that_waits() -> None:
    """Every chain of jobs that wait for each other, each as fast as it can be, ends in time or bounds its first."""
    for seed in range(12):
        grid = random_grid(np.random.default_rng([9, seed]), 14)
        jobs, found = grid.jobs, inherited_deadlines(grid)

        def latest(number: int) -> float:
            own, after = jobs[number].deadline, [j for j, job in enumerate(jobs) if number in job.after]  # noqa: B023
            ends = [latest(j) - min(way.slots for way in jobs[j].ways) for j in after]  # noqa: B023
            return min([own, *ends])

        assert found == [latest(number) for number in range(len(jobs))]
        assert all(math.isfinite(each) for each in found)
