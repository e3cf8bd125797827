"""From which rate on one set of machines costs less than another."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gpufleet.domain.arrays import FloatArray, IntArray
from gpufleet.optimize.contest import Contest, Counts, Thresholds
from gpufleet.optimize.demand import Demand
from gpufleet.optimize.flips import JUST_BEYOND
from gpufleet.optimize.service import AnyQuestion, AnySolution
from gpufleet.optimize.size import Capacity
from gpufleet.records import dataclass

WITHIN_RATIO = 100.0
FIRST, SECOND, EQUAL, NEITHER = 1, 2, 0, 3
UsdOf = Callable[[IntArray, Counts, Demand], FloatArray]


@dataclass(frozen=True)
class CostCurve:
    """What the cheapest machines of a solved question cost, as a function of the rate."""

    contest: Contest
    found: Capacity
    demand: Demand

    @classmethod
    def of(cls, question: AnyQuestion, solution: AnySolution) -> CostCurve:
        """The curve of all that the question allows."""
        contest = Contest.of(question, solution)
        return cls(contest, solution.found, question.demand)

    def usd_per_hour(self, rates: FloatArray) -> FloatArray:
        """What lists ask for who is chosen at each rate; infinite where nothing serves."""
        return self._of_chosen(rates, self.contest.listed_usd_of)

    def likely_usd_per_hour(self, rates: FloatArray) -> FloatArray:
        """What one likely pays for it by now."""
        return self._of_chosen(rates, self.contest.likely_usd_of)

    def _of_chosen(self, rates: FloatArray, usd_of: UsdOf) -> FloatArray:
        every = np.arange(len(self.contest.offers))
        if not len(every):
            return np.full(len(rates), np.inf)
        counts = self.contest.counts(self.found, self.demand, rates)
        counted = self.contest.usd_of(every, counts, self.demand)
        chosen, serves = counted.argmin(axis=0), np.isfinite(counted.min(axis=0))
        return np.where(serves, usd_of(chosen, counts.at_each(chosen), self.demand)[:, 0], np.inf)

    def steps(self, farthest: float) -> Thresholds:
        """Rates from the asked one to another beyond which one machine more is needed."""
        if not self.contest.offers:
            return Thresholds(np.zeros(0), farthest)
        return self.contest.thresholds(self.found, self.demand, farthest)


@dataclass(frozen=True)
class Stretch:
    """Rates over which one of the two costs less (FIRST, SECOND), both the same (EQUAL), or NEITHER serves."""

    from_requests_per_s: float
    to_requests_per_s: float
    cheaper: int


def stretches(first: CostCurve, second: CostCurve) -> list[Stretch]:
    """Who is cheaper at which rates, from a hundredth of the asked rate (or that of quiet hours) to a hundred times it.

    Costs change only where a machine of either is full, so that every change is found.
    """
    now, quiet = first.demand.workload.rate_requests_per_s, first.demand.quiet
    least = now / WITHIN_RATIO if quiet is None else max(now / WITHIN_RATIO, quiet.rate_requests_per_s)
    down, up = ([curve.steps(edge) for curve in (first, second)] for edge in (least, now * WITHIN_RATIO))
    low, high = max(steps.searched_to for steps in down), min(steps.searched_to for steps in up)
    begins = np.unique(np.concatenate([np.array([low]), *(steps.requests_per_s for steps in (*down, *up))]))
    begins = begins[(begins >= low) & (begins < high)]
    beyond = begins * (1 + JUST_BEYOND)
    cheaper = cheaper_of(first.usd_per_hour(beyond), second.usd_per_hour(beyond))
    turns = np.flatnonzero(np.diff(cheaper)) + 1
    edges = [low, *(float(begins[i]) for i in turns), high]
    sides = [int(cheaper[0]), *(int(cheaper[i]) for i in turns)]
    return [Stretch(a, b, s) for a, b, s in zip(edges, edges[1:], sides, strict=False)]


def cheaper_of(one: FloatArray, other: FloatArray) -> IntArray:
    """Who costs less at each rate; infinite costs serve nothing.

    >>> cheaper_of(np.array([1.0, 2.0, 3.0, np.inf]), np.array([2.0, 1.0, 3.0, np.inf])).tolist()
    [1, 2, 0, 3]
    """
    serves = np.isfinite(one) | np.isfinite(other)
    return np.select([~serves, one < other, one > other], [NEITHER, FIRST, SECOND], EQUAL)
