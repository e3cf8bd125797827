"""What copies of a plan do now, under the names that their plan uses: asked of Prometheus, or read from the engines.

Latencies are percentiles of histograms, as exact as their buckets. Prometheus tells those of the last minutes; an
engine alone tells all since it was started, and rates only between two readings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from gpufleet.errors import DataMissing
from gpufleet.monitor import promql
from gpufleet.monitor.exposition import Series, average, buckets_of, quantile, since, total
from gpufleet.monitor.machines_seen import GPU_SERIES
from gpufleet.monitor.prometheus_api import Sample
from gpufleet.monitor.watched import WatchedCopies
from gpufleet.records import dataclass
from gpufleet.units import DAY, HOUR, MINUTE, PERCENT

WHATS = {"ttft": "ttft", "tpot": "tpot", "latency": "e2e"}
"""What measures a latency of a plan. Time between tokens is no time per output token: without one nothing is told."""
RATES = {"requests_per_s": "finished_requests", "output_tokens_per_s": "generated_tokens"}
SUMS = {"running": "running_requests", "waiting": "waiting_requests"}
COPIES, GPUS, KV = "copies", "gpus", "kv_use_ratio"
OLDEST_S = 2 * MINUTE
"""A judgement: targets are scraped each minute at least; two that are missed are too old."""
LOOK_BACK_S = DAY
Ask = Callable[[str], Sequence[Sample]]
Values = dict[str, float | None]


@dataclass(frozen=True)
class Reading:
    """All series of the engines that answered, how many were asked, and when, in seconds of a clock that only runs."""

    series: Sequence[Series]
    answered: int
    at_s: float


def histograms_of(copies: WatchedCopies) -> Iterator[tuple[str, str, str]]:
    """By the label of each latency of a plan: its histogram and its statistic; classes of requests have none."""
    for label in copies.latency:
        metric, _, statistic = label.rpartition(".")
        found = copies.metrics.of(WHATS[metric]) if metric in WHATS else None
        if found is not None:
            yield label, found.name, statistic


def share_of(statistic: str) -> float | None:
    """The share of a percentile; a mean has none.

    >>> share_of("p95"), share_of("mean")
    (0.95, None)
    """
    return int(statistic[1:]) / PERCENT if statistic[1:].isdigit() else None


def queries_of(copies: WatchedCopies) -> dict[str, str]:
    """A query for each figure that Prometheus can tell of the copies."""
    asked = {COPIES: promql.summed(promql.of_copies("up", copies))}
    for label, histogram, statistic in histograms_of(copies):
        share = share_of(statistic)
        asked[label] = promql.mean(histogram, copies) if share is None else promql.quantile(share, histogram, copies)
    for name, what in RATES.items():
        metric = copies.metrics.of(what)
        if metric is not None:
            asked[name] = promql.rate(promql.of_copies(metric.name, copies))
    for name, what in SUMS.items():
        metric = copies.metrics.of(what)
        if metric is not None:
            asked[name] = promql.summed(promql.of_copies(metric.name, copies))
    used = copies.metrics.of("kv_use")
    if used is not None:
        asked[KV] = f"avg({promql.of_copies(used.name, copies)})"
    if copies.vendor == "nvidia":
        asked[GPUS] = f"count(count by (UUID) ({promql.of_pods(GPU_SERIES, copies)}))"
    copies.metrics.held(*asked.values())
    return asked


def value_of(samples: Sequence[Sample]) -> float | None:
    """The value of the one series of an answer; None where there is none, or it is no number."""
    return samples[0].value if len(samples) == 1 else None


def measured_by_prometheus(ask: Ask, copies: WatchedCopies) -> Values:
    """All figures of the copies; refused where nothing of them is there, or was last seen too long ago."""
    targets = promql.of_copies("up", copies)
    age_s = value_of(ask(f"time() - max(timestamp({targets}))"))
    if age_s is None:
        refuse_unseen(ask, copies, targets)
    elif age_s > OLDEST_S:
        raise DataMissing(f"what Prometheus has of {copies.name} is too old", found=ago(age_s), expected=ago(OLDEST_S))
    return {name: value_of(ask(query)) for name, query in queries_of(copies).items()}


def refuse_unseen(ask: Ask, copies: WatchedCopies, targets: str) -> None:
    """Nothing of the copies is there now: say whether it was, in the day before."""
    last = value_of(ask(f"time() - max(max_over_time(timestamp({targets})[{promql.duration(LOOK_BACK_S)}:5m]))"))
    if last is not None:
        raise DataMissing(f"what Prometheus has of {copies.name} is too old", found=ago(last), expected=ago(OLDEST_S))
    raise DataMissing(
        f"Prometheus has nothing of {copies.name}",
        found=f"no series {targets}",
        expected="engines that are scraped with these labels",
        hint="'gpufleet alerts PLAN.json' writes how they are scraped.",
    )


def ago(seconds: float) -> str:
    """A time back from now, in words.

    >>> ago(7200.0), ago(120.0)
    ('2.0 h ago', '2 min ago')
    """
    return f"{seconds / HOUR:.1f} h ago" if seconds >= HOUR else f"{seconds / MINUTE:.0f} min ago"


def measured_by_engines(now: Reading, before: Reading | None, copies: WatchedCopies) -> Values:
    """The same from the engines' own pages: since an earlier reading, else since their start and without rates."""
    found: Values = {COPIES: float(now.answered)}
    for label, histogram, statistic in histograms_of(copies):
        found[label] = latency_of(now, before, histogram, statistic)
    for name, what in RATES.items():
        metric = copies.metrics.of(what)
        if metric is not None:
            found[name] = rate_of(now, before, metric.name)
    for name, what in SUMS.items():
        metric = copies.metrics.of(what)
        if metric is not None:
            found[name] = total(now.series, metric.name)
    used = copies.metrics.of("kv_use")
    if used is not None:
        found[KV] = average(now.series, used.name)
    return found


def latency_of(now: Reading, before: Reading | None, histogram: str, statistic: str) -> float | None:
    """A percentile or the mean of a histogram."""
    share = share_of(statistic)
    if share is None:
        sums = [grown(now, before, f"{histogram}{ending}") for ending in ("_sum", "_count")]
        return sums[0] / sums[1] if sums[0] is not None and sums[1] else None
    counts = buckets_of(now.series, histogram)
    return quantile(share, counts if before is None else since(counts, buckets_of(before.series, histogram)))


def grown(now: Reading, before: Reading | None, counter: str) -> float | None:
    """By how much a counter grew since an earlier reading, or since it began; it begins anew with its engine."""
    value = total(now.series, counter)
    earlier = 0.0 if before is None else total(before.series, counter)
    if value is None or earlier is None:
        return None
    return value - earlier if value >= earlier else value


def rate_of(now: Reading, before: Reading | None, counter: str) -> float | None:
    """Growth a second between two readings; one alone has no rate."""
    if before is None or now.at_s <= before.at_s:
        return None
    growth = grown(now, before, counter)
    return None if growth is None else growth / (now.at_s - before.at_s)


def engines_seen(series: Sequence[Series], copies: WatchedCopies) -> bool:
    """Whether a page has any metric of the engine that the plan has."""
    return any(each.name.startswith(copies.metrics.prefix or each.name) for each in series) and bool(series)


def all_of(pages: Mapping[str, Sequence[Series]], at_s: float) -> Reading:
    """One reading of several engines."""
    return Reading([series for page in pages.values() for series in page], len(pages), at_s)
