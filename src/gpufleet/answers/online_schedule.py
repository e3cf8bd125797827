"""From runs of a replayed queue to the figures by which policies are compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from gpufleet.domain.arrays import FloatArray
from gpufleet.domain.schedule import Pool, Run, ScheduledJob
from gpufleet.optimize.schedule.measures import jain_index, usd_of, used_ratio
from gpufleet.results.schedule import OnlineRun, PolicyOutcome, ScheduledPiece
from gpufleet.units import HOUR

NINETY_FIFTH = 95
BY_LATENESS = ("late_weighted_hours", "usd", "mean_completion_s")
BY_COMPLETION = ("mean_completion_s", "p95_completion_s", "usd")
A_SHARE = 1e-9


def outcome_of(
    policy: str, pools: Sequence[Pool], jobs: Sequence[ScheduledJob], took_ratio: Sequence[float], runs: Sequence[Run]
) -> PolicyOutcome:
    """What the runs of a policy come to."""
    found = [run_result(job, run, ratio) for job, run, ratio in zip(jobs, runs, took_ratio, strict=True)]
    completion = np.array([run.completion_s for run in found])
    makespan = max(run.end_s for run in runs)
    return PolicyOutcome(
        policy=policy,
        mean_completion_s=float(completion.mean()),
        p95_completion_s=float(np.percentile(completion, NINETY_FIFTH)),
        late_weighted_hours=sum(run.late_s * job.weight for run, job in zip(found, jobs, strict=True)) / HOUR,
        late_jobs=sum(run.late_s > 0 for run in found),
        used_ratio=used_ratio(pools, jobs, runs, makespan),
        fairness=jain_index(slowdowns(found)),
        usd=usd_of(pools, jobs, runs),
        preemptions=sum(len(run.pieces) - 1 for run in runs),
        makespan_s=makespan,
        runs=found,
    )


def run_result(job: ScheduledJob, run: Run, took_ratio: float) -> OnlineRun:
    """One job."""
    completion = run.end_s - job.earliest_s
    alone = min(way.work_s for way in job.ways) * took_ratio
    late = run.end_s - job.deadline_s
    return OnlineRun(
        job=job.name,
        user=job.user,
        pool=job.ways[run.way].pool,
        gpus=job.ways[run.way].gpus,
        arrival_s=job.earliest_s,
        pieces=[ScheduledPiece.made_of(piece) for piece in run.pieces],
        completion_s=completion,
        late_s=late if late > A_SHARE * run.end_s else 0.0,
        slowdown=completion / alone,
    )


def slowdowns(runs: Sequence[OnlineRun]) -> FloatArray:
    """Mean slowdown of each user, or of each job where nobody is named."""
    users = sorted({run.user for run in runs})
    if len(users) < 2:
        return np.array([run.slowdown for run in runs])
    return np.array([np.mean([run.slowdown for run in runs if run.user == user]) for user in users])


def ranked(outcomes: Sequence[PolicyOutcome], has_deadlines: bool) -> tuple[list[PolicyOutcome], str]:
    """The best first, and the figure in which it differs from the next; lateness decides where there are deadlines."""
    figures = BY_LATENESS if has_deadlines else BY_COMPLETION
    order = sorted(outcomes, key=lambda outcome: rank(outcome, figures))
    if len(order) == 1:
        return order, figures[0]
    first, second = (rank(outcome, figures) for outcome in order[:2])
    differ = [figure for figure, a, b in zip(figures, first, second, strict=True) if a != b]
    return order, (differ or figures)[0]


def rank(outcome: PolicyOutcome, figures: Sequence[str]) -> tuple[float, ...]:
    """The figures of an outcome in their order, as finely as they are told apart."""
    told: Mapping[str, float] = outcome.model_dump(include={*figures})
    return tuple(round(told[figure], 3) for figure in figures)
