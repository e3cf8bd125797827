"""An `EncoderServePlan` from a solved serving question of an encoder: picks figures, adds ranges and words."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gpufleet.answers.price_sources import price_days, price_sources
from gpufleet.answers.rejections import rejection_counts
from gpufleet.answers.service_figures import (
    bought_for,
    latency_figures,
    relaxations,
    rented_service,
    slack_of_limits,
)
from gpufleet.architecture.encoder_parameters import num_encoder_parameters
from gpufleet.domain.encoder import Takes
from gpufleet.optimize.copies.encoder import LATENCY
from gpufleet.optimize.encoder_service import EncoderServeQuestion, EncoderServeSolution, is_copy_sold
from gpufleet.optimize.market import PricedPlacement
from gpufleet.optimize.size import operate
from gpufleet.performance.uncertainty import Bounds
from gpufleet.provenance import Source
from gpufleet.records import dataclass
from gpufleet.report.words import limit_words
from gpufleet.results.base import Input
from gpufleet.results.encoder_service import EncoderDeployment, EncoderServePlan
from gpufleet.units import HOUR, MEGA


@dataclass(frozen=True, eq=False)
class EncoderContext:
    """What turns placements into deployments; `audio_s` of one request, None where it is no audio."""

    question: EncoderServeQuestion
    solution: EncoderServeSolution
    bounds: Bounds
    audio_s: float | None

    @classmethod
    def of(cls, question: EncoderServeQuestion, solution: EncoderServeSolution) -> EncoderContext:
        """Ranges of all copies."""
        copies, q = solution.copies, question.any_encoder
        bounds = Bounds(copies.figures("low_ratio"), copies.figures("high_ratio"))
        return cls(question, solution, bounds, q.audio_s or q.new_audio_s)


def encoder_serve_plan(
    question: EncoderServeQuestion,
    solution: EncoderServeSolution,
    inputs: list[Input],
    sources: Mapping[str, Source],
    input_hash: str,
    notes: list[str],
    num_rows: int = 10,
) -> EncoderServePlan:
    """The answer: at most `num_rows` deployments, cheapest first, with everything that was rejected."""
    context, q, demand = EncoderContext.of(question, solution), question.any_encoder, question.demand
    deployments = [encoder_deployment(context, priced) for priced in solution.ranked[:num_rows]]
    limits, copies = demand.workload.slo.limits, solution.copies
    return EncoderServePlan(
        model=q.model.name,
        kind=q.model.kind,
        unit=q.tower.takes.value,
        num_parameters=num_encoder_parameters(q.model),
        rate_requests_per_s=demand.workload.rate_requests_per_s,
        mean_requests_per_s=None if demand.quiet is None else demand.mean_requests_per_s,
        input_tokens=q.size.tokens,
        output_tokens=None if q.model.decoder is None else q.size.output_tokens,
        audio_s=q.audio_s,
        inputs_per_request=q.num_windows,
        headroom_wanted_ratio=demand.headroom_ratio,
        confidence=demand.confidence,
        inputs=inputs,
        objectives={limit.label: limit.limit_s for limit in limits},
        deployments=deployments,
        rejections=rejection_counts(solution.rejections),
        relaxations=[]
        if deployments or not copies.all
        else relaxations(solution.found, is_copy_sold(question, copies), limits, lambda row: copies.all[row].name),
        num_layouts=len(question.encoders),
        num_configurations=int(solution.found.curves.requests_per_s.size),
        num_offers=len(question.offers),
        price_sources=price_sources(price_days(deployments), sources),
        notes=notes,
        input_hash=input_hash,
    )


def encoder_deployment(context: EncoderContext, priced: PricedPlacement) -> EncoderDeployment:
    """One priced placement at the rate that each of its copies gets."""
    p, found, demand = priced.placement, context.solution.found, context.question.demand
    copy, q = context.solution.copies.all[p.row], context.question.any_encoder
    running = operate(found, p.row, demand.workload.rate_requests_per_s / p.replicas)
    label = copy.grade.label
    bounds = {LATENCY: context.bounds}
    latency = latency_figures(found, p.row, running, bounds, label, {})
    limit = bought_for(found, demand, p, latency)
    requests_per_hour = demand.mean_requests_per_s * HOUR
    inputs_per_hour = requests_per_hour * q.num_windows
    tokens_per_hour = inputs_per_hour * q.size.tokens if q.tower.takes is Takes.TEXT else None
    return EncoderDeployment(
        **rented_service(priced, found, demand, running, latency, bounds, label),
        engine=copy.question.runtime.name,
        weight_format=copy.question.weights.name,
        largest_batch=copy.largest_batch,
        full_batch=copy.full_batch,
        pass_s=float(copy.seconds_of(np.array([running.batch * q.num_windows]))[0]),
        usd_per_million_inputs=priced.usd_per_hour / inputs_per_hour * MEGA,
        usd_per_million_tokens=None if tokens_per_hour is None else priced.usd_per_hour / tokens_per_hour * MEGA,
        usd_per_hour_of_audio=None
        if context.audio_s is None
        else priced.usd_per_hour / (requests_per_hour * context.audio_s / HOUR),
        binding=limit,
        binding_limit=limit_words(limit),
        slack_ratio=slack_of_limits(found, p.row, demand, running),
    )
