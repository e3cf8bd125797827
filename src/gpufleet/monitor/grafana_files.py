"""A dashboard of Grafana: measured lines in front of the range that the plan predicts, and what they cost.

Classic JSON (schemaVersion 39), which Grafana 10 and later import and provision: grafana.com/docs, "Dashboard JSON
model" and "Provision dashboards".
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from typing import Any

from gpufleet.domain.engine_metrics import EngineMetrics
from gpufleet.languages import whole, yaml_document
from gpufleet.monitor.job_rules import throughput
from gpufleet.monitor.promql import number, of_copies, of_pods
from gpufleet.monitor.rules import RuleGroup
from gpufleet.monitor.serving_rules import latencies_of, latency, measured_of
from gpufleet.monitor.target import Target, file, step
from gpufleet.monitor.watched import Range, WatchedCopies, WatchedPlan
from gpufleet.records import dataclass
from gpufleet.results.deployed import DeployedFile, DeployedStep
from gpufleet.units import HOUR, KILO, MEGA

SCHEMA, WIDE, HIGH, STAT_HIGH, UID_DIGITS = 39, 12, 8, 4, 16
SOURCE = {"type": "prometheus", "uid": "${source}"}
MEASURED, LOW, HIGHEST, LIMIT, EXPECTED = "measured", "predicted at least", "predicted at most", "limit", "predicted"
DASHBOARD, PROVISION, DATA_SOURCE = (
    "dashboards/plan.json",
    "provisioning/dashboards.yml",
    "provisioning/datasources.yml",
)


@dataclass(frozen=True)
class Panel:
    """A chart or a number: queries by their legends, in their unit; `is_number` stands on the front page."""

    title: str
    unit: str
    queries: Sequence[tuple[str, str]]
    is_number: bool = False


def grafana_files(plan: WatchedPlan, groups: Sequence[RuleGroup]) -> list[DeployedFile]:
    """The dashboard, and what makes Grafana load it."""
    return [
        file(DASHBOARD, json.dumps(whole(dashboard(plan)), indent=1, ensure_ascii=False) + "\n", "the dashboard"),
        file(PROVISION, yaml_document(provider()), "where Grafana finds it (provisioning)"),
        file(DATA_SOURCE, yaml_document(data_source()), "where Prometheus is (provisioning)"),
    ]


def provider() -> dict[str, Any]:
    """A provider of dashboards that are files."""
    options = {"path": "/var/lib/grafana/dashboards", "foldersFromFilesStructure": False}
    how = {"name": "gpufleet", "type": "file", "updateIntervalSeconds": 30, "options": options}
    return {"apiVersion": 1, "providers": [how]}


def data_source() -> dict[str, Any]:
    """Prometheus by the name of its service; whoever has one already leaves this file out."""
    url = "http://prometheus-operated.monitoring.svc:9090"
    how = {"name": "Prometheus", "type": "prometheus", "access": "proxy", "url": url, "isDefault": True}
    return {"apiVersion": 1, "datasources": [how]}


def dashboard(plan: WatchedPlan) -> dict[str, Any]:
    """Front page first: what is promised and what it costs; then each group of copies."""
    return {
        "uid": hashlib.sha256(plan.plan_hash.encode()).hexdigest()[:UID_DIGITS],
        "title": f"gpufleet: {plan.name}"[:120],
        "tags": ["gpufleet"],
        "schemaVersion": SCHEMA,
        "version": 1,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "timezone": "utc",
        "templating": {"list": [{"name": "source", "type": "datasource", "query": "prometheus", "label": "Source"}]},
        "panels": list(placed(plan)),
    }


def placed(plan: WatchedPlan) -> Iterator[dict[str, Any]]:
    """Panels with their numbers and places, group by group: numbers in a row, then charts, two in each."""
    id_, top = 1, 0
    for copies in plan.copies:
        numbers, charts = list(numbers_of(copies, plan.gpu_metrics)), list(charts_of(copies, plan))
        yield row(copies.name, id_, top)
        below = top + 1 + STAT_HIGH * math.ceil(len(numbers) / 4)
        shown = [
            *(in_grid(panel, at, top + 1, WIDE // 2, STAT_HIGH) for at, panel in enumerate(numbers)),
            *(in_grid(panel, at, below, WIDE, HIGH) for at, panel in enumerate(charts)),
        ]
        yield from ({**panel, "id": id_ + at} for at, panel in enumerate(shown, 1))
        id_, top = id_ + 1 + len(shown), below + HIGH * math.ceil(len(charts) / 2)


def in_grid(panel: Panel, at: int, top: int, width: int, high: int) -> dict[str, Any]:
    """A panel at its place among others of its size, below `top`."""
    beside = 2 * WIDE // width
    place = {"x": at % beside * width, "y": top + at // beside * high, "w": width, "h": high}
    return {**content(panel), "gridPos": place}


def row(title: str, id_: int, top: int) -> dict[str, Any]:
    """The heading of a group of copies."""
    place = {"x": 0, "y": top, "w": 2 * WIDE, "h": 1}
    return {"type": "row", "title": title, "collapsed": False, "id": id_, "gridPos": place, "panels": []}


def content(panel: Panel) -> dict[str, Any]:
    """What a panel shows."""
    targets = [
        {"refId": chr(ord("A") + at), "datasource": SOURCE, "expr": query, "legendFormat": legend}
        for at, (legend, query) in enumerate(panel.queries)
    ]
    defaults: dict[str, Any] = {"unit": panel.unit}
    options: dict[str, Any] = {"reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False}}
    overrides = [] if panel.is_number else band()
    return {
        "type": "stat" if panel.is_number else "timeseries",
        "title": panel.title,
        "datasource": SOURCE,
        "targets": targets,
        "fieldConfig": {"defaults": defaults, "overrides": overrides},
        **({"options": options} if panel.is_number else {}),
    }


def band() -> list[dict[str, Any]]:
    """The predicted range as a band behind the measured line: its upper line is filled down to its lower one."""
    return [
        override(HIGHEST, {"custom.fillBelowTo": LOW, "custom.lineWidth": 0, "custom.fillOpacity": 20}),
        override(LOW, {"custom.lineWidth": 0}),
        override(LIMIT, {"custom.lineStyle": {"dash": [10, 10], "fill": "dash"}}),
        override(MEASURED, {"custom.lineWidth": 2}),
    ]


def override(name: str, properties: dict[str, Any]) -> dict[str, Any]:
    """How one line is drawn."""
    listed = [{"id": key, "value": value} for key, value in properties.items()]
    return {"matcher": {"id": "byName", "options": name}, "properties": listed}


def constant(value: float) -> str:
    """A line that stays where it is."""
    return f"vector({number(value)})"


def ranged(expected: Range) -> Iterator[tuple[str, str]]:
    """The lines of a predicted range."""
    for legend, value in ((LOW, expected.low), (HIGHEST, expected.high)):
        if value is not None and math.isfinite(value):
            yield legend, constant(value)


def seen_machines(copies: WatchedCopies, known: EngineMetrics | None) -> str | None:
    """Machines whose GPUs pods of the copies use."""
    metric = None if known is None or copies.vendor != "nvidia" else known.of("gpu_use")
    if metric is None:
        return None
    return f"count({of_pods(metric.name, copies)}) / {number(copies.gpus_per_machine)}"


def hourly_usd(copies: WatchedCopies, known: EngineMetrics | None) -> str:
    """What the machines cost that are seen; of those that nobody sees, as planned   [USD/h]."""
    machines = seen_machines(copies, known) or constant(copies.usual_machines)
    return f"{machines} * {number(copies.usd_per_hour)}"


def trained(copies: WatchedCopies) -> Iterator[Panel]:
    """What the user's own metric of a trainer says, in front of the range of the plan."""
    job = copies.job
    query = None if job is None or job.throughput_metric is None else throughput(copies, job)
    if job is not None and query is not None:
        yield Panel("Tokens/s", "none", [(MEASURED, query), *ranged(job.tokens_per_s)])


