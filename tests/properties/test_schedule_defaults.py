"""What `schedule` promises where nobody says how long: the same answer on any machine, small questions proved."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from tests.conftest import REPOSITORY
from tests.properties.schedule_enumeration import TriedJob, TriedPool, least_late_and_usd

import gpufleet
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.tables import Catalog
from gpufleet.optimize.schedule.solver import is_installed
from gpufleet.report.schedule import schedule_page
from gpufleet.results.schedule import SchedulePlan

pytestmark = pytest.mark.skipif(not is_installed(), reason="OR-Tools is an extra")
LAB = REPOSITORY / "examples" / "jobs" / "lab-week.yaml"
SMALL_QUESTIONS = 24
Ask = Callable[..., SchedulePlan]


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load_catalog()


@pytest.fixture
def ask(catalog: Catalog, tmp_path: Path) -> Ask:
    """The answer to pools and jobs, with what is said beside them."""

    def asked(pools: list[TriedPool], jobs: list[TriedJob], **said: Any) -> SchedulePlan:
        file = tmp_path / "jobs.yaml"
        file.write_text(yaml.safe_dump(written(pools, jobs)), encoding="utf-8")
        return gpufleet.plan_schedule(file, catalog=catalog, **said)

    return asked


def written(pools: list[TriedPool], jobs: list[TriedJob]) -> dict[str, Any]:
    """The file of a question."""
    return {
        "slot": "1h",
        "pools": {f"p{number}": written_pool(pool) for number, pool in enumerate(pools)},
        "jobs": [written_job(f"j{number}", job) for number, job in enumerate(jobs)],
    }


def written_pool(pool: TriedPool) -> dict[str, Any]:
    said: dict[str, Any] = {"gpu": "L4", "gpus": pool.gpus}
    if pool.usd_per_hour:
        said |= {"kind": "on-demand", "price": f"{pool.usd_per_hour}/h"}
    if any(pool.missing):
        said["maintenance"] = [{"from": f"{pool.missing[0]}h", "to": f"{pool.missing[1]}h"}]
    return said


def written_job(name: str, job: TriedJob) -> dict[str, Any]:
    options = [{"on": f"p{pool}", "gpus": gpus, "work": f"{hours}h"} for pool, gpus, hours in job.ways]
    said = {"name": name, "options": options, "priority": job.weight}
    said |= {"earliest": f"{job.earliest}h", "deadline": f"{job.deadline}h"}
    return {**said, "after": [f"j{other}" for other in job.after]} if job.after else said


def small_question(rng: np.random.Generator) -> tuple[list[TriedPool], list[TriedJob]]:
    """Three to five jobs on GPUs of one's own and on rented ones."""
    start = int(rng.integers(2, 8))
    missing = (start, start + int(rng.integers(1, 4))) if rng.random() < 0.6 else (0, 0)
    pools = [TriedPool(int(rng.integers(2, 5)), 0.0, missing), TriedPool(2, float(rng.integers(1, 5)))]
    jobs = []
    for number in range(int(rng.integers(3, 6))):
        gpus, hours = int(rng.integers(1, pools[0].gpus + 1)), int(rng.integers(1, 6))
        ways = [(0, gpus, hours)]
        if gpus <= 2 and rng.random() < 0.5:
            ways.append((1, gpus, hours + int(rng.integers(0, 2))))
        earliest = int(rng.integers(0, 4)) if rng.random() < 0.4 else 0
        after = tuple(other for other in range(number) if rng.random() < 0.15)
        deadline = earliest + hours + int(rng.integers(0, 6))
        jobs.append(TriedJob(tuple(ways), earliest, deadline, int(rng.integers(1, 4)), after))
    return pools, jobs


@pytest.mark.slow
def test_small_questions_are_proved_by_default_and_are_the_best_of_all_schedules(ask: Ask) -> None:
    late = 0
    for seed in range(SMALL_QUESTIONS):
        pools, jobs = small_question(np.random.default_rng(seed))
        plan = ask(pools, jobs)
        assert plan.is_optimal, seed
        least_late, least_usd = least_late_and_usd(pools, jobs)
        assert (plan.late_weighted_hours, plan.usd) == (pytest.approx(least_late), pytest.approx(least_usd)), seed
        late += least_late > 0
    assert late > SMALL_QUESTIONS / 3


