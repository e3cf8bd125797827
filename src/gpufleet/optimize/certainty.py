"""What replicas carry and cost at more and at less confidence: how late they are is scaled, not searched again."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace

import numpy as np

from gpufleet.domain.confidence import EXPECTED, HIGH_END
from gpufleet.domain.slo import METRICS, metric_of
from gpufleet.optimize.caution import Caution
from gpufleet.optimize.contest import NOBODY, Contest, winners
from gpufleet.optimize.dated import undated_apart
from gpufleet.optimize.demand import Demand
from gpufleet.optimize.flips import Winner
from gpufleet.optimize.placement import machines_for
from gpufleet.optimize.service import AnyQuestion, AnySolution
from gpufleet.optimize.size import (
    Capacity,
    binding_limit,
    capacity_within,
    highest_rate,
    operate_beyond,
    rate_within_limits,
    strains_as_expected,
    without_caution,
)
from gpufleet.performance.queueing import normal_quantile
from gpufleet.performance.uncertainty import Bounds
from gpufleet.records import dataclass

TOLD = (EXPECTED, 0.7, 0.8, HIGH_END)
"""The confidences whose prices stand side by side."""
MANY_MORE = 1.5
MOST_TOLD, HALVINGS, DIGITS = 0.99, 20, 9


@dataclass(frozen=True)
class PricedConfidence:
    """The cheapest machines that keep every limit so surely; None where nothing on offer does."""

    confidence: float
    winner: Winner | None


def price_of_certainty(question: AnyQuestion, solution: AnySolution, contest: Contest) -> list[PricedConfidence]:
    """What is rented at each confidence, all else unchanged; nothing where the plan is that of expected values."""
    if solution.found.caution is None:
        return []
    dated, every = contests_by_date(question, solution, contest)

    def at(confidence: float) -> PricedConfidence:
        found = at_confidence(solution.found, question.demand.confidence, confidence)
        demand = replace(question.demand, confidence=confidence, steady_ratio=0.0)
        return PricedConfidence(confidence, cheapest(dated, found, demand) or cheapest(every, found, demand))

    return [at(confidence) for confidence in TOLD]


def contests_by_date(question: AnyQuestion, solution: AnySolution, contest: Contest) -> tuple[Contest, Contest]:
    """The contest of dated prices and that of all: undated ones answer only what no dated one does."""
    every = replace(question, offers=(*question.offers, *question.undated), undated=())
    apart = undated_apart(every)
    if not apart.undated:
        return contest, contest
    is_all = len(every.offers) == len(question.offers)
    return (Contest.of(apart, solution), contest) if is_all else (contest, Contest.of(every, solution))


def cheapest(contest: Contest, found: Capacity, demand: Demand) -> Winner | None:
    """Who is the cheapest by now under a demand; None where nobody serves."""
    rate = demand.workload.rate_requests_per_s
    counts = contest.counts(found, demand, rate)
    first = int(winners(contest.usd_of(np.arange(len(contest.offers)), counts, demand))[0])
    return None if first == NOBODY else Winner.of(contest, first, counts, demand)


def at_confidence(found: Capacity, asked: float, confidence: float) -> Capacity:
    """The same replicas where limits have to hold more or less surely than was `asked` for.

    ratio(c) = ratio(asked) ^ (z(c) / z(asked)): ranges are log-normal, as in `slow_ratio`   [1]
    """
    if confidence == EXPECTED or found.caution is None:
        return without_caution(found)
    share = normal_quantile(confidence) / normal_quantile(asked)
    caution = Caution(found.caution.ttft_ratio**share, found.caution.tpot_ratio**share)
    strains = {
        reason: strain * caution.of(metric_of(reason)) if reason in found.objectives_s else strain
        for reason, strain in strains_as_expected(found.strains, found.objectives_s, found.caution).items()
    }
    sustained, headroom = found.sustained_requests_per_s, found.headroom_ratio
    return capacity_within(found.curves, found.objectives_s, strains, sustained, caution, headroom)


def sure_requests_per_s(found: Capacity, row: int) -> float:
    """The rate at which one replica keeps every limit at the confidence of the question   [1/s].

    Of what is bought, `Capacity.requests_per_s`, it is the part that is promised: the rest is headroom, as expected.
    """
    slower = 1.0 if found.caution is None else found.caution.tpot_ratio[[row]]
    strains = [strain[[row]] for strain in found.strains.values()]
    return float(highest_rate(strains, found.curves.requests_per_s[[row]] / slower)[2][0])


@dataclass(frozen=True)
class CopiesForCertainty:
    """Copies of an answer beyond those that keep its limits as expected: all that they do is to move one limit.

    `limit` is expected to be `expected_s` on `expected_replicas`, `all_s` on all `replicas`.
    """

    limit: str
    expected_replicas: int
    expected_s: float
    replicas: int
    all_s: float


def copies_for_certainty(question: AnyQuestion, solution: AnySolution) -> CopiesForCertainty | None:
    """What they are, where the answer has over `MANY_MORE` times the copies that hold as expected."""
    found, demand = solution.found, question.demand
    if not solution.ranked or found.caution is None:
        return None
    p, rate = solution.ranked[0].placement, demand.workload.rate_requests_per_s
    limit, on_one = binding_limit(found, p.row), p.replicas // p.instance_count
    as_expected = rate_within_limits(found, p.row, 1.0, dict.fromkeys(METRICS, 1.0))
    each = np.array([on_one]), np.array([as_expected])
    replicas = int(machines_for(demand.planned_requests_per_s, *each, demand)[0]) * on_one
    if limit not in found.objectives_s or p.replicas <= MANY_MORE * replicas:
        return None
    few, every = (operate_beyond(found, p.row, rate / n) for n in (replicas, p.replicas))
    if few is None or every is None:
        return None
    return CopiesForCertainty(limit, replicas, few.objectives_s[limit], p.replicas, every.objectives_s[limit])


def held_confidence(
    found: Capacity, row: int, requests_per_s: float, bounds: Mapping[str, Bounds], promised: float
) -> float:
    """The confidence c up to which one replica keeps every limit at a rate: as promised at least, `MOST_TOLD` at most.

    Steps that are high ^ (z(c) / z(0.9)) times as slow just keep it, found by halving   [1].
    """

    def holds(confidence: float) -> bool:
        power = normal_quantile(confidence) / normal_quantile(HIGH_END)
        late = {metric: float(b.high_ratio[row]) ** power for metric, b in bounds.items()}
        return rate_within_limits(found, row, late["latency"], late) >= requests_per_s

    low, high = promised, MOST_TOLD
    if holds(high):
        return high
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def held_together(held: Iterable[tuple[Hashable, float]]) -> float:
    """How surely all hold at once, each by what errs alike: the least of those that do, apart from all others   [1].

    >>> held_together([("vllm on L4", 0.8), ("vllm on L4", 0.9), ("vllm on H100", 0.9)])
    0.72
    """
    least: dict[Hashable, float] = {}
    for alike, confidence in held:
        least[alike] = min(confidence, least.get(alike, 1.0))
    return round(math.prod(least.values()), DIGITS)
