"""Copies that come and go as objects of Kubernetes: a ScaledObject of KEDA, or a HorizontalPodAutoscaler.

KEDA makes the HorizontalPodAutoscaler itself: each trigger is an External metric of it with a target per copy
(AverageValue), the most copies count. Fields: keda.sh/docs/latest/reference/scaledobject-spec, scalers/prometheus and
scalers/cron; kubernetes.io/docs/reference (autoscaling/v2); prometheus-adapter, docs/config.md. A cron trigger is
active from each start to the next end, so that a window has to end before it begins again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from itertools import pairwise
from typing import Any
from urllib.parse import urlsplit

from gpufleet.deploy.serving_copies import Scaling, ServingCopies
from gpufleet.deploy.target import Step, Written
from gpufleet.languages import promql_string, yaml_document
from gpufleet.units import DAY, HOUR, MINUTE

KEDA, HPA = "KEDA", "HorizontalPodAutoscaler"
IN_FLIGHT = "gpufleet_requests_in_flight"
PODS_UP, PERCENT_UP, PERIOD_S = 4, 100, 15
"""How fast more copies are asked for: the default of a HorizontalPodAutoscaler, whose pods are machines here."""
FAILED_READS = 3
WEEK_DAYS = 7
SIGNIFICANT_DIGITS, LEAST_QUANTITY = 6, 0.001
FILE, ADAPTER_FILE = "manifests/autoscaler.yaml", "prometheus-adapter.yaml"
NAMED_BY = ("--served-model-name", "--model-path", "--model")


def scaler_of(copies: ServingCopies) -> Scaling | None:
    """What scales them, where anything does: a fixed number needs no controller."""
    return copies.scaling if copies.scaling is not None and copies.scaling.controller in (KEDA, HPA) else None


def autoscaler_files(copies: ServingCopies, scaling: Scaling, metadata: dict[str, Any]) -> Iterator[Written]:
    """The object that scales them, and what it reads where that has to be told to the cluster."""
    if scaling.controller == KEDA:
        yield Written(FILE, yaml_document(scaled_object(copies, scaling, metadata)), "how many copies (ScaledObject)")
    if scaling.controller == HPA:
        yield Written(FILE, yaml_document(autoscaler(copies, scaling, metadata)), "how many copies (HPA)")
        yield Written(ADAPTER_FILE, yaml_document(adapter_rules(scaling)), "values of prometheus-adapter")


def scaled_object(copies: ServingCopies, scaling: Scaling, metadata: dict[str, Any]) -> dict[str, Any]:
    """KEDA's triggers of a deployment; where nothing can be read, as many copies as the peak needs."""
    reading = {"fallback": {"failureThreshold": FAILED_READS, "replicas": scaling.fallback}}
    behaviour = {"horizontalPodAutoscalerConfig": {"behavior": behavior(scaling)}}
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": metadata,
        "spec": {
            "scaleTargetRef": target(copies),
            "pollingInterval": round(scaling.poll_s),
            "cooldownPeriod": round(scaling.cooldown_s),
            "minReplicaCount": scaling.least,
            "maxReplicaCount": scaling.most,
            **(reading if scaling.reads_metrics else {}),
            "advanced": behaviour,
            "triggers": [*prometheus_triggers(copies, scaling), *cron_triggers(scaling)],
        },
    }


def target(copies: ServingCopies) -> dict[str, str]:
    """The deployment whose copies are counted."""
    return {"apiVersion": "apps/v1", "kind": "Deployment", "name": copies.name}


def behavior(scaling: Scaling) -> dict[str, Any]:
    """How fast: up at once to twice as many or four machines more, down to the most of the window."""
    by_percent = {"type": "Percent", "value": PERCENT_UP, "periodSeconds": PERIOD_S}
    by_pods = {"type": "Pods", "value": PODS_UP * scaling.per_machine, "periodSeconds": PERIOD_S}
    return {
        "scaleUp": {"stabilizationWindowSeconds": 0, "selectPolicy": "Max", "policies": [by_percent, by_pods]},
        "scaleDown": {
            "stabilizationWindowSeconds": round(scaling.down_window_s),
            "selectPolicy": "Max",
            "policies": [by_percent],
        },
    }


