"""Prices that are too old end the question: a plan on stale prices must not pass for a fresh one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta

from gpufleet.domain.offer import Offer
from gpufleet.errors import DataMissing, UsageError
from gpufleet.units import DAY

MOST_NAMED = 4


def refuse_old_prices(offers: Sequence[Offer], max_age_s: float, today: date) -> None:
    """Raise when any price that would be considered is older than allowed; each cloud's oldest is named."""
    if max_age_s < DAY:
        raise UsageError("prices are dated by the day", found=f"{max_age_s:g} s", expected="an age such as 30d")
    earliest = today - timedelta(days=min(max_age_s / DAY, today.toordinal() - 1))
    old = [offer for offer in offers if offer.as_of < earliest]
    if old:
        raise DataMissing(
            f"{len(old):,} of the {len(offers):,} prices that answer this are older than {max_age_s / DAY:g} days",
            found=oldest_of_each_cloud(old, today),
            expected=f"prices of {earliest} or later",
            hint="'gpufleet catalog update' fetches today's; --clouds and --pricing narrow the question.",
        )


def oldest_of_each_cloud(offers: Sequence[Offer], today: date) -> str:
    """The oldest price of each cloud, oldest first.

    >>> oldest_of_each_cloud([], date(2026, 11, 21))
    ''
    """
    oldest: dict[str, Offer] = {}
    for offer in sorted(offers, key=lambda offer: offer.as_of):
        oldest.setdefault(offer.cloud, offer)
    named = [f"{cloud} {offer.day}{age_words(offer, today)}" for cloud, offer in oldest.items()]
    return ", ".join(named[:MOST_NAMED]) + (f" and {len(named) - MOST_NAMED} more" if len(named) > MOST_NAMED else "")


def age_words(offer: Offer, today: date) -> str:
    """How old a price is; of an undated copy nobody knows."""
    return "" if offer.first_seen is not None else f" ({(today - offer.as_of).days:,} days)"
