"""Which prices are far from what the same thing costs elsewhere: over regions a fault, across clouds a warning."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator
from typing import NamedTuple

from gpufleet.catalog.references import Finding, label
from gpufleet.catalog.tables import Catalog
from gpufleet.domain.offer import Offer, PriceKind

OUTLIER_FACTOR = 3.0
LEAST_SHOWN_RATIO, LEAST_WHOLE_RATIO = 0.001, 100.0
GpuKey = tuple[str, PriceKind]


def outliers_over_regions(catalog: Catalog) -> Iterator[Finding]:
    """No price is three times the usual of its cloud, type and kind, nor under a third of it."""
    for offer, usual_usd in price_outliers(catalog.offers):
        yield Finding(
            "usual price",
            label(offer),
            f"{offer.price_per_instance_usd_per_hour}, median {usual_usd:g}",
            f"{usual_usd / OUTLIER_FACTOR:g} to {usual_usd * OUTLIER_FACTOR:g}, up to 3x off other regions; "
            "a negotiated price goes into contracts.csv",
        )


def price_outliers(offers: Iterable[Offer]) -> list[tuple[Offer, float]]:
    """Offers more than 3x above or below the median over regions of their cloud, type and kind, with that median."""
    groups: dict[tuple[str, str, PriceKind], list[Offer]] = defaultdict(list)
    for offer in offers:
        groups[offer.cloud, offer.instance, offer.price_kind].append(offer)
    return [outlier for group in groups.values() for outlier in outliers_in(group)]


def outliers_in(group: list[Offer]) -> list[tuple[Offer, float]]:
    """The outliers of offers that differ only in region."""
    prices = [offer.price_per_instance_usd_per_hour for offer in group]
    usual = [(offer, usual_price(prices, row)) for row, offer in enumerate(group)]
    return [(offer, median) for offer, median in usual if not is_usual(offer.price_per_instance_usd_per_hour, median)]


def usual_price(prices: list[float], row: int) -> float:
    """The median of the prices; of two, each is held to the other, since their middle excuses both.

    >>> usual_price([10.0, 100.0], 0), usual_price([10.0, 11.0, 100.0], 2)
    (100.0, 11.0)
    """
    return prices[1 - row] if len(prices) == 2 else statistics.median(prices)


def is_usual(price: float, median: float) -> bool:
    """Whether a price is within 3x of the median."""
    return median / OUTLIER_FACTOR <= price <= median * OUTLIER_FACTOR


class UnusualPrice(NamedTuple):
    """A price per GPU that is far from what other clouds ask for the same GPU in the same way."""

    offer: Offer
    price_per_gpu_usd_per_hour: float
    usual_usd_per_hour: float

    @property
    def times_usual(self) -> float:
        """Price over the usual one."""
        return self.price_per_gpu_usd_per_hour / self.usual_usd_per_hour


def unusual_across_clouds(catalog: Catalog) -> list[UnusualPrice]:
    """Prices over 3x or under a third of the median of other clouds, per GPU and price kind.

    Clouds do differ that much, so this is a warning and no fault.
    """
    found = []
    for by_cloud in per_gpu_by_cloud(catalog, catalog.offers).values():
        medians = {cloud: statistics.median(price for _, price in rows) for cloud, rows in by_cloud.items()}
        for cloud, rows in by_cloud.items():
            others = [median for other, median in medians.items() if other != cloud]
            usual = statistics.median(others) if others else None
            found += [UnusualPrice(o, price, usual) for o, price in rows if usual and not is_usual(price, usual)]
    return found


def usual_per_gpu(catalog: Catalog, offers: Iterable[Offer]) -> dict[GpuKey, float]:
    """What clouds ask for one GPU: the median of their medians, by accelerator and price kind. [USD/hour]"""
    return {
        key: statistics.median(statistics.median(price for _, price in rows) for rows in by_cloud.values())
        for key, by_cloud in per_gpu_by_cloud(catalog, offers).items()
    }


def per_gpu_by_cloud(catalog: Catalog, offers: Iterable[Offer]) -> dict[GpuKey, dict[str, list[tuple[Offer, float]]]]:
    """Prices per GPU of each accelerator and price kind, by cloud; own machines and slices are no market price."""
    groups: dict[GpuKey, dict[str, list[tuple[Offer, float]]]] = defaultdict(lambda: defaultdict(list))
    for offer in offers:
        instance = catalog.instance_of(offer)
        if offer.price_kind is not PriceKind.OWNED and instance.gpu_count >= 1:
            price = offer.price_per_instance_usd_per_hour / instance.gpu_count
            groups[instance.accelerator, offer.price_kind][offer.cloud].append((offer, price))
    return groups


def warnings_across_clouds(catalog: Catalog, of_rows: Container[str] | None = None) -> list[str]:
    """One warning per cloud, type and price kind, in the order of the tables; of these rows alone, where given."""
    groups: dict[str, list[float]] = defaultdict(list)
    for unusual in unusual_across_clouds(catalog):
        offer = unusual.offer
        if of_rows is not None and label(offer) not in of_rows:
            continue
        groups[f"{offer.cloud} {offer.instance} {offer.price_kind.value}"].append(unusual.times_usual)
    return [f"{what}: {times_in_words(times)} what other clouds ask per GPU" for what, times in groups.items()]


def times_words(ratio: float) -> str:
    """A factor, without a power of ten.

    >>> times_words(0.125), times_words(4.3e-05), times_words(1000)
    ('0.12x', 'under 0.001x', '1,000x')
    """
    if ratio >= LEAST_WHOLE_RATIO:
        return f"{ratio:,.0f}x"
    return f"{ratio:.2g}x" if ratio >= LEAST_SHOWN_RATIO else f"under {LEAST_SHOWN_RATIO:g}x"


def times_in_words(times: list[float]) -> str:
    """A range of factors.

    >>> times_in_words([3.2, 5.3]), times_in_words([0.2])
    ('3.2-5.3x', '0.2x')
    """
    low, high = f"{min(times):.2g}", f"{max(times):.2g}"
    return f"{low}x" if low == high else f"{low}-{high}x"
