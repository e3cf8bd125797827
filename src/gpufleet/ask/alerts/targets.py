"""What reads the files, and which rules are in them: rows by the modules of `gpufleet.monitor` that make them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module

from gpufleet.api.watched_plans import stated_budget
from gpufleet.errors import UnknownName, UsageError
from gpufleet.monitor.promql import gates_of
from gpufleet.monitor.rules import Watching, with_twins
from gpufleet.monitor.target import Beside, Target
from gpufleet.monitor.watched import WatchedPlan

TARGETS = {
    "prometheus": "prometheus_files",
    "alertmanager": "alertmanager_files",
    "grafana": "grafana_files",
    "cloudwatch": "cloudwatch_files",
}
RULES = ("serving_rules", "copies_rules", "scaled_rules", "gpu_rules")
JOB_RULES = ("job_rules", "gpu_rules")
SEED_RULES = ("seed_rules",)
GUARD = "gpufleet.api.budget_guards"
"""What a budget adds is loaded where there is one."""


def target_named(name: str) -> Target:
    """The target of a name; modules of the others are not loaded.

    >>> target_named("prometheus").title
    'Prometheus'
    """
    if name not in TARGETS:
        raise UnknownName("target", name, TARGETS, hint=f"Known: {', '.join(TARGETS)}.")
    target: Target = import_module(f"gpufleet.monitor.{TARGETS[name]}").TARGET
    return target


def watched_for(target: Target, plan: WatchedPlan, modules: Sequence[str], rules: Mapping[str, bool]) -> Watching:
    """What watches a plan by a target: rules of Prometheus, or alerts of its own, without what has to be rules."""
    if target.watched_by is None:
        return watching(plan, modules)
    for word, is_said in rules.items():
        if is_said:
            raise UsageError(f"{target.title} reads no rules of Prometheus", found=word, expected="--to prometheus")
    return target.watched_by(plan)


def watching(plan: WatchedPlan, modules: Sequence[str]) -> Watching:
    """All rules on a plan with the twins of their metrics, and what of it no rule watches."""
    found: list[Watching] = [import_module(f"gpufleet.monitor.{name}").watched_by(plan) for name in modules]
    groups = [group for each in found for group in each.groups]
    return Watching(with_twins(groups, gates_of(plan)), [line for each in found for line in each.unwatched])


def guard_of(plan: WatchedPlan, budget: str | None, utc_offset: str | None, acts: bool) -> Beside:
    """What a budget adds; words that mean nothing without one are refused."""
    if budget is not None:
        found: Beside = import_module(GUARD).guard(plan, stated_budget(budget, utc_offset, plan), acts)
        return found
    if utc_offset is not None or acts:
        raise UsageError("there is no budget to guard", expected="--budget 1000/day beside it")
    return Beside()
