"""Which machine type wins as rate, limits or prices move: `market.rank` over arrays of machine types."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from functools import cached_property

import numpy as np

from gpufleet.domain.arrays import BoolArray, FloatArray, Floats, IntArray
from gpufleet.domain.instance import Instance
from gpufleet.domain.offer import GpuQuota, Offer, PriceKind
from gpufleet.optimize.demand import Demand
from gpufleet.optimize.market import (
    BY_THE_HOUR,
    Purse,
    effective_price,
    likely_price,
    machines_usd,
    on_demand_beside,
    steady_machines,
)
from gpufleet.optimize.placement import (
    Hosted,
    doubt_ratio,
    machines_for,
    once_per_host,
    over_hours,
    weighed_requests_per_s,
)
from gpufleet.optimize.sensible import SensibleSize
from gpufleet.optimize.service import AnyQuestion, AnySolution
from gpufleet.optimize.size import Capacity
from gpufleet.records import dataclass

NOBODY, MOST_MULTIPLES, RATES_AT_ONCE, FEW_RATES = -1, 20_000, 128, 8
Key = tuple[str, str, str]


def key_of(offer: Offer) -> Key:
    """What a row of the ranking stands for: a machine type at a price kind, in any region."""
    return offer.cloud, offer.instance, offer.price_kind.value


@dataclass(frozen=True)
class Hosts:
    """Machine types and what they can hold: one element per pair of a type and a copy.

    Pairs of one type stand together, from `first_pair[type]` on.
    """

    instances: tuple[Instance, ...]
    first_pair: IntArray
    row: IntArray
    per_machine: FloatArray

    @classmethod
    def of(cls, question: AnyQuestion, copies: Hosted) -> Hosts:
        """All machine types with a price that hold any copy."""
        sold = {(o.cloud, o.instance) for o in question.offers}
        machines = [i for i in question.instances if (i.cloud, i.name) in sold]
        hosted = once_per_host(machines, copies.on)
        kept = [(i, rows) for i, rows in hosted if len(rows)]
        sizes = np.array([len(rows) for _, rows in kept], dtype=np.int64)
        devices = copies.num_devices
        return cls(
            tuple(i for i, _ in kept),
            np.cumsum(sizes) - sizes,
            np.concatenate([rows for _, rows in kept]) if kept else np.zeros(0, dtype=np.int64),
            np.concatenate([np.floor(i.gpu_count / devices[rows]) for i, rows in kept]) if kept else np.zeros(0),
        )

    @cached_property
    def of_pair(self) -> IntArray:
        """The machine type of every pair."""
        sizes = np.diff(np.append(self.first_pair, len(self.row)))
        return np.repeat(np.arange(len(self.instances)), sizes)

    def doubts(self, machines: FloatArray, found: Capacity, demand: Demand, rates: FloatArray) -> FloatArray | None:
        """How often the cost of each pair with so many machines counts [pair, rate]; None where doubt has no weight."""
        surely = weighed_requests_per_s(found, demand)
        if surely is None:
            return None
        return doubt_ratio(machines, self.needed(surely, demand, rates), demand.steady_ratio)

    def needed(self, requests_per_s: FloatArray, demand: Demand, rates: FloatArray) -> FloatArray:
        """Machines that every pair needs at each rate [pair, rate]; infinite where it cannot serve."""
        planned = rates * demand.planned_ratio
        with np.errstate(divide="ignore"):
            return machines_for(planned[None, :], self.per_machine[:, None], requests_per_s[self.row][:, None], demand)

    def counts(self, found: Capacity, demand: Demand, rates: Floats) -> Counts:
        """Machines of each type at each rate [type, rate], of the candidate that `size.place` chooses."""
        asked = np.atleast_1d(np.asarray(rates, dtype=np.float64))
        if not self.instances:
            return Counts(*np.zeros((3, 0, len(asked))))
        hosts = self.unbeaten(found, demand) if len(asked) > FEW_RATES else self
        blocks = np.split(asked, range(RATES_AT_ONCE, len(asked), RATES_AT_ONCE))
        parts = [hosts._counts(found, demand, block) for block in blocks]
        return Counts(*(np.concatenate([getattr(part, f.name) for part in parts], axis=1) for f in fields(Counts)))

    def unbeaten(self, found: Capacity, demand: Demand) -> Hosts:
        """Of each type the pairs that no other beats at any rate: of those that need the same least number of machines,
        the one with most capacity, where a choice weighs how surely they hold also the one with most halfway to
        certainty, and those between."""
        surely = weighed_requests_per_s(found, demand)
        of_row = (found.requests_per_s, found.requests_per_s if surely is None else surely)
        kept, sure = (self.per_machine * each[self.row] for each in of_row)
        least = np.ceil(demand.min_replicas / self.per_machine).astype(np.int64)
        _, group = np.unique(np.stack([self.of_pair, least]), axis=1, return_inverse=True)
        pairs = unbeaten_in_both(kept, sure, group.ravel())
        first = np.searchsorted(self.of_pair[pairs], np.arange(len(self.instances)))
        return Hosts(self.instances, first, self.row[pairs], self.per_machine[pairs])

    def _counts(self, found: Capacity, demand: Demand, asked: FloatArray) -> Counts:
        """The same of a few rates, whose numbers of all pairs fit the cache of a processor."""
        busy, first = self.needed(found.requests_per_s, demand, asked), self.first_pair
        doubt = self.doubts(busy, found, demand, asked)
        if demand.quiet is None:
            counted = busy if doubt is None else busy * doubt
            least = np.asarray(np.minimum.reduceat(counted, first, axis=0))
            if doubt is None:
                return Counts(least, least, np.ones_like(least))
            is_least = counted == least[self.of_pair]
            fewest = np.minimum.reduceat(np.where(is_least, busy, np.inf), first, axis=0)
            is_chosen = is_least & (busy == fewest[self.of_pair])
            return Counts(fewest, fewest, np.minimum.reduceat(np.where(is_chosen, doubt, np.inf), first, axis=0))
        quiet = self.needed(found.requests_per_s, demand, np.array([demand.quiet.rate_requests_per_s]))
        doubt = np.ones_like(busy) if doubt is None else doubt
        chosen = self.chosen(busy, np.asarray(over_hours(demand.busy_ratio, busy, quiet)), doubt, found.requests_per_s)
        return Counts(
            np.take_along_axis(busy, chosen, axis=0), quiet[chosen, 0], np.take_along_axis(doubt, chosen, axis=0)
        )

    def chosen(self, busy: FloatArray, paid: FloatArray, doubt: FloatArray, requests_per_s: FloatArray) -> IntArray:
        """The pair of each type that counts the fewest machines; of equals the fewest paid, then most capacity."""
        carried = np.where(np.isfinite(busy), busy, 0.0) * (self.per_machine * requests_per_s[self.row])[:, None]
        is_open = np.ones_like(busy, dtype=np.bool_)
        for key in (paid * doubt, paid, -carried):
            among = np.where(is_open, key, np.inf)
            is_open &= among == np.minimum.reduceat(among, self.first_pair, axis=0)[self.of_pair]
        pair = np.where(is_open, np.arange(len(self.row))[:, None], len(self.row))
        return np.asarray(np.minimum.reduceat(pair, self.first_pair, axis=0))


@dataclass(frozen=True)
class Counts:
    """Machines at the asked rate, and those that are kept in quiet hours; how often their cost counts   [.., rate]."""

    machines: FloatArray
    quiet: FloatArray
    doubt_ratio: FloatArray

    def at_each(self, entrants: IntArray) -> Counts:
        """Those of one entrant a rate, a row each [rate, 1]."""
        places = entrants, np.arange(len(entrants))
        return Counts(*(getattr(self, f.name)[places][:, None] for f in fields(self)))

    def of(self, entrants: IntArray) -> Counts:
        """Those of some entrants, in their order."""
        return Counts(self.machines[entrants], self.quiet[entrants], self.doubt_ratio[entrants])


@dataclass(frozen=True)
class Contest:
    """Offers that may win, with the machine type that each sells (`host`).

    Entrants stand in the order that decides between equals. Of one type and price kind only regions take part that no
    other beats in price, in how many there are, and in the price of what is bought beside machines that may not all
    be spot (`steady`; `steady_usd_per_hour` is 0 where all may be).
    """

    hosts: Hosts
    offers: tuple[Offer, ...]
    steady: tuple[Offer | None, ...]
    host: IntArray
    usd_per_hour: FloatArray
    steady_usd_per_hour: FloatArray
    purse: Purse

    @classmethod
    def of(cls, question: AnyQuestion, solution: AnySolution) -> Contest:
        """The contest of all offers whose machines hold any copy of a solution."""
        return cls.among(question, solution.copies)

    @classmethod
    def among(cls, question: AnyQuestion, copies: Hosted) -> Contest:
        """The contest of all offers whose machines hold any of these copies."""
        hosts = Hosts.of(question, copies)
        place = {(i.cloud, i.name): at for at, i in enumerate(hosts.instances)}
        steady = steady_of(question)
        offers = [o for o in unbeaten(question.offers, steady) if (o.cloud, o.instance) in place]
        beside = [bought_beside(o, steady) for o in offers]
        return cls(
            hosts,
            tuple(offers),
            tuple(beside),
            np.array([place[o.cloud, o.instance] for o in offers], dtype=np.int64),
            np.array([effective_price(o) for o in offers], dtype=np.float64),
            np.array([0.0 if o is None else effective_price(o) for o in beside], dtype=np.float64),
            question.purse,
        )

    def counts(self, found: Capacity, demand: Demand, rates: Floats) -> Counts:
        """Machines of every entrant at each rate [entrant, rate]."""
        return self.hosts.counts(found, demand, rates).of(self.host)

    def sensible(self, counts: Counts, for_load: Counts, size: SensibleSize) -> Counts:
        """The same but for numbers that nobody would rent, beside those that carry the load without limits."""
        gpus = np.array([instance.gpu_count for instance in self.hosts.instances], dtype=np.float64)[self.host]
        most = size.most_machines(for_load.machines, gpus[:, None])
        return replace(counts, machines=np.where(counts.machines <= most, counts.machines, np.inf))

    def costs(self, found: Capacity, demand: Demand, rates: Floats) -> FloatArray:
        """USD per hour that every entrant counts at each rate [entrant, rate]."""
        return self.usd_of(np.arange(len(self.offers)), self.counts(found, demand, rates), demand)

    def usd_of(self, entrant: IntArray, counts: Counts, demand: Demand) -> FloatArray:
        """USD per hour that these entrants count by now; infinite where so many cannot be had or paid for.

        The cost of `machines_usd` over the busy and the quiet hours, each with its own number, each price times
        what one likely pays by now over it (`age_ratio`), and all of it so many times for the doubt that it holds
        (`doubt_ratio`).
        """
        sold = counts.machines <= self.supply[entrant][:, None]
        had = np.where(np.isfinite(counts.machines), counts.machines, 0.0)
        sold &= np.isfinite(counts.machines) & (self.num_steady(entrant, had) < had)
        if math.isfinite(self.purse.most_usd_per_hour):
            sold &= self.listed_usd_of(entrant, counts, demand) <= self.purse.most_usd_per_hour
        return np.where(sold, self.likely_usd_of(entrant, counts, demand) * counts.doubt_ratio, np.inf)

    def likely_usd_of(self, entrant: IntArray, counts: Counts, demand: Demand) -> FloatArray:
        """What one likely pays for them by now, whether so many can be had or not."""
        ages = self.age_ratio[entrant], self.steady_age_ratio[entrant]
        return self.usd_at_ages(entrant, counts, demand, ages)

    def listed_usd_of(self, entrant: IntArray, counts: Counts, demand: Demand) -> FloatArray:
        """The same at the prices of their lists."""
        ones = np.ones(len(entrant))
        return self.usd_at_ages(entrant, counts, demand, (ones, ones))

    def usd_at_ages(
        self, entrant: IntArray, counts: Counts, demand: Demand, ages: tuple[FloatArray, FloatArray]
    ) -> FloatArray:
        """USD per hour where the price of each entrant, and of what stands beside it, counts so many times."""
        had = np.where(np.isfinite(counts.machines), counts.machines, 0.0)
        usd = self.machines_usd(entrant, had, ages)
        if demand.quiet is None:
            return usd
        kept = np.where(self.is_by_the_hour[entrant][:, None] & np.isfinite(counts.quiet), counts.quiet, had)
        return np.asarray(over_hours(demand.busy_ratio, usd, self.machines_usd(entrant, kept, ages)))

    def machines_usd(self, entrant: IntArray, machines: FloatArray, ages: tuple[FloatArray, FloatArray]) -> FloatArray:
        """What so many machines count, those that may not be spot on demand."""
        own, beside = self.usd_per_hour[entrant] * ages[0], self.steady_usd_per_hour[entrant] * ages[1]
        steady = self.num_steady(entrant, machines)
        return np.asarray(machines_usd(machines, steady, own[:, None], beside[:, None]))

    def num_steady(self, entrant: IntArray, machines: FloatArray) -> FloatArray:
        """How many of so many machines may not be spot."""
        may_not = steady_machines(machines, self.purse.most_spot_ratio)
        return np.where(self.is_mixed[entrant][:, None], may_not, 0.0)

    @cached_property
    def age_ratio(self) -> FloatArray:
        """What one likely pays by now over the price of each entrant."""
        return np.array([o.age_ratio for o in self.offers], dtype=np.float64)

    @cached_property
    def steady_age_ratio(self) -> FloatArray:
        """The same of what is bought beside it; 1 where nothing is."""
        return np.array([1.0 if o is None else o.age_ratio for o in self.steady], dtype=np.float64)

    @cached_property
    def is_mixed(self) -> BoolArray:
        """Entrants that buy some machines on demand beside spot."""
        return np.array([o is not None for o in self.steady], dtype=np.bool_)

    def without_bounds(self) -> Contest:
        """The same where any number of machines can be had."""
        free = tuple(replace(offer, max_instances=None, gpu_quotas=()) for offer in self.offers)
        return replace(self, offers=free)

    @cached_property
    def supply(self) -> FloatArray:
        """How many machines of each entrant can be had."""
        return np.array([supply_of(o) for o in self.offers], dtype=np.float64)

    @cached_property
    def is_by_the_hour(self) -> BoolArray:
        """Entrants whose machines are given back in quiet hours."""
        return np.array([o.price_kind in BY_THE_HOUR for o in self.offers], dtype=np.bool_)

    def members(self, key: Key) -> BoolArray:
        """Entrants of one machine type and price kind."""
        return np.array([key_of(o) == key for o in self.offers], dtype=np.bool_)

    def at_price_ratio(self, key: Key, ratio: float) -> Contest:
        """The same where the machines of one type and price kind cost so many times as much, in all regions."""
        beside = np.array([o is not None and key_of(o) == key for o in self.steady], dtype=np.bool_)
        return replace(
            self,
            usd_per_hour=self.usd_per_hour * np.where(self.members(key), ratio, 1.0),
            steady_usd_per_hour=self.steady_usd_per_hour * np.where(beside, ratio, 1.0),
        )

    def thresholds(self, found: Capacity, demand: Demand, farthest: float, entrant: int | None = None) -> Thresholds:
        """Rates from the asked one to another at which the machines of an entrant (of any, where None) are full.

        rate = n x replicas per machine x capacity / planned ratio,  n = 1, 2, ...
        So too of the capacity halfway to certainty, where a choice weighs it.
        """
        hosts, surely = self.hosts.unbeaten(found, demand), weighed_requests_per_s(found, demand)
        is_meant = np.ones(len(hosts.row), dtype=np.bool_) if entrant is None else hosts.of_pair == self.host[entrant]
        rates = (found.requests_per_s,) if surely is None else (found.requests_per_s, surely)
        steps = np.concatenate([(hosts.per_machine * each[hosts.row])[is_meant] for each in rates])
        steps = steps[steps > 0] / demand.planned_ratio
        return Thresholds.between(np.unique(steps), demand.workload.rate_requests_per_s, farthest)


def unbeaten_in_both(first: FloatArray, second: FloatArray, group: IntArray) -> IntArray:
    """Places that no other of their group reaches in both figures; of equal ones the first.

    >>> unbeaten_in_both(np.array([3.0, 2.0, 1.0, 9.0]), np.array([1.0, 2.0, 1.0, 0.0]), np.array([0, 0, 0, 1]))
    array([0, 1, 3])
    """
    order = np.lexsort((-second, -first, group))
    apart = group[order] * (second.max(initial=0.0) + 1.0)
    most = np.maximum.accumulate(np.concatenate([[-1.0], second[order] + apart]))
    return np.sort(order[second[order] + apart > most[:-1]])


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


Steady = Mapping[tuple[str, str, str], Offer]


def bought_beside(offer: Offer, steady: Steady | None) -> Offer | None:
    """What is bought beside spot machines of that region, where not all may be spot."""
    if steady is None or offer.price_kind is not PriceKind.SPOT:
        return None
    return steady.get((offer.cloud, offer.instance, offer.region))


def supply_of(offer: Offer) -> float:
    """How many machines of an offer can be had."""
    most = offer.most_instances
    return math.inf if most is None else float(most)


def steady_of(question: AnyQuestion) -> Steady | None:
    """What is bought beside spot in each region; None where all may be spot."""
    return on_demand_beside(question.offers) if question.purse.most_spot_ratio < 1 else None


def deciding_offers(question: AnyQuestion) -> list[Offer]:
    """The offers of which the answer is one, whatever the demand, and those that are bought beside them."""
    steady = steady_of(question)
    kept = unbeaten(question.offers, steady)
    beside = (bought_beside(offer, steady) for offer in kept)
    return in_order({*kept, *(offer for offer in beside if offer is not None)})


def unbeaten(offers: Sequence[Offer], steady: Steady | None) -> list[Offer]:
    """Of each machine type and price kind the regions that no other beats in price, number and price beside.

    Where `steady` names what is bought beside spot, spot without anything beside it is left out. Regions with quotas
    of GPUs of their own stay: beside other machines they are not the same.
    """
    kept: dict[tuple[Key, tuple[GpuQuota, ...]], list[tuple[float, float, Offer]]] = {}
    for offer in sorted(offers, key=lambda o: (likely_price(o), o.region)):
        beside = bought_beside(offer, steady)
        if beside is None and steady is not None and offer.price_kind is PriceKind.SPOT:
            continue
        had, price = supply_of(offer), 0.0 if beside is None else effective_price(beside)
        rivals = kept.setdefault((key_of(offer), offer.gpu_quotas), [])
        if not any(number >= had and usd <= price for number, usd, _ in rivals):
            rivals.append((had, price, offer))
    return in_order(offer for rivals in kept.values() for _, _, offer in rivals)


def in_order(offers: Iterable[Offer]) -> list[Offer]:
    """Offers in the order that decides between equal costs."""
    return sorted(offers, key=lambda o: (o.cloud, o.instance, o.region, o.price_kind))


def winners(costs: FloatArray) -> IntArray:
    """The cheapest entrant at each rate, NOBODY where none serves."""
    if not len(costs):
        return np.full(costs.shape[1], NOBODY)
    return np.where(np.isfinite(costs.min(axis=0)), costs.argmin(axis=0), NOBODY)
