"""Why these machines for a service and what moves its bill, a line each, whatever a model does with a request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from gpufleet.domain.confidence import EXPECTED, HIGH_END
from gpufleet.report.numbers import (
    MULTIPLE_FROM,
    amount,
    count,
    duration,
    headroom,
    percent,
    plural,
    roughly,
    significant,
    usd,
    usd_per_hour,
    wanted_beside,
)
from gpufleet.report.page import Table, lines_table
from gpufleet.report.rented import about, aged_words, machines, place, short_machines, tight_row
from gpufleet.report.search import BEYOND_QUOTA, OVER_BUDGET
from gpufleet.report.text import cut
from gpufleet.report.words import exact_time
from gpufleet.results.levers import CertaintyPrice, CheapestThen, Lever, LimitEdge
from gpufleet.results.plan import RentedService, ServePlan, ServicePlan
from gpufleet.units import DAY, HOUR

if TYPE_CHECKING:
    from gpufleet.results.plan_changes import PlanChanges

MOSTLY_IDLE_RATIO, ROUNDED = 0.2, 6
UNMEASURED = "roofline"
BINDING = {
    "load": "Load sets the number: 95% of what a replica sustains.",
    "KV room": "KV room sets the number: beyond, a burst would wait for memory.",
    "engine_batch": "The engine's largest batch sets the number: memory would hold more.",
    "one_replica": "One replica is enough: no limit is near.",
    "one_machine": "One machine is enough: no limit is near.",
    "spare_machines": "Redundancy (--spare-machines, --zones) sets the number: one machine would carry the load.",
    "least_replicas": "--min-replicas sets the number: no limit is near.",
}
TITLE, MOST_LEVERS, MARGIN = "What moves the bill", 4, 2
TIGHT = " (tight)"
LIMIT, SPOT, USD_PER_HOUR = "limit", "spot", "USD/h"


def total(d: RentedService, show: Callable[[float], str], amount_usd: float) -> str:
    """A total in cents; in two digits and marked where it rests on an estimated price or on a GPU nobody measured."""
    if d.price_basis != "estimated" and d.grade != UNMEASURED:
        return show(amount_usd)
    return roughly(show, amount_usd)


def why_nothing(plan: ServicePlan | PlanChanges) -> str:
    """Why there is no answer."""
    dear = next((r for r in plan.rejections if r.code == OVER_BUDGET), None)
    if dear is not None:
        return f"everything that can serve it is {dear.reason} (cheapest: {dear.best})."
    short = next((r for r in plan.rejections if r.code == BEYOND_QUOTA), None)
    if short is not None:
        return f"everything that can serve it needs {short.reason} (fewest: {short.best})."
    if any(r.asked_s is not None for r in plan.relaxations):
        return "no machine on offer meets every objective."
    if not plan.rejections:
        return "no machine on offer can run it."
    first = plan.rejections[0]
    return f"nothing on offer serves it. Most common reason: {first.reason} (nearest: {first.best})."


def capacity_line(plan: ServicePlan, d: RentedService) -> str:
    """What all replicas carry as surely as the plan promises, and as expected, beside what is asked."""
    busiest, wanted = plan.busiest_requests_per_s, wanted_beside(d.headroom_ratio, plan.headroom_wanted_ratio)
    also = "" if busiest is None else f", and {amount(busiest)}/s in the busiest stretch"
    expected = f"{significant(d.requests_per_s_capacity.value)}"
    if d.sure_requests_per_s is None or plan.confidence <= EXPECTED:
        return f"Carries {expected} requests/s as expected: {beside_rate(d.headroom_ratio)}, {wanted} wanted{also}."
    sure = f"{significant(d.sure_requests_per_s)} requests/s at {percent(plan.confidence)} confidence"
    more = f"{expected} as expected, {headroom(d.headroom_ratio)} ({wanted} wanted{also})"
    return f"Carries {sure}, {beside_rate(d.spare_ratio)}; {more}."


def beside_rate(spare_ratio: float) -> str:
    """How much more than asked is carried.

    >>> beside_rate(0.32), beside_rate(9.5)
    ('32% over the rate', '10.5x what is asked')
    """
    return headroom(spare_ratio) + ("" if spare_ratio >= MULTIPLE_FROM else " over the rate")


def binding_line(plan: ServicePlan, d: RentedService) -> str:
    """What forbids more load on a replica."""
    if d.binding in broken_at_high_end(plan, d):
        return f"{sets_the_number(d)}: it is the first limit to break, and it breaks at the high end of its range."
    if d.binding in plan.objectives:
        return f"{sets_the_number(d)}: with more load on a replica it is the first limit to break."
    return BINDING.get(d.binding, f"Binding limit: {d.binding_limit}.")


def sets_the_number(d: RentedService) -> str:
    """Which limit decides how many replicas are rented."""
    return f"{d.binding_limit} sets the number"


def broken_at_high_end(plan: ServicePlan, d: RentedService) -> list[str]:
    """Objectives that the high end of their range breaks."""
    return [name for name, limit_s in plan.objectives.items() if (d.latency[name].high or 0.0) > limit_s]


def steadier_line(plan: ServicePlan) -> list[str]:
    """Where the answer is tight: the cheapest row that keeps its objectives at the high end too."""
    prices = [usd_per_hour(d.usd_per_hour) for d in plan.deployments]
    return tight_row(plan.deployments, prices, tight_words(plan), "keeps its limits", plan.confidence)


def tight_words(plan: ServicePlan) -> str:
    """Which objectives break at the high end, and the rate up to which all hold there."""
    d = plan.deployments[0]
    broken, low = broken_at_high_end(plan, d), d.requests_per_s_capacity.low or 0.0
    if not broken:
        return "queues grow without end at the high end of its range"
    verbs = ("breaks", "its") if len(broken) == 1 else ("break", "their")
    holds = f"there, limits hold only up to {significant(low)}/s" if low else "at any load"
    return f"{' and '.join(broken)} {verbs[0]} at the high end of {verbs[1]} range ({holds})"


def certainty_line(plan: ServicePlan) -> list[str]:
    """What the cheapest plan costs at each confidence, and what would narrow the range that is paid for."""
    told = plan.certainty
    if not told:
        return []
    runs = [(price, list(same)) for price, same in groupby(told, key=certain_price)]
    if len(runs) == 1:
        return [f"Certainty costs nothing: {runs[0][0]} an hour as expected and at {percent(told[-1].confidence)}."]
    said = ", ".join(f"{sure_words([x.confidence for x in same])} {price}" for price, same in runs)
    return [f"Certainty (--confidence), an hour: {said}{measure_words(plan.deployments[0], told[0])}."]


def measure_words(d: RentedService, expected: CertaintyPrice) -> str:
    """What to run to know whether the machines that are cheaper as expected hold, where any are."""
    if expected.winner is None or expected.winner.usd_per_hour >= d.usd_per_hour:
        return ""
    launch, gpu = getattr(d, "launch", None), expected.winner.gpu
    if launch is None or launch.benchmark is None:
        return f"; to know, measure {d.engine} on {gpu}"
    return f"; to know, run '{launch.benchmark}' on {gpu}"


def copies_line(plan: ServicePlan) -> list[str]:
    """That many copies are rented for certainty alone, and all that they do."""
    found = plan.for_certainty
    if found is None:
        return []
    more, sure = count(found.replicas - found.expected_replicas), percent(plan.confidence)
    moved = f"{found.limit} from {duration(found.expected_s)} to {duration(found.all_s)}"
    few = plural(found.expected_replicas, "replica")
    return [f"{few} as expected, {count(found.replicas)} at {sure}: {more} only move {moved}."]


def certain_price(told: CertaintyPrice) -> str:
    """The price at a confidence."""
    return "nothing" if told.winner is None else about(told.winner) + usd(told.winner.usd_per_hour)


def sure_words(confidences: Sequence[float]) -> str:
    """Confidences at which the price is the same.

    >>> sure_words([0.5]), sure_words([0.7, 0.8]), sure_words([0.5, 0.7])
    ('as expected', '70% to 80%', 'as expected to 70%')
    """
    ends = list(dict.fromkeys((confidences[0], confidences[-1])))
    return " to ".join("as expected" if c <= EXPECTED else percent(c) for c in ends)


def surer_line(plan: ServicePlan) -> list[str]:
    """What is paid for an answer that holds more surely than the cheapest row, and how to take that."""
    d = plan.deployments[0]
    cheapest = min(plan.deployments, key=lambda row: row.likely_usd_per_hour)
    if cheapest.likely_usd_per_hour >= d.likely_usd_per_hour or cheapest.usd_per_hour >= d.usd_per_hour:
        return []
    more = percent(d.usd_per_hour / cheapest.usd_per_hour - 1)
    price = f"{about(cheapest)}{usd_per_hour(cheapest.usd_per_hour)} for {machines(cheapest)}"
    less = f"breaks at {percent(HIGH_END)}" if cheapest.is_tight else "holds less surely"
    return [f"{more} over {price} (--steady 0), which {less}."]


def aged_row_line(plan: ServicePlan) -> list[str]:
    """The first row that costs less by its list and counts more by now, unless it is told above as cheaper if true."""
    d, told = plan.deployments[0], plan.undated_alternative
    for row, other in enumerate(plan.deployments[1:], 2):
        if told is not None and (other.cloud, other.instance) == (told.cloud, told.instance):
            return []
        if other.usd_per_hour < d.usd_per_hour and other.likely_usd_per_hour > d.likely_usd_per_hour:
            price = f"{about(other)}{usd_per_hour(other.usd_per_hour)}, price of {other.price_day}"
            return [f"Row {row} costs less by its list: {price}, {aged_words(other)} by now."]
    return []


def risk_line(d: RentedService) -> list[str]:
    """That the machines of the answer can be taken away, and how often that happens."""
    if d.price_kind != "spot":
        return []
    often = f"{d.interruption} of them are within a month" if d.interruption else "how often is not published"
    return [f"On spot: machines can be reclaimed; {often}."]


def idle_line(plan: ServicePlan, d: RentedService) -> list[str]:
    """Where a limit on latency, not work, decides how much is bought."""
    is_idle = d.load_ratio < MOSTLY_IDLE_RATIO and d.replicas > 1
    if not is_idle or d.binding not in plan.objectives:
        return []
    return [
        (
            "Latency, not capacity, sets the number: the GPUs are mostly idle. Looser limits or faster "
            "GPUs would cost less."
        )
    ]


def hours_line(d: RentedService) -> list[str]:
    """What is kept off the peak; what is paid then stands beside the price."""
    if d.quiet_instance_count is None:
        return []
    return [f"Kept off peak: {count(d.quiet_instance_count)} of {plural(d.instance_count, 'machine')}."]


def busy_words(plan: ServicePlan) -> str:
    """The hours of a day at the full rate, and the rate of the others, where hours differ."""
    if plan.mean_requests_per_s is None or not plan.deployments:
        return ""
    busy = plan.deployments[0].busy_time_ratio
    quiet = (plan.mean_requests_per_s - busy * plan.rate_requests_per_s) / (1 - busy)
    return f" ({amount(round(busy * DAY / HOUR, ROUNDED))} h a day, else {amount(round(quiet, ROUNDED))}/s)"


def price_words(d: RentedService) -> str:
    """What an hour costs; where hours differ, the mean and what it is made of."""
    mean = total(d, usd_per_hour, d.usd_per_hour)
    hours = hours_words(d)
    return f"{mean} on average ({hours})" if hours else mean


def hours_words(d: RentedService) -> str:
    """What is paid at the peak and off it, where they differ; "" where they do not."""
    if d.busy_usd_per_hour is None or d.busy_usd_per_hour == d.usd_per_hour:
        return ""
    quiet_usd = (d.usd_per_hour - d.busy_time_ratio * d.busy_usd_per_hour) / (1 - d.busy_time_ratio)
    return f"{total(d, usd, d.busy_usd_per_hour)} at the peak, {total(d, usd, quiet_usd)} off it"


def own_line(d: RentedService) -> list[str]:
    """What of one's own machines is spent already, and what running them costs."""
    if d.running_usd_per_hour is None:
        return []
    running, full = usd_per_hour(d.running_usd_per_hour), usd_per_hour(d.usd_per_hour)
    return [f"Your own machines: {running} of the {full} is electricity; the rest is a fixed cost."]


