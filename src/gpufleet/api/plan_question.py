"""The question of a plan beside the one that is asked today: what of it somebody changed since."""

from __future__ import annotations

from collections.abc import Sequence

from gpufleet.api.requests import ServeRequest
from gpufleet.api.serve_questions import architecture_of, serve_question, sold_tables, understood
from gpufleet.catalog.load import Catalog
from gpufleet.errors import UsageError
from gpufleet.records import dataclass
from gpufleet.results.base import Input
from gpufleet.results.fleet import FleetPlan
from gpufleet.results.plan import ServePlan
from gpufleet.results.plan_changes import QuestionChange

WRITTEN, TYPED = "file", ("given", "config")


@dataclass(frozen=True)
class Asked:
    """What a workload file asks today: of one model or of several, with the budget that several share."""

    requests: Sequence[ServeRequest]
    budget_usd_per_hour: float | None = None


def question_changes(plan: ServePlan, request: ServeRequest, tables: Catalog) -> list[QuestionChange]:
    """What a workload file asks otherwise than the plan of one model; what was typed as a flag replaces it, as then."""
    question, _ = serve_question(request, architecture_of(request), sold_tables(request, tables))
    was, now = ({i.name: i for i in inputs} for inputs in (plan.inputs, understood(request, question)))
    return [
        QuestionChange(what=name, was=value_of(was.get(name)), now=value_of(now.get(name)))
        for name in {**was, **now}
        if is_asked_otherwise(was.get(name), now.get(name))
    ]


def is_asked_otherwise(was: Input | None, now: Input | None) -> bool:
    """Whether a file says something else of an input, then or now; not where it was typed."""
    if value_of(was) == value_of(now) or (was is not None and was.origin in TYPED):
        return False
    return any(i is not None and i.origin == WRITTEN for i in (was, now))


def value_of(said: Input | None) -> str | None:
    """The value of an input that may not be there."""
    return None if said is None else said.value


def changes_of_fleet_question(plan: FleetPlan, asked: Asked) -> list[QuestionChange]:
    """What is asked otherwise of all models together: which there are, and what they may cost."""
    was, now = plan.budget_usd_per_hour, asked.budget_usd_per_hour
    return [] if now is None or was == now else [QuestionChange(what="budget", was=usd_words(was), now=usd_words(now))]


def usd_words(usd_per_hour: float | None) -> str | None:
    """A budget as inputs say it."""
    return None if usd_per_hour is None else f"${usd_per_hour:,.2f}/h"


def refuse_other_models(plan: ServePlan | FleetPlan, asked: Asked) -> None:
    """A plan of so many models is compared with a file of as many."""
    planned = len(plan.plans) if isinstance(plan, FleetPlan) else 1
    if planned != len(asked.requests):
        found = f"{planned} in the plan, {len(asked.requests)} in the workload file"
        raise UsageError("the workload file has another number of models", found=found, hint="Plan again.")
