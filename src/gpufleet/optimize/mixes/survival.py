"""Whether units carry a service's buckets, also when some are lost, and what they are worth where they do not.

A *worth* is a price pi of units for which every mix that carries all buckets pays:
sum_w pi_w u_w >= sum_b min_w pi_w load_bw. One that is found is tried on every other mix before buckets are split.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations_with_replacement, islice

import numpy as np

from gpufleet.domain.arrays import BoolArray, FloatArray, IntArray
from gpufleet.domain.mix import Loss, MixProblem
from gpufleet.optimize.mixes.split import Split
from gpufleet.records import dataclass

CARRIES = 1e-6
"""Units that are busier than they can be by so little still carry: a solver's own tolerance."""
MOST_FAILURES, MOST_PAIRS, LEAST_LOST, LEAST_USD = 5000, 3000, 0.02, 1e-6


@dataclass(frozen=True, eq=False)
class Worth:
    """What units that carry all buckets are worth at least, whatever they are: a price for one of each way, [way]."""

    price: FloatArray
    needed: float


class Survival:
    """What services need of their ways: `ways` are those that carry one of their buckets, in the problem's order.

    Units are [.., way of the services]. `price`: [worth, way], `needed`: [worth], of the worths found so far.
    """

    def __init__(self, problem: MixProblem, services: Sequence[int]) -> None:
        buckets = np.isin(problem.service_of_bucket, services)
        carries = np.isfinite(problem.load_units[buckets]).any(axis=0) | (not buckets.any())
        self.ways: IntArray = np.flatnonzero(carries & np.isin(problem.service_of_way, services))
        self.load = problem.load_units[buckets][:, self.ways]
        usd = usd_per_unit(problem)[self.ways]
        self.split = Split(self.load, np.maximum(usd, usd.max(initial=1.0) * LEAST_USD), np.eye(len(self.ways)))
        none = np.zeros(len(self.ways))
        own = [Loss(x.name, x.lost_ratio[self.ways], x.lost_units[self.ways]) for x in problem.losses]
        self.losses, self.spare_machines = (Loss("nothing", none, none), *own), problem.spare_machines
        self.price, self.needed = np.zeros((0, len(self.ways))), np.zeros(0)

    @property
    def is_plain(self) -> bool:
        """Whether nothing is lost."""
        return len(self.losses) == 1 and not self.spare_machines

    def learn_from(self, other: Survival) -> None:
        """Worths of the same service that were found where other losses were feared count here."""
        self.price, self.needed = np.vstack([self.price, other.price]), np.append(self.needed, other.needed)

    def misses(self, units: FloatArray, since: int = 0) -> BoolArray:
        """Which of many units miss a known worth, of those found since; `units`: [candidate, way]."""
        found, price = np.zeros(len(units), dtype=bool), self.price[since:]
        needed = self.needed[since:] * (1 - CARRIES)
        for loss in self.losses:
            found |= np.any(loss.left(units) @ price.T < needed, axis=1)
        if self.spare_machines:
            for of_unit, least in zip(price, needed, strict=True):
                found |= (units - lost_first(units, of_unit, self.spare_machines)) @ of_unit < least
        return found

    def fatal(self, units: FloatArray) -> Iterator[tuple[Loss, Worth]]:
        """Losses that units do not survive, each with a worth that they miss then; `units`: [way]."""
        known = (loss for loss, _ in self.known_missed(units))
        for loss in (*self.losses, *known, *failures(units, self.spare_machines)):
            worth = self.missed(loss.left(units))
            if worth is not None:
                yield loss, worth

    def known_missed(self, units: FloatArray) -> Iterator[tuple[Loss, Worth]]:
        """Losses after which a known worth is missed, all of each; of failures that which is worth most."""
        needed = self.needed * (1 - CARRIES)
        for loss in self.losses:
            yield from ((loss, self.worth(int(at))) for at in np.flatnonzero(self.price @ loss.left(units) < needed))
        if self.spare_machines and len(needed):
            left = units - lost_first(units, self.price, self.spare_machines)
            short = np.flatnonzero(np.sum(left * self.price, axis=1) < needed)
            yield from ((failure(units - left[at]), self.worth(int(at))) for at in short)

    def worth(self, at: int) -> Worth:
        """A worth that was found."""
        return Worth(self.price[at], float(self.needed[at]))

    def missed(self, left: FloatArray) -> Worth | None:
        """A worth that is missed, None where what is left carries every bucket."""
        short = self.needed * (1 - CARRIES) - self.price @ left
        if len(short) and np.max(short) > 0:
            at = int(np.argmax(short / np.maximum(self.needed, CARRIES)))
            return self.worth(at)
        room = left * (1 + CARRIES)
        if not len(self.load) or self.split.fits(room, float(self.split.cost @ room)):
            return None
        return self._learnt(self.split.cost_counts * self.split.cost + self.split.price)

    def least_busy(self, units: FloatArray) -> float:
        """How busy units are at least that carry all buckets, by all known worths."""
        worth = self.price @ units
        return float(np.max(self.needed / np.maximum(worth, CARRIES), initial=0.0))

    def share(self, units: FloatArray) -> FloatArray:
        """How these units, which carry all buckets, share them, [bucket, way]."""
        room = units * (1 + CARRIES)
        if len(self.load) and not self.split.fits(room):
            raise ArithmeticError("units that carry all buckets were not split")
        return self.split.share(room) if len(self.load) else self.load

    def _learnt(self, price: FloatArray) -> Worth:
        price = price / max(float(np.max(price)), CARRIES)
        worth = Worth(price, carrying_worth(self.load, price))
        self.price = np.vstack([self.price, price])
        self.needed = np.append(self.needed, worth.needed)
        return worth


