"""What moves the bill of a plan most, a line each: single changes, limits at an edge, certainty."""

from __future__ import annotations

from collections.abc import Sequence

from gpufleet.report.numbers import amount, percent, usd, usd_per_hour
from gpufleet.report.page import Table, lines_table
from gpufleet.report.rented import about, short_machines
from gpufleet.report.service_reasons import certainty_line, copies_line
from gpufleet.report.text import cut
from gpufleet.report.words import exact_time
from gpufleet.results.levers import CheapestThen, Lever, LimitEdge
from gpufleet.results.plan import ServePlan, ServicePlan

TITLE, MOST_LEVERS, MARGIN = "What moves the bill", 4, 2
TIGHT = " (tight)"
LIMIT, SPOT, USD_PER_HOUR = "limit", "spot", "USD/h"


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
