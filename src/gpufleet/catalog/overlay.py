"""Whether a user's tables keep the rules of the shipped ones; the first fault is named by file, line and rule.

Only the user's own rows are held to the rules. A contract may be unusual: it is said in contracts.csv.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import NamedTuple

from gpufleet.catalog.checks import future_dates, retired_offers, spot_above_on_demand
from gpufleet.catalog.own_prices import unknown_countries, unknown_regions, unlikely_prices
from gpufleet.catalog.references import Finding, Rule, broken_references, label
from gpufleet.catalog.schema import Place
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