def spot_line(plan: ServicePlan) -> list[str]:
    """The cheapest spot offer of what was placed."""
    d = plan.spot_alternative
    if d is None:
        return []
    where = f"{machines(d)}, {place(d)}"
    price = f"{about(d)}{usd_per_hour(d.usd_per_hour)}"
    if d.usd_per_hour >= plan.deployments[0].usd_per_hour:
        return [f"Spot is no cheaper: from {price} ({where})."]
    often = f"{d.interruption} of them are reclaimed within a month" if d.interruption else "how often is not published"
    return [f"On spot {price} ({where}; price of {d.price_day}): machines can be reclaimed; {often}."]


def bill_table(plan: ServicePlan, width: int | None = None, fewer: int = 0) -> list[Table]:
    """The best changes, limits at an edge, and what certainty costs; nothing where nothing moves the bill.

    A page of so many columns has a line for each change, and so many `fewer` of them.
    """
    levers = shown_levers(plan)
    levers, edges = levers[: max(len(levers) - fewer, 1)], plan.edges if isinstance(plan, ServePlan) else []
    changes = [lever_line(x) if width is None else cut(short_line(x), width - MARGIN) for x in levers]
    lines = [*changes, *(edge_line(edge, plan) for edge in edges), *certainty_line(plan), *copies_line(plan)]
    return [lines_table(TITLE, lines)] if lines else []


