"""An `EncoderBatchPlan` from a solved batch question of an encoder: picks figures, adds ranges and words."""

from __future__ import annotations

from collections.abc import Mapping

from gpufleet.answers.job_figures import JobRanges, hazard_notes, in_usd, paid_s, rate_figure, rented_job
from gpufleet.answers.price_sources import price_days, price_sources
from gpufleet.answers.rejections import rejection_counts
from gpufleet.architecture.encoder_parameters import num_encoder_parameters
from gpufleet.domain.encoder import Takes
from gpufleet.optimize.encoder import EncoderQuestion
from gpufleet.optimize.encoder_job import EncoderJobQuestion, EncoderJobSolution
from gpufleet.optimize.job import JobPlacement
from gpufleet.provenance import Source
from gpufleet.records import dataclass
from gpufleet.results.base import Input
from gpufleet.results.encoder_batch import EncoderBatchPlan, EncoderJobDeployment
from gpufleet.units import HOUR, MEGA


@dataclass(frozen=True, eq=False)
class EncoderJobContext:
    """What turns placements into deployments; `audio_s` of one request, None where it is no audio."""

    encoder: EncoderQuestion
    solution: EncoderJobSolution
    ranges: JobRanges
    num_inputs: float
    audio_s: float | None

    @classmethod
    def of(cls, question: EncoderJobQuestion, solution: EncoderJobSolution) -> EncoderJobContext:
        """Ranges and grades of all copies."""
        copies, job, encoder = solution.copies, question.market.job, question.any_encoder
        low, high = copies.figures("low_ratio"), copies.figures("high_ratio")
        ranges = JobRanges(
            job, question.market.interruptions, job.requests / encoder.num_windows, low, high,
            [c.grade.label for c in copies.all],
        )  # fmt: skip
        return cls(encoder, solution, ranges, job.requests, encoder.audio_s or encoder.new_audio_s)


def encoder_batch_plan(
    question: EncoderJobQuestion,
    solution: EncoderJobSolution,
    inputs: list[Input],
    sources: Mapping[str, Source],
    input_hash: str,
    notes: list[str],
    num_rows: int = 10,
) -> EncoderBatchPlan:
    """The answer: at most `num_rows` deployments, cheapest first, with everything that was rejected."""
    context, job, q = EncoderJobContext.of(question, solution), question.market.job, question.any_encoder
    deployments = [encoder_deployment(context, placed) for placed in solution.ranked[:num_rows]]
    return EncoderBatchPlan(
        model=q.model.name,
        kind=q.model.kind,
        unit=q.tower.takes.value,
        num_parameters=num_encoder_parameters(q.model),
        requests=context.ranges.requests,
        input_tokens=q.size.tokens,
        output_tokens=None if q.model.decoder is None else q.size.output_tokens,
        audio_s=q.audio_s,
        inputs_per_request=q.num_windows,
        deadline_s=job.deadline_s,
        startup_s=job.startup_s,
        period_s=job.period_s,
        headroom_wanted_ratio=job.headroom_ratio,
        confidence=job.confidence,
        inputs=inputs,
        deployments=deployments,
        rejections=rejection_counts(solution.rejections),
        num_layouts=len(question.encoders),
        num_configurations=solution.copies.num_configurations,
        num_offers=len(question.market.offers),
        price_sources=price_sources(price_days(deployments), sources),
        notes=[*notes, *hazard_notes(question.market.interruptions, deployments, sources)],
        input_hash=input_hash,
    )


def encoder_deployment(context: EncoderJobContext, p: JobPlacement) -> EncoderJobDeployment:
    """One placement with its finish and its cost, and their ranges."""
    copy, ranges, audio_s = context.solution.copies.all[p.row], context.ranges, context.audio_s
    rate, inputs = p.replicas * copy.full_per_s, context.num_inputs
    paid, per_s = paid_s(ranges, p), rate * ranges.requests / inputs
    tokens = inputs * context.encoder.size.tokens if context.encoder.tower.takes is Takes.TEXT else None
    return EncoderJobDeployment(
        **rented_job(ranges, p),
        engine=copy.question.runtime.name,
        weight_format=copy.question.weights.name,
        gpus_per_replica=1,
        idle_gpus=0,
        batch=min(copy.full_batch, p.requests_per_replica),
        largest_batch=copy.largest_batch,
        requests_per_s=rate_figure(ranges, p.row, per_s),
        inputs_per_s=rate_figure(ranges, p.row, rate),
        audio_s_per_s=None if audio_s is None else rate_figure(ranges, p.row, per_s * audio_s),
        usd_per_million_inputs=in_usd(p, paid, inputs / MEGA),
        usd_per_million_tokens=None if tokens is None else in_usd(p, paid, tokens / MEGA),
        usd_per_hour_of_audio=None if audio_s is None else in_usd(p, paid, ranges.requests * audio_s / HOUR),
    )
