"""Reads the shipped tables, and a user's tables of the same names over them, into one `Catalog`."""

from __future__ import annotations

import csv
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, TypeVar

from gpufleet.catalog.schema import (
    AVAILABILITY_COLUMNS,
    INSTANCE_COLUMNS,
    OFFER_COLUMNS,
    REGION_COLUMNS,
    Availability,
    IncompleteInstance,
    Place,
    accelerator_from,
    availability_from,
    instance_from,
    offer_from,
    source_from,
    text,
)
from gpufleet.domain.accelerator import Accelerator
from gpufleet.domain.instance import Instance
from gpufleet.domain.offer import Offer, PriceKind
from gpufleet.errors import DataMissing, UsageError
from gpufleet.provenance import Source
from gpufleet.units import MIB

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SHIPPED = Path(__file__).parent.parent / "data"
OVERLAY_VARIABLE = "GPUFLEET_CATALOG"
MAX_FILE_BYTES = 50 * MIB

InstanceKey = tuple[str, str]
OfferKey = tuple[str, str, str, PriceKind]
Item = TypeVar("Item")


@dataclass(frozen=True, eq=False)
class Catalog:
    """Everything that the tables know; instances are keyed by (cloud, name), regions by (cloud, region)."""

    accelerators: Mapping[str, Accelerator]
    instances: Mapping[InstanceKey, Instance]
    offers: tuple[Offer, ...]
    sources: Mapping[str, Source]
    availability: tuple[Availability, ...] = ()
    gpu_aliases: Mapping[str, str] = field(default_factory=dict)
    incomplete_instances: Mapping[InstanceKey, IncompleteInstance] = field(default_factory=dict)
    restricted_regions: Mapping[tuple[str, str], str] = field(default_factory=dict)

    @cached_property
    def clouds(self) -> tuple[str, ...]:
        """Clouds that sell any instance, sorted."""
        return tuple(sorted({cloud for cloud, _ in self.instances}))

    @cached_property
    def described_instances(self) -> tuple[Instance | IncompleteInstance, ...]:
        """Every instance type, also those whose GPU count is not known."""
        return (*self.instances.values(), *self.incomplete_instances.values())

    @cached_property
    def regions(self) -> Mapping[str, tuple[str, ...]]:
        """Regions of each cloud that appear in offers or availability."""
        seen: dict[str, set[str]] = {cloud: set() for cloud in self.clouds}
        for cloud, region in self._places():
            seen.setdefault(cloud, set()).add(region)
        return {cloud: tuple(sorted(regions)) for cloud, regions in seen.items()}

    def _places(self) -> set[tuple[str, str]]:
        return {(o.cloud, o.region) for o in self.offers} | {(a.cloud, a.region) for a in self.availability}

    @cached_property
    def price_dates(self) -> Mapping[str, tuple[date, date]]:
        """Oldest and newest price of each cloud."""
        dates: dict[str, set[date]] = {}
        for offer in self.offers:
            dates.setdefault(offer.cloud, set()).add(offer.as_of)
        return {cloud: (min(days), max(days)) for cloud, days in dates.items()}

    def instance_of(self, offer: Offer) -> Instance:
        """The instance type that an offer sells."""
        return self.instances[offer.cloud, offer.instance]

    def accelerator_of(self, offer: Offer) -> Accelerator:
        """The accelerator in the instance that an offer sells."""
        return self.accelerators[self.instance_of(offer).accelerator]

    def is_open(self, cloud: str, region: str) -> bool:
        """Whether anybody may buy there (government and national-operator regions are not open)."""
        return (cloud, region) not in self.restricted_regions


def load_catalog(overlay: str | os.PathLike[str] | None = None) -> Catalog:
    """The shipped catalog; rows of `overlay` (or of the directory that GPUFLEET_CATALOG names) add or replace.

    >>> round(load_catalog().accelerators["L40S"].memory_bytes / 2**20)
    45776
    """
    directory = overlay or os.environ.get(OVERLAY_VARIABLE) or None
    return _load(None if directory is None else str(Path(directory).expanduser().resolve()))


@lru_cache(maxsize=4)
def _load(overlay: str | None) -> Catalog:
    directories = [SHIPPED, *overlay_directory(overlay)]
    described = merged(directories, instances_in)
    return Catalog(
        accelerators=merged(directories, accelerators_in),
        instances={key: found for key, found in described.items() if isinstance(found, Instance)},
        incomplete_instances={key: found for key, found in described.items() if isinstance(found, IncompleteInstance)},
        offers=tuple(merged(directories, offers_in).values()),
        availability=tuple(merged(directories, availability_in).values()),
        sources=merged(directories, sources_in),
        gpu_aliases=merged(directories, gpu_aliases_in),
        restricted_regions=merged(directories, restricted_regions_in),
    )


