"""From services and offers to the problem of a mix: layouts worth using, offers worth buying, loads."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from gpufleet.domain.arrays import FloatArray, IntArray
from gpufleet.domain.instance import Instance
from gpufleet.domain.mix import MixProblem
from gpufleet.domain.offer import Offer, PriceKind
from gpufleet.optimize.market import effective_price
from gpufleet.optimize.mixes.rates import Service
from gpufleet.optimize.mixes.reach import RegionKey
from gpufleet.optimize.mixes.terms import Terms
from gpufleet.records import dataclass

MOST_LAYOUTS, MOST_OFFERS, MOST_OF_LOSSES, REGIONS_IN_TURN = 2, 1000, 160, 8
"""Layouts of a machine type, offers of a problem, those where a region may be lost, and regions of a type in turn."""


Layouts = Mapping[tuple[str, str], Sequence[tuple[int, int]]]


@dataclass(frozen=True)
class Way:
    """A layout of a service on machines of an offer, of which one machine holds so many replicas.

    `request_class`: the only one that is sent there; None: any. Classes whose requests disturb each other keep replicas
    of their own then.
    """

    service: int
    row: int
    offer: int
    replicas_per_machine: int
    request_class: str | None = None


@dataclass(frozen=True, eq=False)
class Posed:
    """The problem of a mix, with what its ways and offers are; buckets stand service after service."""

    problem: MixProblem
    ways: tuple[Way, ...]
    offers: tuple[Offer, ...]
    instances: tuple[Instance, ...]
    services: tuple[Service, ...]
    layouts: tuple[Layouts, ...] = ()
    """Of each service: the layouts of every machine type, as (row, replicas of a machine)."""

    @property
    def has_all_offers(self) -> bool:
        """Whether no offer was left out that no other one beats."""
        return len(self.offers) < (MOST_OF_LOSSES if self.problem.losses else MOST_OFFERS)

    def buckets_of(self, service: int) -> IntArray:
        """Rows of the buckets of a service."""
        return np.flatnonzero(self.problem.service_of_bucket == service)


@dataclass(frozen=True)
class Today:
    """Machines that run now, by their cloud and type, and what giving one up costs for each hour of the new fleet."""

    machines: Mapping[tuple[str, str], int]
    leaving_usd_per_hour: float = 0.0


NOTHING = Today({})


def pose(
    services: Sequence[Service], terms: Terms, today: Today = NOTHING, planned: Collection[Offer] = frozenset()
) -> Posed:
    """The problem of services under terms: offers from all of their markets; those `planned` are among them."""
    of_every_size = len(services) > 1 and not terms.has_losses
    layouts = [dict(layouts_of(service, of_every_size)) for service in services]
    offers = worth_buying(services, layouts, terms, planned)
    instances = {(i.cloud, i.name): i for service in services for i in service.question.instances}
    machines = tuple(instances[offer.cloud, offer.instance] for offer in offers)
    ways = [
        Way(s, row, o, each, kind)
        for s, service in enumerate(services)
        for o, offer in enumerate(offers)
        if offer in service.sold
        for row, each in layouts[s].get((offer.cloud, offer.instance), ())
        for kind in kinds_apart(service)
    ]
    problem = problem_of(services, ways, offers, machines, terms, today)
    return Posed(problem, tuple(ways), offers, machines, tuple(services), tuple(layouts))


def kinds_apart(service: Service) -> list[str | None]:
    """Whose requests a way may be for: all, and where there are several classes each alone."""
    names = [c.name for c in service.classes]
    return [None, *(names if len(names) > 1 else [])]


def problem_of(
    services: Sequence[Service],
    ways: Sequence[Way],
    offers: Sequence[Offer],
    machines: Sequence[Instance],
    terms: Terms,
    today: Today,
) -> MixProblem:
    """Loads, prices and limits as arrays; services share machines where nothing may be lost."""
    shares_machines = len(services) > 1 and not terms.has_losses
    each = np.array([way.replicas_per_machine for way in ways], dtype=np.float64)
    per_unit = np.ones(len(ways)) if shares_machines else each
    offer_of_way = np.array([way.offer for way in ways], dtype=np.int64)
    had = np.array([today.machines.get((o.cloud, o.instance), 0) for o in offers], dtype=np.float64)
    return MixProblem(
        load_units=loads(services, ways, offers, per_unit),
        service_of_bucket=np.array([s for s, x in enumerate(services) for _ in x.buckets], dtype=np.int64),
        offer_of_way=offer_of_way,
        service_of_way=np.array([way.service for way in ways], dtype=np.int64),
        replicas_per_unit=per_unit,
        machines_per_unit=per_unit / each,
        usd_per_hour=np.array([effective_price(offer) for offer in offers]),
        most_machines=np.array([math.inf if o.max_instances is None else o.max_instances for o in offers]),
        machines_today=had,
        leaving_usd_per_hour=np.where(had > 0, today.leaving_usd_per_hour, 0.0),
        least_replicas=np.array([x.question.demand.min_replicas for x in services], dtype=np.float64),
        limits=terms.limits(offers, machines),
        shares=terms.cloud_shares(offers, machines),
        losses=terms.losses(offers, offer_of_way.tolist()),
        spare_machines=terms.spare_machines,
        sending_usd_per_hour=sending(services, ways, offers, terms) if terms.usd_per_million_answer_tokens else None,
    )


def loads(
    services: Sequence[Service], ways: Sequence[Way], offers: Sequence[Offer], replicas_per_unit: FloatArray
) -> FloatArray:
    """Units of each way that carry each bucket, [bucket, way]; infinite for the ways of other services."""
    found = np.full((sum(len(x.buckets) for x in services), len(ways)), np.inf)
    first = np.cumsum([0, *(len(x.buckets) for x in services)])
    for w, way in enumerate(ways):
        service, offer = services[way.service], offers[way.offer]
        goes = np.array([way.request_class in (None, b.request_class.name) for b in service.buckets])
        sustained = service.rates_from((offer.cloud, offer.region), [way.row])[:, 0]
        rates = np.where(goes, sustained, 0.0) * replicas_per_unit[w]
        with np.errstate(divide="ignore"):
            found[first[way.service] : first[way.service + 1], w] = service.planned_requests_per_s / rates
    return found


def sending(services: Sequence[Service], ways: Sequence[Way], offers: Sequence[Offer], terms: Terms) -> FloatArray:
    """What each bucket's answers cost on their way out of the regions of ways   [USD/h], [bucket, way]."""
    tokens_per_s = np.concatenate([service.answer_tokens_per_s for service in services])
    found = [terms.sending_usd_per_hour(tokens_per_s, offers[way.offer]) for way in ways]
    return np.asarray(np.array(found).reshape(len(ways), len(tokens_per_s)).T)


