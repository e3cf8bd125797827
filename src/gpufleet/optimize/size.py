"""What one replica sustains within its objectives, and how it runs at a rate.

Arrays have one row per candidate replica and one column per batch of the shared grid; machines and offers join later.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from gpufleet.domain.arrays import BoolArray, FloatArray, IntArray
from gpufleet.domain.slo import Limit, metric_of
from gpufleet.optimize.caution import Caution
from gpufleet.optimize.demand import Demand
from gpufleet.performance.load_curves import crowded_batch
from gpufleet.performance.serving import HIGHEST_LOAD_RATIO
from gpufleet.records import dataclass

QUANTILES = {"mean": None, "p50": 0.50, "p90": 0.90, "p95": 0.95, "p99": 0.99}
ADMISSION_QUANTILE = 0.95
JUST_INSIDE = 1 - 1e-9
LOAD, ROOM, SATURATION = "load", "KV room", "throughput"


class RateCurves(Protocol):
    """What rates need of candidates: [candidate, batch] over a shared grid of batches."""

    @property
    def batch(self) -> FloatArray:
        """The grid: requests at a time."""

    @property
    def requests_per_s(self) -> FloatArray:
        """The arrival rate that keeps that batch going."""

    @property
    def largest_batch(self) -> FloatArray:
        """The most that fit, of each candidate."""


@dataclass(frozen=True)
class Capacity:
    """What one replica of each candidate sustains within the objectives.

    `objectives_s` maps a figure's label (each limit's among them) to seconds [candidate, batch]; `breaks` maps a
    reason to where it forbids a batch, `strains` to what is planned over what is allowed; `best` is the last admissible
    column at the highest rate, `beyond` how far towards the next column every limit still holds (0..1),
    `requests_per_s` the rate there (0: none is admissible).
    With `caution` limits hold and the rate is served even where all is so much slower than expected, the headroom as
    expected: `requests_per_s` is then what either allows of a rate with `headroom_ratio` on it.
    """

    curves: RateCurves
    objectives_s: dict[str, FloatArray]
    breaks: dict[str, BoolArray]
    best: IntArray
    beyond: FloatArray
    requests_per_s: FloatArray
    sustained_requests_per_s: FloatArray
    caution: Caution | None = None
    strains: Mapping[str, FloatArray] = field(default_factory=dict)
    headroom_ratio: float = 0.0

    def planned_s(self, label: str) -> FloatArray:
        """What a figure is planned to be: its expected value, or how late it comes with the confidence asked for."""
        return later(self.objectives_s[label], metric_of(label), self.caution)

    @cached_property
    def surer_requests_per_s(self) -> FloatArray | None:
        """The highest rate halfway from the asked confidence to certainty; None where limits hold as expected only."""
        caution = self.caution
        if caution is None or not caution.is_late:
            return None
        as_expected = strains_as_expected(self.strains, self.objectives_s, caution)
        surer = caution.surer
        strains = {reason: x * ratio_of(reason, self.objectives_s, surer) for reason, x in as_expected.items()}
        served = self.curves.requests_per_s / surer.tpot_ratio
        found = highest_rate(list(strains.values()), served)[2] * (1 + self.headroom_ratio)
        return np.minimum(found, self.requests_per_s)

    @property
    def is_feasible(self) -> BoolArray:
        """Candidates with an admissible batch."""
        return self.requests_per_s > 0


def capacity_within(
    curves: RateCurves,
    objectives: dict[str, FloatArray],
    strains: Mapping[str, FloatArray],
    sustained: FloatArray,
    caution: Caution | None = None,
    headroom_ratio: float = 0.0,
) -> Capacity:
    """The highest rate of each candidate at which every strain (planned / limit) stays at or below 1.

    With caution min(expected, cautious (1 + headroom)): the rate itself is kept with caution, the headroom as expected.
    """
    breaks = {reason: ~(strain <= 1) for reason, strain in strains.items()}
    served = curves.requests_per_s if caution is None else curves.requests_per_s / caution.tpot_ratio
    best, beyond, found = highest_rate(list(strains.values()), served)
    if caution is not None and caution.is_late:
        expected = list(strains_as_expected(strains, objectives, caution).values())
        found = np.minimum(highest_rate(expected, curves.requests_per_s)[2], found * (1 + headroom_ratio))
    return Capacity(curves, objectives, breaks, best, beyond, found, sustained, caution, strains, headroom_ratio)


def strains_as_expected(
    strains: Mapping[str, FloatArray], objectives: Mapping[str, FloatArray], caution: Caution | None
) -> dict[str, FloatArray]:
    """The same strains where nothing comes later than expected."""
    return {reason: np.asarray(x / ratio_of(reason, objectives, caution)) for reason, x in strains.items()}


def without_caution(found: Capacity) -> Capacity:
    """The same replicas where limits have to hold as expected only."""
    strains = strains_as_expected(found.strains, found.objectives_s, found.caution)
    return capacity_within(found.curves, found.objectives_s, strains, found.sustained_requests_per_s)


def ratio_of(reason: str, objectives: Mapping[str, FloatArray], caution: Caution | None) -> FloatArray | float:
    """How many times later than expected an objective is planned to be; 1 for what is no objective."""
    return 1.0 if caution is None or reason not in objectives else caution.of(metric_of(reason))


@dataclass(frozen=True, eq=False)
class PlayedCurves:
    """Rates that a replay showed in place of those of the closed form."""

    batch: FloatArray
    requests_per_s: FloatArray
    largest_batch: FloatArray


def as_played(found: Capacity, ratio: FloatArray) -> Capacity:
    """The same replicas where a replay showed that each carries so many times its rate at every batch."""
    c = found.curves
    curves = PlayedCurves(c.batch, c.requests_per_s * ratio[:, None], c.largest_batch)
    return replace(found, curves=curves, requests_per_s=found.requests_per_s * ratio)


def at_limit(found: Capacity, limit: Limit, limit_s: float) -> Capacity:
    """The same replicas with another value of one limit: only what it allows is found anew."""
    strains = {**found.strains, limit.label: found.planned_s(limit.label) / limit_s}
    sustained, ratio = found.sustained_requests_per_s, found.headroom_ratio
    return capacity_within(found.curves, found.objectives_s, strains, sustained, found.caution, ratio)


def without_limits(found: Capacity) -> Capacity:
    """The same replicas where nothing has to hold but what they carry and hold at all."""
    strains = {reason: strain for reason, strain in found.strains.items() if reason not in found.objectives_s}
    sustained, ratio = found.sustained_requests_per_s, found.headroom_ratio
    return capacity_within(found.curves, found.objectives_s, strains, sustained, found.caution, ratio)


def highest_rate(strains: Sequence[FloatArray], served: FloatArray) -> tuple[IntArray, FloatArray, FloatArray]:
    """The last admissible column, how far beyond it all strains stay at or below 1, and the rate there."""
    rates = np.where(np.any([~(strain <= 1) for strain in strains], axis=0), 0.0, served)
    best = np.argmax(rates, axis=1)
    beyond = share_of_next_column(strains, best)
    return best, beyond, rate_between(rates, served, best, beyond)


def rate_within_limits(found: Capacity, row: int, step_ratio: float, late_ratio: Mapping[str, float]) -> float:
    """The highest rate of a replica that keeps every limit where steps take `step_ratio` times as long as expected.

    `late_ratio`: how many times later than expected each metric comes then. 0: its limits break at any load   [1/s].
    """

    def strain(reason: str) -> FloatArray:
        if reason not in found.objectives_s:
            return found.strains[reason][[row]]
        as_expected = found.strains[reason] / ratio_of(reason, found.objectives_s, found.caution)
        return np.asarray(as_expected[[row]] * late_ratio[metric_of(reason)])

    strains = [strain(reason) for reason in found.strains]
    return float(highest_rate(strains, found.curves.requests_per_s[[row]] / step_ratio)[2][0])


def later(expected_s: FloatArray, metric: str, caution: Caution | None) -> FloatArray:
    """A figure as it is planned: expected, or later by what caution asks for."""
    return expected_s if caution is None else expected_s * caution.of(metric)


def share_of_next_column(strains: Sequence[FloatArray], best: IntArray) -> FloatArray:
    """How far towards the next column all strains stay at or below 1, each linear in between; 0 at the last column."""
    rows, following = np.arange(len(best)), np.minimum(best + 1, strains[0].shape[1] - 1)
    share = np.where(following > best, 1.0, 0.0)
    for strain in strains:
        here, there = strain[rows, best], strain[rows, following]
        crosses = (here <= 1) & (there > 1) & np.isfinite(there)
        edge = (1 - here) / (np.where(crosses, there, 1.0) - np.where(crosses, here, 0.0))
        share = np.minimum(share, np.where(crosses, JUST_INSIDE * edge, np.where(there > 1, 0.0, 1.0)))
    return share


def rate_between(rates: FloatArray, served: FloatArray, best: IntArray, beyond: FloatArray) -> FloatArray:
    """Rate at the edge: never less than at the best column; 0 where no column is admissible."""
    rows, following = np.arange(len(best)), np.minimum(best + 1, rates.shape[1] - 1)
    here, there = rates[rows, best], served[rows, following]
    return np.where(here > 0, here + beyond * np.maximum(there - here, 0.0), 0.0)


def binding_limit(found: Capacity, row: int) -> str:
    """What forbids the next larger batch of a candidate."""
    following = min(int(found.best[row]) + 1, len(found.curves.batch) - 1)
    broken = [reason for reason, where in found.breaks.items() if where[row, following]]
    return broken[0] if broken else SATURATION


@dataclass(frozen=True)
class Operation:
    """One candidate at the rate that its replicas really get."""

    batch: float
    requests_per_s: float
    objectives_s: dict[str, float]


def operate(found: Capacity, row: int, requests_per_s: float) -> Operation:
    """Batch and objectives at a rate that the candidate admits, between the columns of the grid."""
    columns = min(int(found.best[row]) + 2, len(found.curves.batch))
    rates = np.maximum.accumulate(found.curves.requests_per_s[row, :columns])
    edge = float(found.best[row] + found.beyond[row])
    position = min(float(np.interp(requests_per_s, rates, np.arange(columns))), edge)
    return operation_at(found, row, requests_per_s, position)


def operate_beyond(found: Capacity, row: int, requests_per_s: float) -> Operation | None:
    """The same at any rate that the replica sustains, whatever its objectives say; None above that: queues grow."""
    rates = np.maximum.accumulate(found.curves.requests_per_s[row])
    roomy = np.flatnonzero(found.curves.batch <= found.curves.largest_batch[row])
    if not len(roomy) or requests_per_s >= rates[roomy[-1]]:
        return None
    return operation_at(found, row, requests_per_s, float(np.interp(requests_per_s, rates, np.arange(len(rates)))))


def operation_at(found: Capacity, row: int, requests_per_s: float, position: float) -> Operation:
    """Batch and objectives at a place between two columns; below the first, as many fewer as requests come.

    Times lie between those of both columns by their ratio, since waits grow by factors where room gets scarce.
    """
    below = min(int(position), len(found.curves.batch) - 1)
    above, share = min(below + 1, len(found.curves.batch) - 1), position - below
    batch = float(found.curves.batch[below] * (1 - share) + found.curves.batch[above] * share)
    fewer = min(requests_per_s / float(found.curves.requests_per_s[row, 0]), 1.0)
    return Operation(
        fewer * batch,
        requests_per_s,
        {
            name: by_ratio(float(seconds[row, below]), float(seconds[row, above]), share)
            for name, seconds in found.objectives_s.items()
        },
    )


def by_ratio(first: float, second: float, share: float) -> float:
    """What lies between two figures, by their ratio; straight between them where one is zero.

    >>> by_ratio(1.0, 4.0, 0.5)
    2.0
    """
    if first > 0 and math.isfinite(second):
        return first * float((second / first) ** share)
    return first if share == 0 else first * (1 - share) + second * share


def needed_together(found: Capacity, limits: Sequence[Limit]) -> list[tuple[Limit, float, int]]:
    """What every limit would have to be for the candidate that misses the worst of them by the smallest factor."""
    if not limits:
        return []
    labels = {limit.label for limit in limits}
    barred = np.any([where for reason, where in found.breaks.items() if reason not in labels], axis=0)
    factors = np.max([found.planned_s(x.label) / x.limit_s for x in limits], axis=0)
    factors = np.where(barred, np.inf, factors)
    if not np.isfinite(factors).any():
        return []
    row, column = (int(i) for i in np.unravel_index(np.argmin(factors), factors.shape))
    seconds = [(x, float(found.planned_s(x.label)[row, column]), row) for x in limits]
    return [(limit, needed, at) for limit, needed, at in seconds if needed > limit.limit_s]


def slack_of_limits(found: Capacity, row: int, demand: Demand, running: Operation) -> dict[str, float]:
    """The share of every limit that is left at a rate: 1 - used / limit   [1]."""
    load_ratio = running.requests_per_s / float(found.sustained_requests_per_s[row])
    limits = demand.workload.slo.limits
    return {
        **{x.label: 1 - running.objectives_s[x.label] / x.limit_s for x in limits},
        LOAD: 1 - load_ratio / HIGHEST_LOAD_RATIO,
        **({ROOM: room_slack(found, row, running)} if ROOM in found.strains else {}),
    }


def room_slack(found: Capacity, row: int, running: Operation) -> float:
    """The share of the room that a burst leaves."""
    crowded = float(crowded_batch(np.asarray(running.batch), ADMISSION_QUANTILE))
    return 1 - crowded / float(found.curves.largest_batch[row])
