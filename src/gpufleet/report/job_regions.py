"""Where a job runs, as a page: the cheapest region, what it costs in others, prices, carbon, and what moves."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from gpufleet.report.numbers import amount, duration, plural, ranged, significant, usd
from gpufleet.report.numbers import usd_per_hour as per_hour
from gpufleet.report.page import Column, Fact, Page, Row, Table, lines_table
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
    said, first = list(closing_notes(plan)), "run a first part there, and the rest if it is as fast as its plan says."
    step = first if best is not None else "change what is named below by as much, and ask again."
    return Page(headline(plan, run), tables, said, [question(plan)], facts(plan, run), title(plan), step)


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
    done = [] if best.done_s is None else [Fact("Done in", duration(best.done_s.value))]
    return [
        Fact("Region", place_words(best), f"{machines_words(best)}, {kind_words(best)}"),
        Fact("Cost, 80% range", f"{usd(best.usd.low)} to {usd(best.usd.high)}"),
        *done,
        *([Fact("Dearest region", usd(cost(run[-1])), place_words(run[-1]))] if len(run) > 1 else []),
    ]


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


def about_row(row: JobRegionRow) -> str:
    """The mark of a price that was estimated."""
    return "" if row.machines is None else about(row.machines)


def place_words(row: JobRegionRow) -> str:
    """A cloud and a region."""
    return f"{row.cloud} {region_name(row.region)}"


def machines_words(row: JobRegionRow) -> str:
    """How many of which machines."""
    return "" if row.machines is None else f"{amount(row.machines.instance_count)}x {row.machines.instance}"


def kind_words(row: JobRegionRow) -> str:
    """How they are bought."""
    return "" if row.machines is None else row.machines.price_kind.replace("_", " ")


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
    """Regions that run the job; how many others do not, and why."""
    columns = [
        Column("cost", "job cost", align="right", where="text"),
        *(Column(name, name, where="data") for name in ("usd", "usd_low", "usd_high")),
        Column("region", "region", wraps=True),
        Column("machines", "machines", wraps=True),
        Column("gpu", "gpu", where="data"),
        Column("price_kind", "price", qualifies=True),
        Column("done_s", "done in", duration, align="right"),
        Column("kg_co2e", "kg CO2e", lambda kg: "unknown" if kg is None else significant(kg), align="right"),
        Column("moved_usd", "moved", usd, align="right", where="everywhere" if is_moving(shown) else "data"),
        Column("country", "country", lambda name: name or "unknown", where="data"),
    ]
    more = f"{len(run) - len(shown)} more run it, dearer; -o json and -o csv have all"
    return Table(
        columns,
        [region_line(row) for row in shown],
        "Regions that run the job, cheapest first",
        notes=[*([more] if len(run) > len(shown) else []), *rejected(plan.regions)],
        chosen=0 if shown else None,
        empty="no region does",
        picture=drawn_map(plan.regions, "Where it runs: regions that were looked at"),
    )


def is_moving(shown: Sequence[JobRegionRow]) -> bool:
    """Whether copies are a part of the cost that is worth a column."""
    return any((row.moved_usd or 0.0) > WORTH_SAYING * cost(row) for row in shown)


def region_line(row: JobRegionRow) -> Row:
    """One region."""
    return {
        "cost": about_row(row) + usd(cost(row)),
        "usd": cost(row),
        "usd_low": None if row.usd is None else row.usd.low,
        "usd_high": None if row.usd is None else row.usd.high,
        "region": place_words(row),
        "machines": machines_words(row),
        "gpu": "" if row.machines is None else row.machines.gpu,
        "price_kind": kind_words(row),
        "done_s": None if row.done_s is None else row.done_s.value,
        "kg_co2e": None if row.g_co2e is None else row.g_co2e.value / KILO,
        "moved_usd": row.moved_usd,
        "country": row.country,
    }


def prices_table(shown: Sequence[JobRegionRow]) -> Table:
    """What an hour of one machine costs in each region, by kind, with what is said of spot there."""
    kinds = [kind for kind in SHOWN_KINDS if any(price_of(row, kind) for row in shown)]
    columns = [
        Column("region", "region", wraps=True),
        Column("machine", "machine", wraps=True),
        *(Column(kind, SHOWN_KINDS[kind], price_words, align="right") for kind in kinds),
        Column("taken", "taken/mo", align="right"),
        Column("zones", "zones", align="right", priority=1),
    ]
    return Table(
        columns, [price_line(row, kinds) for row in shown], "An hour of one of these machines, as it is bought"
    )


def price_of(row: JobRegionRow, kind: str) -> KindPrice | None:
    """The price of one kind, where it is sold so."""
    return next((price for price in row.prices if price.price_kind == kind), None)


def price_words(price: float | None) -> str:
    """A price, or that none is known."""
    return "-" if price is None else per_hour(price)


def price_line(row: JobRegionRow, kinds: Sequence[str]) -> Row:
    """One region."""
    prices = {kind: price_of(row, kind) for kind in kinds}
    spot = price_of(row, SPOT)
    return {
        "region": place_words(row),
        "machine": "" if row.machines is None else row.machines.instance,
        **{kind: None if price is None else price.usd_per_hour for kind, price in prices.items()},
        "taken": "-" if spot is None else spot.interruption or "unknown",
        "zones": "-" if row.num_zones is None else row.num_zones,
    }


def carbon_tables(best: JobRegionRow, run: Sequence[JobRegionRow]) -> list[Table]:
    """Electricity and carbon of the job where it runs, and the region that emits least."""
    lines = [*own_carbon(best), *cleanest_line(best, run)]
    return [lines_table("Electricity and carbon of the job", lines)] if lines else []


def own_carbon(best: JobRegionRow) -> Iterator[str]:
    """Of the chosen region."""
    if best.kwh is None:
        return
    kwh = ranged(best.kwh.value, best.kwh.low, best.kwh.high, "kWh")
    if best.g_co2e is None:
        yield f"{place_words(best)}: {kwh}; its grid is not known"
        return
    grams = best.g_co2e
    kg = ranged(grams.value, grams.low, grams.high, "kg CO2e", KILO)
    yield f"{place_words(best)}: {kwh}, {kg} ({best.grid_source} {best.grid_year})"


def cleanest_line(best: JobRegionRow, run: Sequence[JobRegionRow]) -> Iterator[str]:
    """The region that emits least, and what it costs more."""
    known = [row for row in run if row.g_co2e is not None]
    least = min(known, key=lambda row: row.g_co2e.value if row.g_co2e else math.inf, default=None)
    if least is None or least.g_co2e is None or least is best:
        return
    more = f"{usd(cost(least) - cost(best))} more"
    yield f"least of all: {place_words(least)}, {significant(least.g_co2e.value / KILO)} kg CO2e for {more}"


def moved_table(plan: JobRegionPlan, best: JobRegionRow | None) -> Table:
    """Copies of weights and data, and results that leave."""
    moved = plan.moved
    data = "data of unknown size (--data SIZE)" if moved.data_bytes is None else f"data {gb(moved.data_bytes)}"
    come = f"weights {gb(moved.weights_bytes)} and {data} come in"
    said = "from outside of all clouds, free; --data-in REGION says where they lie"
    come += f", {said}" if moved.lies_in is None else f" from {moved.lies_in}"
    to = "leave" if moved.lies_in is None else f"go back to {moved.lies_in}"
    lines = [come, f"results of {gb(moved.results_bytes)} {to}"]
    if best is not None:
        lines.append(f"in all, from and to {place_words(best)}: {moved_words(best)}")
    return lines_table("What moves", lines)


def moved_words(best: JobRegionRow) -> str:
    """What all copies cost."""
    known = f"{usd(best.moved_usd or 0.0)} of the job cost"
    return known if best.is_moved_known else f"{known}; what leaves has no known price"


def gb(size_bytes: float) -> str:
    """A size as clouds bill it."""
    return f"{significant(size_bytes / GB)} GB"


def closing_notes(plan: JobRegionPlan) -> Iterator[str]:
    """What figures rest on, and what they leave out."""
    for note in plan.notes:
        yield f"{note.rstrip('.')}."
    if any(row.played is not None for row in plan.regions):
        yield "Spot is played over drawn markets with on demand as the net, as 'gpufleet spot PLAN.json' plays it."
    yield "Machines and times are those of the plan; for more of them plan again with --rows 50, or other --clouds."
    yield from dated_sources(plan.price_sources, None)
