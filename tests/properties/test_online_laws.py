"""What every replay of a queue keeps, and what each policy promises."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from tests.properties.random_schedules import SLOT_S, random_grid
from tests.properties.schedule_checker import violations

from gpufleet.answers.online_schedule import outcome_of, ranked
from gpufleet.domain.schedule import DayPrices, Outage, Piece, Pool, Run, ScheduledJob, Way
from gpufleet.optimize.schedule.measures import jain_index
from gpufleet.optimize.schedule.online import (
    Backfill,
    FirstInFirstOut,
    LeastAttained,
    earliest_deadline_first,
    shortest_first,
)
from gpufleet.optimize.schedule.relaxations import relaxations_of
from gpufleet.optimize.schedule.replanning import Replanning
from gpufleet.results.schedule import PolicyOutcome
from gpufleet.simulate.job_queue import JobQueue, QueuePolicy, Selection, replay_queue

H = 3600.0
INSTANCES, MOST_PIECES = 200, 1000
BASELINES: dict[str, Callable[[], QueuePolicy]] = {
    "fifo": FirstInFirstOut,
    "sjf": shortest_first,
    "edf": earliest_deadline_first,
    "las": lambda: LeastAttained((3250.0,)),
    "backfill": Backfill,
}


def ours(steps: int = 15, has_deadlines: bool = True) -> QueuePolicy:
    return Replanning(SLOT_S, steps, np.random.default_rng(0), has_deadlines)


def replayed(
    pools: Sequence[Pool],
    jobs: Sequence[ScheduledJob],
    policy: QueuePolicy,
    took: Sequence[float] | None = None,
    spread: float = 0.0,
    burst: bool = False,
) -> list[Run]:
    ratios = [1.0] * len(jobs) if took is None else took
    return replay_queue(JobQueue(pools, jobs, ratios, spread, burst), policy)


def told(jobs: Sequence[ScheduledJob], runs: Sequence[Run], gpus: int = 1, policy: str = "") -> PolicyOutcome:
    return outcome_of(policy, [Pool("a", "L4", gpus)], jobs, [1.0] * len(jobs), runs)


def job(
    name: str, hours: float, gpus: float = 1, at: float = 0.0, due: float = math.inf, **more: object
) -> ScheduledJob:
    way = Way("a", round(gpus * 1000), hours * H, 0.25 * H)
    return ScheduledJob(name, (way,), at * H, due * H, **more)  # type: ignore[arg-type]


def starts(runs: Sequence[Run]) -> dict[str, float]:
    return {run.job: run.start_s / H for run in runs}


@pytest.mark.slow
@pytest.mark.parametrize("name", [*BASELINES, "ours"])
def test_two_hundred_random_replays_keep_gangs_windows_dependencies_capacity_and_power(name: str) -> None:
    found, asked = [], 0
    for seed in range(INSTANCES if name != "ours" else INSTANCES // 4):
        rng = np.random.default_rng(seed)
        grid = random_grid(rng)
        if relaxations_of(grid):
            continue
        asked += 1
        spread = float(rng.choice([0.0, 0.3]))
        took = rng.uniform(1 - spread, 1 + spread, len(grid.asked)).tolist()
        policy = ours() if name == "ours" else BASELINES[name]()
        runs = replayed(grid.pools, grid.asked, policy, took, spread, burst=bool(seed % 2))
        actual = [
            replace(job, ways=tuple(replace(way, work_s=way.work_s * ratio) for way in job.ways))
            for job, ratio in zip(grid.asked, took, strict=True)
        ]
        found += [(seed, fault) for fault in violations(grid.pools, actual, runs, most_pieces=MOST_PIECES)]
    assert found == []
    assert asked > 0.9 * (INSTANCES if name != "ours" else INSTANCES // 4)


@pytest.mark.slow
def test_shortest_first_has_the_least_mean_completion_where_all_are_there_on_one_gpu() -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        jobs = [job(f"j{n}", float(h), can_pause=n % 2 == 0) for n, h in enumerate(rng.integers(1, 9, 7))]
        pool = [Pool("a", "L4", 1)]
        means = {
            name: told(jobs, replayed(pool, jobs, make())).mean_completion_s
            for name, make in {**BASELINES, "ours": lambda: ours(40, has_deadlines=False)}.items()
        }
        assert means["sjf"] == pytest.approx(min(means.values())), (seed, means)


def test_first_in_first_out_begins_in_the_order_of_arrival() -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        jobs = [job(f"j{n}", *rng.integers(1, 5, 2).tolist(), at=float(rng.integers(0, 9))) for n in range(12)]
        runs = replayed([Pool("a", "L4", 4)], jobs, FirstInFirstOut())
        arrived = sorted(range(12), key=lambda n: (jobs[n].earliest_s, n))
        begun = [runs[n].start_s for n in arrived]
        assert begun == sorted(begun)


class Watched:
    """Backfill, and what it could have begun beside without putting off the first that waits."""

    def __init__(self) -> None:
        self.missed = 0

    def choose(self, queue: JobQueue) -> Selection:
        selection = Backfill().choose(queue)
        left = [j for j in queue.waiting if j not in selection.holds]
        free = queue.pools[0].gpus - sum(queue.jobs[j].ways[0].gpus for j in selection.holds)
        ends = sorted((hold.expected_end_s, queue.jobs[hold.job].ways[0].gpus) for hold in selection.holds.values())
        if left:
            wants, room, from_s = queue.jobs[left[0]].ways[0].gpus, free, queue.now_s
            for end_s, gpus in ends:
                if room < wants:
                    room, from_s = room + gpus, end_s
            for j in left[1:]:
                way = queue.jobs[j].ways[0]
                self.missed += way.gpus <= free and queue.now_s + way.work_s < from_s
        self.missed += bool(left) and queue.jobs[left[0]].ways[0].gpus <= free
        return selection


def test_no_gpu_idles_while_a_job_waits_that_backfill_may_begin() -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        jobs = [job(f"j{n}", *rng.integers(1, 6, 2).tolist(), at=float(rng.integers(0, 9))) for n in range(20)]
        watched = Watched()
        replayed([Pool("a", "L4", 5)], jobs, watched)
        assert watched.missed == 0, seed


def test_backfill_fills_a_hole_that_does_not_put_off_the_first_that_waits() -> None:
    pool = [Pool("a", "L4", 4)]
    jobs = [job("long", 4, 3), job("wide", 2, 4, at=1), job("short", 3, 1, at=1), job("slow", 4, 1, at=1)]
    assert starts(replayed(pool, jobs, Backfill())) == {"long": 0, "wide": 4, "short": 1, "slow": 6}
    assert starts(replayed(pool, jobs, FirstInFirstOut())) == {"long": 0, "wide": 4, "short": 6, "slow": 6}


def test_least_attained_service_lets_those_pause_who_had_more() -> None:
    jobs = [job("old", 3, can_pause=True), job("new", 0.5, at=1.0, can_pause=True)]
    old, new = replayed([Pool("a", "L4", 1)], jobs, LeastAttained((H,)))
    assert [(piece.start_s / H, piece.end_s / H) for piece in old.pieces] == [(0, 1), (1.5, 3.75)]  # restart: 0.25 h
    assert new.pieces == (Piece(H, 1.5 * H),)
    kept, _ = replayed([Pool("a", "L4", 1)], [replace(jobs[0], can_pause=False), jobs[1]], LeastAttained((H,)))
    assert len(kept.pieces) == 1


def test_ours_looks_ahead_where_the_earliest_deadline_is_late() -> None:
    jobs = [job("wide", 2, 2, due=3), job("a", 2, 1, due=2.5), job("b", 1, 1, due=6, weight=0.5)]
    pool = [Pool("a", "L4", 2)]
    late = {
        name: told(jobs, replayed(pool, jobs, policy), 2).late_weighted_hours
        for name, policy in (("edf", earliest_deadline_first()), ("ours", ours(50)))
    }
    assert late["ours"] <= late["edf"]
    # nobody can have both 'wide' and 'a' in time: 1.0 late hours is the least
    assert late["ours"] == pytest.approx(1.0)


def test_ours_pauses_a_job_where_another_would_be_late() -> None:
    jobs = [job("long", 6, due=12, can_pause=True), job("urgent", 1, at=1, due=2.5)]
    long, urgent = replayed([Pool("a", "L4", 1)], jobs, ours())
    assert (urgent.start_s, len(long.pieces), long.end_s) == (H, 2, 7.25 * H)


def test_maintenance_makes_those_pause_that_may_and_others_wait_for_its_end() -> None:
    pool = [Pool("a", "L4", 1, outages=(Outage(2 * H, 3 * H, 1),))]
    [pauses] = replayed(pool, [job("p", 3, can_pause=True)], FirstInFirstOut())
    assert [(p.start_s / H, p.end_s / H) for p in pauses.pieces] == [(0, 2), (3, 4.25)]
    assert starts(replayed(pool, [job("w", 3)], FirstInFirstOut())) == {"w": 3}
    assert starts(replayed(pool, [job("w", 1.9)], FirstInFirstOut(), [0.9], spread=0.2)) == {"w": 3}  # at its longest


def test_a_job_bursts_when_waiting_longer_would_make_it_late() -> None:
    pools = [Pool("a", "L4", 1), Pool("cloud", "L4", 1, "on-demand", DayPrices((2.0,)))]
    waits = replace(job("waits", 1, due=4), ways=(Way("a", 1000, H), Way("cloud", 1000, H)))
    runs = replayed(pools, [job("long", 9), waits], FirstInFirstOut(), burst=True)
    assert (runs[1].way, runs[1].start_s) == (1, 3 * H)
    assert starts(replayed(pools, [job("long", 9), waits], FirstInFirstOut())) == {"long": 0, "waits": 9}
    assert outcome_of("fifo", pools, [job("long", 9), waits], [1.0, 1.0], runs).usd == pytest.approx(2.0)


@pytest.mark.slow
def test_first_in_first_out_on_one_gpu_waits_as_long_as_m_m_1() -> None:
    """Mean wait = rho / (mu - lambda) (Kleinrock 1975, Queueing Systems I, 3.2); each wait as Lindley's recursion."""
    load, mean_s, count = 0.4, 100.0, 20_000
    rng = np.random.default_rng(4)
    arrivals, works = np.cumsum(rng.exponential(mean_s / load, count)), rng.exponential(mean_s, count)
    jobs = [
        ScheduledJob(f"j{n}", (Way("a", 1000, float(w)),), float(at))
        for n, (at, w) in enumerate(zip(arrivals, works, strict=True))
    ]
    runs = replayed([Pool("a", "L4", 1)], jobs, FirstInFirstOut())
    waits = [run.start_s - at for run, at in zip(runs, arrivals, strict=True)]
    for n in range(1, 1000):
        assert waits[n] == pytest.approx(
            max(waits[n - 1] + works[n - 1] - (arrivals[n] - arrivals[n - 1]), 0), abs=1e-3
        )
    assert np.mean(waits) == pytest.approx(load * mean_s / (1 - load), rel=0.03)


