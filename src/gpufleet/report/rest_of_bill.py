"""The rest of a bill as a table: stated lines, what they come to, and the whole with the GPU machines."""

from __future__ import annotations

from gpufleet.report.numbers import usd_per_month
from gpufleet.report.page import Column, Row, Table
from gpufleet.results.plan import BillCost, ServicePlan

PER = {"service": "once", "instance": "per machine", "million_requests": "per 1M requests"}


def bill_tables(plan: ServicePlan) -> list[Table]:
    """The table, where lines were stated."""
    if not plan.rest_of_bill:
        return []
    machines = plan.deployments[0].usd_per_month
    total = machines + sum(cost.usd_per_month for cost in plan.rest_of_bill)
    rows = [row_of("GPU machines", "", machines), *(stated_row(cost) for cost in plan.rest_of_bill)]
    columns = [
        Column("line", "line"),
        Column("basis", "stated", str),
        Column("usd_per_month", "a month", usd_per_month, "right"),
    ]
    note = "Other costs come from bill_lines.csv; they do not affect the ranking."
    return [Table(columns, [*rows, row_of("together", "", total)], title="The whole bill", notes=[note])]


def stated_row(cost: BillCost) -> Row:
    """One stated line."""
    basis = f"{cost.quantity:g} {cost.unit} {PER[cost.per]} at ${cost.unit_usd:g}"
    return row_of(cost.line, basis, cost.usd_per_month)


def row_of(line: str, basis: str, usd_a_month: float) -> Row:
    """The cells of a line."""
    return {"line": line, "basis": basis, "usd_per_month": usd_a_month}
