"""A schedule as a page: what is late, the bars of all jobs, why now and why there, what one GPU more is worth."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Literal

from gpufleet.domain.reason import Reason
from gpufleet.report.gantt_svg import LONGEST_BY_WEEKDAY_S, gantt_picture
from gpufleet.report.numbers import amount, duration, percent, several, significant, usd
from gpufleet.report.page import Columns, Fact, Page, Table, column, data, number
from gpufleet.report.words import sentence
from gpufleet.results.schedule import OneMoreGpu, ScheduledPool, ScheduledRun, SchedulePlan, ScheduleReason
from gpufleet.units import HOUR

BAR_CHARACTERS, MOST_ROWS = 32, 60
RUNS, WAITS, DEADLINE, PAST, NOTHING = "█", "·", "|", "!", " "
INSTALL = "pip install 'gpu-fleet-optimizer[solve]'"


def schedule_page(plan: SchedulePlan, most_rows: int = MOST_ROWS) -> Page:
    """Headline, bars, reasons, pools; or what has to change. People read no more than so many jobs."""
    if not plan.is_feasible:
        return Page(infeasible_words(plan), next_step="change the file of jobs as this says, and ask again.")
    tables = [bars_table(plan, most_rows), reasons_table(plan), pools_table(plan)]
    return Page(headline(plan), tables, notes(plan), [how_good(plan)], facts(plan), title(plan), next_step(plan))


def title(plan: SchedulePlan) -> str:
    """The answer as a manager reads it: how many jobs are in time, and when the last is done."""
    jobs, late = several(len(plan.runs), "job"), plan.late_jobs
    in_time = f"All {jobs} are in time" if len(plan.runs) > 1 else "The job is in time"
    which = f"{late} of {jobs} {'is' if late == 1 else 'are'} late" if late else in_time
    return f"{which}: done {dated(plan, plan.makespan_s)}."


def facts(plan: SchedulePlan) -> list[Fact]:
    """How late all are together, and beside earliest deadline first; what is paid and drawn."""
    late, least = plan.late_weighted_hours, plan.least_late_weighted_hours
    proof = "nothing can be late by less" if plan.is_late_for_sure else f"at least {significant(least)}"
    sure = proof if plan.is_searched and plan.has_solver else "nothing better was looked for"
    close = close_jobs(plan.runs)
    sure = f"{several(len(close), 'job')} late at the high end of their duration" if close and not late else sure
    look: Literal["bad", "tight", "good"] = "bad" if late else "tight" if close else "good"
    edf = f"{significant(plan.edf_late_weighted_hours)} h late"
    budget = "" if plan.budget_usd is None else f"budget {usd(plan.budget_usd)}"
    return [
        Fact("Late, by priority", f"{significant(late)} h" if late else "0 h", sure, look),
        *([Fact("Earliest deadline first", edf, several(plan.edf_late_jobs, "job"))] if plan.is_searched else []),
        *([Fact("Cost", usd(plan.usd), budget)] if plan.usd else []),
        *([Fact("Electricity", f"{amount(plan.kwh)} kWh")] if plan.kwh else []),
    ]


def next_step(plan: SchedulePlan) -> str:
    """What to do with the answer."""
    if not plan.is_searched:
        return "ask without --at-once, which looks for a better one."
    more = "see below what one GPU more saves, or give late jobs more time; then " if plan.late_jobs else ""
    return f"{more}write it for the tool that runs your jobs (-o slurm, kueue or sky)."


def infeasible_words(plan: SchedulePlan) -> str:
    """Why nothing can be scheduled, and the smallest change, in a sentence."""
    why = "; ".join(said(relaxation.why) for relaxation in plan.relaxations)
    change = " and ".join(said(relaxation.change) for relaxation in plan.relaxations)
    return f"This cannot be scheduled: {why}. It can {change}."


def said(reason: ScheduleReason) -> str:
    """A reason in words."""
    return sentence(Reason(reason.code, tuple(reason.figures.items())))


def headline(plan: SchedulePlan) -> str:
    """How many jobs are in time, what all of them cost, and whether a limit cut the search."""
    rent = f", {usd(plan.usd)}" if plan.usd else ""
    energy = f", {amount(plan.kwh)} kWh" if plan.kwh else ""
    limit, jobs = duration(plan.cut_after_s), several(len(plan.runs), "job")
    cut = f" The time limit of {limit} cut the search: a longer one may find better."
    done = f"done {dated(plan, plan.makespan_s)}{rent}{energy}.{'' if plan.cut_after_s is None else cut}"
    if not plan.late_jobs:
        return f"All {jobs} in time: {done}"
    return f"{plan.late_jobs} of {jobs} late, by {significant(plan.late_weighted_hours)} hours by priority: {done}"


def how_good(plan: SchedulePlan) -> str:
    """How far it is from the best, as far as that is known, and from earliest deadline first."""
    if not plan.is_searched:
        return "Earliest deadline first with holes filled, at once: nothing better was looked for."
    edf = f"{significant(plan.edf_late_weighted_hours)} late hours by priority in {several(plan.edf_late_jobs, 'job')}"
    first = f"Earliest deadline first alone: {edf}."
    if plan.is_optimal:
        return f"{first} Proven: no schedule is late by less, nor as late for less money, then energy."
    if not plan.late_weighted_hours:
        return f"{first} Nothing can be late by less; a cheaper schedule was not ruled out."
    if not plan.has_solver:
        return first
    if not plan.least_late_weighted_hours:
        return f"{first} How much less late anything could be is not known."
    least = significant(plan.least_late_weighted_hours)
    return f"{first} No schedule has less than {least}: a gap of {percent(plan.gap_ratio)}."


def moment(plan: SchedulePlan, seconds: float) -> str:
    """A moment: a day and an hour where the schedule has a date, else hours from its start.

    In a schedule of weeks a day of the month says more than one of the week.
    """
    if plan.start is None:
        return f"{significant(seconds / HOUR)} h"
    form = "%d %b %H:%M" if plan.makespan_s > LONGEST_BY_WEEKDAY_S else "%a %d %H:%M"
    return (plan.start + timedelta(seconds=seconds)).strftime(form)


def dated(plan: SchedulePlan, seconds: float) -> str:
    """The same with its month and year."""
    if plan.start is None:
        return moment(plan, seconds)
    return (plan.start + timedelta(seconds=seconds)).strftime("%a %d %b %Y %H:%M")


def bars_table(plan: SchedulePlan, most_rows: int) -> Table:
    """Every job as a bar: waiting, running, its deadline."""
    columns: Columns[ScheduledRun] = [
        column("job", lambda run: run.job),
        column("where", lambda run: f"{amount(run.gpus)}x {run.pool}"),
        column(axis(plan), partial(bar, plan), is_drawing=True, where="text"),
        number("late", lambda run: run.late_s, key="late_s", show=lambda late: duration(late) if late else ""),
        *data("start_s", "end_s", "usd", "kwh"),
    ]
    rest = max(len(plan.runs) - most_rows, 0)
    more = [f"{several(rest, 'further job')}: -o json and -o csv have all."] if rest else []
    since = "" if plan.start is None else f" from {dated(plan, 0.0)}"
    key = [f"{RUNS} runs, {WAITS} could, {DEADLINE} deadline, {PAST} past it"]
    return Table.of(plan.runs[:most_rows], columns, f"Jobs{since}", more, drawing=key, picture=gantt_picture(plan))


def axis(plan: SchedulePlan) -> str:
    """The two ends of all bars."""
    left, right = moment(plan, 0.0), moment(plan, plan.makespan_s)
    return left + right.rjust(BAR_CHARACTERS - len(left))


def bar(plan: SchedulePlan, run: ScheduledRun) -> str:
    """A bar in characters, each of which stands for an equal part of the schedule."""
    step = plan.makespan_s / BAR_CHARACTERS
    marks = [NOTHING] * BAR_CHARACTERS
    for at in range(BAR_CHARACTERS):
        middle = (at + 0.5) * step
        if run.earliest_s <= middle < run.end_s:
            marks[at] = WAITS
    for piece in run.pieces:
        first = min(int(piece.start_s / step), BAR_CHARACTERS - 1)
        for at in range(first, min(max(round(piece.end_s / step), first + 1), BAR_CHARACTERS)):
            is_past = run.deadline_s is not None and (at + 0.5) * step > run.deadline_s
            marks[at] = PAST if is_past else RUNS
    if run.deadline_s is not None and 0 <= run.deadline_s < plan.makespan_s:
        at = int(run.deadline_s / step)
        marks[at] = DEADLINE if marks[at] in (NOTHING, WAITS) else marks[at]
    return "".join(marks)


def reasons_table(plan: SchedulePlan) -> Table:
    """Why each job runs now, and why there."""
    columns: Columns[ScheduledRun] = [
        column("job", lambda run: run.job),
        column("begins", lambda run: moment(plan, run.start_s)),
        column("why now; what elsewhere", lambda run: f"{said(run.why_now)}; {said(run.why_there)}", wraps=True),
    ]
    return Table.of(plan.runs[:MOST_ROWS], columns, "Why now, and why there", folded=True)


def pools_table(plan: SchedulePlan) -> Table:
    """Pools: how much of them is used, and what one GPU more saves."""
    unknown = "not known yet" if plan.is_searched and not plan.is_late_for_sure else "not asked"
    columns: Columns[ScheduledPool] = [
        column("pool", lambda pool: pool.pool),
        number("GPUs", lambda pool: pool.gpus),
        column("type", lambda pool: pool.gpu),
        column("kind", lambda pool: pool.kind),
        number("used", lambda pool: percent(pool.used_ratio)),
        number("cost", lambda pool: usd(pool.usd)),
        number("kWh", lambda pool: significant(pool.kwh)),
        column(
            "one GPU more saves", lambda pool: unknown if pool.one_more is None else saved(pool.one_more), wraps=True
        ),
    ]
    return Table.of(plan.pools, columns, "Pools")


def saved(more: OneMoreGpu) -> str:
    """What one GPU more saves, and whether that is sure."""
    parts: list[tuple[float, Callable[[float], str]]] = [
        (more.late_weighted_hours, lambda hours: f"{significant(hours)} late hours"),
        (more.usd, lambda dollars: usd(dollars) if dollars > 0 else f"costs {usd(-dollars)}"),
    ]
    words = [write(value) for value, write in parts if value]
    return (", ".join(words) or "nothing") + ("" if more.is_sure else " (as found)")


def notes(plan: SchedulePlan) -> list[str]:
    """What a reader should know; why a GPU more has no price where a longer search might save as much."""
    found = list(plan.notes)
    if plan.is_searched and not plan.is_late_for_sure and not any(pool.one_more for pool in plan.pools):
        found.append("One GPU more is not priced, as the search is not done: --time-limit 60s, or more, looks further.")
    found.append(f"Times are in slots of {duration(plan.slot_s)}: work is rounded up, deadlines are rounded down.")
    found += hopeless(plan.runs)
    close = close_jobs(plan.runs)
    if close:
        found.append(f"In time as expected, late at the high end of their duration: {first_of(close)}.")
    if plan.is_searched and not plan.has_solver:
        found.append(f"OR-Tools is not installed, so nobody knows how much better it could be: {INSTALL}")
    return [*found, "-o sky, kueue and slurm write it for other tools; -o svg draws it."]


def hopeless(runs: Sequence[ScheduledRun]) -> list[str]:
    """Jobs whose deadline nobody could keep as it is stated."""
    past = [run.job for run in runs if run.deadline_s is not None and run.deadline_s <= 0]
    early = [run.job for run in runs if run.deadline_s is not None and 0 < run.deadline_s <= run.earliest_s]
    told = [(past, "Due before the schedule begins"), (early, "Due before they may begin, by 'earliest'")]
    return [f"{words}, so late in any case: {first_of(jobs)}." for jobs, words in told if jobs]


def first_of(jobs: Sequence[str]) -> str:
    """Some names, and how many more there are."""
    return ", ".join(jobs[:3]) + (f" and {len(jobs) - 3} more" if len(jobs) > 3 else "")


def close_jobs(runs: Sequence[ScheduledRun]) -> list[str]:
    """Jobs that are in time as expected, and late at the high end of how long they may take."""
    return [
        run.job
        for run in runs
        if not run.late_s
        and run.deadline_s is not None
        and run.end_s + (run.work.high or run.work.value) - run.work.value > run.deadline_s
    ]
