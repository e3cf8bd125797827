"""Several models planned together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import SerializerFunctionWrapHandler, model_serializer

from gpufleet.api.answers import ServeAnswer
from gpufleet.api.launches import tenant_launch
from gpufleet.api.plans import ServeRequest, answered, solved
from gpufleet.catalog.load import Catalog, load_catalog
from gpufleet.errors import UsageError
from gpufleet.optimize.together import Group, Solved, planned_together
from gpufleet.results.fleet import FleetPlan, SharedDeployment
from gpufleet.results.fleet_plan import fleet_plan

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
    shared, machines are.

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
    tables = load_catalog() if catalog is None else catalog
    every = [solved(request, tables) for request in requests]
    pairs = [(question, solution) for question, solution, _ in every]
    plans = [answered(request, *parts, tables) for request, parts in zip(requests, every, strict=True)]
    groups = planned_together(pairs) if all(plan.is_feasible for plan in plans) else []
    shares = any(group.shared is not None for group in groups)
    fleet = fleet_plan(plans, pairs, groups, budget_usd_per_hour, tables.sources, [SHARING] if shares else [])
    started = with_launches(fleet.shared, groups, requests, pairs)
    return FleetAnswer.model_construct(**{**dict(fleet), "shared": started})


def with_launches(
    shared: Sequence[SharedDeployment],
    groups: Sequence[Group],
    requests: Sequence[ServeRequest],
    solved_ones: Sequence[Solved],
) -> list[SharedDeployment]:
    """Shared machines whose tenants say how each replica is started."""
    told = []
    for deployment, machines in zip(shared, (g.shared for g in groups if g.shared is not None), strict=True):
        started = [
            plan.model_copy(update={"launch": tenant_launch(requests[t.model].model, *solved_ones[t.model], t.row)})
            for plan, t in zip(deployment.tenants, machines.tenants, strict=True)
        ]
        told.append(deployment.model_copy(update={"tenants": started}))
    return told
