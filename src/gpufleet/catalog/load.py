"""Reads the shipped tables, and a user's tables of the same names over them, into one `Catalog`."""

from __future__ import annotations

import csv
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from gpufleet.catalog.references import broken_references
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
from gpufleet.catalog.tables import Catalog, InstanceKey
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

OfferKey = tuple[str, str, str, PriceKind]
Item = TypeVar("Item")


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
    catalog = Catalog(
        accelerators=merged(directories, accelerators_in),
        instances={key: found for key, found in described.items() if isinstance(found, Instance)},
        incomplete_instances={key: found for key, found in described.items() if isinstance(found, IncompleteInstance)},
        offers=tuple(merged(directories, offers_in).values()),
        availability=tuple(merged(directories, availability_in).values()),
        sources=merged(directories, sources_in),
        gpu_aliases=merged(directories, gpu_aliases_in),
        restricted_regions=merged(directories, restricted_regions_in),
    )
    if overlay is not None:
        refuse_broken_references(catalog, overlay)
    return catalog


def refuse_broken_references(catalog: Catalog, overlay: str) -> None:
    """A user's row must not name what no table holds."""
    findings = broken_references(catalog)
    if findings:
        first = findings[0]
        raise UsageError(
            f"the catalog overlay {overlay} does not hold together: {first.row}: {first.fault}",
            hint=f"{len(findings)} such rows." if len(findings) > 1 else None,
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


__all__ = ["Catalog", "load_catalog"]
