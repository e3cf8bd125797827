"""The fleet that runs today and what it costs; beside a plan, whether it serves, how loaded it is, what to do."""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import date

from gpufleet.answers.plan_parts import price_sources
from gpufleet.answers.service_figures import running_usd
from gpufleet.answers.today import PlanEnds, SolvedMachines, today_of
from gpufleet.api.answers import ServeAnswer
from gpufleet.api.market import USUAL_KINDS, refuse_too_old, regions_asked
from gpufleet.api.serve_questions import Prepared
from gpufleet.api.setups import Setup, parse_setup
from gpufleet.catalog.load import Catalog
from gpufleet.catalog.own_prices import MOST_SAVING_RATIO
from gpufleet.catalog.query import OfferFilter, allows, matching_offers
from gpufleet.catalog.usual_prices import OUTLIER_FACTOR, is_usual, times_in_words, usual_per_gpu
from gpufleet.domain.calibration import Calibration
from gpufleet.domain.confidence import HIGH_END
from gpufleet.domain.fabric import Fabric
from gpufleet.domain.instance import Instance
from gpufleet.domain.offer import Offer, PriceKind
from gpufleet.errors import UsageError
from gpufleet.inputs.fleet_today import TypedFleet, TypedMachines, parse_fleet
from gpufleet.optimize.copies.decoder import WriterQuestion, WriterSolution
from gpufleet.optimize.links import usual_link, usual_machine
from gpufleet.optimize.market import PricedPlacement, effective_price
from gpufleet.optimize.placement import place
from gpufleet.optimize.replicas import EveryRejection
from gpufleet.optimize.service import solve_owned
from gpufleet.optimize.today import Needs, needed
from gpufleet.pricing.effective_price import usd_per_month
from gpufleet.pricing.owned import running_usd_per_hour
from gpufleet.questions.fields import ServeRequest, words_of
from gpufleet.records import dataclass
from gpufleet.results.answer import PriceSource
from gpufleet.results.today import ListPrice, PricePaid

LOW_END = 1 - HIGH_END
OTHER_LINES = "Lines of bill_lines.csv are in neither bill of today's verdict"
STATED, BILL, OWN, LIST, UNKNOWN = "stated", "bill", "own", "list", "unknown"
NAMELESS = ""


@dataclass(frozen=True)
class HadMachines:
    """Machines of one type that run today; `instance.cloud` is empty where only their GPUs are known.

    `most` can be had at all, where a quota or one's own rack bounds them.
    """

    asked: str
    count: int
    instance: Instance
    price: PricePaid
    most: float
    notes: tuple[str, ...]


@dataclass(frozen=True)
class FleetToday:
    """All machines that run today, and the bill where it was stated."""

    machines: tuple[HadMachines, ...]
    bill_usd_per_hour: float | None
    remarks: tuple[str, ...] = ()

    @property
    def notes(self) -> list[str]:
        """How names and prices were read."""
        return list(dict.fromkeys([*self.remarks, *(note for m in self.machines for note in m.notes)]))


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
    alike = all(chosen.placement.instance.host == m.instance.host for m in fleet.machines)
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


def with_list_prices(plan: ServeAnswer, fleet: FleetToday, tables: Catalog) -> list[PriceSource]:
    """The sources of the plan's prices and of today's list prices."""
    used: list[tuple[str, date | None]] = [(s.id, s.as_of) for s in plan.price_sources]
    prices = [m.price for m in fleet.machines]
    paid = [(p.source, p.as_of) for p in prices if p.source and p.as_of]
    listed = [(p.listed.source, p.listed.as_of) for p in prices if p.listed is not None]
    return price_sources([*used, *paid, *listed], tables.sources)


def fleet_of(request: ServeRequest, tables: Catalog) -> FleetToday:
    """The fleet of a request."""
    typed = parse_fleet(request.fleet_today or "")
    priced = with_rest_of_bill(typed, [had_machines(m, typed, request, tables) for m in typed.machines])
    machines = tuple(replace(m, price=with_list_price(m.price, m.instance, request, tables)) for m in priced)
    said = [] if typed.bill_usd_per_hour is None else unusual_bill(typed.bill_usd_per_hour, machines, tables)
    return FleetToday(machines, typed.bill_usd_per_hour, tuple(said))


