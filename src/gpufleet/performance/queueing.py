"""Waiting times of a single server with Poisson arrivals."""

from __future__ import annotations

from functools import lru_cache

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


def gated_wait_s(load_ratio: Floats, step_s: Floats, service_s: Floats, squared_variation: Floats = 0.0) -> FloatArray:
    """Mean wait where a server takes all that has come into its next step, beside `step_s` of other work.

    W = (1 / 2 + rho) L, L = t / (1 - rho) + rho S (1 + c^2) / (1 - rho^2)   [s]
    Steps C follow each other, C = t + the service of what came in the last one: E[C] = t / (1 - rho), Var[C] = rate
    E[C] E[S^2] / (1 - rho^2). An arrival meets a step of L = E[C^2] / E[C] on average, waits for half of it, and shares
    the next one with what else came in it. Its own service, and t of its own step, come on top.

    >>> float(gated_wait_s(0.0, 0.02, 0.1))  # half of the step under way
    0.01
    """
    load, spare = np.asarray(load_ratio, dtype=np.float64), 1 - np.asarray(load_ratio)
    met_s = (step_s + load / (1 + load) * (1 + squared_variation) * service_s) / spare
    return np.asarray((0.5 + load) * met_s)


def loop_wait_s(others: Floats, cycle_s: Floats, service_s: Floats) -> FloatArray:
    """Mean wait of a client whose request and those of n others each come once in a cycle, at times of their own.

    W = n / (n + 1) (sqrt((n mu)^2 + 4 n) - n mu) / 4 S    mu = cycle / ((n + 1) S) - 1, S service [s]
    Many clients at a load rho = 1 / (1 + mu): M/D/1, S / (2 mu) (source: kleinrock-1975, eq. 5.69). A server that
    is always busy: S sqrt(n) / 2, which n arrivals queue up by chance. The root joins both; a simulation of the queue
    stays within a third of it.

    >>> round(float(loop_wait_s(1e6, 2e6, 1.0)), 3)  # M/D/1 at half load: rho / (1 - rho) / 2
    0.5
    >>> round(float(loop_wait_s(63.0, 64.0, 1.0)), 2)  # as many prompts as the server has time for
    3.91
    """
    others, service = np.asarray(others, dtype=np.float64), np.asarray(service_s, dtype=np.float64)
    spare = others * (cycle_s / ((others + 1) * service) - 1)
    return np.asarray(others / (others + 1) * (np.sqrt(spare**2 + 4 * others) - spare) / 4 * service)


def wait_percentile_s(
    quantile: Floats, load_ratio: Floats, mean_service_s: Floats, squared_variation: Floats = 0.0
) -> FloatArray:
    """Waiting time that the share `quantile` of arrivals stays below.

    P(W > t) = rho exp(-rho t / E[W]): exact for M/M/1, the usual exponential tail otherwise.

    >>> round(float(wait_percentile_s(0.95, 0.5, 1.0, squared_variation=1.0)), 4)  # ln(0.5 / 0.05) / 0.5
    4.6052
    """
    return wait_tail_s(quantile, mean_wait_s(load_ratio, mean_service_s, squared_variation), load_ratio)


def wait_tail_s(quantile: Floats, mean_s: Floats, waiting_ratio: Floats) -> FloatArray:
    """Waiting time that the share `quantile` of arrivals stays below, of whom `waiting_ratio` wait at all.

    P(W > t) = p exp(-p t / E[W])   [s]

    >>> round(float(wait_tail_s(0.95, 1.0, 0.5)), 4)  # 2 ln(0.5 / 0.05)
    4.6052
    """
    share = np.asarray(waiting_ratio, dtype=np.float64)
    waits = share > 1 - quantile
    waiting = np.where(waits, np.minimum(share, 1.0), 1.0)
    return np.where(waits, mean_s / waiting * np.log(waiting / (1 - quantile)), 0.0)


def poisson_percentile(quantile: float, mean: Floats) -> FloatArray:
    """Number of sequences in service that is exceeded in 1 - quantile of the time, for a Poisson count.

    Normal approximation mean + z sqrt(mean): z = 0 at the median.

    >>> round(float(poisson_percentile(0.95, 100.0)), 1)
    116.4
    """
    return np.asarray(mean + normal_quantile(quantile) * np.sqrt(mean), dtype=np.float64)


@lru_cache(maxsize=64)
def normal_quantile(quantile: float) -> float:
    """Standard normal quantile, by the standard library's exact inverse.

    >>> round(normal_quantile(0.9), 4)
    1.2816
    """
    from statistics import NormalDist

    return NormalDist().inv_cdf(quantile)
