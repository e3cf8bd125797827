"""Which prices of a feed wait until somebody accepts them: each is held to what was known before it came.

A price is held to the one of before of its own place. A new one is held to the other regions of its type, else to what
other clouds ask per GPU and to the on-demand price beside it. `price_moves.csv` judges how far prices move.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from gpufleet.catalog.own_prices import is_exactly_one_gpu, most_saved, on_demand_by_type
from gpufleet.catalog.references import label
from gpufleet.catalog.schema import EVERY_KIND, PriceMove
from gpufleet.catalog.tables import Catalog, InstanceKey
from gpufleet.catalog.usual_prices import is_usual, price_outliers, times_words, usual_per_gpu
from gpufleet.domain.offer import Offer, PriceKind
from gpufleet.pricing.commitment import offer_usd_per_hour

OTHER_REGIONS, OTHER_CLOUDS = "its other regions ask", "other clouds ask per GPU"
NOTHING_BESIDE = "there is no price here to hold it to"
TypeKey = tuple[str, PriceKind]


@dataclass(frozen=True)
class Accepted:
    """Machine types whose prices are believed as they come, or all of them."""

    types: frozenset[InstanceKey] = frozenset()
    is_all: bool = False

    def takes(self, offer: Offer) -> bool:
        """Whether this price is believed."""
        return self.is_all or (offer.cloud, offer.instance) in self.types


class Doubted(NamedTuple):
    """A price that came, the one that was there before it, and why it is doubted."""

    offer: Offer
    before: Offer | None
    why: str


@dataclass
class Weighed:
    """The prices to take: those that came, and in place of each that waits the one of before, where there was one."""

    taken: list[Offer] = field(default_factory=list)
    waiting: list[Doubted] = field(default_factory=list)
    accepted: list[Doubted] = field(default_factory=list)


@dataclass(frozen=True)
class Known:
    """What prices of a feed are held to; what was doubted itself is nothing to hold others to."""

    tables: Catalog
    before: Mapping[str, Offer]
    of_regions: Mapping[TypeKey, Sequence[float]]
    of_clouds: Mapping[TypeKey, float]
    on_demand: Mapping[InstanceKey, Mapping[str, float]]
    outliers: Mapping[str, float]

    @classmethod
    def of(cls, tables: Catalog, before: Sequence[Offer], arrived: Sequence[Offer], settled: Sequence[Offer]) -> Known:
        """What the tables hold, of it `before` of the feed, and prices of this time that are `settled` already."""
        sound = [offer for offer in tables.offers if not offer.doubt]
        regions: dict[TypeKey, list[float]] = defaultdict(list)
        for offer in (offer for offer in before if not offer.doubt):
            regions[offer.instance, offer.price_kind].append(offer_usd_per_hour(offer))
        clouds = {offer.cloud for offer in arrived}
        return cls(
            tables=tables,
            before={label(offer): offer for offer in before},
            of_regions=regions,
            of_clouds=usual_per_gpu(tables, [offer for offer in sound if offer.cloud not in clouds]),
            on_demand=on_demand_by_type([*sound, *(offer for offer in settled if not offer.doubt)]),
            outliers={label(offer): median for offer, median in price_outliers(arrived)},
        )

    def gpu_count(self, offer: Offer) -> float:
        """GPUs of the machine that an offer sells."""
        return self.tables.instance_of(offer).gpu_count

    def move(self, offer: Offer) -> PriceMove:
        """How far prices of its kind move."""
        moves = {move.price_kind: move for move in self.tables.price_moves}
        return moves.get(offer.price_kind.value) or moves[EVERY_KIND]

    def is_near(self, offer: Offer, held: Offer) -> bool:
        """Whether a price is no further from the one of before than prices move."""
        ratio, move = offer_usd_per_hour(offer) / offer_usd_per_hour(held), self.move(offer)
        return move.holds(ratio) and not move.is_by_gpus(ratio, self.gpu_count(offer))


def weighed(tables: Catalog, before: Sequence[Offer], arrived: Sequence[Offer], accepted: Accepted) -> Weighed:
    """Every price that came, taken or waiting; on-demand prices first, as others are held to them."""
    found = Weighed()
    for is_listed in (True, False):
        known = Known.of(tables, before, arrived, found.taken)
        for offer in arrived:
            if (offer.price_kind is PriceKind.ON_DEMAND) is is_listed:
                weigh(offer, known, accepted, found)
    return found


def weigh(offer: Offer, known: Known, accepted: Accepted, found: Weighed) -> None:
    """Take a price, or the one of before in its place; an accepted one carries why it was doubted from then on."""
    held = known.before.get(label(offer))
    why = doubt_about(offer, held, known)
    if not why:
        is_as_accepted = held is not None and known.is_near(offer, held)
        found.taken.append(replace(offer, doubt=held.doubt) if held is not None and is_as_accepted else offer)
    elif accepted.takes(offer):
        found.taken.append(replace(offer, doubt=f"{why}; accepted on {offer.as_of}"))
        found.accepted.append(Doubted(offer, held, why))
    else:
        found.taken += [] if held is None else [held]
        found.waiting.append(Doubted(offer, held, why))


def doubt_about(offer: Offer, held: Offer | None, known: Known) -> str:
    """Why a price is not believed as it comes; empty where it is.

    One that was accepted holds for itself; away from it, a price is held to others as a new one is.
    """
    if held is None or (held.doubt and not known.is_near(offer, held)):
        return next(doubts_about_new(offer, known), "")
    return doubt_about_move(offer, held, known) or next(doubts_newly_far(offer, held, known), "")


def doubt_about_move(offer: Offer, held: Offer, known: Known) -> str:
    """Why the step from the price of before is none that prices take."""
    if known.is_near(offer, held):
        return ""
    usual_usd = offer_usd_per_hour(held)
    return f"{times(offer, usual_usd)} its price of {held.day}, ${usual_usd:.4g}{by_gpus(offer, usual_usd, known)}"


def doubts_newly_far(offer: Offer, held: Offer, known: Known) -> Iterator[str]:
    """What a price is far from that the one of before was near to: small steps do not add up unseen."""
    regions, elsewhere_usd = known.of_regions.get((offer.instance, offer.price_kind)), usual_elsewhere(offer, known)
    beside = [(statistics.median(regions), OTHER_REGIONS)] if regions else []
    beside += [(elsewhere_usd, OTHER_CLOUDS)] if elsewhere_usd is not None else []
    for usual_usd, whose in beside:
        if is_usual(offer_usd_per_hour(held), usual_usd) and not is_usual(offer_usd_per_hour(offer), usual_usd):
            yield f"{times(offer, usual_usd)} what {whose}"


def doubts_about_new(offer: Offer, known: Known) -> Iterator[str]:
    """Why a price of a place that had none is doubted: the nearest that there is to hold it to decides."""
    regions, listed_usd = known.of_regions.get((offer.instance, offer.price_kind)), listed_beside(offer, known)
    if regions:
        yield from doubts_beside_regions(offer, regions, known)
        return
    if label(offer) in known.outliers:
        yield f"{times(offer, known.outliers[label(offer)])} what the other regions ask that came with it"
    elsewhere_usd = usual_elsewhere(offer, known)
    if listed_usd is not None:
        yield from doubts_about_saving(offer, listed_usd, elsewhere_usd, known)
    elif elsewhere_usd is None:
        yield NOTHING_BESIDE
    elif not is_usual(offer_usd_per_hour(offer), elsewhere_usd):
        yield f"{times(offer, elsewhere_usd)} what {OTHER_CLOUDS}"


def doubts_beside_regions(offer: Offer, regions: Sequence[float], known: Known) -> Iterator[str]:
    """Why a price is none that a further region of a type has."""
    price, gpus, move = offer_usd_per_hour(offer), known.gpu_count(offer), known.move(offer)
    by_gpus_of = next((usd for usd in regions if move.is_by_gpus(price / usd, gpus)), None)
    is_near = move.lowest_ratio * min(regions) <= price <= move.highest_ratio * max(regions)
    if by_gpus_of is not None or not is_near:
        usual_usd = by_gpus_of or statistics.median(regions)
        yield f"{times(offer, usual_usd)} what {OTHER_REGIONS}{by_gpus(offer, usual_usd, known)}"


def doubts_about_saving(offer: Offer, listed_usd: float, elsewhere_usd: float | None, known: Known) -> Iterator[str]:
    """Why a new spot price or commitment is none that the on-demand price beside it explains.

    What could be the price of one GPU of several is one where other clouds ask much more.
    """
    price, gpus = offer_usd_per_hour(offer), known.gpu_count(offer)
    is_too_low = price < listed_usd * (1 - most_saved(offer.price_kind, gpus))
    is_exact = gpus > 1 and is_exactly_one_gpu(price, listed_usd, gpus)
    may_be_one = gpus > 1 and price * gpus <= listed_usd
    is_far = elsewhere_usd is not None and price < elsewhere_usd and not is_usual(price, elsewhere_usd)
    if is_too_low or is_exact or (may_be_one and is_far):
        yield f"{times(offer, listed_usd)} its on-demand price, ${listed_usd:.4g}{by_gpus(offer, listed_usd, known)}"


def listed_beside(offer: Offer, known: Known) -> float | None:
    """The on-demand price of the same machine, there or over regions, for what is sold otherwise. [USD/hour]"""
    regions = known.on_demand.get((offer.cloud, offer.instance))
    if offer.price_kind is PriceKind.ON_DEMAND or not regions:
        return None
    return regions.get(offer.region, statistics.median(regions.values()))


def usual_elsewhere(offer: Offer, known: Known) -> float | None:
    """What other clouds ask for the GPUs of a machine, bought so. [USD/hour]"""
    per_gpu = known.of_clouds.get((known.tables.instance_of(offer).accelerator, offer.price_kind))
    return None if per_gpu is None or known.gpu_count(offer) < 1 else per_gpu * known.gpu_count(offer)


def by_gpus(offer: Offer, usual_usd: float, known: Known) -> str:
    """That the price is likely that of one GPU, where it is the usual one over the GPUs of the machine."""
    price, gpus = offer_usd_per_hour(offer), known.gpu_count(offer)
    is_one = price < usual_usd and known.move(offer).is_by_gpus(price / usual_usd, gpus)
    return f"; times {gpus:g} GPUs that is ${price * gpus:.4g}: the price of one GPU?" if is_one else ""


def times(offer: Offer, usual_usd: float) -> str:
    """A price in so many times another.

    >>> from gpufleet.domain.offer import PriceBasis
    >>> from datetime import date
    >>> times(Offer("aws", "r", "i", PriceKind.ON_DEMAND, 0.055, PriceBasis.LIST, "s", date(2026, 1, 1)), 55.0)
    '$0.055 is 0.001x'
    """
    price = offer_usd_per_hour(offer)
    return f"${price:.4g} is {times_words(price / usual_usd)}"


def off_regions(arrived: Iterable[Offer], accepted: Accepted) -> list[str]:
    """Prices that came far from the other regions that came, and that nobody accepts."""
    return [" ".join(label(offer)) for offer, _ in price_outliers(arrived) if not accepted.takes(offer)]
