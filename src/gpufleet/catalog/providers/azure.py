"""Azure: the Retail Prices API, open to all. Consumption, spot, reservations and the one-year savings plan."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

from gpufleet.catalog.exchange import BrokenFeed, origin
from gpufleet.catalog.providers.feed import Feed, ListedPrice, Visit, field, in_dollars
from gpufleet.domain.offer import PriceKind
from gpufleet.units import HOURS_PER_YEAR

QUERY = "serviceName eq 'Virtual Machines' and contains(armSkuName, 'Standard_N')"
API_VERSION = "2023-01-01-preview"
OTHER_PRODUCTS = ("Windows", "CloudServices", "Dedicated")
RESERVED = {"1 Year": (PriceKind.COMMIT_1Y, 1), "3 Years": (PriceKind.COMMIT_3Y, 3)}
HOURLY, SAVINGS_TERM = "1 Hour", "1 Year"


def read(visit: Visit) -> Iterator[ListedPrice]:
    """Every page, each row by its type."""
    for number, page in enumerate(pages(visit), start=1):
        for row_number, row in enumerate(field(page, "Items", list, f"azure page {number}"), start=1):
            yield from prices_of(row, f"azure page {number} row {row_number}")


def pages(visit: Visit) -> Iterator[object]:
    """Pages in the order of their links, which must stay on the server that was asked."""
    url: str | None = f"{visit.endpoint}?api-version={API_VERSION}&$filter={quote(QUERY)}"
    while url is not None:
        refuse_other_server(visit.endpoint, url)
        page = visit.download.json(url)
        yield page
        url = next_page(page)


def next_page(page: object) -> str | None:
    """The address of the following page, None on the last."""
    if isinstance(page, dict) and page.get("NextPageLink", "") is None:
        return None
    return field(page, "NextPageLink", str, "azure page") or None


def refuse_other_server(endpoint: str, url: str) -> None:
    """A page that sends us elsewhere is not followed."""
    asked, told = origin(endpoint), origin(url)
    if asked != told:
        raise BrokenFeed("azure: the next page lies on another server", found=told, expected=asked)


def prices_of(row: object, where: str) -> Iterator[ListedPrice]:
    """Prices of a row; those of Windows, developers' subscriptions and low priority are other products."""
    in_dollars(field(row, "currencyCode", str, where), where)
    region, instance = field(row, "armRegionName", str, where), field(row, "armSkuName", str, where)
    product, meter = field(row, "productName", str, where), field(row, "meterName", str, where)
    price, kind = field(row, "retailPrice", float, where), field(row, "type", str, where)
    hourly = field(row, "unitOfMeasure", str, where) == HOURLY
    is_other = any(word in product for word in OTHER_PRODUCTS) or meter.endswith("Low Priority")
    if is_other or not hourly or not field(row, "isPrimaryMeterRegion", bool, where):
        return
    if kind == "Consumption":
        yield ListedPrice(region, instance, PriceKind.SPOT if is_spot(meter) else PriceKind.ON_DEMAND, price)
        yield from savings_of(row, region, instance, where)
    elif kind == "Reservation":
        term = field(row, "reservationTerm", str, where)
        if term in RESERVED:
            yield reserved(region, instance, term, price)


def is_spot(meter: str) -> bool:
    """Whether a meter is of evictable machines."""
    return meter.endswith("Spot")


def reserved(region: str, instance: str, term: str, price_of_term_usd: float) -> ListedPrice:
    """A reservation by the hour: the feed gives the price of the whole term, whatever its unit of measure says."""
    kind, years = RESERVED[term]
    return ListedPrice(region, instance, kind, price_of_term_usd / (years * HOURS_PER_YEAR))


def savings_of(row: object, region: str, instance: str, where: str) -> Iterator[ListedPrice]:
    """The one-year savings plan of a consumption row, where it has one."""
    has_plans = isinstance(row, dict) and row.get("savingsPlan") is not None
    for plan in field(row, "savingsPlan", list, where) if has_plans else ():
        if field(plan, "term", str, where) == SAVINGS_TERM:
            yield ListedPrice(region, instance, PriceKind.SAVINGS_PLAN, field(plan, "retailPrice", float, where))


FEEDS = (
    Feed(
        name="azure-retail-prices",
        cloud="azure",
        title="Azure Retail Prices API",
        endpoint="https://prices.azure.com/api/retail/prices",
        price_kinds=frozenset(
            {
                PriceKind.ON_DEMAND,
                PriceKind.SPOT,
                PriceKind.SAVINGS_PLAN,
                PriceKind.COMMIT_1Y,
                PriceKind.COMMIT_3Y,
            }
        ),
        read=read,
    ),
)