def numbers_of(copies: WatchedCopies, known: EngineMetrics | None) -> Iterator[Panel]:
    """The front page: cost an hour and per million tokens, then the first promise and the rate."""
    cost, tokens = hourly_usd(copies, known), measured_of(copies).get("output_tokens:rate5m")
    yield Panel(
        f"Cost per hour (planned ${copies.usd_per_hour * copies.usual_machines:.2f})",
        "currencyUSD",
        [(MEASURED, cost)],
        True,
    )
    if tokens is not None:
        per_million = f"sum({cost}) / sum({tokens}) * {number(MEGA / HOUR)}"
        yield Panel("Cost per 1M output tokens", "currencyUSD", [(MEASURED, per_million)], True)
    for name, limit_s in list(copies.objectives.items())[:1]:
        query = latency(name, copies) if name in latencies_of(copies) else None
        if query is not None:
            yield Panel(f"{name} (limit {limit_s:g} s)", "s", [(MEASURED, query)], True)
    requests = measured_of(copies).get("requests:rate5m")
    if requests is not None:
        per_thousand = f"sum({cost}) / sum({requests}) * {number(KILO / HOUR)}"
        yield Panel("Cost per 1,000 requests", "currencyUSD", [(MEASURED, per_thousand)], True)
        yield Panel(f"Requests/s (asked for {copies.requests_per_s:g})", "reqps", [(MEASURED, requests)], True)


