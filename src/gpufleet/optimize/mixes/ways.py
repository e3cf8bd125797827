"""From services and offers to the problem of a mix: layouts worth using, offers worth buying, loads."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from gpufleet.domain.arrays import FloatArray, IntArray
from gpufleet.domain.instance import Instance
from gpufleet.domain.mix import MixProblem
from gpufleet.domain.offer import Offer
from gpufleet.optimize.market import effective_price
from gpufleet.optimize.mixes.rates import Service
from gpufleet.optimize.mixes.terms import Terms
from gpufleet.records import dataclass

MOST_LAYOUTS, MOST_OFFERS = 2, 48
WORTH_RATIO = 3.0
"""An offer is looked at where it carries some bucket at up to so many times the cheapest price of that bucket."""


Layouts = Mapping[tuple[str, str], Sequence[tuple[int, int]]]


@dataclass(frozen=True)
class Way:
    """A layout of a service on machines of an offer, of which one machine holds so many replicas."""

    service: int
    row: int
    offer: int
    replicas_per_machine: int


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

    def buckets_of(self, service: int) -> IntArray:
        """Rows of the buckets of a service."""
        return np.flatnonzero(self.problem.service_of_bucket == service)


@dataclass(frozen=True)
class Today:
    """Machines that run now, by their cloud and type, and what giving one up costs for each hour of the new fleet."""

    machines: Mapping[tuple[str, str], int]
    leaving_usd_per_hour: float = 0.0


NOTHING = Today({})


def pose(services: Sequence[Service], terms: Terms, today: Today = NOTHING) -> Posed:
    """The problem of services under terms: offers from all of their markets that are worth buying."""
    of_every_size = len(services) > 1 and not terms.has_losses
    layouts = [dict(layouts_of(service, of_every_size)) for service in services]
    offers = worth_buying(services, layouts, terms)
    instances = {(i.cloud, i.name): i for service in services for i in service.question.instances}
    machines = tuple(instances[offer.cloud, offer.instance] for offer in offers)
    ways = [
        Way(s, row, o, each)
        for s, service in enumerate(services)
        for o, offer in enumerate(offers)
        if offer in sold_to(service)
        for row, each in layouts[s].get((offer.cloud, offer.instance), ())
    ]
    problem = problem_of(services, ways, offers, machines, terms, today)
    return Posed(problem, tuple(ways), offers, machines, tuple(services), tuple(layouts))


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
        rates = service.rates_from((offer.cloud, offer.region), [way.row])[:, 0] * replicas_per_unit[w]
        with np.errstate(divide="ignore"):
            found[first[way.service] : first[way.service + 1], w] = service.planned_requests_per_s / rates
    return found


def sending(services: Sequence[Service], ways: Sequence[Way], offers: Sequence[Offer], terms: Terms) -> FloatArray:
    """What each bucket's answers cost on their way out of the regions of ways   [USD/h], [bucket, way]."""
    tokens_per_s = np.concatenate([service.answer_tokens_per_s for service in services])
    return np.stack([terms.sending_usd_per_hour(tokens_per_s, offers[way.offer]) for way in ways], axis=1)


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
    """The layout of least load over all buckets that it carries, and that of the buckets that it does not."""
    each = np.floor(instance.gpu_count / service.every.num_devices[rows])
    carried = service.requests_per_s[:, rows] * each
    kept: list[tuple[int, int]] = []
    missing = np.ones(len(carried), dtype=np.bool_)
    while len(kept) < MOST_LAYOUTS and missing.any() and len(rows):
        with np.errstate(divide="ignore"):
            load = service.planned_requests_per_s[:, None] / carried
        covers = (np.isfinite(load) & missing[:, None]).sum(axis=0)
        total = np.where(np.isfinite(load), load, 0.0).sum(axis=0)
        at = int(np.lexsort((rows, total, -covers))[0])
        if not covers[at]:
            break
        kept.append((int(rows[at]), int(each[at])))
        missing &= ~np.isfinite(load[:, at])
    return kept