def test_figures_of_a_policy_by_hand() -> None:
    jobs = [job("a", 2, user="ann", due=1), job("b", 1, user="ben", weight=3, due=2.5), job("c", 1, at=3, user="ann")]
    found = told(jobs, replayed([Pool("a", "L4", 1)], jobs, FirstInFirstOut()))
    assert found.mean_completion_s == pytest.approx((2 + 3 + 1) / 3 * H)
    assert (found.late_jobs, found.late_weighted_hours) == (2, pytest.approx(1 + 3 * 0.5))
    assert (found.used_ratio, found.makespan_s) == (1.0, 4 * H)
    assert found.fairness == pytest.approx(jain_index(np.array([1.0, 3.0])))


def test_the_best_is_late_by_least_and_then_costs_least() -> None:
    jobs = [job("a", 2, due=2), job("b", 1, due=1)]
    pool = [Pool("a", "L4", 1)]
    outcomes = [told(jobs, replayed(pool, jobs, make()), policy=name) for name, make in BASELINES.items()]
    order, by = ranked(outcomes, has_deadlines=True)
    assert {order[0].policy, order[1].policy} == {"sjf", "edf"}
    assert by == "late_weighted_hours"
    assert ranked(outcomes[:1], has_deadlines=False)[1] == "mean_completion_s"


@pytest.mark.slow
def test_ours_looks_at_a_part_of_a_long_queue_and_every_job_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpufleet.optimize.schedule.replanning.MOST_PLANNED", 4)
    for seed in range(30):
        grid = random_grid(np.random.default_rng(seed))
        if not relaxations_of(grid):
            runs = replayed(grid.pools, grid.asked, ours(3), burst=True)
            assert violations(grid.pools, grid.asked, runs, most_pieces=MOST_PIECES) == []


def test_the_same_seed_gives_the_same_replay() -> None:
    grid = random_grid(np.random.default_rng(11))
    first, again = (replayed(grid.pools, grid.asked, ours(), burst=True) for _ in range(2))
    assert first == again
