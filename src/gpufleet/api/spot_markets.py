"""Where a job may run on spot: machine types and regions that have a price of both kinds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpufleet.api.spot_jobs import SpotWork
from gpufleet.catalog.areas import chosen_regions
from gpufleet.catalog.query import resolve_instance
from gpufleet.catalog.tables import Catalog
from gpufleet.domain.instance import Instance
from gpufleet.domain.offer import Offer, PriceKind
from gpufleet.errors import DataMissing, UsageError
from gpufleet.questions.spot import SpotRequest
from gpufleet.records import dataclass

YOURS = "yours"


@dataclass(frozen=True)
class MarketPrices:
    """Prices of one machine of a type in a region."""

    spot_usd_per_hour: float
    on_demand_usd_per_hour: float
    described: Mapping[str, Any]


def markets_of(asked: SpotRequest, work: SpotWork, tables: Catalog) -> list[MarketPrices]:
    """Markets in the order of their price of spot; DataMissing where none has both prices."""
    names = list(asked.machine or work.machines)
    if asked.spot_price is not None and asked.on_demand_price is not None and len(names) <= 1:
        return [stated(asked, resolve_instance(tables, names[0]) if names else None)]
    if not names:
        hint = "Or say both prices: --spot-price 0.97/h --on-demand-price 3.06/h."
        raise UsageError("nothing says on which machine", expected="--machine aws:p3.2xlarge, or a plan", hint=hint)
    regions = chosen_regions(tables, asked.regions or (), None).regions if asked.regions else None
    found = [m for name in names for m in of_type(asked, resolve_instance(tables, name), regions, tables)]
    if not found:
        where = f" in {', '.join(asked.regions)}" if asked.regions else ""
        raise DataMissing(
            f"no price of both spot and on demand is known for {', '.join(names)}{where}",
            hint="Say them: --spot-price 0.97/h --on-demand-price 3.06/h.",
        )
    return sorted(found, key=lambda m: m.spot_usd_per_hour)


def of_type(
    asked: SpotRequest, instance: Instance, regions: Sequence[tuple[str, str]] | Any, tables: Catalog
) -> list[MarketPrices]:
    """Regions of one machine type with a price of both kinds."""
    by_region: dict[str, dict[PriceKind, Offer]] = {}
    for offer in tables.offers:
        is_of_type = (offer.cloud, offer.instance) == (instance.cloud, instance.name)
        if is_of_type and (regions is None or offer.region in regions) and offer.is_dated:
            kinds = by_region.setdefault(offer.region, {})
            kinds[offer.price_kind] = min(kinds.get(offer.price_kind, offer), offer, key=price_of)
    return [
        MarketPrices(
            asked.spot_price or price_of(kinds[PriceKind.SPOT]),
            asked.on_demand_price or price_of(kinds[PriceKind.ON_DEMAND]),
            described(instance, region, kinds, asked),
        )
        for region, kinds in by_region.items()
        if {PriceKind.SPOT, PriceKind.ON_DEMAND} <= set(kinds)
    ]


def price_of(offer: Offer) -> float:
    """Dollars an hour of one machine."""
    return offer.price_per_instance_usd_per_hour


def described(instance: Instance, region: str, kinds: Mapping[PriceKind, Offer], asked: SpotRequest) -> dict[str, Any]:
    """A market as results name it."""
    spot, on_demand = kinds[PriceKind.SPOT], kinds[PriceKind.ON_DEMAND]
    return {
        "cloud": instance.cloud,
        "region": region,
        "instance": instance.name,
        "gpu": instance.accelerator,
        "gpus_per_instance": instance.gpu_count,
        "spot_usd_per_hour": asked.spot_price or price_of(spot),
        "on_demand_usd_per_hour": asked.on_demand_price or price_of(on_demand),
        "price_as_of": min(spot.as_of, on_demand.as_of),
        "interruption": spot.interruption,
    }


def stated(asked: SpotRequest, instance: Instance | None) -> MarketPrices:
    """Prices as they were said."""
    spot, on_demand = float(asked.spot_price or 0.0), float(asked.on_demand_price or 0.0)
    told = {
        "cloud": instance.cloud if instance else YOURS,
        "region": YOURS,
        "instance": instance.name if instance else YOURS,
        "gpu": instance.accelerator if instance else YOURS,
        "gpus_per_instance": instance.gpu_count if instance else 1,
        "spot_usd_per_hour": spot,
        "on_demand_usd_per_hour": on_demand,
        "interruption": None,
    }
    return MarketPrices(spot, on_demand, told)
