"""Reads the shipped tables, and a user's tables of the same names over them, into one `Catalog`."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from gpufleet.catalog.current_date import current_date
from gpufleet.catalog.kept import kept
from gpufleet.catalog.own_terms import (
    BILL_COLUMNS,
    CONTRACT_COLUMNS,
    FOREIGN_COLUMNS,
    GPU_QUOTA_COLUMNS,
    OWN_SOURCE,
    OWN_TITLE,
    QUOTA_COLUMNS,
    RATE_COLUMNS,
    EndedPrice,
    ExchangeRate,
    ForeignOffer,
    Match,
    Sold,
    bill_line_from,
    contract_from,
    discounted,
    exchanged,
    foreign_offer_from,
    gpu_quota_from,
    quota_from,
    rate_from,
    within_gpu_quotas,
    within_quotas,
)
from gpufleet.catalog.query import gpu_of
from gpufleet.catalog.schema import (
    AVAILABILITY_COLUMNS,
    COUNTRY_COLUMNS,
    DISCOUNT_COLUMNS,
    INSTANCE_COLUMNS,
    MOVE_COLUMNS,
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
    price_move_from,
    region_from,
    source_from,
    text,
    typical_discount_from,
)
from gpufleet.catalog.snapshots import (
    MANIFEST_FILE,
    OFFERS_FILE,
    Snapshot,
    read_snapshot,
    refuse_foreign_offer,
    snapshot_folders,
    snapshot_root,
    unread,
)
from gpufleet.catalog.tables import Catalog, InstanceKey
from gpufleet.domain.accelerator import Accelerator
from gpufleet.domain.instance import Instance
from gpufleet.domain.offer import Offer, PriceKind
from gpufleet.errors import UsageError, nearest_names
from gpufleet.files import entries_of, files_below, named_path, read_text_file, toml_table
from gpufleet.provenance import Source
from gpufleet.units import MB

if TYPE_CHECKING:
    from gpufleet.catalog.overlay import OverlayRows
    from gpufleet.catalog.own_machines import OwnMachine

SHIPPED = Path(__file__).parent.parent / "data"
OVERLAY_VARIABLE = "GPUFLEET_CATALOG"
SOURCES, ALIASES, OWNED, REGIONS = "sources.toml", "gpu_aliases.toml", "owned.toml", "regions.csv"
FOLDERS = ("accelerators", "instances", "offers", "availability", "foreign_offers")
MAX_FILE_BYTES = 50 * MB

LIST_PRICE, NO_PRICE = "the listed price counts", "left out"

OfferKey = tuple[str, str, str, PriceKind]
PlacedOffer = tuple[Place, Offer]
Item = TypeVar("Item")


class Days(NamedTuple):
    """The day up to which prices count, where one was asked, and the day on which they must hold."""

    as_of: date | None
    now: date

    def has_begun(self, day: date) -> bool:
        """Whether what is of that day counts."""
        return self.as_of is None or day <= self.as_of


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
    from gpufleet.catalog.overlay import refuse_broken_rules, refuse_unknown_entries
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
    listed = first_seen_by(sources, priced(overlay, taken, instances, days, sold, written))
    return Catalog(
        accelerators=accelerators,
        instances=instances,
        incomplete_instances={key: found for key, found in described.items() if isinstance(found, IncompleteInstance)},
        offers=on_own_terms(
            overlay, listed, [machine.offer for machine in own], sold, instances, (accelerators, aliases)
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


def later_prices(written: Iterable[PlacedOffer], listed: Iterable[Offer]) -> dict[tuple[str, PriceKind], date]:
    """Clouds and price kinds without a price up to the day that is asked, and the day of their first one."""
    days: dict[tuple[str, PriceKind], date] = {}
    for _, offer in written:
        key = offer.cloud, offer.price_kind
        days[key] = min(days.get(key, offer.as_of), offer.as_of)
    known = {(offer.cloud, offer.price_kind) for offer in listed}
    return {key: day for key, day in sorted(days.items()) if key not in known}


def sources_of(directories: Sequence[Path], taken: Sequence[Snapshot]) -> dict[str, Source]:
    """Sources of the tables and of the snapshots, and the user's own tables where they name none."""
    own = {OWN_SOURCE: Source(OWN_SOURCE, OWN_TITLE)} if len(directories) > 1 else {}
    return own | merged(list(directories), sources_in) | {s.of.source.id: s.of.source for s in taken}


