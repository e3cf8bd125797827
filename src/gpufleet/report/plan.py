"""The answer of `gpufleet plan serve` as a page: what to rent, why, what else serves, what was rejected."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING

from gpufleet.provenance import day_in_words
from gpufleet.report.grades import grade_line
from gpufleet.report.launch import launch_tables
from gpufleet.report.mixed import mixed_headline, mixed_price, mixed_tables
from gpufleet.report.numbers import (
    MULTIPLE_FROM,
    amount,
    count,
    duration,
    headroom,
    percent,
    ranged,
    ranged_duration,
    roughly,
    several,
    significant,
    spare,
    usd,
    usd_per_hour,
    usd_per_month,
    wanted_beside,
)
from gpufleet.report.page import Column, Page, Row, Table
from gpufleet.report.plan_explained import explained_tables
from gpufleet.report.plan_further import further_tables, machines_of
from gpufleet.report.rest_of_bill import bill_tables
from gpufleet.report.text import cut, page_as_text
from gpufleet.results.base import Input
from gpufleet.results.plan import Deployment, PriceSource, RejectionCount, RentedService, ServePlan, ServicePlan
from gpufleet.results.rented import RentedMachines
from gpufleet.results.today import Today
from gpufleet.units import PERCENT

if TYPE_CHECKING:
    from gpufleet.results.plan_changes import PlanChanges

SHOWN_REJECTIONS = 6
UNVARIED = 12
EIGHT_BIT_CACHES, SAID = ("fp8", "int8"), ("given", "file", "config")
NARROW_PAGE, SHORT_MACHINE = 100, 26
EVERYWHERE = "all"
MOSTLY_IDLE_RATIO = 0.2
EXPECTED_CONFIDENCE, MULTIPLE_OF_LONE = 0.5, 2.0
OVER_BUDGET, TOO_FEW = "over the budget", "more machines than"
LOWER_PRECISION, OTHER_ENGINES = "lower precision (--allow-lower-precision)", "other engines (--engine all)"
LOAD, ROOM, USD_PER_HOUR, UNMEASURED = "load", "KV room", "USD/h", "roofline"
LEAST_REPLICAS = "the least number of replicas"
BINDING = {
    "load": "Load binds: no replica is planned beyond 95% of what it sustains.",
    "KV room": "KV room binds: more load on a replica, and a burst waits for memory.",
    "the engine's largest batch": "The engine's largest batch binds: memory would hold more sequences.",
    "one replica is enough": "One replica is enough: no limit is near.",
    "one machine is enough": "One machine is enough: no limit is near.",
    "machines that may fail": "Machines that may fail decide (--spare-machines, --zones): one alone would carry it.",
    LEAST_REPLICAS: "The least number of replicas decides (--min-replicas): no limit is near.",
}


def plan_page(
    plan: ServePlan,
    *,
    explain: bool = False,
    all_rejections: bool = False,
    all_flips: bool = False,
    today: date | None = None,
    width: int = NARROW_PAGE,
) -> Page:
    """Headline, reasons, ranking and rejections; without an answer, what would have to give way."""
    tables = [*today_tables(plan), *served_tables(plan, width)]
    tables += further_tables(plan, all_flips, width)
    tables.append(rejection_table(plan.rejections, all_rejections))
    if explain:
        tables += explained_tables(plan)
    return Page(headline(plan), tables, notes(plan, today), verdict_on_today(plan))


def verdict_on_today(plan: ServePlan) -> list[str]:
    """What to do with what runs today, where that was said."""
    if plan.today is None:
        return []
    from gpufleet.report.today import price_lines, verdict_line

    return [verdict_line(plan, plan.today), *price_lines(plan, plan.today)]


def today_tables(plan: ServePlan) -> list[Table]:
    """What runs today; what writes it is loaded then."""
    if plan.today is None:
        return []
    from gpufleet.report.today import tables_of_today

    return tables_of_today(plan, plan.today)


def reasons(plan: ServePlan) -> str:
    """Headline and reasons as plain text."""
    tables = [why_table(plan)] if plan.deployments else mixed_tables(plan)[:1] or [relaxation_table(plan)]
    return page_as_text(Page(headline(plan), tables), NARROW_PAGE)


def plan_rows_page(plan: ServePlan) -> Page:
    """The ranking alone: what a CSV holds; of two offers together, the two."""
    if plan.mix is None or plan.deployments:
        return Page(headline(plan), [ranking_table(plan, own_columns(plan.deployments, plan.today))])
    deployments = [part.deployment for part in plan.mix.parts]
    parts = plan.model_copy(update={"deployments": deployments})
    shares = [part.share_ratio for part in plan.mix.parts]
    table = ranking_table(parts, own_columns(deployments))
    rows = [{**row, "share_ratio": share} for row, share in zip(table.rows, shares, strict=True)]
    share = Column("share_ratio", "share", where="data")
    return Page(headline(plan), [replace(table, columns=[share, *table.columns], rows=rows)])


def served_tables(plan: ServePlan, width: int) -> list[Table]:
    """What serves: one offer, and two where they cost less or none alone has enough; else what would have to change."""
    if not plan.is_feasible:
        return [relaxation_table(plan)]
    return [*(answer_tables(plan, width) if plan.deployments else []), *mixed_tables(plan)]


def answer_tables(plan: ServePlan, width: int) -> list[Table]:
    """Reasons, objectives and ranking of a plan that has an answer."""
    own, lengths = own_columns(plan.deployments, plan.today), lengths_text(plan)
    ranking, started = ranking_table(plan, own, width), launch_tables(plan.answer.launch, plan.answer.replicas)
    return [why_table(plan), objective_table(plan, lengths), ranking, *bill_tables(plan), *started]


def lengths_text(plan: ServePlan) -> str:
    """Tokens of prompts and answers."""
    return f"{amount(plan.input_tokens)} tokens in, {amount(plan.output_tokens)} out"


def headline(plan: ServePlan) -> str:
    """The answer in one sentence."""
    asked = f"{plan.model} at {several(plan.rate_requests_per_s, 'request')}/s"
    if not plan.deployments and plan.mix is not None:
        return f"{asked}: {mixed_headline(plan.mix)}."
    if not plan.deployments:
        return f"{asked}: {why_nothing(plan)}"
    d = plan.answer
    rented = f"{d.instance_count}x {d.cloud} {d.instance} ({gpus(d)}), {place(d)}, {kind(d)}"
    tokens = f"{total(d, usd, d.usd_per_million_output_tokens)} per 1M output tokens"
    price = f"{total(d, usd_per_hour, d.usd_per_hour)}, {total(d, usd_per_month, d.usd_per_month)}, {tokens}"
    return f"{asked}: {rented}: {price}."


def total(d: RentedService, show: Callable[[float], str], amount_usd: float) -> str:
    """A total in cents; in two digits and marked where it rests on an estimated price or on a GPU nobody measured."""
    if d.price_basis != "estimated" and d.grade != UNMEASURED:
        return show(amount_usd)
    return roughly(show, amount_usd)


def why_nothing(plan: ServicePlan | PlanChanges) -> str:
    """Why there is no answer."""
    if plan.relaxations:
        return "nothing on offer keeps every objective."
    if not plan.rejections:
        return "nothing on offer runs it."
    dear = next((r for r in plan.rejections if r.reason.startswith(OVER_BUDGET)), None)
    if dear is not None:
        return f"all that serves it is {dear.reason} (cheapest: {dear.best})."
    short = next((r for r in plan.rejections if r.reason.startswith(TOO_FEW)), None)
    if short is not None:
        return f"all that serves it takes {short.reason} (fewest: {short.best})."
    first = plan.rejections[0]
    return f"nothing on offer serves it. Mostly: {first.reason} (nearest: {first.best})."


def gpus(d: RentedMachines) -> str:
    """All GPUs that are paid for."""
    return f"{amount(d.instance_count * d.gpus_per_instance)}x {d.gpu}"


def place(d: RentedMachines) -> str:
    """The region, or that the price holds in all."""
    return region_name(d.region)


def region_name(region: str) -> str:
    """A region, or that the price holds in all."""
    return "any region" if region == EVERYWHERE else region


def kind(d: RentedService) -> str:
    """The price kind in words, with the machines that are bought on demand beside spot."""
    beside = f" ({count(d.steady_instance_count)} of them on demand)" if d.steady_instance_count else ""
    return d.price_kind.replace("_", " ") + beside


def about(d: RentedMachines) -> str:
    """The mark of a price that was estimated."""
    return "~" if d.price_basis == "estimated" else ""


def plural(number: float, noun: str) -> str:
    """A count with its noun."""
    return f"{count(number)} {noun}" if number == 1 else f"{count(number)} {noun}s"


def why_table(plan: ServePlan, *, is_alone: bool = True) -> Table:
    """The reasons for the answer, a line each; a plan among others is not asked further."""
    d = plan.answer
    lines = [
        layout_line(d),
        capacity_line(plan, d),
        binding_line(plan, d),
        load_line(d),
        grade_line(d.grade),
        f"{usd(d.usd_per_request)} per request, {usd_per_hour(d.price_per_instance_usd_per_hour)} per machine, "
        f"{usd_per_hour(d.price_per_gpu_usd_per_hour)} per GPU.",
        *quality_line(plan),
        *cache_line(plan),
        *steadier_line(plan),
        *confidence_line(plan),
        *hours_line(d),
        *until_line(d),
        *own_line(d),
        *looser_lines(plan),
        *([] if plan.looser_limits else idle_line(plan, d)),
        *lower_precision_line(plan),
        *spot_line(plan),
        *flip_line(plan, " More: --flips." if is_alone else ""),
        *mix_line(plan, is_alone),
    ]
    return Table([], [], "Why this one", [f"  {line}" for line in lines], empty="")


def layout_line(d: Deployment) -> str:
    """Replicas, layout, formats, engine and GPUs without work."""
    size = plural(d.gpus_per_replica, "GPU") + (" each" if d.replicas > 1 else "")
    idle = "no GPU idle" if not d.idle_gpus else f"{plural(d.idle_gpus, 'GPU')} idle but paid for"
    return (
        f"{plural(d.replicas, 'replica')} of {d.layout} ({size}) in {d.weight_format} with {d.engine}, "
        f"KV cache {d.kv_precision}; {idle}."
    )


def capacity_line(plan: ServicePlan, d: RentedService) -> str:
    """What all replicas carry beside what is asked."""
    c = d.requests_per_s_capacity
    carried = ranged(c.value, c.low, c.high, "requests/s", digits=3)
    has = headroom(d.headroom_ratio) + ("" if d.headroom_ratio >= MULTIPLE_FROM else " headroom")
    sure = f" at {percent(plan.confidence)} confidence" if plan.confidence > EXPECTED_CONFIDENCE else ""
    return f"Carries {carried}: {has}{sure}, {wanted_beside(d.headroom_ratio, plan.headroom_wanted_ratio)} wanted."


def binding_line(plan: ServicePlan, d: RentedService) -> str:
    """What forbids more load on a replica."""
    if d.binding_limit in broken_at_high_end(plan, d):
        return f"{d.binding_limit} binds: it is the first to break, and breaks at the high end of its range."
    if d.binding_limit in plan.objectives:
        return f"{d.binding_limit} binds: with more load on a replica it is the first to break."
    return BINDING.get(d.binding_limit, f"Binding limit: {d.binding_limit}.")


def broken_at_high_end(plan: ServicePlan, d: RentedService) -> list[str]:
    """Objectives that the high end of their range breaks."""
    return [name for name, limit_s in plan.objectives.items() if (d.latency[name].high or 0.0) > limit_s]


def load_line(d: Deployment) -> str:
    """How full a replica is, in time and in memory, with the slack of both limits."""
    load, room = (f" ({percent(d.slack_ratio[name])} slack)" if name in d.slack_ratio else "" for name in (LOAD, ROOM))
    return (
        f"Load factor {significant(d.load_ratio, 2)} of what a replica sustains{load}; {significant(d.batch, 2)} "
        f"sequences decode at a time, {count(d.largest_batch)} fit{room}."
    )


def flip_line(plan: ServePlan, more: str) -> list[str]:
    """The price at which another row wins: the nearest of the answer's own."""
    flip = next((f for f in plan.flips or [] if f.is_rise and f.unit == USD_PER_HOUR and f.winner is not None), None)
    if flip is None or flip.winner is None or flip.value is None or flip.change_ratio is None:
        return []
    rise = f"{significant(PERCENT * flip.change_ratio, 2)}%"
    return [f"Flips at {usd_per_hour(flip.value)} per machine (+{rise}): then {machines_of(flip.winner)}.{more}"]


