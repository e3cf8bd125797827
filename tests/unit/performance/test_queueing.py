"""Waiting times against the textbook."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.performance.queueing import (
    loop_wait_s,
    mean_wait_s,
    normal_quantile,
    poisson_percentile,
    wait_percentile_s,
)

loads = st.floats(0.001, 0.999)
services = st.floats(1e-4, 100)


@pytest.mark.parametrize(("load", "service_s", "waiting_s"), [(0.5, 1.0, 1.0), (0.8, 1.0, 4.0), (0.9, 0.1, 0.9)])
def test_m_m_1_waits_rho_over_one_minus_rho(load: float, service_s: float, waiting_s: float) -> None:
    """Kleinrock 1975, eq. 3.27 less the service: W = rho / (1 - rho) / mu."""
    assert mean_wait_s(load, service_s, squared_variation=1.0) == pytest.approx(waiting_s)


@pytest.mark.parametrize(("load", "waiting_s"), [(0.5, 0.5), (0.8, 2.0), (0.95, 9.5)])
def test_m_d_1_waits_half_as_long_as_m_m_1(load: float, waiting_s: float) -> None:
    assert mean_wait_s(load, 1.0) == pytest.approx(waiting_s)
    assert 2 * mean_wait_s(load, 1.0) == pytest.approx(mean_wait_s(load, 1.0, squared_variation=1.0))


def test_m_g_1_with_two_kinds_of_service_follows_pollaczek_and_khinchine() -> None:
    """Half of the requests take 1 s, half 3 s: E[S] = 2, E[S^2] = 5; at 0.25/s W = 0.25 x 5 / (2 x 0.5) = 1.25 s."""
    squared_variation = 5 / 2**2 - 1
    assert mean_wait_s(0.25 * 2, 2.0, squared_variation) == pytest.approx(1.25)


@pytest.mark.parametrize(("quantile", "waiting_s"), [(0.90, 21.972246), (0.95, 28.903718), (0.99, 44.998097)])
def test_percentiles_of_m_m_1_follow_its_exponential_tail(quantile: float, waiting_s: float) -> None:
    """P(W > t) = rho exp(-(1 - rho) mu t): at rho = 0.9 and mu = 1 the 90th percentile is ln(9) / 0.1 = 21.97 s."""
    assert wait_percentile_s(quantile, 0.9, 1.0, 1.0) == pytest.approx(waiting_s)


@given(loads, services)
def test_later_percentiles_wait_at_least_as_long(load: float, service_s: float) -> None:
    waits = [float(wait_percentile_s(q, load, service_s)) for q in (0.5, 0.9, 0.95, 0.99)]
    assert waits == sorted(waits)
    assert waits[0] >= 0


@given(loads, services)
def test_an_arrival_that_mostly_finds_the_server_idle_mostly_does_not_wait(load: float, service_s: float) -> None:
    assert wait_percentile_s(0.999 * (1 - load), load, service_s) == 0


@given(st.floats(0.01, 0.95), st.floats(1.001, 1.04), services)
def test_more_load_never_waits_less(load: float, factor: float, service_s: float) -> None:
    assert mean_wait_s(load * factor, service_s) >= mean_wait_s(load, service_s)
    assert wait_percentile_s(0.95, load * factor, service_s) >= wait_percentile_s(0.95, load, service_s)


@pytest.mark.parametrize("load", [1.0, 1.5, math.inf])
def test_an_overloaded_server_keeps_people_waiting_for_ever(load: float) -> None:
    assert mean_wait_s(load, 1.0) == math.inf
    assert wait_percentile_s(0.95, load, 1.0) == math.inf


def test_nobody_waits_at_no_load() -> None:
    assert mean_wait_s(0.0, 1.0) == 0
    assert wait_percentile_s(0.99, 0.0, 1.0) == 0


@pytest.mark.parametrize(("quantile", "z"), [(0.5, 0.0), (0.9, 1.281552), (0.95, 1.644854), (0.99, 2.326348)])
def test_normal_quantiles_are_those_of_the_tables(quantile: float, z: float) -> None:
    assert normal_quantile(quantile) == pytest.approx(z, abs=1e-6)


@pytest.mark.parametrize(("quantile", "exact"), [(0.90, 113), (0.95, 117), (0.99, 124)])
def test_percentiles_of_a_poisson_count_of_100_lie_within_one_of_the_exact_ones(quantile: float, exact: int) -> None:
    """Exact quantiles of Poisson(100): the smallest count whose cumulative probability reaches the quantile."""
    assert poisson_quantile(quantile, 100.0) == exact
    assert poisson_percentile(quantile, 100.0) == pytest.approx(exact, abs=1)


def poisson_quantile(quantile: float, mean: float) -> int:
    probability = cumulative = math.exp(-mean)
    count = 0
    while cumulative < quantile:
        count += 1
        probability *= mean / count
        cumulative += probability
    return count


def test_several_percentiles_at_once_are_those_of_each() -> None:
    loads, quantiles = np.array([0.0, 0.04, 0.3, 0.7, 0.99, 1.2]), np.array([0.5, 0.9, 0.95, 0.99])
    together = wait_percentile_s(quantiles[:, None], loads, 0.2)
    assert together.shape == (4, 6)
    assert np.array_equal(together, [[float(wait_percentile_s(q, load, 0.2)) for load in loads] for q in quantiles])


def test_arrays_and_numbers_agree() -> None:
    load = np.array([0.2, 0.7, 1.2])
    together = wait_percentile_s(0.95, load, np.array([0.1, 0.2, 0.3]))
    np.testing.assert_allclose(
        together, [wait_percentile_s(0.95, x, s) for x, s in zip(load, (0.1, 0.2, 0.3), strict=True)]
    )


def simulated_loop_wait_s(others: int, cycle_s: float, cycles: int) -> float:
    """Mean wait of requests that come once a cycle each, at phases drawn anew, for a server that takes 1 s for each."""
    generator, waits = np.random.default_rng(7), []
    for _ in range(cycles):
        once = np.sort(generator.uniform(0, cycle_s, others + 1))
        free_s = 0.0
        for arrival_s in (*once, *(once + cycle_s)):
            waits.append(max(free_s - arrival_s, 0.0) if arrival_s >= cycle_s else math.nan)
            free_s = max(free_s, arrival_s) + 1
    return float(np.nanmean(waits))


@pytest.mark.parametrize("others", [1, 3, 15, 63])
@pytest.mark.parametrize("load", [0.2, 0.5, 0.8, 1.0])
def test_clients_of_a_loop_wait_as_in_a_simulation(others: int, load: float) -> None:
    cycle_s = (others + 1) / load
    assert loop_wait_s(others, cycle_s, 1.0) == pytest.approx(simulated_loop_wait_s(others, cycle_s, 600), rel=0.33)


def test_a_lone_client_waits_for_nobody() -> None:
    assert loop_wait_s(0.0, 5.0, 1.0) == 0


@given(st.floats(0, 1000), st.floats(1.0, 50), services)
def test_a_loop_never_waits_longer_than_for_half_of_the_others_nor_than_open_arrivals(
    others: float, spare_ratio: float, service_s: float
) -> None:
    wait_s = float(loop_wait_s(others, spare_ratio * (others + 1) * service_s, service_s))
    assert wait_s <= others / 2 * service_s * (1 + 1e-9)
    assert wait_s <= mean_wait_s(1 / spare_ratio, service_s) * (1 + 1e-6)