def priced(
    overlay: Path | None,
    taken: Sequence[Snapshot],
    instances: Mapping[InstanceKey, Instance],
    days: Days,
    sold: Sequence[Sold],
    written: Sequence[PlacedOffer],
) -> dict[OfferKey, Offer]:
    """Shipped prices, and those of snapshots in place of what they cover; in dollars what the user has a rate for."""
    shipped = holding(offer_rows(SHIPPED), days)
    offers = {key: o for key, o in shipped.items() if not any(snapshot.covers(o) for snapshot in taken)}
    for snapshot in taken:
        offers |= {offer_key(o): o for o in snapshot_offers(snapshot) if (o.cloud, o.instance) in instances}
    if overlay is None:
        return offers
    rates = {rate.currency: rate for rate in rates_in(overlay, days)}
    offers |= {offer_key(offer): offer for offer in exchanged(foreign_offers_in(SHIPPED, days.now), rates)}
    abroad = exchanged(foreign_offers_in(overlay, days.now), rates)
    offers |= {offer_key(offer): replace(offer, is_own=True) for offer in abroad}
    signed = table_in(overlay, "contracts.csv", CONTRACT_COLUMNS, contract_from)
    contracts = [c for c in signed if days.has_begun(c.as_of) and c.is_in_force(days.now)]
    agreed = discounted(offers.values(), contracts, sold) if contracts else offers.values()
    own = {key: replace(offer, is_own=True) for key, offer in holding(written, days).items()}
    return {offer_key(offer): offer for offer in agreed} | own


def snapshot_offers(snapshot: Snapshot) -> Iterator[Offer]:
    """Prices of a snapshot."""
    path = snapshot.folder / OFFERS_FILE
    try:
        for place, row in rows_in(path, snapshot.table, OFFER_COLUMNS):
            offer = offer_from(place, row)
            refuse_foreign_offer(snapshot, offer)
            yield offer
    except (UsageError, ValueError) as error:
        raise unread(snapshot.folder, f"is foreign: {error}") from None


def ended_prices(
    overlay: Path, days: Days, listed: Mapping[OfferKey, Offer], written: Sequence[PlacedOffer]
) -> tuple[EndedPrice, ...]:
    """Prices and discounts of the user that have ended with nothing of theirs in their place, and what counts now."""
    current = holding(written, days)
    last = {offer_key(o): o for _, o in written if days.has_begun(o.as_of) and not o.holds_on(days.now)}
    prices = [
        EndedPrice(Match(*key[:3], key[3].value), offer.until, LIST_PRICE if key in listed else NO_PRICE)
        for key, offer in last.items()
        if key not in current and offer.until is not None
    ]
    signed = list(table_in(overlay, "contracts.csv", CONTRACT_COLUMNS, contract_from))
    running = {contract.match for contract in signed if contract.is_in_force(days.now)}
    discounts = [
        EndedPrice(contract.match, contract.until, LIST_PRICE)
        for contract in signed
        if contract.until is not None and not contract.is_in_force(days.now) and contract.match not in running
    ]
    return (*prices, *discounts)


def unlisted_places(own: Iterable[Offer], availability: Iterable[Availability]) -> dict[Sold, date]:
    """Machine types at prices of the user that are not known to be sold in their region, of those that are known."""
    known: dict[tuple[str, str], date] = {}
    sold = set()
    for row in availability:
        place = row.cloud, row.region
        known[place] = max(known.get(place, row.as_of), row.as_of)
        sold.add((*place, row.instance))
    places = ((o.cloud, o.region, o.instance) for o in own)
    return {key: known[key[:2]] for key in places if key[:2] in known and key not in sold}


def first_seen_by(sources: Mapping[str, Source], listed: Mapping[OfferKey, Offer]) -> dict[OfferKey, Offer]:
    """Prices, those of undated copies with the day on which these were first seen."""
    undated = {source.id: source.first_seen for source in sources.values() if source.first_seen is not None}
    return {
        key: replace(offer, first_seen=undated[offer.source]) if offer.source in undated else offer
        for key, offer in listed.items()
    }


def on_own_terms(
    overlay: Path | None,
    listed: Mapping[OfferKey, Offer],
    own: Sequence[Offer],
    sold: Sequence[Sold],
    instances: Mapping[InstanceKey, Instance],
    gpus: tuple[Mapping[str, Accelerator], Mapping[str, str]],
) -> tuple[Offer, ...]:
    """Listed prices and one's own machines, within one's quotas of machines and of GPUs."""
    offers = (*listed.values(), *own)
    if overlay is None:
        return offers
    quotas = list(table_in(overlay, "quotas.csv", QUOTA_COLUMNS, quota_from))
    bounded = tuple(within_quotas(offers, quotas, sold)) if quotas else offers
    typed = table_in(overlay, "gpu_quotas.csv", GPU_QUOTA_COLUMNS, gpu_quota_from)
    of_gpus = [replace(q, match=q.match._replace(gpu=gpu_of(q.match.gpu, *gpus) or q.match.gpu)) for q in typed]
    return tuple(within_gpu_quotas(bounded, of_gpus, instances)) if of_gpus else bounded