def layouts_of(service: Service, of_every_size: bool) -> Iterator[tuple[tuple[str, str], list[tuple[int, int]]]]:
    """For every machine type the layouts that carry most of its buckets cheapest, as (row, replicas of a machine).

    `of_every_size`: the best of each number of GPUs, for machines that services share.
    """
    by_host: dict[object, list[tuple[int, int]]] = {}
    for instance in service.question.instances:
        if instance.host not in by_host:
            rows = service.every.on(instance)
            sizes = service.every.num_devices[rows]
            groups = [rows[sizes == size] for size in np.unique(sizes)] if of_every_size else [rows]
            by_host[instance.host] = [x for group in groups for x in best_layouts(service, instance, group)]
        if by_host[instance.host]:
            yield (instance.cloud, instance.name), by_host[instance.host]


def best_layouts(service: Service, instance: Instance, rows: IntArray) -> list[tuple[int, int]]:
    """The layout of least load over all buckets that it carries, that of the buckets that it does not, and the best of
    all requests as they come, which may hold where some length alone does not."""
    each = np.floor(instance.gpu_count / service.every.num_devices[rows])
    carried = service.requests_per_s[:, rows] * each
    kept: list[int] = []
    missing = np.ones(len(carried), dtype=np.bool_)
    while len(kept) < MOST_LAYOUTS and missing.any() and len(rows):
        with np.errstate(divide="ignore"):
            load = service.planned_requests_per_s[:, None] / carried
        covers = (np.isfinite(load) & missing[:, None]).sum(axis=0)
        total = np.where(np.isfinite(load), load, 0.0).sum(axis=0)
        at = int(np.lexsort((rows, total, -covers))[0])
        if not covers[at]:
            break
        kept.append(at)
        missing &= ~np.isfinite(load[:, at])
    whole = service.whole_requests_per_s[rows] * each
    if whole.max(initial=0.0) > max((whole[at] for at in kept), default=0.0):
        kept.append(int(np.argmax(whole)))
    return [(int(rows[at]), int(each[at])) for at in kept]


