"""GCP: the Cloud Billing Catalog, which asks for a key. A machine costs its vCPUs, memory and GPUs together."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple
from urllib.parse import quote

from gpufleet.catalog.exchange import BrokenFeed
from gpufleet.catalog.providers.feed import Feed, ListedPrice, Visit, field, in_dollars
from gpufleet.domain.instance import Instance
from gpufleet.domain.offer import PriceKind
from gpufleet.units import GIGA

SKUS = "/v1/services/6F81-5844-456A/skus?currencyCode=USD&pageSize=5000"
KEY = "GCP_API_KEY"
KINDS = {"OnDemand": PriceKind.ON_DEMAND, "Preemptible": PriceKind.SPOT}
COMPONENT = re.compile(
    r"(?:Spot Preemptible )?(?P<component>[A-Za-z0-9 ]+?)(?: attached to Spot Preemptible VMs)? running in .+"
)
SPOT_ONLY = ("a3-highgpu-1g", "a3-highgpu-2g", "a3-highgpu-4g")


class Components(NamedTuple):
    """What a machine of a family is billed as: per vCPU, per GiB of memory, per GPU."""

    core: str
    ram: str
    gpu: str


FAMILIES = {
    "g2-standard": Components("G2 Instance Core", "G2 Instance Ram", "Nvidia L4 GPU"),
    "a2-highgpu": Components("A2 Instance Core", "A2 Instance Ram", "Nvidia Tesla A100 GPU"),
    "a2-megagpu": Components("A2 Instance Core", "A2 Instance Ram", "Nvidia Tesla A100 GPU"),
    "a2-ultragpu": Components("A2 Instance Core", "A2 Instance Ram", "Nvidia Tesla A100 80GB GPU"),
    "a3-highgpu": Components("A3 Instance Core", "A3 Instance Ram", "Nvidia H100 80GB GPU"),
}
BILLED = frozenset(component for family in FAMILIES.values() for component in family)
ComponentPrices = dict[tuple[str, PriceKind, str], float]


def read(visit: Visit) -> Iterator[ListedPrice]:
    """Machines of the known families in every region where all three components have a price."""
    prices = component_prices(visit)
    for region, kind in sorted({(region, kind) for region, kind, _ in prices}):
        for name, instance in visit.instances.items():
            family = FAMILIES.get(name.rpartition("-")[0])
            is_sold = kind is PriceKind.SPOT or name not in SPOT_ONLY
            price = machine_price(prices, region, kind, family, instance) if family and is_sold else None
            if price is not None:
                yield ListedPrice(region, name, kind, price)


def machine_price(
    prices: ComponentPrices, region: str, kind: PriceKind, family: Components, instance: Instance
) -> float | None:
    """USD per hour of the whole machine, None where a component or a figure is not known."""
    found = [prices.get((region, kind, component), 0.0) for component in family]
    amounts = (instance.vcpus, instance.memory_gib, instance.gpu_count)
    if not all(found) or not all(amounts):
        return None
    return sum(price * amount for price, amount in zip(found, amounts, strict=True) if amount)


def component_prices(visit: Visit) -> ComponentPrices:
    """USD per hour of every component by region and price kind."""
    prices: ComponentPrices = {}
    for number, page in enumerate(pages(visit), start=1):
        for row_number, sku in enumerate(field(page, "skus", list, f"gcp page {number}"), start=1):
            prices |= prices_of(sku, f"gcp page {number} sku {row_number}")
    return prices


def pages(visit: Visit) -> Iterator[object]:
    """Pages by their tokens; the key goes in a header, which no log shows."""
    url = visit.endpoint + SKUS
    while url:
        page = visit.download.json(url, {"X-Goog-Api-Key": visit.keys[KEY]})
        yield page
        token = field(page, "nextPageToken", str, "gcp page")
        url = f"{visit.endpoint}{SKUS}&pageToken={quote(token)}" if token else ""


def prices_of(sku: object, where: str) -> ComponentPrices:
    """Prices of a component in its regions; other things that are sold give none."""
    described = COMPONENT.fullmatch(field(sku, "description", str, where))
    category = field(sku, "category", dict, where)
    kind = KINDS.get(field(category, "usageType", str, where))
    if described is None or described["component"] not in BILLED or kind is None:
        return {}
    price = hourly_price(sku, where)
    regions = field(sku, "serviceRegions", list, where)
    return {(str(region), kind, described["component"]): price for region in regions}


def hourly_price(sku: object, where: str) -> float:
    """The first tier of the newest price: whole units and billionths."""
    newest = last(field(sku, "pricingInfo", list, where), where)
    expression = field(newest, "pricingExpression", dict, where)
    price = field(last(field(expression, "tieredRates", list, where)[:1], where), "unitPrice", dict, where)
    in_dollars(field(price, "currencyCode", str, where), where)
    return whole_units(price, where) + field(price, "nanos", float, where) / GIGA


def whole_units(price: Mapping[str, object], where: str) -> float:
    """The units of a price, which the feed writes as text."""
    text = field(dict(price), "units", str, where)
    if not text.isdecimal():
        raise BrokenFeed(f"{where}: 'units' is no whole number", found=text)
    return float(text)


def last(rows: list[object], where: str) -> object:
    """The last entry of a list that must have one."""
    if not rows:
        raise BrokenFeed(f"{where}: a list of prices is empty")
    return rows[-1]


FEEDS = (
    Feed(
        name="gcp-billing-catalog",
        cloud="gcp",
        title="Google Cloud Billing Catalog, Compute Engine",
        endpoint="https://cloudbilling.googleapis.com",
        price_kinds=frozenset({PriceKind.ON_DEMAND, PriceKind.SPOT}),
        read=read,
        key_variables=(KEY,),
    ),
)
