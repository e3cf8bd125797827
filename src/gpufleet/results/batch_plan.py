"""A `BatchPlan` from a solved batch question: picks figures, adds ranges and words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpufleet.architecture.parameters import num_active_parameters, num_parameters
from gpufleet.domain.layout import Layout
from gpufleet.domain.offer import PriceKind
from gpufleet.optimize.batch import BatchQuestion, BatchSolution, JobPlacement, machine_choices
from gpufleet.optimize.size import effective_price
from gpufleet.performance.uncertainty import Bounds, grades, time_bounds
from gpufleet.provenance import Grade, Source
from gpufleet.results.base import Figure, Input
from gpufleet.results.batch import BatchPlan, JobDeployment
from gpufleet.results.plan import RejectionCount
from gpufleet.results.serve_plan import price_fields, price_sources
from gpufleet.units import HOUR, KILO, MEGA

ONE_MACHINE, DEADLINE, STARTUP = "one machine is enough", "the deadline", "starting machines"


@dataclass(frozen=True)
class JobContext:
    """What turns placements into deployments."""

    question: BatchQuestion
    solution: BatchSolution
    tpot: Bounds
    grades: Sequence[int]

    @classmethod
    def of(cls, question: BatchQuestion, solution: BatchSolution) -> JobContext:
        """Ranges and grades of all candidates at their best batch."""
        lengths = question.service.demand.lengths
        bounds = time_bounds(solution.model, solution.rates.best_batch, lengths)["tpot"]
        return cls(question, solution, bounds, list(grades(solution.model)))


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
        headroom_wanted_ratio=job.headroom_ratio,
        inputs=inputs,
        deployments=deployments,
        rejections=[RejectionCount(reason=r, count=n, best=b) for r, n, b in solution.rejections.rows()],
        num_layouts=solution.num_layouts,
        num_configurations=int(solution.rates.requests_per_s.size),
        num_offers=len(question.service.offers),
        price_sources=price_sources(((d.price_source, d.price_as_of) for d in deployments), sources),
        notes=[*notes, *hazard_notes(question, deployments, sources)],
        input_hash=input_hash,
    )


def job_deployment(context: JobContext, p: JobPlacement) -> JobDeployment:
    """One placement with its finish and its cost, and their ranges."""
    c, row, offer = context.solution.candidates, p.row, p.offer
    palette, job = c.palette, context.question.job
    workload, paid, finish = context.question.service.demand.workload, paid_s(context, p), finish_s(context, p)
    answers = job.requests * workload.output_tokens
    tokens = answers + job.requests * workload.input_tokens
    rate = p.replicas * float(context.solution.rates.best_per_s[row])
    return JobDeployment(
        cloud=offer.cloud,
        region=offer.region,
        instance=offer.instance,
        instance_count=p.machines,
        gpu=p.instance.accelerator,
        gpus_per_instance=p.instance.gpu_count,
        **price_fields(offer),
        interruption=offer.interruption,
        price_per_instance_usd_per_hour=effective_price(offer),
        usd_per_hour=p.machines * effective_price(offer),
        engine=palette.engines[c.engine[row]].name,
        weight_format=palette.weight_formats[c.weight_format[row]].name,
        kv_precision=palette.kv_precisions[c.kv_precision[row]].name,
        layout=Layout(int(c.tp[row]), int(c.pp[row]), int(c.ep[row]), int(c.attention_dp[row])).label,
        gpus_per_replica=int(c.num_devices[row]),
        replicas=p.replicas,
        idle_gpus=round(p.instance.gpu_count * p.machines) - p.replicas * int(c.num_devices[row]),
        requests_per_replica=p.requests_per_replica,
        batch=min(float(context.solution.rates.best_batch[row]), p.requests_per_replica),
        largest_batch=float(context.solution.largest_batch[row]),
        wave_s=p.wave_s,
        requests_per_s=slower(context, row, rate, "1/s"),
        output_tokens_per_s=slower(context, row, rate * workload.output_tokens, "1/s"),
        work_s=p.work_s,
        finish_s=finish,
        paid_s=paid,
        usd=in_usd(p, paid, 1.0),
        usd_per_million_tokens=in_usd(p, paid, tokens / MEGA),
        usd_per_million_output_tokens=in_usd(p, paid, answers / MEGA),
        usd_per_thousand_requests=in_usd(p, paid, job.requests / KILO),
        interruptions=p.machines * p.per_hour.expected * p.work_s / HOUR,
        **hazard(context, p),
        repeated_ratio=1 - (job.startup_s + p.work_s) / paid.value,
        binding_limit=what_binds(context, p),
        is_tight=(finish.high or finish.value) > job.deadline_s,
        grade=Grade(context.grades[row]).label,
    )


def hazard(context: JobContext, p: JobPlacement) -> dict[str, Any]:
    """How often a spot machine is taken away, and who says so."""
    if p.offer.price_kind is not PriceKind.SPOT:
        return {}
    known, band = context.question.interruptions, p.offer.interruption
    grade = Grade.TRANSFERRED if known.is_published(band) else Grade.SEED_RULE
    rate = Figure(value=p.per_hour.expected, unit="1/h", low=p.per_hour.low, high=p.per_hour.high, grade=grade.label)
    return {"interruptions_per_hour": rate, "interruption_source": known.source_of(band)}


def hazard_notes(
    question: BatchQuestion, deployments: Sequence[JobDeployment], sources: Mapping[str, Source]
) -> list[str]:
    """How often spot machines of the shown clouds are taken away: published, or a prior, with sources and days."""
    known, spot = question.interruptions, [d for d in deployments if d.price_kind == PriceKind.SPOT.value]
    published = sorted({d.cloud for d in spot if known.is_published(d.interruption)})
    unpublished = sorted({d.cloud for d in spot} - set(published))
    prior = known.per_hour_unknown
    notes = []
    if published:
        notes.append(
            f"Spot of {', '.join(published)}: bands are the share of machines reclaimed within a month "
            f"({dated(sources[known.source_of_bands])}); how long those ran is not published"
        )
    if unpublished:
        notes.append(
            f"Spot of {', '.join(unpublished)}: no rate is published, so a prior is taken, "
            f"{prior.expected:.2g} ({prior.low:.6f}-{prior.high:.2g}) an hour; between "
            f"{'; '.join(dated(sources[id_]) for id_ in known.sources)}. Do not choose between clouds by it"
        )
    return notes


def dated(source: Source) -> str:
    """A source with its day."""
    return f"{source.id} {source.as_of or 'without a day'}"


def paid_s(context: JobContext, p: JobPlacement) -> Figure:
    """What each machine is paid for: fast and rarely interrupted, as expected, slow and often interrupted."""
    startup, row = context.question.job.startup_s, p.row
    low = p.paid_s(startup, p.work_s * float(context.tpot.low_ratio[row]), p.per_hour.low)
    high = p.paid_s(startup, p.work_s * float(context.tpot.high_ratio[row]), p.per_hour.high)
    return seconds(context, row, low, p.paid_s(startup, p.work_s, p.per_hour.expected), high)


def finish_s(context: JobContext, p: JobPlacement) -> Figure:
    """When all is done, the waits for other machines included."""
    startup, row = context.question.job.startup_s, p.row
    low = p.elapsed_s(startup, p.work_s * float(context.tpot.low_ratio[row]), p.per_hour.low, p.wait_s.low)
    high = p.elapsed_s(startup, p.work_s * float(context.tpot.high_ratio[row]), p.per_hour.high, p.wait_s.high)
    expected = p.elapsed_s(startup, p.work_s, p.per_hour.expected, p.wait_s.expected)
    return seconds(context, row, low, expected, high)


def seconds(context: JobContext, row: int, low: float, expected: float, high: float) -> Figure:
    """A time with its range."""
    return Figure(value=expected, unit="s", low=low, high=high, grade=Grade(context.grades[row]).label)


def in_usd(p: JobPlacement, paid: Figure, units: float) -> Figure:
    """What a unit of the job costs."""
    low, high = (p.usd(end if end is not None else paid.value) / units for end in (paid.low, paid.high))
    return Figure(value=p.usd(paid.value) / units, unit="USD", low=low, high=high, grade=paid.grade)


def slower(context: JobContext, row: int, expected: float, unit: str) -> Figure:
    """A rate moves against the time per token."""
    return Figure(
        value=expected,
        unit=unit,
        low=expected / float(context.tpot.high_ratio[row]),
        high=expected / float(context.tpot.low_ratio[row]),
        grade=Grade(context.grades[row]).label,
    )


def what_binds(context: JobContext, p: JobPlacement) -> str:
    """Why not fewer machines: one fewer would be late, or it is one already; else starting them costs least so."""
    job = context.question.job
    if p.machines == 1:
        return ONE_MACHINE
    fewer = p.work_s * p.machines / next_fewer(p.machines) * (1 + job.headroom_ratio)
    late = p.elapsed_s(job.startup_s, fewer, p.per_hour.expected, p.wait_s.expected) > job.deadline_s
    return DEADLINE if late else STARTUP


def next_fewer(machines: int) -> float:
    """The next smaller number of machines that was tried."""
    return float(machine_choices(machines)[-2])
