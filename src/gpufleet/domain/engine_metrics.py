"""The metrics that one version of an engine or exporter shows to a scraper, and whether a query is made of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from gpufleet.errors import OurBug, nearest_names
from gpufleet.records import dataclass

SERIES_OF_HISTOGRAM = ("_bucket", "_sum", "_count")
NAME = re.compile(r"[A-Za-z_:][\w:]*", re.ASCII)


@dataclass(frozen=True)
class EngineMetric:
    """One metric by the name that a scraper reads (counters end in _total where the client library says so).

    `what` says what it measures, in one word for all engines ('waiting_requests'); empty: none of those asked for.
    `off_unless` is the flag, option or file without which it is not shown; empty: it is on by default. `buckets` are
    the upper bounds of a histogram, without infinity; empty where nobody looked. A label may say its values:
    `reason=stop|error`.
    """

    name: str
    kind: str
    labels: tuple[str, ...] = ()
    what: str = ""
    since: str | None = None
    off_unless: str = ""
    buckets: tuple[float, ...] = ()

    def values_of(self, label: str) -> list[str]:
        """The values that a label can have, where they are known.

        >>> EngineMetric("done_total", "counter", ("model", "reason=stop|error")).values_of("reason")
        ['stop', 'error']
        """
        pairs = [each.partition("=") for each in self.labels]
        return next((values.split("|") for name, _, values in pairs if name == label and values), [])

    def bucket_of(self, value: float) -> tuple[float, float] | None:
        """The bounds of the bucket that a value falls into, the upper one in it; None above the last, or unknown.

        >>> EngineMetric("ttft", "histogram", buckets=(0.5, 0.75, 1.0)).bucket_of(0.75)
        (0.5, 0.75)
        """
        lower = (0.0, *self.buckets)
        return next(((low, high) for low, high in zip(lower, self.buckets, strict=False) if low < value <= high), None)


@dataclass(frozen=True)
class EngineMetrics:
    """The metrics of one version by name. `is_exact`: the version is among those that were looked at.

    `prefix` begins the names of all, where they share one ('vllm:').
    """

    system: str
    version: str
    by_name: Mapping[str, EngineMetric]
    is_exact: bool = True
    prefix: str = ""

    def of(self, what: str) -> EngineMetric | None:
        """What measures this; of several the one that came last, as older names are kept for a while."""
        found = [metric for metric in self.by_name.values() if metric.what == what]
        return found[-1] if found else None

    def metric_of(self, series: str) -> EngineMetric | None:
        """The metric of a series: itself, or the histogram of its buckets, sum or count."""
        found = self.by_name.get(series)
        if found is not None:
            return found
        ending = next((each for each in SERIES_OF_HISTOGRAM if series.endswith(each)), "")
        base = self.by_name.get(series.removesuffix(ending)) if ending else None
        return base if base is not None and base.kind in ("histogram", "summary", "") else None

    def faults(self, names: Iterable[str]) -> list[str]:
        """Names that this version does not have, each with the nearest.

        >>> metric = EngineMetric("vllm:kv_cache_usage_perc", "gauge")
        >>> EngineMetrics("vllm", "0.19.1", {metric.name: metric}).faults(["vllm:gpu_cache_usage_perc"])
        ['vllm:gpu_cache_usage_perc is no metric of vllm 0.19.1; nearest: vllm:kv_cache_usage_perc']
        """
        wrong = [name for name in names if self.metric_of(name) is None]
        offered = {name: nearest_names(name, self.by_name) for name in wrong}
        return [
            f"{name} is no metric of {self.system} {self.version}"
            + (f"; nearest: {', '.join(offered[name])}" if offered[name] else "")
            for name in wrong
        ]

    def named_in(self, query: str) -> list[str]:
        """Words of a query in PromQL that begin as this system's metrics do.

        >>> EngineMetrics("vllm", "0.19.1", {}, prefix="vllm:").named_in("sum(rate(vllm:prompt_tokens_total[1m]))")
        ['vllm:prompt_tokens_total']
        """
        return [word for word in NAME.findall(query) if self.prefix and word.startswith(self.prefix)]

    def held(self, *queries: str) -> None:
        """Raise where a query of ours names a metric that this version does not have: it would never fire."""
        faults = self.faults(name for query in queries for name in self.named_in(query))
        if faults:
            raise OurBug(ValueError(f"a query that {self.system} {self.version} never answers: {'; '.join(faults)}"))
