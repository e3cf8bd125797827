"""A queue at a moment as a question of a schedule: what is left, what stays, what is due, who is asked."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gpufleet.domain.schedule import DayPrices, Outage, Pool, ScheduledJob, Way
from gpufleet.optimize.schedule import replanning
from gpufleet.optimize.schedule.grid import Held, Placement, SlotWay
from gpufleet.optimize.schedule.replanning import Replanned, Replanning, pool_from, work_over_weight
from gpufleet.simulate.job_queue import JobQueue, Selection

H = 3600.0
POOLS = (
    Pool("own", "L4", 3, outages=(Outage(0.0, 1.5 * H, 1), Outage(0.5 * H, H, 1), Outage(5 * H, 6 * H, 2))),
    Pool("cloud", "L4", 4, "on-demand", DayPrices((2.0,) * 3 + (1.0,) * 21)),
)


def job(name: str, hours: float, gpus: float = 1.0, pool: str = "own", **how: object) -> ScheduledJob:
    return ScheduledJob(name, (Way(pool, round(1000 * gpus), hours * H, H / 4),), **how)  # type: ignore[arg-type]


def queue_at(hours: float, *jobs: ScheduledJob, begun: tuple[int, ...] = ()) -> JobQueue:
    """A queue in which some jobs began at once."""
    queue = JobQueue(POOLS, jobs, [1.0] * len(jobs), 0.0, True)
    queue.go_on_to(0.0)
    selection = Selection(queue)
    assert all(selection.start(one) for one in begun)
    queue.take_up(selection)
    queue.go_on_to(hours * H)
    return queue


def ours(has_deadlines: bool = True, slot_s: float = H / 2) -> Replanning:
    return Replanning(slot_s, 5, np.random.default_rng(0), has_deadlines)


def test_pools_go_on_from_now_and_maintenance_that_is_over_is_forgotten() -> None:
    own, cloud = (pool_from(pool, H) for pool in POOLS)
    assert own.outages == (Outage(0.0, H / 2, 1), Outage(4 * H, 5 * H, 2))
    assert cloud.prices == DayPrices(POOLS[1].prices.usd_per_hour, H)


def test_what_is_left_of_jobs_is_asked_after_those_at_work_and_before_what_is_left_of_their_time() -> None:
    jobs = (
        job("runs", 4),
        job("next", 2, deadline_s=9 * H, after=("runs", "waits")),
        job("waits", 1, deadline_s=5 * H),
    )
    queue = queue_at(1, *jobs, begun=(0,))
    grid = ours().grid_of(queue, [1, 2], list(queue.running.values()))
    following, waits = grid.asked
    assert (following.earliest_s, following.deadline_s, following.after) == (3 * H, 8 * H, ("waits",))
    assert (waits.earliest_s, waits.deadline_s, waits.after) == (0.0, 4 * H, ())
    assert following.ways[0].work_s == 2 * H
    assert grid.held == (Held(SlotWay(0, 1000, 8, 1, 0), Placement(0, ((0, 6),), -1)),)


def test_a_run_that_stays_keeps_its_shared_gpu_and_a_slot_at_least() -> None:
    queue = queue_at(0.99, job("a", 1, 0.5, "cloud"), job("b", 4, 0.75, "cloud"), begun=(0, 1))
    whole = queue_at(0.99, job("a", 1), begun=(0,))
    policy = ours()
    pieces = [policy.held_of(queue, policy.grid_of(queue, [], []), hold).placed for hold in queue.running.values()]
    assert pieces == [Placement(0, ((0, 1),), 0), Placement(0, ((0, 7),), 1)]
    [hold] = whole.running.values()
    assert policy.held_of(whole, policy.grid_of(whole, [], []), hold).placed.lane == -1


def test_a_job_at_work_is_planned_as_if_it_paused_and_none_for_less_than_a_slot() -> None:
    queue = queue_at(1, job("runs", 4, can_pause=True), job("waits", 2), job("short", 0.1), begun=(0,))
    assert [ours().way_left(queue, n, 0).work_s / H for n in range(3)] == [3.25, 2.0, 0.5]


def test_late_is_what_a_run_ends_after_it_is_due_in_whole_slots_by_weight() -> None:
    due = {"on time": 4.0, "a moment": 3.9, "an hour and a moment": 2.9}
    late = {}
    for name, hours in due.items():
        queue = queue_at(1, job(name, 4, weight=3.0, deadline_s=hours * H), begun=(0,))
        late[name] = ours().late_of(queue, queue.running[0])
    assert late == {"on time": 0.0, "a moment": 3.0, "an hour and a moment": 9.0}
    free = queue_at(1, job("free", 4), begun=(0,))
    assert ours().late_of(free, free.running[0]) == 0.0


def test_without_deadlines_a_job_is_due_when_it_could_be_done_first() -> None:
    two = ScheduledJob("two", (Way("own", 1000, 3 * H), Way("cloud", 1000, 2 * H)), H, 9 * H)
    queue = queue_at(1, two)
    assert (ours().due_s(queue, 0), ours(has_deadlines=False).due_s(queue, 0)) == (9 * H, 3 * H)


def test_of_many_jobs_half_are_looked_at_by_deadline_and_half_by_weight_over_work() -> None:
    """Five of seven: three that are due first, two of most weight for their work."""
    weights, hours = (1, 1, 1, 8, 2, 0, 1), (1, 1, 1, 4, 2, 1, 3)
    due = (9, 1, 8, 7, 6, 2, 3)
    jobs = [
        job(str(n), h, weight=float(w), deadline_s=d * H)
        for n, (w, h, d) in enumerate(zip(weights, hours, due, strict=True))
    ]
    queue = queue_at(0, *jobs)
    assert ours().some_of(queue, queue.waiting, 5) == [0, 1, 3, 5, 6]
    assert ours().some_of(queue, queue.waiting[::-1], 7) == list(range(7))
    assert [work_over_weight(queue, n) / H for n in (3, 4, 5)] == [0.5, 1.0, math.inf]
    assert work_over_weight(queue_at(0, job("wide", 2, 3.0, weight=4.0)), 0) == 1.5 * H


def test_jobs_that_wait_for_others_are_looked_at_where_all_of_those_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replanning, "MOST_PLANNED", 3)
    chain = (
        job("a", 1, deadline_s=3 * H),
        job("b", 1, after=("a",), deadline_s=4 * H),
        job("c", 1, after=("b", "left out"), deadline_s=5 * H),
        job("left out", 1, after=("a",), weight=0.0),
        job("d", 1, after=("c",), weight=9.0, deadline_s=99 * H),
    )
    queue = queue_at(0, *chain)
    assert ours().looked_at(queue, frozenset()) == [0, 1], "of b and d the second waits for one that is left out"
    running = queue_at(0.5, *chain[:2], begun=(0,))
    assert ours().looked_at(running, frozenset()) == [1]
    assert ours().looked_at(running, frozenset({0})) == [1, 0]


def test_a_plan_wakes_when_a_job_is_to_begin_in_a_cheaper_hour_or_to_pause() -> None:
    waits, runs = job("waits", 2, pool="cloud"), job("runs", 4, can_pause=True)
    queue = queue_at(1, waits, runs, job("later", 1))
    policy = ours()
    grid = policy.grid_of(queue, [0, 1, 2], [])

    def woken(*placed: Placement) -> tuple[set[int], float]:
        selection = policy.begun(queue, Replanned(grid, [0, 1, 2], placed, 0.0))
        return set(selection.holds), selection.wake_s / H

    night, whole, last = Placement(0, ((4, 4),)), Placement(0, ((0, 8),)), Placement(0, ((9, 2),))
    cut = Placement(0, ((0, 3), (7, 5)))
    assert woken(night, whole, last) == ({1}, 3.0)
    assert policy.last_start_s == {0: 3 * H, 1: H, 2: 5.5 * H}
    assert woken(night, cut, last) == ({1}, 2.5)
    assert woken(Placement(0, ((0, 4),)), whole, last) == ({0, 1}, math.inf)


def test_what_runs_is_late_too_and_pauses_where_that_makes_less_late() -> None:
    """The plan without pauses counts what stays; weights count as they were told."""
    jobs = (
        job("long", 6, 2.0, can_pause=True, deadline_s=5.5 * H, weight=2.0),
        job("urgent", 1, 2.0, deadline_s=2 * H, weight=1.5),
    )
    queue = queue_at(0.0, *jobs, begun=(0,))
    stay = ours().planned(queue, frozenset())
    assert stay.late == pytest.approx(2.0 * 1 + 1.5 * (7 - 2) * 2)
    assert [p.start for p in stay.placed] == [12]
    moved = ours().planned(queue, frozenset({0}))
    assert list(moved.numbers) == [1, 0]
    assert moved.grid.held == ()
