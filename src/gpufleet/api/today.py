"""What runs today beside a plan: whether it serves, how loaded it is, and what to do with it."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import date

from gpufleet.answers.plan_parts import price_sources
from gpufleet.answers.service_figures import running_usd
from gpufleet.answers.today import PlanEnds, SolvedMachines, today_of
from gpufleet.api.answers import ServeAnswer
from gpufleet.api.fleet_today import FleetToday, HadMachines, fleet_of
from gpufleet.api.prepared import Prepared
from gpufleet.api.requests import ServeRequest
from gpufleet.catalog.load import Catalog
from gpufleet.domain.calibration import Calibration
from gpufleet.domain.confidence import HIGH_END
from gpufleet.domain.instance import Instance
from gpufleet.domain.offer import Offer, PriceKind
from gpufleet.errors import UsageError
from gpufleet.optimize.copies.decoder import WriterQuestion, WriterSolution
from gpufleet.optimize.market import PricedPlacement
from gpufleet.optimize.placement import place
from gpufleet.optimize.replicas import EveryRejection
from gpufleet.optimize.service import solve_owned
from gpufleet.optimize.today import Needs, needed
from gpufleet.questions.fields import words_of
from gpufleet.results.answer import PriceSource

LOW_END = 1 - HIGH_END
OTHER_LINES = "Lines of bill_lines.csv are in neither bill of today's verdict"


def with_today(plan: ServeAnswer, prepared: Prepared) -> ServeAnswer:
    """The plan with what runs today, and what to do with it."""
    request, tables, question, solution = prepared.request, prepared.tables, prepared.question, prepared.solution
    refuse_unanswered(request)
    fleet, calibration = fleet_of(request, tables), prepared.calibration
    asked, fast, slow = (
        [solved_machines(m, question, calibration, c) for m in fleet.machines]
        for c in (question.demand.confidence, LOW_END, HIGH_END)
    )
    needs = Needs(*(needed([s.held for s in solved], question.demand) for solved in (asked, fast, slow)))
    ends = plan_ends(plan, question, solution, calibration, fleet)
    notes = [*fleet.notes, *([OTHER_LINES] if tables.bill_lines else [])]
    today = today_of(request.fleet_today or "", asked, fleet.bill_usd_per_hour, needs, ends, notes)
    said = {"price_sources": with_list_prices(plan, fleet, tables), "notes": list(dict.fromkeys([*notes, *plan.notes]))}
    return plan.model_copy(update={"today": today, **said})


def refuse_unanswered(request: ServeRequest) -> None:
    """Refuse what today's fleet cannot be judged with yet."""
    beyond = [row for row in words_of(ServeRequest).values() if row.beyond_today]
    said = [row.beyond_today for row in beyond if getattr(request, row.field) not in (None, row.plain)]
    said += ["changed prices"] if request.price_change else []
    if said:
        found = " and ".join(dict.fromkeys(said))
        raise UsageError(
            "today's fleet cannot be combined with these yet", found=found, expected="--today or these left out"
        )


def solved_machines(
    had: HadMachines, question: WriterQuestion, calibration: Calibration, confidence: float
) -> SolvedMachines:
    """What machines of one type can run where times are so late."""
    own, rejections = on_machine(question, had.instance, confidence), EveryRejection()
    solution = solve_owned(own, calibration, rejections)
    placement = place(had.instance, solution.copies, solution.found, own.demand)
    return SolvedMachines(had.asked, had.count, had.instance, had.price, had.most, own, solution, rejections, placement)


def on_machine(question: WriterQuestion, instance: Instance, confidence: float) -> WriterQuestion:
    """The same question of one machine type, with limits that hold as surely."""
    demand = replace(question.demand, confidence=confidence)
    return replace(question, instances=(instance,), offers=(), demand=demand)


def plan_ends(
    plan: ServeAnswer, question: WriterQuestion, solution: WriterSolution, calibration: Calibration, fleet: FleetToday
) -> PlanEnds | None:
    """What the plan's answer costs at both ends of the range; of two offers together the ends are not known."""
    if not plan.deployments:
        return None if plan.mix is None else PlanEnds(plan.mix.usd_per_hour)
    chosen = solution.ranked[0]
    fast, slow = (usd_at(chosen, question, calibration, c) for c in (LOW_END, HIGH_END))
    alike = all(runs_alike(chosen.placement.instance, m.instance) for m in fleet.machines)
    usd = avoidable_usd_per_hour(chosen, chosen.placement.instance_count)
    return PlanEnds(usd, fast, slow, alike, is_same_type(chosen.offer, fleet))


def avoidable_usd_per_hour(chosen: PricedPlacement, machines: int) -> float:
    """What so many machines cost where they run: of one's own, what is not spent already."""
    running = running_usd(chosen.offer, machines)
    return chosen.machines_usd_per_hour(machines) if running is None else running


def usd_at(chosen: PricedPlacement, question: WriterQuestion, calibration: Calibration, confidence: float) -> float:
    """What as many machines of the answer cost as the demand takes then; infinite where no number of them serves."""
    instance = chosen.placement.instance
    own = on_machine(question, instance, confidence)
    solution = solve_owned(own, calibration, EveryRejection())
    placement = place(instance, solution.copies, solution.found, own.demand)
    return math.inf if placement is None else avoidable_usd_per_hour(chosen, placement.instance_count)


def is_same_type(offer: Offer, fleet: FleetToday) -> bool:
    """Whether an offer sells on demand the very type that runs today."""
    types = [(m.instance.cloud, m.instance.name) for m in fleet.machines]
    return types == [(offer.cloud, offer.instance)] and offer.price_kind is PriceKind.ON_DEMAND


def runs_alike(one: Instance, other: Instance) -> bool:
    """Whether two machine types hold the same GPUs on the same link."""
    return one.host == other.host


def with_list_prices(plan: ServeAnswer, fleet: FleetToday, tables: Catalog) -> list[PriceSource]:
    """The sources of the plan's prices and of today's list prices."""
    used: list[tuple[str, date | None]] = [(s.id, s.as_of) for s in plan.price_sources]
    prices = [m.price for m in fleet.machines]
    paid = [(p.source, p.as_of) for p in prices if p.source and p.as_of]
    listed = [(p.listed.source, p.listed.as_of) for p in prices if p.listed is not None]
    return price_sources([*used, *paid, *listed], tables.sources)
