"""A service-level objective: limits on latency percentiles over requests."""

from __future__ import annotations

from gpufleet.records import dataclass

METRICS = ("ttft", "tpot", "latency")
STATISTICS = ("mean", "p50", "p90", "p95", "p99")


def figure_label(request_class: str, metric: str, statistic: str) -> str:
    """The name of a figure.

    >>> figure_label("", "ttft", "p95"), figure_label("chat", "ttft", "p95")
    ('ttft.p95', 'chat.ttft.p95')
    """
    return ".".join(filter(None, (request_class, metric, statistic)))


def metric_of(label: str) -> str:
    """The metric that a label speaks of.

    >>> metric_of("chat.ttft.p95")
    'ttft'
    """
    return label.split(".")[-2]


def statistic_of(label: str) -> str:
    """The statistic that a label speaks of.

    >>> statistic_of("chat.ttft.p95")
    'p95'
    """
    return label.split(".")[-1]


@dataclass(frozen=True)
class Limit:
    """`metric.statistic < limit_s`, e.g. ttft.p95 < 0.5 s, of all requests or of one class of them."""

    metric: str
    statistic: str
    limit_s: float
    request_class: str = ""

    def __post_init__(self) -> None:
        if self.metric not in METRICS or self.statistic not in STATISTICS:
            raise ValueError(f"no such objective: {self.metric}.{self.statistic}")
        if not 0 < self.limit_s < float("inf"):
            raise ValueError(f"{self.label}: a limit is a positive number of seconds, found {self.limit_s!r}")

    @property
    def label(self) -> str:
        """The name that users type: ttft.p95; of a class chat.ttft.p95."""
        return figure_label(self.request_class, self.metric, self.statistic)


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
