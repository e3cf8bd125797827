"""What would have to change for a question that nothing serves: one quantity, or two by the same factor."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import combinations
from typing import cast

import numpy as np

from gpufleet.domain.arrays import FloatArray
from gpufleet.domain.offer import Offer
from gpufleet.domain.slo import Slo
from gpufleet.domain.workload import Workload
from gpufleet.optimize.contest import NOBODY, Contest, winners
from gpufleet.optimize.copies.decoder import Replicas, WriterQuestion
from gpufleet.optimize.demand import Demand
from gpufleet.optimize.flips import INPUT, OUTPUT, RATE
from gpufleet.optimize.lengths import Field, at_lengths, priced_only
from gpufleet.optimize.service import AnyQuestion, AnySolution
from gpufleet.optimize.size import Capacity, at_limit
from gpufleet.records import dataclass

FARTHEST_RATIO, CLOSE_RATIO, LENGTH_CLOSE_RATIO = 10.0, 1 + 1e-7, 1.01
BUDGET, MACHINES = "budget", "machines to be had"
By = Mapping[str, float]
"""By how many times each quantity gives way."""


@dataclass(frozen=True)
class Help:
    """Quantities that give way by factors, together; who serves then, with how many machines and at what cost."""

    by: By
    offer: Offer
    instance_count: int
    usd_per_hour: float

    @property
    def ratio(self) -> float:
        """The largest of the factors."""
        return max(self.by.values())


@dataclass(frozen=True, eq=False)
class Plight:
    """A question that nothing serves: its copies, what they sustain, and who sells their machines."""

    question: AnyQuestion
    found: Capacity
    contest: Contest
    field: Callable[[], Field] | None = None

    @property
    def quantities(self) -> list[str]:
        """What may give way, but for prices: objectives, rate, lengths, the number of machines."""
        labels = [limit.label for limit in self.question.demand.workload.slo.limits]
        lengths = [INPUT, OUTPUT] if self.field is not None else []
        return [*labels, RATE, *lengths, *([MACHINES] if np.isfinite(self.contest.supply).any() else [])]

    def helped(self, by: By) -> Help | None:
        """Who serves where quantities give way by these factors, whatever the budget; None where nobody does."""
        contest, requests_per_s = self.contended(by)
        free = replace(contest, purse=replace(contest.purse, most_usd_per_hour=math.inf))
        free = free.without_bounds() if MACHINES in by else free
        demand = self.question.demand
        counts = free.counts(requests_per_s, demand, demand.workload.rate_requests_per_s / by.get(RATE, 1.0))
        costs = free.usd_of(np.arange(len(free.offers)), counts, demand)
        first = int(winners(costs)[0])
        if first == NOBODY:
            return None
        cost = float(costs[first, 0])
        over = cost / contest.purse.most_usd_per_hour
        return Help({**by, BUDGET: over} if over > 1 else by, free.offers[first], int(counts.machines[first, 0]), cost)

    def contended(self, by: By) -> tuple[Contest, FloatArray]:
        """Who takes part, and what each copy sustains where limits and lengths give way."""
        workload = self.question.demand.workload
        if self.field is not None and not by.keys().isdisjoint((INPUT, OUTPUT)):
            means = workload.input_tokens / by.get(INPUT, 1.0), workload.output_tokens / by.get(OUTPUT, 1.0)
            shorter, field = at_lengths(self.question.demand, *means), self.field()
            return field.contest, field.requests_per_s(replace(shorter, workload=with_limits(shorter.workload, by)))
        found = self.found
        for limit in workload.slo.limits:
            if limit.label in by:
                found = at_limit(found, limit, limit.limit_s * by[limit.label])
        return self.contest, found.requests_per_s

    def least(self, quantities: tuple[str, ...]) -> Help | None:
        """The smallest factor, the same for all of these quantities, by which they have to give way."""
        if quantities == (BUDGET,):
            return self.helped({})
        others = tuple(q for q in quantities if q != BUDGET)

        def at(ratio: float) -> Help | None:
            found = self.helped(dict.fromkeys(others, ratio))
            allowed = ratio if BUDGET in quantities else 1.0
            return found if found is not None and found.by.get(BUDGET, 1.0) <= allowed else None

        if others == (MACHINES,):
            return at(1.0)
        has_length = not {INPUT, OUTPUT}.isdisjoint(quantities)
        return nearest(at, LENGTH_CLOSE_RATIO if has_length else CLOSE_RATIO)


def nearest(at: Callable[[float], Help | None], close_ratio: float) -> Help | None:
    """The help at the smallest factor; None where even the largest does not help."""
    far, near = FARTHEST_RATIO, 1.0
    found = at(far)
    while found is not None and far / near > close_ratio:
        middle = math.sqrt(near * far)
        closer = at(middle)
        near, far, found = (middle, far, found) if closer is None else (near, middle, closer)
    return found


def with_limits(workload: Workload, by: By) -> Workload:
    """A workload whose limits give way."""

    def loosened(slo: Slo) -> Slo:
        return Slo(tuple(replace(x, limit_s=x.limit_s * by.get(x.label, 1.0)) for x in slo.limits))

    classes = tuple(replace(c, slo=loosened(c.slo)) for c in workload.classes)
    return replace(workload, slo=loosened(workload.slo), classes=classes)


def helping_changes(question: AnyQuestion, solution: AnySolution) -> list[Help]:
    """Single changes after which something serves, the smallest first; the smallest pair where none does."""
    contest = Contest.of(question, solution)
    if not contest.offers:
        return []
    plight = Plight(question, solution.found, contest, field_of(question, solution))
    every = [*plight.quantities, *([BUDGET] if math.isfinite(question.purse.most_usd_per_hour) else [])]
    singles = sorted(changes(plight, ((q,) for q in every)), key=lambda found: found.ratio)
    if singles:
        return singles
    pairs = changes(plight, combinations(every, 2))
    return sorted(pairs, key=lambda found: found.ratio)[:1]


def changes(plight: Plight, tried: Iterator[tuple[str, ...]]) -> list[Help]:
    """What helps of these."""
    return [found for quantities in tried if (found := plight.least(quantities)) is not None]


def field_of(question: AnyQuestion, solution: AnySolution) -> Callable[[], Field] | None:
    """The replicas that hold much shorter requests, gathered once they are asked for; None for models without them."""
    copies = solution.copies
    if not isinstance(copies, Replicas):
        return None
    of_writer = cast(WriterQuestion, question)
    return cache(lambda: Field.of(priced_only(of_writer), lightest(question.demand), copies.model.hardware.calibration))


def lightest(demand: Demand) -> Demand:
    """The shortest requests that are tried."""
    w = demand.workload
    return at_lengths(demand, w.input_tokens / FARTHEST_RATIO, w.output_tokens / FARTHEST_RATIO)