def mix_line(plan: ServePlan, is_alone: bool) -> list[str]:
    """That two offers together cost less; beside other models which, as no table of them follows."""
    if plan.mix is None:
        return []
    if is_alone:
        return [f"Two offers together cost less: {mixed_price(plan.mix)}, see below."]
    which = " + ".join(machines_of(part.deployment) for part in plan.mix.parts)
    return [f"Were it alone, two offers together would cost {mixed_price(plan.mix)}: {which}."]


def quality_line(plan: ServePlan) -> list[str]:
    """What the chosen weights cost in quality, where they are below the checkpoint's."""
    return [f"Quality: {note}." for note in plan.notes if note.startswith(f"{plan.answer.weight_format} weights: ")]


def cache_line(plan: ServePlan) -> list[str]:
    """That the KV cache has fewer bits than nobody asked for."""
    d, is_chosen = plan.answer, any(i.name == "KV cache" and i.origin in SAID for i in plan.inputs)
    if is_chosen or d.kv_precision not in EIGHT_BIT_CACHES:
        return []
    default = f"KV cache {d.kv_precision}: {d.engine}'s default for {d.weight_format} weights"
    return [f"{default}, beside what the weights cost in quality; --kv-precision bf16 keeps it at 16 bits."]


def steadier_line(plan: ServicePlan) -> list[str]:
    """Where the answer is tight: the cheapest row that keeps its objectives at the high end too."""
    if not plan.deployments[0].is_tight:
        return []
    tight = f"Tight: {tight_words(plan)}"
    steady = next(((i, d) for i, d in enumerate(plan.deployments, 1) if not d.is_tight), None)
    if steady is None:
        others = ", as in all rows" if len(plan.deployments) > 1 else ""
        return [f"{tight}{others}: --confidence 0.9 plans for it."]
    row, d = steady
    price = f"{about(d)}{usd_per_hour(d.usd_per_hour)}"
    return [f"{tight}; row {row} ({price}) keeps its limits there too; --confidence 0.9 plans for it."]


