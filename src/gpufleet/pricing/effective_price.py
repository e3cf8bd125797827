"""What an hour of an offer costs once everything paid up front is spread over it."""

from __future__ import annotations

from gpufleet.domain.arrays import Floats
from gpufleet.units import HOURS_PER_MONTH


def effective_usd_per_hour(hourly_usd: Floats, upfront_usd: Floats = 0.0, term_hours: Floats = float("inf")) -> Floats:
    """Hourly price with the upfront payment spread over the term.

    p = hourly + upfront / term   [USD/h]

    >>> effective_usd_per_hour(1.0, upfront_usd=8760.0, term_hours=8760.0)
    2.0
    """
    return hourly_usd + upfront_usd / term_hours


def usd_per_month(usd_per_hour: Floats, hours_per_month: float = HOURS_PER_MONTH) -> Floats:
    """Cost of running all month: 730 hours unless said otherwise.

    >>> usd_per_month(2.0)
    1460.0
    """
    return usd_per_hour * hours_per_month
