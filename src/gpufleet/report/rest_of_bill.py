"""The rest of a bill as a table: stated lines, what they come to, and the whole with the GPU machines."""

from __future__ import annotations

from gpufleet.report.numbers import usd_per_month
from gpufleet.report.page import Column, Table
from gpufleet.results.plan import ServicePlan

PER = {"service": "once", "instance": "per machine", "million_requests": "per 1M requests"}


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
