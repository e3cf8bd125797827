"""Which jobs of a schedule are taken out together and in which order they are put back, and what moving one does."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from gpufleet.domain.schedule import DayPrices, Pool, ScheduledJob, Way
from gpufleet.optimize.schedule.grid import Grid, Placement, Score
from gpufleet.optimize.schedule.search import FEWEST, MOST, Neighbours, Workbench, improved, least_size, pools_of

SLOT_S = 3600.0
OWN = Pool("own", "A100", 4, watts=400.0)
CLOUD = Pool("cloud", "A100", 4, "on-demand", DayPrices((1.0,)), 300.0)
TIGHT = Pool("tight", "A100", 1)


def job(name: str, *ways: tuple[str, int, float], **how: object) -> ScheduledJob:
    return ScheduledJob(name, tuple(Way(pool, 1000 * n, h * SLOT_S) for pool, n, h in ways), **how)  # type: ignore[arg-type]


def grid_of(*jobs: ScheduledJob, budget_usd: float = math.inf) -> Grid:
    return Grid((OWN, CLOUD, TIGHT), jobs, SLOT_S, budget_usd)


def at(way: int, start: int, slots: int) -> Placement:
    return Placement(way, ((start, slots),))


MIXED = grid_of(
    job("a", ("own", 1, 4), ("cloud", 4, 2), weight=8.0, deadline_s=9 * SLOT_S),
    job("b", ("tight", 1, 3), weight=3.0, deadline_s=4 * SLOT_S, after=("a",)),
    job("c", ("cloud", 2, 1), ("cloud", 9, 1), earliest_s=5 * SLOT_S),
)


def test_jobs_are_ranked_by_deadline_slack_worth_arrival_and_size() -> None:
    """A job inherits the deadline of what waits for it; a way that no pool holds counts for nothing."""
    told = Neighbours(MIXED)
    deadline, slack, worth, earliest, size = told.ranks
    assert deadline[:2].tolist() == [1, 4]
    assert slack[:2].tolist() == [1 - 2, 4 - 3]
    assert (-worth).tolist() == told.worth.tolist() == [8 / 4000, 3 / 3000, 1 / 2000]
    assert (earliest.tolist(), size.tolist()) == ([0, 0, 5], [-4000, -3000, -2000])
    assert [least_size(MIXED, n) for n in range(3)] == [4000, 3000, 2000]
    assert told.mean_slots == 2.0
    assert told.deadline[:2].tolist() == [9, 4]


def test_jobs_are_neighbours_where_they_share_a_pool() -> None:
    assert [pools_of(MIXED, n) for n in range(3)] == [0b011, 0b100, 0b010]
    bench = Workbench(MIXED, [at(0, 0, 4), at(0, 4, 3), at(0, 5, 1)])
    taken = [Neighbours(MIXED).taken_out(bench, np.random.default_rng(seed)) for seed in range(40)]
    assert {tuple(sorted(each)) for each in taken} == {(0, 2), (1,)}


def test_so_many_are_taken_out_as_may_be_and_more_of_those_nearby() -> None:
    many = grid_of(*[job(str(n), ("own", 1, 1)) for n in range(60)])
    bench = Workbench(many, [at(0, n, 1) for n in range(60)])
    told = Neighbours(many)
    taken = [told.taken_out(bench, np.random.default_rng(seed)) for seed in range(200)]
    counts = [len(each) for each in taken]
    assert (min(counts), max(counts)) == (FEWEST, MOST - 1)
    assert all(len(set(each)) == len(each) for each in taken)
    apart = [max(each) - min(each) for each in taken if len(each) == 5]
    assert np.mean(apart) < 15


def test_late_jobs_are_taken_out_most_of_the_time_and_dear_ones_where_none_is_late() -> None:
    told = [job(str(n), ("own", 1, 1), deadline_s=1000 * SLOT_S) for n in range(40)]
    late = grid_of(*told[:-1], replace(told[-1], deadline_s=30 * SLOT_S))
    bench = Workbench(late, [at(0, n, 1) for n in range(40)])
    taken = [Neighbours(late).taken_out(bench, np.random.default_rng(seed)) for seed in range(100)]
    assert 65 < sum(39 in each for each in taken) < 95
    dear = grid_of(*told[:-1], job("dear", ("cloud", 1, 1)))
    paying = Workbench(dear, [at(0, n, 1) for n in range(40)])
    costly = [Neighbours(dear).taken_out(paying, np.random.default_rng(seed)) for seed in range(100)]
    assert 55 < sum(each == [39] for each in costly) < 90


def test_jobs_are_put_back_after_those_that_they_wait_for() -> None:
    chain = grid_of(
        *(job(n, ("own", 1, 1), after=before) for n, before in zip("abcd", ["c", "", "b", "a"], strict=True))
    )
    assert Neighbours(chain).after_their_own([3, 0, 2, 1]) == [1, 2, 0, 3]
    assert Neighbours(chain).after_their_own([3, 2]) == [3, 2]


def test_an_order_that_is_better_is_kept_and_any_other_undone() -> None:
    """One GPU: the heavy job first is better than the light one."""
    two = grid_of(
        job("light", ("tight", 1, 2), deadline_s=SLOT_S), job("heavy", ("tight", 1, 2), weight=5.0, deadline_s=SLOT_S)
    )
    bench = Workbench(two, [at(0, 0, 2), at(0, 2, 2)])
    before = bench.score
    assert (before, bench.score_of([0])) == (Score(1 + 5 * 3, 0, 0), Score(1, 0, 0))
    assert not bench.reorder([0, 1])
    assert (bench.score, bench.schedule) == (before, [at(0, 0, 2), at(0, 2, 2)])
    assert bench.reorder([1, 0])
    assert (bench.score, bench.schedule) == (Score(3 + 5 * 1, 0, 0), [at(0, 2, 2), at(0, 0, 2)])
    assert (bench.start.tolist(), bench.end.tolist()) == ([2, 0], [4, 2])
    assert not bench.reorder([0, 1])
    assert bench.score == Score(8, 0, 0)
    assert bench.without(1, lambda number: bench.pools[2].free[0]) == 1
    assert bench.pools[2].free[0] == 0


def test_nothing_is_moved_behind_what_waits_for_it_or_beyond_the_budget() -> None:
    waits = grid_of(job("a", ("tight", 1, 1)), job("b", ("tight", 1, 1)), job("c", ("own", 1, 1), after=("a",)))
    placed = [at(0, 0, 1), at(0, 1, 1), at(0, 1, 1)]
    bench = Workbench(waits, placed)
    assert not bench.reorder([1, 0])
    assert bench.schedule == placed
    own_or_rent = ("cloud", 1, 1), ("tight", 1, 2)
    poor = grid_of(job("a", *own_or_rent), job("b", *own_or_rent, deadline_s=SLOT_S), budget_usd=1.0)
    rented = Workbench(poor, [at(0, 0, 1), at(1, 0, 2)])
    assert (rented.rent, rented.usd.tolist()) == (1000, [1000, 0])
    assert rented.reorder([1, 0])
    assert (rented.rent, rented.score.late) == (1000, 0)
    assert rented.usd.tolist() == [0, 1000]


def test_a_search_ends_at_what_nothing_is_better_than_or_when_it_is_told() -> None:
    two = grid_of(
        job("light", ("tight", 1, 2), deadline_s=SLOT_S), job("heavy", ("tight", 1, 2), weight=5.0, deadline_s=SLOT_S)
    )
    asked: list[int] = []
    found = improved(two, [at(0, 0, 2), at(0, 2, 2)], np.random.default_rng(0), lambda n: asked.append(n) or n < 30)
    assert two.score(found) == Score(8, 0, 0)
    assert asked == list(range(31))
    done: list[int] = []
    free = grid_of(job("a", ("tight", 1, 2)))
    assert improved(free, [at(0, 0, 2)], np.random.default_rng(0), lambda n: done.append(n) or True) == [at(0, 0, 2)]
    assert done == []
