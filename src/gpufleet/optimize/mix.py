"""Two offers together, where fewer machines of one can be had than it would take alone: the cheapest pair.

Every offer that runs out is tried with each number of its machines (the largest ones, where it has very many) beside
every other offer, which gets as many as the rest takes. Both carry a part of the requests as large as their part of the
capacity, so that both have the same headroom; each keeps every objective on its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from gpufleet.domain.arrays import BoolArray, FloatArray, IntArray
from gpufleet.domain.instance import Instance
from gpufleet.domain.offer import Offer
from gpufleet.optimize.contest import Contest, Key, key_of
from gpufleet.optimize.demand import Demand
from gpufleet.optimize.market import PricedPlacement
from gpufleet.optimize.placement import Placement
from gpufleet.optimize.service import AnyQuestion, AnySolution
from gpufleet.optimize.size import Capacity
from gpufleet.records import dataclass

MOST_COUNTS = 64
JUST_ENOUGH = 1 - 1e-12


@dataclass(frozen=True)
class Part:
    """Machines of one offer, the share of the requests that they carry, and how many it would take alone."""

    priced: PricedPlacement
    rate_ratio: float
    needed_alone: float


@dataclass(frozen=True)
class Mix:
    """Two parts that serve together."""

    parts: tuple[Part, Part]

    @property
    def usd_per_hour(self) -> float:
        """What both cost."""
        return sum(part.priced.usd_per_hour for part in self.parts)


@dataclass(frozen=True, eq=False)
class Pools:
    """What a machine of each offer adds, one element per offer and layout worth using.

    `supply` is how many can be had, `alone` how many would serve without another offer.
    """

    offer: tuple[Offer, ...]
    entrant: IntArray
    pair: IntArray
    usd_per_hour: FloatArray
    supply: FloatArray
    alone: FloatArray
    replicas: FloatArray
    requests_per_s: FloatArray

    @classmethod
    def of(cls, contest: Contest, found: Capacity, demand: Demand) -> Pools:
        """Every offer with each layout that no other layout on its machines beats in capacity and replicas."""
        hosts = contest.hosts
        carried = hosts.per_machine * found.requests_per_s[hosts.row]
        useful = [
            unbeaten_layouts(hosts.of_pair == at, hosts.per_machine, carried) for at in range(len(hosts.instances))
        ]
        entrant = np.array([e for e, at in enumerate(contest.host) for _ in useful[at]], dtype=np.int64)
        pair = np.array([p for at in contest.host for p in useful[at]], dtype=np.int64)
        by_cost = replace(demand, steady_ratio=0.0)
        alone = hosts.counts(found, by_cost, demand.workload.rate_requests_per_s).machines[:, 0]
        return cls(
            tuple(contest.offers[e] for e in entrant),
            entrant,
            pair,
            contest.usd_per_hour[entrant],
            contest.supply[entrant],
            alone[contest.host[entrant]],
            hosts.per_machine[pair],
            carried[pair],
        )


def unbeaten_layouts(here: BoolArray, replicas: FloatArray, requests_per_s: FloatArray) -> list[int]:
    """Pairs of one machine type, most capacity first, each with more replicas than those before it."""
    kept: list[int] = []
    pairs = [int(p) for p in np.flatnonzero(here & (requests_per_s > 0))]
    for pair in sorted(pairs, key=lambda p: (-requests_per_s[p], -replicas[p], p)):
        if not kept or replicas[pair] > replicas[kept[-1]]:
            kept.append(pair)
    return kept


def may_mix(question: AnyQuestion) -> bool:
    """Whether two offers together are looked at: not with quiet hours or a spot share, whose machines come and go."""
    return question.demand.quiet is None and question.purse.most_spot_ratio >= 1


def cheapest_mix(question: AnyQuestion, solution: AnySolution) -> Mix | None:
    """The cheapest two offers of which one runs out alone, whatever the budget; None where none runs out or serves."""
    if not may_mix(question) or all(offer.most_instances is None for offer in question.offers):
        return None
    contest = Contest.of(question, solution)
    pools = Pools.of(contest, solution.found, question.demand)
    keys = [key_of(contest.offers[e]) for e in pools.entrant]
    pairs = (p for scarce in np.flatnonzero(runs_out(pools)) for p in beside(pools, keys, int(scarce), question.demand))
    usd, counts, (one, other) = min(pairs, default=(math.inf, (0.0, 0.0), (0, 0)))
    if math.isinf(usd):
        return None
    shares = np.array([counts[0] * pools.requests_per_s[one], counts[1] * pools.requests_per_s[other]])
    parts = [
        Part(bought(contest, pools, at, int(n), solution), float(share), float(pools.alone[at]))
        for at, n, share in zip((one, other), counts, shares / shares.sum(), strict=True)
    ]
    return Mix((parts[0], parts[1]))


def runs_out(pools: Pools) -> BoolArray:
    """Offers with some machines, and fewer than would serve alone."""
    return np.asarray((pools.supply >= 1) & (pools.supply < pools.alone))


Candidate = tuple[float, tuple[float, float], tuple[int, int]]


def beside(pools: Pools, keys: Sequence[Key], scarce: int, demand: Demand) -> Iterator[Candidate]:
    """The cheapest partner of one scarce offer: (USD per hour, machines of both, both)."""
    most = float(min(pools.supply[scarce], pools.alone[scarce] - 1))
    partners = np.array([at for at, key in enumerate(keys) if key != keys[scarce]], dtype=np.int64)
    if not len(partners):
        return
    first = np.arange(max(1.0, most - MOST_COUNTS + 1), most + 1)[:, None]
    second = fewest_beside(pools, scarce, first, partners, demand)
    usd = first * pools.usd_per_hour[scarce] + second * pools.usd_per_hour[partners][None, :]
    usd = np.where(within_shared(pools, scarce, first, partners, second), usd, np.inf)
    row, column = (int(i) for i in np.unravel_index(np.argmin(usd), usd.shape))
    if np.isfinite(usd[row, column]):
        counts = float(first[row, 0]), float(second[row, column])
        yield float(usd[row, column]), counts, (scarce, int(partners[column]))


def within_shared(pools: Pools, scarce: int, first: FloatArray, partners: IntArray, second: FloatArray) -> BoolArray:
    """Whether both are within the quotas of GPUs that they share."""
    within = np.ones_like(second, dtype=np.bool_)
    for quota in pools.offer[scarce].gpu_quotas:
        of_partner = [gpus_of(pools.offer[at], quota.name) for at in partners]
        taken = first * quota.gpus_per_machine + np.where(np.isfinite(second), second, 0.0) * np.array(of_partner)
        within &= taken <= quota.max_gpus
    return within


def gpus_of(offer: Offer, name: str) -> float:
    """GPUs of a quota that one machine takes."""
    return sum(quota.gpus_per_machine for quota in offer.gpu_quotas if quota.name == name)


def fewest_beside(pools: Pools, scarce: int, first: FloatArray, partners: IntArray, demand: Demand) -> FloatArray:
    """The fewest machines of each partner that serve beside so many of the scarce offer; infinite where none does.

    One machine more never serves less, so that the number is halved down to.
    """
    most = np.broadcast_to(np.minimum(pools.supply, pools.alone)[partners][None, :], (len(first), len(partners)))
    most = np.where(np.isfinite(most), most, 0.0)
    serves = is_enough(pools, scarce, first, partners, most, demand) & (most >= 1)
    low, high = np.zeros_like(most), most.copy()
    while np.any(high - low > 1):
        middle = np.floor((low + high) / 2)
        enough = is_enough(pools, scarce, first, partners, middle, demand)
        high, low = np.where(enough, middle, high), np.where(enough, low, middle)
    return np.where(serves, high, np.inf)


def is_enough(
    pools: Pools, scarce: int, first: FloatArray, partners: IntArray, second: FloatArray, demand: Demand
) -> BoolArray:
    """Whether both carry the planned rate with enough replicas, also without spare machines and a zone."""
    enough = np.ones_like(second, dtype=np.bool_)
    for each, wanted in (
        (pools.requests_per_s, demand.planned_requests_per_s * JUST_ENOUGH),
        (pools.replicas, float(demand.min_replicas)),
    ):
        enough &= left_of(each[scarce], first, each[partners][None, :], second, demand) >= wanted
    return enough


def left_of(one: float, first: FloatArray, other: FloatArray, second: FloatArray, demand: Demand) -> FloatArray:
    """The least that is left, whichever machines fail, without the fullest zone: n - lost, n - ceil(n / zones)."""
    spare = float(demand.spare_machines)
    least, most = np.minimum(np.maximum(spare - second, 0.0), first), np.minimum(spare, first)
    left = np.full_like(second, np.inf)
    for step in failure_steps(demand):
        lost = np.clip(step, least, most)
        rest = np.minimum(spare - lost, second)
        left = np.minimum(left, one * in_zones(first - lost, demand) + other * in_zones(second - rest, demand))
    return left


def failure_steps(demand: Demand) -> Iterable[float]:
    """How many of the scarce machines may fail: one end or the other is worst, unless zones make it uneven."""
    return (0.0, float(demand.spare_machines)) if demand.zones == 1 else map(float, range(demand.spare_machines + 1))


def in_zones(machines: FloatArray, demand: Demand) -> FloatArray:
    """Machines outside of the fullest zone."""
    return machines if demand.zones == 1 else np.asarray(machines - np.ceil(machines / demand.zones))


def bought(contest: Contest, pools: Pools, at: int, count: int, solution: AnySolution) -> PricedPlacement:
    """So many machines of one offer, all full of replicas."""
    entrant, row = int(pools.entrant[at]), int(contest.hosts.row[pools.pair[at]])
    instance: Instance = contest.hosts.instances[int(contest.host[entrant])]
    offer: Offer = contest.offers[entrant]
    replicas = count * int(pools.replicas[at])
    return PricedPlacement(
        Placement(instance, row, replicas, count, int(solution.copies.num_devices[row]), count), offer
    )
