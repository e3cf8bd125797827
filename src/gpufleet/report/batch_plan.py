"""The answer of `gpufleet plan batch` as a page: what to rent, when it is done, what it costs, what was rejected."""

from __future__ import annotations

from datetime import date

from gpufleet.report.grades import grade_line
from gpufleet.report.launch import launch_tables
from gpufleet.report.numbers import (
    amount,
    count,
    duration,
    percent,
    ranged,
    ranged_duration,
    significant,
    usd,
    usd_per_hour,
)
from gpufleet.report.page import Column, Page, Row, Table
from gpufleet.report.plan import (
    EVERYWHERE,
    NARROW_PAGE,
    OVER_BUDGET,
    SHORT_MACHINE,
    UNVARIED,
    dated_sources,
    plural,
    preferred_line,
    rejection_table,
)
from gpufleet.report.plan_explained import inputs_table
from gpufleet.report.text import cut
from gpufleet.results.base import Figure
from gpufleet.results.batch import BatchPlan, JobDeployment

BINDING = {
    "the deadline": "The deadline binds: fewer machines would be late.",
    "one machine is enough": "One machine is enough: it is done in time.",
    "starting machines": "Not the deadline decides: with fewer machines the last wave is fuller of waiting.",
}
FORMULAS = (
    ("work", "floor(n / B) full waves of B requests, then the rest: n requests per replica, a wave takes B / rate(B)"),
    ("batch", "the B that memory holds at which most requests are done per second; n where there are fewer"),
    ("machine time", "start + work x (1 + interruptions per hour x (start + half a wave)): lost work is done again"),
    ("finish", "machine time + work x interruptions per hour x wait for another machine"),
    ("machines", "what costs least of all numbers that are done in time, with the headroom on the work"),
    ("cost", "machines x $/h x machine time, billed by the second"),
    ("$/1M tokens", "cost over prompts and answers together; $/1M out over the answers alone"),
    ("range", "speed from its 10th to its 90th percentile; on spot with the least and the most interruptions"),
)


def batch_page(
    plan: BatchPlan,
    *,
    explain: bool = False,
    all_rejections: bool = False,
    today: date | None = None,
    width: int = NARROW_PAGE,
) -> Page:
    """Headline, reasons, ranking and rejections."""
    tables = [why_table(plan), cost_table(plan), ranking_table(plan, width)] if plan.deployments else []
    tables += launch_tables(plan.answer.launch, plan.answer.replicas) if plan.deployments else []
    tables.append(rejection_table(plan.rejections, all_rejections))
    tables += [inputs_table(plan.inputs), formulas_table()] if explain else []
    return Page(headline(plan), tables, notes(plan, today))


def batch_rows_page(plan: BatchPlan) -> Page:
    """The ranking alone: what a CSV holds."""
    return Page(headline(plan), [ranking_table(plan)])


def headline(plan: BatchPlan) -> str:
    """The answer in one sentence."""
    asked = f"{count(plan.requests)} requests of {plan.model} within {duration(plan.deadline_s)}"
    if not plan.deployments:
        return f"{asked}: {why_nothing(plan)}"
    d = plan.answer
    rented = f"{d.instance_count}x {d.cloud} {d.instance} ({gpus(d)}), {place(d)}, {kind(d)}"
    tokens = f"{usd(d.usd_per_million_tokens.value)} per 1M tokens"
    return f"{asked}: {rented}: {about(d)}{usd(d.usd.value)}, {tokens}, done in {duration(d.finish_s.value)}."


def why_nothing(plan: BatchPlan) -> str:
    """Why there is no answer."""
    if not plan.rejections:
        return "nothing on offer runs it."
    dear = (r for r in plan.rejections if r.reason.startswith(OVER_BUDGET))
    first = next(dear, plan.rejections[0])
    return f"nothing on offer does it. {first.reason.capitalize()} (nearest: {first.best})."


def gpus(d: JobDeployment) -> str:
    """All GPUs that are paid for."""
    return f"{amount(d.instance_count * d.gpus_per_instance)}x {d.gpu}"


def place(d: JobDeployment) -> str:
    """The region, or that the price holds in all."""
    return "any region" if d.region == EVERYWHERE else d.region


def kind(d: JobDeployment) -> str:
    """The price kind in words."""
    return d.price_kind.replace("_", " ")


def about(d: JobDeployment) -> str:
    """The mark of a price that was estimated."""
    return "~" if d.price_basis == "estimated" else ""


