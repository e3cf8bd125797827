"""The fleet of today as users get it: figures of each type, bills, and the saving of each step with its range."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gpufleet.answers.plan_parts import refusals
from gpufleet.answers.service_figures import capacity_figure, is_tight, latency_figures
from gpufleet.answers.service_plan import Context
from gpufleet.domain.instance import Instance
from gpufleet.optimize.copies.decoder import WriterQuestion, WriterSolution
from gpufleet.optimize.demand import Demand
from gpufleet.optimize.placement import Placement
from gpufleet.optimize.replicas import EveryRejection
from gpufleet.optimize.size import Operation, operate, operate_beyond
from gpufleet.optimize.today import (
    Counts,
    Held,
    Needs,
    PlanCost,
    Step,
    carried,
    cost_usd_per_hour,
    running,
    serves,
    verdict,
)
from gpufleet.pricing.effective_price import usd_per_month
from gpufleet.records import dataclass
from gpufleet.results.base import Figure
from gpufleet.results.today import PricePaid, Today, TodaysMachines, TodaysService

NAMELESS = ""


@dataclass(frozen=True)
class SolvedMachines:
    """Machines of one type, what they can run, and the layout that needs the fewest of them."""

    asked: str
    count: int
    instance: Instance
    price: PricePaid
    most: float
    question: WriterQuestion
    solution: WriterSolution
    rejections: EveryRejection
    placement: Placement | None

    @property
    def replicas_each(self) -> int:
        """Replicas on one machine."""
        return 0 if self.placement is None else self.placement.replicas // self.placement.instance_count

    @property
    def held(self) -> Held:
        """What decides about them."""
        rate = 0.0 if self.placement is None else float(self.solution.found.requests_per_s[self.placement.row])
        return Held(self.count, self.replicas_each * rate, self.replicas_each, self.price.usd_per_hour, self.most)


@dataclass(frozen=True)
class PlanEnds:
    """What the machines of the plan's answer cost, as asked and where they turn out fast or slow (None: not known)."""

    usd_per_hour: float
    fast_usd_per_hour: float | None = None
    slow_usd_per_hour: float | None = None
    runs_alike: bool = False
    is_same: bool = False

    @property
    def cost(self) -> PlanCost:
        """What decides."""
        slow = math.inf if self.slow_usd_per_hour is None else self.slow_usd_per_hour
        return PlanCost(self.usd_per_hour, slow, self.runs_alike, self.is_same)

    @property
    def month(self) -> Figure:
        """The bill of a month."""
        return month_figure(self.usd_per_hour, self.fast_usd_per_hour, self.slow_usd_per_hour)


def today_of(
    asked: str,
    solved: Sequence[SolvedMachines],
    bill_usd_per_hour: float | None,
    needs: Needs,
    plan: PlanEnds | None,
    notes: list[str],
) -> Today:
    """What runs today, and what to do with it."""
    held, demand = [s.held for s in solved], solved[0].question.demand
    bill = cost_usd_per_hour(held, running(held)) if bill_usd_per_hour is None else bill_usd_per_hour
    own, paid = own_figure(held, needs, bill), None if plan is None else plan.month
    own_usd = None if own is None else own_usd_per_hour(held, needs.asked, bill)
    found = verdict(running(held), needs, own_usd, None if plan is None else plan.cost, bill)
    saving = saved(bill, paid if found.step is Step.REPLACE else own)
    return Today(
        asked=asked,
        machines=[machines_today(s, held, i, needs.asked) for i, s in enumerate(solved)],
        usd_per_hour=bill,
        usd_per_month=None if bill is None else float(usd_per_month(bill)),
        bill_origin="bill" if bill_usd_per_hour is not None else origin_of([s.price for s in solved]),
        headroom_ratio=carried(held) / demand.workload.rate_requests_per_s - 1 if carried(held) else None,
        serves=serves(held, demand),
        needed_machines=needed_figure(needs),
        step=found.step.value,
        is_close=found.is_close,
        saving_usd_per_month=saving,
        saving_ratio=None if saving is None or not bill else saving.value / float(usd_per_month(bill)),
        own_saving_usd_per_month=saved(bill, own),
        plan_usd_per_month=paid,
        is_plan_of_same_type=plan is not None and plan.is_same,
        plan_saving_usd_per_month=saved(bill, paid),
        notes=notes,
    )


def saved(bill_usd_per_hour: float | None, then: Figure | None) -> Figure | None:
    """Today's bill less what is paid then, with the range of what is paid then."""
    if bill_usd_per_hour is None or then is None:
        return None
    now = float(usd_per_month(bill_usd_per_hour))
    low, high = (None if end is None else now - end for end in (then.high, then.low))
    return Figure(value=now - then.value, unit=then.unit, low=low, high=high, grade=then.grade)


