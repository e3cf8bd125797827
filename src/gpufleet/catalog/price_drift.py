"""What a price of some day likely is by now: prices of small providers rise while a table lies still."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import date
from functools import lru_cache
from typing import NamedTuple

from gpufleet.catalog.provider_classes import class_of
from gpufleet.catalog.schema import Place, Row, number, required_number, text, whole
from gpufleet.catalog.table_files import SHIPPED, table_in
from gpufleet.domain.offer import Offer, PriceKind

DRIFT_COLUMNS = ("who", "price_kind", "mean_ratio_in_100_days", "spread_in_100_days", "num_moves", "source_id")
LONGEST_DAYS, PERIOD_DAYS = 180, 100
"""No price was watched for longer."""
LEAST_RATIO = 1.005
"""Nearer than that a price is the one of its day."""
MOVING = frozenset({PriceKind.ON_DEMAND})
"""Spot has an age of its own (spot_age.py), commitments keep their price."""
EVERY_CLASS, NORMAL_90 = "all", 1.2815515655446004


class PriceDrift(NamedTuple):
    """How prices of a provider, or of a class of them, move in 100 days: their geometric mean, and the spread of ln."""

    who: str
    price_kind: str
    mean_ratio: float
    spread: float
    num_moves: int
    source: str

    def log_mean_and_variance(self, days: float) -> tuple[float, float]:
        """Of ln of a price of that age over itself; beyond what anybody watched nothing is known, and nothing added."""
        times = min(max(days, 0.0), LONGEST_DAYS) / PERIOD_DAYS
        return times * math.log(self.mean_ratio), times * self.spread**2


Drifts = Mapping[tuple[str, str], PriceDrift]


@lru_cache(maxsize=1)
def price_drifts() -> Drifts:
    """Rows of price_drift.csv, by provider or class and by kind.

    >>> [price_drifts()[who, "on_demand"].mean_ratio > 1 for who in ("small", "hyperscaler")]
    [True, False]
    """
    rows = table_in(SHIPPED, "price_drift.csv", DRIFT_COLUMNS, price_drift_from)
    return {(row.who, row.price_kind): row for row in rows}


def price_drift_from(place: Place, row: Row) -> PriceDrift:
    """A row of price_drift.csv."""
    return PriceDrift(
        row["who"],
        row["price_kind"],
        required_number(place, DRIFT_COLUMNS[2], row[DRIFT_COLUMNS[2]]),
        number(place, DRIFT_COLUMNS[3], row[DRIFT_COLUMNS[3]]) or 0.0,
        whole(place, "num_moves", row["num_moves"]) or 0,
        text(place, "source_id", row["source_id"]),
    )


def drift_of_provider(drifts: Drifts, provider: str, kind: PriceKind) -> PriceDrift | None:
    """Its own, else that of its class, else of all; None of kinds that nobody watched."""
    names = (provider, class_of(provider), EVERY_CLASS)
    return next((drifts[name, kind.value] for name in names if (name, kind.value) in drifts), None)


def likely_usd_ratio(drift: PriceDrift, days: float) -> float:
    """What a price is by now over what it was, in the mean; no less than it was.

    exp(mean + variance / 2) of ln: moves are log-normal, and one pays their mean   [1]

    >>> round(likely_usd_ratio(PriceDrift("small", "on_demand", 1.1, 0.2, 9, "s"), 100), 3)
    1.122
    """
    mean, variance = drift.log_mean_and_variance(days)
    return max(math.exp(mean + variance / 2), 1.0)


def moved_between(drift: PriceDrift, days: float) -> tuple[float, float]:
    """By what most prices of that age moved, at least and at most: 10th and 90th percentile   [1].

    >>> [round(x, 2) for x in moved_between(PriceDrift("small", "on_demand", 1.1, 0.2, 9, "s"), 100)]
    [0.85, 1.42]
    """
    mean, variance = drift.log_mean_and_variance(days)
    half = NORMAL_90 * math.sqrt(variance)
    return math.exp(mean - half), math.exp(mean + half)


def with_likely_prices(offers: Iterable[Offer], now: date) -> tuple[Offer, ...]:
    """Offers with what they likely cost by a day, over their price; one's own, undated and binding ones stay."""
    drifts = price_drifts()
    return tuple(aged(offer, drifts, now) for offer in offers)


def aged(offer: Offer, drifts: Drifts, now: date) -> Offer:
    """One of them."""
    if offer.is_own or not offer.is_dated or offer.price_kind not in MOVING:
        return offer
    drift = drift_of_provider(drifts, offer.cloud, offer.price_kind)
    likely = 1.0 if drift is None else likely_usd_ratio(drift, (now - offer.as_of).days)
    return offer if likely < LEAST_RATIO else replace(offer, age_ratio=likely)
