"""From placed jobs to what is said of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import numpy as np

from gpufleet.domain.reason import Reason
from gpufleet.domain.schedule import Duration, Pool
from gpufleet.optimize.schedule.best import Found
from gpufleet.optimize.schedule.grid import MILLI_USD, Grid, Placement, Score
from gpufleet.optimize.schedule.measures import lost_gpu_s
from gpufleet.optimize.schedule.reasons import reasons_of
from gpufleet.optimize.schedule.search import Workbench
from gpufleet.questions.schedule import JobsFile
from gpufleet.results.base import Figure, Input
from gpufleet.results.schedule import (
    OneMoreGpu,
    ScheduledOption,
    ScheduledOutage,
    ScheduledPiece,
    ScheduledPool,
    ScheduledRun,
    SchedulePlan,
    ScheduleReason,
    ScheduleRelaxation,
)
from gpufleet.units import HOUR, KILO


class ScheduleFound(NamedTuple):
    """What was found: earliest deadline first, the best, and by pool what one GPU more comes to.

    `cut_after_s`: the limit that ended the search before its work was done.
    """

    edf: Sequence[Placement]
    best: Found
    one_more: Mapping[str, tuple[Score, bool]]
    has_solver: bool
    is_searched: bool
    seed: int
    cut_after_s: float | None = None


def schedule_plan(
    grid: Grid,
    found: ScheduleFound,
    file: JobsFile,
    durations: Mapping[str, Sequence[Duration]],
    inputs: Sequence[Input],
) -> SchedulePlan:
    """The answer."""
    score, edf = grid.score(found.best.placed), grid.score(found.edf)
    runs = runs_of(grid, found.best.placed, file, durations)
    makespan = max(run.end_s for run in runs)
    return SchedulePlan.made_of(
        found,
        found.best,
        start=file.words.start,
        slot_s=grid.slot_s,
        runs=runs,
        pools=[pool_result(grid, number, runs, makespan, found, score) for number in range(len(grid.pools))],
        late_weighted_hours=late_hours(grid, score.late),
        least_late_weighted_hours=late_hours(grid, min(found.best.bound.late, score.late)),
        edf_late_weighted_hours=late_hours(grid, edf.late),
        late_jobs=sum(run.late_s > 0 for run in runs),
        edf_late_jobs=sum(grid.late(j, p) > 0 for j, p in enumerate(found.edf)),
        makespan_s=makespan,
        usd=score.milli_usd / MILLI_USD,
        budget_usd=None if math.isinf(grid.budget_usd) else grid.budget_usd,
        kwh=kwh(grid, score.watt_slots),
        inputs=list(inputs),
    )


def infeasible_plan(
    grid: Grid, stops: Sequence[tuple[Reason, Reason]], start: datetime | None, inputs: Sequence[Input]
) -> SchedulePlan:
    """Nothing is placed, and the smallest changes with which it could be."""
    return SchedulePlan(
        start=start,
        slot_s=grid.slot_s,
        runs=[],
        pools=[],
        relaxations=[ScheduleRelaxation(why=told(why), change=told(change)) for why, change in stops],
        inputs=list(inputs),
    )


def told(reason: Reason) -> ScheduleReason:
    """A reason as data."""
    return ScheduleReason(code=reason.code, figures=dict(reason.figures))


def late_hours(grid: Grid, late: int) -> float:
    """Late slots by weight in hours."""
    return late / grid.weight_scale * grid.slot_s / HOUR


def kwh(grid: Grid, watt_slots: int) -> float:
    """Energy   [kWh]."""
    return watt_slots * grid.slot_s / HOUR / KILO


def runs_of(
    grid: Grid, placed: Sequence[Placement], file: JobsFile, durations: Mapping[str, Sequence[Duration]]
) -> list[ScheduledRun]:
    """Every job, in the order of the file."""
    bench = Workbench(grid, placed)
    reasons = reasons_of(grid, bench)
    pools = {pool.name: pool for pool in grid.pools}
    return [run_result(grid, bench, number, reasons[number], file, durations, pools) for number in range(len(placed))]


def run_result(
    grid: Grid,
    bench: Workbench,
    number: int,
    reasons: tuple[Reason, Reason],
    file: JobsFile,
    durations: Mapping[str, Sequence[Duration]],
    pools: Mapping[str, Pool],
) -> ScheduledRun:
    """One job."""
    job, placed, stated = grid.asked[number], bench.placed[number], file.jobs[number]
    way, took = job.ways[placed.way], durations[job.name][placed.way]
    late = grid.late(number, placed)
    return ScheduledRun.made_of(
        way,
        job,
        pools[way.pool],
        stated.words,
        job=job.name,
        work=Figure(value=took.work_s, unit="s", low=took.low_s, high=took.high_s, grade=took.grade),
        pieces=[
            ScheduledPiece(start_s=start * grid.slot_s, end_s=(start + slots) * grid.slot_s)
            for start, slots in placed.pieces
        ],
        deadline_s=None if math.isinf(job.deadline_s) else job.deadline_s,
        late_s=late * grid.slot_s,
        priority=job.weight,
        late_weighted_hours=late_hours(grid, late * grid.jobs[number].weight),
        after=list(job.after),
        shared_gpu=placed.lane if way.is_share else None,
        usd=grid.milli_usd(number, placed) / MILLI_USD,
        kwh=kwh(grid, grid.watt_slots(number, placed)),
        why_now=told(reasons[0]),
        why_there=told(reasons[1]),
        options=[ScheduledOption.made_of(w, pools[w.pool]) for w in (job.ways[p] for p in grid.possible[number])],
    )


def pool_result(
    grid: Grid, number: int, runs: Sequence[ScheduledRun], makespan: float, found: ScheduleFound, score: Score
) -> ScheduledPool:
    """One pool, and what one GPU more of it saves."""
    pool = grid.pools[number]
    here = [run for run in runs if run.pool == pool.name]
    gpu_s = sum(run.gpus * sum(piece.end_s - piece.start_s for piece in run.pieces) for run in here)
    had_s = max(pool.gpus * makespan - lost_gpu_s(pool, makespan), grid.slot_s)
    return ScheduledPool.made_of(
        pool,
        pool=pool.name,
        outages=[ScheduledOutage.made_of(o) for o in pool.outages],
        power_cap_watts=None if math.isinf(pool.power_cap_watts) else pool.power_cap_watts,
        used_ratio=float(np.clip(gpu_s / had_s, 0, 1)),
        usd=sum(run.usd for run in here),
        kwh=sum(run.kwh for run in here),
        one_more=one_more_result(grid, found, pool, score),
    )


def one_more_result(grid: Grid, found: ScheduleFound, pool: Pool, score: Score) -> OneMoreGpu | None:
    """What one GPU more saves; a dearer schedule that is less late saves no money."""
    if pool.name not in found.one_more:
        return None
    wider, is_sure = found.one_more[pool.name]
    return OneMoreGpu(
        late_weighted_hours=late_hours(grid, max(score.late - wider.late, 0)),
        usd=(score.milli_usd - wider.milli_usd) / MILLI_USD,
        is_sure=is_sure,
    )
