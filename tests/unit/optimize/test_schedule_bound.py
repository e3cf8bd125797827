"""What no schedule is better than, and what the solver is asked: of jobs whose best schedule is plain."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from gpufleet.domain.schedule import DayPrices, Outage, Pool, ScheduledJob, Way
from gpufleet.optimize.schedule import bound, solver
from gpufleet.optimize.schedule.at_once import edf_schedule
from gpufleet.optimize.schedule.best import SEARCH, Found, better, placed_by, searched
from gpufleet.optimize.schedule.bound import Relaxed, columns_of, counted_jobs, relaxed, roughly_relaxed
from gpufleet.optimize.schedule.effort import Effort
from gpufleet.optimize.schedule.grid import Grid, Placement, Score, may_be_cut
from gpufleet.optimize.schedule.solver import horizon_of, is_too_large, placed_again, solved

pytestmark = pytest.mark.skipif(not solver.is_installed(), reason="OR-Tools is not installed")
SLOT_S = 3600.0
ONE = Pool("one", "A100", 1, watts=100.0)
CLOUD = Pool("cloud", "A100", 4, "on-demand", DayPrices((3.0,) * 12 + (1.0,) * 12), 100.0)
EFFORT = Effort(2000.0)


def job(name: str, *ways: tuple[str, int, float], **how: object) -> ScheduledJob:
    return ScheduledJob(name, tuple(Way(pool, 1000 * n, h * SLOT_S) for pool, n, h in ways), **how)  # type: ignore[arg-type]


def grid_of(*jobs: ScheduledJob, pools: tuple[Pool, ...] = (ONE, CLOUD), budget_usd: float = math.inf) -> Grid:
    return Grid(pools, jobs, SLOT_S, budget_usd)


def known(grid: Grid) -> list[Placement]:
    placed = edf_schedule(grid)
    assert placed is not None
    return placed


def two_hours(name: str, **how: object) -> ScheduledJob:
    return job(name, ("one", 1, 2), deadline_s=2 * SLOT_S, **how)


def test_of_jobs_that_share_a_gpu_all_but_one_are_late() -> None:
    """Three of two hours, due after two: late by 0, 2 and 4. The relaxation may begin them in parts."""
    three = grid_of(*(two_hours(name) for name in "abc"))
    found = relaxed(three, known(three), EFFORT)
    assert 3 <= found.late <= 6
    assert three.least.late == 0
    heavy = grid_of(*(two_hours(name, weight=5.0) for name in "abc"))
    assert relaxed(heavy, known(heavy), EFFORT).late == pytest.approx(5 * found.late, abs=5)
    apart = grid_of(two_hours("a"), job("b", ("cloud", 1, 2), deadline_s=2 * SLOT_S))
    assert relaxed(apart, known(apart), EFFORT).late == 0


def test_maintenance_and_power_leave_less_room() -> None:
    closed = replace(ONE, outages=(Outage(0.0, 5 * SLOT_S, 1),))
    shut = grid_of(two_hours("a"), pools=(closed,))
    assert relaxed(shut, known(shut), EFFORT).late == 5
    wide = replace(ONE, gpus=2, power_cap_watts=100.0)
    dim, bright = (
        grid_of(two_hours("a"), two_hours("b"), pools=(pool,)) for pool in (wide, replace(wide, power_cap_watts=200.0))
    )
    assert relaxed(dim, known(dim), EFFORT).late >= 1
    assert relaxed(bright, known(bright), EFFORT).late == 0


def test_no_schedule_is_better_than_the_bound_though_it_ends_later_than_the_one_that_is_known() -> None:
    """Ten hours, then a heavy job that came after one: late by 900. In the other order only the long one is, by two."""
    long = job("long", ("one", 1, 10), deadline_s=10 * SLOT_S)
    heavy = job("heavy", ("one", 1, 1), earliest_s=SLOT_S, deadline_s=2 * SLOT_S, weight=100.0)
    grid = grid_of(long, heavy)
    begun, better_one = ([Placement(0, ((at, 10),)), Placement(0, ((then, 1),))] for at, then in ((0, 10), (2, 1)))
    assert [grid.score(placed).late for placed in (begun, better_one)] == [900, 2]
    assert relaxed(grid, begun, EFFORT).late == relaxed(grid, better_one, EFFORT).late == 2


def test_starts_at_every_few_slots_keep_the_power_of_slots_that_are_no_whole_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Six slots of steps of four: the second step is half as long."""
    monkeypatch.setattr(bound, "FEW_COLUMNS", 5)
    dim = replace(ONE, gpus=2, power_cap_watts=100.0)
    three = grid_of(*(two_hours(name) for name in "abc"), pools=(dim,))
    placed = [Placement(0, ((2 * n, 2),)) for n in range(3)]
    assert all(set(begun) <= {0, 4, 6} for begun in roughly_relaxed(three, placed, EFFORT).begun)
    assert len(roughly_relaxed(three, placed, EFFORT).begun) == len(bound.SHARES_BEGUN)


