"""Why a job runs now and why there, told of schedules that are written down."""

from __future__ import annotations

import math
from dataclasses import replace

from gpufleet.domain.reason import Reason
from gpufleet.domain.schedule import DayPrices, Outage, Pool, ScheduledJob, Way
from gpufleet.optimize.schedule.grid import Grid, Placement
from gpufleet.optimize.schedule.reasons import reasons_of
from gpufleet.optimize.schedule.search import Workbench

SLOT_S = 3600.0
OWN = Pool("own", "A100", 4, watts=400.0)
NIGHTS = Pool("nights", "A100", 4, "on-demand", DayPrices((1.0,) * 6 + (3.0,) * 18), 300.0)


def job(name: str, *ways: tuple[str, int, float], after: tuple[str, ...] = (), **how: float) -> ScheduledJob:
    """Ways of so many GPUs of a pool for so many hours."""
    return ScheduledJob(name, tuple(Way(pool, 1000 * n, h * SLOT_S) for pool, n, h in ways), after=after, **how)


def told(
    placed: list[tuple[int, int, int]],
    *jobs: ScheduledJob,
    pools: tuple[Pool, ...] = (OWN, NIGHTS),
    budget_usd: float = math.inf,
) -> list[tuple[Reason, Reason]]:
    """The reasons of jobs that were placed: way, first slot and number of slots of each."""
    grid = Grid(pools, jobs, SLOT_S, budget_usd)
    return reasons_of(grid, Workbench(grid, [Placement(way, ((start, slots),)) for way, start, slots in placed]))


def nows(*words: object, **how: object) -> list[Reason]:
    return [now for now, _ in told(*words, **how)]  # type: ignore[arg-type]


def there(*words: object, **how: object) -> Reason:
    """Why the first job runs where it does."""
    return told(*words, **how)[0][1]  # type: ignore[arg-type]


def test_jobs_begin_as_soon_as_they_are_there_or_when_what_they_wait_for_ends() -> None:
    jobs = (
        job("a", ("own", 1, 2)),
        job("b", ("own", 1, 1), after=("a",)),
        job("c", ("own", 1, 1), earliest_s=3 * SLOT_S),
    )
    assert nows([(0, 0, 2), (0, 2, 1), (0, 3, 1)], *jobs) == [
        Reason.of("schedule_at_once"),
        Reason.of("schedule_after", job="a"),
        Reason.of("schedule_at_once"),
    ]


def test_a_job_that_waits_for_gpus_names_three_of_those_whose_it_takes() -> None:
    """It would not fit an hour sooner; who ends at another time or elsewhere is not named."""
    ones = [job(name, ("own", 1, 2)) for name in "abcd"]
    assert nows([*[(0, 0, 2)] * 4, (0, 2, 1)], *ones, job("wide", ("own", 4, 1)))[-1] == Reason.of(
        "schedule_waits", jobs="a, b, c and 1 more", pool="own"
    )
    beside = job("short", ("own", 1, 1)), job("elsewhere", ("nights", 4, 2))
    assert nows([*[(0, 0, 2)] * 3, (0, 0, 1), (0, 0, 2), (0, 2, 1)], *ones[:3], *beside, job("wide", ("own", 4, 1)))[
        -1
    ] == Reason.of("schedule_waits", jobs="a, b, c", pool="own")


def test_a_job_waits_for_the_end_of_maintenance_or_for_a_gap_that_is_long_enough() -> None:
    closed = replace(OWN, outages=(Outage(0.0, 2 * SLOT_S, 1), Outage(9 * SLOT_S, 10 * SLOT_S, 1)))
    assert nows([(0, 2, 1)], job("wide", ("own", 4, 1)), pools=(closed,)) == [
        Reason.of("schedule_maintenance", pool="own")
    ]
    later = replace(OWN, outages=(Outage(3 * SLOT_S, 4 * SLOT_S, 1),))
    [now] = nows([(0, 4, 3)], job("wide", ("own", 4, 3)), pools=(later,))
    assert now == Reason.of("schedule_maintenance", pool="own")
    [now] = nows([(0, 5, 3)], job("wide", ("own", 4, 3)), pools=(later,))
    assert now == Reason.of("schedule_in_time_anyway"), "it would fit an hour sooner"


