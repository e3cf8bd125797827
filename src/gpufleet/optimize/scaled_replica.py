"""From the closed forms of a plan to one machine of a scaled service: its rates, and who keeps the limits there."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpufleet.domain.arrays import FloatArray, IntArray
from gpufleet.domain.slo import METRICS, Limit, figure_label
from gpufleet.optimize.size import QUANTILES, Capacity
from gpufleet.records import dataclass
from gpufleet.simulate.scaling import ClassPromises, Promise, Replica

KNOWN = ("p50", "p90", "p95", "p99")
WAIT_STEPS = 32
STRICTEST = {name: -1.0 if quantile is None else quantile for name, quantile in QUANTILES.items()}


@dataclass(frozen=True)
class ClassLimits:
    """A class of requests, its share of all, and its limits."""

    name: str
    request_ratio: float
    limits: tuple[Limit, ...]


def scaled_replica(found: Capacity, row: int, classes: Sequence[ClassLimits], copies: int = 1) -> Replica:
    """A machine of `copies` replicas as the plan's confidence has it, on the columns that its KV cache holds.

    A rate that a replica serves as expected is served at that rate over the caution on its steps.
    """
    columns = columns_held(found, row)
    slower = 1.0 if found.caution is None else found.caution.tpot_ratio[row, columns]
    rates = np.maximum.accumulate(found.curves.requests_per_s[row, columns] / slower)
    rising = np.concatenate([[True], np.diff(rates) > 0])
    kept = columns[rising]
    latency = mean_over_classes(found, row, kept, classes, "latency")
    wait = found.curves.queue_s[row, kept]  # type: ignore[attr-defined]
    each = rates[rising]
    return Replica(
        rate_per_s=each * copies,
        batch=found.curves.batch[kept] * copies,
        waiting=np.maximum(np.where(np.isfinite(wait), wait, 0.0), 0.0) * each * copies,
        latency_s=latency,
        largest_batch=float(found.curves.largest_batch[row]) * copies,
        sustained_per_s=float(each[-1]) * copies,
        classes=tuple(promises_of(found, row, kept, c) for c in classes),
    )


def columns_held(found: Capacity, row: int) -> IntArray:
    """Columns of batches that a replica holds, up to the one that serves most; at least two."""
    held = found.curves.batch <= found.curves.largest_batch[row]
    most = int(np.argmax(np.where(held, found.curves.requests_per_s[row], 0.0)))
    return np.arange(max(most + 1, 2))


def mean_over_classes(
    found: Capacity, row: int, columns: IntArray, classes: Sequence[ClassLimits], metric: str
) -> FloatArray:
    """The mean of a figure over all requests   [s]."""
    rows = [c.request_ratio * planned(found, row, columns, figure_label(c.name, metric, "mean")) for c in classes]
    return np.asarray(np.sum(rows, axis=0))


def planned(found: Capacity, row: int, columns: IntArray, label: str) -> FloatArray:
    """A figure at these columns, as late as the plan's confidence has it."""
    return np.asarray(found.planned_s(label)[row, columns])


def promises_of(found: Capacity, row: int, columns: IntArray, limits: ClassLimits) -> ClassPromises:
    """Each metric's limit of a class, as one on every single request."""
    strictest = {x.metric: x for x in sorted(limits.limits, key=lambda x: STRICTEST[x.statistic])}
    made = [promise_of(found, row, columns, strictest[m]) for m in METRICS if m in strictest]
    return ClassPromises(limits.request_ratio, tuple(made))


def promise_of(found: Capacity, row: int, columns: IntArray, limit: Limit) -> Promise:
    """The share of requests that keeps a limit at every column, after waits of none to all of the limit."""
    labels = [figure_label(limit.request_class, limit.metric, name) for name in KNOWN]
    known_s = np.maximum.accumulate([planned(found, row, columns, label) for label in labels], axis=0)
    waits = np.zeros(1) if limit.metric == "tpot" else np.linspace(0.0, limit.limit_s, WAIT_STEPS + 1)
    return Promise(limit.limit_s, np.array([share_below(known_s, limit.limit_s - wait) for wait in waits]))


def share_below(known_s: FloatArray, limit_s: float) -> FloatArray:
    """The share of requests below a limit at every column, from the figure at KNOWN percentiles.

    -ln(1 - share) is linear in the figure between percentiles, and goes on as it does between the last two, or first.
    """
    hidden = -np.log1p(-np.array([QUANTILES[name] for name in KNOWN], dtype=np.float64))
    at = np.clip(np.sum(known_s < limit_s, axis=0), 1, len(KNOWN) - 1)
    columns = np.arange(known_s.shape[1])
    low, high = known_s[at - 1, columns], known_s[at, columns]
    known = np.isfinite(low) & np.isfinite(high) & (high > low)
    along = np.where(known, (limit_s - np.where(known, low, 0.0)) / np.where(known, high - low, 1.0), 0.0)
    share = -np.expm1(-np.maximum(hidden[at - 1] + along * (hidden[at] - hidden[at - 1]), 0.0))
    step = np.where(low <= limit_s, 1.0, 0.0)
    return np.asarray(np.where(known, share, step))
