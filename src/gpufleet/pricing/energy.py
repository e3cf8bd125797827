"""Electricity of GPUs and what it emits. Host, fans, network and cooling come on top: they are not known here."""

from __future__ import annotations

import numpy as np

from gpufleet.domain.arrays import FloatArray, Floats
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
