"""A mix whose loads hold: each way's requests are rated again as they are mixed there, and the programme is corrected.

Loads of buckets do not add up on a replica. After a mix is found, the units of each way that its own requests really
take are compared with the sum of their loads, the way's loads are scaled by the ratio, and the mix is found again.
Where requests do not go together on a way at any rate, some of them leave it. What each loss leaves is rated the same
way, with requests split over it anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from gpufleet.domain.arrays import BoolArray, FloatArray, IntArray
from gpufleet.domain.mix import Mix, MixProblem
from gpufleet.optimize.demand import Demand
from gpufleet.optimize.mixes.balance import even_split, on_units
from gpufleet.optimize.mixes.rates import Service
from gpufleet.optimize.mixes.reach import RegionKey
from gpufleet.optimize.mixes.search import Sought
from gpufleet.optimize.mixes.survival import failures, survivals
from gpufleet.optimize.mixes.ways import Posed, Way
from gpufleet.records import dataclass

MOST_ROUNDS, MOST_ADDITIONS = 8, 3
ENOUGH, LEAST_SHARE, WELL_PROVED = 1e-6, 1e-6, 1e-4
Solver = Callable[[MixProblem, Mix | None], Sought | None]
"""A mix that costs less than one that is known, or any; None where no more is searched."""


@dataclass(frozen=True, eq=False)
class Rated:
    """A mix with what its ways sustain of the requests that they are sent.

    `problem`: that whose loads it was found by. `needed_units`: [way], units that the mixed requests take, infinite
    where their objectives do not hold at any rate. `requests_per_s`: [way], what one replica sustains of its mixture.
    `missing_units`: [way], how many more it would take, also where something is lost. `over_ratio`: [way], the units
    that mixed requests take over the sum of their loads, the largest of all that may be lost. `clashes`: [bucket, way],
    requests that are sent together and do not hold at any rate.
    """

    problem: MixProblem
    mix: Mix
    needed_units: FloatArray
    requests_per_s: FloatArray
    missing_units: FloatArray
    over_ratio: FloatArray
    clashes: BoolArray

    @property
    def is_sound(self) -> bool:
        """Whether all objectives hold, whatever is lost of what may be."""
        return bool(np.all(self.missing_units <= self.mix.units * ENOUGH))


def corrected_mix(posed: Posed, solve: Solver, first: Rated | None = None) -> Rated | None:
    """The cheapest sound mix of a few rounds, each with as many units more as it takes; None where there is none.

    `first`: a mix that is known to be sound, such as one machine type for each service. The first round's loads are
    those of requests as they come, so that nothing that is sent whole looks dearer than it is; what a round finds is
    rated, and its loads are those of the next one. What the last of them proves is claimed, else the least of all.
    """
    problem, best, proved = replace(posed.problem, load_units=loads_as_they_come(posed)), first, np.inf
    for _ in range(MOST_ROUNDS):
        sought = solve(problem, None if best is None else best.mix)
        mix = None if sought is None else sought.mix
        if mix is None:
            proved = proved if sought is None else sought.least_usd_per_hour
            break
        is_proved = mix.gap_ratio < WELL_PROVED
        if np.isinf(proved) or is_proved:
            proved = min(proved, mix.least_usd_per_hour)
        last = rated(posed, problem, replace(mix, share=without_crumbs(mix.share)))
        sound = with_units_more(posed, last)
        if sound is not None and (best is None or sound.mix.usd_per_hour < best.mix.usd_per_hour):
            best = sound
        if not last.clashes.any() and np.all(np.abs(last.over_ratio - 1) < ENOUGH):
            proved = mix.least_usd_per_hour if is_proved else proved
            break
        problem = replace(problem, load_units=parted(posed, last) * last.over_ratio[None, :])
    return None if best is None else proved_to(best, proved)


def loads_as_they_come(posed: Posed) -> FloatArray:
    """Loads of which those of a way add up to what all requests of its service, mixed as they come, take there.

    Each length alone keeps every percentile of its own, so that the sum of them all takes more than the whole. Loads of
    places are left: limits are kept at the users of each.
    """
    problem, loads = posed.problem, posed.problem.load_units.copy()
    for w, way in enumerate(posed.ways):
        service, rows = posed.services[way.service], posed.buckets_of(way.service)
        rate = 0.0 if service.reach is not None else float(service.whole_requests_per_s[way.row])
        if way.request_class is None and rate > 0 and np.all(np.isfinite(loads[rows, w])):
            whole = service.question.demand.planned_requests_per_s / (rate * problem.replicas_per_unit[w])
            loads[rows, w] *= whole / loads[rows, w].sum()
    return np.asarray(loads)


def cut_as(posed: Posed, whole: Posed, found: Rated) -> Rated | None:
    """A mix that sends each service's requests as they come, where they are told apart; None where a way is missing."""
    at = {(way.service, way.row, posed.offers[way.offer], way.request_class): w for w, way in enumerate(posed.ways)}
    of_offer = {offer: o for o, offer in enumerate(posed.offers)}
    units, share = np.zeros(len(posed.ways)), np.zeros_like(posed.problem.load_units)
    for w in np.flatnonzero(found.mix.units > 0):
        way = whole.ways[w]
        to = at.get((way.service, way.row, whole.offers[way.offer], way.request_class))
        if to is None:
            return None
        units[to] += found.mix.units[w]
        of_class = [b.request_class for b in whole.services[way.service].buckets]
        for c, part in zip(of_class, found.mix.share[whole.buckets_of(way.service), w], strict=True):
            share[buckets_of_class(posed, way.service, c.name), to] += part
    machines = np.zeros(len(posed.offers))
    for o in np.flatnonzero(found.mix.machines > 0):
        machines[of_offer[whole.offers[o]]] = found.mix.machines[o]
    mix = Mix(machines, units, share, posed.problem.cost_usd_per_hour(machines, share))
    sound = rated(posed, replace(posed.problem, load_units=loads_as_they_come(posed)), mix)
    return sound if sound.is_sound else None


