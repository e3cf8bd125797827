"""Rules as Prometheus reads them, and the unit tests of promtool that prove each alert.

Fields: prometheus.io/docs/prometheus/latest/configuration/{recording_rules,alerting_rules,unit_testing_rules}.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpufleet.languages import alert_text, promql_string, yaml_document
from gpufleet.monitor.promql import WINDOW_S, duration
from gpufleet.monitor.rules import ABSENT, Alert, Recorded, RuleGroup, Series
from gpufleet.units import MINUTE

VALUE = "{value}"
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
    texts = {name: alert_text(text) for name, text in told.items() if text}
    if alert.shows_value:
        texts["summary"] = texts["summary"].replace(VALUE, f"{{{{ $value | {alert.shows_value} }}}}")
    return {
        "alert": alert.name,
        "expr": alert.expression,
        "for": duration(alert.for_s),
        "labels": {**alert.labels, "severity": alert.severity},
        "annotations": texts,
    }


def tests_document(groups: Sequence[RuleGroup], rules_file: str) -> dict[str, Any]:
    """Unit tests: each alert fires on series that break it, and is silent on those that keep it."""
    tests = [test for group in groups for alert in group.alerts for test in tests_of(alert)]
    return {"rule_files": [rules_file], "evaluation_interval": "1m", "tests": tests}


def tests_of(alert: Alert) -> Iterator[dict[str, Any]]:
    """What breaks an alert, and what keeps it."""
    if alert.proof is None:
        return
    at = duration(WINDOW_S + alert.for_s + AFTER_S)
    which = f"{alert.name} of {alert.labels.get('deployment', 'all')}"
    which += f" ({alert.labels['metric']})" if alert.name == ABSENT else ""
    yield one_test(f"{which} fires", alert.proof.breaks, fires(alert), at, [{"labels": "{}", "value": 1}])
    yield one_test(f"{which} is silent", alert.proof.keeps, fires(alert), at, [])


def one_test(name: str, series: Sequence[Series], query: str, at: str, found: list[dict[str, Any]]) -> dict[str, Any]:
    """One test of promtool: series, and what a query finds of them at a time."""
    return {
        "name": name,
        "interval": "1m",
        "input_series": [{"series": each.series, "values": each.values} for each in series],
        "promql_expr_test": [{"expr": query, "eval_time": at, "exp_samples": found}],
    }


def fires(alert: Alert) -> str:
    """A query that is 1 where an alert fires: whatever its message says."""
    labels: Mapping[str, str] = {"alertname": alert.name, "alertstate": "firing", **alert.labels}
    return f"group(ALERTS{{{','.join(f'{name}={promql_string(value)}' for name, value in labels.items())}}})"


def rules_text(groups: Sequence[RuleGroup]) -> str:
    """A file of rules, in YAML."""
    return yaml_document(rules_document(groups))