def worth_buying(
    services: Sequence[Service], layouts: Sequence[Layouts], terms: Terms, planned: Collection[Offer]
) -> tuple[Offer, ...]:
    """Offers that carry some bucket, but for those that another region of their machine type beats in everything.

    Where regions are chosen, all of them stay: of equals the cleaner or the nearer one is taken later.
    Where there are very many, those at a price near the cheapest of their group come first, of every group in turn.
    """
    ratio: dict[Offer, float] = {}
    instances = {(i.cloud, i.name): i for service in services for i in service.question.instances}
    is_bounded = {o: is_limited(o, instances[o.cloud, o.instance], terms) for service in services for o in service.sold}
    usd = [usd_per_bucket(service, held, terms) for service, held in zip(services, layouts, strict=True)]
    barred = frozenset(o for o in is_bounded if is_barred(o, instances[o.cloud, o.instance], terms))
    skipped = barred if all(carries_all(costs, barred) for costs in usd) else frozenset[Offer]()
    for costs in usd:
        open_to_all = {o: cost for o, cost in costs.items() if o not in skipped}
        for group in grouped(open_to_all, is_bounded, terms):
            best = np.min([cost for _, cost in group], axis=0)
            for offer, cost in group:
                with np.errstate(invalid="ignore"):
                    near = float(np.nanmin(np.where(np.isfinite(cost), cost / best, np.inf)))
                ratio[offer] = min(ratio.get(offer, math.inf), near)
    allowed = frozenset(offer for offer, near in ratio.items() if terms.may_buy(offer) and math.isfinite(near))
    kept = allowed if terms.survives_region else unbeaten(allowed, is_bounded, services, layouts, terms)
    ordered = sorted(kept, key=lambda o: (ratio[o], effective_price(o), o.cloud, o.instance, o.region))
    rank = dict(ranked_in_groups(types_in_turn(ordered), is_bounded, terms))
    for at, offer in enumerate(leanest(usd, allowed, terms)):
        rank[offer] = min(rank.get(offer, MOST_OFFERS), at)
    rank |= dict.fromkeys((o for o in planned if o in ratio), -1)
    return tuple(sorted(rank, key=rank.__getitem__)[: MOST_OF_LOSSES if terms.survives_region else MOST_OFFERS])