def why_table(plan: BatchPlan) -> Table:
    """The reasons for the answer, a line each."""
    d = plan.answer
    lines = [
        f"{plural(d.replicas, 'replica')} of {d.layout} in {d.weight_format} with {d.engine}, KV cache "
        f"{d.kv_precision}; {'no GPU idle' if not d.idle_gpus else plural(d.idle_gpus, 'GPU') + ' idle but paid for'}.",
        f"Each works on {count(d.batch)} requests at a time, {count(d.largest_batch)} fit; a batch takes "
        f"{duration(d.wave_s)}.",
        BINDING[d.binding_limit],
        f"All together {ranged_figure(d.output_tokens_per_s, 'output tokens/s')}.",
        grade_line(d.grade),
        *spot_lines(plan, d),
        *tight_line(plan),
    ]
    return Table([], [], "Why this one", [f"  {line}" for line in lines], empty="")


def spot_lines(plan: BatchPlan, d: JobDeployment) -> list[str]:
    """Interruptions that are expected and what they cost; else what steady machines cost more."""
    if d.price_kind != "spot":
        return []
    band = f" (the cloud's band: {d.interruption})" if d.interruption else " (no rate is published for it)"
    lines = [f"{significant(d.interruptions, 2)} interruptions expected{band}; {percent(d.repeated_ratio)} of the "
             "machine time repeats what they lose."]  # fmt: skip
    steady = next((x for x in plan.deployments if x.price_kind == "on_demand"), None)
    if steady is None:
        return lines
    machines = f"{steady.instance_count}x {steady.cloud} {steady.instance}"
    return [*lines, f"On demand {about(steady)}{usd(steady.usd.value)} ({machines})."]


def tight_line(plan: BatchPlan) -> list[str]:
    """Where the answer is late at the high end of its range: the cheapest row that is not."""
    if not plan.answer.is_tight:
        return []
    steady = next(((i, d) for i, d in enumerate(plan.deployments, 1) if not d.is_tight), None)
    if steady is None:
        return ["Tight: late at the high end of its range."]
    row, d = steady
    return [f"Tight: late at the high end of its range; row {row} ({about(d)}{usd(d.usd.value)}) is in time there too."]


def cost_table(plan: BatchPlan) -> Table:
    """Finish and cost of the answer, with their ranges."""
    d = plan.answer
    columns = [Column("name", "figure"), Column("value", "expected (80% range)", align="right")]
    rows: list[Row] = [
        {"name": "finish", "value": ranged_time(d.finish_s)},
        {"name": "time paid per machine", "value": ranged_time(d.paid_s)},
        {"name": "cost", "value": ranged_usd(d.usd)},
        {"name": "$/1M tokens", "value": ranged_usd(d.usd_per_million_tokens)},
        {"name": "$/1M output tokens", "value": ranged_usd(d.usd_per_million_output_tokens)},
        {"name": "$/1,000 requests", "value": ranged_usd(d.usd_per_thousand_requests)},
    ]
    lengths = f"{amount(plan.input_tokens)} tokens in, {amount(plan.output_tokens)} out"
    return Table(columns, rows, f"{count(plan.requests)} requests with {lengths}")


def ranged_time(figure: Figure) -> str:
    """A time with its range."""
    return ranged_duration(figure.value, figure.low, figure.high)


def ranged_figure(figure: Figure, unit: str) -> str:
    """A rate with its range."""
    return ranged(figure.value, figure.low, figure.high, unit, digits=3)


def ranged_usd(figure: Figure) -> str:
    """An amount of money with its range."""
    if figure.low is None or figure.high is None:
        return usd(figure.value)
    return f"{usd(figure.value)} ({usd(figure.low)}-{usd(figure.high)})"


def ranking_table(plan: BatchPlan, width: int = NARROW_PAGE) -> Table:
    """Every deployment, the chosen one marked; a narrow page shortens the names of machines."""
    longest_machine = SHORT_MACHINE if width < NARROW_PAGE else None
    rows = [ranking_row(rank, d, longest_machine) for rank, d in enumerate(plan.deployments, 1)]
    tight = any(d.is_tight for d in plan.deployments)
    legend = ["tight: done in time as expected, late at the high end of its range."] if tight else []
    legend += ["~: the price is estimated."] if any(d.price_basis == "estimated" for d in plan.deployments) else []
    return Table(ranking_columns(plan), rows, "Cheapest first, one row per machine type", legend, 0 if rows else None)