def charts_of(copies: WatchedCopies, plan: WatchedPlan) -> Iterator[Panel]:
    """Latency, tokens, queue, KV use, copies, and the GPUs."""
    for name in latencies_of(copies):
        query, predicted = latency(name, copies), copies.latency.get(name)
        if query is not None:
            limit = [(LIMIT, constant(copies.objectives[name]))] if name in copies.objectives else []
            yield Panel(name, "s", [(MEASURED, query), *(ranged(predicted) if predicted else ()), *limit])
    measured, capacity = measured_of(copies), copies.requests_per_s_capacity
    if "output_tokens:rate5m" in measured:
        most = Range(
            copies.output_tokens * capacity.value,
            None if capacity.low is None else copies.output_tokens * capacity.low,
            None if capacity.high is None else copies.output_tokens * capacity.high,
        )
        yield Panel(
            "Output tokens/s, and what the copies carry",
            "none",
            [(MEASURED, measured["output_tokens:rate5m"]), *ranged(most)],
        )
    if "requests_waiting:sum" in measured:
        yield Panel("Requests that wait", "none", [(MEASURED, measured["requests_waiting:sum"])])
    if "kv_use:avg" in measured:
        yield Panel("KV room in use", "percentunit", [(MEASURED, measured["kv_use:avg"])])
    yield from trained(copies)
    yield from cluster_charts(copies, plan)


def expected_copies(copies: WatchedCopies, known: EngineMetrics | None) -> Iterator[tuple[str, str]]:
    """As many as the plan has; of a law those that it wants, and its bounds."""
    if copies.law is None:
        yield EXPECTED, constant(copies.replicas)
        return
    wanted = None if known is None else known.of("wanted_copies")
    if wanted is not None:
        yield "wanted", of_copies(wanted.name, copies)
    yield from ranged(Range(copies.law.least, copies.law.least, copies.law.most))


def cluster_charts(copies: WatchedCopies, plan: WatchedPlan) -> Iterator[Panel]:
    """What the cluster and the exporter of GPUs say."""
    known = plan.cluster_metrics
    there = None if known is None else known.of("available_copies")
    if there is not None and copies.job is None:
        yield Panel(
            "Copies available",
            "none",
            [(MEASURED, of_copies(there.name, copies)), *expected_copies(copies, known)],
        )
    if plan.gpu_metrics is None or copies.vendor != "nvidia":
        return
    cost = hourly_usd(copies, plan.gpu_metrics)
    planned = constant(copies.usd_per_hour * copies.usual_machines)
    yield Panel("Cost per hour", "currencyUSD", [(MEASURED, cost), (EXPECTED, planned)])
    for what, title, unit in (
        ("gpu_use", "GPU in use", "percent"),
        ("memory_used", "GPU memory in use", "mbytes"),
        ("temperature", "GPU temperature", "celsius"),
        ("power", "GPU power", "watt"),
    ):
        metric = plan.gpu_metrics.of(what)
        if metric is not None:
            limit = (
                [(LIMIT, constant(copies.power_limit_watts))] if what == "power" and copies.power_limit_watts else []
            )
            yield Panel(title, unit, [(MEASURED, f"avg({of_pods(metric.name, copies)})"), *limit])


def grafana_steps(plan: WatchedPlan) -> list[DeployedStep]:
    """Commands in their order."""
    return [
        step("cp provisioning/dashboards.yml /etc/grafana/provisioning/dashboards/gpufleet.yml", "where it is found"),
        step(
            "cp provisioning/datasources.yml /etc/grafana/provisioning/datasources/gpufleet.yml",
            "where Grafana has no Prometheus yet; its address is yours to name",
        ),
        step("cp dashboards/plan.json /var/lib/grafana/dashboards/", "the dashboard itself; or import it by hand"),
        step("systemctl restart grafana-server", "reads them"),
    ]


TARGET = Target("grafana", "Grafana", grafana_files, grafana_steps)
