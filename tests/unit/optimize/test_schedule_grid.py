"""Jobs and pools in slots, told by hand: what is rounded which way, what runs cost, and what nothing is better than."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from gpufleet.domain.schedule import DayPrices, Outage, Piece, Pool, ScheduledJob, Way
from gpufleet.optimize.schedule.grid import NEVER, Grid, Held, Placement, Score, SlotWay

HALF_HOUR = 1800.0
OWN = Pool("own", "A100", 4, "owned", DayPrices((0.0,)), 400.0, 1200.0, (Outage(1000.0, 4000.0, 1),))
CLOUD = Pool("cloud", "A100", 8, "on-demand", DayPrices((3.0,) * 12 + (1.0,) * 12), 300.5)
SPOT = Pool("spot", "A100", 8, "spot", DayPrices((1.0,)), 300.0)
JOB = ScheduledJob(
    "a job", (Way("own", 2000, 4000.0, 1.0), Way("cloud", 4000, 1800.0, 0.0)), 1801.0, 7199.0, 2.0, (), can_pause=False
)


def grid_of(*jobs: ScheduledJob, pools: tuple[Pool, ...] = (OWN, CLOUD), budget_usd: float = math.inf) -> Grid:
    return Grid(pools, jobs, HALF_HOUR, budget_usd)


def test_work_and_starts_are_rounded_up_and_deadlines_down() -> None:
    [job] = grid_of(JOB).jobs
    assert job.ways == (SlotWay(0, 2000, 3, 1, 800), SlotWay(1, 4000, 1, 0, 1202))
    assert (job.earliest, job.deadline, job.weight) == (2, 3, 2)
    [whole] = grid_of(replace(JOB, earliest_s=3600.0, deadline_s=7200.0)).jobs
    assert (whole.earliest, whole.deadline) == (2, 4)
    [free] = grid_of(replace(JOB, deadline_s=math.inf, weight=0.5)).jobs
    assert (free.deadline, free.weight) == (NEVER, 50)


def test_outages_are_as_long_as_the_slots_they_touch() -> None:
    grid = grid_of(JOB)
    assert grid.outages == (((0, 3, 1),), ())
    assert grid.last_fixed == 3
    assert grid_of(replace(JOB, earliest_s=9000.0)).last_fixed == 5
    held = Held(SlotWay(0, 1000, 1, 0, 0), Placement(0, ((5, 4),)))
    assert replace(grid, held=(held,)).last_fixed == 9
    assert grid_of(replace(JOB, earliest_s=0.0), pools=(replace(OWN, outages=()), CLOUD)).last_fixed == 0


def test_all_is_done_one_after_another_within_a_day_more_where_hours_differ_in_price() -> None:
    two = JOB, replace(JOB, name="another")
    assert grid_of(*two).serial_end == 3 + 2 * 4 + 48 + 1
    assert grid_of(*(replace(job, ways=job.ways[:1]) for job in two), pools=(OWN,)).serial_end == 3 + 2 * 4 + 1
    assert replace(grid_of(JOB), slot_s=7000.0).price_slots == 13


def test_a_run_costs_the_hours_that_it_is_in_and_rent_is_what_is_not_owned() -> None:
    """Four GPUs for an hour and a half around noon: half an hour at $3, an hour at $1."""
    grid = grid_of(JOB, budget_usd=9.9999)
    noon = Placement(1, ((23, 3),))
    assert grid.milli_usd(0, noon) == grid.rent_of(0, noon) == 4 * 2500
    assert grid.milli_usd(0, Placement(1, ((0, 1), (30, 1)))) == 4 * 2000
    assert grid.rent_of(0, Placement(0, ((3, 3),))) == 0
    assert grid.budget_milli_usd == 9999
    assert (grid.has_rent, grid_of(JOB, pools=(OWN, replace(CLOUD, kind="owned"))).has_rent) == (True, False)
    flat = grid_of(replace(JOB, ways=(Way("spot", 500, 1800.0, 0.0),)), pools=(SPOT,))
    assert flat.milli_usd(0, Placement(0, ((1, 2),), 0)) == 500


def test_a_schedule_is_judged_by_late_slots_by_weight_then_cost_then_energy() -> None:
    grid = grid_of(JOB, replace(JOB, name="another", weight=5.0))
    placed = [Placement(0, ((2, 3),)), Placement(1, ((2, 1),))]
    assert [grid.late(job, each) for job, each in enumerate(placed)] == [2, 0]
    assert grid.score(placed) == Score(2 * 2, 4 * 1500, 3 * 800 + 1202)
    assert grid.rent(placed) == 6000


def test_nothing_is_better_than_each_job_alone_on_its_best_way_in_its_cheapest_hours() -> None:
    assert grid_of(JOB).least == Score(0, 0, 1202)
    rented = replace(JOB, ways=JOB.ways[1:], earliest_s=5400.0, deadline_s=3600.0)
    assert grid_of(rented, rented).least == Score(2 * 2 * 2, 2 * 4 * 500, 2 * 1202)


@pytest.mark.parametrize(
    ("way", "can_pause", "is_possible"),
    [
        (Way("own", 3000, 1.0, 0.0), False, True),
        (Way("own", 4000, 1.0, 0.0), False, False),
        (Way("cloud", 8000, 1.0, 0.0), False, True),
        (Way("cloud", 9000, 1.0, 0.0), False, False),
        (Way("spot", 1000, 1.0, 0.0), True, True),
        (Way("spot", 1000, 1.0, 0.0), False, False),
    ],
    ids=["all of the power", "too much power", "all GPUs", "too many", "spot", "spot without pauses"],
)
def test_what_can_ever_run(way: Way, *, can_pause: bool, is_possible: bool) -> None:
    grid = grid_of(replace(JOB, ways=(way,), can_pause=can_pause), pools=(OWN, CLOUD, SPOT))
    assert grid.possible == ((0,) if is_possible else (),)


def test_runs_are_told_in_seconds_and_by_the_gpu_that_they_share() -> None:
    share = replace(JOB, ways=(Way("own", 500, 1.0, 0.0),))
    whole, part = grid_of(JOB, share).runs([Placement(0, ((2, 3), (7, 1))), Placement(0, ((1, 2),), 3)])
    assert (whole.pieces, whole.shared_gpu) == ((Piece(3600.0, 9000.0), Piece(12600.0, 14400.0)), None)
    assert (part.pieces, part.shared_gpu) == ((Piece(1800.0, 5400.0),), 3)
