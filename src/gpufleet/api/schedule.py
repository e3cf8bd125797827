"""`schedule`: jobs with deadlines on shared GPUs, late by as little as can be, then for the least money and energy."""

from __future__ import annotations

import time
from dataclasses import replace
from os import PathLike
from typing import Any

import numpy as np

from gpufleet.answers.schedule import ScheduleFound, infeasible_plan, schedule_plan
from gpufleet.api.schedule_jobs import expanded, jobs_of, pools_of, usual_slot_s
from gpufleet.api.spoken import spoken
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.tables import Catalog
from gpufleet.errors import UsageError
from gpufleet.inputs.jobs_file import read_jobs_file
from gpufleet.inputs.schedule_file import read_schedule
from gpufleet.optimize.schedule.at_once import begun_sooner, edf_schedule
from gpufleet.optimize.schedule.best import best_found
from gpufleet.optimize.schedule.grid import Grid, Score
from gpufleet.optimize.schedule.relaxations import circle_of, circle_relaxation, relaxations_of
from gpufleet.optimize.schedule.solver import Effort, Solved, is_installed
from gpufleet.questions.schedule import JobsFile, ScheduleRequest
from gpufleet.questions.words import refuse_out_of_range
from gpufleet.results.base import Input
from gpufleet.results.schedule import SchedulePlan
from gpufleet.units import MINUTE

OF_SCHEDULE = 0.85
"""Of the time limit; the rest asks what a GPU more is worth."""
MOST_COMPARED = 2000
"""With more jobs nobody asks what a GPU more is worth: it would take a search for each pool."""


def plan_schedule(
    request: ScheduleRequest | str | PathLike[str] | None = None, *, catalog: Catalog | None = None, **said: Any
) -> SchedulePlan:
    """When and where jobs run that share GPUs, so that they are late by as little as can be.

    `request`: a file of jobs and pools, or a `ScheduleRequest`; words of it as keywords. Not feasible where a job can
    run nowhere: the answer says the smallest change then. The JSON of a schedule is that schedule: nothing is searched.
    """
    asked = request if isinstance(request, ScheduleRequest) else spoken(ScheduleRequest, request, said)
    refuse_out_of_range(asked)
    clock = Clock(asked)
    refuse_online_words(asked)
    kept = read_schedule(str(asked.jobs))
    if kept is not None:
        return kept
    file = expanded(read_jobs_file(str(asked.jobs)))
    tables = load_catalog() if catalog is None else catalog
    return planned(asked, file, tables, clock)


def refuse_online_words(asked: ScheduleRequest) -> None:
    """Refuse what a schedule of jobs that are all known would not hear."""
    if asked.online is not None:
        raise UsageError("a replay is no schedule", expected="replay_schedule() in Python")
    said = {"--trace": asked.trace, "--spread": asked.spread, "--burst": asked.burst}
    for flag, value in said.items():
        if value:
            raise UsageError(f"{flag} is of --online alone", expected="--online all beside it")


def planned(asked: ScheduleRequest, file: JobsFile, tables: Catalog, clock: Clock) -> SchedulePlan:
    """The plan of a file that was read."""
    pools = pools_of(file, tables)
    understood = jobs_of(file, pools, tables)
    slot_s = file.words.slot_s or usual_slot_s(understood.jobs, pools)
    budget = file.words.budget
    grid = Grid(pools, understood.jobs, slot_s, np.inf if budget is None else budget)
    inputs = inputs_of(asked, file, slot_s)
    circle = circle_of(understood.jobs)
    stops = [circle_relaxation(circle)] if circle else relaxations_of(grid)
    if stops:
        return infeasible_plan(grid, stops, file.words.start, inputs)
    found = found_schedule(grid, asked, clock)
    return schedule_plan(grid, found, file, understood.durations, inputs)


