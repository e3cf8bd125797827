"""Rules of Prometheus as values: what is recorded, what raises an alert, and what to do then."""

from __future__ import annotations

from collections.abc import Sequence

from gpufleet.records import dataclass


@dataclass(frozen=True)
class Recorded:
    """A series that is computed from others, by its name: `level:metric:operations`."""

    record: str
    expression: str


@dataclass(frozen=True)
class Alert:
    """What is wrong where `expression` has held for `for_s` seconds, and what to do.

    `severity` is `critical` (a promise is broken), `warning` (it will be) or `info` (money is wasted). `metrics` are
    the series that it needs: a twin fires where one of them is absent. `action` says what to do, `command` does it.
    """

    name: str
    expression: str
    for_s: float
    severity: str
    summary: str
    action: str
    command: str
    metrics: Sequence[str] = ()


@dataclass(frozen=True)
class RuleGroup:
    """Rules that are evaluated together, each `interval_s`."""

    name: str
    interval_s: float
    recorded: Sequence[Recorded] = ()
    alerts: Sequence[Alert] = ()
