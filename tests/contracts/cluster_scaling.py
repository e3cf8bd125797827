"""Scaling as a cluster runs it, from the files alone: PromQL, cron, KEDA's triggers, a HorizontalPodAutoscaler.

It shares no code with what it checks. Metrics are made from what an engine counts in each tick of a play: who came,
who runs, who waits. Sources: kubernetes.io horizontal-pod-autoscale (algorithm, behavior), KEP-853; keda.sh cron and
prometheus scalers; prometheus.io querying functions.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import promql_parser

from gpufleet.simulate.scaling import Seen

TABLES = Path(__file__).parent
TICK_S, WEEK_MINUTES, TOLERANCE = 15, 7 * 24 * 60, 0.1
TYPES: dict[str, Any] = {"object": dict, "array of object": list, "integer": int, "string": str, "boolean": bool}
OF_TRIGGERS = {
    "cron": ({"timezone", "start", "end", "desiredReplicas"}, set[str]()),
    "prometheus": (
        {"serverAddress", "query", "threshold"},
        {"activationThreshold", "ignoreNullValues", "namespace", "customHeaders", "unsafeSsl", "timeout"},
    ),
}
"""Words that a trigger needs and those that it may have: keda.sh/docs scalers/cron and scalers/prometheus, 2026-11."""


def fields() -> dict[str, dict[str, str]]:
    """By path: type, whether it is required, which values it may have."""
    with (TABLES / "scaled_object_fields.csv").open(encoding="utf-8", newline="") as rows:
        return {row["path"]: row for row in csv.DictReader(rows)}


def faults(scaled: Mapping[str, Any]) -> list[str]:
    """What of a ScaledObject the cluster would refuse, or KEDA."""
    if (scaled.get("apiVersion"), scaled.get("kind")) != ("keda.sh/v1alpha1", "ScaledObject"):
        return ["another kind"]
    found = list(wrong_fields("spec", scaled.get("spec", {}), fields()))
    for trigger in scaled["spec"].get("triggers", []) if not found else []:
        needed, may = OF_TRIGGERS.get(trigger["type"], (set[str](), set[str]()))
        said = trigger["metadata"]
        found += [f"trigger {trigger['type']}: {sorted(needed ^ (said.keys() & needed))} missing"] * bool(
            needed - said.keys()
        )
        found += [f"{trigger['type']}: unknown {word}" for word in said.keys() - needed - may]
        found += [f"{trigger['type']}: {word} is no text" for word, value in said.items() if not isinstance(value, str)]
    spec = scaled["spec"]
    if not found and spec.get("minReplicaCount", 0) > spec.get("maxReplicaCount", 100):
        found.append("least above most")
    return found


def wrong_fields(path: str, value: Any, known: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """Unknown keys, wrong types, values that are none of the allowed, what is required and not there."""
    if path not in known:
        yield f"unknown {path}"
        return
    row = known[path]
    kind = TYPES.get(row["type"], object)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        yield f"{path} is no {row['type']}"
        return
    if row["enum"] and value not in row["enum"].split():
        yield f"{path} is none of {row['enum']}"
    if path == "spec.triggers[].metadata":
        return
    inner = f"{path}[]" if isinstance(value, list) else path
    for item in value if isinstance(value, list) else [value] if isinstance(value, dict) else []:
        for each in (p for p in known if p.startswith(f"{inner}.") and "." not in p[len(inner) + 1 :]):
            if known[each]["required"] == "yes" and each[len(inner) + 1 :] not in item:
                yield f"{each} is missing"
        for key, below in item.items():
            yield from wrong_fields(f"{inner}.{key}", below, known)


def series_of(node: Any) -> Iterator[str]:
    """Names of the series that a query asks for."""
    if isinstance(node, promql_parser.BinaryExpr):
        yield from series_of(node.lhs)
        yield from series_of(node.rhs)
    elif isinstance(node, promql_parser.AggregateExpr):
        yield from series_of(node.expr)
    elif isinstance(node, promql_parser.Call):
        for each in node.args:
            yield from series_of(each)
    elif isinstance(node, promql_parser.MatrixSelector):
        yield node.vector_selector.name
    elif isinstance(node, promql_parser.VectorSelector):
        yield node.name


class Metrics:
    """What the engine's metrics say of all copies together, tick by tick, by what they measure."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self.names, self.came = dict(names), 0.0
        self.held: dict[str, list[float]] = {what: [0.0] for what in ("finished", "running", "waiting", "kv")}

    def add(self, seen: Seen) -> None:
        """One more tick: who has come and is not there any more has finished."""
        running, waiting = seen.batch * seen.ready, seen.queue + seen.waiting * seen.ready
        self.came += seen.rate_per_s * TICK_S
        now = {"finished": self.came - running - waiting, "running": running, "waiting": waiting}
        for what, value in {**now, "kv": seen.kv_ratio * seen.ready}.items():
            self.held[what].append(value)

    def value(self, node: Any) -> float:
        """What a query gives now."""
        if isinstance(node, promql_parser.NumberLiteral):
            return float(node.val)
        if isinstance(node, promql_parser.BinaryExpr):
            left, right = self.value(node.lhs), self.value(node.rhs)
            return {"+": lambda: left + right, "/": lambda: left / right}[str(node.op)]()
        if isinstance(node, promql_parser.AggregateExpr):
            assert str(node.op) == "sum"
            return self.value(node.expr)
        if isinstance(node, promql_parser.Call):
            [span] = node.args
            held = self.held[self.names[span.vector_selector.name]]
            ticks = min(round(span.range.total_seconds() / TICK_S), len(held) - 1)
            change = held[-1] - held[-1 - ticks]
            whole = change * span.range.total_seconds() / (ticks * TICK_S)
            return whole / span.range.total_seconds() if node.func.name == "rate" else whole
        return self.held[self.names[node.name]][-1]


