"""Cost against latency: placements that no other beats in both."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpufleet.domain.arrays import FloatArray
from gpufleet.optimize.contest import Contest
from gpufleet.optimize.serve import ServeQuestion, ServeSolution
from gpufleet.optimize.size import Placement, PricedPlacement, operate


@dataclass(frozen=True)
class FrontPoint:
    """A placement, bought where it is cheapest, and one latency figure of it at the asked rate."""

    priced: PricedPlacement
    latency_s: float


def pareto_front(question: ServeQuestion, solution: ServeSolution, figure: str) -> list[FrontPoint]:
    """Placements that keep every objective and that none beats in both cost and `figure`, cheapest first.

    Every layout, format and engine of every machine type takes part, each with as many machines as it needs and no
    more: machines beyond that would buy latency too, and are not looked at.
    """
    contest = Contest.of(question.choices.instances, question.offers, solution.candidates)
    entrant, row = contest.entrant, contest.row
    needed = machines_of_pairs(contest, solution.found.requests_per_s, question)
    costs = needed * contest.usd_per_hour[entrant]
    front: list[FrontPoint] = []
    for pair in np.argsort(costs, kind="stable"):
        if not np.isfinite(costs[pair]):
            break
        priced = priced_pair(question, contest, int(pair), int(needed[pair]), solution)
        rate = question.demand.workload.rate_requests_per_s / priced.placement.replicas
        latency_s = operate(solution.found, int(row[pair]), rate).objectives_s[figure]
        if not front or latency_s < front[-1].latency_s:
            front = [p for p in front if p.priced.usd_per_hour < priced.usd_per_hour]
            front.append(FrontPoint(priced, latency_s))
    return front


def machines_of_pairs(contest: Contest, requests_per_s: FloatArray, question: ServeQuestion) -> FloatArray:
    """Machines that every pair of machine type and candidate needs; infinite where it cannot serve."""
    demand = question.demand
    with np.errstate(divide="ignore"):
        needed = np.ceil(demand.planned_requests_per_s / requests_per_s[contest.row])
    return np.asarray(np.ceil(np.maximum(needed, demand.min_replicas) / contest.per_machine))


def priced_pair(
    question: ServeQuestion, contest: Contest, pair: int, machines: int, solution: ServeSolution
) -> PricedPlacement:
    """One pair as a placement with its price."""
    offer, row = contest.offers[int(contest.entrant[pair])], int(contest.row[pair])
    instance = next(i for i in question.choices.instances if (i.cloud, i.name) == (offer.cloud, offer.instance))
    replicas = machines * int(contest.per_machine[pair])
    return PricedPlacement(
        Placement(instance, row, replicas, machines, int(solution.candidates.num_devices[row])), offer
    )
