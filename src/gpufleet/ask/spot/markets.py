"""Where a job or a service may run on spot: machine types and regions that have a price of both kinds."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from gpufleet.ask.spot.markets_answer import AskedMarkets, MarketPrices, OnDemandPrice, Place
from gpufleet.ask.spot.words import SpotRequest
from gpufleet.catalog.areas import chosen_regions
from gpufleet.catalog.query import OfferFilter, matching_offers, resolve_instance
from gpufleet.catalog.tables import Catalog
from gpufleet.domain.instance import Instance
from gpufleet.domain.offer import Offer, PriceKind
from gpufleet.errors import DataMissing, UsageError
from gpufleet.results.rented import SpotPrice

YOURS, GIVEN = "yours", "given"
NOWHERE = Place(YOURS, YOURS, YOURS, YOURS, 1)


def markets_of(asked: SpotRequest, machines: Sequence[str], tables: Catalog) -> AskedMarkets:
    """Places that were asked about, of these machine types; DataMissing where none has both prices."""
    names = list(machines)
    if asked.spot_price is not None and asked.on_demand_price is not None and len(names) <= 1:
        place = Place.of(resolve_instance(tables, names[0]), YOURS) if names else NOWHERE
        market = MarketPrices(place, given(asked.spot_price), given(asked.on_demand_price))
        return AskedMarkets([market], OnDemandPrice(place, market.on_demand))
    if not names:
        hint = "Or say both prices: --spot-price 0.97/h --on-demand-price 3.06/h."
        raise UsageError("nothing says on which machine", expected="--machine aws:p3.2xlarge, or a plan", hint=hint)
    regions = chosen_regions(tables, asked.regions or (), None).regions if asked.regions else None
    found = [place for name in names for place in offered(resolve_instance(tables, name), regions, tables)]
    markets = [m for m in (market_of(asked, place, kinds) for place, kinds in found) if m is not None]
    if not markets:
        where = f" in {', '.join(asked.regions)}" if asked.regions else ""
        raise DataMissing(
            f"no price of both spot and on demand is known for {', '.join(names)}{where}",
            hint="Say them: --spot-price 0.97/h --on-demand-price 3.06/h.",
        )
    alone = [
        OnDemandPrice(place, price)
        for place, kinds in found
        if (price := price_in(kinds, PriceKind.ON_DEMAND, asked.on_demand_price)) is not None
    ]
    ranked = sorted(markets, key=lambda market: market.spot_usd_per_hour)
    return AskedMarkets(ranked, min(alone, key=lambda each: each.price.usd_per_hour))


def offered(
    instance: Instance, regions: Collection[str] | None, tables: Catalog
) -> list[tuple[Place, Mapping[PriceKind, Offer]]]:
    """Regions of one machine type where anybody may buy it, with the cheapest dated price of each kind there."""
    wanted = OfferFilter(clouds={instance.cloud}, regions=regions, instances={instance.name})
    by_region: dict[str, dict[PriceKind, Offer]] = {}
    for offer in matching_offers(tables, wanted):
        if offer.is_dated:
            kinds = by_region.setdefault(offer.region, {})
            kinds[offer.price_kind] = min(kinds.get(offer.price_kind, offer), offer, key=usd_per_hour)
    return [(Place.of(instance, region), kinds) for region, kinds in by_region.items()]


def market_of(asked: SpotRequest, place: Place, kinds: Mapping[PriceKind, Offer]) -> MarketPrices | None:
    """A place with both prices; what is said goes before the tables."""
    spot = price_in(kinds, PriceKind.SPOT, asked.spot_price)
    on_demand = price_in(kinds, PriceKind.ON_DEMAND, asked.on_demand_price)
    if spot is None or on_demand is None:
        return None
    known = kinds.get(PriceKind.SPOT)
    return MarketPrices(place, spot, on_demand, None if known is None else known.interruption)


def price_in(kinds: Mapping[PriceKind, Offer], kind: PriceKind, said_usd_per_hour: float | None) -> SpotPrice | None:
    """What somebody says, else what the tables hold, else nothing."""
    if said_usd_per_hour is not None:
        return given(said_usd_per_hour)
    offer = kinds.get(kind)
    if offer is None:
        return None
    return SpotPrice(
        usd_per_hour=usd_per_hour(offer),
        basis=offer.basis.value,
        source=offer.source,
        as_of=offer.as_of,
        doubt=offer.doubt,
    )


def usd_per_hour(offer: Offer) -> float:
    """Dollars an hour of one machine."""
    return offer.price_per_instance_usd_per_hour


def given(usd_per_hour: float) -> SpotPrice:
    """A price as it was said."""
    return SpotPrice(usd_per_hour=usd_per_hour, basis=GIVEN)
