"""Two sets of GPUs, machine types or plans, beside each other."""

from __future__ import annotations

from collections import Counter
from os import PathLike
from typing import Any

from gpufleet.answers.other_machines import best_of, rate_ranges
from gpufleet.answers.plan_parts import refusals
from gpufleet.api.envelope import in_full
from gpufleet.api.machine_notes import doubts_of, doubts_of_file
from gpufleet.api.market import refuse_too_old
from gpufleet.api.plan_basis import request_of
from gpufleet.api.plan_changes import recorded, refuse_encoders, refuse_mix
from gpufleet.api.plan_files import notes_on_file, plan_in
from gpufleet.api.serve_questions import sold_tables
from gpufleet.api.setups import narrowed, parse_setup, whole_question
from gpufleet.api.spoken import spoken
from gpufleet.catalog.calibration import calibration_of
from gpufleet.catalog.load import Catalog, load_catalog
from gpufleet.domain.architecture import Architecture
from gpufleet.errors import UsageError
from gpufleet.optimize.copies.decoder import WriterQuestion
from gpufleet.optimize.crossover import CostCurve, stretches
from gpufleet.optimize.dated import writer_with_rejections
from gpufleet.questions.fields import ServeRequest
from gpufleet.records import dataclass
from gpufleet.results.comparison import ChangedInput, Comparison, FleetComparison, RateRange, Side
from gpufleet.results.fleet import FleetPlan
from gpufleet.results.plan import ServePlan


@dataclass(frozen=True)
class SolvedSide:
    """One side, and its cost at every rate."""

    side: Side
    curve: CostCurve


def compare(
    request: ServeRequest | str | PathLike[str] | Architecture,
    first: str,
    second: str,
    catalog: Catalog | None = None,
    **said: Any,
) -> Comparison:
    """Two setups ('H100:4', 'L40S', 'aws:p5.48xlarge') for one model and load, and who wins at which rate.

    `request` is a request, or a model whose load the words `said` say as for `plan_serve`.

    >>> c = compare(ServeRequest("llama-3.1-8b", 5.0, 1000, 200, "tpot.p95<50ms"), "L40S", "H100")
    >>> c.first.deployment.gpu, c.second.deployment.gpu
    ('L40S', 'H100-SXM')
    """
    request = spoken(ServeRequest, request, said)
    tables = sold_tables(request, load_catalog() if catalog is None else catalog)
    whole = whole_question(request, tables)
    one, other = (solved_side(request, whole, tables, text) for text in (first, second))
    question = one.curve.demand.workload
    found = Comparison(
        model=whole.model.name,
        rate_requests_per_s=question.rate_requests_per_s,
        objectives={limit.label: limit.limit_s for limit in question.slo.limits},
        first=one.side,
        second=other.side,
        ranges=rate_ranges(stretches(one.curve, other.curve), first, second),
    )
    return in_full(found, tables, {"setups": [first, second]}, request)


def solved_side(request: ServeRequest, whole: WriterQuestion, tables: Catalog, text: str) -> SolvedSide:
    """The cheapest of one setup, and its cost at every rate."""
    setup = parse_setup(text, tables)
    question, left_out = narrowed(request, whole, tables, setup)
    refuse_too_old(request, question.offers)
    question, solution, rejected = writer_with_rejections(question, calibration_of(tables))
    best = best_of(question, solution)
    doubts = [] if best is None else doubts_of([best])
    notes = [*doubts, *setup.notes, *([f"{text} was left out by {left_out}"] if left_out else [])]
    side = Side(asked=text, deployment=best, refused=refusals(rejected) if best is None else [], notes=notes)
    return SolvedSide(side, CostCurve.of(question, solution))


