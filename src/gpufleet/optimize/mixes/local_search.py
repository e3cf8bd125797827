"""Whole units, better step by step: some are given up for others that cost less, while all buckets are carried.

Two units at most are given up for two others at most, or many of one way for as many of another as are needed. Known
worths sort out nearly all of these changes before buckets are split again. Limits, shares of clouds and least replicas
may be broken on the way: that costs more than any machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations_with_replacement

import numpy as np

from gpufleet.domain.arrays import FloatArray, IntArray
from gpufleet.domain.mix import ROUNDING, Loss, MixProblem
from gpufleet.optimize.mixes.survival import Survival, Worth, usd_per_unit

MOST_CHANGED, MOST_GIVEN_UP, MOST_WAYS, MOST_TESTS, MOST_MENDS, TESTS_PER_OFFER = 2, 12, 20, 150, 400, 12
BETTER, BROKEN = 1e-7, 1e3


class Search:
    """Units of the ways of some services, [way of the services], beside what the others hold."""

    def __init__(self, problem: MixProblem, services: Sequence[int], test: Survival, units: FloatArray) -> None:
        others = units.copy()
        others[test.ways] = 0.0
        self.problem, self.services, self.test, self.others = problem, services, test, others
        self.held = np.bincount(
            problem.offer_of_way, weights=problem.machines_per_unit * others, minlength=problem.num_offers
        )
        self.per_unit = np.zeros((len(test.ways), problem.num_offers))
        offers = problem.offer_of_way[test.ways]
        self.per_unit[np.arange(len(test.ways)), offers] = problem.machines_per_unit[test.ways]
        self.usd = usd_per_unit(problem)[test.ways]
        is_own = problem.service_of_way[test.ways][:, None] == np.array(services)
        self.replicas, self.least = (
            is_own * problem.replicas_per_unit[test.ways, None],
            problem.least_replicas[services],
        )
        free = np.maximum(problem.most_machines - self.held, 0.0)[offers]
        self.most = np.floor(free / problem.machines_per_unit[test.ways] + ROUNDING)
        self.penalty = BROKEN * (float(np.max(problem.usd_per_hour, initial=1.0)) + float(self.usd @ units[test.ways]))

    def scores(self, units: FloatArray) -> FloatArray:
        """What units cost, and far more where something is broken, [candidate]; `units`: [candidate, way]."""
        p, machines = self.problem, np.ceil(self.held + units @ self.per_unit - ROUNDING)
        given_up = np.maximum(p.machines_today - machines, 0.0)
        cost = machines @ p.usd_per_hour + given_up @ p.leaving_usd_per_hour
        few = np.maximum(self.least - units @ self.replicas, 0.0) / np.maximum(self.least, 1.0)
        return np.asarray(cost + self.penalty * (few.sum(axis=1) + broken(p, machines)))

    def improved(self, units: FloatArray, *, is_whole: bool) -> FloatArray | None:
        """The best units found from these; None where they never carried the buckets."""
        best = self.mended(units, None, np.inf) if is_whole else self.start(units)
        if best is None:
            return None
        score, ways, left = self.score(best), self.promising(units), [MOST_TESTS]
        while (better := self.better(best, score, ways, left) or self.without_an_offer(best, score, left)) is not None:
            best, score = better
        return best

    def without_an_offer(self, units: FloatArray, score: float, left: list[int]) -> tuple[FloatArray, float] | None:
        """All machines of an offer given up for whatever is cheapest then; None where that is never cheaper."""
        offers = self.problem.offer_of_way[self.test.ways]
        best = None
        for offer in np.unique(offers[units > 0]):
            left[0] -= TESTS_PER_OFFER
            if left[0] <= 0:
                break
            most = np.where(np.arange(self.problem.num_offers) == offer, 0.0, self.problem.most_machines)
            others = Search(replace(self.problem, most_machines=most), self.services, self.test, self.others)
            found = others.mended(np.where(offers == offer, 0.0, units), None, score, TESTS_PER_OFFER)
            if found is not None and self.score(found) < score * (1 - BETTER):
                best, score = found, self.score(found)
        return None if best is None else (best, score)

    def start(self, units: FloatArray) -> FloatArray | None:
        """Whole units that survive everything: the cheapest of several roundings.

        The cheapest way is added each time, or one way takes all that others leave, or it stands alone. Where there are
        losses, units that are good without them come first.
        """
        low, high = (np.minimum(x, self.most) for x in (np.floor(units + ROUNDING), np.ceil(units - ROUNDING)))
        alone, every = np.zeros(len(units)), range(len(units))
        tries: list[tuple[FloatArray, int | None]] = [(low, None), (high, None)]
        tries += [(begin, way) for begin in ((low, alone) if self.test.is_plain else (alone,)) for way in every]
        if not self.test.is_plain:
            tries = [(x, None) for x in self.without_losses(units)] + tries
        best, score = None, np.inf
        for begin, only in tries:
            found = self.mended(begin, only, score)
            if found is not None and self.score(found) < score:
                best, score = found, self.score(found)
        return best

    def without_losses(self, units: FloatArray) -> list[FloatArray]:
        """The best units where nothing is lost, if there are any."""
        problem = replace(self.problem, losses=(), spare_machines=0)
        plain = Survival(problem, self.services)
        found = Search(problem, self.services, plain, self.others).improved(units, is_whole=False)
        self.test.learn_from(plain)
        return [] if found is None else [found]

    def score(self, units: FloatArray) -> float:
        """What these units cost, and far more where something is broken."""
        return float(self.scores(units[None, :])[0])

    def promising(self, units: FloatArray) -> IntArray:
        """Ways that may be bought: those that are nearest to a bucket's cheapest."""
        load = self.test.load
        usd = np.where(np.isfinite(load), self.usd * np.where(np.isfinite(load), load, 0.0), np.inf)
        with np.errstate(divide="ignore", invalid="ignore"):
            over = np.nanmin(usd / np.min(usd, axis=1, keepdims=True), axis=0) if len(load) else self.usd
        return np.argsort(np.where(units > 0, -1.0, over), kind="stable")[:MOST_WAYS]

    def mended(self, units: FloatArray, only: int | None, most: float, steps: int = MOST_MENDS) -> FloatArray | None:
        """Units more, each time the way that makes up for a loss at least cost, until all are survived.

        None where that costs more than the most, or no way is left.
        """
        for _ in range(steps):
            fatal = next(self.test.fatal(units), None)
            if fatal is None:
                return self.with_replicas(units, only)
            more = self.more(units, *fatal, only)
            if more is None or float(self.usd @ more) > most:
                return None
            units = more
        return None

    def with_replicas(self, units: FloatArray, only: int | None) -> FloatArray:
        """Units with as many replicas as are asked for, more of the way where they cost least, as far as it goes."""
        found = np.array(units)
        for replicas, least in zip(self.replicas.T, self.least, strict=True):
            missing, own = float(least - found @ replicas), np.flatnonzero(replicas)
            if missing > ROUNDING and len(own):
                room = np.maximum(self.most[own] - found[own], 0.0)
                count = np.minimum(np.ceil(missing / replicas[own]), room)
                short = count * replicas[own] < missing - ROUNDING
                at = int(np.lexsort((count * self.usd[own], own != only, short))[0])
                found[own[at]] += count[at]
        return found

    def more(self, units: FloatArray, loss: Loss, worth: Worth, only: int | None) -> FloatArray | None:
        """Units with some more of one way, so that a loss leaves less missing."""
        missing = worth.needed - float(worth.price @ loss.left(units))
        gain = worth.price * (1 - loss.lost_ratio)
        may = (gain > 0) & (units < self.most)
        if only is not None:
            may &= np.arange(len(units)) == only
        if not may.any():
            return None
        count = np.ceil(missing / np.where(may, gain, 1.0))
        way = int(np.argmin(np.where(may, count * self.usd, np.inf)))
        step = count[way] if only is not None else max(count[way] // 2, 1)
        added = np.array(units)
        added[way] += max(min(step, self.most[way] - units[way]), 1.0)
        return added

    def better(
        self, units: FloatArray, score: float, ways: IntArray, left: list[int]
    ) -> tuple[FloatArray, float] | None:
        """The cheapest change that keeps everything; None where there is none, or too much was tried."""
        changed = self.changed(units, ways)
        scores = self.scores(changed)
        order = np.argsort(scores, kind="stable")
        order = order[scores[order] < score * (1 - BETTER)]
        known = 0
        while True:
            alive = ~self.test.misses(changed[order], known)
            order, known = order[alive], len(self.test.needed)
            if not len(order) or left[0] <= 0:
                return None
            left[0] -= 1
            if next(self.test.fatal(changed[order[0]]), None) is None:
                return changed[order[0]], float(scores[order[0]])
            order = order[1:]

    def changed(self, units: FloatArray, ways: IntArray) -> FloatArray:
        """Every change: two units at most given up for two others at most, [candidate, way], and `replaced`."""
        bought = np.flatnonzero(units > 0)
        added, dropped = (choices(of, len(units)) for of in (ways, bought))
        found = (units + added[:, None, :] - dropped[None, :, :]).reshape(-1, len(units))
        found = np.vstack([found, *(self.replaced(units, int(way), ways) for way in bought)])
        return np.asarray(found[np.all((found >= 0) & np.isfinite(found), axis=1)])

    def replaced(self, units: FloatArray, way: int, ways: IntArray) -> FloatArray:
        """More and more units of a way given up, for as many of another as known worths ask for, [candidate, way]."""
        given_up = np.unique(np.ceil(units[way] * np.linspace(0, 1, MOST_GIVEN_UP + 1)[1:]))
        left = np.repeat(units[None, :], len(given_up), axis=0)
        left[:, way] -= given_up
        missing = np.maximum(self.test.needed - left @ self.test.price.T, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            count = np.ceil(np.nanmax(missing[:, :, None] / self.test.price[None, :, ways], axis=1, initial=0.0))
        found = np.repeat(left[:, None, :], len(ways), axis=1)
        found[:, np.arange(len(ways)), ways] += count
        return found.reshape(-1, len(units))


def choices(ways: IntArray, num_ways: int) -> FloatArray:
    """None, one or two units of these ways, [choice, way]."""
    found = [c for count in range(MOST_CHANGED + 1) for c in combinations_with_replacement(ways, count)]
    return np.array([np.bincount(np.array(c, dtype=np.int64), minlength=num_ways) for c in found], dtype=np.float64)


def broken(problem: MixProblem, machines: FloatArray) -> FloatArray:
    """By how much limits, quotas and shares are broken, relative to themselves, [candidate]; `machines` by offer."""
    finite = np.isfinite(problem.most_machines)
    most = problem.most_machines[finite]
    found = np.sum(np.maximum(machines[:, finite] - most, 0.0) / np.maximum(most, 1.0), axis=1)
    for limit in problem.limits:
        found += limit.beyond(machines) / limit.scale
    for share in problem.shares:
        found += share.beyond(machines) / np.maximum(machines @ share.weight, ROUNDING)
    return np.asarray(found)