def overlay_directory(overlay: str | os.PathLike[str]) -> Path:
    """The user's directory, which must exist when it is named."""
    path = named_path(overlay)
    if not os.path.isdir(path):
        raise UsageError(
            "the folder of your own tables is not there", found=str(overlay), expected="an existing folder"
        )
    return path


def overlay_rows(directory: Path, today: date, offers: Sequence[PlacedOffer]) -> OverlayRows:
    """Where each row of a user's tables stands."""
    from gpufleet.catalog.overlay import OverlayRows
    from gpufleet.catalog.references import label

    places = {name: place for place, name, _ in accelerator_tables(directory)}
    places |= {name: Place(str(directory / SOURCES), f"[{name}]") for name in sources_in(directory)}
    places |= {alias: Place(str(directory / ALIASES), alias) for alias in gpu_aliases_in(directory)}
    places |= {f"{row.cloud} {row.name}": place for place, row in instance_rows(directory)}
    places |= {f"{row.cloud} {row.region} {row.instance}": place for place, row in availability_rows(directory)}
    places |= {f"region {row.cloud} {row.region}": place for place, row in region_rows(directory)}
    owned = {
        label(own.offer): place
        for (place, *_), own in zip(own_machine_tables(directory), own_machines_in(directory, today), strict=True)
    }
    named = places | owned | foreign_places(directory) | {label(offer): place for place, offer in offers}
    return OverlayRows(named, offers, located_rows(directory, [offer for _, offer in offers]), agreed_days(directory))


def foreign_places(directory: Path) -> dict[str, Place]:
    """Where prices in another currency stand."""
    rows = placed_rows(directory / "foreign_offers", FOREIGN_COLUMNS, foreign_offer_from)
    return {f"{f.cloud} {f.region} {f.instance} {f.price_kind.value}": place for place, f in rows}


def located_rows(directory: Path, offers: Iterable[Offer]) -> list[tuple[str, str, str]]:
    """Every row of a user's tables that names a region: how a finding names it, cloud and region."""
    from gpufleet.catalog.references import label

    sold = [row for _, row in availability_rows(directory)]
    foreign = foreign_offers_in(directory, date.min)
    return [
        *((label(offer), offer.cloud, offer.region) for offer in offers),
        *((f"{row.cloud} {row.region} {row.instance}", row.cloud, row.region) for row in sold),
        *((f"{f.cloud} {f.region} {f.instance} {f.price_kind.value}", f.cloud, f.region) for f in foreign),
    ]


def agreed_days(directory: Path) -> list[tuple[Place, str, date]]:
    """From which day contracts and exchange rates hold."""
    contracts = table_in(directory, "contracts.csv", CONTRACT_COLUMNS, contract_from)
    path = directory / "exchange_rates.csv"
    rows = rows_of(path, RATE_COLUMNS) if os.path.lexists(path) else ()
    rates = ((place, rate_from(place, row)) for place, row in rows)
    return [
        *((contract.place, "the contract", contract.as_of) for contract in contracts),
        *((place, f"the rate of {rate.currency}", rate.as_of) for place, rate in rates),
    ]


def merged(directories: list[Path], read: Callable[[Path], dict[Any, Item]]) -> dict[Any, Item]:
    """One table of all directories; a later row replaces an earlier one of the same key."""
    table: dict[Any, Item] = {}
    for directory in directories:
        table.update(read(directory))
    return table


def own_machine_tables(directory: Path) -> Iterator[tuple[Place, str, Mapping[str, Any]]]:
    """Tables of owned.toml, each with its place and name."""
    path = directory / OWNED
    tables = tables_of(path) if os.path.lexists(path) else ()
    return ((Place(str(path), f"[{name}]"), name, table) for name, table in tables)


def own_machines_in(directory: Path, today: date) -> list[OwnMachine]:
    """Machines that the user owns, written off up to `today`."""
    from gpufleet.catalog.own_machines import own_machine

    return [own_machine(place, name, table, OWN_SOURCE, today) for place, name, table in own_machine_tables(directory)]


def by_full_name(
    machine: OwnMachine, accelerators: Mapping[str, Accelerator], aliases: Mapping[str, str]
) -> OwnMachine:
    """The machine with its GPU by the name of the tables, where the user wrote another that means it."""
    found = gpu_of(machine.instance.accelerator, accelerators, aliases)
    return machine if found is None else machine._replace(instance=replace(machine.instance, accelerator=found))


