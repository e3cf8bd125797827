"""A choice of regions as a page: what to rent where, what users meet, every region with its price or why not."""

from __future__ import annotations

from collections import Counter

from gpufleet.report.fleet_mix import NO_MIX, fleet_mix_page, headline
from gpufleet.report.numbers import duration, percent, plural, ranged, ranged_duration, significant, usd, usd_per_hour
from gpufleet.report.page import Column, Page, Picture, Row, Table, lines_table
from gpufleet.report.ranges import ranged_by
from gpufleet.report.region_map import region_map
from gpufleet.report.words import REGION_REASONS
from gpufleet.results.base import Figure
from gpufleet.results.regions import AtUsers, EgressCost, Emitted, RegionChoiceRow, RegionPlan
from gpufleet.units import KILO

MOST_REGIONS = 12


def regions_page(plan: RegionPlan) -> Page:
    """The page of the mix, with users, regions, carbon and egress."""
    page = fleet_mix_page(plan)
    first = headline(plan) if plan.machines else NO_MIX
    own = [*users_tables(plan), regions_table(plan), *carbon_tables(plan), *egress_tables(plan)]
    machines, copies, *rest = page.tables if plan.machines else [None, None, *page.tables]
    kept = [table for table in (machines, copies) if table is not None]
    others = [table for table in rest if table is not None and not is_told_by_users(plan, table)]
    notes = [note for note in page.notes if not note.startswith("A router sends")]
    return Page(f"{first}{users_words(plan)}", [*kept, *own, *others], [*notes, *users_notes(plan)], page.paragraphs)


def is_told_by_users(plan: RegionPlan, table: Table) -> bool:
    """Whether latency at the users stands in for a table of the mix: of latency, or of routes by length."""
    return bool(plan.users) and table.title in ("Latency of the rows", "Where requests go")


def users_words(plan: RegionPlan) -> str:
    """That limits hold at the users."""
    worst = max((a.latency.value / a.limit_s for a in plan.at_users), default=None)
    if worst is None:
        return ""
    return f" Limits hold at users of {plural(len(plan.users), 'place')}, the network included."


def users_tables(plan: RegionPlan) -> list[Table]:
    """What users of every place meet."""
    if not plan.users:
        return []
    columns = [
        Column("users", "users"),
        Column("share", "share", percent, align="right"),
        Column("row", "row", align="right"),
        Column("network", "network p50 / p95"),
        Column("objective", "objective"),
        Column("latency", "at the users (80% range)"),
        Column("limit", "limit", duration, align="right"),
    ]
    rows = [user_row(plan, a) for a in plan.at_users]
    return [Table(columns, rows, "What users meet, model and network together", empty="no region serves them")]


def user_row(plan: RegionPlan, a: AtUsers) -> Row:
    """Users of a place under one objective."""
    d = plan.copies[a.copies].deployment
    region = next(r for r in plan.regions if (r.cloud, r.region) == (d.cloud, d.region))
    network = next((n for n in region.network if n.users == a.users), None)
    return {
        "users": plan.users[a.users].name,
        "share": plan.users[a.users].share_ratio,
        "row": a.copies + 1,
        "network": "unknown" if network is None else f"{duration(network.median.value)} / {duration(network.p95_s)}",
        "objective": a.objective,
        "latency": ranged_duration(a.latency.value, a.latency.low, a.latency.high),
        "limit": a.limit_s,
    }


def regions_table(plan: RegionPlan) -> Table:
    """Regions that serve all alone, cheapest first; how many others do not, and why."""
    serve = [r for r in plan.regions if r.usd_per_hour_alone is not None]
    shown = serve[:MOST_REGIONS]
    columns = [
        Column("usd", "$/h alone", usd, align="right"),
        Column("region", "region"),
        Column("machines", "machines", wraps=True),
        Column("spot", "spot", lambda u: "-" if u is None else usd_per_hour(u), align="right", priority=1),
        Column("network", "users p50" if plan.users else "", align="right"),
        Column("grid", "g CO2e/kWh", lambda g: "unknown" if g is None else significant(g), align="right"),
    ]
    kept = [c for c in columns if c.header]
    notes = [
        *([f"{len(serve) - len(shown)} more serve all alone, dearer"] if len(serve) > len(shown) else []),
        *rejected(plan),
    ]
    drawn = region_map(plan)
    picture = Picture(drawn) if drawn else None
    chosen = next((at for at, r in enumerate(shown) if r.is_chosen), None)
    title = "Regions that serve everything alone, the chosen ones first"
    return Table(
        kept,
        [region_line(plan, r) for r in shown],
        title,
        notes=notes,
        chosen=chosen,
        empty="no region does",
        picture=picture,
    )


