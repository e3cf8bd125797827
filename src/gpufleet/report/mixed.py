"""Two offers together as part of a page: why, how the load is split, and what each part is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gpufleet.report.grades import grade_line
from gpufleet.report.launch import launch_tables
from gpufleet.report.numbers import (
    count,
    duration,
    percent,
    ranged_duration,
    roughly,
    significant,
    spare,
    usd,
    usd_per_hour,
    usd_per_month,
)
from gpufleet.report.page import Column, Fact, Row, Table, lines_table
from gpufleet.report.rented import gpus, in_doubt, marked, range_legend, range_word
from gpufleet.results.plan import Deployment, MixedDeployment, MixPart, ServePlan

EVERYWHERE, ESTIMATED, UNMEASURED = "all", "estimated", "roofline"
NOT_TOLD = "Flips, cost against latency and token prices are computed for a single offer only."


def mixed_headline(mix: MixedDeployment) -> str:
    """Both parts and what they cost; rounded where a price was estimated or a GPU nobody measured."""
    rented = " + ".join(machines(part.deployment) for part in mix.parts)
    shares = " and ".join(percent(part.share_ratio) for part in mix.parts)
    tokens = f"{total(mix, usd, mix.usd_per_million_output_tokens)} per 1M output tokens"
    price = f"{mixed_price(mix)}, {total(mix, usd_per_month, mix.usd_per_month)}, {tokens}"
    doubted = in_doubt(*(part.deployment for part in mix.parts))
    return f"{rented}, {shares} of the requests{doubted}: {price}"


def mixed_facts(mix: MixedDeployment) -> list[Fact]:
    """What both cost, and what each is and carries."""
    parts = [
        Fact(f"{percent(part.share_ratio)} of the requests", gpus(part.deployment), machines(part.deployment))
        for part in mix.parts
    ]
    unit = Fact("Per 1M output tokens", total(mix, usd, mix.usd_per_million_output_tokens))
    return [Fact("Per hour", total(mix, usd, mix.usd_per_hour)), *parts, unit]


def mixed_price(mix: MixedDeployment) -> str:
    """What both cost by the hour."""
    return total(mix, usd_per_hour, mix.usd_per_hour)


def total(mix: MixedDeployment, show: Callable[[float], str], amount_usd: float) -> str:
    """A total; in two digits and marked where it rests on an estimated price or on a GPU nobody measured."""
    parts = (part.deployment for part in mix.parts)
    is_rough = any(d.price_basis == ESTIMATED or d.grade == UNMEASURED for d in parts)
    return roughly(show, amount_usd) if is_rough else show(amount_usd)


def machines(d: Deployment) -> str:
    """How many of which machines, with their GPUs."""
    gpus = f"{count(d.instance_count * d.gpus_per_instance)}x {d.gpu}"
    return f"{d.instance_count}x {d.cloud} {d.instance} ({gpus})"


def mixed_tables(plan: ServePlan) -> list[Table]:
    """Why two, the parts, and the latency of each; nothing where one offer is best."""
    if plan.mix is None:
        return []
    started = [] if plan.deployments else start_tables(plan.mix)
    return [why_table(plan, plan.mix), parts_table(plan.mix, plan.confidence), latency_table(plan, plan.mix), *started]


def start_tables(mix: MixedDeployment) -> list[Table]:
    """How a replica of each part is started."""
    return [
        replace(table, title=f"{name}: {table.title}")
        for name, part in zip(names(mix), mix.parts, strict=True)
        for table in launch_tables(part.deployment.launch, part.deployment.replicas)
    ]


def why_table(plan: ServePlan, mix: MixedDeployment) -> Table:
    """Why two offers, how requests are split, and what each part rests on."""
    lines = [
        *scarce_lines(mix),
        saving_line(plan, mix),
        split_line(mix),
        *place_lines(mix),
        *(f"{name}: {layout(part.deployment)}" for name, part in zip(names(mix), mix.parts, strict=True)),
        *([NOT_TOLD] if not plan.deployments else []),
    ]
    title = "Why these two" if not plan.deployments else "Cheaper with two offers together"
    return lines_table(title, lines)


def names(mix: MixedDeployment) -> list[str]:
    """What the parts are called: by their GPUs, else their machines, else how they are bought."""
    parts = [part.deployment for part in mix.parts]
    for known in ([d.gpu for d in parts], [f"{d.cloud} {d.instance}" for d in parts]):
        if len(set(known)) == len(parts):
            return known
    return [f"{d.instance} {d.price_kind.replace('_', ' ')}" for d in parts]


def scarce_lines(mix: MixedDeployment) -> list[str]:
    """What runs out."""
    return [
        f"{part.deployment.cloud} {part.deployment.instance}: {count(part.can_be_had)} available; "
        f"alone it would need {count(part.needed_alone)}."
        for part in mix.parts
        if part.can_be_had is not None and part.can_be_had < part.needed_alone
    ]


def saving_line(plan: ServePlan, mix: MixedDeployment) -> str:
    """What two cost beside one."""
    if not plan.deployments:
        return "No single offer has enough machines; this is the cheapest pair that serves."
    d = plan.answer
    saved = percent(1 - mix.usd_per_hour / d.usd_per_hour)
    return f"{mixed_headline(mix)}; {saved} less than the cheapest alone ({usd_per_hour(d.usd_per_hour)})."


def split_line(mix: MixedDeployment) -> str:
    """How requests must be split for the plan to hold."""
    shares = ", ".join(
        f"{significant(part.requests_per_s)}/s ({percent(part.share_ratio)}) to {name}"
        for name, part in zip(names(mix), mix.parts, strict=True)
    )
    return f"Send {shares}: each part keeps every objective, with the same headroom."


def place_lines(mix: MixedDeployment) -> list[str]:
    """Where the parts stand."""
    places = [f"{part.deployment.cloud} {part.deployment.region}" for part in mix.parts]
    if places[0] == places[1]:
        return [f"Both are in {places[0]}."]
    apart = "regions" if mix.parts[0].deployment.cloud == mix.parts[1].deployment.cloud else "clouds"
    return [
        f"They are in different {apart} ({' and '.join(places)}); routing between them is not included in the price."
    ]


def layout(d: Deployment) -> str:
    """Replicas, formats, what binds, and the grade."""
    return (
        f"{count(d.replicas)} replicas of {d.layout} in {d.weight_format} with {d.engine}; set by {d.binding_limit}. "
        f"{grade_line(d.grade)}"
    )


def parts_table(mix: MixedDeployment, confidence: float) -> Table:
    """A row for each part."""
    columns = [
        Column("usd_per_hour", "$/h", where="data"),
        Column("hourly", "$/h", align="right", where="text"),
        Column("machines", "machines", wraps=True),
        Column("share", "share", align="right"),
        Column("rate", "requests/s", align="right", priority=2),
        Column("had", "available", align="right", priority=1),
        Column("spare", "spare", align="right"),
        Column("bought", "price", qualifies=True),
        Column("place", "region", priority=4),
        Column("verdict", "range"),
    ]
    tight = any(part.deployment.is_tight for part in mix.parts)
    notes = range_legend(tight, confidence, "holds", "breaks an objective")
    return Table(columns, [part_row(part, confidence) for part in mix.parts], "The two parts", notes)


def part_row(part: MixPart, confidence: float) -> Row:
    """The cells of one part."""
    d = part.deployment
    return {
        "usd_per_hour": d.usd_per_hour,
        "hourly": marked(d, usd(d.usd_per_hour)),
        "machines": f"{d.instance_count}x {d.cloud} {d.instance.removeprefix('Standard_')}",
        "share": percent(part.share_ratio),
        "rate": significant(part.requests_per_s),
        "had": "any number" if part.can_be_had is None else count(part.can_be_had),
        "spare": spare(d.spare_ratio),
        "bought": d.price_kind.replace("_", " "),
        "place": "any" if d.region == EVERYWHERE else d.region,
        "verdict": range_word(d.is_tight, confidence),
    }


def latency_table(plan: ServePlan, mix: MixedDeployment) -> Table:
    """Each objective of each part at its own rate."""
    columns = [
        Column("part", "part"),
        Column("name", "objective"),
        Column("expected", "expected (80% range)", align="right"),
        Column("limit", "limit", align="right"),
        Column("slack", "slack", align="right"),
    ]
    rows = [
        {"part": label, **latency_row(plan, part.deployment, name)}
        for label, part in zip(names(mix), mix.parts, strict=True)
        for name in part.deployment.latency
    ]
    return Table(columns, rows, "Latency of the parts")


def latency_row(plan: ServePlan, d: Deployment, name: str) -> Row:
    """One objective of one part."""
    figure, limit_s = d.latency[name], plan.objectives.get(name)
    return {
        "name": name,
        "expected": ranged_duration(figure.value, figure.low, figure.high),
        "limit": "none" if limit_s is None else duration(limit_s),
        "slack": "-" if limit_s is None else percent(1 - figure.value / limit_s),
    }