def tight_words(plan: ServicePlan) -> str:
    """Which objectives break at the high end, and the rate up to which all hold there."""
    d = plan.deployments[0]
    broken, low = broken_at_high_end(plan, d), d.requests_per_s_capacity.low or 0.0
    if not broken:
        return "queues grow without end at the high end of its range"
    verbs = ("breaks", "its") if len(broken) == 1 else ("break", "their")
    holds = f"limits hold there up to {significant(low)}/s" if low else "at any load"
    return f"{' and '.join(broken)} {verbs[0]} at the high end of {verbs[1]} range ({holds})"


def confidence_line(plan: ServicePlan) -> list[str]:
    """How surely limits hold, where more than the expected value was asked for."""
    if plan.confidence <= EXPECTED_CONFIDENCE:
        return []
    return [f"Planned at {percent(plan.confidence)} confidence: limits and headroom hold that far up each range."]


def looser_lines(plan: ServePlan) -> list[str]:
    """What looser limits would save, where it is much."""
    return [
        f"{x.limit} < {duration(x.limit_s)} is {beside_lone(x.limit_s / x.lone_s)} a lone request's "
        f"{duration(x.lone_s)}; at {duration(x.looser_s)} the cheapest plan costs {usd_per_hour(x.usd_per_hour)}, "
        f"{percent(x.saved_ratio)} less ({x.instance_count}x {x.cloud} {x.instance.removeprefix('Standard_')})."
        for x in plan.looser_limits
    ]


