"""What became dearer, what cheaper, what vanished and what is new between two sets of offers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from gpufleet.domain.offer import Offer
from gpufleet.pricing.commitment import offer_usd_per_hour
from gpufleet.records import dataclass

OfferKey = tuple[str, str, str, str]
SMALLEST_CHANGE_RATIO = 1e-6


class PriceChange(NamedTuple):
    """One place before and after; None where there was no price, or is none now."""

    key: OfferKey
    before_usd_per_hour: float | None
    after_usd_per_hour: float | None

    @property
    def change_ratio(self) -> float:
        """After over before, less one; infinite for what is new, -1 for what vanished."""
        if self.before_usd_per_hour is None:
            return float("inf")
        return (self.after_usd_per_hour or 0.0) / self.before_usd_per_hour - 1


@dataclass(frozen=True)
class PriceChanges:
    """Every place whose price is another one now, largest change first."""

    dearer: tuple[PriceChange, ...]
    cheaper: tuple[PriceChange, ...]
    vanished: tuple[PriceChange, ...]
    new: tuple[PriceChange, ...]


def by_place(offers: Iterable[Offer]) -> dict[OfferKey, float]:
    """Price by cloud, region, type and price kind."""
    return {(o.cloud, o.region, o.instance, o.price_kind.value): offer_usd_per_hour(o) for o in offers}


def price_changes(before: Iterable[Offer], after: Iterable[Offer]) -> PriceChanges:
    """The difference of two sets of offers."""
    old, new = by_place(before), by_place(after)
    changes = [PriceChange(key, old.get(key), new.get(key)) for key in sorted({*old, *new})]
    both = [c for c in changes if c.key in old and c.key in new and abs(c.change_ratio) > SMALLEST_CHANGE_RATIO]
    return PriceChanges(
        dearer=largest_first(c for c in both if c.change_ratio > 0),
        cheaper=largest_first(c for c in both if c.change_ratio < 0),
        vanished=tuple(c for c in changes if c.key not in new),
        new=tuple(c for c in changes if c.key not in old),
    )


def largest_first(changes: Iterable[PriceChange]) -> tuple[PriceChange, ...]:
    """Changes by how large they are."""
    return tuple(sorted(changes, key=lambda change: -abs(change.change_ratio)))


def share_of_types_lost(before: Iterable[Offer], after: Iterable[Offer]) -> float:
    """Share of (type, price kind) pairs that had a price somewhere and have none now; 0 where nothing was known."""
    old = {(o.instance, o.price_kind) for o in before}
    new = {(o.instance, o.price_kind) for o in after}
    return len(old - new) / len(old) if old else 0.0


def typical_ratio(before: Mapping[OfferKey, float], after: Mapping[OfferKey, float]) -> float:
    """Median of after over before where both are known; 1 where nothing can be compared."""
    ratios = sorted(after[key] / before[key] for key in before if key in after)
    return ratios[len(ratios) // 2] if ratios else 1.0