def with_rest_of_bill(fleet: TypedFleet, machines: Sequence[HadMachines]) -> tuple[HadMachines, ...]:
    """The machines; of a bill, what those with a price leave is the price of a single type without one."""
    unpriced = [m for m in machines if m.price.usd_per_hour is None]
    if fleet.bill_usd_per_hour is None:
        return tuple(machines)
    stated = sum(m.count * m.price.usd_per_hour for m in machines if m.price.usd_per_hour is not None)
    rest = fleet.bill_usd_per_hour - stated
    if rest <= 0:
        found = f"${stated:,.2f}/h of machines, ${fleet.bill_usd_per_hour:,.2f}/h in all"
        raise UsageError("today's prices leave nothing of the bill", found=found, expected="a bill of all machines")
    share = PricePaid(origin=BILL, usd_per_hour=rest / unpriced[0].count if len(unpriced) == 1 else None)
    return tuple(replace(m, price=share) if m in unpriced else m for m in machines)


def had_machines(typed: TypedMachines, fleet: TypedFleet, request: ServeRequest, tables: Catalog) -> HadMachines:
    """Machines of one type with what one costs."""
    setup = parse_setup(typed.name, tables)
    instance = setup.instance or nameless_machine(setup, typed, tables)
    if instance.gpu_count < 1:
        raise UsageError("today's machines hold whole GPUs", found=typed.asked, expected="a machine of 1 GPU or more")
    price, notes = price_of(typed, fleet, instance, request, tables)
    most = most_to_be_had(list_offers(instance, tables))
    return HadMachines(typed.asked, typed.count, instance, price, most, (*setup.notes, *notes))


def most_to_be_had(offers: Sequence[Offer]) -> float:
    """Machines that the largest of these offers allows; any number where one is unbounded, or none is known."""
    bounds = [math.inf if (most := o.most_instances) is None else most for o in offers]
    return max(bounds, default=math.inf)


def nameless_machine(setup: Setup, typed: TypedMachines, tables: Catalog) -> Instance:
    """A machine of which the GPUs are known, on the link that such GPUs usually have."""
    gpu, number = tables.accelerators[setup.gpu], setup.gpus_per_replica
    if number is None:
        expected = f"'{typed.count} {setup.asked}:8' for machines of 8 GPUs"
        raise UsageError("how many GPUs a machine holds is missing", found=typed.asked, expected=expected)
    if number > usual_machine(gpu):
        hint = f"Several machines are '4 {setup.asked.partition(':')[0]}:{usual_machine(gpu)}'."
        expected = f"at most {usual_machine(gpu)} GPUs in a machine"
        raise UsageError("today's machines are too large", found=typed.asked, expected=expected, hint=hint)
    is_pcie, link = usual_link(gpu, number)
    fabric = Fabric("pcie" if is_pcie else "nvlink", link if number > 1 else None)
    return Instance(
        NAMELESS, f"{gpu.name}:{number}", gpu.name, number, None, None, fabric, None, None, "stated by its user"
    )


def price_of(
    typed: TypedMachines, fleet: TypedFleet, instance: Instance, request: ServeRequest, tables: Catalog
) -> tuple[PricePaid, list[str]]:
    """What one machine costs: as stated, unknown where a bill has it, or the list price."""
    if fleet.bill_usd_per_hour is not None and typed.price is None:
        return PricePaid(origin=BILL, usd_per_hour=None), []
    if typed.price is not None:
        usd = typed.price.usd_per_hour * (instance.gpu_count if typed.price.is_of_gpu else 1)
        usual = usual_of_gpu(instance, tables)
        if usual is None:
            return PricePaid(origin=STATED, usd_per_hour=usd), []
        if not typed.price.is_sure:
            refuse_price_of_gpu(typed, usd, instance, usual)
        return PricePaid(origin=STATED, usd_per_hour=usd), dear_notes(typed, usd / instance.gpu_count, usual)
    return list_price(instance, request, tables), []


def usual_of_gpu(instance: Instance, tables: Catalog) -> float | None:
    """What one GPU of a machine costs on demand: by the list price of its type, else the median over clouds."""
    listed = list_offers(instance, tables)
    if listed:
        return statistics.median(map(effective_price, listed)) / instance.gpu_count
    return usual_per_gpu(tables, tables.offers).get((instance.accelerator, PriceKind.ON_DEMAND))


def list_offers(instance: Instance, tables: Catalog) -> list[Offer]:
    """List prices of a machine type, on demand or of one's own; none where only its GPUs are known."""
    return offers_of_type(instance, tables, USUAL_KINDS)


def offers_of_type(instance: Instance, tables: Catalog, kinds: Collection[PriceKind] | None) -> list[Offer]:
    """Prices of a machine type, of these kinds or of any."""
    wanted = OfferFilter(clouds=[instance.cloud], instances=[instance.name], price_kinds=kinds)
    return matching_offers(tables, wanted) if instance.cloud != NAMELESS else []