def test_a_job_for_which_there_is_room_sooner_waits_for_a_cheaper_hour_or_is_in_time_anyway() -> None:
    assert nows([(0, 24, 1)], job("cheap", ("nights", 1, 1))) == [Reason.of("schedule_cheaper_hour")]
    assert nows([(0, 1, 1)], job("lazy", ("own", 1, 1))) == [Reason.of("schedule_in_time_anyway")]


def test_a_share_waits_for_no_gpu_where_one_of_several_has_room() -> None:
    """Four fifths of the first GPU are taken, nothing of the second."""
    shares = [ScheduledJob(name, (Way("own", milli, 3 * SLOT_S),)) for name, milli in (("most", 800), ("half", 500))]
    for gpus, code in ((2, "schedule_in_time_anyway"), (1, "schedule_waits")):
        grid = Grid((replace(OWN, gpus=gpus),), shares, SLOT_S)
        placed = [Placement(0, ((0, 3),), 0), Placement(0, ((1 if gpus > 1 else 3, 3),), gpus - 1)]
        assert reasons_of(grid, Workbench(grid, placed))[1][0].code == code


def test_of_one_way_nothing_is_compared() -> None:
    assert there([(0, 0, 1)], job("a", ("own", 1, 1))) == Reason.of("schedule_only_way")
    wide = job("a", ("own", 1, 1), ("own", 5, 1))
    assert there([(0, 0, 1)], wide) == Reason.of("schedule_only_way"), "no pool holds the other"


def test_what_is_better_here_is_told_in_the_order_in_which_schedules_are_judged() -> None:
    """Late, then dearer, then more energy, then later, then only more GPUs."""
    two = ("own", 1, 2), ("nights", 4, 4)
    assert there([(0, 0, 2)], job("a", *two, deadline_s=2 * SLOT_S)) == Reason.of(
        "schedule_others_late", pool="nights", gpus=4.0, hours_s=2 * SLOT_S
    )
    assert there([(0, 0, 2)], job("a", *two)) == Reason.of("schedule_costs_less", pool="nights", gpus=4.0, usd=16.0)
    assert there([(0, 0, 2)], job("a", ("own", 1, 2), ("own", 2, 2))) == Reason.of(
        "schedule_less_energy", pool="own", gpus=2.0
    )
    assert there([(1, 0, 1)], job("a", ("own", 1, 2), ("own", 2, 1))) == Reason.of(
        "schedule_sooner", pool="own", gpus=1.0, hours_s=SLOT_S
    )
    assert there([(0, 0, 1)], job("a", ("own", 1, 1), ("own", 1, 1))) == Reason.of(
        "schedule_leaves_room", pool="own", gpus=1.0
    )


def test_the_other_way_waits_for_what_the_job_waits_for_and_pays_from_what_is_left() -> None:
    """$5 of 6 are spent: three for the job itself, which it would have for another way, two for the other job."""
    other = job("b", ("nights", 2, 1))
    first = job("a", ("nights", 3, 1), ("nights", 4, 1))
    assert there([(0, 0, 1), (0, 0, 1)], first, other, budget_usd=6.0) == Reason.of(
        "schedule_costs_less", pool="nights", gpus=4.0, usd=1.0
    )
    assert there([(0, 0, 1), (0, 0, 1)], first, other, budget_usd=5.0) == Reason.of("schedule_no_budget")
    last = job("z", ("own", 1, 1), ("own", 2, 2), after=("b",))
    assert told([(0, 5, 1), (0, 6, 1)], other, last)[1][1] == Reason.of("schedule_less_energy", pool="own", gpus=2.0)
    soon = replace(last, deadline_s=7 * SLOT_S)
    assert told([(0, 5, 1), (0, 6, 1)], other, soon)[1][1] == Reason.of(
        "schedule_others_late", pool="own", gpus=2.0, hours_s=SLOT_S
    )