def unbeaten(
    offers: Collection[Offer],
    is_bounded: Mapping[Offer, bool],
    services: Sequence[Service],
    layouts: Sequence[Layouts],
    terms: Terms,
) -> frozenset[Offer]:
    """Offers without those that another region of the same machine type beats, of which any number can be had.

    Of equals the first by its region stays. Where users are stated all of a price stay: they go to the cleaner grid.
    """
    alike: dict[tuple[str, str, PriceKind], list[Offer]] = {}
    for offer in sorted(offers, key=lambda o: (effective_price(o), o.region)):
        alike.setdefault((offer.cloud, offer.instance, offer.price_kind), []).append(offer)
    has_users = any(service.reach is not None for service in services)
    kept: set[Offer] = set()
    for group in alike.values():
        worse = np.stack([drawbacks(offer, services, layouts, terms) for offer in group])
        is_no_worse = np.all(worse[:, None, :] <= worse[None, :, :], axis=2)
        is_no_worse &= ~np.array([is_bounded[offer] for offer in group])[:, None]
        is_less = worse[:, None, PRICE] < worse[None, :, PRICE]
        is_first = ~is_no_worse.T | np.triu(np.ones_like(is_no_worse), 1)
        beats = is_no_worse & (is_less if has_users else is_first)
        kept |= {offer for offer, is_beaten in zip(group, beats.any(axis=0), strict=True) if not is_beaten}
    return frozenset(kept)


PRICE = 0


def drawbacks(offer: Offer, services: Sequence[Service], layouts: Sequence[Layouts], terms: Terms) -> FloatArray:
    """What an offer costs (at PRICE) and emits; of each service what sending answers costs, and how little it carries.

    Comparable between offers of one machine type.
    """
    region = offer.cloud, offer.region
    found = [[effective_price(offer), terms.kg_per_hour.get((*region, offer.instance), 0.0)]]
    for service, held in zip(services, layouts, strict=True):
        rows = [row for row, _ in held.get((offer.cloud, offer.instance), ())]
        found.append(
            [float(offer not in service.sold), *terms.sending_usd_per_hour(service.answer_tokens_per_s, offer)]
        )
        if service.reach is not None and rows:
            found.append([-rate for rate in service.rates_from(region, rows).ravel()])
    return np.concatenate(found)


def types_in_turn(ordered: Sequence[Offer]) -> list[Offer]:
    """Offers, the first few regions of each machine type before any further ones.

    Else regions of the types that carry most for their price would push out a small machine that carries the rest.
    """
    seen: Counter[tuple[str, str, str]] = Counter()
    turn: dict[Offer, int] = {}
    for offer in ordered:
        alike = (offer.cloud, offer.instance, offer.price_kind.value)
        turn[offer] = seen[alike] // REGIONS_IN_TURN
        seen[alike] += 1
    return sorted(ordered, key=turn.__getitem__)


