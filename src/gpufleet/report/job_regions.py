"""Where a job runs, as a page: the cheapest region, what it costs in others, prices, carbon, and what moves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from gpufleet.report.numbers import amount, duration, or_dash, plural, ranged, significant, usd
from gpufleet.report.numbers import usd_per_hour as per_hour
from gpufleet.report.page import Columns, Fact, Page, Table, column, lines_table, number
from gpufleet.report.ranges import ranged_by
from gpufleet.report.region_map import drawn_map
from gpufleet.report.regions import MOST_REGIONS, rejected
from gpufleet.report.rented import about, gpus, in_doubt, region_name, titled
from gpufleet.report.search import dated_sources
from gpufleet.results.regions import JobRegionPlan, JobRegionRow, KindPrice, LeastChange
from gpufleet.units import GB, KILO

NO_REGION = "No region runs the job as asked."
ON_DEMAND, SPOT, COMMIT_1Y, COMMIT_3Y = "on_demand", "spot", "commit_1y", "commit_3y"
SHOWN_KINDS = {ON_DEMAND: "on demand", SPOT: "spot", COMMIT_1Y: "1 year", COMMIT_3Y: "3 years"}
LIMITS = {"budget": "the budget, in dollars", "carbon": "kg CO2e of the job", "grid": "g CO2e/kWh of the grid"}
ROUNDING, WORTH_SAYING = 1e-12, 0.01


def job_regions_page(plan: JobRegionPlan, num_rows: int | None = None) -> Page:
    """Headline, so many of the regions that run the job, prices there, carbon, what moves."""
    run = [row for row in plan.regions if row.usd is not None]
    shown = run[: MOST_REGIONS if num_rows is None else num_rows]
    best = plan.answer
    tables = [
        *change_tables(plan.changes),
        regions_table(plan, run, shown),
        *([] if best is None else [prices_table(shown), *carbon_tables(best, run)]),
        moved_table(plan, best),
    ]
    step = "run a first part there, and the rest if it is as fast as its plan says."
    step = step if best is not None else "change what is named below by as much, and ask again."
    notes, found = closing_notes(plan), facts(plan, run)
    return Page(headline(plan, run), tables, notes, [question(plan)], found, title(plan), step)


def title(plan: JobRegionPlan) -> str:
    """The answer as a manager reads it: GPUs and provider in words, what they do, what it costs."""
    best = plan.answer
    if best is None or best.machines is None:
        return ""
    return titled([best.machines], "do", plan.job, about(best.machines) + usd(cost(best)))


def facts(plan: JobRegionPlan, run: Sequence[JobRegionRow]) -> list[Fact]:
    """Where it runs on what, when it is done, how sure the cost is, and what the dearest region costs."""
    best = plan.answer
    if best is None or best.usd is None:
        return []
    return [
        Fact("Region", place_words(best), f"{machines_words(best)}, {kind_words(best)}"),
        Fact("Cost, 80% range", f"{usd(best.usd.low)} to {usd(best.usd.high)}"),
        *([] if best.done_s is None else [Fact("Done in", duration(best.done_s.value))]),
        *([Fact("Dearest region", usd(cost(run[-1])), place_words(run[-1]))] if len(run) > 1 else []),
    ]


def place_words(row: JobRegionRow) -> str:
    """A cloud and a region."""
    return f"{row.cloud} {region_name(row.region)}"


def machines_words(row: JobRegionRow) -> str:
    """How many of which machines."""
    return "" if row.machines is None else f"{amount(row.machines.instance_count)}x {row.machines.instance}"


def kind_words(row: JobRegionRow) -> str:
    """How they are bought."""
    return "" if row.machines is None else row.machines.price_kind.replace("_", " ")


def question(plan: JobRegionPlan) -> str:
    """What was asked, in a sentence."""
    within = "" if math.isinf(plan.deadline_s) else f" within {duration(plan.deadline_s)}"
    return (
        f"{plan.job[0].upper()}{plan.job[1:]}{within}, on {'any of ' * (len(plan.ways) > 1)}"
        f"{plural(len(plan.ways), 'set')} of machines of its plan; {plural(len(plan.regions), 'region')} looked at."
    )


def headline(plan: JobRegionPlan, run: Sequence[JobRegionRow]) -> str:
    """Where to run it, on what, for how much, until when, and what the plan's own place or the dearest costs."""
    best = plan.answer
    if best is None or best.machines is None or best.usd is None:
        return NO_REGION
    done = "" if best.done_s is None else f", done in {duration(best.done_s.value)}"
    rented = f"{machines_words(best)} ({gpus(best.machines)})"
    where = f"{rented} in {place_words(best)}, {kind_words(best)}{in_doubt(best.machines)}"
    return f"Run it on {where}: {about(best.machines)}{ranged_by(best.usd, usd)}{done}.{beside(plan, run)}"


