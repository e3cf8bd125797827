"""What is watched of a plan: its groups of copies by the names that `deploy` gives them."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace

from gpufleet.api.rented_groups import Group, Rented, names_of, start_of
from gpufleet.api.scaled_copies import NO_SCALER, scaling_of
from gpufleet.catalog.engine_metrics import metrics_of
from gpufleet.catalog.tables import Catalog
from gpufleet.catalog.xid_resolutions import xid_resolutions
from gpufleet.deploy.serving_copies import REACHED
from gpufleet.monitor.budget import Budget
from gpufleet.monitor.watched import Range, ScalingLaw, WatchedCopies, WatchedPlan
from gpufleet.results.autoscale import AutoscaleResult
from gpufleet.results.base import Figure
from gpufleet.units import parse_usd_per_period, parse_utc_offset

NAMESPACE = "serving"
"""That of the commands of `deploy`."""
VERSION_OF_IMAGE = re.compile(r":v?(\d+(?:\.\d+)+)")


def watched_plan(
    plan: Rented, groups: Sequence[Group], tables: Catalog, scaled: AutoscaleResult | None = None
) -> WatchedPlan:
    """What is watched of a plan, and of its law of scaling."""
    names = names_of(groups)
    copies = [watched_copies(group, names[group.name], tables) for group in groups]
    return WatchedPlan(
        name=" and ".join(dict.fromkeys(group.model for group in groups)),
        plan_hash=plan.input_hash,
        copies=copies if scaled is None else [under_law(copies[0], scaled, groups[0].engine_version)],
        gpu_metrics=metrics_of("dcgm-exporter"),
        cluster_metrics=metrics_of("kube-state-metrics"),
        xid_codes=xid_resolutions(),
    )


def watched_copies(group: Group, name: str, tables: Catalog) -> WatchedCopies:
    """What is watched of one group of copies."""
    d = group.deployment
    gpu = tables.accelerators.get(d.gpu)
    return WatchedCopies(
        name=name,
        namespace=NAMESPACE,
        model=group.model,
        engine=d.engine,
        metrics=metrics_of(d.engine, group.engine_version or version_of_image(group.launch.image)),
        gpu=d.gpu,
        power_limit_watts=None if gpu is None or gpu.slice_of else gpu.board_power_watts,
        replicas=d.replicas,
        machines=group.machines.count,
        gpus_per_machine=d.gpus_per_instance,
        gpus_per_replica=d.gpus_per_replica,
        usd_per_hour=group.usd_per_hour / group.machines.count,
        objectives=group.objectives,
        latency={label: range_of(figure) for label, figure in d.latency.items()},
        requests_per_s=group.requests_per_s,
        requests_per_s_capacity=range_of(d.requests_per_s_capacity),
        input_tokens=group.input_tokens,
        output_tokens=group.output_tokens,
        most_running=d.largest_batch,
        start_s=start_of(group)[0],
        vendor="nvidia" if gpu is None else gpu.vendor,
        drafts=d.drafts,
        accepted_tokens=None if d.accepted_tokens is None else range_of(d.accepted_tokens),
        port=REACHED[d.engine].port,
        metrics_path=REACHED[d.engine].metrics,
        cloud=d.cloud,
        instance=d.instance,
        region=d.region,
        pool=group.pool,
        takes_every_length=list(group.shares) == [None],
    )


def under_law(copies: WatchedCopies, scaled: AutoscaleResult, version: str | None) -> WatchedCopies:
    """Copies as a law of scaling keeps them; a fixed number is one that nobody scales."""
    scaling = scaling_of(scaled, None, None, copies.engine, version)
    least, most = (math.ceil(each / scaling.per_machine) for each in (scaling.least, scaling.most))
    if scaling.controller in NO_SCALER:
        return fixed_at(copies, scaling.least, least)
    law = ScalingLaw(
        name=scaling.law,
        controller=scaling.controller,
        least=scaling.least,
        most=scaling.most,
        per_machine=scaling.per_machine,
        machines=scaled.recommended.mean_machines,
        settles_s=max(scaling.down_window_s, scaling.cooldown_s),
        waiting=scaling.waiting,
        kv_ratio=scaling.kv_ratio,
        in_flight=scaling.in_flight,
        requests_per_s=scaling.rate_per_s,
    )
    return replace(copies, law=law, least_machines=least, most_machines=most)


def fixed_at(copies: WatchedCopies, replicas: int, machines: int) -> WatchedCopies:
    """So many copies, which carry their part of what the plan's do."""
    part = replicas / copies.replicas
    held = copies.requests_per_s_capacity
    low, high = (None if each is None else each * part for each in (held.low, held.high))
    carried = Range(held.value * part, low, high)
    return replace(copies, replicas=replicas, machines=machines, requests_per_s_capacity=carried)


def version_of_image(image: str | None) -> str | None:
    """The version that an image's tag names.

    >>> version_of_image("vllm/vllm-openai:v0.33.0"), version_of_image("mine:latest")
    ('0.33.0', None)
    """
    found = VERSION_OF_IMAGE.search(image or "")
    return found[1] if found else None


def range_of(figure: Figure) -> Range:
    """A figure of the plan, without its unit."""
    return Range(figure.value, figure.low, figure.high)


def stated_budget(text: str, utc_offset: str | None, plan: WatchedPlan) -> Budget:
    """A budget as it is typed; one that does not pay a machine for an hour is refused."""
    usd, period = parse_usd_per_period(text)
    budget = Budget(usd, period, 0.0 if utc_offset is None else parse_utc_offset(utc_offset))
    budget.refuse_below(plan)
    return budget
