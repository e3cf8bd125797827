"""Every price that ships beside the one that it replaced, by cloud, and what was seen of its provider's moves.

    python -m tools.price_moves                 a row a cloud and price kind
    python -m tools.price_moves --all           and every price that moved
    python -m tools.price_moves --since 2026-08-31   against the prices as they were known on that day

Without a day, each price is held to the one before it in src/gpufleet/data/offers, whatever its day.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import date
from typing import NamedTuple

from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.price_history import price_histories
from gpufleet.catalog.prices_in_force import OfferKey, offer_key
from gpufleet.catalog.table_files import SHIPPED
from gpufleet.catalog.table_rows import offer_rows
from gpufleet.domain.offer import Offer
from gpufleet.pricing.commitment import offer_usd_per_hour

HEAD = (
    "| cloud | kind | prices | newest | had one before | moved | change: least, median, most |\n"
    "| --- | --- | ---: | --- | ---: | ---: | --- |"
)
SEEN_HEAD = (
    "| provider | kind | followed | from | to | moved | change: least, median, most |\n"
    "| --- | --- | ---: | --- | --- | ---: | --- |"
)
STILL_RATIO = 1e-3


class Move(NamedTuple):
    """A price, and the one before it; None where there was none."""

    before: Offer | None
    now: Offer

    @property
    def ratio(self) -> float:
        """The price over the one before."""
        return 1.0 if self.before is None else offer_usd_per_hour(self.now) / offer_usd_per_hour(self.before)


def moves(written: Iterable[Offer], since: date | None) -> list[Move]:
    """The newest price of each place and kind, with the newest of the others, or with that known on a day."""
    by_place: dict[OfferKey, list[Offer]] = defaultdict(list)
    for offer in sorted(written, key=lambda offer: offer.as_of):
        by_place[offer_key(offer)].append(offer)
    return [Move(before(rows, since), rows[-1]) for _, rows in sorted(by_place.items())]


def before(rows: Sequence[Offer], since: date | None) -> Offer | None:
    """The last but one, or the last up to a day that is not the newest itself."""
    earlier = [row for row in rows[:-1] if since is None or row.as_of <= since]
    return earlier[-1] if earlier else None


def changes(ratios: Sequence[float]) -> tuple[int, str]:
    """How many moved, and by how much.

    >>> changes([1.0, 1.5, 1.2])
    (2, '+0 %, +20 %, +50 %')
    """
    moved = [ratio for ratio in ratios if abs(ratio - 1) > STILL_RATIO]
    parts = (min(ratios), statistics.median(ratios), max(ratios)) if ratios else ()
    return len(moved), ", ".join(f"{100 * (ratio - 1):+.0f} %" for ratio in parts)


def by_cloud(found: Sequence[Move]) -> list[str]:
    """A row a cloud and price kind."""
    groups: dict[tuple[str, str], list[Move]] = defaultdict(list)
    for move in found:
        groups[move.now.cloud, move.now.price_kind.value].append(move)
    lines = []
    for (cloud, kind), group in sorted(groups.items()):
        ratios = [move.ratio for move in group if move.before is not None]
        moved, change = changes(ratios)
        newest = max(move.now.as_of for move in group)
        lines.append(f"| {cloud} | {kind} | {len(group)} | {newest} | {len(ratios)} | {moved} | {change} |")
    return lines


def by_provider() -> list[str]:
    """What was seen of each provider between two looks at its page: price_history.csv."""
    groups: dict[tuple[str, str], list[tuple[float, date, date]]] = defaultdict(list)
    for row in price_histories():
        groups[row.provider, row.price_kind_as_written].append((row.ratio, row.first_day, row.last_day))
    lines = []
    for (provider, kind), rows in sorted(groups.items()):
        ratios, first, last = zip(*rows, strict=True)
        moved, change = changes(ratios)
        lines.append(f"| {provider} | {kind} | {len(rows)} | {min(first)} | {max(last)} | {moved} | {change} |")
    return lines


def every_move(found: Sequence[Move]) -> list[str]:
    """Each price that moved, the largest first."""
    moved = [move for move in found if move.before is not None and abs(move.ratio - 1) > STILL_RATIO]
    return [line_of(move) for move in sorted(moved, key=lambda move: -abs(move.ratio - 1))]


def line_of(move: Move) -> str:
    """One price and the one before it."""
    place = " ".join((move.now.cloud, move.now.region, move.now.instance, move.now.price_kind.value))
    prices = [f"{offer_usd_per_hour(o):.4f} of {o.as_of}" for o in (move.before, move.now) if o is not None]
    return f"{place}: {' -> '.join(prices)} ({100 * (move.ratio - 1):+.1f} %)"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="tools.price_moves", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--since", type=date.fromisoformat)
    parser.add_argument("--all", action="store_true")
    asked = parser.parse_args()
    known = load_catalog().instances
    found = moves((o for _, o in offer_rows(SHIPPED) if (o.cloud, o.instance) in known), asked.since)
    print("\n".join([HEAD, *by_cloud(found), "", SEEN_HEAD, *by_provider()]))
    if asked.all:
        print("\n".join(["", *every_move(found)]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
