"""What a budget adds to the files that watch a plan: the guard's rules, the clouds' budgets, limits to apply."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.deploy.cloud_budgets import CloudBudget, cloud_budget_files, cloud_budget_notes, cloud_budget_steps
from gpufleet.errors import UsageError
from gpufleet.monitor.budget import UNSEEN, Budget, budget_guard
from gpufleet.monitor.machines_seen import machine_kinds
from gpufleet.monitor.rules import RuleGroup
from gpufleet.monitor.spending_limits import limit_files, limit_steps
from gpufleet.monitor.watched import WatchedPlan
from gpufleet.records import dataclass
from gpufleet.results.deployed import DeployedFile, DeployedStep
from gpufleet.units import HOUR, parse_usd_per_period, parse_utc_offset

CARRIED = (
    "Spend of a month is carried from minute to minute: it outlives Prometheus's 15 days, and gaps of two days at most"
)


@dataclass(frozen=True, eq=False)
class Guard:
    """A budget on a plan, and whether limits are written that somebody may apply."""

    plan: WatchedPlan
    budget: Budget
    acts: bool

    def groups(self) -> list[RuleGroup]:
        """Its rules."""
        return [budget_guard(self.plan, self.budget)]

    def clouds(self) -> list[CloudBudget]:
        """Each cloud's part of the budget, as the plan spends it."""
        spent: dict[str, float] = {}
        for kind in machine_kinds(self.plan):
            spent[kind.cloud] = spent.get(kind.cloud, 0.0) + kind.usd_per_hour * kind.machines
        whole = sum(spent.values())
        return [
            CloudBudget(f"gpufleet-{cloud}", cloud, self.budget.usd * usd / whole, self.budget.period)
            for cloud, usd in spent.items()
        ]

    def files(self) -> list[DeployedFile]:
        """Files beside those of the rules."""
        return [*cloud_budget_files(self.clouds()), *(limit_files(self.plan) if self.acts else ())]

    def steps(self) -> list[DeployedStep]:
        """Commands for them."""
        return [*cloud_budget_steps(self.clouds()), *(limit_steps(self.plan) if self.acts else ())]

    def notes(self) -> Iterator[str]:
        """What it does not see, and how late the clouds are."""
        yield f"The budget guard cannot see: {'; '.join(UNSEEN)}"
        yield "Days and months of the budget begin at midnight UTC" + offset_words(self.budget.utc_offset_s)
        yield CARRIED
        yield from cloud_budget_notes(self.clouds())


def offset_words(utc_offset_s: float) -> str:
    """How far midnight is moved."""
    return f", moved by {utc_offset_s / HOUR:+g} h" if utc_offset_s else "; --utc-offset moves it"


def guard_of(plan: WatchedPlan, budget: str | None, utc_offset: str | None, acts: bool) -> Guard | None:
    """The guard that was asked for; words that mean nothing without a budget are refused."""
    if budget is None:
        if utc_offset is not None or acts:
            raise UsageError("there is no budget to guard", expected="--budget 1000/day beside it")
        return None
    usd, period = parse_usd_per_period(budget)
    stated = Budget(usd, period, 0.0 if utc_offset is None else parse_utc_offset(utc_offset))
    stated.refuse_below(plan)
    return Guard(plan, stated, acts)
