"""Which machine type wins as rate, limits or prices move: the ranking of `size`, over arrays of machine types."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpufleet.domain.arrays import FloatArray, Floats, IntArray
from gpufleet.domain.candidates import Candidates
from gpufleet.domain.instance import Instance
from gpufleet.domain.offer import Offer
from gpufleet.optimize.serve import ServeQuestion
from gpufleet.optimize.size import Demand, effective_price, is_host

NOBODY, MOST_MULTIPLES = -1, 20_000


@dataclass(frozen=True)
class Contest:
    """Machine types with a price (`offers`: the cheapest region of each type and price kind) and what they can host.

    Entrants stand in the order that decides between equals. The other arrays have one element per pair of an entrant
    and a candidate that its machines host: pairs of one entrant stand together, from `first_pair[entrant]` on.
    """

    offers: tuple[Offer, ...]
    usd_per_hour: FloatArray
    first_pair: IntArray
    row: IntArray
    per_machine: FloatArray

    @classmethod
    def of(cls, instances: Sequence[Instance], offers: Sequence[Offer], candidates: Candidates) -> Contest:
        """The contest of all priced machine types that host any candidate."""
        hosted = {(i.cloud, i.name): (i, np.flatnonzero(is_host(i, candidates))) for i in instances}
        entrants = [o for o in cheapest_of_each_type(offers) if len(hosted.get((o.cloud, o.instance), (0, ()))[1])]
        rows = [hosted[o.cloud, o.instance][1] for o in entrants]
        per_machine = [
            np.floor(hosted[o.cloud, o.instance][0].gpu_count / candidates.num_devices[at])
            for o, at in zip(entrants, rows, strict=True)
        ]
        sizes = np.array([len(at) for at in rows], dtype=np.int64)
        return cls(
            tuple(entrants),
            np.array([effective_price(o) for o in entrants], dtype=np.float64),
            np.cumsum(sizes) - sizes,
            np.concatenate(rows) if rows else np.zeros(0, dtype=np.int64),
            np.concatenate(per_machine) if rows else np.zeros(0),
        )

    def machines(self, requests_per_s: FloatArray, demand: Demand, rates: Floats) -> FloatArray:
        """Machines that each entrant needs at each rate [entrant, rate]; infinite where it cannot serve.

        n = min over its candidates of ceil(max(ceil(rate (1 + headroom) / capacity), least replicas) / per machine)
        """
        planned = np.atleast_1d(np.asarray(rates, dtype=np.float64)) * (1 + demand.headroom_ratio)
        if not self.offers:
            return np.zeros((0, len(planned)))
        with np.errstate(divide="ignore"):
            needed = np.ceil(planned[None, :] / requests_per_s[self.row][:, None])
        of_pair = np.ceil(np.maximum(needed, demand.min_replicas) / self.per_machine[:, None])
        return np.asarray(np.minimum.reduceat(of_pair, self.first_pair, axis=0))

    def costs(self, requests_per_s: FloatArray, demand: Demand, rates: Floats) -> FloatArray:
        """USD per hour of every entrant at each rate [entrant, rate]."""
        return self.machines(requests_per_s, demand, rates) * self.usd_per_hour[:, None]

    def with_price(self, entrant: int, usd_per_hour: float) -> Contest:
        """The same where the machines of one entrant cost something else."""
        prices = self.usd_per_hour.copy()
        prices[entrant] = usd_per_hour
        return replace(self, usd_per_hour=prices)

    def thresholds(
        self, requests_per_s: FloatArray, demand: Demand, farthest: float, entrant: int | None = None
    ) -> Thresholds:
        """Rates from the asked one to another at which the machines of an entrant (of any, where None) are full.

        rate = n x replicas per machine x capacity / (1 + headroom),  n = 1, 2, ...
        Of candidates that need the same least number of machines, only the one with most capacity counts.
        """
        capacity = self.per_machine * requests_per_s[self.row] / (1 + demand.headroom_ratio)
        least = np.ceil(demand.min_replicas / self.per_machine).astype(np.int64)
        groups, group = np.unique(np.stack([self.entrant, least]), axis=1, return_inverse=True)
        most = np.zeros(groups.shape[1])
        np.maximum.at(most, group.ravel(), capacity)
        steps = most[(most > 0) & (groups[0] == (groups[0] if entrant is None else entrant))]
        return Thresholds.between(np.unique(steps), demand.workload.rate_requests_per_s, farthest)

    @property
    def entrant(self) -> IntArray:
        """The entrant of every pair."""
        sizes = np.diff(np.append(self.first_pair, len(self.row)))
        return np.repeat(np.arange(len(self.offers)), sizes)


@dataclass(frozen=True)
class Thresholds:
    """Rates at which machines are full, the nearest first, complete up to `searched_to`."""

    requests_per_s: FloatArray
    searched_to: float

    @classmethod
    def between(cls, steps: FloatArray, now: float, farthest: float) -> Thresholds:
        """All multiples of the steps between two rates; where a step has very many, the search ends sooner."""
        reach = MOST_MULTIPLES * float(steps.min()) if len(steps) else math.inf
        up = farthest > now
        searched_to = min(farthest, now + reach) if up else max(farthest, now - reach)
        low, high = sorted((now, searched_to))
        multiples = [n * np.arange(np.ceil(low / n), np.floor(high / n) + 1) for n in steps]
        rates = np.unique(np.concatenate(multiples)) if multiples else np.zeros(0)
        rates = rates[(rates > 0) & (rates != now)]
        return cls(rates if up else rates[::-1], searched_to)


def cheapest_of_each_type(offers: Sequence[Offer]) -> list[Offer]:
    """The cheapest region of each machine type and price kind, in the order that decides between equal costs."""
    best: dict[tuple[str, str, str], Offer] = {}
    for offer in sorted(offers, key=lambda o: (effective_price(o), o.region)):
        best.setdefault((offer.cloud, offer.instance, offer.price_kind.value), offer)
    return sorted(best.values(), key=lambda o: (o.cloud, o.instance, o.region, o.price_kind))


def is_contest(question: ServeQuestion) -> bool:
    """Whether machine types compete by price and rate alone: one kind of request, alike; no spares, quiet hours, quota.

    Elsewhere the machines of a type are no step function of the rate, and no flips are told.
    """
    demand, purse = question.demand, question.purse
    is_plain = not demand.workload.classes and demand.quiet is None
    has_no_spare = demand.spare_machines == 0 and demand.zones == 1
    is_free = math.isinf(purse.most_usd_per_hour) and purse.most_spot_ratio >= 1
    is_unbounded = all(offer.max_instances is None for offer in question.offers)
    return is_plain and has_no_spare and is_free and is_unbounded


def winners(costs: FloatArray) -> IntArray:
    """The cheapest entrant at each rate, NOBODY where none serves."""
    if not len(costs):
        return np.full(costs.shape[1], NOBODY)
    return np.where(np.isfinite(costs.min(axis=0)), costs.argmin(axis=0), NOBODY)