def beside_lone(ratio: float) -> str:
    """How far a limit lies above what a lone request takes.

    >>> beside_lone(1.07), beside_lone(2.43)
    ('7% above', '2.4 times')
    """
    return f"{percent(ratio - 1)} above" if ratio < MULTIPLE_OF_LONE else f"{significant(ratio, 2)} times"


def idle_line(plan: ServicePlan, d: RentedService) -> list[str]:
    """Where a limit on latency, not work, decides how much is bought."""
    is_idle = d.load_ratio < MOSTLY_IDLE_RATIO and d.replicas > 1
    if not is_idle or d.binding_limit not in plan.objectives:
        return []
    return ["Latency decides, not capacity: the GPUs are mostly idle; looser limits or faster GPUs cost less."]


def hours_line(d: RentedService) -> list[str]:
    """What is paid at the peak and off it, where they differ."""
    if d.busy_usd_per_hour is None or d.quiet_instance_count is None:
        return []
    kept = f"off peak {plural(d.quiet_instance_count, 'machine')} of {count(d.instance_count)} stay"
    return [f"{usd_per_hour(d.busy_usd_per_hour)} at the peak, {usd_per_hour(d.usd_per_hour)} over all hours; {kept}."]


def until_line(d: RentedMachines) -> list[str]:
    """When the price ends, where it does."""
    return [] if d.price_until is None else [f"This price holds until {d.price_until} ({d.price_source})."]


