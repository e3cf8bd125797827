"""A service-level objective: limits on latency percentiles over requests."""

from __future__ import annotations

from dataclasses import dataclass

METRICS = ("ttft", "tpot", "latency")
STATISTICS = ("mean", "p50", "p90", "p95", "p99")


@dataclass(frozen=True)
class Limit:
    """`metric.statistic < limit_s`, e.g. ttft.p95 < 0.5 s."""

    metric: str
    statistic: str
    limit_s: float

    def __post_init__(self) -> None:
        if self.metric not in METRICS or self.statistic not in STATISTICS:
            raise ValueError(f"no such objective: {self.metric}.{self.statistic}")
        if not 0 < self.limit_s < float("inf"):
            raise ValueError(f"{self.label}: a limit is a positive number of seconds, found {self.limit_s!r}")

    @property
    def label(self) -> str:
        """The name that users type: ttft.p95."""
        return f"{self.metric}.{self.statistic}"


@dataclass(frozen=True)
class Slo:
    """Limits that hold together; none means that any latency is accepted."""

    limits: tuple[Limit, ...] = ()

    @property
    def figures(self) -> tuple[tuple[str, str], ...]:
        """(metric, statistic) of every limit, and the 95th percentile of a metric that has none: what answers say."""
        limited = [(limit.metric, limit.statistic) for limit in self.limits]
        silent = [(metric, "p95") for metric in METRICS if metric not in dict(limited)]
        return tuple(sorted([*limited, *silent], key=lambda figure: METRICS.index(figure[0])))
