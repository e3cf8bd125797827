"""Rules as Prometheus reads them, and the unit tests of promtool that prove each alert.

Fields: prometheus.io/docs/prometheus/latest/configuration/{recording_rules,alerting_rules,unit_testing_rules}.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpufleet.domain.engine_metrics import SERIES_OF_HISTOGRAM
from gpufleet.languages import alert_text, promql_string, yaml_document
from gpufleet.monitor.promql import WINDOW_S, duration
from gpufleet.monitor.rules import ABSENT, Alert, Recorded, RuleGroup, Series
from gpufleet.units import MINUTE

AFTER_S = 2 * MINUTE
"""Evaluations between the end of `for` and when a test looks."""


def rules_document(groups: Sequence[RuleGroup]) -> dict[str, Any]:
    """A file of rules."""
    return {"groups": [group_document(group) for group in groups]}


def group_document(group: RuleGroup) -> dict[str, Any]:
    """A group: what is recorded first, as alerts are made of it."""
    rules = [*map(recorded_document, group.recorded), *map(alert_document, group.alerts)]
    return {"name": group.name, "interval": duration(group.interval_s), "rules": rules}


def recorded_document(rule: Recorded) -> dict[str, Any]:
    """A rule that records."""
    return {"record": rule.record, "expr": rule.expression, **({"labels": dict(rule.labels)} if rule.labels else {})}


def alert_document(alert: Alert) -> dict[str, Any]:
    """A rule that raises an alert, with what to do in words and as a command."""
    told = {"summary": alert.summary, "action": alert.action, "command": alert.command}
    return {
        "alert": alert.name,
        "expr": alert.expression,
        "for": duration(alert.for_s),
        "labels": {**alert.labels, "severity": alert.severity},
        "annotations": {name: alert_text(text) for name, text in told.items() if text},
    }


def tests_document(groups: Sequence[RuleGroup], rules_file: str) -> dict[str, Any]:
    """Unit tests: each alert fires on series that break it, and is silent on those that keep it."""
    alerts = [alert for group in groups for alert in group.alerts if alert.proof is not None]
    tests = [*tests_of(alerts, breaks=True), *tests_of(alerts, breaks=False)]
    return {"rule_files": [rules_file], "evaluation_interval": "1m", "tests": tests}


def tests_of(alerts: Sequence[Alert], *, breaks: bool) -> Iterator[dict[str, Any]]:
    """Tests of many alerts at once, as long as none has series that another sees otherwise."""
    ahead = list(alerts)
    while ahead:
        together: dict[str, frozenset[Series]] = {}
        taken: list[Alert] = []
        for alert in ahead:
            seen = seen_by(alert, breaks=breaks)
            if all(together[metric] == series for metric, series in seen.items() if metric in together):
                together.update(seen)
                taken.append(alert)
        ahead = [alert for alert in ahead if alert not in taken]
        yield one_test(taken, [series for each in together.values() for series in each], fires_all=breaks)


def seen_by(alert: Alert, *, breaks: bool) -> dict[str, frozenset[Series]]:
    """By metric: the series of a proof that an alert sees, none of what it needs and its proof leaves out."""
    assert alert.proof is not None, "only alerts with a proof are tested"
    found: dict[str, set[Series]] = {metric_of(series): set() for series in alert.metrics}
    for each in alert.proof.breaks if breaks else alert.proof.keeps:
        found.setdefault(metric_of(each.series), set()).add(each)
    if alert.name == ABSENT:
        found.setdefault(metric_of(alert.labels["metric"]), set())
    return {metric: frozenset(series) for metric, series in found.items()}


def metric_of(series: str) -> str:
    """The name of a series, of a histogram without the end of its parts.

    >>> metric_of('ttft_seconds_bucket{le="1.0"}')
    'ttft_seconds'
    """
    name = series.partition("{")[0]
    return next((name.removesuffix(end) for end in SERIES_OF_HISTOGRAM if name.endswith(end)), name)


def one_test(alerts: Sequence[Alert], series: Sequence[Series], *, fires_all: bool) -> dict[str, Any]:
    """One test of promtool: series, and which alerts fire on them at a time of their own."""
    found = [{"labels": "{}", "value": 1}] if fires_all else []
    checks = [
        {"expr": fires(alert), "eval_time": duration(WINDOW_S + alert.for_s + AFTER_S), "exp_samples": found}
        for alert in alerts
    ]
    inputs = [{"series": each.series, "values": each.values} for each in sorted(series, key=lambda each: each.series)]
    name = f"{'fires' if fires_all else 'is silent'}: {', '.join(dict.fromkeys(alert.name for alert in alerts))}"
    return {"name": name, "interval": "1m", "input_series": inputs, "promql_expr_test": checks}


def fires(alert: Alert) -> str:
    """A query that is 1 where an alert fires: whatever its message says."""
    labels: Mapping[str, str] = {"alertname": alert.name, "alertstate": "firing", **alert.labels}
    return f"group(ALERTS{{{','.join(f'{name}={promql_string(value)}' for name, value in labels.items())}}})"


def rules_text(groups: Sequence[RuleGroup]) -> str:
    """A file of rules, in YAML."""
    return yaml_document(rules_document(groups))
