"""What would have to change for a question that nothing serves: one quantity, or two by the same factor."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache, cached_property, reduce
from itertools import combinations
from typing import cast

import numpy as np

from gpufleet.domain.offer import Offer
from gpufleet.domain.slo import Slo
from gpufleet.domain.workload import Workload
from gpufleet.optimize.contest import NOBODY, Contest, winners
from gpufleet.optimize.copies.decoder import Replicas, WriterQuestion, WriterSolution
from gpufleet.optimize.demand import Demand
from gpufleet.optimize.flips import INPUT, OUTPUT, RATE
from gpufleet.optimize.lengths import Field, at_lengths, priced_only
from gpufleet.optimize.market import PricedPlacement, bought
from gpufleet.optimize.placement import place_all
from gpufleet.optimize.replicas import Rejections
from gpufleet.optimize.service import AnyQuestion, AnySolution
from gpufleet.optimize.size import Capacity, at_limit, without_limits
from gpufleet.records import dataclass

FARTHEST_RATIO, FARTHEST_LIMIT_RATIO = 10.0, 1e9
CLOSE_RATIO, LENGTH_CLOSE_RATIO = 1 + 1e-7, 1.01
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
    def limits(self) -> list[str]:
        """The objectives, by their labels."""
        return [limit.label for limit in self.question.demand.workload.slo.limits]

    @property
    def quantities(self) -> list[str]:
        """What may give way, but for prices: objectives, rate, lengths, the number of machines."""
        lengths = [INPUT, OUTPUT] if self.field is not None else []
        return [*self.limits, RATE, *lengths, *([MACHINES] if np.isfinite(self.contest.supply).any() else [])]

    def helped(self, by: By) -> Help | None:
        """Who serves where quantities give way by these factors, whatever the budget; None where nobody does.

        Of a sensible size: what takes more machines is no help.
        """
        contest, found, unlimited = self.contended(by)
        free = replace(contest, purse=replace(contest.purse, most_usd_per_hour=math.inf))
        free = free.without_bounds() if MACHINES in by else free
        demand = self.question.demand
        rate = demand.workload.rate_requests_per_s / by.get(RATE, 1.0)
        within, for_load = (free.counts(each, demand, rate) for each in (found, unlimited))
        counts = free.sensible(within, for_load, self.question.size)
        costs = free.usd_of(np.arange(len(free.offers)), counts, demand)
        first = int(winners(costs)[0])
        if first == NOBODY:
            return None
        cost = float(free.listed_usd_of(np.arange(len(free.offers)), counts, demand)[first, 0])
        over = cost / contest.purse.most_usd_per_hour
        return Help({**by, BUDGET: over} if over > 1 else by, free.offers[first], int(counts.machines[first, 0]), cost)

    @classmethod
    def of(cls, question: AnyQuestion, solution: AnySolution) -> Plight:
        """The plight of a question with its solution."""
        return cls(question, solution.found, Contest.of(question, solution), field_of(question, solution))

    @cached_property
    def unlimited(self) -> Capacity:
        """What the copies sustain where no limit has to hold."""
        return without_limits(self.found)

    def contended(self, by: By) -> tuple[Contest, Capacity, Capacity]:
        """Who takes part, and what each copy sustains where limits and lengths give way, and without any limit."""
        workload = self.question.demand.workload
        if self.field is not None and not by.keys().isdisjoint((INPUT, OUTPUT)):
            means = workload.input_tokens / by.get(INPUT, 1.0), workload.output_tokens / by.get(OUTPUT, 1.0)
            shorter, field = at_lengths(self.question.demand, *means), self.field()
            found = field.found(replace(shorter, workload=with_limits(shorter.workload, by)))
            return field.contest, found, without_limits(found)
        found = self.found
        for limit in workload.slo.limits:
            if limit.label in by:
                found = at_limit(found, limit, limit.limit_s * by[limit.label])
        return self.contest, found, self.unlimited

    def least(self, quantities: tuple[str, ...]) -> Help | None:
        """The smallest factor, the same for all of these quantities, by which they have to give way.

        Limits, alone or with the budget, may give way as far as it takes: what no machine meets has a nearest value
        that some do.
        """
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
        farthest = FARTHEST_LIMIT_RATIO if set(others) <= set(self.limits) else FARTHEST_RATIO
        return nearest(at, farthest, LENGTH_CLOSE_RATIO if has_length else CLOSE_RATIO)

    def tightened(self, found: Help, limit: str) -> Help:
        """The same help with one of its limits as tight as the others allow."""
        others = {name: ratio for name, ratio in found.by.items() if name not in (limit, BUDGET)}
        paid = found.by.get(BUDGET, 1.0)

        def at(ratio: float) -> Help | None:
            closer = self.helped({**others, limit: ratio} if ratio > 1 else others)
            return closer if closer is not None and closer.by.get(BUDGET, 1.0) <= paid else None

        return at(1.0) or nearest(at, found.by[limit], CLOSE_RATIO) or found


def nearest(at: Callable[[float], Help | None], farthest: float, close_ratio: float) -> Help | None:
    """The help at the smallest factor; None where even the largest does not help."""
    far, near = farthest, 1.0
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
    """Single changes after which a plan of sensible size serves, the smallest first.

    Where none does: the smallest pair by the same factor, or else as few limits as it takes together.
    """
    plight = Plight.of(question, solution)
    if not plight.contest.offers:
        return []
    every = [*plight.quantities, *([BUDGET] if math.isfinite(question.purse.most_usd_per_hour) else [])]
    singles = sorted(changes(plight, ((q,) for q in every)), key=lambda found: found.ratio)
    if singles:
        return singles
    pairs = sorted(changes(plight, combinations(every, 2)), key=lambda found: found.ratio)
    return pairs[:1] or limits_together(plight)


def limits_together(plight: Plight) -> list[Help]:
    """How far limits have to give way together, and the budget where they do not suffice; none where others hinder.

    All by the smallest factor at first; then one limit after the other is tightened as far as the others allow.
    """
    limits = tuple(plight.limits)
    found = (plight.least(limits) or plight.least((*limits, BUDGET))) if limits else None
    return [] if found is None else [reduce(plight.tightened, plight.limits, found)]


def sensible_answer(question: AnyQuestion, solution: AnySolution) -> Help | None:
    """The cheapest plan of sensible size of a solved question, within the budget; None where there is none."""
    plight = Plight.of(question, solution)
    found = plight.helped({}) if plight.contest.offers else None
    return None if found is None or BUDGET in found.by else found


def is_sensible(question: AnyQuestion, solution: AnySolution) -> bool:
    """Whether what serves has a sensible size somewhere; several offers together have."""
    if not solution.ranked:
        return True
    first = solution.ranked[0].placement
    few = first.instance.gpu_count * first.instance_count <= question.size.easily_had_gpus
    return few or sensible_answer(question, solution) is not None


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


def with_limits_at(question: WriterQuestion, solution: WriterSolution, limits: Mapping[str, float]) -> WriterSolution:
    """The same copies with other values of some limits, and what is rented then."""
    found = solution.found
    for limit in question.demand.workload.slo.limits:
        if limit.label in limits:
            found = at_limit(found, limit, limits[limit.label])
    placements = place_all(question.instances, solution.copies, found, question.demand)
    ranked = bought(placements, question.offers, question.purse, Rejections())
    return replace(solution, found=found, ranked=ranked, placements=placements)


def at_twice_the_price(priced: PricedPlacement) -> PricedPlacement:
    """The same machines at twice their price, those beside them at the same."""
    offer = priced.offer
    dear = replace(
        offer,
        price_per_instance_usd_per_hour=2 * offer.price_per_instance_usd_per_hour,
        upfront_usd=2 * offer.upfront_usd,
    )
    return replace(priced, offer=dear)
