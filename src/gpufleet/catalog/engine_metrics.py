"""Metrics of engines and exporters by version: `data/engine_metrics.csv`, names as a scraper reads them."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from itertools import takewhile

from gpufleet.catalog.table_files import SHIPPED, rows_of
from gpufleet.domain.engine_metrics import EngineMetric, EngineMetrics
from gpufleet.domain.versions import version_key
from gpufleet.errors import DataMissing, UnknownName

TABLE = SHIPPED / "engine_metrics.csv"
COLUMNS = ("system", "metric", "kind", "labels", "what", "since", "until", "off_unless", "buckets", "source", "date")
NEWEST = "newest"
FEWEST_SHARED = 3
"""Letters that names of one system begin with alike, to be told in a query."""


def metric_name(engine: str, version: str | None, what: str) -> str:
    """The metric of a version that measures this: what alerts and scalers of that version ask for.

    >>> [metric_name("vllm", version, "kv_use") for version in ("0.8.5", "0.19.1")]
    ['vllm:gpu_cache_usage_perc', 'vllm:kv_cache_usage_perc']
    >>> metric_name("sglang", None, "waiting_requests")
    'sglang:num_queue_reqs'
    """
    known = metrics_of(engine, version)
    metric = known.of(what)
    if metric is not None:
        return metric.name
    every = known_whats()
    if what not in every:
        raise UnknownName("meaning of a metric", what, every, hint=f"Known: {', '.join(every)}.")
    here = [each for each in every if known.of(each)]
    raise DataMissing(
        f"no metric of {engine} {version or NEWEST} is known for {what}", hint=f"It has: {', '.join(here) or 'none'}."
    )


def metrics_of(system: str, version: str | None = None) -> EngineMetrics:
    """The metrics of a version; without one, those of the newest that was looked at."""
    return _metrics_of(system, version)


@cache
def _metrics_of(system: str, version: str | None) -> EngineMetrics:
    spans = [span for span in _spans() if span[0] == system]
    if not spans:
        raise UnknownName("system with metrics", system, sorted({span[0] for span in _spans()}))
    bounds = [bound for _, _, *span in spans for bound in span if bound]
    looked_at = sorted(bounds, key=version_key)
    chosen = version or (looked_at[-1] if looked_at else NEWEST)
    at = version_key(chosen)
    held = [metric for _, metric, since, until in spans if _is_within(at, since, until)]
    if not held:
        held = [metric for _, metric, since, _ in spans if since == looked_at[0]]
    in_order = sorted(held, key=lambda metric: version_key(metric.since or "0"))
    return EngineMetrics(
        system,
        chosen,
        {metric.name: metric for metric in in_order},
        is_exact=not looked_at or version_key(looked_at[0]) <= at <= version_key(looked_at[-1]),
        prefix=_shared([metric.name for metric in held]),
    )


def _is_within(at: tuple[int, ...], since: str | None, until: str | None) -> bool:
    return (since is None or at >= version_key(since)) and (until is None or at < version_key(until))


def _shared(names: Collection[str]) -> str:
    pairs = takewhile(lambda pair: pair[0] == pair[1], zip(min(names), max(names), strict=False))
    shared = "".join(letter for letter, _ in pairs)
    return shared if len(shared) >= FEWEST_SHARED else ""


@cache
def _spans() -> tuple[tuple[str, EngineMetric, str | None, str | None], ...]:
    """System, metric, the first version seen with it and the first seen without it again."""
    return tuple(
        (
            row["system"],
            EngineMetric(
                name=row["metric"],
                kind=row["kind"],
                labels=tuple(row["labels"].split()),
                what=row["what"],
                since=row["since"] or None,
                off_unless=row["off_unless"],
                buckets=tuple(map(float, row["buckets"].split())),
            ),
            row["since"] or None,
            row["until"] or None,
        )
        for _, row in rows_of(TABLE, COLUMNS)
    )


@cache
def known_whats() -> tuple[str, ...]:
    """All that metrics are known to measure."""
    return tuple(sorted({metric.what for _, metric, _, _ in _spans() if metric.what}))