def proved_to(found: Rated, usd_per_hour: float) -> Rated:
    """A mix with what no mix costs less than."""
    least = min(usd_per_hour, found.mix.usd_per_hour) if np.isfinite(usd_per_hour) else 0.0
    return replace(found, mix=replace(found.mix, least_usd_per_hour=least))


def parted(posed: Posed, found: Rated) -> FloatArray:
    """Loads where of requests that do not go together on a way some leave it, if they have another way to go."""
    loads = found.problem.load_units.copy()
    for w in np.flatnonzero(found.clashes.any(axis=0)):
        for bucket in leaving(posed, found, int(w)):
            if np.isfinite(loads[bucket]).sum() > 1:
                loads[bucket, w] = np.inf
    return np.asarray(loads)


def leaving(posed: Posed, found: Rated, w: int) -> IntArray:
    """Buckets that leave a way: of several classes the one of least load there, of one class the slowest bucket."""
    buckets = np.flatnonzero(found.clashes[:, w])
    loads, service = found.problem.load_units[buckets, w], posed.services[posed.ways[w].service]
    first = posed.buckets_of(posed.ways[w].service)[0]
    of_class = np.array([service.classes.index(service.buckets[b - first].request_class) for b in buckets])
    if len(np.unique(of_class)) == 1:
        return np.asarray(buckets[[np.argmax(loads / service.planned_requests_per_s[buckets - first])]])
    load_of_class = np.bincount(of_class, loads, len(service.classes))
    is_here = np.isin(np.arange(len(load_of_class)), of_class)
    return np.asarray(buckets[of_class == np.argmin(np.where(is_here, load_of_class, np.inf))])


def rated(posed: Posed, problem: MixProblem, mix: Mix) -> Rated:
    """A mix, each way rated by the requests that it is sent, and by those that it is sent where something is lost."""
    needed, rates = as_sent(posed, problem, mix.share)
    missing, ratio = np.maximum(needed - mix.units, 0.0), over_loads(problem, mix.share, needed)
    clashes = (mix.share > 0) & np.isinf(needed)[None, :]
    for left in (x for x in all_that_is_left(problem, mix) if np.any(needed > x * (1 + ENOUGH))):
        share = split_anew(problem, left)
        if share is None:
            missing = np.maximum(missing, needed - left)
            continue
        then, _ = as_sent(posed, problem, share)
        missing, ratio = np.maximum(missing, then - left), np.maximum(ratio, over_loads(problem, share, then))
        clashes |= (share > 0) & np.isinf(then)[None, :]
    return Rated(problem, mix, needed, rates, missing, ratio, clashes)