def leanest(usd: Sequence[Mapping[Offer, FloatArray]], offers: Collection[Offer], terms: Terms) -> list[Offer]:
    """Offers that emit little for what they carry, the least first, where that is limited."""
    if not math.isfinite(terms.most_kg_per_hour):
        return []
    kg: dict[Offer, float] = {}
    for costs in usd:
        for offer, cost in costs.items():
            if offer in offers:
                each = terms.kg_per_hour[offer.cloud, offer.region, offer.instance] / effective_price(offer)
                kg[offer] = min(kg.get(offer, math.inf), each * float(np.min(cost)))
    return [offer for offer in sorted(kg, key=kg.__getitem__) if math.isfinite(kg[offer])][: MOST_OFFERS // 2]


def is_limited(offer: Offer, instance: Instance, terms: Terms) -> bool:
    """Whether only so many of an offer can be had."""
    return offer.most_instances is not None or any(quota.covers(offer, instance) for quota in terms.quotas)


def is_barred(offer: Offer, instance: Instance, terms: Terms) -> bool:
    """Whether limits forbid an offer outright: a quota of none, or spot where none may be."""
    is_spot = offer.price_kind is PriceKind.SPOT
    none_had = any(quota.most_gpus == 0 and quota.covers(offer, instance) for quota in terms.quotas)
    return none_had or (is_spot and terms.most_spot_ratio <= 0)


def carries_all(usd: Mapping[Offer, FloatArray], barred: Collection[Offer]) -> bool:
    """Whether each bucket has an offer that is not barred; where not, the answer says what has to give way."""
    costs = [cost for offer, cost in usd.items() if offer not in barred]
    return bool(costs) and bool(np.all(np.isfinite(np.min(costs, axis=0))))


def group_of(offer: Offer, is_bounded: Mapping[Offer, bool], terms: Terms) -> tuple[str, bool, bool]:
    """What an offer competes in: what a limit holds back must not push out what it leaves."""
    is_spot = terms.most_spot_ratio < 1 and offer.price_kind is PriceKind.SPOT
    return (offer.cloud if terms.clouds else "", is_spot, is_bounded[offer])


def ranked_in_groups(
    ordered: Sequence[Offer], is_bounded: Mapping[Offer, bool], terms: Terms
) -> Iterator[tuple[Offer, int]]:
    """Each offer's place in its group."""
    seen: Counter[tuple[str, bool, bool]] = Counter()
    for offer in ordered:
        group = group_of(offer, is_bounded, terms)
        yield offer, seen[group]
        seen[group] += 1


def usd_per_bucket(service: Service, layouts: Layouts, terms: Terms) -> dict[Offer, FloatArray]:
    """What carrying each bucket alone, and all as they come, costs an hour through each offer, [2 (bucket + 1)].

    First as parts of machines, then on whole machines: a small machine may be cheap for little. Sending is part of it.
    Infinite where it does not carry them.
    """
    planned = np.append(service.planned_requests_per_s, service.question.demand.planned_requests_per_s)
    found, rows = {}, rows_of_regions(service, layouts)
    for offer in service.question.offers:
        held, region = layouts.get((offer.cloud, offer.instance), ()), (offer.cloud, offer.region)
        if held:
            rates = dict(zip(rows[region], with_whole(service, region, rows[region]).T, strict=True))
            carried = np.array([rates[row] * each for row, each in held]).max(axis=0)
            sent = terms.sending_usd_per_hour(service.answer_tokens_per_s, offer)
            with np.errstate(divide="ignore"):
                machines = planned / carried
            usd = effective_price(offer) * np.stack([machines, np.ceil(machines)])
            found[offer] = (usd + np.append(sent, sent.sum())).ravel()
    return found


def with_whole(service: Service, region: RegionKey, rows: Sequence[int]) -> FloatArray:
    """What rows sustain of each bucket in a region, and of all as they come, [bucket + 1, row].

    Where users are stated, all as they come are as many as the loads of their places add up to.
    """
    rates = service.rates_from(region, rows)
    if service.reach is None:
        return np.vstack([rates, service.whole_requests_per_s[list(rows)]])
    planned = service.planned_requests_per_s[:, None]
    with np.errstate(divide="ignore"):
        return np.vstack([rates, planned.sum() / (planned / rates).sum(axis=0)])


def rows_of_regions(service: Service, layouts: Layouts) -> dict[RegionKey, list[int]]:
    """The layouts that machines sold in each region hold."""
    found: dict[RegionKey, dict[int, None]] = {}
    for offer in service.question.offers:
        rows = found.setdefault((offer.cloud, offer.region), {})
        rows.update(dict.fromkeys(row for row, _ in layouts.get((offer.cloud, offer.instance), ())))
    return {region: list(rows) for region, rows in found.items()}


def grouped(
    usd: Mapping[Offer, FloatArray], is_bounded: Mapping[Offer, bool], terms: Terms
) -> list[list[tuple[Offer, FloatArray]]]:
    """Offers with their costs, each group apart; where clouds have shares, those of these clouds alone."""
    groups: dict[tuple[str, bool, bool], list[tuple[Offer, FloatArray]]] = {}
    for offer, cost in usd.items():
        if not terms.clouds or offer.cloud in terms.clouds:
            groups.setdefault(group_of(offer, is_bounded, terms), []).append((offer, cost))
    return list(groups.values())
