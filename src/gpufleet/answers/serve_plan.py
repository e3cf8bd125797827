"""A `ServePlan` from a solved serving question: picks figures, adds ranges and words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from gpufleet.answers.energy import Hours, energy_of_gpus, energy_of_own, working_ratio
from gpufleet.answers.price_sources import price_days, price_sources
from gpufleet.answers.ranks import ranks_of
from gpufleet.answers.rejections import rejection_counts
from gpufleet.answers.service_figures import (
    bought_for,
    latency_figures,
    relaxations,
    rented_service,
    slack_of_limits,
)
from gpufleet.architecture.parameters import num_active_parameters, num_parameters
from gpufleet.domain.layout import Layout
from gpufleet.domain.slo import Limit
from gpufleet.optimize.demand import Demand
from gpufleet.optimize.looser import LooserLimit as FoundLooserLimit
from gpufleet.optimize.looser import looser_limits
from gpufleet.optimize.market import PricedPlacement
from gpufleet.optimize.placement import Placement
from gpufleet.optimize.replicas import describe
from gpufleet.optimize.service import ServeQuestion, ServeSolution, is_sold
from gpufleet.optimize.size import ADMISSION_QUANTILE, ROOM, Operation, operate
from gpufleet.performance.load_curves import crowded_batch
from gpufleet.performance.uncertainty import Bounds, fastest_token_s, grades, time_bounds
from gpufleet.pricing.unit_cost import usd_per_million_tokens
from gpufleet.provenance import Grade, Source
from gpufleet.records import dataclass
from gpufleet.report.words import limit_words
from gpufleet.results.base import Figure, Input
from gpufleet.results.plan import Deployment, Energy, LooserLimit, Relaxation, ServePlan

ENGINE_LIMIT = "engine_batch"


@dataclass(frozen=True)
class Context:
    """What turns rows of a solution into deployments."""

    question: ServeQuestion
    solution: ServeSolution
    tpot: Bounds
    ttft: Bounds
    grades: Sequence[int]

    @classmethod
    def of(cls, question: ServeQuestion, solution: ServeSolution) -> Context:
        """Ranges and grades of all candidates of a solution."""
        model, found = solution.model, solution.found
        batch = found.curves.batch[np.maximum(found.best, 0)]
        return cls(question, solution, **time_bounds(model, batch, question.demand.lengths), grades=list(grades(model)))


def serve_plan(
    question: ServeQuestion,
    solution: ServeSolution,
    inputs: list[Input],
    sources: Mapping[str, Source],
    input_hash: str,
    notes: list[str],
    num_rows: int = 10,
) -> ServePlan:
    """The answer: at most `num_rows` deployments, cheapest first, with everything that was rejected."""
    context = Context.of(question, solution)
    deployments = [deployment(context, priced) for priced in solution.ranked[:num_rows]]
    limits = question.demand.workload.slo.limits
    return ServePlan(
        model=question.arch.name,
        num_parameters=num_parameters(question.arch),
        num_active_parameters=num_active_parameters(question.arch),
        rate_requests_per_s=question.demand.workload.rate_requests_per_s,
        mean_requests_per_s=None if question.demand.quiet is None else question.demand.mean_requests_per_s,
        input_tokens=question.demand.workload.input_tokens,
        output_tokens=question.demand.workload.output_tokens,
        headroom_wanted_ratio=question.demand.headroom_ratio,
        confidence=question.demand.confidence,
        inputs=inputs,
        objectives={limit.label: limit.limit_s for limit in limits},
        deployments=deployments,
        rejections=rejection_counts(solution.rejections),
        relaxations=[] if deployments else helping(context, limits),
        looser_limits=[looser_limit(x) for x in looser_limits(question, solution)] if deployments else [],
        num_layouts=solution.num_layouts,
        num_configurations=solution.num_configurations,
        num_offers=len(question.offers),
        price_sources=price_sources(price_days(deployments), sources),
        notes=notes,
        input_hash=input_hash,
    )


def deployment(context: Context, priced: PricedPlacement) -> Deployment:
    """One priced placement at the rate that each of its replicas gets."""
    question, solution = context.question, context.solution
    p, c, row = priced.placement, solution.candidates, priced.placement.row
    demand, palette, label = question.demand, c.palette, Grade(context.grades[row]).label
    running = operate(solution.found, row, demand.workload.rate_requests_per_s / p.replicas)
    bounds = {"ttft": context.ttft, "tpot": context.tpot, "latency": context.tpot}
    latency = latency_figures(solution.found, row, running, bounds, label, {"tpot": floor_s(context, row)})
    binding, layout = what_binds(context, priced, latency), layout_of(context, row)
    return Deployment(
        **rented_service(priced, solution.found, demand, running, latency, bounds, label),
        engine=palette.engines[c.engine[row]].name,
        weight_format=palette.weight_formats[c.weight_format[row]].name,
        kv_precision=palette.kv_precisions[c.kv_precision[row]].name,
        layout=layout.label,
        ranks=ranks_of(layout),
        largest_batch=float(solution.found.curves.largest_batch[row]),
        usd_per_million_output_tokens=usd_per_million_output(priced, demand),
        binding=binding,
        binding_limit=limit_words(binding),
        slack_ratio={**slack_of_limits(solution.found, row, demand, running), ROOM: room_slack(context, row, running)},
        energy=energy_of(context, priced),
    )


def usd_per_million_output(priced: PricedPlacement, demand: Demand) -> float:
    """What a million generated tokens cost, over all hours."""
    tokens_per_s = demand.mean_requests_per_s * demand.workload.output_tokens
    return float(usd_per_million_tokens(priced.usd_per_hour, tokens_per_s))


def floor_s(context: Context, row: int) -> float:
    """The time per token that no candidate of this shape beats."""
    c = context.solution.candidates
    weights = c.palette.weight_formats[c.weight_format[row]]
    bandwidth = c.palette.accelerators[c.accelerator[row]].bandwidth_bytes_per_s
    return fastest_token_s(context.question.arch, weights, layout_of(context, row), bandwidth)


def layout_of(context: Context, row: int) -> Layout:
    """The layout of a candidate as a noun."""
    c = context.solution.candidates
    return Layout(int(c.tp[row]), int(c.pp[row]), int(c.ep[row]), int(c.attention_dp[row]))


def what_binds(context: Context, priced: PricedPlacement, latency: Mapping[str, Figure]) -> str:
    """The limit that forbids more load per replica, or what else decides how much is bought."""
    row = priced.placement.row
    limit = bought_for(context.solution.found, context.question.demand, priced.placement, latency)
    if limit == ROOM and context.solution.limited_by_engine[row]:
        return ENGINE_LIMIT
    return limit


def room_slack(context: Context, row: int, running: Operation) -> float:
    """The share of the KV room that a burst leaves."""
    crowded = float(crowded_batch(np.asarray(running.batch), ADMISSION_QUANTILE))
    return 1 - crowded / float(context.solution.found.curves.largest_batch[row])


def energy_of(context: Context, priced: PricedPlacement) -> Energy | None:
    """Electricity of all machines of a placement, over all hours."""
    demand, c, p = context.question.demand, context.solution.candidates, priced.placement
    hours, tokens_per_s = hours_of(context, priced), demand.mean_requests_per_s * demand.workload.output_tokens
    if priced.offer.own_power is not None:
        return energy_of_own(
            priced.offer.own_power,
            num_gpus=p.instance.gpu_count * p.instance_count,
            num_machines=p.instance_count,
            working_ratio=working_ratio(hours),
            output_tokens_per_s=tokens_per_s,
        )
    watts = c.palette.accelerators[c.accelerator[p.row]].board_power_watts
    return energy_of_gpus(board_power_watts=watts, hours=hours, output_tokens_per_s=tokens_per_s)


def hours_of(context: Context, priced: PricedPlacement) -> list[Hours]:
    """The hours of a day at the full rate, and the quiet ones with the machines that are kept."""
    demand, p = context.question.demand, priced.placement
    busy = hours_at(context, p, p.instance_count, demand.workload.rate_requests_per_s, demand.busy_ratio)
    if demand.quiet is None:
        return [busy]
    quiet = demand.quiet
    return [busy, hours_at(context, p, priced.quiet_instance_count, quiet.rate_requests_per_s, quiet.time_ratio)]


def hours_at(context: Context, p: Placement, machines: int, requests_per_s: float, time_ratio: float) -> Hours:
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


def helping(context: Context, limits: Sequence[Limit]) -> list[Relaxation]:
    """What would have to give way, where nothing serves."""
    candidates = context.solution.candidates
    if not len(candidates):
        return []
    return relaxations(
        context.solution.found, is_sold(context.question, candidates), limits, partial(describe, candidates)
    )


def looser_limit(found: FoundLooserLimit) -> LooserLimit:
    """What one limit costs, as users get it."""
    offer = found.priced.offer
    return LooserLimit(
        limit=found.limit.label,
        limit_s=found.limit.limit_s,
        lone_s=found.lone_s,
        looser_s=found.looser_s,
        cloud=offer.cloud,
        region=offer.region,
        instance=offer.instance,
        price_kind=offer.price_kind.value,
        instance_count=found.priced.placement.instance_count,
        usd_per_hour=found.priced.usd_per_hour,
        saved_ratio=found.saved_ratio,
    )
