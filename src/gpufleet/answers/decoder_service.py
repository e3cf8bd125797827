"""What services of models that write say beyond any service: layouts, tokens, electricity, and two offers together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from gpufleet.answers.figures import accepted_tokens
from gpufleet.answers.service_plan import Context, ServiceKind, deployment
from gpufleet.architecture.parameters import num_active_parameters
from gpufleet.domain.bill import BillLine
from gpufleet.domain.offer import OwnPower
from gpufleet.domain.token_counts import AssumedCounts
from gpufleet.domain.workload import RequestClass
from gpufleet.optimize.copies.decoder import Replicas, WriterQuestion, WriterSolution
from gpufleet.optimize.demand import Demand
from gpufleet.optimize.flips import at_rate
from gpufleet.optimize.front import pareto_front
from gpufleet.optimize.market import PricedPlacement
from gpufleet.optimize.mix import Mix, Part
from gpufleet.optimize.placement import Placement
from gpufleet.optimize.size import Operation, operate
from gpufleet.pricing.effective_price import usd_per_month
from gpufleet.pricing.energy import (
    Hours,
    kg_co2_per_hour,
    kwh_per_hour,
    kwh_per_million_tokens,
    working_ratio,
)
from gpufleet.pricing.owned import own_kwh_per_hour
from gpufleet.pricing.rest_of_bill import line_usd_per_month
from gpufleet.pricing.unit_cost import usd_per_million_tokens
from gpufleet.provenance import Grade
from gpufleet.results.base import Figure, Launch, Ranks
from gpufleet.results.plan import (
    BillCost,
    Deployment,
    Energy,
    Front,
    MixedDeployment,
    MixPart,
    RentedService,
    ServePlan,
)


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
    return {
        "kv_precision": copies.kv_precision(row),
        "layout": layout.label,
        "ranks": Ranks.made_of(layout),
        "drafts": copies.drafts(row),
        "accepted_tokens": accepted_tokens(copies.candidates, row),
    }


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


def energy_of_gpus(
    *, board_power_watts: float | None, hours: Sequence[Hours], output_tokens_per_s: float
) -> Energy | None:
    """Board power x share of time with work, between the load factor and all of the time; None: power not known.

    A mean over the hours of a day; idle GPUs count at the high end alone.
    """
    if board_power_watts is None:
        return None
    num_gpus = sum(h.time_ratio * h.num_gpus for h in hours)
    working = working_ratio(hours) * num_gpus
    loaded = sum(h.time_ratio * h.working_gpus * h.utilisation_ratio * min(h.load_ratio, 1.0) for h in hours)
    hourly = tuple(float(kwh_per_hour(board_power_watts, gpus, 1.0)) for gpus in (loaded, working, num_gpus))
    per_million = tuple(float(kwh_per_million_tokens(kwh, output_tokens_per_s)) for kwh in hourly)
    return Energy(
        board_power_watts=board_power_watts,
        num_gpus=num_gpus,
        utilisation_ratio=working_ratio(hours),
        kwh_per_hour=stated(hourly, "kWh/h"),
        kwh_per_million_output_tokens=stated(per_million, "kWh"),
    )


def energy_of_own(
    power: OwnPower, *, num_gpus: float, num_machines: float, working_ratio: float, output_tokens_per_s: float
) -> Energy:
    """What machines of one's own draw at the meter, always on as they are charged; low: while replicas have work."""
    always = float(own_kwh_per_hour(power, num_machines))
    hourly = (always * working_ratio, always, always)
    per_million = tuple(float(kwh_per_million_tokens(kwh, output_tokens_per_s)) for kwh in hourly)
    return Energy(
        machine_watts=power.machine_watts,
        num_machines=num_machines,
        cooling_ratio=power.cooling_ratio,
        num_gpus=num_gpus,
        utilisation_ratio=working_ratio,
        kwh_per_hour=stated(hourly, "kWh/h"),
        kwh_per_million_output_tokens=stated(per_million, "kWh"),
    )


def stated(values: tuple[float, ...], unit: str) -> Figure:
    """A figure of (low, value, high) that follows from a rule of thumb."""
    low, value, high = values
    return Figure(value=value, unit=unit, low=low, high=high, grade=Grade.ROOFLINE.label)


def with_grid(deployment: Deployment, grid_g_co2_per_kwh: float) -> Deployment:
    """The same deployment on a grid of this intensity, which the user gave."""
    energy = deployment.energy
    if energy is None:
        return deployment
    kwh = energy.kwh_per_hour
    hourly = tuple(float(kg_co2_per_hour(x or 0.0, grid_g_co2_per_kwh)) for x in (kwh.low, kwh.value, kwh.high))
    emitted = {"grid_g_co2_per_kwh": grid_g_co2_per_kwh, "kg_co2_per_hour": stated(hourly, "kg/h")}
    return deployment.model_copy(update={"energy": energy.model_copy(update=emitted)})


def with_rest_of_bill(plan: ServePlan, lines: Iterable[BillLine]) -> ServePlan:
    """The plan with the lines of its chosen place; they do not take part in the ranking."""
    return plan.model_copy(update={"rest_of_bill": rest_of_bill(plan.answer, plan.all_hours_requests_per_s, lines)})


def rest_of_bill(d: RentedService, mean_requests_per_s: float, lines: Iterable[BillLine]) -> list[BillCost]:
    """The lines of the place of a deployment, at its machines and the rate over all hours."""
    return [
        BillCost.made_of(
            line,
            line=line.name,
            usd_per_month=line_usd_per_month(line, d.mean_instance_count, mean_requests_per_s),
        )
        for line in lines
        if line.applies_to(d.cloud, d.region)
    ]


def front_of(question: WriterQuestion, solution: WriterSolution, figure: str) -> Front:
    """Every deployment of the front, with its figures at the asked rate."""
    context = Context.of(question, solution)
    points = pareto_front(question, solution, figure)
    return Front(figure=figure, points=[deployment(SERVICE, context, point.priced) for point in points])


def mixed_deployment(
    question: WriterQuestion, solution: WriterSolution, mix: Mix, launches: Sequence[Launch | None]
) -> MixedDeployment:
    """Both parts at the rates that they get, how each is started, and what they cost together."""
    tokens_per_s = question.demand.mean_requests_per_s * question.demand.workload.output_tokens
    return MixedDeployment(
        parts=[mix_part(question, solution, part, how) for part, how in zip(mix.parts, launches, strict=True)],
        usd_per_hour=mix.usd_per_hour,
        usd_per_month=float(usd_per_month(mix.usd_per_hour)),
        usd_per_million_output_tokens=float(usd_per_million_tokens(mix.usd_per_hour, tokens_per_s)),
    )


def mix_part(question: WriterQuestion, solution: WriterSolution, part: Part, launch: Launch | None) -> MixPart:
    """One part as a deployment of its own share of the requests; least replicas and failures are of both together."""
    rate = question.demand.workload.rate_requests_per_s * part.rate_ratio
    demand = replace(at_rate(question.demand, rate), min_replicas=1)
    context = Context.of(replace(question, demand=demand), solution)
    return MixPart(
        share_ratio=part.rate_ratio,
        requests_per_s=rate,
        can_be_had=part.priced.offer.most_instances,
        needed_alone=round(part.needed_alone),
        deployment=deployment(SERVICE, context, part.priced).model_copy(update={"launch": launch}),
    )
