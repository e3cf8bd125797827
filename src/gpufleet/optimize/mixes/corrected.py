"""A mix whose loads hold: each way's requests are rated again as they are mixed there, and the programme is corrected.

Loads of buckets do not add up on a replica. After a mix is found, the units of each way that its own requests really
take are compared with the sum of their loads, the way's loads are scaled by the ratio, and the mix is found again. What
each loss leaves is rated the same way, with requests split over it anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from gpufleet.domain.arrays import FloatArray
from gpufleet.domain.mix import Mix, MixProblem
from gpufleet.optimize.mixes.balance import balance
from gpufleet.optimize.mixes.program import is_installed
from gpufleet.optimize.mixes.rates import Service
from gpufleet.optimize.mixes.search import failures
from gpufleet.optimize.mixes.ways import Posed
from gpufleet.records import dataclass

MOST_ROUNDS, MOST_ADDITIONS = 6, 3
ENOUGH, LEAST_SHARE = 1e-6, 1e-6
NEVER_TOGETHER = 10.0
"""The correction of loads that do not go together at any rate."""
Solver = Callable[[MixProblem, Mix | None], Mix | None]


@dataclass(frozen=True, eq=False)
class Rated:
    """A mix with what its ways sustain of the requests that they are sent.

    `problem`: that whose loads it was found by. `needed_units`: [way], units that the mixed requests take, infinite
    where their objectives do not hold at any rate. `requests_per_s`: [way], what one replica sustains of its mixture.
    `missing_units`: [way], how many more it would take, also where something is lost. `over_ratio`: [way], the units
    that mixed requests take over the sum of their loads, the largest of all that may be lost.
    """

    problem: MixProblem
    mix: Mix
    needed_units: FloatArray
    requests_per_s: FloatArray
    missing_units: FloatArray
    over_ratio: FloatArray

    @property
    def is_sound(self) -> bool:
        """Whether all objectives hold, whatever is lost of what may be."""
        return bool(np.all(self.missing_units <= self.mix.units * ENOUGH))


def corrected_mix(posed: Posed, solve: Solver, first: Rated | None = None) -> Rated | None:
    """The cheapest sound mix of a few rounds, each with as many units more as it takes; None where there is none.

    `first`: a mix that is known to be sound, such as one machine type for each service.
    """
    problem, best = posed.problem, first
    for _ in range(MOST_ROUNDS):
        mix = solve(problem, None)
        if mix is None:
            break
        last = rated(posed, problem, trimmed(problem, mix))
        sound = with_units_more(posed, last)
        if sound is not None:
            best = cheaper(best, sound)
        if np.all(np.abs(last.over_ratio - 1) < ENOUGH):
            break
        problem = replace(problem, load_units=problem.load_units * last.over_ratio[None, :])
    return best


def cheaper(before: Rated | None, found: Rated) -> Rated:
    """The cheaper of two sound mixes; of equals the one of which more is proved."""
    if before is None or found.mix.usd_per_hour <= before.mix.usd_per_hour + ENOUGH:
        return found
    proved = min(found.mix.least_usd_per_hour, before.mix.usd_per_hour)
    return replace(before, mix=replace(before.mix, least_usd_per_hour=max(proved, before.mix.least_usd_per_hour)))


def trimmed(problem: MixProblem, mix: Mix) -> Mix:
    """The mix without the crumbs of buckets that rounding leaves on a way."""
    share = np.where(mix.share < LEAST_SHARE, 0.0, mix.share)
    return replace(mix, share=share / share.sum(axis=1, keepdims=True))


def rated(posed: Posed, problem: MixProblem, mix: Mix) -> Rated:
    """A mix, each way rated by the requests that it is sent, and by those that it is sent where something is lost."""
    needed, rates = as_sent(posed, problem, mix.share)
    missing, ratio = np.maximum(needed - mix.units, 0.0), over_loads(problem, mix.share, needed)
    for left in (x for x in all_that_is_left(problem, mix) if np.any(needed > x * (1 + ENOUGH))):
        more, over = sent_anew(posed, problem, left, needed)
        missing, ratio = np.maximum(missing, more), np.maximum(ratio, over)
    return Rated(problem, mix, needed, rates, missing, ratio)


def as_sent(posed: Posed, problem: MixProblem, share: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Units that shares of the buckets take of each way, mixed there, and what one replica sustains of them."""
    needed, rates = np.zeros(problem.num_ways), np.zeros(problem.num_ways)
    for w, way in enumerate(posed.ways):
        service, rows = posed.services[way.service], posed.buckets_of(way.service)
        demand = service.sent(share[rows, w])
        if demand is None:
            continue
        offer = posed.offers[way.offer]
        rates[w] = service.sustained_as_sent(demand, share[rows, w], way.row, (offer.cloud, offer.region))
        planned = demand.planned_requests_per_s
        needed[w] = planned / (rates[w] * problem.replicas_per_unit[w]) if rates[w] else np.inf
    return needed, rates


def all_that_is_left(problem: MixProblem, mix: Mix) -> Iterator[FloatArray]:
    """Units that are left, [way], after each loss that the mix has to survive."""
    for loss in (*problem.losses, *failures(problem, mix.units)):
        yield loss.left(mix.units)