def own_line(d: RentedService) -> list[str]:
    """What of one's own machines is spent already, and what running them costs."""
    if d.running_usd_per_hour is None:
        return []
    running, full = usd_per_hour(d.running_usd_per_hour), usd_per_hour(d.usd_per_hour)
    return [f"Your own machines: {running} of the {full} is electricity; the rest is paid whether they run or not."]


def lower_precision_line(plan: ServePlan) -> list[str]:
    """What a checkpoint of lower precision would save."""
    d = plan.lower_precision_alternative
    if d is None:
        return []
    machines = f"{d.instance_count}x {d.cloud} {d.instance}, {d.layout}"
    return [f"With {d.weight_format} weights {about(d)}{usd_per_hour(d.usd_per_hour)} ({machines}): --precision fp8."]


def spot_line(plan: ServicePlan) -> list[str]:
    """The cheapest spot offer of what was placed."""
    d = plan.spot_alternative
    if d is None:
        return []
    machines = f"{d.instance_count}x {d.cloud} {d.instance}, {place(d)}"
    price = f"{about(d)}{usd_per_hour(d.usd_per_hour)}"
    if d.usd_per_hour >= plan.deployments[0].usd_per_hour:
        return [f"Spot is no cheaper: from {price} ({machines})."]
    often = f"{d.interruption} of them were within a month" if d.interruption else "how often is not published"
    return [f"On spot {price} ({machines}; price of {d.price_day}): machines can be taken away, {often}."]


def objective_table(plan: ServicePlan, what: str) -> Table:
    """Latency of the answer with `what`: expected, range, limit and what is left of it."""
    columns = [
        Column("name", "objective" if plan.objectives else "figure"),
        Column("expected", "expected (80% range)", align="right"),
    ]
    limits = [
        Column("limit", "limit", align="right"),
        Column("slack", "slack", align="right"),
        Column("holds", "at the high end"),
    ]
    columns += limits if plan.objectives else []
    names = plan.deployments[0].latency
    return Table(columns, [objective_row(plan, name) for name in names], f"Latency with {what}")


def objective_row(plan: ServicePlan, name: str) -> Row:
    """One latency figure beside its limit, where it has one."""
    figure, limit_s = plan.deployments[0].latency[name], plan.objectives.get(name)
    row = {"name": name, "expected": ranged_duration(figure.value, figure.low, figure.high)}
    if limit_s is None:
        return {**row, "limit": "none", "slack": "-", "holds": "-"}
    holds = "holds" if (figure.high or figure.value) <= limit_s else "breaks"
    return {**row, "limit": duration(limit_s), "slack": percent(1 - figure.value / limit_s), "holds": holds}


@dataclass(frozen=True)
class OwnColumns:
    """What a kind of service shows beside what all have: data columns, and cells of every row.

    `saves`: what each row saves a month beside what runs today, where that is known.
    """

    data: tuple[str, ...]
    replicas: Sequence[str]
    unit_cost: Sequence[str]
    unit_header: str = "$/1M out"
    saves: Sequence[float | None] = ()