def as_sent(posed: Posed, problem: MixProblem, share: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Units that shares of the buckets take of each way, mixed there, and what one replica sustains of them."""
    needed, rates = np.zeros(problem.num_ways), np.zeros(problem.num_ways)
    for w, way in enumerate(posed.ways):
        service, rows = posed.services[way.service], posed.buckets_of(way.service)
        demand = service.sent(share[rows, w])
        if demand is None:
            continue
        rates[w] = service.sustained_as_sent(demand, share[rows, w], way.row, region_of(posed, way))
        planned = demand.planned_requests_per_s
        needed[w] = planned / (rates[w] * problem.replicas_per_unit[w]) if rates[w] else np.inf
    return needed, rates


def region_of(posed: Posed, way: Way) -> RegionKey:
    """Where a way's machines stand."""
    offer = posed.offers[way.offer]
    return offer.cloud, offer.region


def all_that_is_left(problem: MixProblem, mix: Mix) -> Iterator[FloatArray]:
    """Units that are left, [way], after each loss that the mix has to survive."""
    for loss in (*problem.losses, *failures(mix.units, problem.spare_machines)):
        yield loss.left(mix.units)


def split_anew(problem: MixProblem, units: FloatArray) -> FloatArray | None:
    """Shares of the buckets over these units, the busiest least busy, [bucket, way]; None where they do not carry."""
    there = on_units(problem, units)
    if not np.all(np.isfinite(there.load_units).any(axis=1)):
        return None
    share = np.zeros_like(there.load_units)
    for service, test in enumerate(survivals(there)):
        if test.missed(units[test.ways]) is not None:
            return None
        buckets = np.flatnonzero(problem.service_of_bucket == service)
        share[np.ix_(buckets, test.ways)] = even_split(test, units[test.ways])
    return without_crumbs(share)


def without_crumbs(share: FloatArray) -> FloatArray:
    """Shares without what rounding leaves."""
    kept = np.where(share < LEAST_SHARE, 0.0, share)
    return np.asarray(kept / kept.sum(axis=1, keepdims=True))


def over_loads(problem: MixProblem, share: FloatArray, needed: FloatArray) -> FloatArray:
    """Units that mixed requests take over the sum of their loads, [way]; 1 where they do not go together."""
    used = problem.used_units(share)
    busy = used > 0
    ratio = np.where(busy, needed / np.where(busy, used, 1.0), 1.0)
    return np.where(np.isfinite(ratio), ratio, 1.0)


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


def on_one_type(posed: Posed) -> Rated | None:
    """The cheaper of each service whole on one way, and each of its classes on one; None where limits forbid both."""
    whole = whole_on_one_way(posed, [(s, None) for s in range(len(posed.services))])
    apart = [(s, c.name) for s, service in enumerate(posed.services) for c in service.classes]
    if len(apart) == len(posed.services):
        return whole
    by_class = whole_on_one_way(posed, apart)
    return whole if by_class is None or (whole and whole.mix.usd_per_hour <= by_class.mix.usd_per_hour) else by_class


def whole_on_one_way(posed: Posed, groups: Sequence[tuple[int, str | None]]) -> Rated | None:
    """Each group of requests, a service's class or all of them, on the one way that is cheapest beside those before it.

    None where limits forbid that.
    """
    problem = posed.problem
    share, units = np.zeros_like(problem.load_units), np.zeros(problem.num_ways)
    for s, kind in groups:
        rows = buckets_of_class(posed, s, kind)
        chosen = cheapest_alone(posed, units, s, kind)
        if chosen is None:
            return None
        way, units = chosen
        share[rows, way] = 1.0
    machines = problem.machines_of(units)
    if not problem.allows(machines):
        return None
    found = rated(posed, problem, Mix(machines, units, share, problem.cost_usd_per_hour(machines, share)))
    return found if found.is_sound else None


def buckets_of_class(posed: Posed, s: int, kind: str | None) -> IntArray:
    """Rows of the buckets of a service that are of a class, or all."""
    rows = posed.buckets_of(s)
    return rows[[kind in (None, bucket.request_class.name) for bucket in posed.services[s].buckets]]


def cheapest_alone(posed: Posed, units: FloatArray, s: int, kind: str | None) -> tuple[int, FloatArray] | None:
    """The way that carries a group at least cost beside these units, on room of their machines or on further ones.

    Within what may be had; with all units then.
    """
    problem, service = posed.problem, posed.services[s]
    of_kind = np.array([float(kind in (None, bucket.request_class.name)) for bucket in service.buckets])
    demand = service.sent(of_kind)
    assert demand is not None, "a class has requests"
    before = problem.machines_of(units)
    ways = [w for w, way in enumerate(posed.ways) if way.service == s and way.request_class == kind]
    rates = dict(zip(ways, rates_alone(posed, service, demand, of_kind, ways), strict=True))
    count = {w: units_alone(problem, w, rates[w], demand.planned_requests_per_s) for w in ways}
    more = {w: units + n * (np.arange(problem.num_ways) == w) for w, n in count.items() if np.isfinite(n)}
    machines = {w: problem.machines_of(held) for w, held in more.items()}
    sent = of_kind @ problem.sending[posed.buckets_of(s)]
    usd = {w: float((held - before) @ problem.usd_per_hour + sent[w]) for w, held in machines.items()}
    for w in sorted(usd, key=usd.__getitem__):
        if may_be_had(problem, machines[w]):
            return w, more[w]
    return None


def rates_alone(
    posed: Posed, service: Service, demand: Demand, share: FloatArray, ways: Sequence[int]
) -> Iterator[float]:
    """What a replica of each way sustains of a group   [1/s]; limits hold at users where these are stated."""
    if service.reach is None:
        of_rows = service.sustained_of(demand, service.every)
        yield from (float(of_rows[posed.ways[w].row]) for w in ways)
    else:
        for way in (posed.ways[w] for w in ways):
            yield service.sustained_as_sent(demand, share, way.row, region_of(posed, way))


def may_be_had(problem: MixProblem, machines: FloatArray) -> bool:
    """Whether so many machines are within every quota and the budget, whatever is bought beside them."""
    counted = (limit for limit in problem.limits if np.all(limit.per_machine >= 0))
    within = all(float(limit.per_machine @ machines) <= limit.most * (1 + ENOUGH) for limit in counted)
    return within and bool(np.all(machines <= problem.most_machines))


def units_alone(problem: MixProblem, w: int, requests_per_s: float, planned: float) -> float:
    """Units of one way whose replicas sustain so much that carry a rate, whatever is lost; infinite where none do."""
    each = problem.replicas_per_unit[w]
    least = max(1.0, problem.least_replicas[problem.service_of_way[w]] / each)
    needed = max(units_for(requests_per_s * each, planned), least)
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