def test_three_jobs_around_maintenance_are_proved_by_default_and_within_two_seconds(ask: Ask) -> None:
    """4 GPUs that are away from 6 to 8 h, and 2 rented ones: eight hours late by priority is the least."""
    pools = [TriedPool(4, 0.0, (6, 8)), TriedPool(2, 2.0)]
    jobs = [
        TriedJob(((0, 2, 3),), 0, 4, 2, ()),
        TriedJob(((0, 4, 4),), 0, 4, 1, (0,)),
        TriedJob(((0, 2, 5), (1, 1, 6)), 0, 5, 1, ()),
    ]
    for plan in (ask(pools, jobs), ask(pools, jobs, steps=1)):
        assert plan.is_optimal
        assert plan.late_weighted_hours == pytest.approx(8.0)
        assert least_late_and_usd(pools, jobs) == (8, 0.0)


def jump(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Each look at the clock tells a time so many seconds later."""
    looks = itertools.count()
    monkeypatch.setattr("gpufleet.api.schedule.time.monotonic", lambda: next(looks) * seconds)


def crowd(jobs_in_all: int = 30) -> tuple[list[TriedPool], list[TriedJob]]:
    """Jobs on five GPUs; thirty are too many to be proved, and a search goes on to the end of its work."""
    rng = np.random.default_rng(3)
    jobs = [
        TriedJob(
            ((0, int(rng.integers(1, 4)), int(rng.integers(1, 7))),), 0, int(rng.integers(4, jobs_in_all - 2)), 1, ()
        )
        for _ in range(jobs_in_all)
    ]
    return [TriedPool(5, 0.0)], jobs


@pytest.mark.slow
def test_no_clock_changes_what_is_answered_by_default(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    by_default, by_steps = ask(*crowd(12)), ask(*crowd(), steps=300)
    assert by_steps.late_weighted_hours < by_steps.edf_late_weighted_hours
    assert by_default.late_weighted_hours < by_default.edf_late_weighted_hours
    jump(monkeypatch, 3600.0)
    assert ask(*crowd(12)) == by_default
    assert ask(*crowd(), steps=300) == by_steps


def test_a_limit_that_cuts_the_search_is_told_in_the_headline(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    jump(monkeypatch, 1.0)
    plan = ask(*crowd(), time_limit_s=30.0)
    assert plan.cut_after_s == 30.0
    assert "The time limit of 30.0 s cut the search: a longer one may find better." in schedule_page(plan).headline
    assert SchedulePlan.model_validate_json(plan.model_dump_json()) == plan


@pytest.mark.slow
def test_a_limit_that_cuts_nothing_changes_nothing(ask: Ask) -> None:
    """Neither a question that is proved before it, nor steps that are made before it."""
    for question, said in ((small_question(np.random.default_rng(1)), {}), (crowd(), {"steps": 20})):
        free, capped = ask(*question, **said), ask(*question, **said, time_limit_s=3600.0)
        assert capped.cut_after_s is None
        asked = {name: getattr(free, name) for name in ("inputs", "question", "input_hash")}
        assert capped.model_copy(update=asked) == free


@pytest.mark.slow
def test_a_week_of_forty_jobs_is_in_time_by_default_however_slow_the_machine(
    monkeypatch: pytest.MonkeyPatch, catalog: Catalog
) -> None:
    jump(monkeypatch, 3600.0)
    plan = gpufleet.plan_schedule(LAB, catalog=catalog)
    assert (len(plan.runs), plan.late_jobs, plan.edf_late_jobs) == (40, 0, 2)
    assert plan.cut_after_s is None


@pytest.mark.parametrize("deadline", ["", ", deadline: 24h"])
def test_a_job_waits_for_the_night_where_that_is_cheaper(catalog: Catalog, tmp_path: Path, deadline: str) -> None:
    """Two GPUs for two hours: $9.60 by day, $2.40 by night; the proof holds beyond the end of the first schedule."""
    pool = "{gpu: L4, gpus: 2, kind: on-demand, price: {8-20: 2.40/h, 20-8: 0.60/h}}"
    file = tmp_path / "jobs.yaml"
    text = f"start: 2026-11-30 08:00\npools: {{p: {pool}}}\njobs: [{{name: x, work: 2h, gpus: 2, on: p{deadline}}}]"
    file.write_text(text, encoding="utf-8")
    plan = gpufleet.plan_schedule(file, catalog=catalog)
    assert (plan.is_optimal, plan.usd, plan.runs[0].start_s) == (True, pytest.approx(2.4), 12 * 3600.0)
