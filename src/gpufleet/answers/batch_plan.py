"""A `BatchPlan` from a solved batch question: picks figures, adds ranges and words."""

from __future__ import annotations

from collections.abc import Mapping

from gpufleet.answers.job_figures import JobRanges, hazard_notes, in_usd, paid_s, rate_figure, rented_job
from gpufleet.answers.price_sources import price_days, price_sources
from gpufleet.answers.ranks import ranks_of
from gpufleet.answers.rejections import rejection_counts
from gpufleet.architecture.parameters import num_active_parameters, num_parameters
from gpufleet.domain.layout import Layout
from gpufleet.optimize.job import BatchQuestion, BatchSolution, JobPlacement
from gpufleet.performance.uncertainty import grades, time_bounds
from gpufleet.provenance import Grade, Source
from gpufleet.records import dataclass
from gpufleet.results.base import Input
from gpufleet.results.batch import BatchPlan, JobDeployment
from gpufleet.units import MEGA


@dataclass(frozen=True)
class JobContext:
    """What turns placements into deployments."""

    question: BatchQuestion
    solution: BatchSolution
    ranges: JobRanges

    @classmethod
    def of(cls, question: BatchQuestion, solution: BatchSolution) -> JobContext:
        """Ranges and grades of all candidates at their best batch."""
        lengths, job = question.service.demand.lengths, question.job
        bounds = time_bounds(solution.model, solution.rates.best_batch, lengths)["tpot"]
        named = [Grade(grade).label for grade in grades(solution.model)]
        return cls(
            question,
            solution,
            JobRanges(job, question.interruptions, job.requests, bounds.low_ratio, bounds.high_ratio, named),
        )


def batch_plan(
    question: BatchQuestion,
    solution: BatchSolution,
    inputs: list[Input],
    sources: Mapping[str, Source],
    input_hash: str,
    notes: list[str],
    num_rows: int = 10,
) -> BatchPlan:
    """The answer: at most `num_rows` deployments, cheapest first, with everything that was rejected."""
    context, workload, job = JobContext.of(question, solution), question.service.demand.workload, question.job
    deployments = [job_deployment(context, placed) for placed in solution.ranked[:num_rows]]
    return BatchPlan(
        model=question.service.arch.name,
        num_parameters=num_parameters(question.service.arch),
        num_active_parameters=num_active_parameters(question.service.arch),
        requests=job.requests,
        input_tokens=workload.input_tokens,
        output_tokens=workload.output_tokens,
        deadline_s=job.deadline_s,
        startup_s=job.startup_s,
        period_s=job.period_s,
        headroom_wanted_ratio=job.headroom_ratio,
        confidence=job.confidence,
        inputs=inputs,
        deployments=deployments,
        rejections=rejection_counts(solution.rejections),
        num_layouts=solution.num_layouts,
        num_configurations=int(solution.rates.requests_per_s.size),
        num_offers=len(question.service.offers),
        price_sources=price_sources(price_days(deployments), sources),
        notes=[*notes, *hazard_notes(question.interruptions, deployments, sources)],
        input_hash=input_hash,
    )


def job_deployment(context: JobContext, p: JobPlacement) -> JobDeployment:
    """One placement with its finish and its cost, and their ranges."""
    c, row, ranges, rates = context.solution.candidates, p.row, context.ranges, context.solution.rates
    palette, job, num_gpus = c.palette, context.question.job, int(c.num_devices[p.row])
    workload, paid = context.question.service.demand.workload, paid_s(context.ranges, p)
    answers = job.requests * workload.output_tokens
    tokens = answers + job.requests * workload.input_tokens
    rate = p.replicas * float(rates.best_per_s[row])
    layout = Layout(int(c.tp[row]), int(c.pp[row]), int(c.ep[row]), int(c.attention_dp[row]))
    return JobDeployment(
        **rented_job(ranges, p),
        engine=palette.engines[c.engine[row]].name,
        weight_format=palette.weight_formats[c.weight_format[row]].name,
        kv_precision=palette.kv_precisions[c.kv_precision[row]].name,
        layout=layout.label,
        ranks=ranks_of(layout),
        gpus_per_replica=num_gpus,
        idle_gpus=round(p.instance.gpu_count * p.machines) - p.replicas * num_gpus,
        batch=min(float(rates.best_batch[row]), p.requests_per_replica),
        largest_batch=float(context.solution.largest_batch[row]),
        requests_per_s=rate_figure(ranges, row, rate),
        output_tokens_per_s=rate_figure(ranges, row, rate * workload.output_tokens),
        usd_per_million_tokens=in_usd(p, paid, tokens / MEGA),
        usd_per_million_output_tokens=in_usd(p, paid, answers / MEGA),
    )