def test_shares_of_jobs_begin_in_the_order_in_which_they_are_due() -> None:
    """Who is never late begins at its deadline; what weighs nothing never does."""
    first, then = job("a", ("one", 1, 4), deadline_s=8 * SLOT_S), job("b", ("one", 1, 4), deadline_s=4 * SLOT_S)
    grid = grid_of(first, then, two_hours("c", weight=0.0), job("d", ("cloud", 1, 1), deadline_s=99 * SLOT_S))
    placed = [Placement(0, ((4, 4),)), Placement(0, ((0, 4),)), Placement(0, ((8, 2),)), Placement(0, ((0, 1),))]
    assert counted_jobs(grid, 10) == [0, 1]
    assert columns_of(grid, 10) == 20
    found = relaxed(grid, placed, EFFORT)
    assert (found.late, len(found.begun)) == (0, 5)
    assert all(begun[1] == 0 and begun[0] <= 4 and begun[3] == 99 and begun[2] > 1e9 for begun in found.begun)


def test_a_question_that_is_too_large_is_bounded_by_each_job_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    three = grid_of(*(two_hours(name) for name in "abc"))
    assert columns_of(three, 6) == 18
    monkeypatch.setattr(bound, "MOST_COLUMNS", 18)
    assert relaxed(three, known(three), EFFORT).late > 0
    monkeypatch.setattr(bound, "MOST_COLUMNS", 17)
    assert relaxed(three, known(three), EFFORT) == Relaxed(0)
    assert relaxed(three, known(three), replace(EFFORT, steps=0.0)) == Relaxed(0)


@pytest.mark.parametrize(("columns", "is_rough"), [(18, False), (9, True), (1, True)])
def test_starts_at_every_few_slots_tell_an_order_and_no_bound(
    monkeypatch: pytest.MonkeyPatch, columns: int, is_rough: bool
) -> None:
    monkeypatch.setattr(bound, "FEW_COLUMNS", columns)
    three = grid_of(*(two_hours(name) for name in "abc"))
    found = roughly_relaxed(three, known(three), EFFORT)
    assert (found.late, bool(found.begun)) == (0, is_rough)


def test_the_solver_puts_jobs_where_hours_are_cheap_and_proves_it() -> None:
    late = grid_of(job("a", ("cloud", 2, 3)), job("b", ("cloud", 2, 2), after=("a",)))
    begun = [Placement(0, ((0, 3),)), Placement(0, ((3, 2),))]
    found = solved(late, begun, Effort(4000.0), late.least)
    assert found.is_optimal
    assert late.score(found.placed) == found.bound == Score(0, 2 * 3000 + 2 * 2000, 200 * 3 + 200 * 2)
    assert found.placed[1].start >= found.placed[0].end


@pytest.mark.parametrize(("restart_h", "usd"), [(0, 3), (1, 7)])
def test_the_solver_pauses_a_job_over_dear_hours_where_a_restart_costs_less(restart_h: int, usd: int) -> None:
    """Three hours of seven that cost $1, 1, 5, 5, 1, 5, 5: $7 in one piece, or $8 in two with a restart."""
    hours = DayPrices((1.0, 1.0, 5.0, 5.0, 1.0) + (5.0,) * 19)
    work = (Way("cloud", 1000, 3 * SLOT_S, restart_s=restart_h * SLOT_S),)
    asked = ScheduledJob("a", work, deadline_s=7 * SLOT_S, can_pause=True)
    grid = grid_of(asked, pools=(replace(CLOUD, prices=hours),))
    found = solved(grid, [Placement(0, ((0, 3),))], Effort(4000.0), grid.least)
    assert found.is_optimal
    assert grid.score(found.placed)[:2] == found.bound[:2] == (0, 1000 * usd)
    assert grid.least.milli_usd <= 1000 * usd


