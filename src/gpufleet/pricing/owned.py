"""What an hour of a machine costs that its user owns."""

from __future__ import annotations

from gpufleet.domain.arrays import Floats
from gpufleet.units import HOURS_PER_YEAR, KILO


def owned_usd_per_hour(
    purchase_usd: Floats,
    years: Floats,
    power_watts: Floats,
    electricity_usd_per_kwh: Floats,
    cooling_ratio: Floats = 1.0,
    other_usd_per_year: Floats = 0.0,
) -> Floats:
    """Cost of one machine by the hour, running or not: purchase over its years, power with cooling, everything else.

    p = purchase / (years x 8760) + watts / 1000 x cooling x electricity + other / 8760   [USD/h]

    `cooling_ratio` is the power usage effectiveness (PUE): watts at the meter over watts at the machine, from 1 on.

    A machine of 2,400 USD over 3 years that draws 500 W at 0.30 USD/kWh, without extra cooling:

    >>> round(owned_usd_per_hour(2400, 3, 500, 0.30), 4)
    0.2413
    """
    purchase = purchase_usd / (years * HOURS_PER_YEAR)
    power = power_watts / KILO * cooling_ratio * electricity_usd_per_kwh
    return purchase + power + other_usd_per_year / HOURS_PER_YEAR
