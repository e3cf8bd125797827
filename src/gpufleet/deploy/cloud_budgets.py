"""The clouds' own budgets as Terraform: they see the bill, hours after the money is gone, and stop nothing.

AWS refreshes billing data up to three times a day; `FORECASTED` notifications do not exist for `DAILY` budgets, and an
action of a budget names instances, never an autoscaling group, which starts new ones: none is written. Google reports
up to a day late, Azure evaluates once a day; neither has a budget of a day. Attributes: hashicorp/aws 6.25, google
6.50, azurerm 4.55.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from gpufleet.errors import Infeasible
from gpufleet.hcl import Block, Code, Value, hcl_document, inner
from gpufleet.records import dataclass
from gpufleet.results.deployed import DeployedFile, DeployedStep
from gpufleet.units import DAY, HOUR, HOURS_PER_MONTH

STEPS = (50, 80, 100)
FOLDER, SERVICE = "cloud-budget", "Amazon Elastic Compute Cloud - Compute"
DELAYS = {
    "aws": "AWS refreshes its bill up to three times a day: this budget speaks 8 to 12 hours late",
    "gcp": "Google's bill is up to 24 hours late, and so is this budget",
    "azure": "Azure adds up costs once in 24 hours: this budget speaks a day late",
}
MONTHLY_ONLY = ("gcp", "azure")
EMAILS = "who is written to"


@dataclass(frozen=True)
class CloudBudget:
    """USD that machines of one cloud may cost in a `day` or a `month`."""

    name: str
    cloud: str
    usd: float
    period: str

    @property
    def whole_usd(self) -> int:
        """Whole dollars of the period that the cloud knows: a day's budget is 730/24 times as much in a month."""
        per = HOURS_PER_MONTH * HOUR / DAY if self.period == "day" and self.cloud in MONTHLY_ONLY else 1.0
        return max(1, round(self.usd * per))


def cloud_budget_files(budgets: Sequence[CloudBudget]) -> Iterator[DeployedFile]:
    """A folder for each cloud that has budgets."""
    for budget in budgets:
        if budget.cloud in WRITTEN:
            what = f"a budget on the bill of {budget.cloud}"
            yield DeployedFile(name=f"{FOLDER}/{budget.cloud}/main.tf", text=cloud_budget(budget), what=what)


def cloud_budget(budget: CloudBudget) -> str:
    """The Terraform of one cloud."""
    if budget.cloud not in WRITTEN:
        raise Infeasible(f"no budget of {budget.cloud} is known", expected=", ".join(WRITTEN))
    return hcl_document(WRITTEN[budget.cloud](budget), f"{DELAYS[budget.cloud]}; it stops nothing")


def cloud_budget_steps(budgets: Sequence[CloudBudget]) -> Iterator[DeployedStep]:
    """What to do with them."""
    for cloud in dict.fromkeys(budget.cloud for budget in budgets if budget.cloud in WRITTEN):
        command = f"terraform -chdir={FOLDER}/{cloud} init && terraform -chdir={FOLDER}/{cloud} plan"
        yield DeployedStep(command=command, purpose=f"{DELAYS[cloud]}; shows what it would make")


def cloud_budget_notes(budgets: Sequence[CloudBudget]) -> Iterator[str]:
    """How late each is, and what it cannot be."""
    for budget in budgets:
        if budget.cloud not in WRITTEN:
            yield f"No budget of {budget.cloud} can be written: the guard alone watches its machines"
            continue
        yield DELAYS[budget.cloud]
        if budget.period == "day" and budget.cloud in MONTHLY_ONLY:
            yield f"{budget.cloud} has no budget of a day: it is written for a month, {budget.whole_usd:,} USD"


