"""Prices by cloud, price kind and region in two data folders, as a table of markdown: what a gathering added.

    python -m tools.price_table BEFORE AFTER

Each is a folder such as src/gpufleet/data, of another checkout perhaps. Of several prices of a place the newest counts.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tools.build_catalog.tables import tables_in

from gpufleet.catalog.table_files import rows_of

HEAD = (
    "| cloud | kind | regions | prices | undated | newest | regions before | prices before |\n"
    "| --- | --- | ---: | ---: | ---: | --- | ---: | ---: |"
)
Key = tuple[str, str]
Price = Mapping[str, str]


class Held(NamedTuple):
    """What is held of a cloud and kind: regions, prices, how many nobody dates, and the newest day of the others."""

    regions: int = 0
    prices: int = 0
    undated: int = 0
    newest: str = "-"


def newest_prices(data: Path) -> list[Price]:
    """The price that holds of each place and kind."""
    rows = [row for path in data.glob("offers/*/*.csv") for _, row in rows_of(path, ("as_of",))]
    by_day = sorted(rows, key=lambda row: row["as_of"])
    return list({(r["cloud"], r["region"], r["instance_type"], r["price_kind"]): r for r in by_day}.values())


def held_in(data: Path) -> dict[Key, Held]:
    """Counts of each cloud and kind."""
    sources = tables_in(data / "sources.toml")
    groups: dict[Key, list[Price]] = defaultdict(list)
    for row in newest_prices(data):
        groups[row["cloud"], row["price_kind"]].append(row)
    found = {}
    for key, rows in groups.items():
        days = [row["as_of"] for row in rows if "first_seen" not in sources[row["source_id"]]]
        regions = len({row["region"] for row in rows})
        found[key] = Held(regions, len(rows), len(rows) - len(days), max(days, default="-"))
    return found


def table(before: Path, after: Path) -> str:
    """The table, a line for each cloud and kind."""
    was, now = held_in(before), held_in(after)
    lines = [
        f"| {cloud} | {kind} | {n.regions} | {n.prices:,} | {n.undated:,} | {n.newest} | {w.regions} | {w.prices:,} |"
        for cloud, kind in sorted({*was, *now})
        for n, w in [(now.get((cloud, kind), Held()), was.get((cloud, kind), Held()))]
    ]
    total = [sum(held.prices for held in found.values()) for found in (now, was)]
    return "\n".join([HEAD, *lines, f"| all | | | {total[0]:,} | | | | {total[1]:,} |"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    arguments = parser.parse_args()
    print(table(arguments.before, arguments.after))


if __name__ == "__main__":
    main()