def shown_levers(plan: ServicePlan) -> Sequence[Lever]:
    """The best few; all of them beside all flips, where they were asked for."""
    if not isinstance(plan, ServePlan):
        return []
    is_asked = any(flip.unit != USD_PER_HOUR for flip in plan.flips or ())
    return plan.levers if is_asked else plan.levers[:MOST_LEVERS]


def is_told(plan: ServicePlan, code: str, value: str | None = None) -> bool:
    """Whether a change stands among them, so that no other line says it again."""
    return any(lever.code == code and lever.value == value for lever in shown_levers(plan))


def lever_line(lever: Lever) -> str:
    """One change: what it saves, what it is and how it is asked for, what is rented then."""
    typed = f" ({lever.typed})" if lever.typed else ""
    return f"{saved(lever)} with {lever.change}{typed}: {short_machines(lever.winner)}."


def short_line(lever: Lever) -> str:
    """The same in one line: a change in words where its option would be long or there is none."""
    how = lever.change if lever.code == LIMIT or not lever.typed else lever.typed
    return f"{saved(lever)}: {how}{risk_words(lever)}, {short_machines(lever.winner)}"


def risk_words(lever: Lever) -> str:
    """That spot machines are taken away, and how often, where it is published."""
    if lever.winner.price_kind != SPOT:
        return ""
    return f" ({lever.interruption} reclaimed a month)" if lever.interruption else " (can be reclaimed)"


def saved(lever: Lever) -> str:
    """What a change saves, and what the plan costs then."""
    price = f"{about(lever.winner)}{usd_per_hour(lever.winner.usd_per_hour)}"
    return f"{percent(lever.saved_ratio)} less, {price}{TIGHT if lever.winner.doubt_ratio > 1 else ''}"


def edge_line(edge: LimitEdge, plan: ServicePlan) -> str:
    """A limit with the neighbours at which the choice changes."""
    both = ((edge.tighter_s, edge.tighter), (edge.looser_s, edge.looser))
    said = [f"< {exact_time(s)} {then_words(winner, plan)}" for s, winner in both if s is not None]
    return f"Edge: {edge.limit} {', '.join(said)}."


def then_words(winner: CheapestThen | None, plan: ServicePlan) -> str:
    """What is rented beyond an edge, by its GPUs, and what that costs an hour."""
    if winner is None:
        return f"nothing holds at {percent(plan.confidence)} confidence"
    return f"{about(winner)}{usd(winner.usd_per_hour)} ({amount(winner.gpus)}x {winner.gpu})"
