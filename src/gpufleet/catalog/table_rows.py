"""Rows of each table of a folder, of the shipped one and of a user's alike."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpufleet.catalog.own_terms import (
    OWN_SOURCE,
)
from gpufleet.catalog.schema import (
    AVAILABILITY_COLUMNS,
    COUNTRY_COLUMNS,
    INSTANCE_COLUMNS,
    OFFER_COLUMNS,
    REGION_COLUMNS,
    RESTRICTED_COLUMNS,
    Availability,
    Country,
    IncompleteInstance,
    Place,
    Region,
    accelerator_from,
    availability_from,
    country_from,
    instance_from,
    offer_from,
    region_from,
    source_from,
    text,
)
from gpufleet.catalog.table_files import SHIPPED, placed_rows, rows_of, table_in, tables_of, toml_files, toml_of
from gpufleet.catalog.tables import InstanceKey
from gpufleet.domain.accelerator import Accelerator
from gpufleet.domain.instance import Instance
from gpufleet.domain.offer import Offer
from gpufleet.provenance import Source

if TYPE_CHECKING:
    from gpufleet.catalog.own_machines import OwnMachine

SOURCES, ALIASES, OWNED, REGIONS = "sources.toml", "gpu_aliases.toml", "owned.toml", "regions.csv"
PlacedOffer = tuple[Place, Offer]


def accelerator_tables(directory: Path) -> Iterator[tuple[Place, str, Mapping[str, Any]]]:
    """Tables of accelerators/*.toml, each with its place and name."""
    for path in toml_files(directory / "accelerators"):
        for name, table in tables_of(path):
            yield Place(str(path), f"[{name}]"), name, table


def accelerators_in(directory: Path) -> dict[str, Accelerator]:
    """Accelerators by name."""
    return {name: accelerator_from(place, name, table) for place, name, table in accelerator_tables(directory)}


def instance_rows(directory: Path) -> Iterator[tuple[Place, Instance | IncompleteInstance]]:
    """Rows of instances/*.csv."""
    return placed_rows(directory / "instances", INSTANCE_COLUMNS, instance_from)


def instances_in(directory: Path) -> dict[InstanceKey, Instance | IncompleteInstance]:
    """Instances by cloud and name."""
    return {(row.cloud, row.name): row for _, row in instance_rows(directory)}


def offer_rows(directory: Path) -> Iterator[PlacedOffer]:
    """Rows of offers/<cloud>/<date>.csv."""
    return placed_rows(directory / "offers", OFFER_COLUMNS, offer_from)


def availability_rows(directory: Path) -> Iterator[tuple[Place, Availability]]:
    """Rows of availability/<cloud>.csv."""
    return placed_rows(directory / "availability", AVAILABILITY_COLUMNS, availability_from)


def availability_in(directory: Path) -> dict[tuple[str, str, str], Availability]:
    """What is sold where."""
    return {(row.cloud, row.region, row.instance): row for _, row in availability_rows(directory)}


def sources_in(directory: Path) -> dict[str, Source]:
    """Tables of sources.toml by id."""
    path = directory / SOURCES
    if not os.path.lexists(path):
        return {}
    return {name: source_from(Place(str(path), f"[{name}]"), name, table) for name, table in tables_of(path)}


def gpu_aliases_in(directory: Path) -> dict[str, str]:
    """gpu_aliases.toml: what people write -> the id."""
    path = directory / ALIASES
    if not os.path.lexists(path):
        return {}
    return {alias: text(Place(str(path), alias), "alias", name) for alias, name in toml_of(path).items()}


def restricted_regions_in(directory: Path) -> dict[tuple[str, str], str]:
    """restricted_regions.csv: regions that not everybody can buy in, and who can."""
    path = directory / "restricted_regions.csv"
    if not os.path.lexists(path):
        return {}
    return {(row["cloud"], row["region"]): row["access"] for _, row in rows_of(path, RESTRICTED_COLUMNS)}


def located_regions_in(directory: Path) -> dict[tuple[str, str], Region]:
    """regions.csv: regions and the countries where they lie."""
    return {(row.cloud, row.region): row for _, row in region_rows(directory)}


def region_rows(directory: Path) -> Iterator[tuple[Place, Region]]:
    """Rows of regions.csv; a user's may leave out the source."""
    path = directory / REGIONS
    rows = rows_of(path, REGION_COLUMNS) if os.path.lexists(path) else ()
    return ((place, region_from(place, row, None if directory == SHIPPED else OWN_SOURCE)) for place, row in rows)


@lru_cache(maxsize=1)
def countries() -> Mapping[str, Country]:
    """countries.csv by the two letters of each."""
    return {row.code: row for row in table_in(SHIPPED, "countries.csv", COUNTRY_COLUMNS, country_from)}


def own_machine_tables(directory: Path) -> Iterator[tuple[Place, str, Mapping[str, Any]]]:
    """Tables of owned.toml, each with its place and name."""
    path = directory / OWNED
    tables = tables_of(path) if os.path.lexists(path) else ()
    return ((Place(str(path), f"[{name}]"), name, table) for name, table in tables)


def own_machines_in(directory: Path, today: date) -> list[OwnMachine]:
    """Machines that the user owns, written off up to `today`."""
    from gpufleet.catalog.own_machines import own_machine

    return [own_machine(place, name, table, OWN_SOURCE, today) for place, name, table in own_machine_tables(directory)]