def prometheus_triggers(copies: ServingCopies, scaling: Scaling) -> Iterator[dict[str, Any]]:
    """What is asked of Prometheus, in all copies, and how much of it a copy is for."""
    asked: list[tuple[str, float | None, Callable[[], str]]] = [
        ("rate", scaling.rate_per_s, lambda: rate_query(copies, scaling)),
        ("waiting", scaling.waiting, lambda: total(copies, scaling, "waiting_requests")),
        ("kv-cache", scaling.kv_ratio, lambda: total(copies, scaling, "kv_use")),
    ]
    for name, threshold, query in asked:
        if threshold is not None:
            yield {
                "type": "prometheus",
                "name": name,
                "metricType": "AverageValue",
                "metadata": {
                    "serverAddress": scaling.prometheus,
                    "query": query(),
                    "threshold": figure(threshold),
                    "ignoreNullValues": "false" if scaling.least else "true",
                },
            }


def figure(value: float) -> str:
    """A number as text, without an exponent, whose digits do not end before it does.

    >>> figure(2.5e7), figure(1.25e-8)
    ('25000000', '0.0000000125')
    """
    return f"{Decimal(f'{value:.{SIGNIFICANT_DIGITS}g}'):f}"


def rate_query(copies: ServingCopies, scaling: Scaling) -> str:
    """Requests that come a second: those that finish, and what there are more of; who waits counts as one of them.

    An engine counts who has finished. Where more come than it can take, that says what it takes: the number of those
    that run and wait has to grow by the rest.
    """
    window = f"[{round(scaling.rate_window_s)}s]"
    finished = f"sum(rate({selected(copies, scaling, 'finished_requests')}{window}))"
    grown = [
        f"sum(delta({selected(copies, scaling, what)}{window})) / {round(scaling.rate_window_s)}"
        for what in ("running_requests", "waiting_requests")
    ]
    late = [] if scaling.drain_s is None else [f"{total(copies, scaling, 'waiting_requests')} / {scaling.drain_s:g}"]
    return " + ".join([finished, *grown, *late])


def total(copies: ServingCopies, scaling: Scaling, what: str) -> str:
    """A figure of all copies together."""
    return f"sum({selected(copies, scaling, what)})"


def selected(copies: ServingCopies, scaling: Scaling, what: str) -> str:
    """The metric of the engine's version that measures this, of these copies: by the model's name where it has one."""
    metric = scaling.metrics[what]
    if "model_name" in metric.labels:
        return f"{metric.name}{{model_name={promql_string(served_name(copies.arguments))}}}"
    return f"{metric.name}{{pod=~{promql_string(f'{copies.name}-.*')}}}"


def served_name(arguments: Sequence[str]) -> str:
    """The name that an engine gives its model in metrics: what it is told, else where it is loaded from.

    >>> served_name(["vllm", "serve", "org/model", "--port", "8000"])
    'org/model'
    """
    for flag in NAMED_BY:
        for word, following in zip(arguments, [*arguments[1:], ""], strict=True):
            if word == flag or word.startswith(f"{flag}="):
                return following if word == flag else word.removeprefix(f"{flag}=")
    return next(following for word, following in pairwise(arguments) if word.endswith("serve"))


def cron_triggers(scaling: Scaling) -> Iterator[dict[str, Any]]:
    """Each window as a cron expression of its start, a cold start early, and one of its end."""
    for number, window in enumerate(scaling.windows, 1):
        yield {
            "type": "cron",
            "name": f"window-{number}",
            "metadata": {
                "timezone": scaling.timezone,
                "start": cron_moment(window.days, window.start_s - scaling.lead_s),
                "end": cron_moment(window.days, window.end_s),
                "desiredReplicas": str(window.copies),
            },
        }


