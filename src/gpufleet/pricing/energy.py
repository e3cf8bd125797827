"""Electricity of GPUs, of the site around them, and what it emits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpufleet.domain.arrays import FloatArray, Floats
from gpufleet.domain.interruption import Spread
from gpufleet.records import dataclass
from gpufleet.units import HOUR, KILO, MEGA


def busy_ratio(mean_batch: Floats) -> FloatArray:
    """Share of time in which a replica has any sequence to decode, when their number is Poisson.

    u = 1 - exp(-B)   [1]

    >>> round(float(busy_ratio(1.0)), 3)
    0.632
    """
    return np.asarray(-np.expm1(-np.asarray(mean_batch, dtype=np.float64)))


def kwh_per_hour(board_power_watts: Floats, num_gpus: Floats, utilisation_ratio: Floats) -> Floats:
    """Electricity of GPUs that draw their board power for a share of the time.

    E = P n u / 1000   [kWh per hour]

    >>> kwh_per_hour(700.0, 8, 0.5)
    2.8
    """
    return board_power_watts * num_gpus * utilisation_ratio / KILO


def kwh_per_million_tokens(kwh_per_hour: Floats, tokens_per_s: Floats) -> Floats:
    """Electricity for a million tokens at a sustained rate.

    e = E / (tokens_per_s x 3600) x 1e6   [kWh per 1e6 tokens]

    >>> round(kwh_per_million_tokens(3.6, 1000.0), 6)
    1.0
    """
    return kwh_per_hour / (tokens_per_s * HOUR) * MEGA


def kg_co2_per_hour(kwh_per_hour: Floats, grid_g_co2_per_kwh: Floats) -> Floats:
    """Emissions of that electricity on a grid of this intensity.

    m = E g / 1000   [kg per hour]

    >>> kg_co2_per_hour(2.0, 400.0)
    0.8
    """
    return kwh_per_hour * grid_g_co2_per_kwh / KILO


def site_kwh_per_hour(gpu_kwh_per_hour: Spread, machine_over_gpu_watts: Spread, power_usage_ratio: Spread) -> Spread:
    """What a site draws for GPUs: the machines around them, then cooling and losses of the site.

    E = E_gpu h PUE   [kWh per hour]   h machine over GPU power, PUE power usage effectiveness (ISO/IEC 30134-2)

    >>> gpus, machines, site = Spread(2.0, 2.8, 5.6), Spread(1.25, 1.5, 1.82), Spread(1.1, 1.1, 1.1)
    >>> round(site_kwh_per_hour(gpus, machines, site).expected, 2)
    4.62
    """
    return product_of(gpu_kwh_per_hour, machine_over_gpu_watts, power_usage_ratio)


def site_g_co2_per_hour(site_kwh_per_hour: Spread, grid_g_co2e_per_kwh: Spread) -> Spread:
    """What that electricity emits on a grid of this intensity, in g of CO2 equivalents per hour.

    >>> site_g_co2_per_hour(Spread(4.0, 4.0, 4.0), Spread(80.0, 100.0, 130.0)).expected
    400.0
    """
    return product_of(site_kwh_per_hour, grid_g_co2e_per_kwh)


def per_million_tokens(per_hour: Spread, tokens_per_s: float) -> Spread:
    """A figure of an hour, kWh or g, for a million tokens at a sustained rate.

    >>> per_million_tokens(Spread(3.6, 3.6, 7.2), 1000.0).high
    2.0
    """
    ends = (kwh_per_million_tokens(end, tokens_per_s) for end in (per_hour.low, per_hour.expected, per_hour.high))
    return Spread(*(float(end) for end in ends))


def usd_per_kg_saved(more_usd_per_hour: float, less_g_co2_per_hour: float) -> float | None:
    """What a kilogram of CO2 equivalents costs that another place saves; None where it saves none.

    p = 1000 dUSD / dg   [USD/kg]; below zero where the other place is cheaper too.

    >>> usd_per_kg_saved(0.5, 2000.0)
    0.25
    """
    return None if less_g_co2_per_hour <= 0 else more_usd_per_hour * KILO / less_g_co2_per_hour


def product_of(*factors: Spread) -> Spread:
    """Independent factors multiplied: the logarithms of their ranges add in squares.

    >>> product_of(Spread(1.0, 2.0, 4.0), Spread(3.0, 3.0, 3.0))
    Spread(low=3.0, expected=6.0, high=12.0)
    """
    expected = float(np.prod([factor.expected for factor in factors]))
    if expected == 0:
        return Spread(0.0, 0.0, float(np.prod([factor.high for factor in factors])))
    with np.errstate(divide="ignore"):
        falls = np.log([factor.low / factor.expected for factor in factors])
    rises = np.log([factor.high / factor.expected for factor in factors])
    low, high = np.exp(-np.sqrt((falls**2).sum())), np.exp(np.sqrt((rises**2).sum()))
    return Spread(float(expected * low), expected, float(expected * high))


@dataclass(frozen=True)
class Hours:
    """A share of the day: GPUs that are paid for, those of replicas, sequences on each replica, and its load."""

    time_ratio: float
    num_gpus: float
    working_gpus: float
    batch: float
    load_ratio: float

    @property
    def utilisation_ratio(self) -> float:
        """The share of the time in which a replica has work."""
        return float(busy_ratio(self.batch))


def working_ratio(hours: Sequence[Hours]) -> float:
    """The share of the time of all GPUs that are paid for in which they have work."""
    working = sum(h.time_ratio * h.working_gpus * h.utilisation_ratio for h in hours)
    return working / sum(h.time_ratio * h.num_gpus for h in hours)
