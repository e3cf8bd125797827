"""Places with prices of spot and on demand, and the rows of an answer that they become."""

from __future__ import annotations

from collections.abc import Sequence

from gpufleet.ask.spot.job_shape import OnDemandAlone, SpotMarketRow
from gpufleet.domain.instance import Instance
from gpufleet.records import dataclass
from gpufleet.results.base import Figure
from gpufleet.results.rented import SpotPrice


@dataclass(frozen=True)
class Place:
    """One machine type in one region."""

    cloud: str
    region: str
    instance: str
    gpu: str
    gpus_per_instance: float

    @classmethod
    def of(cls, instance: Instance, region: str) -> Place:
        """A type of the tables."""
        return cls(instance.cloud, region, instance.name, instance.accelerator, instance.gpu_count)


@dataclass(frozen=True)
class OnDemandPrice:
    """What a machine costs on demand in one place."""

    place: Place
    price: SpotPrice


@dataclass(frozen=True)
class MarketPrices:
    """A place with prices of both kinds; the advisor's band of interruptions, where it is known."""

    place: Place
    spot: SpotPrice
    on_demand: SpotPrice
    interruption: str | None = None

    @property
    def spot_usd_per_hour(self) -> float:
        """Of one machine."""
        return self.spot.usd_per_hour

    @property
    def on_demand_usd_per_hour(self) -> float:
        """Of one machine."""
        return self.on_demand.usd_per_hour


@dataclass(frozen=True)
class AskedMarkets:
    """Markets in the order of their price of spot, and where on demand alone costs least."""

    markets: Sequence[MarketPrices]
    alone: OnDemandPrice


def market_row(market: MarketPrices, usd: Figure, alone_usd: float) -> SpotMarketRow:
    """What somebody pays at a market, beside what on demand alone costs."""
    place = market.place
    return SpotMarketRow(
        cloud=place.cloud,
        region=place.region,
        instance=place.instance,
        gpu=place.gpu,
        gpus_per_instance=place.gpus_per_instance,
        spot=market.spot,
        on_demand=market.on_demand,
        interruption=market.interruption,
        usd=usd,
        saved_ratio=1 - usd.value / alone_usd,
    )


def alone_at(cheapest: OnDemandPrice, machine_hours: float) -> OnDemandAlone:
    """So many hours of machines at the cheapest price on demand; of machines for an hour: dollars an hour."""
    place, price = cheapest.place, cheapest.price
    usd = price.usd_per_hour * machine_hours
    return OnDemandAlone(cloud=place.cloud, region=place.region, instance=place.instance, price=price, usd=usd)