def own_columns(deployments: Sequence[Deployment], today: Today | None = None) -> OwnColumns:
    """Layouts, what output tokens cost, and what a row saves beside what runs today."""
    return OwnColumns(
        data=("kv_precision", "layout", "usd_per_million_output_tokens"),
        replicas=[f"{d.replicas}x {d.layout}" for d in deployments],
        unit_cost=[usd(d.usd_per_million_output_tokens) for d in deployments],
        saves=[] if today is None else [today.saved_by(d.avoidable_usd_per_hour) for d in deployments],
    )


def ranking_table(plan: ServicePlan, own: OwnColumns, width: int = NARROW_PAGE) -> Table:
    """Every deployment, the chosen one marked; a narrow page shortens the names of machines."""
    named = machines_texts(plan.deployments, width)
    rows = [
        ranking_row(rank, d, own, text) for rank, (d, text) in enumerate(zip(plan.deployments, named, strict=True), 1)
    ]
    tight = any(d.is_tight for d in plan.deployments)
    legend = ["tight: holds as expected, breaks an objective at the high end of its range."] if tight else []
    estimated = any(d.price_basis == "estimated" for d in plan.deployments)
    legend += ["~: the price is estimated."] if estimated else []
    chosen = 0 if rows else None
    return Table(ranking_columns(plan, own), rows, "Cheapest first, one row per machine type", legend, chosen)


def ranking_columns(plan: ServicePlan, own: OwnColumns) -> list[Column]:
    """Columns of the ranking: for files, then the essential ones, then what wide pages hold."""
    objectives = list(plan.deployments[0].latency) if plan.deployments else []
    return [
        *(Column(key, key, where="data") for key in (*FILE_COLUMNS, *own.data)),
        *(Column(f"{name}{end}_s", name, where="data") for name in objectives for end in ("", "_low", "_high")),
        Column("row", "", align="right", where="text"),
        Column("price", "$/h", align="right", where="text"),
        Column("machines", "machines", where="text", wraps=True),
        *place_and_gpus(plan.inputs),
        Column("shape", "replicas", where="text"),
        *varied_columns(plan.deployments),
        *bought_columns(plan.deployments),
        *(Column(f"{name}_text", name, align="right", priority=2, where="text") for name in objectives),
        Column("headroom_ratio", "spare", spare, "right", 1),
        *([Column("verdict", "range")] if plan.objectives else []),
        Column("grade", "grade", priority=4),
        Column("usd_per_month", "$/mo", usd, "right", 5),
        *([Column("saved_usd_per_month", "saves/mo", usd, "right", 5)] if own.saves else []),
        Column("unit_cost", own.unit_header, align="right", priority=6, where="text"),
        Column("machine_price", "$/machine/h", align="right", priority=9, where="text"),
        Column("gpu_price", "$/GPU/h", align="right", priority=8, where="text"),
        Column("binding_limit", "binds", priority=10),
        Column("price_as_of", "price of", where="data"),
        Column("price_first_seen", "first seen", where="data"),
        Column("price_day", "price of", priority=11, where="text"),
    ]


def place_and_gpus(inputs: Sequence[Input]) -> list[Column]:
    """Where and on what: the region stays on every page where regions were asked for, GPUs else."""
    asked = are_regions_asked(inputs)
    return [
        Column("place", "region", priority=0 if asked else 3, where="text"),
        Column("gpus", "GPUs", priority=2 if asked else 0, where="text"),
    ]


def are_regions_asked(inputs: Sequence[Input]) -> bool:
    """Whether anybody said where machines may stand."""
    return any(i.name == "regions" and i.origin != "default" for i in inputs)


def varied_columns(deployments: Sequence[RentedService]) -> list[Column]:
    """Weights and engine: worth a narrow page's room where the rows differ in them."""
    ones = {"weights": {d.weight_format for d in deployments}, "engine": {d.engine for d in deployments}}
    return [
        Column(f"{name}_text", name, priority=1 if len(values) > 1 else UNVARIED, where="text")
        for name, values in ones.items()
    ]


