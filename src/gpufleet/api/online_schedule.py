"""`schedule --online`: jobs replayed as they arrive, under one policy after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np

from gpufleet.answers.online_schedule import outcome_of, ranked
from gpufleet.api.envelope import in_full
from gpufleet.api.schedule_jobs import expanded, jobs_of, pools_of, price_doubts
from gpufleet.api.spoken import spoken
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.queue_policies import load_service_thresholds_gpu_s
from gpufleet.catalog.spot_jobs import load_job_habits
from gpufleet.catalog.tables import Catalog
from gpufleet.domain.schedule import Pool, ScheduledJob, Way
from gpufleet.errors import Infeasible, UnknownName
from gpufleet.inputs.job_trace import TracedJob, read_job_trace
from gpufleet.inputs.jobs_file import read_jobs_file
from gpufleet.optimize.schedule.grid import Grid, usual_slot_s
from gpufleet.optimize.schedule.online import (
    BACKFILL,
    EDF,
    FIFO,
    LAS,
    OURS,
    POLICIES,
    SJF,
    Backfill,
    FirstInFirstOut,
    LeastAttained,
    earliest_deadline_first,
    shortest_first,
)
from gpufleet.optimize.schedule.relaxations import circle_of, relaxations_of
from gpufleet.optimize.schedule.replanning import Replanning
from gpufleet.questions.schedule import STEPS_ONLINE, JobsFile, ScheduleRequest
from gpufleet.questions.words import refuse_out_of_range
from gpufleet.report.words import sentence
from gpufleet.results.base import Input
from gpufleet.results.schedule import OnlineSchedule, PolicyOutcome
from gpufleet.simulate.job_queue import JobQueue, QueuePolicy, replay_queue
from gpufleet.units import MINUTE, PERCENT

ALL = "all"


def replay_schedule(
    request: ScheduleRequest | str | PathLike[str] | None = None, *, catalog: Catalog | None = None, **said: Any
) -> OnlineSchedule:
    """What becomes of jobs that arrive one after the other, under each of the policies of `online`.

    `request`: a file of jobs and pools, or a `ScheduleRequest`; words of it as keywords. Nobody knows what arrives
    next; how long jobs take is known as expected, and may differ by `spread`.
    """
    asked = request if isinstance(request, ScheduleRequest) else spoken(ScheduleRequest, request, said)
    refuse_out_of_range(asked)
    policies = policies_of(asked.online)
    tables = load_catalog() if catalog is None else catalog
    file = expanded(read_jobs_file(str(asked.jobs), pools_alone=asked.trace is not None))
    pools = pools_of(file, tables)
    jobs = (
        jobs_of(file, pools, tables).jobs
        if asked.trace is None
        else traced_jobs(read_job_trace(str(asked.trace)), pools)
    )
    slot_s = file.words.slot_s or usual_slot_s(jobs, pools)
    refuse_impossible(Grid(pools, jobs, slot_s))
    took_ratio = np.random.default_rng(asked.seed).uniform(1 - asked.spread, 1 + asked.spread, len(jobs)).tolist()
    outcomes = [
        replayed(name, makers(asked, slot_s, jobs)[name](), asked, pools, jobs, took_ratio) for name in policies
    ]
    found = answer(asked, file, pools, jobs, outcomes, slot_s)
    return in_full(found.model_copy(update={"notes": [*price_doubts(pools, tables), *found.notes]}), tables, asked)


def policies_of(said: Sequence[str] | None) -> tuple[str, ...]:
    """The policies that are asked for, each once."""
    named = [name.strip().lower() for text in said or (ALL,) for name in text.split(",") if name.strip()]
    for name in named:
        if name not in (*POLICIES, ALL):
            raise UnknownName("policy", name, (*POLICIES, ALL))
    return POLICIES if ALL in named else tuple(dict.fromkeys(named))


def makers(
    asked: ScheduleRequest, slot_s: float, jobs: Sequence[ScheduledJob]
) -> Mapping[str, Callable[[], QueuePolicy]]:
    """Each policy by its name."""
    steps = STEPS_ONLINE if asked.steps is None else asked.steps
    has_deadlines = any(np.isfinite(job.deadline_s) for job in jobs)
    return {
        FIFO: FirstInFirstOut,
        SJF: shortest_first,
        EDF: earliest_deadline_first,
        LAS: lambda: LeastAttained(load_service_thresholds_gpu_s()),
        BACKFILL: Backfill,
        OURS: lambda: Replanning(slot_s, steps, np.random.default_rng(asked.seed), has_deadlines),
    }


def replayed(
    name: str,
    policy: QueuePolicy,
    asked: ScheduleRequest,
    pools: Sequence[Pool],
    jobs: Sequence[ScheduledJob],
    took_ratio: Sequence[float],
) -> PolicyOutcome:
    """All jobs under one policy."""
    runs = replay_queue(JobQueue(pools, jobs, took_ratio, asked.spread, asked.burst), policy)
    return outcome_of(name, pools, jobs, took_ratio, runs)


def traced_jobs(rows: Sequence[TracedJob], pools: Sequence[Pool]) -> tuple[ScheduledJob, ...]:
    """Jobs of a trace from the first arrival on; each may run on every pool, for the same time."""
    restart_s, first_s = load_job_habits().restart_s.expected, rows[0].arrival_s
    return tuple(
        ScheduledJob(
            name=f"job-{number}",
            ways=tuple(Way(pool.name, row.milli_gpus, row.duration_s, restart_s) for pool in pools),
            earliest_s=row.arrival_s - first_s,
            deadline_s=row.deadline_s - first_s,
            weight=row.weight,
            can_pause=row.can_pause,
            user=row.user,
        )
        for number, row in enumerate(rows, 1)
    )


def refuse_impossible(grid: Grid) -> None:
    """Refuse jobs that can never run, with the smallest change."""
    circle = circle_of(grid.asked)
    if circle:
        raise Infeasible(f"jobs wait for each other: {', '.join(circle)}")
    stops = relaxations_of(grid)
    if stops:
        why, change = stops[0]
        raise Infeasible(f"this cannot be replayed: {sentence(why)}", hint=f"It can {sentence(change)}.")


def answer(
    asked: ScheduleRequest,
    file: JobsFile,
    pools: Sequence[Pool],
    jobs: Sequence[ScheduledJob],
    outcomes: Sequence[PolicyOutcome],
    slot_s: float,
) -> OnlineSchedule:
    """The answer."""
    has_deadlines = any(np.isfinite(job.deadline_s) for job in jobs)
    order, best_by = ranked(outcomes, has_deadlines)
    return OnlineSchedule(
        start=file.words.start if asked.trace is None else None,
        outcomes=list(outcomes),
        best=order[0].policy,
        best_by=best_by,
        runner_up=order[1].policy if len(order) > 1 else None,
        jobs=len(jobs),
        users=len({job.user for job in jobs}),
        gpus_owned=sum(pool.gpus for pool in pools if not pool.is_rented),
        has_deadlines=has_deadlines,
        can_pause=sum(job.can_pause for job in jobs),
        spread=asked.spread,
        inputs=inputs_of(asked, file, jobs, slot_s),
        notes=notes_of(file, pools),
    )


def notes_of(file: JobsFile, pools: Sequence[Pool]) -> list[str]:
    """What a replay leaves out of what the file says."""
    found = []
    if file.words.budget is not None:
        found.append("No policy keeps the budget: compare it with what each of them costs.")
    if any(pool.kind == "spot" for pool in pools):
        found.append("Spot machines are not taken away one by one: times on them are longer by what that repeats.")
    return found


def inputs_of(asked: ScheduleRequest, file: JobsFile, jobs: Sequence[ScheduledJob], slot_s: float) -> list[Input]:
    """What was understood, and where it came from."""
    steps = STEPS_ONLINE if asked.steps is None else asked.steps
    rows = [
        ("jobs", f"{len(jobs):,}", "file" if asked.trace is None else "trace"),
        ("pools", ", ".join(f"{p.name} ({p.words.gpus}x {p.words.gpu})" for p in file.pools), "file"),
        ("slot of ours", f"{slot_s / MINUTE:g} min", "default" if file.words.slot_s is None else "file"),
        ("steps of ours at each event", f"{steps:,}", asked.origin("steps")),
        ("spread", f"{asked.spread * PERCENT:g} %", asked.origin("spread")),
        ("seed", str(asked.seed), asked.origin("seed")),
    ]
    return [Input(name=name, value=value, origin=origin) for name, value, origin in rows]
