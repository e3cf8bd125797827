"""Cost against latency: placements that no other beats in both."""

from __future__ import annotations

import numpy as np

from gpufleet.domain.arrays import FloatArray, IntArray
from gpufleet.optimize.contest import Contest, Counts, Hosts
from gpufleet.optimize.demand import Demand
from gpufleet.optimize.market import PricedPlacement
from gpufleet.optimize.placement import Placement
from gpufleet.optimize.service import AnyQuestion, AnySolution
from gpufleet.optimize.size import operate
from gpufleet.records import dataclass


@dataclass(frozen=True)
class FrontPoint:
    """A placement, bought where it is cheapest, and one latency figure of it at the asked rate."""

    priced: PricedPlacement
    latency_s: float


def pareto_front(question: AnyQuestion, solution: AnySolution, figure: str) -> list[FrontPoint]:
    """Placements that keep every objective and that none beats in both cost and `figure`, cheapest first.

    Every layout, format and engine of every machine type takes part, each with as many machines as it needs and no
    more: machines beyond that would buy latency too, and are not looked at. How surely each holds is not weighed.
    """
    contest, demand = Contest.of(question, solution), question.demand
    entrant, pair = pairs_of_entrants(contest)
    counts = counts_of_pairs(contest.hosts, solution.found.requests_per_s, demand)
    counts = counts.of(pair)
    costs = contest.usd_of(entrant, counts, demand)[:, 0]
    front: list[FrontPoint] = []
    for at in np.argsort(costs, kind="stable"):
        if not np.isfinite(costs[at]):
            break
        needed = int(counts.machines[at, 0]), int(counts.quiet[at, 0])
        priced = priced_pair(contest, int(entrant[at]), int(pair[at]), needed, question, solution)
        rate = demand.workload.rate_requests_per_s / priced.placement.replicas
        latency_s = operate(solution.found, priced.placement.row, rate).objectives_s[figure]
        if not front or latency_s < front[-1].latency_s:
            front = [p for p in front if p.priced.likely_usd_per_hour < priced.likely_usd_per_hour]
            front.append(FrontPoint(priced, latency_s))
    return front


def pairs_of_entrants(contest: Contest) -> tuple[IntArray, IntArray]:
    """Every offer with every candidate that its machines hold: (entrant, pair)."""
    of_pair = contest.hosts.of_pair
    pairs = [np.flatnonzero(of_pair == host) for host in contest.host]
    entrants = np.repeat(np.arange(len(pairs)), [len(p) for p in pairs])
    return entrants, np.concatenate(pairs) if pairs else np.zeros(0, dtype=np.int64)


def counts_of_pairs(hosts: Hosts, requests_per_s: FloatArray, demand: Demand) -> Counts:
    """Machines that every pair of machine type and candidate needs; infinite where it cannot serve."""
    busy = hosts.needed(requests_per_s, demand, np.array([demand.workload.rate_requests_per_s]))
    quiet = busy
    if demand.quiet is not None:
        quiet = hosts.needed(requests_per_s, demand, np.array([demand.quiet.rate_requests_per_s]))
    return Counts(busy, quiet, np.ones_like(busy))


def priced_pair(
    contest: Contest,
    entrant: int,
    pair: int,
    machines: tuple[int, int],
    question: AnyQuestion,
    solution: AnySolution,
) -> PricedPlacement:
    """One pair as a placement with its price; `machines` in all, and in quiet hours."""
    hosts, (count, quiet) = contest.hosts, machines
    instance, row = hosts.instances[int(contest.host[entrant])], int(hosts.row[pair])
    replicas, gpus = count * int(hosts.per_machine[pair]), int(solution.copies.num_devices[row])
    placement = Placement(instance, row, replicas, count, gpus, quiet, question.demand.busy_ratio)
    return PricedPlacement(placement, contest.offers[entrant], contest.steady[entrant], question.purse.most_spot_ratio)