def beside(plan: JobRegionPlan, run: Sequence[JobRegionRow]) -> str:
    """What the place of the plan costs where another is cheaper, and the dearest region."""
    best, at = run[0], plan.planned
    own = next((row for row in run if (row.cloud, row.region) == (at.cloud, at.region)), None)
    dearest = f" The dearest of {plural(len(run), 'region')} costs {usd(cost(run[-1]))} ({place_words(run[-1])})."
    if own is not None and own is not best:
        return f" In {place_words(own)}, where its plan has it, it costs {usd(cost(own))}.{dearest}"
    return dearest if len(run) > 1 else " No other region runs it."


def cost(row: JobRegionRow) -> float:
    """What the job costs in a region that runs it."""
    return math.inf if row.usd is None else row.usd.value


def change_tables(changes: Sequence[LeastChange]) -> list[Table]:
    """What would have to give way, each limit by itself."""
    if not changes:
        return []
    lines = [f"{LIMITS.get(c.limit, c.limit)}: from {significant(c.asked)} to {rounded_up(c.needed)}" for c in changes]
    return [lines_table("Any one of these changes alone would help", lines)]


def rounded_up(needed: float) -> str:
    """The least that is enough, in three digits.

    >>> rounded_up(1.5229), rounded_up(6728.0), rounded_up(8.0)
    ('1.53', '6,730', '8.00')
    """
    step = 10.0 ** (math.floor(math.log10(needed)) - 2)
    return significant(math.ceil(needed / step * (1 - ROUNDING)) * step)


def regions_table(plan: JobRegionPlan, run: Sequence[JobRegionRow], shown: Sequence[JobRegionRow]) -> Table:
    """Regions that run the job, with what copies cost where that is worth a column; how many others do not, and why."""
    is_moving = any((row.moved_usd or 0.0) > WORTH_SAYING * cost(row) for row in shown)
    columns: Columns[JobRegionRow] = [
        number("job cost", cost_words, key="cost", where="text"),
        column("usd", cost, where="data"),
        column("usd_low", lambda row: row.usd and row.usd.low, where="data"),
        column("usd_high", lambda row: row.usd and row.usd.high, where="data"),
        column("region", place_words, wraps=True),
        column("machines", machines_words, wraps=True),
        column("gpu", lambda row: "" if row.machines is None else row.machines.gpu, where="data"),
        column("price", kind_words, key="price_kind", qualifies=True),
        number("done in", lambda row: row.done_s and row.done_s.value, key="done_s", show=duration),
        number("kg CO2e", lambda row: row.g_co2e and row.g_co2e.value / KILO, key="kg_co2e", show=significant),
        number(
            "moved", lambda row: row.moved_usd, key="moved_usd", show=usd, where="everywhere" if is_moving else "data"
        ),
        column("country", lambda row: row.country, where="data"),
    ]
    more = f"{len(run) - len(shown)} more run it, dearer; -o json and -o csv have all"
    return Table.of(
        shown,
        columns,
        "Regions that run the job, cheapest first",
        [*([more] if len(run) > len(shown) else []), *rejected(plan.regions)],
        chosen=0 if shown else None,
        empty="no region does",
        picture=drawn_map(plan.regions, "Where it runs: regions that were looked at"),
    )


