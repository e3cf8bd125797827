"""Where instance types are sold, price known or not, and what ways of buying typically save."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable

from gpufleet.catalog.listing import accepts_unpriced, described, foreign_price, source_notes
from gpufleet.catalog.query import OfferFilter, allows, matching_offers
from gpufleet.catalog.schema import Availability, IncompleteInstance, TypicalDiscount
from gpufleet.catalog.tables import Catalog
from gpufleet.domain.offer import Offer, PriceKind
from gpufleet.pricing.commitment import offer_usd_per_hour
from gpufleet.provenance import Grade
from gpufleet.results.catalog import (
    CoverageListing,
    CoverageRow,
    DiscountListing,
    DiscountRow,
    PlaceListing,
    PlaceRow,
    RegionListing,
    RegionRow,
)

PlaceKey = tuple[str, str, str]
RegionKey = tuple[str, str]


def list_places(
    catalog: Catalog, wanted: OfferFilter, notes: Iterable[str] = (), limit: int | None = None
) -> PlaceListing:
    """Regions where the wanted types are sold: by price lists, by lists of what is sold where, or both."""
    prices: dict[PlaceKey, list[Offer]] = defaultdict(list)
    for offer in matching_offers(catalog, wanted):
        prices[offer.cloud, offer.region, offer.instance].append(offer)
    listed = {
        (row.cloud, row.region, row.instance): row
        for row in catalog.availability
        if accepts_unpriced(catalog, wanted, row)
    }
    rows = [place_row(catalog, key, prices.get(key, []), listed.get(key)) for key in sorted({*prices, *listed})]
    kept = rows[:limit]
    used = {source for row in kept for source in row.sources}
    return PlaceListing(
        rows=kept,
        num_places=len(rows),
        num_priced=sum(bool(row.usd_per_hour) for row in rows),
        notes=list(notes),
        sources=source_notes(catalog, used),
    )


def place_row(catalog: Catalog, key: PlaceKey, offers: list[Offer], listed: Availability | None) -> PlaceRow:
    """One type in one region."""
    cloud, region, name = key
    instance = catalog.instances[cloud, name] if listed is None else described(catalog, listed)
    priced = {offer.price_kind.value: offer_usd_per_hour(offer) for offer in offers}
    sold = () if listed is None else listed.sold_as or (PriceKind.ON_DEMAND,)
    return PlaceRow(
        cloud=cloud,
        region=region,
        zones=[] if listed is None else list(listed.zones),
        num_zones=None if listed is None else listed.num_zones,
        instance=name,
        gpu=instance.accelerator,
        gpu_count=None if isinstance(instance, IncompleteInstance) else instance.gpu_count,
        usd_per_hour=priced,
        sold_unpriced=[kind.value for kind in sold if kind.value not in priced],
        foreign_price=foreign_price(catalog, *key),
        is_open=catalog.is_open(cloud, region),
        sources=sorted({*(offer.source for offer in offers), *([listed.source] if listed else [])}),
    )


def list_regions(
    catalog: Catalog, wanted: OfferFilter, notes: Iterable[str] = (), limit: int | None = None
) -> RegionListing:
    """Regions of the clouds that are wanted, also those where nothing is known to be sold."""
    offers: dict[RegionKey, list[Offer]] = defaultdict(list)
    for offer in matching_offers(catalog, wanted):
        offers[offer.cloud, offer.region].append(offer)
    sold: dict[RegionKey, set[str]] = defaultdict(set)
    for row in catalog.availability:
        if accepts_unpriced(catalog, wanted, row):
            sold[row.cloud, row.region].add(row.instance)
    keys = sorted({*offers, *sold, *(key for key in catalog.located_regions if accepts_region(catalog, wanted, key))})
    rows = [region_row(catalog, key, offers.get(key, []), sold.get(key, set())) for key in keys]
    kept = rows[:limit]
    used = {source for row in kept for source in row.sources}
    return RegionListing(rows=kept, num_regions=len(rows), notes=list(notes), sources=source_notes(catalog, used))


def accepts_region(catalog: Catalog, wanted: OfferFilter, key: RegionKey) -> bool:
    """Whether a region matches the filter, whatever is sold there."""
    cloud, region = key
    named = wanted.regions is not None and region in wanted.regions
    is_open = wanted.include_restricted or named or catalog.is_open(cloud, region)
    return is_open and allows(wanted.clouds, cloud) and allows(wanted.regions, region)


def region_row(catalog: Catalog, key: RegionKey, offers: Iterable[Offer], sold: set[str]) -> RegionRow:
    """One region."""
    cloud, region = key
    located = catalog.located_regions.get(key)
    country = None if located is None else catalog.countries.get(located.country)
    priced = Counter(offer.price_kind.value for offer in offers)
    return RegionRow(
        cloud=cloud,
        region=region,
        place=None if located is None else located.place or None,
        country=None if country is None else country.name,
        areas=[] if country is None else list(country.words),
        is_open=catalog.is_open(cloud, region),
        num_types=len(sold | {offer.instance for offer in offers}),
        num_priced=dict(sorted(priced.items())),
        sources=sorted({*(offer.source for offer in offers), *([located.source] if located else [])}),
    )


def list_coverage(catalog: Catalog) -> CoverageListing:
    """Every cloud and price kind with a price that everybody may buy at."""
    groups: dict[tuple[str, str], list[Offer]] = defaultdict(list)
    for offer in matching_offers(catalog, OfferFilter()):
        groups[offer.cloud, offer.price_kind.value].append(offer)
    rows = [coverage_row(catalog, *key, offers) for key, offers in sorted(groups.items())]
    used = {offer.source for offers in groups.values() for offer in offers}
    return CoverageListing(rows=rows, notes=[], sources=source_notes(catalog, used))


def coverage_row(catalog: Catalog, cloud: str, price_kind: str, offers: list[Offer]) -> CoverageRow:
    """One cloud and price kind."""
    sold = {region for region in catalog.regions[cloud] if catalog.is_open(cloud, region)}
    oldest_first = sorted(offers, key=lambda offer: offer.as_of)
    return CoverageRow(
        cloud=cloud,
        price_kind=price_kind,
        regions=sorted({offer.region for offer in offers}),
        num_regions_sold=len(sold),
        num_types=len({offer.instance for offer in offers}),
        num_prices=len(offers),
        days=list(dict.fromkeys(offer.day for offer in oldest_first)),
        basis=sorted({offer.basis.value for offer in offers}),
    )


def list_discounts(catalog: Catalog) -> DiscountListing:
    """Rules of thumb, each beside what the prices known here come to."""
    rows = [discount_row(catalog, rule) for rule in catalog.typical_discounts]
    return DiscountListing(rows=rows, notes=[], sources=source_notes(catalog, {row.source for row in rows}))


def discount_row(catalog: Catalog, rule: TypicalDiscount) -> DiscountRow:
    """One rule of thumb."""
    held = savings(catalog, rule)
    return DiscountRow(
        cloud=rule.cloud,
        price_kind=rule.price_kind.value,
        saving_low_ratio=rule.saving_low_ratio,
        saving_high_ratio=rule.saving_high_ratio,
        grade=Grade.SEED_RULE.label,
        held_low_ratio=min(held, default=None),
        held_median_ratio=statistics.median(held) if held else None,
        held_high_ratio=max(held, default=None),
        num_held=len(held),
        source=rule.source,
        evidence=rule.evidence,
    )


def savings(catalog: Catalog, rule: TypicalDiscount) -> list[float]:
    """What the price kind saves against on-demand, wherever both prices of a place are held."""
    of_cloud = [offer for offer in catalog.offers if rule.cloud in ("all", offer.cloud)]
    on_demand = {
        (o.cloud, o.region, o.instance): offer_usd_per_hour(o) for o in of_cloud if o.price_kind is PriceKind.ON_DEMAND
    }
    cheaper = [o for o in of_cloud if o.price_kind is rule.price_kind]
    pairs = [(offer_usd_per_hour(o), on_demand.get((o.cloud, o.region, o.instance))) for o in cheaper]
    return [1 - price / full for price, full in pairs if full]
