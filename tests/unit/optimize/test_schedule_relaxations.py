"""What has to change before jobs can run: of the ways that miss the nearest, and of the changes the largest."""

from __future__ import annotations

import math

import pytest

from gpufleet.domain.reason import Reason
from gpufleet.domain.schedule import DayPrices, Pool, ScheduledJob, Way
from gpufleet.optimize.schedule.grid import Grid
from gpufleet.optimize.schedule.relaxations import circle_of, circle_relaxation, relaxations_of

OWN = Pool("own", "A100", 4, watts=400.0, power_cap_watts=1200.0)
SPOT = Pool("spot", "A100", 8, "spot", DayPrices((1.0,)), 300.0)
CLOUD = Pool("cloud", "A100", 8, "on-demand", DayPrices((3.0,)), 300.0)
HOUR_LONG = 3600.0


def changes(*jobs: ScheduledJob, budget_usd: float = math.inf) -> list[tuple[Reason, Reason]]:
    return relaxations_of(Grid((OWN, SPOT, CLOUD), jobs, 1800.0, budget_usd))


def job(name: str, *ways: tuple[str, int, float | None], can_pause: bool = True) -> ScheduledJob:
    """A job of an hour with ways of so many GPUs of a pool, each drawing so much."""
    told = tuple(Way(pool, 1000 * gpus, HOUR_LONG, watts_per_gpu=watts) for pool, gpus, watts in ways)
    return ScheduledJob(name, told, can_pause=can_pause)


def test_nothing_changes_where_each_job_has_a_way() -> None:
    assert changes(job("a", ("own", 5, None), ("own", 3, None)), job("b", ("cloud", 8, None))) == []


def test_too_few_gpus_too_little_power_and_spot_without_pauses_are_told_with_what_is_enough() -> None:
    [(why, change)] = changes(job("wide", ("own", 5, None)))
    assert why == Reason.of("schedule_gang", job="wide", gpus=5, pool="own", has=4)
    assert change == Reason.of("schedule_more_gpus", pool="own", gpus=5, has=4)
    [(why, change)] = changes(job("hot", ("own", 3, 400.1)))
    assert why == Reason.of("schedule_power", job="hot", draws_watts=1201, pool="own", watts=1200.0)
    assert change == Reason.of("schedule_more_power", pool="own", watts=1201)
    [(why, change)] = changes(job("firm", ("spot", 8, None), can_pause=False))
    assert why == Reason.of("schedule_not_on_spot", job="firm", pool="spot")
    assert change == Reason.of("schedule_preemptible", job="firm")


@pytest.mark.parametrize(
    ("own", "other", "code"),
    [
        (("own", 5, None), ("cloud", 11, None), "own"),
        (("own", 6, None), ("cloud", 11, None), "cloud"),
        (("own", 4, 310.0), ("cloud", 9, None), "own"),
        (("own", 4, 400.0), ("cloud", 9, None), "cloud"),
        (("spot", 8, None), ("own", 4, 310.0), "firm"),
    ],
)
def test_of_several_ways_the_one_that_misses_by_the_least_share_is_told(
    own: tuple[str, int, float | None], other: tuple[str, int, float | None], code: str
) -> None:
    [(_, change)] = changes(job("firm", own, other, can_pause=False))
    assert code in dict(change.figures).values()


def test_the_largest_of_the_changes_of_a_pool_is_enough_for_all_its_jobs() -> None:
    """More GPUs and more power of a pool are two changes, as are more GPUs of another."""
    found = changes(
        *(job(f"wide {n}", ("own", n, None)) for n in (6, 9, 7)),
        job("hot", ("own", 4, 350.0)),
        job("elsewhere", ("cloud", 10, None)),
        *(job(f"firm {n}", ("spot", n, None), can_pause=False) for n in (1, 2)),
    )
    assert [change for _, change in found] == [
        Reason.of("schedule_more_gpus", pool="own", gpus=9, has=4),
        Reason.of("schedule_more_power", pool="own", watts=1400),
        Reason.of("schedule_more_gpus", pool="cloud", gpus=10, has=8),
        Reason.of("schedule_preemptible", job="firm 1"),
        Reason.of("schedule_preemptible", job="firm 2"),
    ]
    assert dict(found[0][0].figures)["job"] == "wide 9"


def test_a_budget_is_told_with_the_one_that_is_enough_and_how_many_jobs_rent() -> None:
    """Two GPUs for an hour at $3, one at $1; a job that has a way on one's own GPUs takes none of it."""
    three = job("a", ("cloud", 2, None)), job("b", ("spot", 1, None)), job("c", ("cloud", 1, None), ("own", 1, None))
    assert changes(*three, budget_usd=7.0) == []
    [(why, change)] = changes(*three, budget_usd=6.99)
    assert why == Reason.of("schedule_budget", jobs=2, usd=6.99)
    assert change == Reason.of("schedule_more_budget", usd=7.0)


def test_a_circle_is_told_from_its_first_name_on_and_by_four_at_most() -> None:
    names = "bcdea"
    ring = [ScheduledJob(name, (), after=(before,)) for name, before in zip(names, names[-1] + names[:-1], strict=True)]
    circle = circle_of([*ring, ScheduledJob("0", (), after=("c",))])
    assert circle == ["a", "e", "d", "c", "b"]
    why, change = circle_relaxation(circle)
    assert why == Reason.of("schedule_circle", jobs="a after e after d after c after ... after a")
    assert change == Reason.of("schedule_cut", job="a", after="e")
    assert dict(circle_relaxation(circle[:4])[0].figures)["jobs"] == "a after e after d after c after a"
    other = [ScheduledJob("y", (), after=("z",)), ScheduledJob("z", (), after=("y",))]
    assert circle_of([*other, *ring]) == circle, "of several the one that holds the first name"