def overlay_directory(overlay: str | None) -> list[Path]:
    """The user's directory, which must exist when it is named."""
    if overlay is None:
        return []
    path = Path(overlay)
    if not path.is_dir():
        raise DataMissing("the catalog overlay is not a directory", found=overlay)
    return [path]


def merged(directories: list[Path], read: Callable[[Path], dict[Any, Item]]) -> dict[Any, Item]:
    """One table of all directories; a later row replaces an earlier one of the same key."""
    table: dict[Any, Item] = {}
    for directory in directories:
        table.update(read(directory))
    return table


def accelerators_in(directory: Path) -> dict[str, Accelerator]:
    """Tables of accelerators/*.toml by name."""
    return {
        name: accelerator_from(Place(path.name, f"[{name}]"), name, table)
        for path in sorted((directory / "accelerators").glob("*.toml"))
        for name, table in tables_of(path)
    }


def instances_in(directory: Path) -> dict[InstanceKey, Instance | IncompleteInstance]:
    """Rows of instances/*.csv by cloud and name."""
    rows = (
        instance_from(*row) for path in csv_files(directory / "instances") for row in rows_of(path, INSTANCE_COLUMNS)
    )
    return {(row.cloud, row.name): row for row in rows}


def offers_in(directory: Path) -> dict[OfferKey, Offer]:
    """Rows of offers/<cloud>/<date>.csv; of several dates the newest counts."""
    newest: dict[OfferKey, Offer] = {}
    for path in csv_files(directory / "offers"):
        for row in rows_of(path, OFFER_COLUMNS):
            offer = offer_from(*row)
            key = (offer.cloud, offer.region, offer.instance, offer.price_kind)
            if key not in newest or newest[key].as_of <= offer.as_of:
                newest[key] = offer
    return newest


def availability_in(directory: Path) -> dict[tuple[str, str, str], Availability]:
    """Rows of availability/<cloud>.csv."""
    rows = (
        availability_from(*row)
        for path in csv_files(directory / "availability")
        for row in rows_of(path, AVAILABILITY_COLUMNS)
    )
    return {(row.cloud, row.region, row.instance): row for row in rows}


def sources_in(directory: Path) -> dict[str, Source]:
    """Tables of sources.toml by id."""
    path = directory / "sources.toml"
    if not path.exists():
        return {}
    return {name: source_from(Place(path.name, f"[{name}]"), name, table) for name, table in tables_of(path)}


def gpu_aliases_in(directory: Path) -> dict[str, str]:
    """gpu_aliases.toml: what people write -> the id."""
    path = directory / "gpu_aliases.toml"
    if not path.exists():
        return {}
    return {alias: text(Place(path.name, alias), "alias", name) for alias, name in toml_of(path).items()}


def restricted_regions_in(directory: Path) -> dict[tuple[str, str], str]:
    """restricted_regions.csv: regions that not everybody can buy in, and who can."""
    path = directory / "restricted_regions.csv"
    if not path.exists():
        return {}
    return {(row["cloud"], row["region"]): row["access"] for _, row in rows_of(path, REGION_COLUMNS)}


def csv_files(directory: Path) -> list[Path]:
    """CSV files at any depth, in a stable order."""
    return sorted(directory.rglob("*.csv"))


def rows_of(path: Path, columns: tuple[str, ...]) -> Iterator[tuple[Place, dict[str, str]]]:
    """Rows of a CSV file with the place of each; a header without one of the columns is refused."""
    lines = csv.reader(content_of(path).splitlines())
    header = next(lines, [])
    missing = [column for column in columns if column not in header]
    if missing:
        raise UsageError(f"{path.name}: the header lacks a column", found=",".join(header), expected=missing[0])
    for line_number, cells in enumerate(lines, start=2):
        place = Place(path.name, f"line {line_number}")
        if len(cells) != len(header):
            raise UsageError(f"{place}: wrong number of cells", found=len(cells), expected=str(len(header)))
        yield place, dict(zip(header, cells, strict=True))


def tables_of(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Tables of a TOML file by name."""
    for name, table in toml_of(path).items():
        if not isinstance(table, dict):
            raise UsageError(f"{path.name}: {name} stands outside a table", expected=f"a heading such as [{name}]")
        yield name, table


def toml_of(path: Path) -> dict[str, Any]:
    """A TOML file."""
    try:
        tables: dict[str, Any] = tomllib.loads(content_of(path))
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path.name} is not TOML: {error}") from error
    return tables


def content_of(path: Path) -> str:
    """A text file of sane size."""
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise UsageError(
                f"{path.name} is too large for a catalog table", expected=f"up to {MAX_FILE_BYTES:.0f} bytes"
            )
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path.name}: {error}") from error