def every_fatal(problem: MixProblem, tests: list[Survival], units: FloatArray) -> Iterator[tuple[Loss, Worth]]:
    """Losses that a service does not survive, and worths that it misses then, of all ways; `units`: [way]."""
    for test in tests:
        yield from (of_all_ways(problem, test, *found) for found in test.fatal(units[test.ways]))


def every_missed(problem: MixProblem, tests: list[Survival], units: FloatArray) -> Iterator[tuple[Loss, Worth]]:
    """Losses after which known worths are missed, all of them, of all ways; `units`: [way]."""
    for test in tests:
        yield from (of_all_ways(problem, test, *found) for found in test.known_missed(units[test.ways]))


def every_pair(problem: MixProblem, tests: list[Survival]) -> Iterator[tuple[Loss, Worth]]:
    """Every loss with every known worth, the last ones where there are many; of failures those of one way alone."""
    for test in tests:
        each = [failure(test.spare_machines * row) for row in np.eye(len(test.ways)) if test.spare_machines]
        for at in range(len(test.needed))[-(MOST_PAIRS // (len(test.losses) + len(each))) :]:
            worth = test.worth(at)
            losses = (*test.losses, *(x for x in each if float(x.lost_units @ worth.price) > LEAST_LOST))
            yield from (of_all_ways(problem, test, loss, worth) for loss in losses)


def of_all_ways(problem: MixProblem, test: Survival, loss: Loss, worth: Worth) -> tuple[Loss, Worth]:
    """A loss and a worth of one service, over the ways of all."""
    named = next((x for x in problem.losses if x.name == loss.name), None)
    price, lost = np.zeros(problem.num_ways), np.zeros(problem.num_ways)
    price[test.ways], lost[test.ways] = worth.price, loss.lost_units
    return named or failure(lost), Worth(price, worth.needed)


def survivals(problem: MixProblem) -> list[Survival]:
    """What each service needs, [service]."""
    return [Survival(problem, [service]) for service in range(len(problem.least_replicas))]


def usd_per_unit(problem: MixProblem) -> FloatArray:
    """What a unit of every way costs, [way]   [USD/h]."""
    return np.asarray(problem.machines_per_unit * problem.usd_per_hour[problem.offer_of_way])


def carrying_worth(load: FloatArray, price: FloatArray) -> float:
    """What carrying all buckets is worth at these prices of units: each at its cheapest way."""
    reachable = np.isfinite(load)
    return float(np.sum(np.min(np.where(reachable, price * np.where(reachable, load, 0.0), np.inf), axis=1)))


def lost_first(units: FloatArray, price: FloatArray, spare_machines: int) -> FloatArray:
    """So many units that fail, those of the highest price that there are; all [.., way]."""
    order = np.argsort(-price, axis=-1, kind="stable")
    there = units[..., order] if price.ndim == 1 or units.ndim == 1 else np.take_along_axis(units, order, axis=-1)
    lost = np.clip(spare_machines - (np.cumsum(there, axis=-1) - there), 0, there)
    back = np.argsort(order, axis=-1)
    return np.asarray(lost[..., back] if price.ndim == 1 else np.take_along_axis(lost, back, axis=-1))


def failures(units: FloatArray, spare_machines: int) -> Iterator[Loss]:
    """Every choice of so many units of a mix that fail together, all of them where there are fewer.

    The first ones where there are very many: four of twenty ways, and no fewer.
    """
    bought = [int(w) for w in np.flatnonzero(units > 0)]
    failing = min(spare_machines, int(units.sum()))
    choices = combinations_with_replacement(bought, failing) if failing else iter(())
    for choice in islice(choices, MOST_FAILURES):
        lost = np.bincount(choice, minlength=len(units)).astype(np.float64)
        if np.all(lost <= units):
            yield failure(lost)


def failure(lost: FloatArray) -> Loss:
    """The loss of these units, [way]."""
    chosen = ", ".join(f"{int(lost[w])} of {w}" for w in np.flatnonzero(lost))
    return Loss(f"machines: {chosen}", np.zeros(len(lost)), lost)
