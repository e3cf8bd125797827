"""How long a purchase binds: what is paid up front is spread over that term, and what is paid though it stands idle."""

from __future__ import annotations

import numpy as np

from gpufleet.domain.arrays import FloatArray, Floats
from gpufleet.domain.offer import Offer, PriceKind
from gpufleet.pricing.effective_price import effective_usd_per_hour
from gpufleet.units import DAY, HOURS_PER_YEAR

TERM_KINDS = (PriceKind.SAVINGS_PLAN, PriceKind.COMMIT_1Y, PriceKind.COMMIT_3Y)
ROUND_THE_CLOCK = (*TERM_KINDS, PriceKind.OWNED)
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


def billed_s(kind: PriceKind, used_s: Floats, held_s: float) -> FloatArray:
    """Time that a machine is paid for which works `used_s` of the `held_s` that it stands ready.

    By the hour: what is used. A capacity block: every day begun (clouds sell blocks in whole days). A term, and a
    machine of one's own: all the time, used or not, shared or not.   [s]

    >>> [float(billed_s(kind, 7200.0, 172800.0)) / 3600 for kind in PriceKind][:6]
    [2.0, 2.0, 48.0, 48.0, 48.0, 24.0]
    """
    used = np.asarray(used_s, dtype=np.float64)
    if kind is PriceKind.CAPACITY_BLOCK:
        return np.asarray(np.ceil(used / DAY) * DAY)
    return np.full_like(used, held_s) if kind in ROUND_THE_CLOCK else used
