"""Waiting times of a single server with Poisson arrivals."""

from __future__ import annotations

import numpy as np

from gpufleet.domain.arrays import FloatArray, Floats


def mean_wait_s(load_ratio: Floats, mean_service_s: Floats, squared_variation: Floats = 0.0) -> FloatArray:
    """Mean waiting time of M/G/1 (Pollaczek-Khinchine); infinite where the server is overloaded.

    W = rho / (1 - rho) * (1 + c^2) / 2 * S     rho load 0..1, c^2 squared coefficient of variation of service, S [s]
    c^2 = 1 gives M/M/1, c^2 = 0 gives M/D/1.   Source: kleinrock-1975, eq. 5.69

    >>> float(mean_wait_s(0.5, 1.0, squared_variation=1.0))  # M/M/1: rho / (1 - rho)
    1.0
    """
    load, service = np.asarray(load_ratio, dtype=np.float64), np.asarray(mean_service_s, dtype=np.float64)
    stable = load < 1
    spare = np.where(stable, 1 - load, 1.0)
    return np.where(stable, load / spare * (1 + squared_variation) / 2 * service, np.inf)


def wait_percentile_s(
    quantile: float, load_ratio: Floats, mean_service_s: Floats, squared_variation: Floats = 0.0
) -> FloatArray:
    """Waiting time that the share `quantile` of arrivals stays below.

    P(W > t) = rho exp(-rho t / E[W]): exact for M/M/1, the usual exponential tail otherwise.

    >>> round(float(wait_percentile_s(0.95, 0.5, 1.0, squared_variation=1.0)), 4)  # ln(0.5 / 0.05) / 0.5
    4.6052
    """
    load = np.asarray(load_ratio, dtype=np.float64)
    waits = load > 1 - quantile
    busy = np.where(waits, np.minimum(load, 1.0), 1.0)
    mean_when_waiting = mean_wait_s(load, mean_service_s, squared_variation) / busy
    return np.where(waits, mean_when_waiting * np.log(busy / (1 - quantile)), 0.0)


def poisson_percentile(quantile: float, mean: Floats) -> FloatArray:
    """Number of sequences in service that is exceeded in 1 - quantile of the time, for a Poisson count.

    Normal approximation mean + z sqrt(mean): z = 0 at the median.

    >>> round(float(poisson_percentile(0.95, 100.0)), 1)
    116.4
    """
    return np.asarray(mean + normal_quantile(quantile) * np.sqrt(mean), dtype=np.float64)


def normal_quantile(quantile: float) -> float:
    """Standard normal quantile, by the standard library's exact inverse.

    >>> round(normal_quantile(0.9), 4)
    1.2816
    """
    from statistics import NormalDist

    return NormalDist().inv_cdf(quantile)
