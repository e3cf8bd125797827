"""A `ServePlan` from a solved serving question: picks figures, adds ranges and words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gpufleet.architecture.parameters import num_active_parameters, num_parameters
from gpufleet.domain.layout import Layout
from gpufleet.domain.slo import Limit, metric_of
from gpufleet.optimize.looser import LooserLimit as FoundLooserLimit
from gpufleet.optimize.looser import looser_limits
from gpufleet.optimize.replicas import describe
from gpufleet.optimize.serve import ServeQuestion, ServeSolution, at_least_ms, in_ms, is_sold
from gpufleet.optimize.size import (
    ADMISSION_QUANTILE,
    LOAD,
    ROOM,
    SATURATION,
    Demand,
    Operation,
    Placement,
    PricedPlacement,
    among,
    binding_limit,
    effective_price,
    needed_alone,
    needed_together,
    operate,
    operate_beyond,
)
from gpufleet.performance.load_curves import crowded_batch
from gpufleet.performance.serving import HIGHEST_LOAD_RATIO
from gpufleet.performance.uncertainty import Bounds, fastest_token_s, grades, time_bounds
from gpufleet.pricing.effective_price import usd_per_month
from gpufleet.pricing.unit_cost import usd_per_million_tokens, usd_per_request
from gpufleet.provenance import Grade, Source
from gpufleet.results.base import Figure, Input
from gpufleet.results.energy import energy_of_gpus
from gpufleet.results.plan import Deployment, Energy, LooserLimit, PriceSource, RejectionCount, Relaxation, ServePlan

ONE_REPLICA, ONE_MACHINE = "one replica is enough", "one machine is enough"
LEAST_REPLICAS, ENGINE_LIMIT = "the least number of replicas", "the engine's largest batch"
BUSY_RATIO = 0.8


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
        input_tokens=question.demand.workload.input_tokens,
        output_tokens=question.demand.workload.output_tokens,
        headroom_wanted_ratio=question.demand.headroom_ratio,
        confidence=question.demand.confidence,
        inputs=inputs,
        objectives={limit.label: limit.limit_s for limit in limits},
        deployments=deployments,
        rejections=[RejectionCount(reason=r, count=n, best=b) for r, n, b in solution.rejections.rows()],
        relaxations=[] if deployments else relaxations(context, limits),
        looser_limits=[looser_limit(x) for x in looser_limits(question, solution)] if deployments else [],
        num_layouts=solution.num_layouts,
        num_configurations=solution.num_configurations,
        num_offers=len(question.offers),
        price_sources=price_sources(deployments, sources),
        notes=notes,
        input_hash=input_hash,
    )


def deployment(context: Context, priced: PricedPlacement) -> Deployment:
    """One priced placement at the rate that each of its replicas gets."""
    question, solution = context.question, context.solution
    p, offer, c = priced.placement, priced.offer, solution.candidates
    demand, palette, row = question.demand, c.palette, priced.placement.row
    rate = demand.workload.rate_requests_per_s
    running = operate(solution.found, row, rate / p.replicas)
    latency = objectives(context, row, running)
    capacity, mean_rate = p.replicas * float(solution.found.requests_per_s[row]), demand.mean_requests_per_s
    has_quiet = demand.quiet is not None
    return Deployment(
        cloud=offer.cloud,
        region=offer.region,
        instance=offer.instance,
        instance_count=p.instance_count,
        gpu=p.instance.accelerator,
        gpus_per_instance=p.instance.gpu_count,
        price_kind=offer.price_kind.value,
        price_basis=offer.basis.value,
        price_source=offer.source,
        price_as_of=offer.as_of,
        interruption=offer.interruption,
        price_per_instance_usd_per_hour=effective_price(offer),
        price_per_gpu_usd_per_hour=effective_price(offer) / p.instance.gpu_count,
        engine=palette.engines[c.engine[row]].name,
        weight_format=palette.weight_formats[c.weight_format[row]].name,
        kv_precision=palette.kv_precisions[c.kv_precision[row]].name,
        layout=layout_of(context, row).label,
        gpus_per_replica=p.gpus_per_replica,
        replicas=p.replicas,
        idle_gpus=p.idle_gpus,
        batch=running.batch,
        largest_batch=float(solution.found.curves.largest_batch[row]),
        latency=latency,
        requests_per_s_capacity=capacity_figure(context, row, capacity * slowness(context, row)),
        load_ratio=running.requests_per_s / float(solution.found.sustained_requests_per_s[row]),
        headroom_ratio=capacity / rate - 1,
        usd_per_hour=priced.usd_per_hour,
        busy_usd_per_hour=priced.busy_usd_per_hour if has_quiet else None,
        quiet_instance_count=priced.quiet_instance_count if has_quiet else None,
        steady_instance_count=priced.steady_count(p.instance_count),
        steady_price_per_instance_usd_per_hour=None if priced.steady is None else effective_price(priced.steady),
        usd_per_month=float(usd_per_month(priced.usd_per_hour)),
        usd_per_million_output_tokens=usd_per_million_output(priced, demand),
        usd_per_request=float(usd_per_request(priced.usd_per_hour, mean_rate)),
        binding_limit=what_binds(context, priced),
        slack_ratio=slack_of_limits(context, row, running),
        is_tight=is_tight(latency, demand.workload.slo.limits),
        grade=Grade(context.grades[row]).label,
        energy=energy_of(context, p, running),
    )


def slowness(context: Context, row: int) -> float:
    """How many times slower than expected steps were planned to be."""
    caution, best = context.solution.found.caution, int(context.solution.found.best[row])
    return 1.0 if caution is None else float(caution.tpot_ratio[row, best])


def usd_per_million_output(priced: PricedPlacement, demand: Demand) -> float:
    """What a million generated tokens cost, over all hours."""
    tokens_per_s = demand.mean_requests_per_s * demand.workload.output_tokens
    return float(usd_per_million_tokens(priced.usd_per_hour, tokens_per_s))


def objectives(context: Context, row: int, running: Operation) -> dict[str, Figure]:
    """Every objective with its range, the replica solved again with slower and with faster steps.

    Steps f times as slow serve the rate as the expected ones serve f times the rate, f times later. Where they do not
    sustain it, queues grow and the high end is unlimited.
    """
    found, slow, fast = context.solution.found, float(context.tpot.high_ratio[row]), float(context.tpot.low_ratio[row])
    late = operate_beyond(found, row, running.requests_per_s * slow)
    early = operate_beyond(found, row, running.requests_per_s * fast)
    return {label: _figure(context, row, label, running, early, late) for label in running.objectives_s}


def _figure(
    context: Context, row: int, label: str, running: Operation, early: Operation | None, late: Operation | None
) -> Figure:
    bounds = context.ttft if metric_of(label) == "ttft" else context.tpot
    value = running.objectives_s[label]
    high = math.inf if late is None else late.objectives_s[label] * float(bounds.high_ratio[row])
    low = (early or running).objectives_s[label] * float(bounds.low_ratio[row])
    if metric_of(label) == "tpot":
        low = max(low, floor_s(context, row))
    return Figure(
        value=value, unit="s", low=min(low, value), high=max(high, value), grade=Grade(context.grades[row]).label
    )


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


def capacity_figure(context: Context, row: int, requests_per_s: float) -> Figure:
    """Capacity moves against TPOT: slower tokens, fewer requests."""
    return Figure(
        value=requests_per_s,
        unit="1/s",
        low=requests_per_s / float(context.tpot.high_ratio[row]),
        high=requests_per_s / float(context.tpot.low_ratio[row]),
        grade=Grade(context.grades[row]).label,
    )


def what_binds(context: Context, priced: PricedPlacement) -> str:
    """The limit that forbids more load per replica, or what else decides how much is bought."""
    p, demand, row = priced.placement, context.question.demand, priced.placement.row
    needed_replicas = demand.planned_requests_per_s / float(context.solution.found.requests_per_s[row])
    if p.instance_count > 1 and math.ceil(needed_replicas) < demand.min_replicas:
        return LEAST_REPLICAS
    if p.instance_count == 1 and needed_replicas < BUSY_RATIO * p.replicas:
        return ONE_REPLICA if p.replicas == 1 else ONE_MACHINE
    limit = binding_limit(context.solution.found, row)
    if limit == ROOM and context.solution.limited_by_engine[row]:
        return ENGINE_LIMIT
    at_most = {ROOM: "KV room", SATURATION: "throughput no longer grows with the batch"}
    return at_most.get(limit, limit)


def slack_of_limits(context: Context, row: int, running: Operation) -> dict[str, float]:
    """The share of every limit that is left at a rate: 1 - used / limit   [1]."""
    found, limits = context.solution.found, context.question.demand.workload.slo.limits
    load_ratio = running.requests_per_s / float(found.sustained_requests_per_s[row])
    crowded = float(crowded_batch(np.asarray(running.batch), ADMISSION_QUANTILE))
    return {
        **{x.label: 1 - running.objectives_s[x.label] / x.limit_s for x in limits},
        LOAD: 1 - load_ratio / HIGHEST_LOAD_RATIO,
        ROOM: 1 - crowded / float(found.curves.largest_batch[row]),
    }


def energy_of(context: Context, placed: Placement, running: Operation) -> Energy | None:
    """Electricity of all machines of a placement at the asked rate."""
    row, workload = placed.row, context.question.demand.workload
    c = context.solution.candidates
    return energy_of_gpus(
        board_power_watts=c.palette.accelerators[c.accelerator[row]].board_power_watts,
        num_gpus=placed.instance.gpu_count * placed.instance_count,
        working_gpus=placed.replicas * placed.gpus_per_replica,
        batch=running.batch,
        load_ratio=running.requests_per_s / float(context.solution.found.sustained_requests_per_s[row]),
        output_tokens_per_s=workload.rate_requests_per_s * workload.output_tokens,
    )


def is_tight(latency: Mapping[str, Figure], limits: Sequence[Limit]) -> bool:
    """Whether the high end of any objective's range breaks its limit, or of any latency has no end."""
    unlimited = any(figure.high == math.inf for figure in latency.values())
    return unlimited or any((latency[limit.label].high or 0.0) > limit.limit_s for limit in limits)


