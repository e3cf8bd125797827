"""A mix whose loads hold: each way's requests are rated again as they are mixed there, and the programme is corrected.

Loads of buckets do not add up on a replica. After a mix is found, the units of each way that its own requests really
take are compared with the sum of their loads, the way's loads are scaled by the ratio, and the mix is found again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from gpufleet.domain.arrays import FloatArray
from gpufleet.domain.mix import Mix, MixProblem
from gpufleet.optimize.mixes.ways import Posed, Way
from gpufleet.records import dataclass

MOST_ROUNDS, ENOUGH, LEAST_SHARE = 6, 1e-6, 1e-6
Solver = Callable[[MixProblem, Mix | None], Mix | None]


@dataclass(frozen=True, eq=False)
class Rated:
    """A mix with what its ways sustain of the requests that they are sent.

    `problem`: that whose loads it was found by. `needed_units`: [way], units that the mixed requests take, infinite
    where their objectives do not hold at any rate; the mix is sound where they are no more than there are.
    `requests_per_s`: [way], what one replica sustains of its mixture.
    """

    problem: MixProblem
    mix: Mix
    needed_units: FloatArray
    requests_per_s: FloatArray

    @property
    def is_sound(self) -> bool:
        """Whether all objectives hold."""
        return bool(np.all(self.needed_units <= self.mix.units * (1 + ENOUGH)))


def corrected_mix(posed: Posed, solve: Solver, first: Rated | None = None) -> Rated | None:
    """The cheapest sound mix of a few rounds; where none is sound, the last with units more until it is; else None.

    `first`: a mix that is known to be sound, such as one machine type for each service.
    """
    problem, best, last = posed.problem, first, None
    for _ in range(MOST_ROUNDS):
        mix = solve(problem, None)
        if mix is None:
            break
        last = rated(posed, problem, trimmed(problem, mix))
        if last.is_sound:
            best = cheaper(best, last)
        ratio = over_loads(last)
        if np.all(np.abs(ratio - 1) < ENOUGH):
            break
        problem = replace(problem, load_units=problem.load_units * ratio[None, :])
    if best is None and last is not None:
        best = with_units_more(posed, last)
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
    """A mix, each way rated by the requests that it is sent."""
    needed, rates = np.zeros(problem.num_ways), np.zeros(problem.num_ways)
    for w, way in enumerate(posed.ways):
        service, rows = posed.services[way.service], posed.buckets_of(way.service)
        demand = service.sent(mix.share[rows, w])
        if demand is None:
            continue
        offer = posed.offers[way.offer]
        share = mix.share[rows, w]
        rates[w] = service.sustained_as_sent(demand, share, way.row, (offer.cloud, offer.region))
        planned = demand.planned_requests_per_s
        needed[w] = planned / (rates[w] * problem.replicas_per_unit[w]) if rates[w] else np.inf
    return Rated(problem, mix, needed, rates)


def over_loads(found: Rated) -> FloatArray:
    """Units that mixed requests take over the sum of their loads, [way]; large where they do not go together."""
    used = found.problem.used_units(found.mix.share)
    busy = used > 0
    ratio = np.where(busy, found.needed_units / np.where(busy, used, 1.0), 1.0)
    return np.where(np.isfinite(ratio), ratio, 10.0)


def with_units_more(posed: Posed, found: Rated) -> Rated | None:
    """The same split with as many units as it takes; None where limits forbid or objectives do not hold."""
    if not np.all(np.isfinite(found.needed_units)):
        return None
    units = np.maximum(found.mix.units, np.ceil(found.needed_units - ENOUGH))
    machines = np.maximum(found.problem.machines_of(units), found.mix.machines)
    if not found.problem.allows(machines):
        return None
    cost = found.problem.cost_usd_per_hour(machines, found.mix.share)
    return replace(found, mix=replace(found.mix, units=units, machines=machines, usd_per_hour=cost))


def whole_on_one_way(posed: Posed) -> Rated | None:
    """Each service whole on the one way that is cheapest for it; None where limits forbid that."""
    problem = posed.problem
    share, units = np.zeros_like(problem.load_units), np.zeros(problem.num_ways)
    for s in range(len(posed.services)):
        options = [(w, way) for w, way in enumerate(posed.ways) if way.service == s]
        needed = [units_whole(posed, w, way) for w, way in options]
        least = problem.least_replicas[s] / problem.replicas_per_unit[[w for w, _ in options]]
        count = np.ceil(np.maximum(needed, least) - ENOUGH)
        sent = problem.sending[posed.buckets_of(s)].sum(axis=0)
        usd = [
            count[i] * problem.machines_per_unit[w] * problem.usd_per_hour[way.offer] + sent[w]
            for i, (w, way) in enumerate(options)
        ]
        if not options or not np.isfinite(min(usd)):
            return None
        chosen = int(np.argmin(usd))
        w = options[chosen][0]
        units[w] = count[chosen]
        share[posed.buckets_of(s), w] = 1.0
    machines = problem.machines_of(units)
    if not problem.allows(machines) or problem.losses or problem.spare_machines:
        return None
    return rated(posed, problem, Mix(machines, units, share, problem.cost_usd_per_hour(machines, share)))


def units_whole(posed: Posed, w: int, way: Way) -> float:
    """Units of a way that carry its whole service; infinite where some of it is not served there."""
    service, offer = posed.services[way.service], posed.offers[way.offer]
    everything = np.ones(len(service.buckets))
    demand = service.sent(everything)
    assert demand is not None, "a service has requests"
    if service.reach is None:
        rate = float(service.whole_requests_per_s[way.row])
    else:
        rate = service.sustained_as_sent(demand, everything, way.row, (offer.cloud, offer.region))
    units = rate * posed.problem.replicas_per_unit[w]
    return demand.planned_requests_per_s / units if units > 0 else np.inf