def own_figure(held: Sequence[Held], needs: Needs, bill_usd_per_hour: float | None) -> Figure | None:
    """What today's types cost a month in the number that is needed; None where a price is unknown or none serves."""
    if needs.asked is None:
        return None
    usd = [own_usd_per_hour(held, counts, bill_usd_per_hour) for counts in (needs.asked, needs.fast, needs.slow)]
    return None if usd[0] is None else month_figure(usd[0], usd[1], usd[2])


def own_usd_per_hour(held: Sequence[Held], counts: Counts | None, bill_usd_per_hour: float | None) -> float | None:
    """What so many of today's machines cost; all of them what the bill says, whatever it is made of."""
    return bill_usd_per_hour if counts == running(held) else cost_usd_per_hour(held, counts)


def month_figure(usd_per_hour: float, fast: float | None, slow: float | None) -> Figure:
    """A bill of a month with the range that speeds give it, where that is known."""
    low = None if fast is None else float(usd_per_month(min(fast, usd_per_hour)))
    high = None if slow is None else float(usd_per_month(max(slow, usd_per_hour)))
    return Figure(value=float(usd_per_month(usd_per_hour)), unit="USD/month", low=low, high=high)


def needed_figure(needs: Needs) -> Figure | None:
    """Machines of today's types that the demand takes."""
    if needs.asked is None:
        return None
    ends = (needs.asked, needs.fast, needs.slow)
    asked, fast, slow = (math.inf if counts is None else float(sum(counts)) for counts in ends)
    return Figure(value=asked, unit="machines", low=min(fast, asked), high=max(slow, asked))


def machines_today(s: SolvedMachines, held: Sequence[Held], place: int, asked: Counts | None) -> TodaysMachines:
    """Machines of one type with what they do, or why they cannot."""
    nameless = s.instance.cloud == NAMELESS
    share = s.held.count * s.held.requests_per_s / carried(held) if s.placement is not None else 0.0
    return TodaysMachines(
        asked=s.asked,
        cloud=None if nameless else s.instance.cloud,
        instance=None if nameless else s.instance.name,
        gpu=s.instance.accelerator,
        gpus_per_instance=s.instance.gpu_count,
        instance_count=s.count,
        price=s.price,
        needed_count=None if asked is None else asked[place],
        service=None if s.placement is None else service_today(s, s.placement, share),
        refused=refusals(s.rejections.kept) if s.placement is None else [],
    )


def service_today(s: SolvedMachines, p: Placement, share: float) -> TodaysService:
    """What the machines do at their share of the requests, in the layout that carries most."""
    context, found, demand = Context.of(s.question, s.solution), s.solution.found, s.question.demand
    rate, replicas = share * demand.workload.rate_requests_per_s, s.count * s.replicas_each
    label = s.solution.copies.grades[p.row].label
    capacity = replicas * float(found.requests_per_s[p.row])
    running = running_at(s, p, rate / replicas, demand, capacity)
    copies, bounds = s.solution.copies, context.bounds
    latency = {} if running is None else latency_figures(found, p.row, running, bounds, label, copies.floors_s(p.row))
    carried = capacity_figure(found, p.row, replicas, bounds, label)
    return TodaysService(
        layout=copies.layout(p.row).label,
        gpus_per_replica=p.gpus_per_replica,
        replicas=replicas,
        engine=copies.engine(p.row),
        weight_format=copies.weights(p.row),
        kv_precision=copies.kv_precision(p.row),
        requests_per_s=rate,
        requests_per_s_capacity=carried,
        load_ratio=rate / replicas / float(found.sustained_requests_per_s[p.row]),
        latency=latency,
        is_tight=running is None or is_tight(latency, demand.workload.slo.limits, carried, rate),
        grade=label,
    )


def running_at(
    s: SolvedMachines, p: Placement, requests_per_s: float, demand: Demand, capacity: float
) -> Operation | None:
    """A replica at its rate; beyond what its limits allow too, None where queues grow without end."""
    if requests_per_s * s.count * s.replicas_each <= capacity:
        return operate(s.solution.found, p.row, requests_per_s)
    return operate_beyond(s.solution.found, p.row, requests_per_s)


def origin_of(prices: Sequence[PricePaid]) -> str:
    """Where a bill of these comes from: one word where all agree."""
    origins = {p.origin for p in prices}
    return origins.pop() if len(origins) == 1 else "unknown" if "unknown" in origins else "stated and list"
