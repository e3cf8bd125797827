"""Rules of Prometheus as values: what is recorded, what raises an alert, and what to do then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from gpufleet.records import dataclass

CRITICAL, WARNING, INFO = "critical", "warning", "info"
ABSENT_S = 300.0
ABSENT = "MetricAbsent"


@dataclass(frozen=True)
class Recorded:
    """A series that is computed from others, by its name: `level:metric:operations`."""

    record: str
    expression: str
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Series:
    """A series and its values, a minute apart, as promtool reads them: `1x600`, `0+10x600`."""

    series: str
    values: str


@dataclass(frozen=True)
class Proof:
    """Series with which an alert fires within its `for`, and others with which it stays silent.

    `without` are names of series that may not be there beside: those that others are recorded from.
    """

    breaks: Sequence[Series]
    keeps: Sequence[Series]
    without: Sequence[str] = ()


@dataclass(frozen=True)
class Alert:
    """What is wrong where `expression` has held for `for_s` seconds, and what to do.

    `severity` is `critical` (a promise is broken), `warning` (it will be) or `info` (money is wasted). `metrics` are
    the series that it needs: a twin fires where one of them is absent. `action` says what to do, `command` does it.
    `labels` say beside the severity whose it is; `proof` is what tests of it are made of. `{value}` in the summary is
    the value of the expression, as `shows_value`, a function of Prometheus's templates, writes it. `is_own_twin`: it
    fires too where its metric is absent.
    """

    name: str
    expression: str
    for_s: float
    severity: str
    summary: str
    action: str
    command: str
    metrics: Sequence[str] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    proof: Proof | None = None
    shows_value: str = ""
    is_own_twin: bool = False


@dataclass(frozen=True)
class RuleGroup:
    """Rules that are evaluated together, each `interval_s`."""

    name: str
    interval_s: float
    recorded: Sequence[Recorded] = ()
    alerts: Sequence[Alert] = ()


@dataclass(frozen=True)
class Watching:
    """What is watched, and what of the plan is not, each with why."""

    groups: Sequence[RuleGroup] = ()
    unwatched: Sequence[str] = ()


def with_twins(groups: Sequence[RuleGroup], gates: Mapping[str, str] | None = None) -> list[RuleGroup]:
    """Groups whose alerts have twins: one for each series that any of them needs, where it is needed first.

    By the deployment of an alert, `gates` are series that are above 0 while it runs: its twins are silent else.
    """
    known: set[str] = set()
    found = []
    for group in groups:
        twins = []
        for alert in group.alerts:
            new = [series for series in dict.fromkeys(alert.metrics) if series not in known]
            known.update(new)
            twins += [twin_of(series, alert, (gates or {}).get(alert.labels.get("deployment", ""))) for series in new]
        found.append(RuleGroup(group.name, group.interval_s, group.recorded, [*group.alerts, *twins]))
    return found


def twin_of(series: str, alert: Alert, gate: str | None = None) -> Alert:
    """The alert that a series has been absent for five minutes, without which another cannot fire, while it runs.

    >>> twin_of('up{job="a"}', Alert("Down", "up < 1", 60.0, "critical", "", "", "")).expression
    'absent(up{job="a"})'
    """
    metric = series.partition("{")[0]
    runs = [] if gate is None else [Series(series_of(gate), "1x600")]
    return Alert(
        name=ABSENT,
        expression=f"absent({series})" + ("" if gate is None else f" and on () sum({gate}) > 0"),
        for_s=ABSENT_S,
        severity=WARNING,
        summary=f"{metric} is not seen: {alert.name} cannot fire",
        action="See whether its source runs and is scraped, and whether its version still has that name",
        command=alert.command,
        labels={**alert.labels, "about": "absence", "metric": metric},
        proof=Proof(runs, [*runs, Series(series_of(series), "1x600")]),
    )


def series_of(selector: str) -> str:
    """A series that a selector takes: what it matches by a pattern is one of the texts that match.

    >>> series_of('up{pod=~"a-[a-z0-9]+-[a-z0-9]{5}",job="x"}')
    'up{pod="a-0-00000",job="x"}'
    """
    return selector.replace("=~", "=").replace("[a-z0-9]{5}", "00000").replace("[a-z0-9]+", "0").replace("-.+", "-0")
