"""What serves a whole service from one region: the cheapest machines of one offer."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from gpufleet.domain.mix import ROUNDING
from gpufleet.domain.offer import Offer
from gpufleet.optimize.demand import Demand
from gpufleet.optimize.market import effective_price
from gpufleet.optimize.mixes.rates import Service
from gpufleet.optimize.mixes.reach import RegionKey
from gpufleet.optimize.mixes.ways import Posed


def region_of(offer: Offer) -> RegionKey:
    """The region of an offer."""
    return offer.cloud, offer.region


class Alone(NamedTuple):
    """Machines of one offer that serve a whole service, `each` with so many replicas of a row."""

    offer: Offer
    row: int
    each: int
    machines: int

    @property
    def usd_per_hour(self) -> float:
        """What they cost."""
        return self.machines * effective_price(self.offer)


def cheapest_alone(posed: Posed, service: int, key: RegionKey) -> Alone | None:
    """The cheapest machines of one offer in a region that carry a whole service; None where none does."""
    s = posed.services[service]
    found: list[Alone] = []
    for offer in (o for o in s.question.offers if region_of(o) == key):
        for row, each in posed.layouts[service].get((offer.cloud, offer.instance), ()):
            rates = s.rates_from(key, [row])[:, 0] if s.reach else s.whole_requests_per_s[[row] * len(s.buckets)]
            if np.all(rates > 0):
                count = machines_for(float(np.sum(s.planned_requests_per_s / (rates * each))), s.question.demand, each)
                found.append(Alone(offer, row, each, count))
    ordered = sorted(found, key=lambda a: (a.usd_per_hour, a.offer.instance, a.offer.price_kind.value))
    mixed = (as_mixed(s, key, alone) for alone in ordered)
    return next((alone for alone in mixed if alone is not None and alone.offer.can_supply(alone.machines)), None)


def as_mixed(service: Service, key: RegionKey, alone: Alone) -> Alone | None:
    """The same with as many machines as all requests take together; None where they do not go together."""
    rate, demand = service.sustained_whole(alone.row, key) * alone.each, service.question.demand
    if not rate > 0:
        return None
    return alone._replace(machines=machines_for(demand.planned_requests_per_s / rate, demand, alone.each))


def machines_for(load: float, demand: Demand, each: int) -> int:
    """Machines for a load, at least the copies that were asked for, and those that may fail."""
    return max(math.ceil(load - ROUNDING), -(-demand.min_replicas // each)) + demand.spare_machines