def region_line(plan: RegionPlan, r: RegionChoiceRow) -> Row:
    """One region."""
    return {
        "usd": r.usd_per_hour_alone,
        "region": f"{r.cloud} {r.region}",
        "machines": r.machines,
        "spot": r.spot_usd,
        "network": ", ".join(duration(n.median.value) for n in r.network),
        "grid": None if r.grid is None else r.grid.value,
    }


def rejected(plan: RegionPlan) -> list[str]:
    """How many regions do not serve all alone, by the reason, with some of them by name."""
    reasons = Counter(r.why_not for r in plan.regions if r.why_not is not None)
    return [f"{count}: {REGION_REASONS[reason]} ({some_of(plan, reason)})" for reason, count in reasons.most_common()]


def some_of(plan: RegionPlan, reason: str) -> str:
    """Up to three regions that were rejected for a reason."""
    names = [f"{r.cloud} {r.region}" for r in plan.regions if r.why_not == reason]
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")


def carbon_tables(plan: RegionPlan) -> list[Table]:
    """Electricity and carbon of every row of copies."""
    if not plan.emitted:
        return []
    lines = [carbon_line(plan, e) for e in plan.emitted]
    if plan.usd_per_kg_saved is not None:
        lines.append(f"a kilogram of CO2e less would cost {usd(plan.usd_per_kg_saved)} (a tenth less than now)")
    return [lines_table("Electricity and carbon of the sites", lines)]


def carbon_line(plan: RegionPlan, e: Emitted) -> str:
    """One row of copies."""
    d = plan.copies[e.copies].deployment
    kwh = f"{figures(e.kwh_per_hour)} kWh/h, {significant(e.kwh_per_million_output_tokens.value)} per 1M output tokens"
    if e.g_co2e_per_hour is None or e.g_co2e_per_million_output_tokens is None:
        return f"row {e.copies + 1}, {d.cloud} {d.region}: {kwh}; carbon of its grid is not known"
    kilos = Figure(
        value=e.g_co2e_per_hour.value / KILO,
        unit="kg/h",
        low=None if e.g_co2e_per_hour.low is None else e.g_co2e_per_hour.low / KILO,
        high=None if e.g_co2e_per_hour.high is None else e.g_co2e_per_hour.high / KILO,
    )
    tokens = f"{significant(e.g_co2e_per_million_output_tokens.value)} g per 1M"
    return (
        f"row {e.copies + 1}, {d.cloud} {d.region}: {kwh}; {figures(kilos)} kg CO2e/h, {tokens} ({e.source} {e.year})"
    )


def figures(figure: Figure) -> str:
    """A figure with its range, without its unit."""
    return ranged(figure.value, figure.low, figure.high, "").strip()


def egress_tables(plan: RegionPlan) -> list[Table]:
    """Answers that leave, and copies of weights."""
    return (
        [lines_table("What leaves the regions (not in the price above)", [egress_line(e) for e in plan.egress])]
        if plan.egress
        else []
    )


def egress_line(e: EgressCost) -> str:
    """One region."""
    sent = f"{e.cloud} {e.region}: answers, streamed, {significant(e.gb_per_month)} GB a month"
    cost = (
        "price not known"
        if e.usd_per_month is None
        else f"{ranged_by(e.usd_per_month, usd)} a month ({e.source} {e.as_of})"
    )
    return f"{sent}: {cost}; a copy of the weights is {significant(e.weights_gb)} GB"


def users_notes(plan: RegionPlan) -> list[str]:
    """How the network is known."""
    if not plan.users:
        return ["No users were said: latency is the model's alone (--users eu=60%,us=40%)"]
    grades = Counter(n.median.grade for r in plan.regions if r.is_chosen for n in r.network)
    known = ", ".join(f"{grade} {count}" for grade, count in grades.most_common())
    return [f"Network to the chosen regions: {known}. A connection is open already; users' own lines are as usual"]