def minutes_of(expression: str) -> list[int]:
    """Minutes of a week from Sunday on at which a cron expression of minute, hour and days of the week fires."""
    minute, hour, of_month, month, days = expression.split()
    assert (of_month, month) == ("*", "*")
    named = range(7) if days == "*" else sorted({int(day) % 7 for day in days.split(",")})
    return [day * 1440 + int(hour) * 60 + int(minute) for day in named]


def is_active(start: Sequence[int], end: Sequence[int], moment: datetime) -> bool:
    """Whether the next end comes before the next start, as KEDA asks."""
    now = (moment.isoweekday() % 7) * 1440 + moment.hour * 60 + moment.minute + moment.second / 60
    ends, starts = (min((at - now) % WEEK_MINUTES or WEEK_MINUTES for at in moments) for moments in (end, start))
    return ends < starts


@dataclass
class Cluster:
    """A ScaledObject or a HorizontalPodAutoscaler as a law of `play`: it reads the files and what an engine counts."""

    manifest: dict[str, Any]
    names: Mapping[str, str]
    since: datetime
    per_machine: int = 1
    metrics: Metrics = field(init=False)
    said: list[tuple[float, int]] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.metrics = Metrics(self.names)
        self.is_keda = self.manifest["kind"] == "ScaledObject"
        spec = self.manifest["spec"]
        words = ("minReplicaCount", "maxReplicaCount") if self.is_keda else ("minReplicas", "maxReplicas")
        self.least, self.most = (spec[word] for word in words)
        of_keda = spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"] if self.is_keda else None
        self.behavior = of_keda or spec["behavior"]
        triggers = spec["triggers"] if self.is_keda else []
        self.asked = [
            (promql_parser.parse(t["metadata"]["query"]), float(t["metadata"]["threshold"]))
            for t in triggers
            if t["type"] == "prometheus"
        ]
        windows = [t["metadata"] for t in triggers if t["type"] == "cron"]
        self.clock = [(minutes_of(w["start"]), minutes_of(w["end"]), int(w["desiredReplicas"])) for w in windows]
        self.by_minute: dict[int, int] = {}

    def decide(self, seen: Seen) -> int:
        """Machines after one more sync of the autoscaler."""
        self.metrics.add(seen)
        now = seen.ready + seen.starting
        wanted = max(self.wanted_by_triggers(now, seen.time_s) if self.is_keda else [self.wanted_in_flight(seen)])
        return min(max(self.moved(seen.time_s, now, wanted), self.least), self.most)

    def wanted_by_triggers(self, now: int, time_s: float) -> list[int]:
        """Of each trigger: its metric over its target, but for what is near enough."""
        totals = [(self.metrics.value(query), threshold) for query, threshold in self.asked]
        if self.clock:
            totals.append((self.by_clock(time_s), 1.0))
        return [now if near(total / target, now) else math.ceil(total / target - 1e-9) for total, target in totals]

    def by_clock(self, time_s: float) -> int:
        """The most of all windows that are active: each would round up alike. Minutes are begun on whole seconds."""
        minute = int(time_s // 60)
        if minute not in self.by_minute:
            moment = datetime.fromtimestamp(self.since.timestamp() + 60 * minute, timezone.utc)
            active = [number for start, end, number in self.clock if is_active(start, end, moment)]
            self.by_minute[minute] = max([1, *active])
        return self.by_minute[minute]

    def wanted_in_flight(self, seen: Seen) -> int:
        """A mean over pods: those that start count for nothing on the way up, as on target on the way down."""
        target = float(self.manifest["spec"]["metrics"][0]["pods"]["target"]["averageValue"])
        now = seen.ready + seen.starting
        if not seen.ready:
            return now
        ratio = (self.metrics.held["running"][-1] + self.metrics.held["waiting"][-1]) / seen.ready / target
        if abs(ratio - 1) <= TOLERANCE + 1e-9:
            return now
        missing = 0.0 if ratio > 1 else seen.starting
        anew = (ratio * seen.ready + missing) / now
        if abs(anew - 1) <= TOLERANCE + 1e-9 or (anew > 1) is not (ratio > 1):
            return now
        number = math.ceil(anew * now - 1e-9)
        return max(number, now) if ratio > 1 else min(number, now)

    def moved(self, time_s: float, now: int, wanted: int) -> int:
        """Windows and policies of the behavior."""
        self.said = self.said or [(time_s, now)]
        self.said.append((time_s, wanted))
        window_s = self.behavior["scaleDown"]["stabilizationWindowSeconds"]
        self.said = [(at, number) for at, number in self.said if at > time_s - window_s or at == time_s]
        held = min(max(now, wanted), max(number for at, number in self.said))
        if held > now:
            up = self.behavior["scaleUp"]["policies"]
            return min(held, max(now + p["value"] if p["type"] == "Pods" else now * (1 + p["value"] / 100) for p in up))
        return min(held, now)


def near(ratio: float, now: int) -> bool:
    """Whether a metric is so near to its target that nothing changes."""
    return now > 0 and abs(ratio / now - 1) <= TOLERANCE + 1e-9
