"""Queries in PromQL over the series of a group of copies: prometheus.io/docs/prometheus/latest/querying."""

from __future__ import annotations

from gpufleet.languages import promql_string
from gpufleet.monitor.watched import WatchedCopies, WatchedPlan
from gpufleet.units import MINUTE

WINDOW_S = 5 * MINUTE
RUNNING = "Running"
OWN = "namespace, deployment"
OF_A_SET, LONGEST_WHOLE = "[a-z0-9]+-[a-z0-9]{5}", 46
"""Pods of a deployment end in a digest of ten characters and one of five; Kubernetes cuts names of pods at 63.
Pods of a job end as whatever started them says."""


def own_labels(copies: WatchedCopies) -> dict[str, str]:
    """Labels that tell a group of copies from others."""
    return {"namespace": copies.namespace, "deployment": copies.name}


def of_copies(metric: str, copies: WatchedCopies, **more: str) -> str:
    """A selector of the series of a group.

    >>> from gpufleet.languages import promql_string
    >>> promql_string('a"b')
    '"a\\\\"b"'
    """
    labels = {**own_labels(copies), **more}
    return f"{metric}{{{','.join(f'{name}={promql_string(value)}' for name, value in labels.items())}}}"


def of_pods(metric: str, copies: WatchedCopies, **more: str) -> str:
    """A selector of the series of pods of a group, by their names."""
    ending = OF_A_SET if copies.job is None and len(copies.name) <= LONGEST_WHOLE else ".+"
    pods = promql_string(f"{copies.name}-{ending}")
    rest = "".join(f",{name}={promql_string(value)}" for name, value in more.items())
    return f"{metric}{{namespace={promql_string(copies.namespace)},pod=~{pods}{rest}}}"


def duration(seconds: float) -> str:
    """A time as Prometheus writes it.

    >>> duration(300.0), duration(90.0)
    ('5m', '90s')
    """
    whole = round(seconds)
    return f"{whole // 60}m" if whole % 60 == 0 else f"{whole}s"  # reference dimension


def number(value: float) -> str:
    """A number without more digits than it means.

    >>> number(0.25000000001), number(1e6)
    ('0.25', '1000000')
    """
    return f"{float(f'{value:.6g}'):.12g}"


def summed(series: str) -> str:
    """The sum over all copies."""
    return f"sum by ({OWN}) ({series})"


def rate(series: str) -> str:
    """The rate of a counter, over all copies, per second."""
    return summed(f"rate({series}[{duration(WINDOW_S)}])")


def quantile(share: float, histogram: str, copies: WatchedCopies) -> str:
    """A percentile of a histogram over all copies, as exact as its buckets are."""
    buckets = of_copies(f"{histogram}_bucket", copies)
    over = f"sum by ({OWN}, le) (rate({buckets}[{duration(WINDOW_S)}]))"
    return f"histogram_quantile({number(share)}, {over})"


def mean(histogram: str, copies: WatchedCopies) -> str:
    """The mean of a histogram over all copies."""
    return f"{rate(of_copies(f'{histogram}_sum', copies))} / {rate(of_copies(f'{histogram}_count', copies))}"


def gates_of(plan: WatchedPlan) -> dict[str, str]:
    """By the name of each job: a series that is above 0 while it runs."""
    return {each.name: running(each, plan) for each in plan.copies if each.job is not None}


def running(copies: WatchedCopies, plan: WatchedPlan) -> str:
    """Pods of a job that run."""
    metric = None if plan.cluster_metrics is None else plan.cluster_metrics.of("phase_of_pods")
    assert metric is not None, "kube-state-metrics tells the phase of pods"
    return of_pods(metric.name, copies, phase=RUNNING)
