"""A schedule that was written with `-o json`, read again, and what any schedule keeps.

A file that does not was edited, and no page or tool could make sense of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pydantic import ValidationError

from gpufleet.domain.currency import CURRENCY_KEY
from gpufleet.errors import UsageError
from gpufleet.files import ABSURD_INTEGER, holds_absurd_integer
from gpufleet.inputs.json_text import read_json
from gpufleet.inputs.plan_file import not_valid, of_this_form
from gpufleet.questions.schedule import FIRST_YEAR, LAST_YEAR, MOST_GPUS, NAMES_ARE, a_name
from gpufleet.results.schedule import ScheduledPiece, ScheduledPool, ScheduledRun, SchedulePlan
from gpufleet.units import DAY, MB

WHAT, LARGEST_BYTES = "a schedule", 200 * MB
EXPECTED = "what 'gpufleet schedule jobs.yaml -o json' writes"
LONGEST_S = 366 * 100 * DAY
SLACK_GPUS, SLACK_S, SLACK_RATIO = 1e-6, 1e-3, 1e-3


def read_schedule(path: str | Path) -> SchedulePlan | None:
    """The schedule of a file; None where its name does not end in .json, or it holds jobs that are to be scheduled."""
    if Path(path).suffix.lower() != ".json":
        return None
    content = read_json(path, WHAT, LARGEST_BYTES, EXPECTED)
    if not isinstance(content, dict) or "schema_version" not in content:
        return None
    of_this_form(path, WHAT, content).pop(CURRENCY_KEY, None)
    try:
        plan = SchedulePlan.model_validate(content)
    except ValidationError as error:
        raise not_valid(path, WHAT, error, EXPECTED) from error
    if holds_absurd_integer(plan.model_dump()):
        raise UsageError(f"{str(path)!r} is no schedule: {ABSURD_INTEGER}", expected=EXPECTED)
    if wrong := next(broken_laws(plan), None):
        raise UsageError(f"{str(path)!r} is no schedule: {wrong}", expected=EXPECTED)
    return plan


def broken_laws(plan: SchedulePlan) -> Iterator[str]:
    """What of a schedule cannot be."""
    pools, runs = {pool.pool: pool for pool in plan.pools}, {run.job: run for run in plan.runs}
    if len(pools) < len(plan.pools) or len(runs) < len(plan.runs):
        yield "two pools or two jobs have one name"
    if not (0 < plan.slot_s <= LONGEST_S and plan.makespan_s <= LONGEST_S):
        yield f"a slot of {plan.slot_s:g} s, or a schedule of {plan.makespan_s:g} s"
    if plan.start is not None and not FIRST_YEAR <= plan.start.year <= LAST_YEAR:
        yield f"it starts in the year {plan.start.year}"
    figures = (plan.usd, plan.kwh, plan.makespan_s, plan.late_weighted_hours, plan.edf_late_weighted_hours)
    if not all(is_amount(value) for value in figures):
        yield "its cost, energy or lateness is below zero, or without end"
    elif plan.runs:
        yield from wrong_totals(plan)
    for pool in plan.pools:
        yield from (f"pool {pool.pool!r}: {wrong}" for wrong in wrong_of_pool(pool, plan.runs))
    for run in plan.runs:
        yield from (f"job {run.job!r}: {wrong}" for wrong in wrong_of_run(run, pools, runs))
    for pool in plan.pools:
        if too_many := next(more_than_there_are(pool, plan.runs), None):
            yield f"pool {pool.pool!r}: {too_many}"


def wrong_totals(plan: SchedulePlan) -> Iterator[str]:
    """What is said of all runs and is not what they say together."""
    last_s = max((run.end_s for run in plan.runs if run.pieces), default=plan.makespan_s)
    if not is_close(plan.makespan_s, last_s):
        yield f"it ends {plan.makespan_s:g}, its runs {last_s:g}"
    yield from wrong_sums(plan.usd, plan.kwh, plan.runs)


def wrong_sums(usd: float, kwh: float, runs: Sequence[ScheduledRun]) -> Iterator[str]:
    """What is said to be paid and used by runs, and is not what they say."""
    sums = (("costs", usd, sum(r.usd for r in runs)), ("takes energy of", kwh, sum(r.kwh for r in runs)))
    yield from (f"it {what} {said:g}, its runs {found:g}" for what, said, found in sums if not is_close(said, found))


def is_close(said: float, found: float) -> bool:
    """Whether a figure is another, but for rounding."""
    return math.isclose(said, found, rel_tol=SLACK_RATIO, abs_tol=SLACK_RATIO)


def is_amount(value: float) -> bool:
    """Whether something is an amount of money, energy or time that could be."""
    return math.isfinite(value) and value >= 0


def wrong_of_pool(pool: ScheduledPool, runs: Sequence[ScheduledRun]) -> Iterator[str]:
    """What no pool is."""
    if not is_name(pool.pool):
        yield f"that is no name: {NAMES_ARE}"
    if not 1 <= pool.gpus <= MOST_GPUS:
        yield f"{pool.gpus} GPUs"
    if not all(is_amount(value) for value in (pool.used_ratio, pool.usd, pool.kwh, pool.power_cap_watts or 0.0)):
        yield "its use, cost or energy is below zero, or without end"
    elif runs:
        yield from wrong_sums(pool.usd, pool.kwh, [run for run in runs if run.pool == pool.pool])
    if not all(0 <= o.start_s < o.end_s <= LONGEST_S and 0 < o.gpus <= pool.gpus for o in pool.outages):
        yield "an outage that ends before it begins, or of GPUs that it has not"


def is_name(said: str) -> bool:
    """Whether every tool takes a name."""
    try:
        return a_name(said, "") == said
    except UsageError:
        return False


def wrong_of_run(
    run: ScheduledRun, pools: Mapping[str, ScheduledPool], runs: Mapping[str, ScheduledRun]
) -> Iterator[str]:
    """What no run is."""
    if not is_name(run.job):
        yield f"that is no name: {NAMES_ARE}"
    if run.pool not in pools:
        yield f"it runs in the pool {run.pool!r}, which is not there"
    if not all(0 < gpus <= MOST_GPUS for gpus in (run.gpus, *(option.gpus for option in run.options))):
        yield f"{run.gpus:g} GPUs, or an option of none"
    if not run.pieces or not all(is_after(*pair) for pair in zip(run.pieces, [*run.pieces[1:], None], strict=True)):
        yield "it runs at no time, or its pieces are not one after the other"
        return
    moments = (run.earliest_s, run.deadline_s or 0.0, run.late_s)
    amounts = (run.late_s, run.late_weighted_hours, run.priority, run.usd, run.kwh)
    if not all(abs(moment_s) <= LONGEST_S for moment_s in moments):
        yield "its earliest begin, its deadline or its lateness is without end"
    if not all(is_amount(value) for value in amounts) or not 0 < run.work.value <= LONGEST_S:
        yield "its work, lateness, cost or energy is below zero, nothing, or without end"
    for name in run.after:
        before = runs.get(name)
        if before is None or not before.pieces:
            yield f"it comes after {name!r}, which is not there"
        elif name == run.job or before.end_s > run.start_s + SLACK_S:
            yield f"it comes after {name!r}, and begins before that ends"


def is_after(piece: ScheduledPiece, following: ScheduledPiece | None) -> bool:
    """Whether a piece takes some time and ends before the one that follows begins."""
    ends = LONGEST_S if following is None else following.start_s
    return 0 <= piece.start_s < piece.end_s <= ends + SLACK_S


def more_than_there_are(pool: ScheduledPool, runs: list[ScheduledRun]) -> Iterator[str]:
    """Moments at which jobs of a pool and its outages take more GPUs than it has."""
    taken = [(piece, run.gpus) for run in runs if run.pool == pool.pool for piece in run.pieces]
    changes = [(p.start_s, gpus) for p, gpus in taken] + [(p.end_s, -gpus) for p, gpus in taken]
    changes += [(o.start_s, float(o.gpus)) for o in pool.outages] + [(o.end_s, -float(o.gpus)) for o in pool.outages]
    held = 0.0
    for at_s, gpus in sorted(changes):
        held += gpus
        if held > pool.gpus + SLACK_GPUS:
            yield f"{held:g} of {pool.gpus} GPUs are taken at {at_s:g} s"