def bought_columns(deployments: Sequence[RentedService]) -> list[Column]:
    """How each row is bought, where the rows differ in it."""
    kinds = {d.price_kind for d in deployments}
    return [Column("bought", "price", where="text")] if len(kinds) > 1 else []


def bought(d: RentedService) -> str:
    """The price kind, with how many of the machines where it is not all of them."""
    machines = f" {d.instance_count - d.steady_instance_count}/{d.instance_count}" if d.steady_instance_count else ""
    return d.price_kind.replace("_", " ") + machines


FILE_COLUMNS = (
    "usd_per_hour", "usd_per_request", "cloud", "region", "instance", "instance_count", "gpu", "gpus_per_instance",
    "price_kind", "steady_instance_count", "steady_price_per_instance_usd_per_hour", "quiet_instance_count",
    "busy_usd_per_hour", "price_basis", "price_source",
    "price_per_instance_usd_per_hour", "price_per_gpu_usd_per_hour",
    "interruption", "engine", "weight_format", "gpus_per_replica", "replicas", "idle_gpus",
    "batch", "largest_batch", "load_ratio", "requests_per_s_capacity",
)  # fmt: skip


def machines_texts(rented: Sequence[RentedMachines], width: int) -> list[str]:
    """How many machines of which type, a text for each row; a narrow page shortens names that stay apart so."""
    names = [f"{d.cloud} {d.instance.removeprefix('Standard_')}" for d in rented]
    counts = [f"{d.instance_count}x " for d in rented]
    if width >= NARROW_PAGE:
        return [count + name for count, name in zip(counts, names, strict=True)]
    short = [cut(name, SHORT_MACHINE - len(count)) for count, name in zip(counts, names, strict=True)]
    alike = {text for text in short if len({n for n, s in zip(names, short, strict=True) if s == text}) > 1}
    return [c + (n if s in alike else s) for c, n, s in zip(counts, names, short, strict=True)]


def ranking_row(rank: int, d: RentedService, own: OwnColumns, machines: str) -> Row:
    """The cells of one deployment."""
    cells: dict[str, object] = {
        **d.model_dump(exclude={"latency", "launch"}),
        "row": str(rank),
        "price": about(d) + usd(d.usd_per_hour),
        "machines": machines,
        "place": place(d),
        "gpus": gpus(d),
        "shape": own.replicas[rank - 1],
        "unit_cost": own.unit_cost[rank - 1],
        "weights_text": d.weight_format,
        "engine_text": d.engine,
        "bought": bought(d),
        "verdict": "tight" if d.is_tight else "holds",
        "price_day": d.price_day,
        "price_as_of": d.stated_price_day,
        "gpus_per_instance": as_count(d.gpus_per_instance),
        "largest_batch": as_count(d.largest_batch),
        "machine_price": about(d) + usd(d.price_per_instance_usd_per_hour),
        "gpu_price": about(d) + usd(d.price_per_gpu_usd_per_hour),
        "requests_per_s_capacity": d.requests_per_s_capacity.value,
        **({"saved_usd_per_month": own.saves[rank - 1]} if own.saves else {}),
    }
    for name, figure in d.latency.items():
        cells[f"{name}_text"] = duration(figure.value)
        cells |= {f"{name}_s": figure.value, f"{name}_low_s": figure.low, f"{name}_high_s": figure.high}
    return cells


def as_count(number: float) -> float:
    """A whole number without decimals; a slice of a GPU, or no bound, as it is.

    >>> as_count(461.0), as_count(0.125)
    (461, 0.125)
    """
    return int(number) if number.is_integer() else number


def rejection_table(rejections: Sequence[RejectionCount], everything: bool) -> Table:
    """Why candidates were rejected, the commonest reason first, each with its nearest miss."""
    columns = [
        Column("count", "count", count, "right"),
        Column("reason", "reason", wraps=True),
        Column("best", "nearest miss", wraps=True),
    ]
    shown = rejections if everything else rejections[:SHOWN_REJECTIONS]
    hidden = rejections[len(shown) :]
    more = f"And {plural(sum(r.count for r in hidden), 'candidate')} for {plural(len(hidden), 'more reason')}: "
    title = f"Rejected: {plural(sum(r.count for r in rejections), 'candidate')}"
    notes = [f"{more}--show rejected."] if hidden else []
    return Table(columns, [r.model_dump() for r in shown], title, notes, empty="Nothing was rejected.")