class Clock:
    """The time that a search has: seconds, or steps where those are asked for."""

    def __init__(self, asked: ScheduleRequest) -> None:
        self.asked, self.began = asked, time.monotonic()

    def left_s(self, until: float) -> float:
        """Seconds until a share of the limit is spent."""
        return self.began + self.asked.time_limit_s * until - time.monotonic()

    def effort(self, until: float, share: float) -> Effort:
        """What may be spent until a share of the time is, or a share of the steps."""
        steps, seed = self.asked.steps, self.asked.seed
        if steps is not None:
            return Effort(lambda: 0.0, 1, seed, round(steps * share))
        return Effort(lambda: self.left_s(until), self.asked.workers, seed)


def found_schedule(grid: Grid, asked: ScheduleRequest, clock: Clock) -> ScheduleFound:
    """Earliest deadline first at once, then the best that is found in the time, with the gap."""
    edf = edf_schedule(grid) or []
    if asked.at_once:
        return ScheduleFound(edf, edf, grid.least, "edf", False, {}, is_installed(), False, asked.seed)
    searched, best = best_found(grid, edf, clock.effort(OF_SCHEDULE, 1.0), np.random.default_rng(asked.seed))
    found_by = found_by_of(grid.score(edf), grid.score(searched), grid.score(best.placed))
    more = one_more_of_each(grid, best, asked, clock) if len(grid.jobs) <= MOST_COMPARED else {}
    return ScheduleFound(
        edf,
        begun_sooner(grid, best.placed),
        best.bound,
        found_by,
        best.is_optimal,
        more,
        is_installed(),
        True,
        asked.seed,
    )


def found_by_of(edf: Score, searched: Score, solved_score: Score) -> str:
    """Who found what is shown."""
    return "solver" if solved_score < searched else "search" if searched < edf else "edf"


def one_more_of_each(grid: Grid, best: Solved, asked: ScheduleRequest, clock: Clock) -> dict[str, tuple[Score, bool]]:
    """By pool: the score with one GPU more, and whether both schedules are proven to be the best.

    None where some lateness is not proven to be needed: a longer search might save as much with the same GPUs.
    """
    found: dict[str, tuple[Score, bool]] = {}
    score = grid.score(best.placed)
    if not best.is_optimal and score.late > best.bound.late:
        return found
    for number, pool in enumerate(grid.pools):
        if score.late == grid.least.late and score.milli_usd == grid.least.milli_usd:
            found[pool.name] = (score, best.is_optimal)
            continue
        wider = with_one_more(grid, number)
        until = OF_SCHEDULE + (1 - OF_SCHEDULE) * (number + 1) / len(grid.pools)
        effort = clock.effort(until, 1 / (4 * len(grid.pools)))
        again = best_found(wider, best.placed, effort, np.random.default_rng(asked.seed)).solved
        found[pool.name] = (wider.score(again.placed), again.is_optimal and best.is_optimal)
    return found


def with_one_more(grid: Grid, number: int) -> Grid:
    """The same question with one GPU more in a pool; what takes all of it takes that one too."""
    pool = grid.pools[number]
    outages = tuple(replace(o, gpus=o.gpus + 1) if o.gpus == pool.gpus else o for o in pool.outages)
    pools = list(grid.pools)
    pools[number] = replace(pool, gpus=pool.gpus + 1, outages=outages)
    return Grid(tuple(pools), grid.asked, grid.slot_s, grid.budget_usd)


def inputs_of(asked: ScheduleRequest, file: JobsFile, slot_s: float) -> list[Input]:
    """What was understood, and where it came from."""
    spent = f"{asked.time_limit_s:g} s" if asked.steps is None else f"{asked.steps:,} steps"
    rows = [
        ("jobs", f"{len(file.jobs):,}", "file"),
        ("pools", ", ".join(f"{p.name} ({p.words.gpus}x {p.words.gpu})" for p in file.pools), "file"),
        ("slot", f"{slot_s / MINUTE:g} min", "default" if file.words.slot_s is None else "file"),
        ("search", "none" if asked.at_once else spent, "given"),
        ("seed", str(asked.seed), "given" if asked.seed else "default"),
    ]
    if file.words.start is not None:
        rows.append(("start", file.words.start.isoformat(sep=" "), "file"))
    return [Input(name=name, value=value, origin=origin) for name, value, origin in rows]
