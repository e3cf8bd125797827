"""Several models planned together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import SerializerFunctionWrapHandler, model_serializer

from gpufleet.api.answers import ServeAnswer
from gpufleet.api.launches import launched, serve_launches, tenant_launch
from gpufleet.api.plans import ServeRequest, answered, solved
from gpufleet.catalog.load import Catalog, load_catalog
from gpufleet.errors import UsageError
from gpufleet.optimize.size import PricedPlacement
from gpufleet.optimize.together import Group, Solved, Together, planned_together
from gpufleet.results.fleet import FleetPlan, SharedDeployment
from gpufleet.results.fleet_plan import fleet_plan
from gpufleet.results.plan import Deployment
from gpufleet.results.serve_plan import Context, deployment

MOST_MODELS = 20
SHARING = "Models share machines only where all of their replicas fit the same offer; latency is that of own GPUs"


class FleetAnswer(FleetPlan):
    """A plan of several models that says what it rests on when it is written down."""

    @model_serializer(mode="wrap")
    def _written(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        founded = [plan.with_basis() if isinstance(plan, ServeAnswer) else plan for plan in self.plans]
        return dict(write(self.model_copy(update={"plans": founded})))


def plan_fleet(
    requests: Sequence[ServeRequest], budget_usd_per_hour: float | None = None, catalog: Catalog | None = None
) -> FleetAnswer:
    """The cheapest machines for several models, each with its own demand, within one budget.

    Each model is planned alone; then replicas of several models share machines where that saves. GPUs are never
    shared, machines are. Quotas, reservations and one's own racks hold for the sum of all models; where they are too
    small, `missing` says for what.

    >>> asked = [ServeRequest("llama-3.1-8b", 5.0, 1000, 200), ServeRequest("qwen3-32b", 1.0, 1000, 200)]
    >>> fleet = plan_fleet(asked)
    >>> fleet.usd_per_hour <= fleet.usd_per_hour_apart
    True
    """
    if not 1 <= len(requests) <= MOST_MODELS:
        expected = f"from 1 to {MOST_MODELS}"
        raise UsageError("the number of models is out of range", found=len(requests), expected=expected)
    if budget_usd_per_hour is not None and not budget_usd_per_hour > 0:
        raise UsageError("the budget is out of range", found=budget_usd_per_hour, expected="USD per hour above 0")
    if any(request.fleet_today is not None for request in requests):
        raise UsageError("today's fleet beside several models", hint="Ask about one model and its machines at a time.")
    tables = load_catalog() if catalog is None else catalog
    every = [solved(request, tables) for request in requests]
    pairs = [(question, solution) for question, solution, _ in every]
    plans = [answered(request, *parts, tables) for request, parts in zip(requests, every, strict=True)]
    found = planned_together(pairs) if all(plan.deployments for plan in plans) else Together([], None, [])
    for model, priced in found.own_machines.items():
        plans[model] = on_own_machines(plans[model], requests[model], pairs[model], priced)
    shares = any(group.shared is not None for group in found.groups)
    fleet = fleet_plan(plans, pairs, found, budget_usd_per_hour, tables.sources, [SHARING] if shares else [])
    started = with_launches(fleet.shared, found.groups, requests, pairs)
    return FleetAnswer.model_construct(**{**dict(fleet), "shared": started})


def on_own_machines(plan: ServeAnswer, request: ServeRequest, pair: Solved, priced: PricedPlacement) -> ServeAnswer:
    """The plan with the machines that its model gets as its answer, where others need those that are cheapest."""
    question, solution = pair
    if priced == solution.ranked[0]:
        return plan
    alone = deployment(Context.of(question, solution), priced)
    [answer] = launched([alone], serve_launches(request.model, question, solution, [priced]))
    others = [d for d in plan.deployments if key_of_row(d) != key_of_row(answer)]
    first = plan.answer
    words = f"{first.instance_count}x {first.cloud} {first.instance} would cost less, and other models need them more"
    changed = {
        "deployments": [answer, *others],
        "flips": None,
        "mix": None,
        "looser_limits": [],
        "notes": [*plan.notes, f"{plan.model}: {words}"],
    }
    return plan.model_copy(update=changed)


def key_of_row(d: Deployment) -> tuple[str, str, str]:
    """What a row of the ranking stands for."""
    return d.cloud, d.instance, d.price_kind


def with_launches(
    shared: Sequence[SharedDeployment],
    groups: Sequence[Group],
    requests: Sequence[ServeRequest],
    solved_ones: Sequence[Solved],
) -> list[SharedDeployment]:
    """Shared machines whose tenants say how each replica is started."""
    told = []
    for machines, held in zip(shared, (g.shared for g in groups if g.shared is not None), strict=True):
        started = [
            plan.model_copy(update={"launch": tenant_launch(requests[t.model].model, *solved_ones[t.model], t.row)})
            for plan, t in zip(machines.tenants, held.tenants, strict=True)
        ]
        told.append(machines.model_copy(update={"tenants": started}))
    return told
