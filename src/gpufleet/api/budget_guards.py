"""What a budget adds to the files that watch a plan: the guard's rules, the clouds' budgets, limits to apply."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpufleet.deploy.cloud_budgets import CloudBudget, cloud_budget_files, cloud_budget_notes, cloud_budget_steps
from gpufleet.monitor.budget import UNSEEN, Budget, budget_guard
from gpufleet.monitor.machines_seen import machine_kinds
from gpufleet.monitor.spending_limits import limit_files, limit_steps
from gpufleet.monitor.target import Beside
from gpufleet.monitor.watched import WatchedPlan
from gpufleet.units import HOUR

CARRIED = (
    "Spend of a month is carried from minute to minute: it outlives Prometheus's 15 days, and gaps of two days at most"
)


def guard(plan: WatchedPlan, budget: Budget, acts: bool) -> Beside:
    """All that guards a budget."""
    clouds = budgets_of_clouds(plan, budget)
    return Beside(
        groups=[budget_guard(plan, budget)],
        files=[*cloud_budget_files(clouds), *(limit_files(plan) if acts else ())],
        steps=[*cloud_budget_steps(clouds), *(limit_steps(plan) if acts else ())],
        notes=list(notes(budget, clouds)),
    )


def budgets_of_clouds(plan: WatchedPlan, budget: Budget) -> list[CloudBudget]:
    """Each cloud's part of a budget, as the plan spends it."""
    spent: dict[str, float] = {}
    for kind in machine_kinds(plan):
        spent[kind.cloud] = spent.get(kind.cloud, 0.0) + kind.usd_per_hour * kind.machines
    whole = sum(spent.values())
    return [
        CloudBudget(f"gpufleet-{cloud}", cloud, budget.usd * usd / whole, budget.period) for cloud, usd in spent.items()
    ]


def notes(budget: Budget, clouds: Sequence[CloudBudget]) -> Iterator[str]:
    """What the guard does not see, and how late the clouds are."""
    yield f"The budget guard cannot see: {'; '.join(UNSEEN)}"
    yield "Days and months of the budget begin at midnight UTC" + offset_words(budget.utc_offset_s)
    yield CARRIED
    yield from cloud_budget_notes(clouds)


def offset_words(utc_offset_s: float) -> str:
    """How far midnight is moved."""
    return f", moved by {utc_offset_s / HOUR:+g} h" if utc_offset_s else "; --utc-offset moves it"