def relaxations(context: Context, limits: Sequence[Limit]) -> list[Relaxation]:
    """The smallest change of one objective, or of all together where none suffices, that makes a plan feasible.

    Only candidates that some priced machine can host count: a limit that none of them meets stays broken.
    """
    candidates = context.solution.candidates
    if not len(candidates):
        return []
    sold = among(context.solution.found, is_sold(context.question, candidates))
    if sold.is_feasible.any():
        return []
    alone = needed_alone(sold, limits)
    found = alone or needed_together(sold, limits)
    found.sort(key=lambda item: item[1] / item[0].limit_s)
    return [
        Relaxation(
            limit=limit.label,
            asked=in_ms(limit.limit_s),
            needed=at_least_ms(seconds),
            candidate=describe(context.solution.candidates, row),
            together=not alone,
        )
        for limit, seconds, row in found
    ]


def looser_limit(found: FoundLooserLimit) -> LooserLimit:
    """What one limit costs, as users get it."""
    offer = found.priced.offer
    return LooserLimit(
        limit=found.limit.label,
        limit_s=found.limit.limit_s,
        lone_s=found.lone_s,
        looser_s=found.looser_s,
        cloud=offer.cloud,
        instance=offer.instance,
        instance_count=found.priced.placement.instance_count,
        usd_per_hour=found.priced.usd_per_hour,
        saved_ratio=found.saved_ratio,
    )


def price_sources(deployments: Sequence[Deployment], sources: Mapping[str, Source]) -> list[PriceSource]:
    """Each source and date that a shown price comes from, once."""
    used = sorted({(d.price_source, d.price_as_of) for d in deployments})
    return [PriceSource(id=id_, title=sources[id_].title, as_of=day) for id_, day in used]