def compare_plans(
    first: str | PathLike[str],
    second: str | PathLike[str],
    catalog: Catalog | None = None,
    *,
    edited: bool = False,
) -> Comparison | FleetComparison:
    """Two plan files beside each other, as they were written; both of one model, or both of several.

    A file that was edited is refused; with `edited` its question is planned again.
    Where they ask the same, the machine types of both answers are also compared at every rate, with today's prices.
    """
    tables = load_catalog() if catalog is None else catalog
    one, other = (plan_in(path, tables, edited=edited) for path in (first, second))
    names = [str(first), str(second)]
    if isinstance(one, FleetPlan) and isinstance(other, FleetPlan):
        return in_full(fleets_compared(one, other, names, tables), tables, {"plans": names})
    if isinstance(one, FleetPlan) or isinstance(other, FleetPlan):
        raise UsageError(
            "a plan of one model and a plan of several cannot be compared",
            found=" and ".join(names),
            expected="a like pair",
        )
    for plan in (one, other):
        refuse_mix(plan, "compared")
    return in_full(plans_compared(one, other, names, tables), tables, {"plans": names})


def fleets_compared(one: FleetPlan, other: FleetPlan, names: list[str], tables: Catalog) -> FleetComparison:
    """Each model that both plans have, the n-th of a name with the n-th, and what is in one of them alone."""
    for fleet in (one, other):
        refuse_encoders(fleet, "compared")
    left, right = models_of(one), models_of(other)
    return FleetComparison(
        first=names[0],
        second=names[1],
        first_usd_per_hour=one.usd_per_hour,
        second_usd_per_hour=other.usd_per_hour,
        models=[plans_compared(left[key], right[key], names, tables) for key in left if key in right],
        only_first=[name for name, n in left if (name, n) not in right],
        only_second=[name for name, n in right if (name, n) not in left],
        notes=[*notes_on_file(one), *notes_on_file(other)],
    )


def models_of(fleet: FleetPlan) -> dict[tuple[str, int], ServePlan]:
    """The plans of a fleet by model and how often it came before."""
    seen: Counter[str] = Counter()
    found = {}
    for plan in fleet.plans:
        found[plan.model, seen[plan.model]] = plan
        seen[plan.model] += 1
    return found


def plans_compared(one: ServePlan, other: ServePlan, names: list[str], tables: Catalog) -> Comparison:
    """Two plans of one model each."""
    changed = changed_inputs(one, other)
    return Comparison(
        model=one.model if one.model == other.model else f"{one.model} and {other.model}",
        rate_requests_per_s=one.rate_requests_per_s,
        objectives=one.objectives,
        first=plan_side(names[0], one, tables),
        second=plan_side(names[1], other, tables),
        ranges=[] if asks_otherwise(changed) else ranges_of_plans([one, other], names, tables),
        changed_inputs=changed,
    )


LOAD_INPUTS = frozenset({"model", "rate", "input tokens", "output tokens", "objectives"})


def asks_otherwise(changed: list[ChangedInput]) -> bool:
    """Whether model or load differ, so that costs of one rate cannot be compared at another."""
    return any(c.name in LOAD_INPUTS for c in changed)


def plan_side(name: str, plan: ServePlan, tables: Catalog) -> Side:
    """The answer of a plan, and what puts it in doubt."""
    if not plan.deployments:
        return Side(asked=name, deployment=None, notes=notes_on_file(plan))
    notes = [*doubts_of_file(plan.answer, tables), *notes_on_file(plan)]
    return Side(asked=name, deployment=plan.answer, notes=notes)


def changed_inputs(one: ServePlan, other: ServePlan) -> list[ChangedInput]:
    """Inputs of two plans with different values, a missing one said so."""
    first, second = ({i.name: i.value for i in plan.inputs} for plan in (one, other))
    return [
        ChangedInput(name=name, first=first.get(name, "not asked"), second=second.get(name, "not asked"))
        for name in {**first, **second}
        if first.get(name) != second.get(name)
    ]


def ranges_of_plans(plans: list[ServePlan], names: list[str], tables: Catalog) -> list[RateRange]:
    """Who is cheaper at which rate, of the machine types of both answers."""
    if not all(plan.deployments for plan in plans):
        return []
    curves = []
    for plan in plans:
        d = plan.answer
        if (d.cloud, d.instance) not in tables.instances:
            raise UsageError(f"the tables no longer know {d.cloud} {d.instance}", hint="'gpufleet explain' says more.")
        request = request_of(recorded(plan))
        whole = whole_question(request, tables)
        curves.append(solved_side(request, whole, tables, f"{d.cloud}:{d.instance}").curve)
    return rate_ranges(stretches(curves[0], curves[1]), names[0], names[1])
