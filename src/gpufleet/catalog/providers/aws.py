"""AWS: the Price List Bulk API as CSV and the feed behind the spot price page; neither asks for a key."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Mapping

from gpufleet.catalog.exchange import BrokenFeed
from gpufleet.catalog.providers.feed import Feed, ListedPrice, Visit, dollars, field, in_dollars
from gpufleet.domain.offer import PriceBasis, PriceKind

REGION_INDEX = "/offers/v1.0/aws/AmazonEC2/current/region_index.json"
REGION_OR_LOCAL_ZONE = re.compile(r"[a-z]{2}(-gov)?-[a-z]+-\d+(-[a-z]{3}-\d+)?")
HEADER_LINE = 5
COLUMNS = (
    *("TermType", "Unit", "PricePerUnit", "Currency", "LeaseContractLength", "PurchaseOption", "OfferingClass"),
    *("Instance Type", "Tenancy", "Operating System", "CapacityStatus", "Pre Installed S/W", "operation"),
)
PLAIN_MACHINE = {
    "Tenancy": "Shared",
    "Operating System": "Linux",
    "CapacityStatus": "Used",
    "Pre Installed S/W": "NA",
    "operation": "RunInstances",
    "Unit": "Hrs",
}
RESERVED_TERM = {"1yr": PriceKind.COMMIT_1Y, "3yr": PriceKind.COMMIT_3Y}
OLD_REGION_NAMES = {
    "us-east": "us-east-1",
    "us-west": "us-west-1",
    "eu-ireland": "eu-west-1",
    "apac-sin": "ap-southeast-1",
    "apac-syd": "ap-southeast-2",
    "apac-tokyo": "ap-northeast-1",
}


def read_list(visit: Visit) -> Iterator[ListedPrice]:
    """On-demand and reserved prices of every region and local zone; wavelength zones, inside carriers, are left out."""
    index = visit.download.json(visit.endpoint + REGION_INDEX)
    for region, entry in sorted(field(index, "regions", dict, "aws region index").items()):
        if REGION_OR_LOCAL_ZONE.fullmatch(region):
            path = field(entry, "currentVersionUrl", str, f"aws region index, {region}")
            url = visit.endpoint + "/" + path.removesuffix(".json").lstrip("/") + ".csv"
            lines = visit.download.lines(url, header_or_any_of(visit.instances))
            yield from prices_in(lines, region)


def header_or_any_of(names: Mapping[str, object]) -> Callable[[int, str], bool]:
    """Keeps the head of the file and the lines about these machines: a region has a quarter of a million lines."""
    wanted = re.compile('"(' + "|".join(map(re.escape, sorted(names))) + ')"')
    return lambda number, line: number <= HEADER_LINE or wanted.search(line) is not None


def prices_in(lines: list[str], region: str) -> Iterator[ListedPrice]:
    """Prices of plain Linux machines among the lines of a region."""
    where = f"aws price list of {region}"
    rows = rows_of(lines[HEADER_LINE:], where)
    header = next(rows, [])
    missing = [name for name in COLUMNS if name not in header]
    if missing:
        expected = "five lines about the file, then the columns"
        raise BrokenFeed(f"{where}: the column {missing[0]!r} is missing", found=",".join(header), expected=expected)
    for number, cells in enumerate(rows, start=1):
        if len(cells) != len(header):
            raise BrokenFeed(f"{where}: kept line {number} is cut", found=len(cells), expected=f"{len(header)} cells")
        row = dict(zip(header, cells, strict=True))
        if all(row[name] == value for name, value in PLAIN_MACHINE.items()):
            yield from price_of(row, region, f"{where}, kept line {number}")


def rows_of(lines: list[str], where: str) -> Iterator[list[str]]:
    """Cells of every line; a quote that does not end swallows the lines after it."""
    try:
        yield from csv.reader(lines)
    except csv.Error as error:
        raise BrokenFeed(f"{where}: {error}", expected="CSV") from None


def price_of(row: dict[str, str], region: str, where: str) -> Iterator[ListedPrice]:
    """The price of a row: on demand, or reserved without upfront payment (the only one by the hour alone)."""
    in_dollars(row["Currency"], where)
    kind: PriceKind | None = PriceKind.ON_DEMAND if row["TermType"] == "OnDemand" else None
    if row["TermType"] == "Reserved" and (row["OfferingClass"], row["PurchaseOption"]) == ("standard", "No Upfront"):
        kind = RESERVED_TERM.get(row["LeaseContractLength"])
    if kind is not None:
        yield ListedPrice(region, row["Instance Type"], kind, dollars(row["PricePerUnit"], where))


def read_spot(visit: Visit) -> Iterator[ListedPrice]:
    """Spot prices of Linux machines."""
    config = field(visit.download.json(visit.endpoint), "config", dict, "aws spot feed")
    for entry in field(config, "regions", list, "aws spot feed"):
        name = field(entry, "region", str, "aws spot feed, a region")
        region, where = OLD_REGION_NAMES.get(name, name), f"aws spot feed, {name}"
        for family in field(entry, "instanceTypes", list, where):
            for size in field(family, "sizes", list, where):
                yield from spot_of(size, region, where)


def spot_of(size: object, region: str, where: str) -> Iterator[ListedPrice]:
    """The Linux price of a size; where there is none, the feed says 'N/A*' or 0."""
    name = field(size, "size", str, where)
    for column in field(size, "valueColumns", list, where):
        if field(column, "name", str, where) == "linux":
            prices = field(column, "prices", dict, where)
            yield ListedPrice(region, name, PriceKind.SPOT, dollars(field(prices, "USD", str, where), where))


FEEDS = (
    Feed(
        name="aws-ec2-price-list",
        cloud="aws",
        title="AWS Price List Bulk API, AmazonEC2",
        endpoint="https://pricing.us-east-1.amazonaws.com",
        price_kinds=frozenset({PriceKind.ON_DEMAND, PriceKind.COMMIT_1Y, PriceKind.COMMIT_3Y}),
        read=read_list,
    ),
    Feed(
        name="aws-ec2-spot",
        cloud="aws",
        title="The feed behind the EC2 spot price page",
        endpoint="https://website.spot.ec2.aws.a2z.com/spot.json",
        price_kinds=frozenset({PriceKind.SPOT}),
        read=read_spot,
        basis=PriceBasis.OBSERVED,
        caution="AWS documents spot.json nowhere, and it leaves out regions (the Middle East); the spot.js that other "
        "tools read stands still since 2024-05-13",
    ),
)