def cron_moment(days: Sequence[int], moment_s: float) -> str:
    """A minute of some days of the week as a cron expression: Monday = 1, Sunday = 0; before midnight: a day sooner.

    >>> cron_moment((1, 2, 3, 4, 5), 8 * HOUR - 300), cron_moment((1,), -300), cron_moment(range(1, 8), DAY)
    ('55 7 * * 1,2,3,4,5', '55 23 * * 0', '0 0 * * *')
    """
    day, within_s = divmod(moment_s, DAY)
    minute, hour = int(within_s % HOUR // MINUTE), int(within_s // HOUR)
    own = sorted({(each + int(day)) % WEEK_DAYS for each in days})
    return f"{minute} {hour} * * {'*' if len(own) == WEEK_DAYS else ','.join(map(str, own))}"


def autoscaler(copies: ServingCopies, scaling: Scaling, metadata: dict[str, Any]) -> dict[str, Any]:
    """A HorizontalPodAutoscaler on the requests that copies run and hold waiting, as their mean."""
    assert scaling.in_flight is not None, "an autoscaler by itself reads requests in flight"
    mean = {"type": "AverageValue", "averageValue": quantity(scaling.in_flight)}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": metadata,
        "spec": {
            "scaleTargetRef": target(copies),
            "minReplicas": scaling.least,
            "maxReplicas": scaling.most,
            "metrics": [{"type": "Pods", "pods": {"metric": {"name": IN_FLIGHT}, "target": mean}}],
            "behavior": behavior(scaling),
        },
    }


def quantity(value: float) -> str:
    """A number of Kubernetes, which knows thousandths; a target of none is refused by a cluster.

    >>> quantity(12.3456), quantity(0.0001)
    ('12.346', '0.001')
    """
    return f"{max(value, LEAST_QUANTITY):.3f}"


def adapter_rules(scaling: Scaling) -> dict[str, Any]:
    """What makes the metric of the autoscaler from those of the engine, pod by pod."""
    running, waiting = (scaling.metrics[what].name for what in ("running_requests", "waiting_requests"))
    by = "by (<<.GroupBy>>)"
    return {
        "prometheus": adapter_address(scaling.prometheus),
        "rules": {
            "custom": [
                {
                    "seriesQuery": f'{running}{{namespace!="",pod!=""}}',
                    "resources": {
                        "overrides": {"namespace": {"resource": "namespace"}, "pod": {"resource": "pod"}},
                    },
                    "name": {"as": IN_FLIGHT},
                    "metricsQuery": f"sum({running}{{<<.LabelMatchers>>}}) {by} "
                    f"+ sum({waiting}{{<<.LabelMatchers>>}}) {by}",
                }
            ]
        },
    }


def adapter_address(url: str) -> dict[str, Any]:
    """An address as the values of prometheus-adapter's chart have it: its path is a value of its own.

    >>> adapter_address("http://[::1]:9090/prom")
    {'url': 'http://[::1]', 'port': 9090, 'path': '/prom'}
    """
    parts = urlsplit(url)
    path = {"path": parts.path} if parts.path else {}
    return {"url": f"{parts.scheme}://{parts.netloc.rpartition(':')[0]}", "port": parts.port, **path}


def scaler_steps(copies: ServingCopies) -> Iterator[Step]:
    """What has to be there before, and what shows how many copies are wanted."""
    scaling = scaler_of(copies)
    if scaling is None:
        return
    if scaling.controller == KEDA:
        yield Step(f"kubectl -n serving get scaledobject {copies.name}", "says READY once KEDA has read its triggers")
    if scaling.controller == HPA:
        values = f"helm upgrade --install prometheus-adapter prometheus-community/prometheus-adapter -f {ADAPTER_FILE}"
        yield Step(values, "what the autoscaler reads; add its rules to yours where you have an adapter")
    yield Step("kubectl -n serving get hpa", "shows what is read, and how many copies are wanted")
