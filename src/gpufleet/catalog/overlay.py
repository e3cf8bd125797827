"""Whether a user's tables keep the rules of the shipped ones; the first fault is named by file, line and rule.

Only the user's own rows are held to the rules. A contract may be unusual: it is said in contracts.csv.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import NamedTuple

from gpufleet.catalog.checks import future_dates, retired_offers, spot_above_on_demand
from gpufleet.catalog.own_prices import unknown_countries, unknown_regions, unlikely_prices
from gpufleet.catalog.own_terms import (
    CONTRACT_COLUMNS,
    FOREIGN_COLUMNS,
    RATE_COLUMNS,
    contract_from,
    foreign_offer_from,
    rate_from,
)
from gpufleet.catalog.prices_in_force import foreign_offers_in
from gpufleet.catalog.references import Finding, Rule, broken_references, label
from gpufleet.catalog.schema import Place
from gpufleet.catalog.table_files import placed_rows, rows_of, table_in
from gpufleet.catalog.table_rows import (
    ALIASES,
    SOURCES,
    PlacedOffer,
    accelerator_tables,
    availability_rows,
    gpu_aliases_in,
    instance_rows,
    own_machine_tables,
    own_machines_in,
    region_rows,
    sources_in,
)
from gpufleet.catalog.tables import Catalog
from gpufleet.catalog.usual_prices import outliers_over_regions
from gpufleet.domain.currency import DOLLAR
from gpufleet.domain.offer import Offer
from gpufleet.errors import UsageError, nearest_names
from gpufleet.files import entries_of

TABLE_SUFFIX = {
    "accelerators": ".toml",
    "engines": ".toml",
    "instances": ".csv",
    "offers": ".csv",
    "availability": ".csv",
    "foreign_offers": ".csv",
}
TABLE_FILES = (
    *("gpu_aliases.toml", "regions.csv", "restricted_regions.csv", "sources.toml", "owned.toml"),
    *("contracts.csv", "quotas.csv", "gpu_quotas.csv", "exchange_rates.csv", "bill_lines.csv"),
)


class OverlayRows(NamedTuple):
    """Where the rows of an overlay stand, by the words with which a finding names them, and its prices of all dates.

    `located` are all rows that name a region: those words, cloud and region. `agreed` are days on which terms begin.
    """

    places: Mapping[str, Place]
    offers: Sequence[tuple[Place, Offer]]
    located: Sequence[tuple[str, str, str]] = ()
    agreed: Sequence[tuple[Place, str, date]] = ()


def overlay_rows(directory: Path, today: date, offers: Sequence[PlacedOffer]) -> OverlayRows:
    """Where each row of a user's tables stands."""
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


def refuse_unknown_entries(directory: Path) -> None:
    """A misspelt folder or file must not silently mean 'no rows'; hidden entries and notes (*.md) are not read."""
    for entry in visible(directory):
        known = TABLE_SUFFIX if os.path.isdir(entry) else TABLE_FILES
        if entry.name not in known:
            raise unknown_entry(entry)
    for folder, suffix in TABLE_SUFFIX.items():
        refuse_other_suffixes(directory / folder, suffix)


def visible(directory: Path) -> Iterator[Path]:
    """Entries of a folder that are neither hidden nor notes, in a stable order."""
    return (entry for entry in entries_of(directory) if not entry.name.startswith(".") and entry.suffix != ".md")


def unknown_entry(entry: Path) -> UsageError:
    """The error of an entry that no table is read from."""
    known = [*TABLE_SUFFIX, *TABLE_FILES]
    nearest = nearest_names(entry.name, known, count=1)
    hint = f"Did you mean {nearest[0]}?" if nearest else None
    return UsageError(
        f"{entry}: a catalog overlay has no such entry",
        found=entry.name,
        expected=f"one of {', '.join(known)}",
        hint=hint,
    )


def refuse_other_suffixes(folder: Path, suffix: str) -> None:
    """Tables of a folder are all of one format; in folders of CSV files there may be folders."""
    for entry in visible(folder):
        if os.path.isdir(entry) and suffix == ".csv":
            refuse_other_suffixes(entry, suffix)
        elif entry.suffix != suffix:
            raise UsageError(f"{entry}: no table is read from it", found=entry.name, expected=f"a {suffix} file")


def refuse_broken_rules(catalog: Catalog, listed: Catalog, rows: OverlayRows, overlay: Path, today: date) -> None:
    """Raise the first fault of the user's rows in `catalog`, which holds them already; `listed` is without them."""
    refuse_two_prices(rows.offers)
    refuse_later_terms(rows.agreed, today)
    broken = [*broken_references(catalog), *unknown_regions(listed, catalog, rows.located), *unknown_countries(catalog)]
    if broken:
        raise broken_rule(broken, rows.places, overlay)
    rules: tuple[Rule, ...] = (spot_above_on_demand, retired_offers)
    own = [*(offer for _, offer in rows.offers), *(o for o in catalog.offers if o.is_own and o.currency != DOLLAR)]
    ruled = [finding for rule in rules for finding in rule(catalog)]
    ruled += [*unlikely_prices(listed, own), *outliers_over_regions(catalog), *future_dates(catalog, today)]
    findings = [finding for finding in ruled if finding.row in rows.places]
    if findings:
        raise broken_rule(findings, rows.places, overlay)


def broken_rule(findings: list[Finding], places: Mapping[str, Place], overlay: Path) -> UsageError:
    """The error of the first finding, with the number of rows that have any."""
    first, rows = findings[0], len({finding.row for finding in findings})
    return UsageError(
        f"{places.get(first.row, overlay)}: {first.row} breaks a rule of the catalog, {first.rule!r}: {first.fault}",
        expected=first.expected or None,
        hint=f"{rows} rows have such faults." if rows > 1 else None,
    )


def refuse_later_terms(agreed: Sequence[tuple[Place, str, date]], today: date) -> None:
    """What begins later does not hold yet: a discount of next year is no discount of today."""
    for place, what, day in agreed:
        if day > today:
            raise UsageError(
                f"{place}: {what} begins in the future",
                found=str(day),
                expected=f"a date up to today, {today}",
                hint="Leave the row out until then: a plan is of today.",
            )


def refuse_two_prices(offers: Sequence[tuple[Place, Offer]]) -> None:
    """Of one place, price kind and date there is one price."""
    seen: dict[tuple[str, date], Place] = {}
    for place, offer in offers:
        key = label(offer), offer.as_of
        if key in seen:
            raise UsageError(
                f"{place}: {label(offer)} breaks a rule of the catalog, 'no duplicates': "
                f"a second price of {offer.as_of}, after {seen[key]}",
                expected="one price per cloud, region, instance type, price kind and date",
            )
        seen[key] = place
