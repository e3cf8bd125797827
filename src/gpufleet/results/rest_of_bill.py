"""What a plan costs beside its GPU machines, line by line, as its user stated the lines."""

from __future__ import annotations

from collections.abc import Iterable

from gpufleet.domain.bill import BillLine
from gpufleet.pricing.rest_of_bill import line_usd_per_month
from gpufleet.results.plan import BillCost, ServePlan


def with_rest_of_bill(plan: ServePlan, lines: Iterable[BillLine]) -> ServePlan:
    """The plan with the lines of its chosen place; they do not take part in the ranking."""
    place = plan.answer.cloud, plan.answer.region
    costs = [bill_cost(line, plan) for line in lines if line.applies_to(*place)]
    return plan.model_copy(update={"rest_of_bill": costs})


def bill_cost(line: BillLine, plan: ServePlan) -> BillCost:
    """One line at the machines and the rate of the plan."""
    return BillCost(
        line=line.name,
        quantity=line.quantity,
        unit=line.unit,
        per=line.per.value,
        unit_usd=line.unit_usd,
        usd_per_month=line_usd_per_month(line, plan.answer.instance_count, plan.rate_requests_per_s),
        source=line.source,
    )
