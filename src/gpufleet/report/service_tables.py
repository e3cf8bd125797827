"""Latency, ranking and bill of a service, whatever a model does with a request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpufleet.records import dataclass
from gpufleet.report.numbers import duration, percent, ranged_duration, spare, usd, usd_per_month
from gpufleet.report.page import Column, Row, Table
from gpufleet.report.range_bars import HEADER as BARS
from gpufleet.report.range_bars import LimitedRange, range_bars
from gpufleet.report.rented import (
    DOUBTED,
    NARROW_PAGE,
    OUTDATED,
    PRICE_DAYS,
    are_regions_asked,
    machine_cells,
    machines_texts,
    marked,
    range_legend,
    ranking,
    varied_columns,
)
from gpufleet.results.base import Figure, Input
from gpufleet.results.plan import RentedService, ServicePlan

FILE_COLUMNS = (
    "usd_per_hour", "usd_per_request", "cloud", "region", "instance", "instance_count", "gpu", "gpus_per_instance",
    "price_kind", "steady_instance_count", "steady_price_per_instance_usd_per_hour", "quiet_instance_count",
    "busy_usd_per_hour", "price_basis", "price_source",
    "price_per_instance_usd_per_hour", "price_per_gpu_usd_per_hour",
    "interruption", "engine", "drafts", "weight_format", "gpus_per_replica", "replicas", "idle_gpus",
    "batch", "largest_batch", "load_ratio", "requests_per_s_capacity",
)  # fmt: skip
PER = {"service": "once", "instance": "per machine", "million_requests": "per 1M requests"}


def objective_table(plan: ServicePlan, what: str, latency: Mapping[str, Figure] | None = None) -> Table:
    """Latency of the answer, or another, with `what`: expected, range, limit and what is left of it."""
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
    shown = plan.deployments[0].latency if latency is None else latency
    limited = [limited_range(name, figure, plan.objectives.get(name)) for name, figure in shown.items()]
    bars = range_bars(limited) if plan.objectives else []
    rows = [objective_row(name, figure, plan.objectives.get(name)) for name, figure in shown.items()]
    return Table(columns, rows, f"Latency with {what}", bars=bars, bars_header=BARS)


def limited_range(name: str, figure: Figure, limit_s: float | None) -> LimitedRange | None:
    """A latency figure with its limit, where it has one."""
    if limit_s is None:
        return None
    low, high = (figure.value if end is None else end for end in (figure.low, figure.high))
    return LimitedRange(name, figure.value, low, high, limit_s)


def objective_row(name: str, figure: Figure, limit_s: float | None) -> Row:
    """One latency figure beside its limit, where it has one."""
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


def ranking_table(plan: ServicePlan, own: OwnColumns, width: int = NARROW_PAGE) -> Table:
    """Every deployment, the chosen one marked; a narrow page shortens the names of machines."""
    named = machines_texts(plan.deployments, width)
    rows = [
        ranking_row(rank, d, own, text, plan.confidence)
        for rank, (d, text) in enumerate(zip(plan.deployments, named, strict=True), 1)
    ]
    is_any_tight = any(d.is_tight for d in plan.deployments)
    legend = range_legend(is_any_tight, plan.confidence, "holds", "breaks an objective")
    return ranking(plan.deployments, ranking_columns(plan, own), rows, legend, marks_of_order(plan.deployments))


def marks_of_order(rows: Sequence[RentedService]) -> list[str]:
    """What counts in the order of rows beside the prices of their lists."""
    listed, likely = [d.usd_per_hour for d in rows], [d.likely_usd_per_hour for d in rows]
    return [
        *([OUTDATED] if listed != sorted(listed) and listed != likely else []),
        *([DOUBTED] if likely != sorted(likely) else []),
    ]


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
        Column("headroom_ratio", "headroom_ratio", where="data"),
        Column("sure_requests_per_s", "sure_requests_per_s", where="data"),
        Column("spare_ratio", "spare", spare, "right", 1, where="text"),
        *([Column("verdict", "range")] if plan.objectives else []),
        Column("grade", "grade", priority=4),
        Column("usd_per_month", "$/mo", usd, "right", 5),
        *([Column("saved_usd_per_month", "saves/mo", usd, "right", 5)] if own.saves else []),
        Column("unit_cost", own.unit_header, align="right", priority=6, where="text"),
        Column("machine_price", "$/machine/h", align="right", priority=9, where="text"),
        Column("gpu_price", "$/GPU/h", align="right", priority=8, where="text"),
        Column("binding_limit", "set by", priority=10),
        *PRICE_DAYS,
    ]


def place_and_gpus(inputs: Sequence[Input]) -> list[Column]:
    """Where and on what: the region stays on every page where regions were asked for, GPUs else."""
    asked = are_regions_asked(inputs)
    return [
        Column("place", "region", priority=0 if asked else 3, where="text"),
        Column("gpus", "GPUs", priority=2 if asked else 0, where="text"),
    ]


def bought_columns(deployments: Sequence[RentedService]) -> list[Column]:
    """How each row is bought, where the rows differ in it."""
    kinds = {d.price_kind for d in deployments}
    return [Column("bought", "price", where="text", qualifies=True)] if len(kinds) > 1 else []


def bought(d: RentedService) -> str:
    """The price kind, with how many of the machines where it is not all of them."""
    machines = f" {d.instance_count - d.steady_instance_count}/{d.instance_count}" if d.steady_instance_count else ""
    return d.price_kind.replace("_", " ") + machines


def ranking_row(rank: int, d: RentedService, own: OwnColumns, machines: str, confidence: float) -> Row:
    """The cells of one deployment."""
    cells: dict[str, object] = {
        **d.model_dump(exclude={"latency", "launch"}),
        **machine_cells(rank, d, machines, confidence),
        "price": marked(d, usd(d.usd_per_hour)),
        "shape": own.replicas[rank - 1],
        "unit_cost": own.unit_cost[rank - 1],
        "spare_ratio": d.spare_ratio,
        "bought": bought(d),
        "gpus_per_instance": as_count(d.gpus_per_instance),
        "largest_batch": as_count(d.largest_batch),
        "machine_price": marked(d, usd(d.price_per_instance_usd_per_hour)),
        "gpu_price": marked(d, usd(d.price_per_gpu_usd_per_hour)),
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


def rest_of_bill_tables(plan: ServicePlan) -> list[Table]:
    """The table, where lines were stated."""
    if not plan.rest_of_bill:
        return []
    machines = plan.deployments[0].usd_per_month
    rows: list[tuple[str, str, float]] = [("GPU machines", "", machines)]
    for cost in plan.rest_of_bill:
        basis = f"{cost.quantity:g} {cost.unit} {PER[cost.per]} at ${cost.unit_usd:g}"
        rows.append((cost.line, basis, cost.usd_per_month))
    rows.append(("together", "", machines + sum(cost.usd_per_month for cost in plan.rest_of_bill)))
    columns = [
        Column("line", "line"),
        Column("basis", "stated", str),
        Column("usd_per_month", "a month", usd_per_month, "right"),
    ]
    note = "Other costs come from bill_lines.csv; they do not affect the ranking."
    return [Table.of_cells(columns, rows, "The whole bill", [note])]
