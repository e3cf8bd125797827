"""Whether the tables agree with themselves. Run when they are built and in the tests; a finding is a fault in data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import date

from gpufleet.catalog.references import Finding, Rule, broken_references, label
from gpufleet.catalog.tables import Catalog
from gpufleet.catalog.usual_prices import outliers_over_regions
from gpufleet.domain.offer import Offer, PriceKind


def check_catalog(catalog: Catalog, today: date) -> list[Finding]:
    """All faults; an empty list is a sound catalog."""
    rules: tuple[Rule, ...] = (duplicate_offers, spot_above_on_demand, retired_offers, outliers_over_regions)
    findings = [finding for rule in rules for finding in rule(catalog)]
    return [*broken_references(catalog), *findings, *future_dates(catalog, today)]


def duplicate_offers(catalog: Catalog) -> Iterator[Finding]:
    """One price per cloud, region, instance and kind."""
    for row, count in Counter(label(offer) for offer in catalog.offers).items():
        if count > 1:
            yield Finding("no duplicates", row, f"{count} rows")


def spot_above_on_demand(catalog: Catalog) -> Iterator[Finding]:
    """Spot costs at most what on-demand costs in the same region."""
    for spot, on_demand_usd in spot_beside_on_demand(catalog.offers):
        if spot.price_per_instance_usd_per_hour > on_demand_usd:
            prices = f"{spot.price_per_instance_usd_per_hour} above {on_demand_usd}"
            yield Finding("spot below on-demand", label(spot), prices, f"at most {on_demand_usd}, the on-demand price")


def spot_beside_on_demand(offers: Iterable[Offer]) -> list[tuple[Offer, float]]:
    """Each spot offer with the on-demand price of the same place, where there is one."""
    offers = tuple(offers)
    on_demand = {
        (o.cloud, o.region, o.instance): o.price_per_instance_usd_per_hour
        for o in offers
        if o.price_kind is PriceKind.ON_DEMAND
    }
    spot = [o for o in offers if o.price_kind is PriceKind.SPOT]
    keyed = [(o, on_demand.get((o.cloud, o.region, o.instance))) for o in spot]
    return [(offer, price) for offer, price in keyed if price is not None]


def retired_offers(catalog: Catalog) -> Iterator[Finding]:
    """A type that the cloud no longer starts has no price."""
    for offer in catalog.offers:
        instance = catalog.instances.get((offer.cloud, offer.instance))
        if instance is not None and instance.retired:
            yield Finding("sold today", label(offer), "the instance type is retired", "no price of it")


def future_dates(catalog: Catalog, today: date) -> Iterator[Finding]:
    """Nothing is dated after today."""
    dated = [(label(offer), offer.as_of) for offer in catalog.offers]
    dated += [(f"{a.cloud} {a.region} {a.instance}", a.as_of) for a in catalog.availability]
    dated += [(source.id, source.as_of) for source in catalog.sources.values() if source.as_of is not None]
    for row, as_of in dated:
        if as_of > today:
            yield Finding("not in the future", row, f"dated {as_of}", f"a date up to today, {today}")