def cost_words(row: JobRegionRow) -> str:
    """What the job costs, with the mark of a price that was estimated."""
    return ("" if row.machines is None else about(row.machines)) + usd(cost(row))


def prices_table(shown: Sequence[JobRegionRow]) -> Table:
    """What an hour of one machine costs in each region, by kind, with what is said of spot there."""
    hourly, taken = or_dash(lambda p: per_hour(p.usd_per_hour)), or_dash(lambda spot: spot.interruption or "unknown")
    columns: Columns[JobRegionRow] = [
        column("region", place_words, wraps=True),
        column("machine", lambda row: "" if row.machines is None else row.machines.instance, wraps=True),
        *(
            number(name, partial(price_of, kind=kind), show=hourly)
            for kind, name in SHOWN_KINDS.items()
            if any(price_of(row, kind) for row in shown)
        ),
        number("taken/mo", partial(price_of, kind=SPOT), show=taken),
        number("zones", lambda row: row.num_zones, show=or_dash(str), priority=1),
    ]
    return Table.of(shown, columns, "An hour of one of these machines, as it is bought")


def price_of(row: JobRegionRow, kind: str) -> KindPrice | None:
    """The price of one kind, where it is sold so."""
    return next((price for price in row.prices if price.price_kind == kind), None)


def carbon_tables(best: JobRegionRow, run: Sequence[JobRegionRow]) -> list[Table]:
    """Electricity and carbon of the job where it runs; the region that emits least, and what it costs more."""
    lines, grams = [], best.g_co2e
    if best.kwh is not None:
        lines.append(f"{place_words(best)}: {ranged(best.kwh.value, best.kwh.low, best.kwh.high, 'kWh')}")
        known = ""
        if grams is not None:
            kg = ranged(grams.value, grams.low, grams.high, "kg CO2e", KILO)
            known = f", {kg} ({best.grid_source} {best.grid_year})"
        lines[0] += known or "; its grid is not known"
    emitted = [(row.g_co2e.value, row) for row in run if row.g_co2e is not None]
    least_g, least = min(emitted, key=lambda pair: pair[0], default=(0.0, best))
    if least is not best:
        more = f"{usd(cost(least) - cost(best))} more"
        lines.append(f"least of all: {place_words(least)}, {significant(least_g / KILO)} kg CO2e for {more}")
    return [lines_table("Electricity and carbon of the job", lines)] if lines else []


def moved_table(plan: JobRegionPlan, best: JobRegionRow | None) -> Table:
    """Copies of weights and data, and results that leave."""
    moved = plan.moved
    weights, results = (f"{significant(size / GB)} GB" for size in (moved.weights_bytes, moved.results_bytes))
    data = (
        f"{significant(moved.data_bytes / GB)} GB" if moved.data_bytes is not None else "of unknown size (--data SIZE)"
    )
    come = f"weights {weights} and data {data} come in"
    said = "from outside of all clouds, free; --data-in REGION says where they lie"
    come += f", {said}" if moved.lies_in is None else f" from {moved.lies_in}"
    to = "leave" if moved.lies_in is None else f"go back to {moved.lies_in}"
    lines = [come, f"results of {results} {to}"]
    if best is not None:
        unknown = "" if best.is_moved_known else "; what leaves has no known price"
        paid = f"{usd(best.moved_usd or 0.0)} of the job cost{unknown}"
        lines.append(f"in all, from and to {place_words(best)}: {paid}")
    return lines_table("What moves", lines)


def closing_notes(plan: JobRegionPlan) -> list[str]:
    """What figures rest on, and what they leave out."""
    played = "Spot is played over drawn markets with on demand as the net, as 'gpufleet spot PLAN.json' plays it."
    return [
        *(f"{note.rstrip('.')}." for note in plan.notes),
        *([played] if any(row.played is not None for row in plan.regions) else []),
        "Machines and times are those of the plan; for more of them plan again with --rows 50, or other --clouds.",
        *dated_sources(plan.price_sources, None),
    ]
