"""The plan of a solved service, whatever its model does with a request: picks figures, adds ranges and words."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from gpufleet.answers.levers import many_more_copies
from gpufleet.answers.plan_parts import Asked, price_days, price_sources, rejection_counts
from gpufleet.answers.service_figures import bought_for, latency_figures, rented_service
from gpufleet.domain.slo import Limit
from gpufleet.optimize.copies.protocol import C_co, Copies, Model
from gpufleet.optimize.dated import cheaper_if_true
from gpufleet.optimize.flips import INPUT, OUTPUT, RATE
from gpufleet.optimize.helping import BUDGET, MACHINES, Help, helping_changes
from gpufleet.optimize.market import PricedPlacement
from gpufleet.optimize.service import AnyQuestion, AnySolution, ServeQuestion, ServeSolution
from gpufleet.optimize.size import Operation, operate, slack_of_limits
from gpufleet.performance.uncertainty import Bounds
from gpufleet.provenance import Grade
from gpufleet.records import dataclass
from gpufleet.report.words import at_least_ms, in_ms, limit_words
from gpufleet.results.plan import Relaxation, RentedService, ServicePlan
from gpufleet.units import in_full

C = TypeVar("C", bound=Copies)
R = TypeVar("R", bound=RentedService)
P = TypeVar("P", bound=ServicePlan)
DIGITS = 3


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

    plan: type[P]
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
    return kind.plan.made_of(
        asked,
        model=question.model.name,
        num_parameters=question.model.num_parameters,
        rate_requests_per_s=demand.workload.rate_requests_per_s,
        mean_requests_per_s=None if demand.quiet is None else demand.mean_requests_per_s,
        headroom_wanted_ratio=demand.headroom_ratio,
        busiest_requests_per_s=demand.busiest_requests_per_s or None,
        confidence=demand.confidence,
        for_certainty=many_more_copies(question, solution),
        objectives={limit.label: limit.limit_s for limit in demand.workload.slo.limits},
        deployments=deployments,
        rejections=rejection_counts(solution.rejections),
        relaxations=[] if deployments or not len(copies) else relaxations(question, solution),
        num_layouts=copies.num_layouts,
        num_configurations=solution.num_configurations,
        num_offers=len(question.offers) + len(question.undated),
        price_sources=price_sources(price_days([*deployments, *undated]), asked.sources),
        undated_alternative=next(iter(undated), None),
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


def relaxations(question: AnyQuestion, solution: AnySolution) -> list[Relaxation]:
    """Changes after which something serves: each alone, or else the smallest two, or else objectives together."""
    return [row for found in helping_changes(question, solution) for row in rows_of(question, found)]


def rows_of(question: AnyQuestion, found: Help) -> list[Relaxation]:
    """A change of one quantity or of two."""
    who = who_serves(found)
    limits = {limit.label: limit for limit in question.demand.workload.slo.limits}
    return [
        limit_row(limits[name], limits[name].limit_s * ratio, who, len(found.by) > 1)
        if name in limits
        else other_row(question, name, ratio, found, who)
        for name, ratio in found.by.items()
    ]


def who_serves(found: Help) -> str:
    """Machines that serve, with their cost."""
    return f"{found.instance_count}x {found.offer.cloud} {found.offer.instance} (${found.usd_per_hour:,.2f}/h)"


def limit_row(limit: Limit, seconds: float, who: str, together: bool) -> Relaxation:
    """An objective that gives way."""
    return Relaxation(
        limit=limit.label,
        asked_s=limit.limit_s,
        needed_s=seconds,
        asked=in_ms(limit.limit_s),
        needed=at_least_ms(seconds),
        candidate=who,
        together=together,
    )


def other_row(question: AnyQuestion, name: str, ratio: float, found: Help, who: str) -> Relaxation:
    """Something else that gives way."""
    asked, needed = asked_and_needed(question, name, ratio, found)
    return Relaxation(limit=name, asked=asked, needed=needed, candidate=who, together=len(found.by) > 1)


def asked_and_needed(question: AnyQuestion, name: str, ratio: float, found: Help) -> tuple[str, str]:
    """What was asked of a quantity that is no objective, and what it would have to be."""
    workload, purse = question.demand.workload, question.purse.most_usd_per_hour
    if name == BUDGET:
        return f"${purse:,.2f}/h", f"${math.ceil(found.usd_per_hour * 100) / 100:,.2f}/h"
    if name == MACHINES:
        return "what can be had", f"{found.instance_count}"
    now = {RATE: workload.rate_requests_per_s, INPUT: workload.input_tokens, OUTPUT: workload.output_tokens}[name]
    unit = "/s" if name == RATE else ""
    return f"{in_full(now)}{unit}", f"{in_full(rounded_down(now / ratio))}{unit}"


def rounded_down(value: float) -> float:
    """Three digits, no more than the value.

    >>> rounded_down(1234.5), rounded_down(0.98765)
    (1230.0, 0.987)
    """
    scale = 10.0 ** (DIGITS - 1 - math.floor(math.log10(value)))
    return math.floor(value * scale) / scale
