"""Models side by side, as a page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

from gpufleet.ask.side_by_side.shape import ModelComparison, ModelRow
from gpufleet.report.catalog_pages import billions
from gpufleet.report.cost_bars import CostBar, cost_bars
from gpufleet.report.numbers import amount, percent, ranged_duration, several, significant, spare, usd, usd_per_hour
from gpufleet.report.page import Column, Columns, Fact, Page, Picture, Row, Table, column, number
from gpufleet.report.rented import gpus, kind, machines, marked, place, short_machines
from gpufleet.report.search import NOTHING_HELPS, dated_sources

NEXT = "put questions of your own users to the models that you can afford, and judge the answers."
ALL_ELSE = "All else as it is: the same change may make the cheapest cheaper still."
SURE = {
    "sure": "sure: their ranges do not overlap",
    "shared": "likely: ranges overlap, but one engine on one GPU errs for both alike, and it is never the dearer",
    "open": "not sure: ranges overlap",
    "equal": "no difference",
    "unasked": "no range: one confidence was asked for",
    "alone": "no other model is served",
}
DATA = (
    "asked",
    "model",
    "num_parameters",
    "num_active_parameters",
    "usd_per_hour",
    "least_usd_per_hour",
    "most_usd_per_hour",
    "usd_per_million_output_tokens",
    "verdict",
    "grade",
    "dearer_ratio",
    "wins_below_usd_per_hour",
    "plan_hash",
)
RENTED = (
    "cloud",
    "region",
    "instance",
    "instance_count",
    "gpu",
    "gpus_per_instance",
    "price_kind",
    "price_source",
    "price_as_of",
    "engine",
    "weight_format",
    "layout",
    "replicas",
)
WELL_KNOWN = ("sure", "shared", "alone")


def models_page(found: ModelComparison) -> Page:
    """Who costs least and how surely, all models in a row each, what the dearer would need, why others do not serve."""
    tables = [
        models_table(found),
        *rented_tables(found),
        *latency_tables(found),
        *needs_tables(found),
        *unserved_tables(found),
    ]
    said = [f"{note.rstrip('.')}." for note in found.notes]
    closing = [*said, *dated_sources(found.price_sources, None), f"Hash of inputs and prices: {found.input_hash}."]
    return Page(headline(found), tables, closing, (), facts(found), title(found), NEXT if found.cheapest else "")


def asked_words(found: ModelComparison) -> str:
    """The load of all."""
    load = f"{amount(found.input_tokens)} tokens in, {amount(found.output_tokens)} out"
    return f"{len(found.rows)} models at {several(found.rate_requests_per_s, 'request')}/s, {load}"


def headline(found: ModelComparison) -> str:
    """Who costs least, by how much, and whether that is sure."""
    first, second = found.rows[:2]
    if first.usd_per_hour is None:
        return f"{asked_words(found)}: none of them can be served."
    if second.usd_per_hour is None:
        return f"{asked_words(found)}: only {first.asked} can be served, {usd_per_hour(first.usd_per_hour)}."
    if found.sureness == "equal":
        named = " and ".join(row.asked for row in found.rows if row.usd_per_hour == first.usd_per_hour)
        return f"{asked_words(found)}: {named} cost least and the same, {usd_per_hour(first.usd_per_hour)}."
    less = f"{percent(found.saved_ratio)} less than {second.asked} ({usd_per_hour(second.usd_per_hour)})"
    least = f"{first.asked} costs least, {usd_per_hour(first.usd_per_hour)}, {less}"
    return f"{asked_words(found)}: {least}; {SURE[found.sureness]}."


def title(found: ModelComparison) -> str:
    """The same as a title, in few words."""
    if found.cheapest is None:
        return ""
    price = usd_per_hour(found.cheapest.usd_per_hour)
    return f"Of {asked_words(found)}, {found.cheapest.asked} costs least: {price}."


def facts(found: ModelComparison) -> list[Fact]:
    """The cheapest, by how much, and how surely."""
    if found.cheapest is None:
        return []
    lead = Fact("Cheapest", found.cheapest.asked, usd_per_hour(found.cheapest.usd_per_hour))
    look: Literal["good", "tight"] = "good" if found.sureness in WELL_KNOWN else "tight"
    sure = Fact("Sure", SURE[found.sureness].partition(":")[0], SURE[found.sureness], look)
    return [lead, *([Fact("Less than the next", percent(found.saved_ratio))] if found.saved_ratio else []), sure]


def models_table(found: ModelComparison) -> Table:
    """A row for each model, in a CSV with every figure."""
    labels = labels_of(found)
    columns = [
        *(Column(key, key, where="data") for key in (*DATA, *RENTED)),
        *(Column(f"{label}{end}_s", f"{label}{end}_s", where="data") for label in labels for end in ENDS),
        Column("name", "model", where="text"),
        Column("size", "parameters", align="right", where="text", priority=1),
        Column("cost", "$/h", align="right", where="text"),
        Column("range", "50-90% sure", align="right", where="text"),
        Column("unit", "$/1M out", align="right", where="text"),
        Column("bought", "price", where="text", qualifies=True),
        Column("told", "verdict", where="text"),
    ]
    rows = [model_row(row, labels) for row in found.rows]
    chosen = None if found.cheapest is None else 0
    return Table(columns, rows, "Each model on its cheapest machines", chosen=chosen, picture=costs_picture(found))


ENDS = {"": "value", "_low": "low", "_high": "high"}


def labels_of(found: ModelComparison) -> list[str]:
    """Names of latencies, as plans order them."""
    return list(dict.fromkeys(label for row in found.rows for d in row.parts for label in d.latency))


def model_row(row: ModelRow, labels: Sequence[str]) -> Row:
    """The cells of one model."""
    d = row.deployment
    cells: dict[str, object] = {key: getattr(row, key) for key in DATA}
    cells |= {key: getattr(d, key, None) for key in RENTED}
    cells["price_as_of"] = None if d is None else d.stated_price_day
    for label in labels:
        figure = None if d is None else d.latency.get(label)
        cells |= {f"{label}{end}_s": getattr(figure, field, None) for end, field in ENDS.items()}
    return {**cells, **shown(row)}


def shown(row: ModelRow) -> Row:
    """The cells that people read."""
    served = row.parts
    return {
        "name": row.asked,
        "size": size(row),
        "cost": marked(served[0], usd(row.usd_per_hour)) if served else "-",
        "range": cost_range(row),
        "unit": usd(row.usd_per_million_output_tokens) if served else "-",
        "bought": each(kind, row) or "-",
        "told": row.verdict,
    }


def each(say: Callable[..., str], row: ModelRow) -> str:
    """The same of all that is rented for a model."""
    return " + ".join(dict.fromkeys(say(d) for d in row.parts))


def size(row: ModelRow) -> str:
    """Parameters, and those that a token uses where it uses fewer."""
    whole, active = billions(row.num_parameters), billions(row.num_active_parameters)
    return whole if whole == active else f"{whole} / {active}"


def cost_range(row: ModelRow) -> str:
    """What it costs from as expected to the high end of ranges."""
    if not row.certainty or row.usd_per_hour is None:
        return "-"
    least, most = usd(row.least_usd_per_hour), "none" if row.most_usd_per_hour is None else usd(row.most_usd_per_hour)
    return least if least == most else f"{least} to {most}"


def costs_picture(found: ModelComparison) -> Picture | None:
    """What each model costs as a bar; that of the cheapest stands out."""
    served = [(row.asked, row.usd_per_hour) for row in found.rows if row.usd_per_hour]
    if not served:
        return None
    (cheapest, least_usd), *others = served
    bars = [CostBar(cheapest, least_usd, [("", least_usd)]), *(CostBar(*other) for other in others)]
    return cost_bars("What each model costs", bars)


def rented_tables(found: ModelComparison) -> list[Table]:
    """Which machines each model runs on, and how."""
    columns: Columns[ModelRow] = [
        column("model", lambda row: row.asked),
        column("machines", partial(each, machines), wraps=True),
        column("region", partial(each, place), priority=2),
        column("GPUs", partial(each, gpus), priority=1),
        column(
            "copies", partial(each, lambda d: f"{d.replicas}x {d.layout} {d.weight_format}, {d.engine}"), wraps=True
        ),
        number("carries", partial(each, lambda d: f"{significant(d.requests_per_s_capacity.value)}/s"), priority=3),
        column("grade", lambda row: row.grade),
    ]
    served = [row for row in found.rows if row.parts]
    return [Table.of(served, columns, "What is rented")] if served else []


def latency_tables(found: ModelComparison) -> list[Table]:
    """How long requests take on the machines of each model, beside the limits."""
    labels = labels_of(found)
    limits = {label: f" < {ranged_duration(limit_s, None, None)}" for label, limit_s in found.objectives.items()}
    columns: Columns[ModelRow] = [
        column("model", lambda row: row.asked),
        *(column(f"{label}{limits.get(label, '')}", partial(latency, label=label)) for label in labels),
    ]
    return [Table.of([row for row in found.rows if row.parts], columns, "Latency (80% range)")] if labels else []


def latency(row: ModelRow, label: str) -> str:
    """A latency of each part of what is rented."""
    told = [d.latency[label] for d in row.parts if label in d.latency]
    return " + ".join(ranged_duration(f.value, f.low, f.high) for f in told) or "unknown"


def needs_tables(found: ModelComparison) -> list[Table]:
    """What would make each dearer model as cheap, all else as it is."""
    dearer = [row for row in found.rows if row.dearer_ratio]
    columns: Columns[ModelRow] = [
        column("model", lambda row: row.asked),
        number("dearer by", lambda row: spare(row.dearer_ratio)),
        number("wins if a machine costs below", winning_price),
        column("or it alone changes", changed_alone, wraps=True),
    ]
    return [Table.of(dearer, columns, "What the dearer would need", [ALL_ELSE])] if dearer else []


def winning_price(row: ModelRow) -> str:
    """The price of a machine below which a model wins, of what it is."""
    d, below_usd = row.deployment, row.wins_below_usd_per_hour
    return "-" if d is None or below_usd is None else f"{usd(below_usd)} of {usd(d.price_per_instance_usd_per_hour)}"


def changed_alone(row: ModelRow) -> str:
    """The change that saves a model most, and what is rented then."""
    if row.lever is None:
        return "-"
    then = row.lever.winner
    return f"{row.lever.typed or row.lever.change}: {usd_per_hour(then.usd_per_hour)}, {short_machines(then)}"


def unserved_tables(found: ModelComparison) -> list[Table]:
    """Why models are not served, and the smallest thing that would have to give way."""
    rows = [unserved_row(row) for row in found.rows if not row.parts]
    columns = [
        Column("name", "model"),
        Column("why", "most often", wraps=True),
        Column("gives", "the smallest change that helps", wraps=True),
    ]
    return [Table(columns, rows, "Not served")] if rows else []


def unserved_row(row: ModelRow) -> Row:
    """The commonest reason, and the first change, or all that are needed together."""
    why = [f"{told.reason} (nearest: {told.best})" for told in row.rejections]
    changes = row.relaxations if any(r.together for r in row.relaxations) else row.relaxations[:1]
    gives = [f"{r.limit} {r.asked} to {r.needed}, with {r.candidate}" for r in changes]
    return {"name": row.asked, "why": "; ".join(why) or "-", "gives": " and ".join(gives) or NOTHING_HELPS}
