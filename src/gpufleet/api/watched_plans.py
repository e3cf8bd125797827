"""A plan as what is watched of it."""

from __future__ import annotations

from gpufleet.api.rented_groups import Group, groups_of, names_of, start_of
from gpufleet.catalog.engine_metrics import metrics_of
from gpufleet.catalog.tables import Catalog
from gpufleet.monitor.watched import Range, WatchedCopies, WatchedPlan
from gpufleet.results.base import Figure
from gpufleet.results.fleet import FleetPlan
from gpufleet.results.plan import ServePlan

NAMESPACE = "serving"
"""Where `deploy` puts copies."""


def watched_plan(plan: ServePlan | FleetPlan, tables: Catalog) -> WatchedPlan:
    """What is watched of a plan: its copies by the names that `deploy` gives them."""
    groups = list(groups_of(plan, "watched"))
    names = names_of(groups)
    copies = [watched_copies(group, names[group.name], tables) for group in groups]
    return WatchedPlan("-".join(dict.fromkeys(each.name for each in copies)), plan.input_hash, copies)


def watched_copies(group: Group, name: str, tables: Catalog) -> WatchedCopies:
    """A group of equal copies."""
    d, plan = group.deployment, group.plan
    gpu = tables.accelerators.get(d.gpu.split(" ")[0])
    return WatchedCopies(
        name=name,
        namespace=NAMESPACE,
        model=group.model,
        engine=d.engine,
        metrics=metrics_of(d.engine, group.engine_version),
        gpu=d.gpu,
        power_limit_watts=None,
        replicas=d.replicas,
        machines=d.instance_count,
        gpus_per_machine=d.gpus_per_instance,
        gpus_per_replica=d.gpus_per_replica,
        usd_per_hour=d.usd_per_hour / d.instance_count,
        objectives=plan.objectives,
        latency={label: range_of(figure) for label, figure in d.latency.items()},
        requests_per_s=plan.rate_requests_per_s * group.share_ratio,
        requests_per_s_capacity=range_of(d.requests_per_s_capacity),
        input_tokens=plan.input_tokens,
        output_tokens=plan.output_tokens,
        most_running=d.largest_batch,
        start_s=start_of(group)[0],
        cloud=d.cloud,
        instance=d.instance,
        vendor="nvidia" if gpu is None else gpu.vendor,
    )


def range_of(figure: Figure) -> Range:
    """A figure as what is expected."""
    return Range(figure.value, figure.low, figure.high)
