"""How long a purchase binds: what is paid up front is spread over that term."""

from __future__ import annotations

from gpufleet.domain.offer import Offer, PriceKind
from gpufleet.pricing.effective_price import effective_usd_per_hour
from gpufleet.units import HOURS_PER_YEAR

YEARS_BOUND = {PriceKind.COMMIT_1Y: 1.0, PriceKind.COMMIT_3Y: 3.0}


def term_hours(kind: PriceKind) -> float:
    """Hours that a commitment binds; infinite where nothing is paid up front.

    >>> term_hours(PriceKind.COMMIT_3Y)
    26280.0
    """
    return YEARS_BOUND[kind] * HOURS_PER_YEAR if kind in YEARS_BOUND else float("inf")


def offer_usd_per_hour(offer: Offer) -> float:
    """What an hour of one instance costs, used or not: the hourly price and its share of the upfront payment.

    p = hourly + upfront / term   [USD/h]
    """
    hourly = offer.price_per_instance_usd_per_hour
    return float(effective_usd_per_hour(hourly, offer.upfront_usd, term_hours(offer.price_kind)))