def refuse_price_of_gpu(typed: TypedMachines, usd_per_hour: float, instance: Instance, usual: float) -> None:
    """A machine of several GPUs that would cost what one of them does is likely a slip of eight times the bill."""
    number = instance.gpu_count
    if number > 1 and usd_per_hour / number < usual / OUTLIER_FACTOR and is_usual(usd_per_hour, usual):
        found = f"{typed.asked}, and one {instance.accelerator} is usually ${usual:.2f}/h"
        of_gpu, of_machine = (f"'@{usd_per_hour:g}/{unit}/h'" for unit in ("gpu", "machine"))
        hint = f"{of_gpu} is ${usd_per_hour * number:,.2f}/h of a machine; {of_machine} is taken as it is."
        raise UsageError(f"is that the price of one GPU, or of the machine of {number:g}?", found=found, hint=hint)


def unusual_bill(usd_per_hour: float, machines: Sequence[HadMachines], tables: Catalog) -> list[str]:
    """A bill that no saving explains is refused, one far from list prices is warned of; silent where one is unknown."""
    usual = [usual_of_gpu(m.instance, tables) for m in machines]
    known = [u * m.instance.gpu_count * m.count for u, m in zip(usual, machines, strict=True) if u is not None]
    if len(known) < len(machines) or is_usual(usd_per_hour, sum(known)):
        return []
    times = usd_per_hour / sum(known)
    asked = " + ".join(m.asked for m in machines)
    if times < 1 - MOST_SAVING_RATIO:
        month = f"${usd_per_month(usd_per_hour):,.2f}/mo, and {asked} usually cost ${usd_per_month(sum(known)):,.0f}/mo"
        hint = "A price that states its unit is taken as it is: '@0.10/machine/h'."
        raise UsageError("today's bill is too low for these machines", found=month, hint=hint)
    return [f"Warning: the bill is {times_in_words([times])} the usual price of {asked}; it is taken as that of all"]


def dear_notes(typed: TypedMachines, usd_per_gpu: float, usual: float) -> list[str]:
    """A price that may be that of all machines together."""
    if usd_per_gpu <= OUTLIER_FACTOR * usual:
        return []
    times = times_in_words([usd_per_gpu / usual])
    return [f"Warning: {typed.asked} is {times} the usual price of such a machine; it is taken as that of one of them"]


def list_price(instance: Instance, request: ServeRequest, tables: Catalog) -> PricePaid:
    """The user's own price of the type but for spot, else the list price; the cheapest overstates no saving."""
    own = [o for o in offers_of_type(instance, tables, None) if o.is_own and o.price_kind is not PriceKind.SPOT]
    offers = where_asked(own or list_offers(instance, tables), request, tables)
    if not offers:
        return PricePaid(origin=UNKNOWN, usd_per_hour=None)
    cheapest = cheapest_of(offers)
    refuse_too_old(request, [cheapest])
    return paid_to(cheapest, max(map(effective_price, offers)))


def with_list_price(price: PricePaid, instance: Instance, request: ServeRequest, tables: Catalog) -> PricePaid:
    """What is paid beside the list price on demand, where the tables hold one."""
    listed = [o for o in list_offers(instance, tables) if not o.is_own and o.price_kind is PriceKind.ON_DEMAND]
    if not listed or price.origin == LIST:
        return price
    o = cheapest_of(where_asked(listed, request, tables))
    beside = ListPrice(
        usd_per_hour=effective_price(o), region=o.region, source=o.source, as_of=o.as_of, first_seen=o.first_seen
    )
    return price.model_copy(update={"listed": beside})


def where_asked(offers: Sequence[Offer], request: ServeRequest, tables: Catalog) -> list[Offer]:
    """Offers in the regions that are asked for; all, where none is there or no region is asked for."""
    regions = regions_asked(request, tables).regions
    there = [o for o in offers if allows(regions, o.region)]
    return there or list(offers)


def cheapest_of(offers: Sequence[Offer]) -> Offer:
    """The cheapest; of equal ones the first region by name."""
    return min(offers, key=lambda o: (effective_price(o), o.region))


def paid_to(offer: Offer, highest: float) -> PricePaid:
    """The price of an offer; of one's own machine, what running it costs."""
    price = effective_price(offer)
    return PricePaid(
        origin=OWN if offer.is_own else LIST,
        usd_per_hour=price if offer.own_power is None else running_usd_per_hour(offer.own_power),
        region=offer.region,
        price_kind=offer.price_kind.value,
        source=offer.source,
        as_of=offer.as_of,
        first_seen=offer.first_seen,
        highest_usd_per_hour=highest,
        owned_usd_per_hour=None if offer.own_power is None else price,
    )