def test_the_solver_keeps_the_budget_and_what_it_is_given_where_it_finds_nothing_better() -> None:
    either = job("a", ("cloud", 1, 1), ("one", 1, 4), deadline_s=SLOT_S)
    rich, poor = (grid_of(either, budget_usd=usd) for usd in (3.0, 2.99))
    for grid, late in ((rich, 0), (poor, 3)):
        found = solved(grid, [Placement(1, ((0, 4),))], Effort(4000.0), grid.least)
        assert grid.score(found.placed).late == late
    both = grid_of(either, replace(either, name="b"), budget_usd=3.0)
    one_rents = solved(both, [Placement(1, ((0, 4),)), Placement(1, ((4, 4),))], Effort(4000.0), both.least)
    assert both.score(one_rents.placed)[:2] == (3, 3000), "the budget is enough for one of them"
    own = grid_of(job("a", ("one", 1, 1)))
    assert solved(own, [Placement(0, ((0, 1),))], EFFORT, own.least).placed == [Placement(0, ((0, 1),))]


def test_a_model_is_as_long_as_twice_what_is_known_and_as_large_as_pays() -> None:
    grid = grid_of(job("a", ("one", 1, 5)), job("b", ("one", 1, 50)))
    flat = grid_of(*grid.asked, pools=(ONE,))
    assert horizon_of(flat, [Placement(0, ((0, 5),)), Placement(0, ((5, 3),))]) == 16
    assert horizon_of(grid, [Placement(0, ((0, 5),)), Placement(0, ((5, 3),))]) == 16 + 24
    assert horizon_of(flat, [Placement(0, ((0, 5),)), Placement(0, ((5, 50),))]) == flat.serial_end
    later = grid_of(replace(grid.asked[0], earliest_s=20 * SLOT_S), pools=(ONE,))
    assert horizon_of(later, [Placement(0, ((2, 5),))]) == min(later.serial_end, 20 + 7)
    assert not is_too_large(grid)


def test_what_may_be_cut_has_two_pieces_that_each_do_some_work() -> None:
    pauses, stays = (replace(job("a", ("one", 1, 3)), can_pause=can) for can in (True, False))
    rows = [(pauses, 3, 1, True), (pauses, 3, 2, False), (pauses, 2, 0, True), (pauses, 1, 0, False)]
    for asked, slots, restart, may in [*rows, (stays, 3, 1, False)]:
        [told] = grid_of(asked).jobs
        assert may_be_cut(told, told.ways[0]._replace(slots=slots, restart=restart)) == may
    share = replace(pauses, ways=(Way("one", 500, 3 * SLOT_S),))
    [told] = grid_of(share).jobs
    assert not may_be_cut(told, told.ways[0])


def test_runs_are_placed_again_where_they_were_and_not_beyond_the_budget() -> None:
    grid = grid_of(job("a", ("cloud", 1, 2)), budget_usd=6.0)
    assert placed_again(grid, [Placement(0, ((0, 2),))]) == [Placement(0, ((0, 2),))]
    assert placed_again(grid_of(*grid.asked, budget_usd=5.9), [Placement(0, ((0, 2),))]) is None


def test_of_several_schedules_the_best_is_kept_where_it_is_better() -> None:
    grid = grid_of(two_hours("a"), two_hours("b"))
    first, same = ([Placement(0, ((2 * (n != m), 2),)) for n in range(2)] for m in range(2))
    worse = [Placement(0, ((0, 2),)), Placement(0, ((9, 2),))]
    found = Found(worse, Score(2, 0, 0))
    assert better(grid, found, SEARCH, [worse, first]) == Found(first, Score(2, 0, 0), SEARCH)
    assert better(grid, found, SEARCH, [worse]) is better(grid, found, SEARCH, []) is found
    assert better(grid, Found(first, found.bound), SEARCH, [same]).placed is first
    done = searched(grid, Found(first, Score(2, 0, 400)), Effort(1.0), np.random.default_rng(0))
    assert done.is_optimal
    assert not searched(grid, Found(first, Score(1, 0, 400)), Effort(1.0), np.random.default_rng(0)).is_optimal


def test_jobs_are_placed_by_rank_or_by_that_of_what_waits_for_them() -> None:
    grid = grid_of(job("a", ("one", 1, 1)), job("b", ("one", 1, 1)), job("c", ("one", 1, 1), after=("b",)))
    [placed] = placed_by(grid, [2.0, 3.0, 1.0])
    assert [p.start for p in placed] == [2, 0, 1]
    poor = grid_of(job("a", ("cloud", 4, 1)), budget_usd=0.5)
    assert list(placed_by(poor, [1.0])) == []
