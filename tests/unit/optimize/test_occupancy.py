"""Holes that a pool finds for jobs, against looking at every slot, GPU and start in turn."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.properties.random_schedules import random_grid

from gpufleet.domain.schedule import DayPrices, Pool, ScheduledJob, Way
from gpufleet.optimize.schedule.at_once import (
    begun_sooner,
    best_hole,
    edf_schedule,
    empty_pools,
    inherited_deadlines,
    ordered,
    thrifty_schedule,
)
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


def test_a_power_cap_is_met_to_the_watt() -> None:
    for watts, start in ((800.0, 0), (799.0, 3)):
        pool = PoolOccupancy(one_pool(Pool("own", "A100", 8, "owned", DayPrices((0.0,)), 400.0, watts)), 0)
        way = SlotWay(0, 1000, 3, 0, 400)
        for at in (0, start):
            assert pool.first_hole(way, 0, 3).start == at
            pool.take(way, Placement(0, ((at, 3),)))


def test_slots_that_nobody_has_looked_at_are_free_until_they_are_taken() -> None:
    """The farthest first, so that nothing before it has made room for it."""
    for begin in (0, 5000):
        pool = PoolOccupancy(one_pool(Pool("own", "A100", 2, "owned", DayPrices((0.0,)), 400.0, 900.0)), 0)
        one, both = SlotWay(0, 1000, 3, 0, 400), SlotWay(0, 2000, 2, 0, 800)
        pool.take(one, Placement(0, ((begin + 1000, 3),)))
        for earliest, start in ((998, 998), (999, 1003), (1002, 1003), (9000, 9000)):
            assert pool.first_hole(both, begin + earliest, 2).start == begin + start
        pool.give_back(one, Placement(0, ((begin + 1000, 3),)))
        assert pool.first_hole(both, begin + 999, 2) == (begin + 999, Placement(0, ()).lane)


def test_the_cheapest_hours_of_a_day_are_found_behind_a_long_run() -> None:
    """All GPUs are busy for sixty hours, and the hour before midnight is the cheapest: the next is the 71st."""
    hours = DayPrices((3.0,) * 23 + (1.0,))
    grid = one_pool(Pool("cloud", "A100", 2, "on-demand", hours, 400.0), work_s=100 * 3600.0)
    pool, book = PoolOccupancy(grid, 0), SlotBook(grid, 0)
    whole = SlotWay(0, 2000, 60, 0, 0), Placement(0, ((0, 60),))
    pool.take(*whole)
    book.taken.append(whole)
    one = SlotWay(0, 1000, 1, 0, 0)
    assert pool.cheapest_hole(one, 0, 100, 1) == book.cheapest(one, 0, 100, 1) == (71, -1)
    assert pool.cheapest_hole(one, 0, 71, 1) == book.cheapest(one, 0, 71, 1) == (60, -1)
    assert pool.cheapest_hole(one, 0, 60, 1) is None


@pytest.mark.parametrize("hour", range(24))
@pytest.mark.parametrize("busy", [0, 30])
def test_every_hour_of_the_next_day_is_looked_at(hour: int, busy: int) -> None:
    hours = DayPrices(tuple(1.0 if each == hour else 3.0 for each in range(24)))
    pool = PoolOccupancy(one_pool(Pool("cloud", "A100", 1, "on-demand", hours, 400.0), work_s=100 * 3600.0), 0)
    if busy:
        pool.take(SlotWay(0, 1000, busy, 0, 0), Placement(0, ((0, busy),)))
    found = pool.cheapest_hole(SlotWay(0, 1000, 1, 0, 0), 0, 100, 1)
    assert found == (next(slot for slot in range(busy, 100) if slot % 24 == hour), -1)


def one_pool(pool: Pool, work_s: float = 3600.0) -> Grid:
    return Grid((pool,), (ScheduledJob("a job", (Way(pool.name, 1000, work_s, 0.0),), 0.0, math.inf),), 3600.0)


def best_of(
    book_of: Sequence[SlotBook], grid: Grid, number: int, ways: Sequence[int], earliest: int, left: float
) -> Any:
    """Of the holes on all ways that can be paid: the least late, then the cheapest, the first and the thriftiest."""
    job = grid.jobs[number]
    holes = [book_of[job.ways[way].pool].hole(job, way, earliest) for way in ways]
    paid = [hole for hole in holes if hole.end <= grid.serial_end and grid.rent_of(number, hole) <= left]
    return min(
        paid,
        key=lambda p: (grid.late(number, p), grid.milli_usd(number, p), p.end, grid.watt_slots(number, p)),
        default=None,
    )


def at_once(grid: Grid, *, thrifty: bool) -> list[Placement] | None:
    """Jobs by the deadlines that they leave each other, each in its best hole, paid from what is left."""
    books = [SlotBook(grid, number) for number in range(len(grid.pools))]
    deadlines, left = inherited_deadlines(grid), grid.budget_milli_usd
    placed: dict[int, Placement] = {}
    for number in ordered(grid.jobs, lambda job: (deadlines[job], job)):
        job = grid.jobs[number]
        own = [way for way in grid.possible[number] if grid.pools[job.ways[way].pool].kind == "owned"]
        ways = own if thrifty and own else grid.possible[number]
        earliest = max([job.earliest, *(placed[before].end for before in job.after)])
        found = best_of(books, grid, number, ways, earliest, left)
        if found is None:
            return None
        placed[number] = found
        way = job.ways[found.way]
        books[way.pool].taken.append((way, found))
        left -= grid.rent_of(number, found)
    return [placed[number] for number in range(len(grid.jobs))]


def test_no_run_begins_behind_the_slot_by_which_everything_is_done_one_after_another() -> None:
    grid = one_pool(Pool("own", "A100", 2, "owned", DayPrices((0.0,)), 400.0), work_s=3 * 3600.0)
    for earliest, is_there in ((grid.serial_end - 3, True), (grid.serial_end - 2, False)):
        assert (best_hole(grid, empty_pools(grid), 0, [0], earliest, 0) is not None) == is_there


@pytest.mark.parametrize("seed", range(30))
def test_all_at_once_is_each_job_in_its_best_hole(seed: int) -> None:
    grid = random_grid(np.random.default_rng([10, seed]), 8)
    plain, thrifty = (at_once(grid, thrifty=is_thrifty) for is_thrifty in (False, True))
    assert edf_schedule(grid) == (thrifty if plain is None else plain)
    assert thrifty_schedule(grid) == thrifty


@pytest.mark.parametrize("seed", range(20))
def test_a_slack_schedule_begins_each_run_in_the_first_hole_unless_hours_differ_in_price(seed: int) -> None:
    """Jobs of one way each, one after the other with a pause between; then each as soon as there is room."""
    grid = random_grid(np.random.default_rng([11, seed]), 6)
    order = ordered(grid.jobs, lambda job: (0, job))
    slack: dict[int, Placement] = {}
    end = grid.last_fixed + 1
    for number in order:
        way = grid.possible[number][0] if grid.possible[number] else 0
        job = grid.jobs[number].ways[way]
        slack[number] = Placement(way, ((end, job.slots),), -1 if job.gpus else 0)
        end += job.slots + 1
    chosen = [slack[number] for number in range(len(order))]
    far_off = Held(SlotWay(0, 0, 1, 0, 0), Placement(0, ((2 * end, 0),)))
    far = replace(grid, held=(far_off,))
    books = [SlotBook(grid, number) for number in range(len(grid.pools))]
    sooner: dict[int, Placement] = {}
    for number in order:
        wanted, job = chosen[number], grid.jobs[number]
        way = job.ways[wanted.way]
        is_flat = len(set(grid.pools[way.pool].prices.usd_per_hour)) == 1
        after = [job.earliest, *(sooner[before].end for before in job.after)]
        start, lane = books[way.pool].first(way, max([*after, *([] if is_flat else [wanted.start])]), way.slots)
        sooner[number] = Placement(wanted.way, ((start, way.slots),), lane)
        books[way.pool].taken.append((way, sooner[number]))
    found = [sooner[number] for number in range(len(order))]
    is_better = far.score(found) <= far.score(chosen) and far.rent(found) <= far.budget_milli_usd
    assert list(begun_sooner(far, chosen)) == (found if is_better else chosen)


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
