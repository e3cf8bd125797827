"""The one ranking of offers: what placements cost through those that sell their machines, and what may be spent."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from gpufleet.domain.arrays import Floats
from gpufleet.domain.offer import Offer, PriceKind
from gpufleet.domain.reason import Reason, Rejection
from gpufleet.optimize.placement import Placement, over_hours
from gpufleet.optimize.replicas import Rejections
from gpufleet.pricing.commitment import offer_usd_per_hour
from gpufleet.pricing.effective_price import usd_per_month
from gpufleet.records import dataclass

NO_PRICE, BEYOND_QUOTA = Reason("no_price"), Reason("beyond_quota")
ROUNDING = 1e-9
BY_THE_HOUR = (PriceKind.ON_DEMAND, PriceKind.SPOT, PriceKind.FLEX_START)


@dataclass(frozen=True)
class PricedPlacement:
    """A placement bought through an offer; `steady` sells the machines that may not be spot."""

    placement: Placement
    offer: Offer
    steady: Offer | None = None
    most_spot_ratio: float = 1.0

    def steady_count(self, machines: int) -> int:
        """How many of so many machines are bought from `steady`."""
        return 0 if self.steady is None else int(steady_machines(machines, self.most_spot_ratio))

    def machines_usd_per_hour(self, machines: int) -> float:
        """What so many machines cost."""
        beside_usd = 0.0 if self.steady is None else effective_price(self.steady)
        return float(machines_usd(machines, self.steady_count(machines), effective_price(self.offer), beside_usd))

    @property
    def by_now(self) -> PricedPlacement:
        """The same at what one likely pays by now for each part of it."""
        steady = None if self.steady is None else self.steady.at_price_ratio(self.steady.age_ratio)
        return replace(self, offer=self.offer.at_price_ratio(self.offer.age_ratio), steady=steady)

    @property
    def quiet_instance_count(self) -> int:
        """Machines that are paid for in quiet hours: what is bought for a term is paid for round the clock."""
        p = self.placement
        return p.quiet_instance_count if self.offer.price_kind in BY_THE_HOUR else p.instance_count

    @property
    def busy_usd_per_hour(self) -> float:
        """What all machines cost."""
        return float(self.machines_usd_per_hour(self.placement.instance_count))

    @property
    def quiet_steady_count(self) -> int:
        """How many of the machines in quiet hours are bought from `steady`."""
        return self.steady_count(self.quiet_instance_count)

    @property
    def likely_usd_per_hour(self) -> float:
        """The same at what one likely pays by now, where a price is of some day: to the last bit as in a contest."""
        ages = [o.age_ratio for o in (self.offer, self.steady) if o is not None]
        return self.usd_per_hour if max(ages) == min(ages) == 1 else self.by_now.usd_per_hour

    @property
    def counted_usd_per_hour(self) -> float:
        """What it counts in a choice: what one likely pays, so many times for the doubt that it holds."""
        return self.likely_usd_per_hour * self.placement.doubt_ratio

    @property
    def age_ratio(self) -> float:
        """What one likely pays by now over what the lists say   [1]."""
        if self.steady is None or not self.usd_per_hour:
            return self.offer.age_ratio
        return self.likely_usd_per_hour / self.usd_per_hour

    @property
    def usd_per_hour(self) -> float:
        """What the machines cost over all hours."""
        quiet_usd = self.machines_usd_per_hour(self.quiet_instance_count)
        return float(over_hours(self.placement.busy_ratio, self.busy_usd_per_hour, quiet_usd))


def steady_machines(machines: Floats, most_spot_ratio: float) -> Floats:
    """How many of so many machines may not be spot: n - floor(n r)   [1]."""
    return machines - np.floor(machines * most_spot_ratio + ROUNDING)


def machines_usd(machines: Floats, steady: Floats, usd_each: Floats, steady_usd_each: Floats) -> Floats:
    """What machines cost of which some are bought at another price: p (n - s) + p_steady s   [USD/h]."""
    return (machines - steady) * usd_each + steady * steady_usd_each


def effective_price(offer: Offer) -> float:
    """Hourly price of one instance of an offer."""
    return offer_usd_per_hour(offer)


def likely_price(offer: Offer) -> float:
    """What one likely pays for it by now."""
    return effective_price(offer) * offer.age_ratio


def rank(
    placements: Iterable[Placement], offers: Sequence[Offer], most_spot_ratio: float = 1.0
) -> list[PricedPlacement]:
    """Every placement through every offer that can supply its machines, what counts least first; ties in a fixed order.

    Where not all may be spot, the others are bought on demand in the same region.
    """
    by_type = {(p.instance.cloud, p.instance.name): p for p in placements}
    priced = [PricedPlacement(by_type[key], o) for o in offers if (key := (o.cloud, o.instance)) in by_type]
    if most_spot_ratio < 1:
        priced = partly_steady(priced, on_demand_beside(offers), most_spot_ratio)
    had = (p for p in priced if p.offer.can_supply(p.placement.instance_count))
    return sorted(
        had, key=lambda p: (p.counted_usd_per_hour, p.offer.cloud, p.offer.instance, p.offer.region, p.offer.price_kind)
    )


def partly_steady(
    priced: Iterable[PricedPlacement], steady: Mapping[tuple[str, str, str], Offer], most_spot_ratio: float
) -> list[PricedPlacement]:
    """The same with no more than a share of the machines on spot; what leaves no machine on spot is dropped."""
    kept = []
    for p in priced:
        if p.offer.price_kind is not PriceKind.SPOT:
            kept.append(p)
        elif (beside := steady.get((p.offer.cloud, p.offer.instance, p.offer.region))) is not None:
            mixed = replace(p, steady=beside, most_spot_ratio=most_spot_ratio)
            kept += [mixed] if mixed.steady_count(p.placement.instance_count) < p.placement.instance_count else []
    return kept


def on_demand_beside(offers: Sequence[Offer]) -> dict[tuple[str, str, str], Offer]:
    """The cheapest on-demand offer of each cloud, instance type and region."""
    found: dict[tuple[str, str, str], Offer] = {}
    for o in (o for o in offers if o.price_kind is PriceKind.ON_DEMAND):
        key = (o.cloud, o.instance, o.region)
        if key not in found or effective_price(o) < effective_price(found[key]):
            found[key] = o
    return found


def best_of_each_type(ranked: Iterable[PricedPlacement]) -> list[PricedPlacement]:
    """The cheapest region of each instance type and price kind, in order."""
    best: dict[tuple[str, str, str], PricedPlacement] = {}
    for priced in ranked:
        best.setdefault((priced.offer.cloud, priced.offer.instance, priced.offer.price_kind.value), priced)
    return list(best.values())


@dataclass(frozen=True)
class Purse:
    """What may be spent, and how much of it on machines that can be taken away."""

    most_usd_per_hour: float = math.inf
    most_spot_ratio: float = 1.0


def bought(
    placements: Sequence[Placement], offers: Sequence[Offer], purse: Purse, rejections: Rejections
) -> list[PricedPlacement]:
    """The cheapest region of each type and price kind that a purse pays for, in order; the others are counted."""
    priced = best_of_each_type(rank(placements, offers, purse.most_spot_ratio))
    count_unpriced(placements, priced, offers, purse.most_spot_ratio, rejections)
    return within_budget(priced, purse.most_usd_per_hour, rejections)


def within_budget(
    priced: Sequence[PricedPlacement], most_usd_per_hour: float, rejections: Rejections
) -> list[PricedPlacement]:
    """What the budget pays for; the rest is counted with its price."""
    month = float(usd_per_month(most_usd_per_hour))
    budget = Reason.of("over_budget", budget_usd_per_hour=most_usd_per_hour, budget_usd_per_month=month)
    for p in (p for p in priced if p.usd_per_hour > most_usd_per_hour):
        machines = f"{p.placement.instance_count}x {p.offer.cloud} {p.offer.instance}"
        cost = Reason.of("costs_per_hour", usd_per_hour=p.usd_per_hour)
        rejections.add(Rejection(budget, machines, cost, p.usd_per_hour))
    return [p for p in priced if p.usd_per_hour <= most_usd_per_hour]


def count_unpriced(
    placements: Sequence[Placement],
    ranked: Sequence[PricedPlacement],
    offers: Sequence[Offer],
    most_spot_ratio: float,
    rejections: Rejections,
) -> None:
    """Count instance types that would serve the demand but have no price, or cannot be had in that number."""
    bought = {(p.offer.cloud, p.offer.instance) for p in ranked}
    for p in placements:
        key = p.instance.cloud, p.instance.name
        if key in bought:
            continue
        name, own = f"{p.instance_count}x {p.instance.cloud} {p.instance.name}", sold_as(key, offers)
        if own:
            rejections.add(Rejection(BEYOND_QUOTA, name, shortage(p, own, most_spot_ratio), p.instance_count))
        else:
            rejections.add(Rejection(NO_PRICE, name, shortfall=p.instance_count))


def sold_as(key: tuple[str, str], offers: Sequence[Offer]) -> list[Offer]:
    """Offers of one machine type."""
    return [offer for offer in offers if (offer.cloud, offer.instance) == key]


def shortage(placement: Placement, offers: Sequence[Offer], most_spot_ratio: float) -> Reason | None:
    """How many of these machines can be had, and what all that are needed would cost at these prices."""
    bounds = [offer.most_instances for offer in offers]
    if None in bounds:
        return None
    most = max(bound for bound in bounds if bound is not None)
    free = [replace(offer, max_instances=None, gpu_quotas=()) for offer in offers]
    priced = rank([placement], free, most_spot_ratio)
    if not priced:
        return Reason.of("to_be_had", to_be_had=most)
    cost = priced[0].usd_per_hour
    return Reason.of("to_be_had_at", to_be_had=most, needed=placement.instance_count, usd_per_hour=cost)