def sold_to(service: Service) -> frozenset[Offer]:
    """The offers that a service may use."""
    return frozenset(service.question.offers)


def worth_buying(services: Sequence[Service], layouts: Sequence[Layouts], terms: Terms) -> tuple[Offer, ...]:
    """Offers that carry some bucket at a price near the cheapest of its cloud, where clouds have shares, or of all.

    Of offers that differ in their region alone the cheapest are kept, up to the first of which any number can be had;
    of every region where one may be lost.
    """
    usd = [usd_per_bucket(service, held, terms) for service, held in zip(services, layouts, strict=True)]
    ratio: dict[Offer, float] = {}
    clouds = {share.cloud for share in terms.shares}
    for of_service in usd:
        for group in by_cloud(of_service, clouds):
            best = np.min([cost for _, cost in group], axis=0)
            for offer, cost in group:
                with np.errstate(invalid="ignore"):
                    near = float(np.nanmin(np.where(np.isfinite(cost), cost / best, np.inf)))
                ratio[offer] = min(ratio.get(offer, math.inf), near)
    keeps_regions = terms.survives_region or any(service.reach is not None for service in services)
    allowed = {offer: near for offer, near in ratio.items() if terms.may_buy(offer)}
    worth = [offer for offer in distinct(allowed, keeps_regions) if ratio[offer] <= WORTH_RATIO]
    return tuple(
        sorted(worth, key=lambda o: (ratio[o], effective_price(o), o.cloud, o.instance, o.region))[:MOST_OFFERS]
    )


def usd_per_bucket(service: Service, layouts: Layouts, terms: Terms) -> dict[Offer, FloatArray]:
    """What carrying each bucket alone costs an hour through each offer, [bucket]; infinite where it does not."""
    found, rows = {}, rows_of_regions(service, layouts)
    for offer in service.question.offers:
        held, region = layouts.get((offer.cloud, offer.instance), ()), (offer.cloud, offer.region)
        if held:
            rates = dict(zip(rows[region], service.rates_from(region, rows[region]).T, strict=True))
            carried = np.array([rates[row] * each for row, each in held]).max(axis=0)
            sent = terms.sending_usd_per_hour(service.answer_tokens_per_s, offer)
            with np.errstate(divide="ignore"):
                found[offer] = effective_price(offer) * service.planned_requests_per_s / carried + sent
    return found


def rows_of_regions(service: Service, layouts: Layouts) -> dict[tuple[str, str], list[int]]:
    """The layouts that machines sold in each region hold."""
    found: dict[tuple[str, str], dict[int, None]] = {}
    for offer in service.question.offers:
        rows = found.setdefault((offer.cloud, offer.region), {})
        rows.update(dict.fromkeys(row for row, _ in layouts.get((offer.cloud, offer.instance), ())))
    return {region: list(rows) for region, rows in found.items()}


def by_cloud(usd: Mapping[Offer, FloatArray], clouds: Collection[str]) -> list[list[tuple[Offer, FloatArray]]]:
    """Offers with their costs: of these clouds alone, each apart, where clouds have shares; else all together."""
    if not clouds:
        return [list(usd.items())] if usd else []
    groups = [[(o, cost) for o, cost in usd.items() if o.cloud == cloud] for cloud in sorted(clouds)]
    return [group for group in groups if group]


def distinct(offers: Mapping[Offer, float], keeps_regions: bool) -> Iterator[Offer]:
    """Of offers that are alike but for their region the cheapest, and further ones while each is bounded."""
    groups: dict[tuple[str, ...], list[Offer]] = {}
    for offer in offers:
        alike = (offer.cloud, offer.instance, offer.price_kind.value, *([offer.region] if keeps_regions else []))
        groups.setdefault(alike, []).append(offer)
    for group in groups.values():
        for offer in sorted(group, key=lambda o: (effective_price(o), o.region)):
            yield offer
            if offer.most_instances is None:
                break