def sent_anew(posed: Posed, problem: MixProblem, left: FloatArray, before: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Units that are missing and how far loads are over, [way], where requests are split over what is left.

    Without OR-Tools requests are not split anew: what they took before has to be left.
    """
    unchanged = np.ones(problem.num_ways)
    if not is_installed():
        return np.maximum(before - left, 0.0), unchanged
    found = balance(problem, left)
    if not np.isfinite(found.busiest):
        return np.maximum(before - left, 0.0), unchanged
    share = np.where(found.share < LEAST_SHARE, 0.0, found.share)
    needed, _ = as_sent(posed, problem, share / share.sum(axis=1, keepdims=True))
    return np.maximum(needed - left, 0.0), over_loads(problem, share, needed)


def over_loads(problem: MixProblem, share: FloatArray, needed: FloatArray) -> FloatArray:
    """Units that mixed requests take over the sum of their loads, [way]; large where they do not go together."""
    used = problem.used_units(share)
    busy = used > 0
    ratio = np.where(busy, needed / np.where(busy, used, 1.0), 1.0)
    return np.where(np.isfinite(ratio), ratio, NEVER_TOGETHER)


def with_units_more(posed: Posed, found: Rated) -> Rated | None:
    """The same split with as many units more as it takes; None where limits forbid or objectives do not hold."""
    for _ in range(MOST_ADDITIONS):
        if found.is_sound:
            return found
        if not np.all(np.isfinite(found.missing_units)):
            return None
        units = np.ceil(found.mix.units + found.missing_units - ENOUGH)
        machines = np.maximum(found.problem.machines_of(units), found.mix.machines)
        if not found.problem.allows(machines):
            return None
        cost = found.problem.cost_usd_per_hour(machines, found.mix.share)
        mix = replace(found.mix, units=units, machines=machines, usd_per_hour=cost)
        found = rated(posed, found.problem, mix)
    return found if found.is_sound else None


def whole_on_one_way(posed: Posed) -> Rated | None:
    """Each service whole on the one way that is cheapest beside those before it; None where limits forbid that."""
    problem = posed.problem
    share, units = np.zeros_like(problem.load_units), np.zeros(problem.num_ways)
    for s, service in enumerate(posed.services):
        chosen = cheapest_alone(posed, units, s, service)
        if chosen is None:
            return None
        way, units = chosen
        share[posed.buckets_of(s), way] = 1.0
    machines = problem.machines_of(units)
    if not problem.allows(machines):
        return None
    found = rated(posed, problem, Mix(machines, units, share, problem.cost_usd_per_hour(machines, share)))
    return found if found.is_sound else None


def cheapest_alone(posed: Posed, units: FloatArray, s: int, service: Service) -> tuple[int, FloatArray] | None:
    """The way that carries a service at least cost beside these units, within what may be had; with all units then."""
    problem = posed.problem
    ways = [w for w, way in enumerate(posed.ways) if way.service == s]
    count = {w: units_alone(posed, w, service) for w in ways}
    each = problem.machines_per_unit * problem.usd_per_hour[problem.offer_of_way]
    sent = problem.sending[posed.buckets_of(s)].sum(axis=0)
    usd = {w: n * float(each[w]) + float(sent[w]) for w, n in count.items()}
    for w in sorted((w for w in ways if np.isfinite(usd[w])), key=usd.__getitem__):
        more = units + count[w] * (np.arange(problem.num_ways) == w)
        if may_be_had(problem, problem.machines_of(more)):
            return w, more
    return None


def may_be_had(problem: MixProblem, machines: FloatArray) -> bool:
    """Whether so many machines are within every quota and the budget, whatever is bought beside them."""
    counted = (limit for limit in problem.limits if np.all(limit.per_machine >= 0))
    within = all(float(limit.per_machine @ machines) <= limit.most * (1 + ENOUGH) for limit in counted)
    return within and bool(np.all(machines <= problem.most_machines))


def units_alone(posed: Posed, w: int, service: Service) -> float:
    """Units of one way that carry a whole service, whatever is lost; infinite where they do not."""
    problem, each = posed.problem, posed.problem.replicas_per_unit[w]
    way, offer = posed.ways[w], posed.offers[posed.ways[w].offer]
    rate = service.sustained_whole(way.row, (offer.cloud, offer.region)) * each
    least = max(1.0, problem.least_replicas[way.service] / each)
    needed = max(units_for(rate, service.question.demand.planned_requests_per_s), least)
    kept = np.array([1 - loss.lost_ratio[w] for loss in problem.losses])
    if not np.isfinite(needed) or np.any(kept <= 0):
        return np.inf
    count = np.ceil(needed - ENOUGH)
    for ratio in kept:
        while np.floor(count * ratio + ENOUGH) < needed - ENOUGH:
            count += 1
    return float(max(count, np.ceil(needed - ENOUGH) + problem.spare_machines))


def units_for(rate_per_unit: float, planned: float) -> float:
    """Units that carry a rate; infinite where one carries nothing."""
    return planned / rate_per_unit if rate_per_unit > 0 else np.inf
