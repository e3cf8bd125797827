"""What services of models that write say beyond any service: layouts, KV cache, tokens and electricity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpufleet.answers.energy import Hours, energy_of_gpus, energy_of_own, working_ratio
from gpufleet.answers.ranks import ranks_of
from gpufleet.answers.service_plan import Context, ServiceKind
from gpufleet.architecture.parameters import num_active_parameters
from gpufleet.domain.token_counts import AssumedCounts
from gpufleet.domain.workload import RequestClass
from gpufleet.optimize.copies.decoder import Replicas
from gpufleet.optimize.demand import Demand
from gpufleet.optimize.market import PricedPlacement
from gpufleet.optimize.placement import Placement
from gpufleet.optimize.size import Operation, operate
from gpufleet.pricing.unit_cost import usd_per_million_tokens
from gpufleet.results.plan import Deployment, Energy, ServePlan


def of_plan(context: Context[Replicas]) -> dict[str, Any]:
    """Tokens of a request."""
    question, solution = context.question, context.solution
    return {
        "num_active_parameters": num_active_parameters(solution.copies.model.arch),
        "input_tokens": question.demand.workload.input_tokens,
        "output_tokens": question.demand.workload.output_tokens,
        "num_classes": sum(1 for c in question.demand.workload.classes if c.name),
        **lengths_of(question.demand.workload.classes),
    }


def lengths_of(classes: Sequence[RequestClass]) -> dict[str, Any]:
    """Which tokens differ from request to request and how far, and of which nobody said how."""
    counts = {"input": [c.input_tokens for c in classes], "output": [c.output_tokens for c in classes]}
    differ = {name: [t for t in of_classes if not t.is_alike] for name, of_classes in counts.items()}
    is_one_kind = len(classes) == 1 and not classes[0].name
    return {
        "lengths_differ": [name for name, spread in differ.items() if spread],
        "lengths_assumed": [name for name, t in differ.items() if any(isinstance(c, AssumedCounts) for c in t)],
        **{
            f"{name}_{end}_tokens": spread[0].at(end)
            for name, spread in differ.items()
            for end in ("p90", "p95")
            if spread and is_one_kind
        },
    }


def of_row(context: Context[Replicas], priced: PricedPlacement, running: Operation) -> dict[str, Any]:
    """Layout and KV format of a replica, what tokens cost, and electricity."""
    return {
        **layout_of(context.solution.copies, priced.placement.row),
        "usd_per_million_output_tokens": usd_per_million_output(priced, context.question.demand),
        "energy": energy_of(context, priced),
    }


def layout_of(copies: Replicas, row: int) -> dict[str, Any]:
    """How a replica is spread, and what its cache is kept in."""
    layout = copies.layout(row)
    return {"kv_precision": copies.kv_precision(row), "layout": layout.label, "ranks": ranks_of(layout)}


SERVICE = ServiceKind(ServePlan, Deployment, of_plan, of_row)


def usd_per_million_output(priced: PricedPlacement, demand: Demand) -> float:
    """What a million generated tokens cost, over all hours."""
    tokens_per_s = demand.mean_requests_per_s * demand.workload.output_tokens
    return float(usd_per_million_tokens(priced.usd_per_hour, tokens_per_s))


def energy_of(context: Context[Replicas], priced: PricedPlacement) -> Energy | None:
    """Electricity of all machines of a placement, over all hours."""
    demand, p = context.question.demand, priced.placement
    hours, tokens_per_s = hours_of(context, priced), demand.mean_requests_per_s * demand.workload.output_tokens
    if priced.offer.own_power is not None:
        return energy_of_own(
            priced.offer.own_power,
            num_gpus=p.instance.gpu_count * p.instance_count,
            num_machines=p.instance_count,
            working_ratio=working_ratio(hours),
            output_tokens_per_s=tokens_per_s,
        )
    watts = context.solution.copies.gpu(p.row).board_power_watts
    return energy_of_gpus(board_power_watts=watts, hours=hours, output_tokens_per_s=tokens_per_s)


def hours_of(context: Context[Replicas], priced: PricedPlacement) -> list[Hours]:
    """The hours of a day at the full rate, and the quiet ones with the machines that are kept."""
    demand, p = context.question.demand, priced.placement
    busy = hours_at(context, p, p.instance_count, demand.workload.rate_requests_per_s, demand.busy_ratio)
    if demand.quiet is None:
        return [busy]
    quiet = demand.quiet
    return [busy, hours_at(context, p, priced.quiet_instance_count, quiet.rate_requests_per_s, quiet.time_ratio)]


def hours_at(
    context: Context[Replicas], p: Placement, machines: int, requests_per_s: float, time_ratio: float
) -> Hours:
    """What so many machines of a placement do at a rate."""
    found, replicas = context.solution.found, machines * (p.replicas // p.instance_count)
    running = operate(found, p.row, requests_per_s / replicas)
    return Hours(
        time_ratio=time_ratio,
        num_gpus=p.instance.gpu_count * machines,
        working_gpus=replicas * p.gpus_per_replica,
        batch=running.batch,
        load_ratio=running.requests_per_s / float(found.sustained_requests_per_s[p.row]),
    )
