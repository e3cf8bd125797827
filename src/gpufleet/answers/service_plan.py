"""The plan of a solved service, whatever its model does with a request: picks figures, adds ranges and words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from gpufleet.answers.asked import Asked
from gpufleet.answers.certainty import many_more_copies
from gpufleet.answers.price_sources import price_days, price_sources
from gpufleet.answers.rejections import rejection_counts
from gpufleet.answers.relaxations import relaxations
from gpufleet.answers.service_figures import (
    bought_for,
    latency_figures,
    rented_service,
    slack_of_limits,
)
from gpufleet.optimize.copies.protocol import C_co, Copies, Model
from gpufleet.optimize.dated import cheaper_if_true
from gpufleet.optimize.market import PricedPlacement
from gpufleet.optimize.service import ServeQuestion, ServeSolution
from gpufleet.optimize.size import Operation, operate
from gpufleet.performance.uncertainty import Bounds
from gpufleet.provenance import Grade
from gpufleet.records import dataclass
from gpufleet.report.words import limit_words
from gpufleet.results.plan import RentedService, ServicePlan

C = TypeVar("C", bound=Copies)
R = TypeVar("R", bound=RentedService)
P = TypeVar("P", bound=ServicePlan)


@dataclass(frozen=True, eq=False)
class Context(Generic[C_co]):
    """What turns rows of a solution into deployments: ranges by metric, and grades, of all its copies."""

    question: ServeQuestion[Model[C_co]]
    solution: ServeSolution[C_co]
    bounds: Mapping[str, Bounds]
    grades: Sequence[Grade]

    @classmethod
    def of(cls, question: ServeQuestion[Model[C_co]], solution: ServeSolution[C_co]) -> Context[C_co]:
        """Ranges at the batch that each copy may have at most."""
        found, copies = solution.found, solution.copies
        batch = found.curves.batch[np.maximum(found.best, 0)]
        return cls(question, solution, copies.time_ratios(batch), copies.grades)


@dataclass(frozen=True)
class ServiceKind(Generic[C, R, P]):
    """What services of one kind of model say beyond any service: their types, and figures of the plan and of a row."""

    plan: Callable[..., P]
    row: Callable[..., R]
    of_plan: Callable[[Context[C]], dict[str, Any]]
    of_row: Callable[[Context[C], PricedPlacement, Operation], dict[str, Any]]


ANY_SERVICE: ServiceKind[Copies, RentedService, ServicePlan] = ServiceKind(
    ServicePlan, RentedService, lambda _: {}, lambda *_: {}
)


def service_plan(kind: ServiceKind[C, R, P], context: Context[C], asked: Asked) -> P:
    """The answer: so many deployments, cheapest first, with everything that was rejected."""
    question, solution = context.question, context.solution
    demand, copies = question.demand, solution.copies
    deployments = [deployment(kind, context, priced) for priced in solution.ranked[: asked.num_rows]]
    beside = cheaper_if_true(question, solution)
    undated = [] if beside is None else [deployment(kind, context, beside)]
    return kind.plan(
        model=question.model.name,
        num_parameters=question.model.num_parameters,
        rate_requests_per_s=demand.workload.rate_requests_per_s,
        mean_requests_per_s=None if demand.quiet is None else demand.mean_requests_per_s,
        headroom_wanted_ratio=demand.headroom_ratio,
        busiest_requests_per_s=demand.busiest_requests_per_s or None,
        confidence=demand.confidence,
        missed_confidence=asked.missed_confidence,
        for_certainty=many_more_copies(question, solution),
        inputs=asked.inputs,
        objectives={limit.label: limit.limit_s for limit in demand.workload.slo.limits},
        deployments=deployments,
        rejections=rejection_counts(solution.rejections),
        relaxations=[] if deployments or not len(copies) else relaxations(question, solution),
        num_layouts=copies.num_layouts,
        num_configurations=solution.num_configurations,
        num_offers=len(question.offers) + len(question.undated),
        price_sources=price_sources(price_days([*deployments, *undated]), asked.sources),
        undated_alternative=next(iter(undated), None),
        notes=asked.notes,
        input_hash=asked.input_hash,
        **kind.of_plan(context),
    )


def deployment(kind: ServiceKind[C, R, P], context: Context[C], priced: PricedPlacement) -> R:
    """One priced placement at the rate that each of its copies gets."""
    p, found, copies, demand = (
        priced.placement,
        context.solution.found,
        context.solution.copies,
        context.question.demand,
    )
    running = operate(found, p.row, demand.workload.rate_requests_per_s / p.replicas)
    grade = context.grades[p.row].label
    latency = latency_figures(found, p.row, running, context.bounds, grade, copies.floors_s(p.row))
    said = {
        **rented_service(priced, found, demand, running, latency, context.bounds, grade),
        "engine": copies.engine(p.row),
        "weight_format": copies.weights(p.row),
        "largest_batch": float(copies.largest_batch[p.row]),
        "binding": copies.limit_name(p.row, bought_for(found, demand, p, latency)),
        "slack_ratio": slack_of_limits(found, p.row, demand, running),
        **kind.of_row(context, priced, running),
    }
    return kind.row(**said, binding_limit=limit_words(said["binding"]))
