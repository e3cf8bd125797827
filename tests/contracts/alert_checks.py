"""What rules of Prometheus have to hold, read from the files alone and by other means than those that wrote them."""

from __future__ import annotations

import csv
import re
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml

from gpufleet.catalog.engine_metrics import metrics_of

FIELDS = Path(__file__).parent / "fields" / "prometheus_operator.csv"
PARTS = ("lhs", "rhs", "expr", "args", "vector_selector", "param")
EXPORTERS = ("dcgm-exporter", "kube-state-metrics")
OWN = ("up", "ALERTS")


def tool(name: str) -> str:
    """The path of a program; a test that needs it is skipped where it is missing, which is said by its name."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed: what is written for it is not checked")
    return found


def told_by(*words: str, at: Path) -> str:
    """What is wrong, as a program says it; empty where nothing is."""
    done = subprocess.run([tool(words[0]), *words[1:]], cwd=at, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else f"{done.stdout}\n{done.stderr}".strip()


def walked(node: Any) -> Iterator[Any]:
    """A node of a query and all below it."""
    yield node
    for part in PARTS:
        below = getattr(node, part, None)
        for each in below if isinstance(below, list) else [] if below is None else [below]:
            yield from walked(each)


def selectors(query: str) -> list[Any]:
    """The series that a query asks for."""
    return [node for node in walked(promql_parser.parse(query)) if isinstance(node, promql_parser.VectorSelector)]


def rules_in(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [rule for group in content["groups"] for rule in group["rules"]]


def recorded_in(content: Mapping[str, Any]) -> dict[str, str]:
    return {rule["record"]: rule["expr"] for rule in rules_in(content) if "record" in rule}


def alerts_in(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [rule for rule in rules_in(content) if "alert" in rule]


def metrics_behind(query: str, recorded: Mapping[str, str]) -> set[str]:
    """Metrics that a query comes down to, through what is recorded."""
    found: set[str] = set()
    for each in selectors(query):
        found |= metrics_behind(recorded[each.name], recorded) if each.name in recorded else {each.name}
    return found


def unknown_metrics(
    queries: Sequence[str], engines: Mapping[str, str], written: Sequence[str], recorded: Collection[str] = ()
) -> list[str]:
    """Metrics of queries that no version has, or that are off where nothing `written` turns them on."""
    tables = [metrics_of(engine, version) for engine, version in engines.items()]
    tables += [metrics_of(name) for name in EXPORTERS]
    wrong = []
    for name in sorted({each.name for query in queries for each in selectors(query)}):
        metric = next((found for table in tables if (found := table.metric_of(name)) is not None), None)
        if metric is None and name not in (*OWN, *recorded):
            wrong.append(f"{name} is in no table")
        elif metric is not None and metric.off_unless.endswith(".csv") and metric.off_unless not in written:
            wrong.append(f"{name} is off without {metric.off_unless}")
    return wrong


def limits_missing(content: Mapping[str, Any], objectives: Mapping[str, float]) -> list[str]:
    """Objectives that no alert holds just at their limit, upwards, by the histogram's percentile."""
    recorded, wrong = recorded_in(content), []
    for name, limit_s in objectives.items():
        metric, statistic = name.split(".")
        series = f"deployment:{metric}_seconds:{statistic}"
        held = [
            each
            for alert in alerts_in(content)
            if isinstance(each := promql_parser.parse(alert["expr"]), promql_parser.BinaryExpr)
            and isinstance(each.rhs, promql_parser.NumberLiteral)
            and getattr(each.lhs, "name", "") == series
            and abs(each.rhs.val - limit_s) <= 1e-6 * limit_s
            and str(each.op) == ">"
            and alert["labels"].get("severity") == "critical"
        ]
        if not held:
            wrong.append(f"no alert holds {name} to {limit_s} s")
        elif statistic != "mean" and "by (namespace, deployment, le)" not in recorded.get(series, ""):
            wrong.append(f"{series} is no percentile over buckets")
    return wrong


def faults_of(content: Mapping[str, Any]) -> list[str]:
    """What is wrong with rules by themselves: words left out, and metrics without a twin."""
    wrong, recorded = [], recorded_in(content)
    twins = {
        (alert["labels"].get("deployment"), base_of(alert["labels"]["metric"]))
        for alert in alerts_in(content)
        if alert["alert"] == "MetricAbsent" and alert["expr"].startswith("absent(") and alert.get("for") == "5m"
    }
    for alert in alerts_in(content):
        name = alert["alert"]
        if not re.fullmatch(r"[1-9]\d*[smh]", str(alert.get("for", ""))):
            wrong.append(f"{name} has no time for which it holds")
        if alert.get("labels", {}).get("severity") not in ("critical", "warning", "info"):
            wrong.append(f"{name} has no severity")
        if not {"summary", "action", "command"} <= set(alert.get("annotations", {})):
            wrong.append(f"{name} does not say what to do")
        for metric in metrics_behind(alert["expr"], recorded):
            if (alert["labels"].get("deployment"), base_of(metric)) not in twins:
                wrong.append(f"{metric} of {name} has no twin")
    return wrong


def base_of(series: str) -> str:
    return re.sub(r"_(bucket|sum|count)$", "", series)


def unknown_fields(content: Mapping[str, Any]) -> list[str]:
    """Fields of an object of the operator that its definition does not have, and required ones that it lacks."""
    with FIELDS.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["kind"] == content["kind"]]
    known, paths = {row["path"] for row in rows}, set(paths_of(content["spec"], "spec"))
    free = {row["path"] for row in rows if row["type"] == "object"} - {path.rpartition(".")[0] for path in known}
    wrong = [path for path in paths - known if not any(path.startswith(f"{each}.") for each in free)]
    needed = [row["path"] for row in rows if row["required"] == "yes" and row["path"].rpartition(".")[0] in paths]
    return sorted([*wrong, *(path for path in needed if path not in paths)])


def paths_of(value: Any, at: str) -> Iterator[str]:
    yield at
    if isinstance(value, dict):
        for key, below in value.items():
            yield from paths_of(below, f"{at}.{key}")
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for each in value:
            yield from (path for path in paths_of(each, f"{at}[]") if path != f"{at}[]")


def written_to(folder: Path, files: Sequence[Any]) -> Path:
    for file in files:
        path = folder / file.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(file.text, encoding="utf-8")
    return folder


def yaml_of(found: Any, name: str) -> Any:
    return yaml.safe_load(next(file.text for file in found.files if file.name == name))


def yaml_text(content: Any) -> str:
    return str(yaml.safe_dump(content, sort_keys=False, width=sys.maxsize))
