"""`schedule`: jobs with deadlines on shared GPUs, late by as little as can be, then for the least money and energy."""

from __future__ import annotations

import math
import time
from functools import partial
from os import PathLike
from typing import Any

import numpy as np

from gpufleet.answers.schedule import ScheduleFound, infeasible_plan, schedule_plan
from gpufleet.api.envelope import in_full, judged
from gpufleet.api.schedule_jobs import expanded, jobs_of, pools_of, price_doubts
from gpufleet.api.spoken import spoken
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.tables import Catalog
from gpufleet.domain.reason import Reason
from gpufleet.errors import UsageError
from gpufleet.inputs.jobs_file import read_jobs_file
from gpufleet.inputs.schedule_file import read_schedule
from gpufleet.optimize.schedule.at_once import begun_sooner, edf_schedule
from gpufleet.optimize.schedule.best import Found, best_found
from gpufleet.optimize.schedule.effort import Effort
from gpufleet.optimize.schedule.grid import Grid, usual_slot_s
from gpufleet.optimize.schedule.one_more import one_more_of_each
from gpufleet.optimize.schedule.relaxations import circle_of, circle_relaxation, relaxations_of
from gpufleet.optimize.schedule.solver import is_installed
from gpufleet.questions.schedule import JobsFile, ScheduleRequest, usual_steps
from gpufleet.questions.words import refuse_out_of_range
from gpufleet.report.words import sentence
from gpufleet.results.base import Input
from gpufleet.results.schedule import SchedulePlan
from gpufleet.units import MINUTE

OF_SCHEDULE = 0.85
"""Of a time limit; the rest asks what a GPU more is worth."""
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
        refuse_unknown_reasons(str(asked.jobs), kept)
        return judged(kept)
    file = expanded(read_jobs_file(str(asked.jobs)))
    tables = load_catalog() if catalog is None else catalog
    return in_full(planned(asked, file, tables, clock), tables, asked)


def refuse_unknown_reasons(path: str, plan: SchedulePlan) -> None:
    """Refuse the schedule of a file whose reasons no page can say: their codes or figures were edited."""
    reasons = [reason for run in plan.runs for reason in (run.why_now, run.why_there)]
    reasons += [reason for relaxation in plan.relaxations for reason in (relaxation.why, relaxation.change)]
    for reason in reasons:
        try:
            sentence(Reason(reason.code, tuple(reason.figures.items())))
        except (LookupError, AttributeError, TypeError, ValueError, ArithmeticError) as error:
            expected = "what 'gpufleet schedule jobs.yaml -o json' writes"
            raise UsageError(f"{path!r} gives a reason that is none", found=reason.code, expected=expected) from error


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
    plan = schedule_plan(grid, found, file, understood.durations, inputs)
    return plan.model_copy(update={"notes": [*price_doubts(pools, tables), *plan.notes]})


class Clock:
    """The work that a search has, and the seconds until a limit that somebody typed."""

    def __init__(self, asked: ScheduleRequest) -> None:
        self.asked, self.began = asked, time.monotonic()

    def effort(self, jobs: int, until: float, share: float) -> Effort:
        """What may be spent on so many jobs: a share of the steps, until a share of the limit is over."""
        limit_s, steps, seed = self.asked.time_limit_s, steps_of(self.asked, jobs), self.asked.seed
        whole = math.inf if steps is None else steps * share
        if limit_s is None:
            return Effort(whole, seed=seed)
        ends = self.began + limit_s * until
        return Effort(whole, lambda: ends - time.monotonic(), self.asked.workers, seed)

    def rest(self, jobs: int, until: float, share: float) -> Effort:
        """The same of what the schedule itself leaves of the limit."""
        return self.effort(jobs, OF_SCHEDULE + (1 - OF_SCHEDULE) * until, share)


def steps_of(asked: ScheduleRequest, jobs: int) -> int | None:
    """Steps that are made at most: those of the default, unless others or a time limit are asked for."""
    return usual_steps(jobs) if asked.steps is None and asked.time_limit_s is None else asked.steps


def found_schedule(grid: Grid, asked: ScheduleRequest, clock: Clock) -> ScheduleFound:
    """Earliest deadline first at once, then the best that is found with the work, with the gap."""
    edf = edf_schedule(grid) or []
    if asked.is_at_once:
        return ScheduleFound(edf, Found(edf, grid.least), {}, is_installed(), False, asked.seed)
    found = best_found(grid, edf, clock.effort(len(grid.jobs), OF_SCHEDULE, 1.0), np.random.default_rng(asked.seed))
    rest, dice = partial(clock.rest, len(grid.jobs)), partial(np.random.default_rng, asked.seed)
    more = one_more_of_each(grid, found, rest, dice) if len(grid.jobs) <= MOST_COMPARED else {}
    sooner = found._replace(placed=begun_sooner(grid, found.placed))
    limit_s = asked.time_limit_s if found.is_cut else None
    return ScheduleFound(edf, sooner, more, is_installed(), True, asked.seed, limit_s)


def inputs_of(asked: ScheduleRequest, file: JobsFile, slot_s: float) -> list[Input]:
    """What was understood, and where it came from."""
    rows = [
        ("jobs", f"{len(file.jobs):,}", "file"),
        ("pools", ", ".join(f"{p.name} ({p.words.gpus}x {p.words.gpu})" for p in file.pools), "file"),
        ("slot", f"{slot_s / MINUTE:g} min", "default" if file.words.slot_s is None else "file"),
        ("search", *searched_by(asked, len(file.jobs))),
        ("seed", str(asked.seed), asked.origin("seed")),
    ]
    if file.words.start is not None:
        rows.append(("start", file.words.start.isoformat(sep=" "), "file"))
    return [Input(name=name, value=value, origin=origin) for name, value, origin in rows]


def searched_by(asked: ScheduleRequest, jobs: int) -> tuple[str, str]:
    """How much is searched, and who said so."""
    if asked.is_at_once:
        return "none", "given"
    steps, limit_s = steps_of(asked, jobs), asked.time_limit_s
    told = [*([] if steps is None else [f"{steps:,} steps"]), *([] if limit_s is None else [f"{limit_s:g} s"])]
    return " or ".join(told), "default" if asked.steps is None and limit_s is None else "given"
