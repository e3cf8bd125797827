"""What a plan costs beside its GPU machines, line by line, as its user stated the lines."""

from __future__ import annotations

from collections.abc import Iterable

from gpufleet.domain.bill import BillLine
from gpufleet.pricing.rest_of_bill import line_usd_per_month
from gpufleet.results.plan import BillCost, RentedService, ServePlan


def with_rest_of_bill(plan: ServePlan, lines: Iterable[BillLine]) -> ServePlan:
    """The plan with the lines of its chosen place; they do not take part in the ranking."""
    return plan.model_copy(update={"rest_of_bill": rest_of_bill(plan.answer, plan.all_hours_requests_per_s, lines)})


def rest_of_bill(d: RentedService, mean_requests_per_s: float, lines: Iterable[BillLine]) -> list[BillCost]:
    """The lines of the place of a deployment, at its machines and the rate over all hours."""
    return [bill_cost(line, d, mean_requests_per_s) for line in lines if line.applies_to(d.cloud, d.region)]


def bill_cost(line: BillLine, d: RentedService, mean_requests_per_s: float) -> BillCost:
    """One line at the machines of a deployment and a rate, both over all hours."""
    return BillCost(
        line=line.name,
        quantity=line.quantity,
        unit=line.unit,
        per=line.per.value,
        unit_usd=line.unit_usd,
        usd_per_month=line_usd_per_month(line, d.mean_instance_count, mean_requests_per_s),
        source=line.source,
    )
