"""The four thresholds of the seeds' alerts (assessment:369-386), and where they mislead."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.domain.engine_metrics import EngineMetrics
from gpufleet.monitor.copies_commands import more_copies
from gpufleet.monitor.copies_rules import pods_command
from gpufleet.monitor.gpu_rules import on_gpus
from gpufleet.monitor.promql import number, own_labels
from gpufleet.monitor.rules import INFO, WARNING, Alert, Proof, RuleGroup, Series, Watching, series_of
from gpufleet.monitor.serving_rules import latency, needed, proof_of_latency
from gpufleet.monitor.watched import WatchedCopies, WatchedPlan
from gpufleet.units import DAY, HOUR, MINUTE, PERCENT

BUSY_PERCENT, BUSY_S = 90.0, 10 * MINUTE
FULL_PERCENT, FULL_S = 85.0, 5 * MINUTE
SLOW_S, SLOW_FOR_S = 1.0, MINUTE
DAILY_USD = 1000.0
"""assessment:373, 377, 381 and 385; the seeds say no time for the last two."""
MISLEADS = (
    "SeedGpuBusy: a busy engine is near 100 % by design; the alert says nothing of latency",
    "SeedMemoryFull: an engine takes the memory that it is told at its start, so this fires on every healthy copy",
    "SeedSlow: 1 s to the last token is below what most answers take; the plan's own limits are watched apart",
    "SeedDailyCost: $1,000 is no plan's budget; what machines cost is seen only while their GPUs are",
)


def watched_by(plan: WatchedPlan) -> Watching:
    """The seeds' alerts on each group of copies, and on what all cost."""
    known, groups = plan.gpu_metrics, []
    if known is None:
        return Watching()
    for copies in plan.copies:
        groups.append(RuleGroup(f"{copies.name}-seeds", MINUTE, alerts=list(alerts_of(copies, known))))
    return Watching(groups, MISLEADS)


def alerts_of(copies: WatchedCopies, known: EngineMetrics) -> Iterator[Alert]:
    """GPU, memory, latency and cost of one group of copies."""
    if copies.vendor == "nvidia":
        yield busy(copies, known)
        yield full(copies, known)
        yield daily_cost(copies, known)
    if copies.metrics.of("e2e") is not None:
        yield slow(copies)


def labels(copies: WatchedCopies) -> dict[str, str]:
    """Labels of an alert of the seeds."""
    return {**own_labels(copies), "about": "seeds"}


def busy(copies: WatchedCopies, known: EngineMetrics) -> Alert:
    """`gpu_utilization` above 90 % for ten minutes: scale up."""
    series = on_gpus("gpu_use", copies, known)
    return Alert(
        name="SeedGpuBusy",
        expression=f"{series} > {BUSY_PERCENT:g}",
        for_s=BUSY_S,
        severity=WARNING,
        summary=f"GPU utilisation is above {BUSY_PERCENT:g} %",
        action="Scale up instances, if latency is above its limit as well",
        command=more_copies(copies),
        metrics=[series],
        labels=labels(copies),
        proof=Proof([Series(series_of(series), "95x600")], [Series(series_of(series), "90x600")]),
    )


def full(copies: WatchedCopies, known: EngineMetrics) -> Alert:
    """`gpu_memory` above 85 % for five minutes: reduce the batch, or scale up."""
    used, free = on_gpus("memory_used", copies, known), on_gpus("memory_free", copies, known)
    return Alert(
        name="SeedMemoryFull",
        expression=f"{PERCENT:g} * {used} / ({used} + {free}) > {FULL_PERCENT:g}",
        for_s=FULL_S,
        severity=WARNING,
        summary=f"GPU memory is above {FULL_PERCENT:g} %",
        action="Reduce batch size or scale up, if requests are preempted as well",
        command=more_copies(copies),
        metrics=[used, free],
        labels=labels(copies),
        proof=Proof(
            [Series(series_of(used), "90x600"), Series(series_of(free), "10x600")],
            [Series(series_of(used), "80x600"), Series(series_of(free), "20x600")],
        ),
    )


def slow(copies: WatchedCopies) -> Alert:
    """`inference_latency` above 1,000 ms at the 95th percentile."""
    return Alert(
        name="SeedSlow",
        expression=f"{latency('latency.p95', copies)} > {number(SLOW_S)}",
        for_s=SLOW_FOR_S,
        severity=WARNING,
        summary=f"The 95th percentile of latency is above {SLOW_S:g} s",
        action="Check model optimization, and what the plan says of it",
        command=pods_command(copies),
        metrics=needed(copies, "e2e"),
        labels=labels(copies),
        proof=proof_of_latency("latency.p95", SLOW_S, copies),
    )


def seen_usd_per_hour(copies: WatchedCopies, known: EngineMetrics) -> str:
    """What the machines cost whose GPUs are seen: GPUs / GPUs a machine x its price   [USD/h]."""
    seen = f"count by (namespace) ({on_gpus('gpu_use', copies, known)})"
    return f"{seen} / {number(copies.gpus_per_machine)} * {number(copies.usd_per_hour)}"


def daily_cost(copies: WatchedCopies, known: EngineMetrics) -> Alert:
    """`daily_cost` above $1,000, of the machines that are seen now, for a day of them."""
    series, hours = on_gpus("gpu_use", copies, known), DAY / HOUR
    per_gpu = copies.usd_per_hour / copies.gpus_per_machine * hours
    many = int(DAILY_USD / per_gpu) + 1
    pod = series_of(series)
    gpus = [Series(pod.replace("{", f'{{gpu="{number(at)}",'), "50x600") for at in range(many)]
    return Alert(
        name="SeedDailyCost",
        expression=f"{seen_usd_per_hour(copies, known)} * {hours:g} > {DAILY_USD:g}",
        for_s=MINUTE,
        severity=INFO,
        summary=f"The machines that are seen cost over ${DAILY_USD:,.0f} a day",
        action="Review and optimize usage",
        command=pods_command(copies),
        metrics=[series],
        labels=labels(copies),
        proof=Proof(gpus, gpus[:1] if many > 1 else []),
    )
