"""Two setups beside each other, as a page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from gpufleet.report.numbers import amount, count, duration, percent, ranged, significant, usd, usd_per_hour
from gpufleet.report.page import Column, Page, Table
from gpufleet.report.plan_further import REFUSED_COLUMNS, machines_of
from gpufleet.report.ranges import ranged_figure
from gpufleet.report.rented import gpus
from gpufleet.report.words import copies_words
from gpufleet.results.comparison import Comparison, FleetComparison, Side
from gpufleet.results.plan import Deployment

CANNOT = "cannot serve"
EQUAL = significant(1.0, 2)
MOST_RANGES = 8


def comparison_page(result: Comparison) -> Page:
    """Who is cheaper and by how much, all figures, and at which rates who wins."""
    tables = [figures_table(result)]
    tables += [ranges_table(result)] if result.ranges and result.is_feasible else []
    tables += [changed_table(result)] if result.changed_inputs else []
    tables += [refused_table(side) for side in (result.first, result.second) if side.refused]
    said = [f"{note}." for side in (result.first, result.second) for note in side.notes]
    return Page(headline(result), tables, [*result.notes, *said])


def fleet_comparison_page(result: FleetComparison) -> Page:
    """What all costs in both plans, then each model beside itself."""
    first, second = (usd_per_hour(usd) for usd in (result.first_usd_per_hour, result.second_usd_per_hour))
    tables = [fleet_costs_table(result)]
    for pair in result.models:
        tables.append(replace(figures_table(pair), title=f"{pair.model} compared"))
        tables += (
            [replace(changed_table(pair), title=f"{pair.model}: inputs that differ")] if pair.changed_inputs else []
        )
    notes = [f"{name} is only in {result.first}." for name in result.only_first]
    notes += [f"{name} is only in {result.second}." for name in result.only_second]
    headline = f"All models together: {result.first} {first}, {result.second} {second}."
    return Page(headline, tables, [*notes, *result.notes])


def fleet_costs_table(result: FleetComparison) -> Table:
    """The cost of each model that both plans have, alone."""
    rows = [(pair.model, bought(pair.first), bought(pair.second)) for pair in result.models]
    columns = two_columns("each model alone", result.first, result.second)
    return Table.of_cells(columns, rows, empty="No model is in both plans.")


def two_columns(what: str, first: str, second: str) -> list[Column]:
    """Something of both sides."""
    return [Column("name", what), Column("first", first, wraps=True), Column("second", second, wraps=True)]


def bought(side: Side) -> str:
    """Machines and their cost."""
    return CANNOT if side.deployment is None else machines_of(side.deployment)


def headline(result: Comparison) -> str:
    """The cheaper one in one sentence."""
    first, second = result.first, result.second
    asked = f"{result.model} at {amount(result.rate_requests_per_s)} requests/s"
    if first.deployment is None or second.deployment is None:
        serves = [side for side in (first, second) if side.deployment is not None]
        return f"{asked}: only {serves[0].asked} serves this." if serves else f"{asked}: neither serves this."
    cheap, dear = sorted((first, second), key=lambda side: side.deployment.usd_per_hour if side.deployment else 0.0)
    return f"{asked}: {cost_words(cheap, dear)}; {speed_words(result, cheap, dear)}."


def cost_words(cheap: Side, dear: Side) -> str:
    """Who costs less, and how much."""
    low, high = (side.deployment.usd_per_hour if side.deployment else 0.0 for side in (cheap, dear))
    if low == high:
        return f"{cheap.asked} and {dear.asked} cost the same, {usd_per_hour(low)}"
    less = f"{percent(1 - low / high)} less than {dear.asked} ({usd_per_hour(high)})"
    return f"{cheap.asked} costs {usd_per_hour(low)}, {less}"


def speed_words(result: Comparison, cheap: Side, dear: Side) -> str:
    """Who answers sooner, by the figure that both have."""
    both = [side.deployment.latency if side.deployment else {} for side in (cheap, dear)]
    shared = [name for name in both[0] if name in both[1]]
    name = next((n for n in shared if n.startswith("latency")), shared[-1] if shared else None)
    if name is None:
        return "they have no latency figure in common"
    own, other = (latency[name].value for latency in both)
    faster, slower = (cheap, dear) if own <= other else (dear, cheap)
    times = significant(max(own, other) / min(own, other), 2)
    if times == EQUAL:
        return f"they are equally fast ({name} {duration(own)})"
    return f"{faster.asked} is {times} times as fast as {slower.asked} ({name} {duration(min(own, other))})"


def figures_table(result: Comparison) -> Table:
    """Every figure of both."""
    sides = (result.first, result.second)
    labels = dict.fromkeys(label for side in sides if side.deployment for label in side.deployment.latency)
    figures = FIGURES | {label: partial(latency_words, label=label) for label in labels}
    rows = [
        (name, *(show(side.deployment) if side.deployment else CANNOT for side in sides))
        for name, show in figures.items()
    ]
    return Table.of_cells(two_columns("figure", *(side.asked for side in sides)), rows, "Compared")


def latency_words(d: Deployment, label: str) -> str:
    """One latency figure."""
    figure = d.latency.get(label)
    return "unknown" if figure is None else duration(figure.value)


def electricity(d: Deployment) -> str:
    """Electricity of the GPUs."""
    if d.energy is None:
        return "unknown"
    kwh = d.energy.kwh_per_hour
    return ranged(kwh.value, kwh.low, kwh.high, "kWh/h")


FIGURES: dict[str, Callable[[Deployment], str]] = {
    "$/h": lambda d: usd(d.usd_per_hour),
    "$/1M out": lambda d: usd(d.usd_per_million_output_tokens),
    "machines": machines_of,
    "GPUs": gpus,
    "replicas": lambda d: copies_words(d),
    "carries": lambda d: ranged_figure(d.requests_per_s_capacity, "requests/s"),
    "number set by": lambda d: d.binding_limit,
    "memory slack": lambda d: f"{percent(d.slack_ratio.get('KV room'))} of {count(d.largest_batch)} sequences",
    "electricity": electricity,
    "grade": lambda d: d.grade,
}


def ranges_table(result: Comparison) -> Table:
    """Who is cheaper at which rates; the middle is left out where machines fill up in turn."""
    columns = [Column("rates", "requests/s"), Column("cheaper", "cheaper")]
    rows: list[tuple[str, str]] = []
    before = -1
    for at in shown_ranges(result):
        r = result.ranges[at]
        rows += [("...", f"alternating {at - before - 1} more times")] if at - before > 1 else []
        rates = f"{significant(r.from_requests_per_s)} to {significant(r.to_requests_per_s)}"
        rows.append((rates, r.cheaper or ("the same" if r.is_served else "neither serves")))
        before = at
    last = result.ranges[-1]
    settled = "" if last.cheaper is None else f"From {significant(last.from_requests_per_s)}/s on: {last.cheaper}."
    notes = [*filter(None, [settled]), "The objectives and headroom hold at every rate."]
    return Table.of_cells(columns, rows, "Cheaper at which rate", notes)


def shown_ranges(result: Comparison) -> list[int]:
    """The first and the last stretches, and that of the asked rate."""
    number, half, rate = len(result.ranges), MOST_RANGES // 2, result.rate_requests_per_s
    here = (i for i, r in enumerate(result.ranges) if r.from_requests_per_s < rate <= r.to_requests_per_s)
    return sorted({*range(min(half, number)), *range(max(number - half, 0), number), *here})


def changed_table(result: Comparison) -> Table:
    """In what the questions of two plans differ."""
    columns = two_columns("input", result.first.asked, result.second.asked)
    return Table(columns, [c.model_dump() for c in result.changed_inputs], "Differences in the question")


def refused_table(side: Side) -> Table:
    """Why one side cannot serve."""
    return Table.of(side.refused, REFUSED_COLUMNS, f"Why {side.asked} cannot serve")
