"""Reads the shipped tables, and a user's tables of the same names over them, into one `Catalog`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from gpufleet.catalog.current_date import current_date
from gpufleet.catalog.kept import kept
from gpufleet.catalog.own_terms import (
    BILL_COLUMNS,
    OWN_SOURCE,
    OWN_TITLE,
    bill_line_from,
)
from gpufleet.catalog.price_drift import with_likely_prices
from gpufleet.catalog.prices_in_force import (
    Days,
    ended_prices,
    first_seen_by,
    foreign_offers_in,
    holding,
    later_prices,
    on_own_terms,
    priced,
    rates_in,
    unlisted_places,
)
from gpufleet.catalog.query import gpu_of
from gpufleet.catalog.schema import (
    DISCOUNT_COLUMNS,
    MOVE_COLUMNS,
    IncompleteInstance,
    price_move_from,
    typical_discount_from,
)
from gpufleet.catalog.snapshots import (
    MANIFEST_FILE,
    OFFERS_FILE,
    Snapshot,
    read_snapshot,
    snapshot_folders,
    snapshot_root,
)
from gpufleet.catalog.spot_age import with_spot_ages
from gpufleet.catalog.table_files import SHIPPED, merged, table_in
from gpufleet.catalog.table_rows import (
    PlacedOffer,
    accelerators_in,
    availability_in,
    countries,
    gpu_aliases_in,
    instances_in,
    located_regions_in,
    offer_rows,
    own_machines_in,
    restricted_regions_in,
    sources_in,
)
from gpufleet.catalog.tables import Catalog
from gpufleet.domain.accelerator import Accelerator
from gpufleet.domain.instance import Instance
from gpufleet.errors import UsageError
from gpufleet.files import entries_of, files_below, named_path
from gpufleet.provenance import Source

if TYPE_CHECKING:
    from gpufleet.catalog.own_machines import OwnMachine

OVERLAY_VARIABLE = "GPUFLEET_CATALOG"
FOLDERS = ("accelerators", "instances", "offers", "availability", "foreign_offers")


def load_catalog(
    overlay: str | os.PathLike[str] | None = None, today: date | None = None, as_of: date | None = None
) -> Catalog:
    """The shipped catalog under the newest price snapshots, under rows of `overlay` (or of GPUFLEET_CATALOG).

    Rows of an overlay must keep the rules of the shipped ones, and none may be dated after `today`. With `as_of`, only
    prices and snapshots up to that day count: the prices as they were known then.

    >>> round(load_catalog().accelerators["L40S"].memory_bytes / 2**20)
    45776
    """
    day = today or current_date()
    refuse_later_day(as_of, day)
    directory = overlay or os.environ.get(OVERLAY_VARIABLE) or None
    snapshots = snapshot_folders(snapshot_root(), as_of)
    now = as_of or day
    if directory is None:
        return _load_tables(snapshots, as_of, now)
    own = overlay_directory(directory).resolve()
    return _load_overlay(own, day, snapshots, as_of, now)


def refuse_later_day(as_of: date | None, today: date) -> None:
    """Prices of a day to come are not known."""
    if as_of is not None and as_of > today:
        raise UsageError(
            "prices of a day in the future are not known",
            found=str(as_of),
            expected=f"a day up to today, {today}",
            hint="Without --as-of the newest prices count, and --max-age says how old they may be.",
        )


def load_shipped_and_refreshed() -> Catalog:
    """The tables without anybody's overlay: what a refresh is compared with."""
    return _load_tables(snapshot_folders(snapshot_root()), None, current_date())


@lru_cache(maxsize=4)
def _load_overlay(directory: Path, today: date, snapshots: tuple[Path, ...], as_of: date | None, now: date) -> Catalog:
    from gpufleet.catalog.overlay import overlay_rows, refuse_broken_rules, refuse_unknown_entries
    from gpufleet.catalog.own_doubts import with_doubts

    refuse_unknown_entries(directory)
    written = tuple(offer_rows(directory))
    catalog = read_catalog(directory, snapshots, Days(as_of, now), written)
    rows, listed = overlay_rows(directory, now, written), _load_tables(snapshots, as_of, now)
    refuse_broken_rules(catalog, listed, rows, directory, today)
    return with_doubts(catalog, listed, rows.places)


