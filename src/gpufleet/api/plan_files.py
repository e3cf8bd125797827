"""The plan of a file that a verb is given, and what its page says of that file."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from os import PathLike, fspath

from gpufleet.api.answers import ServeAnswer
from gpufleet.api.fleets import plan_fleet
from gpufleet.api.plan_basis import request_of
from gpufleet.api.plans import plan_serve
from gpufleet.api.serve_questions import architecture_of
from gpufleet.catalog.tables import Catalog
from gpufleet.errors import GpufleetError, UsageError
from gpufleet.inputs.plan_file import CLOSE_RATIO, PLAN_AGAIN, WITHOUT_SEAL, read_plan, read_questions
from gpufleet.provenance import SUPPOSED
from gpufleet.results.fleet import FleetPlan
from gpufleet.results.job import JobPlan
from gpufleet.results.plan import ServePlan

PLANNED_AGAIN = "was edited: its question is planned again with today's tables, and none of its figures is used"
TOLD = (WITHOUT_SEAL, PLANNED_AGAIN)


def plan_in(
    plan: ServePlan | FleetPlan | str | PathLike[str], tables: Catalog, *, edited: bool = False
) -> ServePlan | FleetPlan:
    """A plan, or that of a file; an `edited` file is refused, or its question is planned again."""
    if isinstance(plan, (ServePlan, FleetPlan)):
        return plan
    path = fspath(plan)
    try:
        found = read_plan(path)
        if any(WITHOUT_SEAL in note for note in found.notes):
            refuse_other_figures(path, found, tables)
        return found
    except UsageError:
        if not edited:
            raise
    again = planned_again(path, tables)
    return again.model_copy(update={"notes": [*again.notes, f"Warning: the plan {path!r} {PLANNED_AGAIN}."]})


def refuse_other_figures(path: str, plan: ServePlan | FleetPlan, tables: Catalog) -> None:
    """Refuse a plan without a seal that is of another model, rate or GPU than its own question and machines are."""
    for one in plan.plans if isinstance(plan, FleetPlan) else [plan]:
        if told := next(unlike_its_question(one, tables), None):
            raise UsageError(f"the plan {path!r} contradicts itself: {told}", hint=PLAN_AGAIN)


def unlike_its_question(plan: ServePlan, tables: Catalog) -> Iterator[str]:
    """What the figures of a plan are of, where its question or today's tables say something else."""
    for d in plan.deployments:
        known = tables.instances.get((d.cloud, d.instance))
        if known is not None and known.accelerator != d.gpu:
            yield f"{d.cloud} {d.instance} has no {d.gpu}, but {known.accelerator}"
    if plan.basis is None:
        return
    request = request_of(plan.basis)
    with suppress(GpufleetError):
        if (named := architecture_of(request).name) != plan.model:
            yield f"it is of {plan.model}, and its question of {named}"
    if not request.classes and not math.isclose(request.rate, plan.rate_requests_per_s, rel_tol=CLOSE_RATIO):
        yield f"it is for {plan.rate_requests_per_s:g} requests/s, and its question for {request.rate:g}"


def planned_again(path: str, tables: Catalog) -> ServePlan | FleetPlan:
    """Today's answer to the question of a file."""
    bases, budget, is_fleet = read_questions(path)
    requests = [request_of(basis) for basis in bases]
    if is_fleet:
        fleet = plan_fleet(requests, budget, tables)
        plans = [p.with_basis() if isinstance(p, ServeAnswer) else p for p in fleet.plans]
        return fleet.model_copy(update={"plans": plans})
    return plan_serve(requests[0], tables).with_basis()


def notes_on_file(plan: ServePlan | FleetPlan | JobPlan) -> list[str]:
    """What a page says of the file of the plan that it rests on, and what the whole plan supposes."""
    plans = plan.plans if isinstance(plan, FleetPlan) else []
    said = dict.fromkeys([*plan.notes, *(note for one in plans for note in one.notes)])
    return [note for note in said if note.startswith(SUPPOSED) or any(told in note for told in TOLD)]