def foreign_offers_in(directory: Path, now: date) -> list[ForeignOffer]:
    """Rows of foreign_offers/*.csv that have not ended."""
    rows = placed_rows(directory / "foreign_offers", FOREIGN_COLUMNS, foreign_offer_from)
    return [row for _, row in rows if row.until is None or now <= row.until]


def rates_in(directory: Path, days: Days) -> list[ExchangeRate]:
    """Rows of exchange_rates.csv that have begun."""
    rates = table_in(directory, "exchange_rates.csv", RATE_COLUMNS, rate_from)
    return [rate for rate in rates if days.has_begun(rate.as_of)]


def table_in(
    directory: Path, name: str, columns: tuple[str, ...], read: Callable[[Place, Mapping[str, str]], Item]
) -> Iterator[Item]:
    """Rows of a single table, none where there is no such file."""
    path = directory / name
    return (read(place, row) for place, row in rows_of(path, columns)) if os.path.lexists(path) else iter(())


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


def holding(written: Iterable[PlacedOffer], days: Days) -> dict[OfferKey, Offer]:
    """Offers by place and kind that hold; of several dates the newest counts, up to `as_of` where one is given."""
    newest: dict[OfferKey, Offer] = {}
    for _, offer in written:
        key = offer_key(offer)
        holds = days.has_begun(offer.as_of) and offer.holds_on(days.now)
        if holds and (key not in newest or newest[key].as_of <= offer.as_of):
            newest[key] = offer
    return newest


def offer_key(offer: Offer) -> OfferKey:
    """What there is one price of."""
    return offer.cloud, offer.region, offer.instance, offer.price_kind


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


def toml_files(folder: Path) -> list[Path]:
    """TOML files of a folder, in a stable order."""
    return [entry for entry in entries_of(folder) if entry.suffix == ".toml"]


def placed_rows(
    folder: Path, columns: tuple[str, ...], read: Callable[[Place, Mapping[str, str]], Item]
) -> Iterator[tuple[Place, Item]]:
    """What every row of the CSV files of a folder says, each with its place."""
    return ((place, read(place, row)) for path in files_below(folder, ".csv") for place, row in rows_of(path, columns))


def rows_of(path: Path, columns: tuple[str, ...]) -> Iterator[tuple[Place, dict[str, str]]]:
    """Rows of a CSV file with the place of each."""
    return rows_in(path, content_of(path), columns)


def rows_in(path: Path, content: str, columns: tuple[str, ...]) -> Iterator[tuple[Place, dict[str, str]]]:
    """Rows of CSV with the place of each; a header without one of the columns is refused."""
    lines = cells_of(path, content)
    header = next(lines, [])
    missing = [column for column in columns if column not in header]
    if missing:
        raise lacking(path, header, missing[0], columns)
    for line_number, cells in enumerate(lines, start=2):
        place = Place(str(path), f"line {line_number}")
        if len(cells) != len(header):
            raise UsageError(f"{place}: wrong number of cells", found=len(cells), expected=str(len(header)))
        yield place, dict(zip(header, cells, strict=True))


def cells_of(path: Path, content: str) -> Iterator[list[str]]:
    """Cells of every line; what is no CSV (a cell without end, NUL before Python 3.11) is refused."""
    try:
        yield from csv.reader(content.splitlines())
    except csv.Error as error:
        raise UsageError(
            f"{path} cannot be read as CSV", found=str(error), expected="cells separated by commas"
        ) from None


def lacking(path: Path, header: Sequence[str], column: str, columns: Sequence[str]) -> UsageError:
    """The error of a header without a column, with the column that may have been meant by it."""
    nearest = nearest_names(column, [name for name in header if name not in columns], count=1)
    hint = f"{nearest[0]} is called {column} here." if nearest else None
    if len(header) == 1 and header[0].count(";") >= len(columns) // 2:
        hint = "Its cells are separated by semicolons; a comma separates them here, and a dot the decimals."
    elif column == "price_per_instance_usd_per_hour" and any("_per_hour" in name for name in header):
        hint = "Prices in another currency go into foreign_offers/, whose rows name it (docs/prices.md)."
    return UsageError(f"{path}: the header lacks a column", found=",".join(header), expected=column, hint=hint)


def tables_of(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Tables of a TOML file by name."""
    for name, table in toml_of(path).items():
        if not isinstance(table, dict):
            raise UsageError(f"{path}: {name} stands outside a table", expected=f"a heading such as [{name}]")
        yield name, table


def toml_of(path: Path) -> dict[str, Any]:
    """A TOML file."""
    return toml_table(content_of(path), path)


def content_of(path: Path) -> str:
    """A text file of sane size."""
    return read_text_file(path, "a catalog table", MAX_FILE_BYTES)


__all__ = ["Catalog", "load_catalog"]
