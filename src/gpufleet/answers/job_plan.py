"""The plan of a solved job, whatever its model does with a request: picks figures, adds ranges and words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from gpufleet.answers.job_figures import JobRanges, hazard_notes, rate_figure, rented_job
from gpufleet.answers.plan_parts import Asked, price_days, price_sources, rejection_counts
from gpufleet.optimize.copies.protocol import C_co, Copies, Model
from gpufleet.optimize.job import BatchQuestion, BatchSolution, JobPlacement
from gpufleet.records import dataclass
from gpufleet.results.job import JobPlan, RentedJob

C = TypeVar("C", bound=Copies)
R = TypeVar("R", bound=RentedJob)
P = TypeVar("P", bound=JobPlan)


@dataclass(frozen=True, eq=False)
class JobContext(Generic[C_co]):
    """What turns placements into deployments."""

    question: BatchQuestion[Model[C_co]]
    solution: BatchSolution[C_co]
    ranges: JobRanges

    @classmethod
    def of(cls, question: BatchQuestion[Model[C_co]], solution: BatchSolution[C_co]) -> JobContext[C_co]:
        """Ranges and grades of all copies at their best batch."""
        copies, job = solution.copies, question.job
        bounds, labels = copies.time_ratios(solution.rates.best_batch)["latency"], [g.label for g in copies.grades]
        ranges = JobRanges(job, question.interruptions, job.requests, bounds.low_ratio, bounds.high_ratio, labels)
        return cls(question, solution, ranges)

    def requests_per_s(self, p: JobPlacement) -> float:
        """What all copies of a placement get done at their best batch."""
        per_copy = float(self.solution.rates.best_per_s[p.row]) / self.question.service.model.inputs_per_request
        return p.replicas * per_copy


@dataclass(frozen=True)
class JobKind(Generic[C, R, P]):
    """What jobs of one kind of model say beyond any job: their types, and figures of the plan and of a row."""

    plan: type[P]
    row: Callable[..., R]
    of_plan: Callable[[JobContext[C]], dict[str, Any]]
    of_row: Callable[[JobContext[C], JobPlacement], dict[str, Any]]


ANY_JOB: JobKind[Copies, RentedJob, JobPlan] = JobKind(JobPlan, RentedJob, lambda _: {}, lambda *_: {})


def job_plan(kind: JobKind[C, R, P], context: JobContext[C], asked: Asked) -> P:
    """The answer: so many deployments, cheapest first, with everything that was rejected."""
    question, solution, job = context.question, context.solution, context.question.job
    deployments = [job_deployment(kind, context, placed) for placed in solution.ranked[: asked.num_rows]]
    undated, unmeasured = (
        [] if p is None else [job_deployment(kind, context, p)] for p in (solution.undated, solution.unmeasured)
    )
    return kind.plan.made_of(
        job,
        asked,
        model=question.service.model.name,
        num_parameters=question.service.model.num_parameters,
        headroom_wanted_ratio=job.headroom_ratio,
        deployments=deployments,
        rejections=rejection_counts(solution.rejections),
        num_layouts=solution.copies.num_layouts,
        num_configurations=solution.rates.num_configurations,
        num_offers=len(question.service.offers),
        undated_alternative=next(iter(undated), None),
        unmeasured_alternative=next(iter(unmeasured), None),
        price_sources=price_sources(price_days([*deployments, *undated, *unmeasured]), asked.sources),
        notes=[*asked.notes, *hazard_notes(question.interruptions, deployments, asked.sources)],
        **kind.of_plan(context),
    )


def job_deployment(kind: JobKind[C, R, P], context: JobContext[C], p: JobPlacement) -> R:
    """One placement with its finish and its cost, and their ranges."""
    copies, rates = context.solution.copies, context.solution.rates
    num_gpus = int(copies.num_devices[p.row])
    return kind.row(
        **rented_job(context.ranges, p),
        engine=copies.engine(p.row),
        weight_format=copies.weights(p.row),
        gpus_per_replica=num_gpus,
        idle_gpus=round(p.instance.gpu_count * p.machines) - p.replicas * num_gpus,
        batch=min(float(rates.best_batch[p.row]), p.requests_per_replica),
        largest_batch=float(copies.largest_batch[p.row]),
        requests_per_s=rate_figure(context.ranges, p.row, context.requests_per_s(p)),
        **kind.of_row(context, p),
    )
