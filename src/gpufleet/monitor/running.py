"""Whether a job runs: pods of it that kube-state-metrics says are running."""

from __future__ import annotations

from gpufleet.monitor.promql import of_pods
from gpufleet.monitor.watched import WatchedCopies, WatchedPlan

RUNNING = "Running"


def gates_of(plan: WatchedPlan) -> dict[str, str]:
    """By the name of each job: a series that is above 0 while it runs."""
    return {each.name: running(each, plan) for each in plan.copies if each.job is not None}


def running(copies: WatchedCopies, plan: WatchedPlan) -> str:
    """Pods of a job that run."""
    metric = None if plan.cluster_metrics is None else plan.cluster_metrics.of("phase_of_pods")
    assert metric is not None, "kube-state-metrics tells the phase of pods"
    return of_pods(metric.name, copies, phase=RUNNING)
