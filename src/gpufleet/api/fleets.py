"""Several models planned together."""

from __future__ import annotations

from collections.abc import Sequence

from gpufleet.api.answers import ServeAnswer
from gpufleet.api.plans import ServeRequest, answered, solved
from gpufleet.catalog.load import Catalog, load_catalog
from gpufleet.errors import UsageError
from gpufleet.optimize.size import PricedPlacement
from gpufleet.optimize.together import Solved, Together, planned_together
from gpufleet.results.fleet import FleetPlan
from gpufleet.results.fleet_plan import fleet_plan
from gpufleet.results.plan import Deployment
from gpufleet.results.serve_plan import Context, deployment

MOST_MODELS = 20
SHARING = "Models share machines only where all of their replicas fit the same offer; latency is that of own GPUs"


def plan_fleet(
    requests: Sequence[ServeRequest], budget_usd_per_hour: float | None = None, catalog: Catalog | None = None
) -> FleetPlan:
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
    tables = load_catalog() if catalog is None else catalog
    every = [solved(request, tables) for request in requests]
    pairs = [(question, solution) for question, solution, _ in every]
    plans = [answered(request, *parts, tables) for request, parts in zip(requests, every, strict=True)]
    found = planned_together(pairs) if all(plan.deployments for plan in plans) else Together([], None, [])
    for model, priced in found.own_machines.items():
        plans[model] = on_own_machines(plans[model], pairs[model], priced)
    shares = any(group.shared is not None for group in found.groups)
    return fleet_plan(plans, pairs, found, budget_usd_per_hour, tables.sources, [SHARING] if shares else [])


def on_own_machines(plan: ServeAnswer, pair: Solved, priced: PricedPlacement) -> ServeAnswer:
    """The plan with the machines that its model gets as its answer, where others need those that are cheapest."""
    question, solution = pair
    if priced == solution.ranked[0]:
        return plan
    answer = deployment(Context.of(question, solution), priced)
    others = [d for d in plan.deployments if key_of_row(d) != key_of_row(answer)]
    first = plan.answer
    words = f"{first.instance_count}x {first.cloud} {first.instance} would cost less, and other models need them more"
    changed = {
        "deployments": [answer, *others],
        "flips": None,
        "mix": None,
        "notes": [*plan.notes, f"{plan.model}: {words}"],
    }
    return plan.model_copy(update=changed)


def key_of_row(d: Deployment) -> tuple[str, str, str]:
    """What a row of the ranking stands for."""
    return d.cloud, d.instance, d.price_kind