def aws(budget: CloudBudget) -> Iterator[Block]:
    """A budget of AWS: of a month with a forecast, of a day without."""
    yield required("aws", "hashicorp/aws", ">= 6.0")
    yield variable("emails", "list(string)", EMAILS)
    told = [notification(percent, "ACTUAL") for percent in STEPS]
    told += [notification(100, "FORECASTED")] if budget.period == "month" else []
    attributes: dict[str, Value] = {
        "name": budget.name,
        "budget_type": "COST",
        "limit_amount": str(budget.whole_usd),
        "limit_unit": "USD",
        "time_unit": "MONTHLY" if budget.period == "month" else "DAILY",
    }
    filtered = inner("cost_filter", {"name": "Service", "values": [SERVICE]})
    yield Block("resource", ("aws_budgets_budget", "gpufleet"), attributes, (filtered, *told))


def notification(percent: int, kind: str) -> Block:
    """Who is told by AWS at a share of the budget."""
    return inner(
        "notification",
        {
            "comparison_operator": "GREATER_THAN",
            "threshold": percent,
            "threshold_type": "PERCENTAGE",
            "notification_type": kind,
            "subscriber_email_addresses": Code("var.emails"),
        },
    )


def google(budget: CloudBudget) -> Iterator[Block]:
    """A budget of Google, of a calendar month; who administers the billing account is written to."""
    yield required("google", "hashicorp/google", ">= 6.0")
    yield variable("billing_account", "string", "its id: 012345-6789AB-CDEF01")
    yield variable("project", "string", "the project's id")
    rules = [threshold(percent, "CURRENT_SPEND") for percent in STEPS] + [threshold(100, "FORECASTED_SPEND")]
    amount = inner("amount", {}, inner("specified_amount", {"currency_code": "USD", "units": str(budget.whole_usd)}))
    where = inner("budget_filter", {"projects": [Code('"projects/${var.project}"')], "calendar_period": "MONTH"})
    attributes: Mapping[str, Value] = {"billing_account": Code("var.billing_account"), "display_name": budget.name}
    yield Block("resource", ("google_billing_budget", "gpufleet"), attributes, (where, amount, *rules))


def threshold(percent: int, basis: str) -> Block:
    """A share of the budget at which Google tells."""
    return inner("threshold_rules", {"threshold_percent": Code(f"{percent / 100:g}"), "spend_basis": basis})


def azure(budget: CloudBudget) -> Iterator[Block]:
    """A budget of Azure, of a month; it begins on a first of a month that has to be named."""
    yield required("azurerm", "hashicorp/azurerm", ">= 4.0")
    yield variable("subscription_id", "string", "/subscriptions/00000000-0000-0000-0000-000000000000")
    yield variable("start_date", "string", "the first of a month, this one at the earliest: 2026-12-01T00:00:00Z")
    yield variable("emails", "list(string)", EMAILS)
    told = [azure_notification(percent, "Actual") for percent in STEPS] + [azure_notification(100, "Forecasted")]
    attributes: Mapping[str, Value] = {
        "name": budget.name,
        "subscription_id": Code("var.subscription_id"),
        "amount": budget.whole_usd,
        "time_grain": "Monthly",
    }
    period = inner("time_period", {"start_date": Code("var.start_date")})
    yield Block("resource", ("azurerm_consumption_budget_subscription", "gpufleet"), attributes, (period, *told))


def azure_notification(percent: int, kind: str) -> Block:
    """Who is told by Azure at a share of the budget."""
    return inner(
        "notification",
        {
            "operator": "GreaterThanOrEqualTo",
            "threshold": percent,
            "threshold_type": kind,
            "contact_emails": Code("var.emails"),
        },
    )


def required(name: str, source: str, version: str) -> Block:
    """The provider that the file needs."""
    providers = inner("required_providers", {name: {"source": source, "version": version}})
    return Block("terraform", (), {}, (providers,))


def variable(name: str, kind: str, what: str) -> Block:
    """What only the reader knows."""
    return Block("variable", (name,), {"type": Code(kind), "description": what})


WRITTEN: Mapping[str, Callable[[CloudBudget], Iterator[Block]]] = {"aws": aws, "gcp": google, "azure": azure}