@lru_cache(maxsize=4)
def _load_tables(snapshots: tuple[Path, ...], as_of: date | None, now: date) -> Catalog:
    if as_of is not None:
        return read_catalog(None, snapshots, Days(as_of, now))
    files = [*table_files(), *(folder / name for folder in snapshots for name in (OFFERS_FILE, MANIFEST_FILE))]
    return kept("catalog", files, (snapshots, now), lambda: read_catalog(None, snapshots, Days(None, now)))


def table_files() -> list[Path]:
    """Every file that the shipped catalog is read from."""
    inside = [
        file for folder in FOLDERS for suffix in (".csv", ".toml") for file in files_below(SHIPPED / folder, suffix)
    ]
    return [*(entry for entry in entries_of(SHIPPED) if os.path.isfile(entry)), *inside]


def read_catalog(
    overlay: Path | None, snapshots: tuple[Path, ...], days: Days, written: Sequence[PlacedOffer] = ()
) -> Catalog:
    """The tables as they stand in their files; `written` are all prices of the overlay, of whatever day."""
    directories = [SHIPPED] if overlay is None else [SHIPPED, overlay]
    accelerators, aliases = merged(directories, accelerators_in), merged(directories, gpu_aliases_in)
    own = [by_full_name(m, accelerators, aliases) for m in own_machines_in(overlay, days.now)] if overlay else []
    described = merged(directories, instances_in) | {(m.instance.cloud, m.instance.name): m.instance for m in own}
    taken = [read_snapshot(folder) for folder in snapshots]
    instances = {key: found for key, found in described.items() if isinstance(found, Instance)}
    availability, sources = merged(directories, availability_in), sources_of(directories, taken)
    sold = [*availability, *((cloud, "", name) for cloud, name in described)]
    known = first_seen_by(sources, priced(overlay, taken, instances, days, sold, written))
    listed = with_spot_ages(known, days.now)
    return Catalog(
        accelerators=accelerators,
        instances=instances,
        incomplete_instances={key: found for key, found in described.items() if isinstance(found, IncompleteInstance)},
        offers=with_likely_prices(
            on_own_terms(overlay, listed, [machine.offer for machine in own], sold, instances, (accelerators, aliases)),
            days.now,
        ),
        availability=tuple(availability.values()),
        sources=sources,
        gpu_aliases=aliases,
        restricted_regions=merged(directories, restricted_regions_in),
        located_regions=merged(directories, located_regions_in),
        countries=countries(),
        foreign_offers=tuple(f for directory in directories for f in foreign_offers_in(directory, days.now)),
        exchange_rates=tuple(rates_in(overlay, days)) if overlay else (),
        bill_lines=tuple(table_in(overlay, "bill_lines.csv", BILL_COLUMNS, bill_line_from)) if overlay else (),
        typical_discounts=tuple(table_in(SHIPPED, "typical_discounts.csv", DISCOUNT_COLUMNS, typical_discount_from)),
        price_moves=tuple(table_in(SHIPPED, "price_moves.csv", MOVE_COLUMNS, price_move_from)),
        as_of=days.as_of,
        now=days.now,
        unlisted=unlisted_places(holding(written, days).values(), availability.values()),
        ended=ended_prices(overlay, days, listed, written) if overlay else (),
        later_prices=later_prices([*offer_rows(SHIPPED), *written], listed.values()) if days.as_of else {},
    )


def sources_of(directories: Sequence[Path], taken: Sequence[Snapshot]) -> dict[str, Source]:
    """Sources of the tables and of the snapshots, and the user's own tables where they name none."""
    own = {OWN_SOURCE: Source(OWN_SOURCE, OWN_TITLE)} if len(directories) > 1 else {}
    return own | merged(list(directories), sources_in) | {s.of.source.id: s.of.source for s in taken}


def overlay_directory(overlay: str | os.PathLike[str]) -> Path:
    """The user's directory, which must exist when it is named."""
    path = named_path(overlay)
    if not os.path.isdir(path):
        raise UsageError(
            "the folder of your own tables is not there", found=str(overlay), expected="an existing folder"
        )
    return path


def by_full_name(
    machine: OwnMachine, accelerators: Mapping[str, Accelerator], aliases: Mapping[str, str]
) -> OwnMachine:
    """The machine with its GPU by the name of the tables, where the user wrote another that means it."""
    found = gpu_of(machine.instance.accelerator, accelerators, aliases)
    return machine if found is None else machine._replace(instance=replace(machine.instance, accelerator=found))


__all__ = ["Catalog", "load_catalog"]
