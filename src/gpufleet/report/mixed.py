"""Two offers together as part of a page: why, how the load is split, and what each part is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gpufleet.report.launch import launch_tables
from gpufleet.report.numbers import (
    count,
    percent,
    roughly,
    significant,
    spare,
    usd,
    usd_per_hour,
    usd_per_month,
)
from gpufleet.report.page import Column, Columns, Fact, Table, column, lines_table, number
from gpufleet.report.rented import gpus, in_doubt, machines, marked, range_legend, range_word, short_machines
from gpufleet.report.service_tables import objective_row
from gpufleet.report.words import engine_words, grade_line
from gpufleet.results.plan import Deployment, MixedDeployment, MixPart, ServePlan

EVERYWHERE, ESTIMATED, UNMEASURED = "all", "estimated", "roofline"
NOT_TOLD = "Flips, cost against latency and token prices are computed for a single offer only."


def mixed_headline(mix: MixedDeployment) -> str:
    """Both parts and what they cost; rounded where a price was estimated or a GPU nobody measured."""
    rented = " + ".join(machines_with_gpus(part.deployment) for part in mix.parts)
    shares = " and ".join(percent(part.share_ratio) for part in mix.parts)
    tokens = f"{total(mix, usd, mix.usd_per_million_output_tokens)} per 1M output tokens"
    price = f"{mixed_price(mix)}, {total(mix, usd_per_month, mix.usd_per_month)}, {tokens}"
    doubted = in_doubt(*(part.deployment for part in mix.parts))
    return f"{rented}, {shares} of the requests{doubted}: {price}"


def mixed_price(mix: MixedDeployment) -> str:
    """What both cost by the hour."""
    return total(mix, usd_per_hour, mix.usd_per_hour)


def mixed_facts(mix: MixedDeployment) -> list[Fact]:
    """What both cost, and what each is and carries."""
    parts = [
        Fact(f"{percent(part.share_ratio)} of the requests", gpus(part.deployment), machines_with_gpus(part.deployment))
        for part in mix.parts
    ]
    unit = Fact("Per 1M output tokens", total(mix, usd, mix.usd_per_million_output_tokens))
    return [Fact("Per hour", total(mix, usd, mix.usd_per_hour)), *parts, unit]


def total(mix: MixedDeployment, show: Callable[[float], str], amount_usd: float) -> str:
    """A total; in two digits and marked where it rests on an estimated price or on a GPU nobody measured."""
    parts = (part.deployment for part in mix.parts)
    is_rough = any(d.price_basis == ESTIMATED or d.grade == UNMEASURED for d in parts)
    return roughly(show, amount_usd) if is_rough else show(amount_usd)


def machines_with_gpus(d: Deployment) -> str:
    """How many of which machines, with their GPUs."""
    return f"{machines(d)} ({count(d.instance_count * d.gpus_per_instance)}x {d.gpu})"


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
    """Why two offers, how requests are split, and what each part is and rests on."""
    parts = [
        f"{name}: {count(d.replicas)} replicas of {d.layout} in {d.weight_format} with "
        f"{engine_words(d.engine, d.drafts)}; set by {d.binding_limit}. {grade_line(d.grade, d.drafts)}"
        for name, d in zip(names(mix), [part.deployment for part in mix.parts], strict=True)
    ]
    not_told = [NOT_TOLD] if not plan.deployments else []
    lines = [*scarce_lines(mix), saving_line(plan, mix), split_line(mix), *place_lines(mix), *parts, *not_told]
    return lines_table("Cheaper with two offers together" if plan.deployments else "Why these two", lines)


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


def parts_table(mix: MixedDeployment, confidence: float) -> Table:
    """A row for each part."""
    columns: Columns[MixPart] = [
        column("$/h", lambda p: p.deployment.usd_per_hour, key="usd_per_hour", where="data"),
        number("$/h", lambda p: marked(p.deployment, usd(p.deployment.usd_per_hour)), key="hourly", where="text"),
        column("machines", lambda p: short_machines(p.deployment), wraps=True),
        number("share", lambda p: percent(p.share_ratio)),
        number("requests/s", lambda p: significant(p.requests_per_s), priority=2),
        number("available", lambda p: "any number" if p.can_be_had is None else count(p.can_be_had), priority=1),
        number("spare", lambda p: spare(p.deployment.spare_ratio)),
        column("price", lambda p: p.deployment.price_kind.replace("_", " "), qualifies=True),
        column("region", lambda p: "any" if p.deployment.region == EVERYWHERE else p.deployment.region, priority=4),
        column("range", lambda p: range_word(p.deployment.is_tight, confidence)),
    ]
    tight = any(part.deployment.is_tight for part in mix.parts)
    return Table.of(
        mix.parts, columns, "The two parts", range_legend(tight, confidence, "holds", "breaks an objective")
    )


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
        {"part": label, **objective_row(name, figure, plan.objectives.get(name))}
        for label, part in zip(names(mix), mix.parts, strict=True)
        for name, figure in part.deployment.latency.items()
    ]
    return Table(columns, rows, "Latency of the parts")