def relaxation_table(plan: ServicePlan, lower: str = LOWER_PRECISION, engines: str = OTHER_ENGINES) -> Table:
    """The smallest change of the objectives after which something serves."""
    columns = [
        Column("limit", "objective"),
        Column("asked", "asked", align="right"),
        Column("needed", "needed", align="right"),
        Column("candidate", "then possible with", wraps=True),
    ]
    rows = [r.model_dump() for r in plan.relaxations]
    together = any(r.together for r in plan.relaxations)
    how = "No single one is enough: all of these at once." if together else "Any one of these is enough."
    notes = [how] if len(rows) > 1 else []
    notes += untried_line(plan, lower, engines)
    return Table(columns, rows, "The smallest change that helps", notes, empty="No change of the objectives helps.")


def untried_line(plan: ServicePlan, lower: str, engines: str) -> list[str]:
    """What the question left out of the search and may help."""
    origins = {i.name: i.origin for i in plan.inputs}
    untried = [
        *([lower] if origins.get("weights") == "checkpoint" else []),
        *([engines] if origins.get("engine") == "default" else []),
        *([f"more {narrowed}" for narrowed in ("clouds", "regions", "GPUs") if origins.get(narrowed) != "default"]),
    ]
    return [f"Not tried: {', '.join(untried)}."] if untried else []


def notes(plan: ServePlan, today: date | None) -> list[str]:
    """How names were read, what was assumed, price sources, and how much was searched."""
    is_free = bool(plan.deployments) and not plan.objectives
    free = ["No objective was asked for (--slo): the cheapest that keeps up."] if is_free else []
    searched = (
        f"Searched {count(plan.num_layouts)} layouts, {count(plan.num_configurations)} configurations, "
        f"{count(plan.num_offers)} offers. Hash of inputs and prices: {plan.input_hash}."
    )
    said = quality_line(plan) if plan.deployments else []
    read = [f"{note.rstrip('.')}." for note in plan.notes if f"Quality: {note}." not in said]
    sources = dated_sources(plan.price_sources, today)
    return [*read, *free, *preferred_line(plan.inputs), *assumed_line(plan), *sources, searched]


def preferred_line(inputs: Sequence[Input]) -> list[str]:
    """Inputs that the user's configuration gave."""
    parts = [f"{i.name} {i.value}" for i in inputs if i.origin == "config"]
    return [f"By your configuration: {'; '.join(parts)}."] if parts else []


def assumed_line(plan: ServicePlan) -> list[str]:
    """Inputs that nobody gave."""
    assumed = {i.name: i.value for i in plan.inputs if i.origin == "default"}
    open_to_all = [name for name in ("clouds", "regions", "GPUs") if name in assumed]
    parts = [
        *([f"engine {assumed['engine']}"] if "engine" in assumed else []),
        *([f"beams {assumed['beams']}, the engine's own"] if "beams" in assumed else []),
        *([f"{assumed['price kinds'].replace('_', ' ')} prices"] if "price kinds" in assumed else []),
        *([f"{assumed['headroom']} headroom"] if "headroom" in assumed else []),
        *([f"all {', '.join(open_to_all)}"] if open_to_all else []),
    ]
    return [f"Assumed: {'; '.join(parts)}."] if parts else []


def dated_sources(sources: Sequence[PriceSource], today: date | None) -> list[str]:
    """Sources of the shown prices with their dates, and the age of the oldest that has one."""
    if not sources:
        return []
    listed = ", ".join(f"{source.id} {source_day(source)}" for source in sources)
    days = [source.as_of for source in sources if source.first_seen is None]
    if not days:
        return [f"Prices, never live: {listed}."]
    age = "" if today is None else f", {plural(max((today - min(days)).days, 0), 'day')} old"
    return [f"Prices, never live: {listed}. Oldest: {min(days)}{age}."]


def source_day(source: PriceSource) -> str:
    """The day of a source; of an undated copy, when it was first seen."""
    day = day_in_words(source.as_of, source.first_seen)
    return day if source.first_seen is None else f"({day})"
