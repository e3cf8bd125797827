"""Alerts on copies that are not there: what kube-state-metrics says of their deployment and pods."""

from __future__ import annotations

import math
from collections.abc import Iterator

from gpufleet.domain.engine_metrics import EngineMetrics
from gpufleet.languages import shell_command
from gpufleet.monitor.promql import duration, number, of_copies, of_pods, own_labels
from gpufleet.monitor.rules import CRITICAL, WARNING, Alert, Proof, RuleGroup, Series, Watching, series_of
from gpufleet.monitor.watched import WatchedCopies, WatchedPlan
from gpufleet.units import HOUR, MINUTE

INTERVAL_S = MINUTE
TOO_FEW_S, RESTARTED_S, RESTARTS = 2 * MINUTE, MINUTE, 2
"""How long copies may be too few, and how often an engine may start again in an hour; judgements."""
ENGINE_CONTAINER = "engine"


def watched_by(plan: WatchedPlan) -> Watching:
    """A group of rules for each group of copies."""
    known = plan.cluster_metrics
    if known is None:
        return Watching(unwatched=["copies: no metrics of the cluster are known"])
    return Watching(
        [
            RuleGroup(f"{copies.name}-copies", INTERVAL_S, alerts=list(alerts_of(copies, known)))
            for copies in plan.copies
        ]
    )


def alerts_of(copies: WatchedCopies, known: EngineMetrics) -> Iterator[Alert]:
    """Too few copies for the rate, fewer than wanted, and copies that end again and again."""
    if copies.law is None:
        yield too_few(copies, known)
    if copies.law is None and copies.replicas > 1:
        yield missing(copies, known)
    yield restarts(copies, known)


def metric(known: EngineMetrics, what: str) -> str:
    """The metric that measures this."""
    found = known.of(what)
    assert found is not None, what
    return found.name


def least_copies(copies: WatchedCopies) -> int:
    """So many copies carry the rate that was asked for, within every limit as expected; all, where that is not known.

    ceil(rate / capacity of one)   [1]
    """
    one = copies.requests_per_s_capacity.value / copies.replicas
    return copies.replicas if not one > 0 else min(max(math.ceil(copies.requests_per_s / one), 1), copies.replicas)


def pods_command(copies: WatchedCopies) -> str:
    """The pods, and the nodes that they are on."""
    which = f"app.kubernetes.io/name={copies.name}"
    return shell_command(["kubectl", "-n", copies.namespace, "get", "pods", "-l", which, "-o", "wide"])


def labels(copies: WatchedCopies) -> dict[str, str]:
    """Labels of an alert."""
    return {**own_labels(copies), "about": "copies"}


def constant(series: str, value: float) -> Series:
    """A series that stays what it is."""
    return Series(series, f"{number(value)}x600")


def too_few(copies: WatchedCopies, known: EngineMetrics) -> Alert:
    """The copies that are there cannot carry what the plan was asked for."""
    least, there = least_copies(copies), of_copies(metric(known, "available_copies"), copies)
    return Alert(
        name="TooFewCopies",
        expression=f"{there} < {least}",
        for_s=TOO_FEW_S,
        severity=CRITICAL,
        summary=f"Fewer than {least} copies are available, which carry {copies.requests_per_s:g} requests/s",
        action="See why pods do not run: a lost machine, no node with free GPUs, an engine that fails to start",
        command=pods_command(copies),
        metrics=[there],
        labels=labels(copies),
        proof=Proof([constant(there, least - 1)], [constant(there, least)]),
    )


def missing(copies: WatchedCopies, known: EngineMetrics) -> Alert:
    """A copy is away for longer than a start takes."""
    there = of_copies(metric(known, "available_copies"), copies)
    wanted = of_copies(metric(known, "wanted_copies"), copies)
    return Alert(
        name="CopyMissing",
        expression=f"{there} < {wanted}",
        for_s=copies.start_s,
        severity=WARNING,
        summary=f"A copy is away for longer than a start may take ({duration(copies.start_s)})",
        action="See why the pod does not run; the headroom of the plan is gone while it is away",
        command=pods_command(copies),
        metrics=[there, wanted],
        labels=labels(copies),
        proof=Proof(
            [constant(there, copies.replicas - 1), constant(wanted, copies.replicas)],
            [constant(there, copies.replicas), constant(wanted, copies.replicas)],
        ),
    )


def restarts(copies: WatchedCopies, known: EngineMetrics) -> Alert:
    """An engine ends and starts again."""
    counted = of_pods(metric(known, "restarts"), copies, container=ENGINE_CONTAINER)
    series = series_of(counted)
    return Alert(
        name="EngineRestarts",
        expression=f"increase({counted}[{duration(HOUR)}]) > {RESTARTS}",
        for_s=RESTARTED_S,
        severity=WARNING,
        summary=f"Over {RESTARTS} restarts of an engine in an hour",
        action="Read why it ended: out of memory, a probe that gives up, an error of the GPU",
        command=shell_command(
            ["kubectl", "-n", copies.namespace, "logs", f"deployment/{copies.name}", "--previous", "--tail=200"]
        ),
        metrics=[counted],
        labels=labels(copies),
        proof=Proof([Series(series, "0+1x600")], [Series(series, "3x600")]),
    )
