"""From a row of a table to a noun of the house; a cell that cannot be read is named by file, row and column.

The columns here are the schema of `data/` and of user overlays. An empty cell means unknown, never zero.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from gpufleet.domain.accelerator import Accelerator
from gpufleet.domain.fabric import PCIE, THROUGH_HOST, Fabric
from gpufleet.domain.instance import Instance
from gpufleet.domain.offer import Offer, PriceBasis, PriceKind
from gpufleet.domain.place import MOST_LATITUDE, MOST_LONGITUDE
from gpufleet.errors import UsageError, nearest_names
from gpufleet.provenance import Source
from gpufleet.records import dataclass
from gpufleet.units import GIGA, MIB, TABLE_NUMBERS, TERA

INSTANCE_COLUMNS = (
    "cloud",
    "name",
    "accelerator",
    "gpu_count",
    "vcpus",
    "memory_gib",
    "link_kind",
    "link_gb_per_s_per_direction",
    "link_description",
    "link_evidence",
    "network_gbit_per_s",
    "local_ssd_gb",
    "status",
    "source_id",
    "evidence",
)
UNTIL, ENDING = "until", re.compile(r"until|untill|expir|^end|_end|valid")
OFFER_COLUMNS = (
    "cloud",
    "region",
    "instance_type",
    "price_kind",
    "upfront_usd",
    "price_per_instance_usd_per_hour",
    "basis",
    "source_id",
    "as_of",
    "interruption",
)
RETIRED, INCOMPLETE = "retired", "incomplete"
INSTANCE_STATUS = ("current", RETIRED, INCOMPLETE)
AVAILABILITY_COLUMNS = ("cloud", "region", "instance_type", "num_zones", "source_id", "as_of")
SHIPPED_AVAILABILITY_COLUMNS = (*AVAILABILITY_COLUMNS, "zones", "sold_as")
DISCOUNT_COLUMNS = ("cloud", "price_kind", "saving_low_ratio", "saving_high_ratio", "source_id", "evidence")
MOVE_COLUMNS = (
    *("price_kind", "lowest_ratio", "highest_ratio", "everyday_ratio"),
    *("num_points", "source_id", "evidence"),
)
RESTRICTED_COLUMNS = ("cloud", "region", "access")
REGION_COLUMNS = ("cloud", "region", "country", "place", "source_id")
COUNTRY_COLUMNS = ("country", "name", "areas", "source_id")

PEAK_COLUMNS = {
    "fp32": "fp32_tflop_per_s",
    "tf32": "tf32_dense_tflop_per_s",
    "fp16": "fp16_dense_tflop_per_s",
    "bf16": "bf16_dense_tflop_per_s",
    "fp8": "fp8_dense_tflop_per_s",
    "int8": "int8_dense_top_per_s",
    "fp4": "fp4_dense_tflop_per_s",
}
ACCELERATOR_KEYS = frozenset(
    {
        *PEAK_COLUMNS.values(),
        "vendor",
        "generation",
        "compute_capability",
        "host_architecture",
        "memory_mib_reported",
        "memory_evidence",
        "driver_mib",
        "driver_source",
        "peer_to_peer",
        "peer_to_peer_source",
        "host_gb_per_s_per_direction",
        "host_source",
        "marketed_memory_gb",
        "memory_type",
        "bandwidth_gb_per_s",
        "link_gb_per_s_per_direction",
        "link_basis",
        "linked_gpus",
        "pcie_generation",
        "board_power_watts",
        "sm_count",
        "l2_mib",
        "release_year",
        "source_id",
        "source_detail",
        "cross_check",
        "evidence",
        "notes",
    }
)
SOURCE_KEYS = frozenset({"title", "as_of", "url", "licence", "first_seen"})
LINK_KINDS = ("none", PCIE, THROUGH_HOST, "nvlink", "nvswitch", "nvlink_domain", "xgmi", "neuronlink")

Row = Mapping[str, str]


class Place(NamedTuple):
    """Where a row stands: file and line, or file and table."""

    file: str
    row: str

    def __str__(self) -> str:
        return f"{self.file} {self.row}"

    @property
    def short(self) -> str:
        """The same without the folders that lead there."""
        return f"{Path(self.file).name} {self.row}"


class Availability(NamedTuple):
    """An instance type that is sold in a region, whatever it costs.

    `num_zones` is None where not known, `zones` are their names, `sold_as` the price kinds that the cloud names.
    """

    cloud: str
    region: str
    instance: str
    num_zones: int | None
    source: str
    as_of: date
    zones: tuple[str, ...] = ()
    sold_as: tuple[PriceKind, ...] = ()


class Region(NamedTuple):
    """A region of a cloud, and the country where its machines stand; `place` is empty where no more is known.

    Latitude and longitude are those of the town, None where it is not known.
    """

    cloud: str
    region: str
    country: str
    place: str
    source: str
    latitude_degrees: float | None = None
    longitude_degrees: float | None = None


class Country(NamedTuple):
    """A country by its two letters, and the areas that it belongs to, such as eu and europe."""

    code: str
    name: str
    areas: tuple[str, ...]
    source: str

    @property
    def words(self) -> tuple[str, ...]:
        """Areas and the name, as people write them.

        >>> Country("KR", "South Korea", ("asia",), "un").words
        ('asia', 'south-korea')
        """
        return (*self.areas, self.name.casefold().replace(" ", "-"))


class TypicalDiscount(NamedTuple):
    """A rule of thumb: what a way of buying typically saves against on-demand. Never a price."""

    cloud: str
    price_kind: PriceKind
    saving_low_ratio: float
    saving_high_ratio: float
    source: str
    evidence: str


class PriceMove(NamedTuple):
    """How far a price moves at once where nothing is wrong, after over before: a judgement with its evidence.

    `everyday_ratio`: a price that lies no further than that from another is the same one. `price_kind` may be 'all'.
    """

    price_kind: str
    lowest_ratio: float
    highest_ratio: float
    everyday_ratio: float
    num_points: int
    source: str
    evidence: str

    def holds(self, ratio: float) -> bool:
        """Whether a price may move so far.

        >>> move = PriceMove("all", 0.55, 1.82, 0.05, 904, "aws-gpu-price-tracker", "")
        >>> move.holds(55.04 / 98.32), move.holds(1 / 2), move.holds(8)
        (True, False, False)
        """
        return self.lowest_ratio <= ratio <= self.highest_ratio

    def is_by_gpus(self, ratio: float, gpu_count: float) -> bool:
        """Whether a price is another one over the GPUs of the machine, or times them.

        >>> spot = PriceMove("spot", 0.33, 3, 0.05, 379, "skypilot-aws-zones", "")
        >>> spot.is_by_gpus(0.49, 2), spot.is_by_gpus(2.04, 2), spot.is_by_gpus(0.7, 2), spot.is_by_gpus(1, 1)
        (True, True, False, False)
        """
        beside = (ratio * gpu_count, ratio / gpu_count)
        return gpu_count > 1 and any(abs(times - 1) <= self.everyday_ratio for times in beside)


@dataclass(frozen=True)
class IncompleteInstance:
    """An instance type that is known to exist but whose GPU count or host is not: listed, never ranked."""

    cloud: str
    name: str
    accelerator: str
    source: str
    evidence: str


def unreadable(place: Place, column: str, found: object, expected: str) -> UsageError:
    """The error of a cell."""
    return UsageError(f"{place}: cannot read {column}", found=found, expected=expected)


def number(place: Place, column: str, cell: Any) -> float | None:
    """A number that is not negative and could be meant, or None for an empty cell."""
    if cell is None or cell == "":
        return None
    try:
        value = float(cell)
    except (TypeError, ValueError):
        value = math.nan
    if isinstance(cell, bool) or not (value == 0 or TABLE_NUMBERS.holds(value)):
        expected = f"a number of 0 or more, {TABLE_NUMBERS}, or nothing where it is unknown"
        raise unreadable(place, column, cell, expected)
    return value


def required_number(place: Place, column: str, cell: Any) -> float:
    """A positive number."""
    value = number(place, column, cell)
    if not value:
        raise unreadable(place, column, cell, "a positive number")
    return value


def degrees(place: Place, column: str, cell: Any, most: float) -> float | None:
    """A latitude or a longitude up to `most` degrees to either side, or None for an empty cell."""
    if cell is None or cell == "":
        return None
    try:
        value = float(cell)
    except (TypeError, ValueError):
        value = math.nan
    if not abs(value) <= most:
        raise unreadable(place, column, cell, f"degrees from -{most:g} to {most:g}, or nothing where it is unknown")
    return value


def whole(place: Place, column: str, cell: Any) -> int | None:
    """A whole number, or None."""
    value = number(place, column, cell)
    if value is not None and value != int(value):
        raise unreadable(place, column, cell, "a whole number")
    return None if value is None else int(value)


def text(place: Place, column: str, cell: Any) -> str:
    """A word that must be there."""
    if not isinstance(cell, str) or not cell:
        raise unreadable(place, column, cell, "a name")
    return cell


@lru_cache(maxsize=256)
def _iso_date(cell: str) -> date | None:
    try:
        return date.fromisoformat(cell)
    except ValueError:
        return None


def day(place: Place, column: str, cell: Any) -> date:
    """A date such as 2026-07-20."""
    value = cell if isinstance(cell, date) else _iso_date(str(cell))
    if value is None:
        raise unreadable(place, column, cell, "a date such as 2026-07-20")
    return value


def choice(place: Place, column: str, cell: Any, allowed: Mapping[str, Any]) -> Any:
    """One of a few words."""
    try:
        return allowed[cell]
    except (KeyError, TypeError):
        raise unreadable(place, column, cell, f"one of {', '.join(allowed)}") from None


def refuse_unknown_keys(place: Place, found: Mapping[str, Any], known: frozenset[str]) -> None:
    """A misspelt key must not silently mean 'unknown'."""
    strange = sorted(set(found) - known)
    if strange:
        nearest = nearest_names(strange[0], known)
        hint = f"Did you mean {' or '.join(nearest)}?" if nearest else None
        raise UsageError(f"{place}: no such key", found=strange[0], hint=hint)


USUAL_LINKED_GPUS, USUAL_HOST = 8, "x86_64"


def accelerator_from(place: Place, name: str, table: Mapping[str, Any]) -> Accelerator:
    """An accelerator from its TOML table."""
    refuse_unknown_keys(place, table, ACCELERATOR_KEYS)
    stated = {kind: column for kind, column in PEAK_COLUMNS.items() if column in table}
    link = number(place, "link_gb_per_s_per_direction", table.get("link_gb_per_s_per_direction"))
    l2 = number(place, "l2_mib", table.get("l2_mib"))
    driver = number(place, "driver_mib", table.get("driver_mib"))
    host = number(place, "host_gb_per_s_per_direction", table.get("host_gb_per_s_per_direction"))
    return Accelerator(
        name=name,
        vendor=text(place, "vendor", table.get("vendor")),
        generation=text(place, "generation", table.get("generation")),
        memory_bytes=required_number(place, "memory_mib_reported", table.get("memory_mib_reported")) * MIB,
        marketed_memory_gb=required_number(place, "marketed_memory_gb", table.get("marketed_memory_gb")),
        bandwidth_bytes_per_s=required_number(place, "bandwidth_gb_per_s", table.get("bandwidth_gb_per_s")) * GIGA,
        peak_flop_per_s={k: required_number(place, column, table[column]) * TERA for k, column in stated.items()},
        nvlink_bytes_per_s=None if link is None else link * GIGA,
        pcie_generation=whole(place, "pcie_generation", table.get("pcie_generation")),
        board_power_watts=number(place, "board_power_watts", table.get("board_power_watts")),
        sm_count=whole(place, "sm_count", table.get("sm_count")),
        l2_bytes=None if l2 is None else l2 * MIB,
        release_year=whole(place, "release_year", table.get("release_year")),
        source=text(place, "source_id", table.get("source_id")),
        evidence=table.get("evidence", ""),
        notes=table.get("notes", ""),
        linked_gpus=whole(place, "linked_gpus", table.get("linked_gpus")) or USUAL_LINKED_GPUS,
        compute_capability=table.get("compute_capability"),
        host_architecture=table.get("host_architecture", USUAL_HOST),
        driver_bytes=None if driver is None else driver * MIB,
        peer_to_peer=bool(table.get("peer_to_peer", True)),
        host_bytes_per_s=None if host is None else host * GIGA,
    )


def fabric_from(place: Place, row: Row) -> Fabric:
    """The links of an instance row."""
    gigabytes = number(place, "link_gb_per_s_per_direction", row["link_gb_per_s_per_direction"])
    return Fabric(
        kind=choice(place, "link_kind", row["link_kind"], {kind: kind for kind in LINK_KINDS}),
        bytes_per_s=None if gigabytes is None else gigabytes * GIGA,
        description=row["link_description"],
        evidence=row["link_evidence"],
    )


def instance_from(place: Place, row: Row) -> Instance | IncompleteInstance:
    """An instance type; without a GPU count it is incomplete, and where its row says so."""
    gpu_count = number(place, "gpu_count", row["gpu_count"])
    cloud, name = text(place, "cloud", row["cloud"]), text(place, "name", row["name"])
    accelerator, source = text(place, "accelerator", row["accelerator"]), text(place, "source_id", row["source_id"])
    status = choice(place, "status", row["status"], {word: word for word in INSTANCE_STATUS})
    if gpu_count is None or status == INCOMPLETE:
        return IncompleteInstance(cloud, name, accelerator, source, row["evidence"])
    return Instance(
        cloud=cloud,
        name=name,
        accelerator=accelerator,
        gpu_count=required_number(place, "gpu_count", gpu_count),
        vcpus=whole(place, "vcpus", row["vcpus"]),
        memory_gib=number(place, "memory_gib", row["memory_gib"]),
        fabric=fabric_from(place, row),
        network_gbit_per_s=number(place, "network_gbit_per_s", row["network_gbit_per_s"]),
        local_ssd_gb=number(place, "local_ssd_gb", row["local_ssd_gb"]),
        source=source,
        evidence=row["evidence"],
        retired=status == RETIRED,
    )


PRICE_KINDS = {kind.value: kind for kind in PriceKind}
EVERY_KIND = "all"
PRICE_BASES = {basis.value: basis for basis in PriceBasis}


def offer_from(place: Place, row: Row) -> Offer:
    """A price row; what an offer refuses is a fault of the row."""
    try:
        return Offer(**offer_cells(place, row))
    except ValueError as refusal:
        raise UsageError(f"{place}: {refusal}") from None


def stated_price(place: Place, price: Any, upfront: Any) -> float:
    """A positive price of an hour; zero where all is paid up front."""
    column = "price_per_instance_usd_per_hour"
    is_zero = number(place, column, price) == 0
    return 0.0 if is_zero and number(place, "upfront_usd", upfront) else required_number(place, column, price)


def offer_cells(place: Place, row: Row) -> dict[str, Any]:
    """The cells of a price row by the names of an offer."""
    price = row["price_per_instance_usd_per_hour"]
    if row.get("currency", "USD") != "USD":
        raise unreadable(place, "currency", row["currency"], "USD; other currencies go into foreign_offers/")
    return {
        "cloud": text(place, "cloud", row["cloud"]),
        "region": text(place, "region", row["region"]),
        "instance": text(place, "instance_type", row["instance_type"]),
        "price_kind": choice(place, "price_kind", row["price_kind"], PRICE_KINDS),
        "price_per_instance_usd_per_hour": stated_price(place, price, row["upfront_usd"]),
        "basis": choice(place, "basis", row["basis"], PRICE_BASES),
        "source": text(place, "source_id", row["source_id"]),
        "as_of": day(place, "as_of", row["as_of"]),
        "upfront_usd": number(place, "upfront_usd", row["upfront_usd"]) or 0.0,
        "interruption": row["interruption"] or None,
        "max_instances": whole(place, "max_instances", row.get("max_instances")),
        "until": last_day(place, row),
        "doubt": row.get("doubt") or "",
    }


def last_day(place: Place, row: Row) -> date | None:
    """The day up to which a row holds, that day too; None where it has no end."""
    strange = strange_end(tuple(row))
    if strange is not None:
        raise UsageError(f"{place}: no such column", found=strange, expected=f"{UNTIL}, the last day of a price")
    if not row.get(UNTIL):
        return None
    found, begins = day(place, UNTIL, row[UNTIL]), day(place, "as_of", row["as_of"])
    if found < begins:
        raise unreadable(place, UNTIL, row[UNTIL], f"a day from as_of on, {begins}")
    return found


@lru_cache(maxsize=16)
def strange_end(columns: tuple[str, ...]) -> str | None:
    """The first column that seems to hold a last day under another name; None where there is none."""
    return next((column for column in columns if column != UNTIL and ENDING.search(column)), None)


def availability_from(place: Place, row: Row) -> Availability:
    """A row of "sold here"."""
    return Availability(
        cloud=text(place, "cloud", row["cloud"]),
        region=text(place, "region", row["region"]),
        instance=text(place, "instance_type", row["instance_type"]),
        num_zones=whole(place, "num_zones", row["num_zones"]),
        source=text(place, "source_id", row["source_id"]),
        as_of=day(place, "as_of", row["as_of"]),
        zones=tuple(row.get("zones", "").split()),
        sold_as=tuple(choice(place, "sold_as", word, PRICE_KINDS) for word in row.get("sold_as", "").split()),
    )


def region_from(place: Place, row: Row, default_source: str | None = None) -> Region:
    """A row of regions.csv; a user's may leave out where on the map it lies, but no half of it."""
    latitude = degrees(place, "latitude_degrees", row.get("latitude_degrees"), MOST_LATITUDE)
    longitude = degrees(place, "longitude_degrees", row.get("longitude_degrees"), MOST_LONGITUDE)
    if (latitude is None) != (longitude is None):
        half = "longitude_degrees" if longitude is None else "latitude_degrees"
        raise unreadable(place, half, "", "both a latitude and a longitude, or neither")
    return Region(
        cloud=text(place, "cloud", row["cloud"]),
        region=text(place, "region", row["region"]),
        country=text(place, "country", row["country"]).upper(),
        place=row["place"],
        source=text(place, "source_id", row["source_id"] or default_source),
        latitude_degrees=latitude,
        longitude_degrees=longitude,
    )


