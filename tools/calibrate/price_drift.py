"""Learns how prices move with their age: by provider, drawn towards its class, from looks at the same price.

`python tools/calibrate price-drift [--until DAY] [--without PROVIDER] [--write]` reads `measurements/prices/moves.csv`,
and the shipped prices of one machine on several days. The rise of a provider is the logarithm that its prices moved
over the days that they were watched; a class is the median of its providers, and a provider is drawn towards it. With
`--write` the rises go into `data/price_drift.csv`.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gpufleet.catalog.price_drift import DRIFT_COLUMNS, EVERY_CLASS, MOVING, PERIOD_DAYS, PriceDrift, likely_usd_ratio
from gpufleet.catalog.prices_in_force import OfferKey, offer_key
from gpufleet.catalog.provider_classes import UNKNOWN, class_of
from gpufleet.catalog.table_files import SHIPPED as TABLES
from gpufleet.catalog.table_rows import offer_rows

ROOT = Path(__file__).resolve().parents[2]
MOVES, SHIPPED = ROOT / "measurements" / "prices" / "moves.csv", ROOT / "src" / "gpufleet" / "data" / "price_drift.csv"
SOURCE = "gpu-rental-prices"
FEWEST_PROVIDERS, LEAST_DAYS, HALF_DAYS = 3, 6, 100


class Move(NamedTuple):
    """A price at two looks, as ln of the later over the earlier."""

    provider: str
    price_kind: str
    first_day: date
    last_day: date
    log_ratio: float

    @property
    def days(self) -> int:
        """Days between the looks."""
        return (self.last_day - self.first_day).days


@dataclass(frozen=True)
class Watched:
    """A provider's moves of one kind."""

    moves: Sequence[Move]

    @cached_property
    def rise_per_day(self) -> float:
        """ln a day, over all of its prices."""
        return sum(m.log_ratio for m in self.moves) / sum(m.days for m in self.moves)

    @cached_property
    def days(self) -> int:
        """How long it was watched."""
        return (max(m.last_day for m in self.moves) - min(m.first_day for m in self.moves)).days

    @cached_property
    def square_per_day(self) -> float:
        """Square of what one of its prices moved, a day."""
        return sum(m.log_ratio**2 for m in self.moves) / sum(m.days for m in self.moves)


def moves_in(path: Path) -> Iterator[Move]:
    """Rows of moves.csv."""
    with path.open(encoding="utf-8", newline="") as stream:
        for row in csv.DictReader(stream):
            first, last = (date.fromisoformat(row[name]) for name in ("from_date", "to_date"))
            ratio = float(row["to_usd_per_hour"]) / float(row["from_usd_per_hour"])
            yield Move(row["provider"], row["price_kind"], first, last, math.log(ratio))


def moves_of_tables() -> Iterator[Move]:
    """From one day of a shipped price to the next; what nobody dates tells nothing."""
    days: dict[OfferKey, dict[date, float]] = defaultdict(dict)
    for _, offer in offer_rows(TABLES):
        if offer.is_dated and offer.price_kind in MOVING:
            days[offer_key(offer)][offer.as_of] = offer.price_per_instance_usd_per_hour
    for (provider, _, _, kind), usd in days.items():
        for (first, before), (last, after) in itertools.pairwise(sorted(usd.items())):
            if (last - first).days >= LEAST_DAYS:
                yield Move(provider, kind.value, first, last, math.log(after / before))


def every_move() -> list[Move]:
    """All that is known of prices that move so."""
    kinds = {kind.value for kind in MOVING}
    return [move for move in (*moves_in(MOVES), *moves_of_tables()) if move.price_kind in kinds]


def drifts(moves: Iterable[Move]) -> list[PriceDrift]:
    """The rise of every class, of all together, and of every provider drawn towards its class."""
    by_kind: dict[str, dict[str, list[Move]]] = defaultdict(lambda: defaultdict(list))
    for move in moves:
        by_kind[move.price_kind][move.provider].append(move)
    found = []
    for kind, providers in sorted(by_kind.items()):
        watched = {name: Watched(of) for name, of in sorted(providers.items())}
        classes = {name: [w for p, w in watched.items() if class_of(p) == name] for name in classes_of(watched)}
        whole = drift_of(EVERY_CLASS, kind, list(watched.values()))
        of_class = {
            name: drift_of(name, kind, members)
            if name != UNKNOWN and len(members) >= FEWEST_PROVIDERS
            else whole._replace(who=name)
            for name, members in classes.items()
        }
        found += [whole, *of_class.values()]
        found += [drawn(name, kind, w, of_class[class_of(name)]) for name, w in watched.items()]
    return found


def classes_of(watched: Mapping[str, Watched]) -> list[str]:
    """Classes that any of them is of."""
    return sorted({class_of(name) for name in watched})


def drift_of(who: str, kind: str, members: Sequence[Watched]) -> PriceDrift:
    """The median of providers, alike."""
    rise = float(np.median([w.rise_per_day for w in members]))
    square = float(np.mean([w.square_per_day for w in members]))
    return in_100_days(who, kind, rise, square, sum(len(w.moves) for w in members))


def in_100_days(who: str, kind: str, rise_per_day: float, square_per_day: float, num_moves: int) -> PriceDrift:
    """A drift of ln a day, and the square of ln a day."""
    return PriceDrift(
        who, kind, math.exp(PERIOD_DAYS * rise_per_day), math.sqrt(PERIOD_DAYS * square_per_day), num_moves, SOURCE
    )


def drawn(name: str, kind: str, watched: Watched, of_class: PriceDrift) -> PriceDrift:
    """A provider between what it did and its class: it counts for half where it was watched for as long as `HALF_DAYS`.

    rise = (own days + class half) / (days + half)   [ln a day]
    """
    of_class_per_day = math.log(of_class.mean_ratio) / PERIOD_DAYS
    rise = (watched.rise_per_day * watched.days + of_class_per_day * HALF_DAYS) / (watched.days + HALF_DAYS)
    return of_class._replace(who=name, mean_ratio=math.exp(PERIOD_DAYS * rise), num_moves=len(watched.moves))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What is learnt from, and whether the table is written."""
    parser.add_argument("--until", type=date.fromisoformat, default=date.max)
    parser.add_argument("--without", default="")
    parser.add_argument("--write", action="store_true")


def run(arguments: argparse.Namespace) -> None:
    """Learn, print, write."""
    seen = [m for m in every_move() if m.last_day <= arguments.until and m.provider != arguments.without]
    found = drifts(seen)
    for each in found:
        likely = likely_usd_ratio(each, PERIOD_DAYS)
        print(f"{each.price_kind:10} {each.who:18} x{likely:.3f} in {PERIOD_DAYS} days, {each.num_moves} moves")
    if arguments.write:
        with SHIPPED.open("w", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream, lineterminator="\n")
            writer.writerow(DRIFT_COLUMNS)
            writer.writerows((e.who, e.price_kind, *(f"{x:.4f}" for x in e[2:4]), *e[4:]) for e in found)