def ranking_columns(plan: BatchPlan) -> list[Column]:
    """Columns of the ranking: for files, then the essential ones, then what wide pages hold."""
    ones = {"weights": {d.weight_format for d in plan.deployments}, "engine": {d.engine for d in plan.deployments}}
    return [
        *(Column(key, key, where="data") for key in FILE_COLUMNS),
        *(Column(f"{key}{end}", key, where="data") for key in FIGURES for end in ("", "_low", "_high")),
        Column("row", "", align="right", where="text"),
        Column("cost", "cost", align="right", where="text"),
        Column("machines", "machines", where="text"),
        Column("place", "region", priority=4, where="text"),
        Column("kind", "price", where="text"),
        Column("gpus", "GPUs", priority=2, where="text"),
        Column("shape", "replicas", where="text"),
        *(
            Column(f"{name}_text", name, priority=1 if len(values) > 1 else UNVARIED, where="text")
            for name, values in ones.items()
        ),
        Column("finish", "done in", align="right", where="text"),
        Column("verdict", "range"),
        Column("per_million", "$/1M", align="right", priority=3, where="text"),
        Column("grade", "grade", priority=6),
        Column("hourly", "$/h", align="right", priority=5, where="text"),
        Column("binding_limit", "binds", priority=10),
        Column("price_as_of", "price of", str, priority=11),
    ]


FIGURES = (
    "usd", "finish_s", "paid_s", "usd_per_million_tokens", "usd_per_million_output_tokens",
    "usd_per_thousand_requests", "requests_per_s", "output_tokens_per_s",
)  # fmt: skip
FILE_COLUMNS = (
    "cloud", "region", "instance", "instance_count", "gpu", "gpus_per_instance", "price_kind", "price_basis",
    "price_source", "price_per_instance_usd_per_hour", "usd_per_hour", "interruption", "interruptions",
    "repeated_ratio", "engine", "weight_format", "kv_precision", "layout", "gpus_per_replica", "replicas", "idle_gpus",
    "requests_per_replica", "batch", "largest_batch", "wave_s", "work_s",
)  # fmt: skip


def ranking_row(rank: int, d: JobDeployment, longest_machine: int | None) -> Row:
    """The cells of one deployment."""
    machines = f"{d.instance_count}x {d.cloud} {d.instance.removeprefix('Standard_')}"
    cells: dict[str, object] = {
        **d.model_dump(exclude={*FIGURES, "launch"}),
        "row": str(rank),
        "cost": about(d) + usd(d.usd.value),
        "machines": machines if longest_machine is None else cut(machines, longest_machine),
        "place": place(d),
        "kind": kind(d),
        "gpus": gpus(d),
        "shape": f"{d.replicas}x {d.layout}",
        "weights_text": d.weight_format,
        "engine_text": d.engine,
        "finish": duration(d.finish_s.value),
        "verdict": "tight" if d.is_tight else "holds",
        "per_million": usd(d.usd_per_million_tokens.value),
        "hourly": about(d) + usd_per_hour(d.usd_per_hour),
    }
    for key in FIGURES:
        figure: Figure = getattr(d, key)
        cells |= {key: figure.value, f"{key}_low": figure.low, f"{key}_high": figure.high}
    return cells


def formulas_table() -> Table:
    """How the figures are computed, in words."""
    columns = [Column("name", "figure"), Column("formula", "is", wraps=True)]
    return Table(columns, [{"name": name, "formula": formula} for name, formula in FORMULAS], "How it is computed")


def notes(plan: BatchPlan, today: date | None) -> list[str]:
    """How names were read, what was assumed, prices with dates, the extent of the search."""
    searched = (
        f"Searched {count(plan.num_layouts)} layouts, {count(plan.num_configurations)} configurations, "
        f"{count(plan.num_offers)} offers. Hash of inputs and prices: {plan.input_hash}."
    )
    read = [f"{note.rstrip('.')}." for note in plan.notes]
    sources = dated_sources(plan.price_sources, today)
    return [*read, *preferred_line(plan.inputs), *assumed_line(plan), *sources, searched]


def assumed_line(plan: BatchPlan) -> list[str]:
    """Inputs that nobody gave."""
    assumed = {i.name: i.value for i in plan.inputs if i.origin == "default"}
    shown = {"engine": "engine {}", "time to start": "{} until a machine works", "headroom": "{} headroom"}
    parts = [words.format(assumed[name]) for name, words in shown.items() if name in assumed]
    open_to_all = [name for name in ("clouds", "regions", "GPUs") if name in assumed]
    parts += [f"all {', '.join(open_to_all)}"] if open_to_all else []
    return [f"Assumed: {'; '.join(parts)}; billed by the second."] if parts else []
