"""What a spot price may be by now, from the age of its list (spot_age.toml): spot moves while a list stands still."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from functools import lru_cache
from typing import NamedTuple

from gpufleet.catalog.profiles import sourced
from gpufleet.catalog.table_files import SHIPPED, toml_of
from gpufleet.domain.offer import Offer, PriceKind
from gpufleet.pricing.commitment import offer_usd_per_hour
from gpufleet.provenance import Sourced

DAYS_PER_MONTH = 30
OfferKey = tuple[str, str, str, PriceKind]


class SpotAge(NamedTuple):
    """How many times its price of a month ago a spot price may be, and how many times at most, however old."""

    rise_per_month: Sourced
    most: Sourced

    def high_ratio(self, age_days: int) -> float:
        """min(r ** (days / 30), most)   [1]; a price of today is what it says.

        >>> round(load_spot_age().high_ratio(0), 2), round(load_spot_age().high_ratio(49), 2)
        (1.0, 1.17)
        """
        risen = max(age_days, 0) / DAYS_PER_MONTH * math.log(self.rise_per_month.value)
        return self.most.value if risen >= math.log(self.most.value) else math.exp(risen)


@lru_cache(maxsize=1)
def load_spot_age() -> SpotAge:
    """spot_age.toml."""
    return SpotAge(**{name: sourced(row) for name, row in toml_of(SHIPPED / "spot_age.toml").items()})


def with_spot_ages(listed: Mapping[OfferKey, Offer], now: date) -> dict[OfferKey, Offer]:
    """Prices, those of spot with what they may be by now; one's own and undated ones say for themselves."""
    age = load_spot_age()
    return {
        key: replace(offer, age_ratio=ratio) if (ratio := ratio_of(offer, age, listed, now)) > 1 else offer
        for key, offer in listed.items()
    }


def ratio_of(offer: Offer, age: SpotAge, listed: Mapping[OfferKey, Offer], now: date) -> float:
    """How many times the price that a list of that day gives it may be, up to on demand of the same machine there."""
    if offer.price_kind is not PriceKind.SPOT or offer.is_own or not offer.is_dated:
        return 1.0
    beside = listed.get((offer.cloud, offer.region, offer.instance, PriceKind.ON_DEMAND))
    most = float("inf") if beside is None else max(offer_usd_per_hour(beside) / offer_usd_per_hour(offer), 1.0)
    return min(age.high_ratio((now - offer.as_of).days), most)
