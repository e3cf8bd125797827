"""What an hour of a machine costs that its user owns: what is left to write off, power with cooling, the rest."""

from __future__ import annotations

from gpufleet.domain.arrays import Floats
from gpufleet.domain.offer import OwnPower
from gpufleet.pricing.energy import kwh_per_hour
from gpufleet.units import HOURS_PER_YEAR


def written_off_usd_per_hour(purchase_usd: float, years: float, age_years: float = 0.0) -> float:
    """Book value that an hour takes, in a straight line: what is left of it over what is left of its years.

    p = (purchase (1 - age / years)) / ((years - age) x 8760) = purchase / (years x 8760), 0 from `years` on   [USD/h]

    >>> round(written_off_usd_per_hour(26280, 3, age_years=1), 6), written_off_usd_per_hour(26280, 3, age_years=3)
    (1.0, 0.0)
    """
    return purchase_usd / (years * HOURS_PER_YEAR) if age_years < years else 0.0


def own_kwh_per_hour(power: OwnPower, num_machines: Floats = 1.0) -> Floats:
    """Electricity at the meter: what machines draw, times the power usage effectiveness.

    E = watts / 1000 x PUE x machines   [kWh per hour]

    >>> own_kwh_per_hour(OwnPower(1000.0, 1.25, 0.30), 2)
    2.5
    """
    return kwh_per_hour(power.machine_watts, num_machines, power.cooling_ratio)


def running_usd_per_hour(power: OwnPower) -> float:
    """What a machine costs while it runs, its purchase being spent: electricity alone.

    p = watts / 1000 x PUE x electricity   [USD/h]

    >>> round(running_usd_per_hour(OwnPower(1000.0, 1.25, 0.30)), 4)
    0.375
    """
    return float(own_kwh_per_hour(power)) * power.electricity_usd_per_kwh


def owned_usd_per_hour(
    power: OwnPower, purchase_usd: float, years: float, age_years: float = 0.0, other_usd_per_year: float = 0.0
) -> float:
    """Full cost of one machine by the hour, running or not: what is written off, electricity, everything else.

    p = written off + watts / 1000 x PUE x electricity + other / 8760   [USD/h]

    A machine of 2,400 USD over 3 years that draws 500 W at 0.30 USD/kWh, without extra cooling:

    >>> round(owned_usd_per_hour(OwnPower(500.0, 1.0, 0.30), 2400, 3), 4)
    0.2413
    """
    written_off = written_off_usd_per_hour(purchase_usd, years, age_years)
    return written_off + running_usd_per_hour(power) + other_usd_per_year / HOURS_PER_YEAR
