"""What every schedule keeps, and what a better question never makes worse."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from tests.properties.random_schedules import SLOT_S, random_grid
from tests.properties.schedule_checker import violations

from gpufleet.domain.schedule import DayPrices, Piece, Pool, Run, ScheduledJob, Way
from gpufleet.optimize.schedule import bound
from gpufleet.optimize.schedule.at_once import begun_sooner, edf_schedule
from gpufleet.optimize.schedule.best import best_found, in_orders_of
from gpufleet.optimize.schedule.bound import relaxed
from gpufleet.optimize.schedule.effort import Effort
from gpufleet.optimize.schedule.grid import Grid, Placement
from gpufleet.optimize.schedule.relaxations import relaxations_of
from gpufleet.optimize.schedule.search import Neighbours, Workbench, improved
from gpufleet.optimize.schedule.solver import Solved, is_installed, is_too_large, looked_up, solved, straight_pieces

needs_solver = pytest.mark.skipif(not is_installed(), reason="OR-Tools is an extra")
PLACED, SEARCHED, SOLVED, OF_LAW = 500, 60, 40, 14
WORK = Effort(400.0)


def wrong(grid: Grid, placed: list[Placement]) -> list[str]:
    return violations(grid.pools, grid.asked, grid.runs(placed), grid.budget_usd)


def bounded(grid: Grid, placed: list[Placement], effort: Effort) -> Solved:
    return solved(grid, placed, effort, grid.least._replace(late=relaxed(grid, placed, effort).late))


def placed_by_edf(grid: Grid) -> list[Placement]:
    found = edf_schedule(grid)
    assert found is not None
    return found


@pytest.mark.slow
def test_five_hundred_random_schedules_keep_gangs_windows_dependencies_capacity_and_power() -> None:
    found, asked = [], 0
    for seed in range(PLACED):
        grid = random_grid(np.random.default_rng(seed))
        if relaxations_of(grid):
            continue
        asked += 1
        found += [(seed, fault) for fault in wrong(grid, placed_by_edf(grid))]
    assert found == []
    assert asked > 0.9 * PLACED


@pytest.mark.slow
def test_a_search_keeps_them_too_and_is_never_worse() -> None:
    for seed in range(SEARCHED):
        grid = random_grid(np.random.default_rng(seed))
        if relaxations_of(grid):
            continue
        edf = placed_by_edf(grid)
        found = improved(grid, edf, np.random.default_rng(0), lambda tries: tries < 60)
        sooner = list(begun_sooner(grid, found))
        assert wrong(grid, found) == wrong(grid, sooner) == [], seed
        assert grid.score(sooner) <= grid.score(found) <= grid.score(edf)


@pytest.mark.slow
@needs_solver
def test_the_solver_keeps_them_too_and_stays_above_its_bound() -> None:
    proven = 0
    for seed in range(SOLVED):
        grid = random_grid(np.random.default_rng(seed), most_jobs=8)
        if relaxations_of(grid):
            continue
        edf = placed_by_edf(grid)
        found = bounded(grid, edf, WORK)
        assert wrong(grid, found.placed) == [], seed
        assert found.bound.late <= grid.score(found.placed).late <= grid.score(edf).late
        proven += found.is_optimal
    assert proven > SOLVED / 2


def test_a_workbench_keeps_its_books() -> None:
    grid = random_grid(np.random.default_rng(5))
    bench = Workbench(grid, placed_by_edf(grid))
    rng = np.random.default_rng(1)
    neighbours = Neighbours(grid)
    for _ in range(100):
        bench.reorder(neighbours.taken_out(bench, rng))
    assert bench.score == grid.score(bench.schedule)
    assert bench.rent == grid.rent(bench.schedule)
    assert wrong(grid, bench.schedule) == []


@needs_solver
def test_the_same_seed_and_work_give_the_same_schedule() -> None:
    def once() -> list[Placement]:
        grid = random_grid(np.random.default_rng(11))
        found = improved(grid, placed_by_edf(grid), np.random.default_rng(3), lambda tries: tries < 200)
        return bounded(grid, found, WORK).placed

    assert once() == once()


def later(grid: Grid) -> Grid:
    jobs = tuple(replace(job, deadline_s=job.deadline_s + 3 * SLOT_S) for job in grid.asked)
    return Grid(grid.pools, jobs, SLOT_S, grid.budget_usd)


def cheaper(grid: Grid) -> Grid:
    pools = tuple(replace(p, prices=replace(p.prices, usd_per_hour=tuple(u / 2 for u in p.prices.usd_per_hour)))
                  for p in grid.pools)  # fmt: skip
    return Grid(pools, grid.asked, SLOT_S, grid.budget_usd)


def wider(grid: Grid) -> Grid:
    pools = (replace(grid.pools[0], gpus=grid.pools[0].gpus + 1), *grid.pools[1:])
    return Grid(pools, grid.asked, SLOT_S, grid.budget_usd)


@pytest.mark.slow
@needs_solver
@pytest.mark.parametrize("eased", [later, cheaper, wider])
def test_a_proven_optimum_is_never_worse_for_an_easier_question(eased: Callable[[Grid], Grid]) -> None:
    compared = 0
    for seed in range(OF_LAW):
        grid = random_grid(np.random.default_rng(seed), most_jobs=6)
        if relaxations_of(grid):
            continue
        easier = eased(grid)
        hard, easy = (bounded(g, placed_by_edf(g), WORK) for g in (grid, easier))
        if hard.is_optimal and easy.is_optimal:
            compared += 1
            before, after = grid.score(hard.placed), easier.score(easy.placed)
            cents = len(grid.jobs)  # thousandths are rounded for each job
            assert (after.late, after.milli_usd - cents) <= (before.late, before.milli_usd), seed
    assert compared >= OF_LAW / 2


@needs_solver
def test_a_proven_optimum_is_that_of_all_schedules_tried() -> None:
    pools = (Pool("a", "A100", 2, watts=1.0), Pool("b", "H100", 1, "on-demand", DayPrices((2.0,)), 1.0))
    rng = np.random.default_rng(7)
    for _ in range(4):
        jobs = tuple(
            ScheduledJob(
                f"j{n}",
                (
                    Way("a", 1000 * int(rng.integers(1, 3)), float(rng.integers(1, 3)) * SLOT_S),
                    Way("b", 1000, SLOT_S * 2),
                ),
                deadline_s=float(rng.integers(1, 5)) * SLOT_S,
                weight=float(rng.integers(1, 4)),
            )
            for n in range(3)
        )
        grid = Grid(pools, jobs, SLOT_S)
        found = bounded(grid, placed_by_edf(grid), Effort(2000.0))
        assert found.is_optimal
        assert grid.score(found.placed) == min(every_score(grid))


def every_score(grid: Grid) -> list[tuple[int, ...]]:
    """The scores of all schedules that keep everything, of three jobs within six slots."""
    places = [[(w, s) for w in range(2) for s in range(6)] for _ in grid.jobs]
    found = []
    for chosen in itertools.product(*places):
        placed = [Placement(w, ((s, grid.jobs[j].ways[w].slots),)) for j, (w, s) in enumerate(chosen)]
        if not wrong(grid, placed):
            found.append(grid.score(placed))
    return found


def test_the_checker_sees_what_is_wrong() -> None:
    pool = Pool("a", "A100", 2, watts=100.0, power_cap_watts=250.0)
    job = ScheduledJob("x", (Way("a", 2000, 3600.0),), earliest_s=60.0)
    other = ScheduledJob("y", (Way("a", 1000, 3600.0),), after=("x",))
    early, beside = Run("x", 0, (Piece(0.0, 3600.0),)), Run("y", 0, (Piece(1800.0, 5000.0),))
    told = violations([pool], [job, other], [early, beside])
    assert [fault.split(" at ")[0] for fault in told] == [
        "x begins too early", "y runs 3200.0 s of 3600.0", "y begins before x is done", "a", "a",
    ]  # fmt: skip
    assert told[3:] == ["a at 1800.0: 3.0 whole, 0 shared, 0 missing of 2", "a at 1800.0: 300.0 W"]
    assert violations([pool], [job], []) == ["not every job runs once"]


@pytest.mark.slow
@needs_solver
def test_the_best_that_is_found_keeps_everything_and_is_never_worse() -> None:
    for seed in range(SOLVED):
        grid = random_grid(np.random.default_rng(seed), most_jobs=8)
        if relaxations_of(grid):
            continue
        edf = placed_by_edf(grid)
        found = best_found(grid, edf, Effort(40.0), np.random.default_rng(seed))
        assert wrong(grid, list(found.placed)) == [], seed
        assert grid.score(found.placed) <= grid.score(edf)
        assert found.bound.late <= grid.score(found.placed).late


def crowded_grid() -> Grid:
    rng = np.random.default_rng(2)
    jobs = tuple(
        ScheduledJob(
            f"j{n}", (Way("a", 1000, float(rng.integers(1, 7)) * SLOT_S),), 0.0, float(rng.integers(3, 20)) * SLOT_S
        )
        for n in range(30)
    )
    return Grid((Pool("a", "A100", 3),), jobs, SLOT_S)


@needs_solver
@pytest.mark.parametrize("few_columns", [10**6, 300])
def test_the_orders_of_the_relaxation_are_better_than_that_of_deadlines(
    monkeypatch: pytest.MonkeyPatch, few_columns: int
) -> None:
    monkeypatch.setattr(bound, "FEW_COLUMNS", few_columns)
    grid = crowded_grid()
    edf = placed_by_edf(grid)
    solve = bound.relaxed if few_columns > bound.MOST_COLUMNS else bound.roughly_relaxed
    orders = list(in_orders_of(grid, solve(grid, edf, Effort(10_000.0))))
    assert len(orders) == len(bound.SHARES_BEGUN)
    assert [wrong(grid, placed) for placed in orders] == [[]] * len(orders)
    assert min(grid.score(placed) for placed in orders) < grid.score(edf)


@pytest.mark.slow
@needs_solver
def test_the_bound_of_a_crowded_pool_is_close() -> None:
    grid = crowded_grid()
    found = improved(grid, placed_by_edf(grid), np.random.default_rng(0), lambda tries: tries < 1500)
    late = grid.score(found).late
    assert 0.8 * late < relaxed(grid, found, Effort(10_000.0)).late <= late


def test_a_question_too_large_for_the_solver_is_placed_all_the_same() -> None:
    jobs = tuple(ScheduledJob(f"j{n}", (Way("a", 1000, 3600.0),), deadline_s=3600.0 * n) for n in range(4500))
    grid = Grid((Pool("a", "A100", 8),), jobs, SLOT_S)
    assert is_too_large(grid)
    assert max(placed.end for placed in placed_by_edf(grid)) == math.ceil(4500 / 8) * 2


@needs_solver
@pytest.mark.parametrize("hours_a_price", [1, 12, 24 * 365], ids=["every hour", "day and night", "one price"])
def test_what_a_moment_costs_is_read_from_straight_pieces_as_from_the_table(hours_a_price: int) -> None:
    from ortools.sat.python import cp_model

    dice = np.random.default_rng(hours_a_price)
    by_hour = np.repeat(dice.integers(0, 900, 400 // hours_a_price + 1), hours_a_price)[:400]
    table = np.concatenate([[0], np.cumsum(by_hour)])
    for moment in (0, 1, 11, 12, 13, 200, 399, 400):
        model = cp_model.CpModel()
        found = looked_up(model, model.new_int_var(moment, moment, ""), table)
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        assert solver.solve(model) == cp_model.OPTIMAL
        assert solver.value(found) == table[moment]


@needs_solver
def test_prices_by_day_and_night_make_two_pieces_a_day_however_short_the_slots() -> None:
    by_slot = np.tile(np.repeat([400, 200], 24), 200)
    assert len(straight_pieces(np.concatenate([[0], np.cumsum(by_slot)]))) == 2 * 200 + 1
