"""Everything that the tables know, as one object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import date
from functools import cached_property

from gpufleet.catalog.offer_index import OfferIndex
from gpufleet.catalog.own_terms import EndedPrice, ExchangeRate, ForeignOffer
from gpufleet.catalog.schema import Availability, Country, IncompleteInstance, PriceMove, Region, TypicalDiscount
from gpufleet.domain.accelerator import Accelerator
from gpufleet.domain.bill import BillLine
from gpufleet.domain.instance import Instance
from gpufleet.domain.offer import Offer, PriceKind
from gpufleet.provenance import Source
from gpufleet.records import dataclass

InstanceKey = tuple[str, str]


@dataclass(frozen=True, eq=False)
class Catalog:
    """Everything that the tables know; instances are keyed by (cloud, name), regions by (cloud, region).

    `now`: the day on which prices must hold; `ended`: those of the user that do not any more. `unlisted`: (cloud,
    region, instance) of the user's prices for what is not known to be sold there, and of which day that is known.
    `later_prices`: of prices as of a day, the clouds and price kinds with none up to it, and the day of the first one.
    """

    accelerators: Mapping[str, Accelerator]
    instances: Mapping[InstanceKey, Instance]
    offers: tuple[Offer, ...]
    sources: Mapping[str, Source]
    availability: tuple[Availability, ...] = ()
    gpu_aliases: Mapping[str, str] = field(default_factory=dict)
    incomplete_instances: Mapping[InstanceKey, IncompleteInstance] = field(default_factory=dict)
    restricted_regions: Mapping[tuple[str, str], str] = field(default_factory=dict)
    located_regions: Mapping[tuple[str, str], Region] = field(default_factory=dict)
    countries: Mapping[str, Country] = field(default_factory=dict)
    foreign_offers: tuple[ForeignOffer, ...] = ()
    exchange_rates: tuple[ExchangeRate, ...] = ()
    bill_lines: tuple[BillLine, ...] = ()
    typical_discounts: tuple[TypicalDiscount, ...] = ()
    price_moves: tuple[PriceMove, ...] = ()
    as_of: date | None = None
    now: date | None = None
    ended: tuple[EndedPrice, ...] = ()
    unlisted: Mapping[tuple[str, str, str], date] = field(default_factory=dict)
    later_prices: Mapping[tuple[str, PriceKind], date] = field(default_factory=dict)

    @cached_property
    def clouds(self) -> tuple[str, ...]:
        """Clouds that sell any instance, sorted."""
        return tuple(sorted({cloud for cloud, _ in self.instances}))

    @cached_property
    def described_instances(self) -> tuple[Instance | IncompleteInstance, ...]:
        """Every instance type, also those whose GPU count is not known."""
        return (*self.instances.values(), *self.incomplete_instances.values())

    @cached_property
    def regions(self) -> Mapping[str, tuple[str, ...]]:
        """Regions of each cloud that appear in offers or availability."""
        seen: dict[str, set[str]] = {cloud: set() for cloud in self.clouds}
        for cloud, region in self._places():
            seen.setdefault(cloud, set()).add(region)
        return {cloud: tuple(sorted(regions)) for cloud, regions in seen.items()}

    def _places(self) -> set[tuple[str, str]]:
        return {(o.cloud, o.region) for o in self.offers} | {(a.cloud, a.region) for a in self.availability}

    @cached_property
    def offer_index(self) -> OfferIndex:
        """Columns that offers are chosen by, in the order of `offers`."""
        return OfferIndex.of(self.offers, self.instances)

    def instance_of(self, offer: Offer) -> Instance:
        """The instance type that an offer sells."""
        return self.instances[offer.cloud, offer.instance]

    def accelerator_of(self, offer: Offer) -> Accelerator:
        """The accelerator in the instance that an offer sells."""
        return self.accelerators[self.instance_of(offer).accelerator]

    def is_open(self, cloud: str, region: str) -> bool:
        """Whether anybody may buy there (government and national-operator regions are not open)."""
        return (cloud, region) not in self.restricted_regions