def country_from(place: Place, row: Row) -> Country:
    """A row of countries.csv."""
    return Country(
        code=text(place, "country", row["country"]),
        name=text(place, "name", row["name"]),
        areas=tuple(row["areas"].split()),
        source=text(place, "source_id", row["source_id"]),
    )


def typical_discount_from(place: Place, row: Row) -> TypicalDiscount:
    """A row of typical_discounts.csv."""
    low = required_number(place, "saving_low_ratio", row["saving_low_ratio"])
    high = required_number(place, "saving_high_ratio", row["saving_high_ratio"])
    if not low <= high < 1:
        raise unreadable(place, "saving_high_ratio", row["saving_high_ratio"], "a share from the low one up to 1")
    return TypicalDiscount(
        cloud=text(place, "cloud", row["cloud"]),
        price_kind=choice(place, "price_kind", row["price_kind"], PRICE_KINDS),
        saving_low_ratio=low,
        saving_high_ratio=high,
        source=text(place, "source_id", row["source_id"]),
        evidence=row["evidence"],
    )


def price_move_from(place: Place, row: Row) -> PriceMove:
    """A row of price_moves.csv."""
    lowest, highest, everyday = (required_number(place, column, row[column]) for column in MOVE_COLUMNS[1:4])
    kind = choice(place, "price_kind", row["price_kind"], {word: word for word in (*PRICE_KINDS, EVERY_KIND)})
    num_points = whole(place, "num_points", row["num_points"]) or 0
    source = text(place, "source_id", row["source_id"])
    return PriceMove(kind, lowest, highest, everyday, num_points, source, row["evidence"])


def source_from(place: Place, source_id: str, table: Mapping[str, Any]) -> Source:
    """A source from its TOML table."""
    refuse_unknown_keys(place, table, SOURCE_KEYS)
    as_of, first_seen = table.get("as_of"), table.get("first_seen")
    return Source(
        id=source_id,
        title=text(place, "title", table.get("title")),
        as_of=None if as_of is None else day(place, "as_of", as_of),
        url=table.get("url"),
        licence=table.get("licence"),
        first_seen=None if first_seen is None else day(place, "first_seen", first_seen),
    )
