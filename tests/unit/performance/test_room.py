"""The wait for room: Erlang's formula for sequences alike, and laws."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.performance.load_curves import batch_grid
from gpufleet.performance.room import RoomWait, room_wait
from gpufleet.performance.spread import Spread, after_wait

SERVICE_S = 2.0
ROOM, LOAD = st.floats(1.0, 500.0), st.floats(0.05, 0.95)


def waits_at(batch: float, room: float, held_variation: float = 0.0, growth: float = 0.0) -> tuple[float, float]:
    """Mean wait and share that waits where `batch` run; a request takes longer beside others, as n^growth."""
    grid = np.unique(np.append(batch_grid(), batch))
    rate = grid ** (1 - growth) / SERVICE_S
    found: RoomWait = room_wait(grid, rate[None, :], np.array([room]), held_variation, 1.0)
    at = int(np.searchsorted(grid, batch))
    return float(found.wait_s[0, at]), float(found.waiting_ratio[0, at])


def erlang_c(servers: int, offered: float) -> float:
    """Share that waits in M/M/c. Source: kleinrock-1975"""
    queued = offered**servers / math.factorial(servers) * servers / (servers - offered)
    return queued / (sum(offered**k / math.factorial(k) for k in range(servers)) + queued)


@pytest.mark.parametrize("room", [2, 5, 10, 40, 100])
@pytest.mark.parametrize("load", [0.7, 0.8, 0.9])
def test_sequences_alike_wait_as_in_erlangs_formula(room: int, load: float) -> None:
    waits_s, waiting = waits_at(load * room, room)
    exact = erlang_c(room, load * room)
    assert waiting == pytest.approx(exact, rel=0.21, abs=1e-3)
    assert waits_s == pytest.approx(exact * SERVICE_S / (room * (1 - load)), rel=0.21, abs=1e-3)


@given(ROOM, LOAD, st.floats(0.0, 1.0), st.floats(0.0, 0.8))
def test_more_room_waits_less_and_larger_sequences_more(room: float, load: float, varied: float, growth: float) -> None:
    here = waits_at(load * room, room, varied, growth)
    assert 0 <= here[1] <= 1
    assert waits_at(load * room, 1.3 * room, varied, growth)[0] <= here[0] * (1 + 1e-6) + 1e-9
    assert waits_at(load * room * 0.9, room, varied, growth)[0] <= here[0] * (1 + 1e-6) + 1e-9


@pytest.mark.parametrize("share", [0.02, 0.3, 1.0])
@pytest.mark.parametrize("quantile", [0.5, 0.95, 0.99])
@pytest.mark.parametrize("wait_s", [0.1, 1.0, 30.0])
def test_as_many_are_later_than_a_quantile_as_it_says(share: float, quantile: float, wait_s: float) -> None:
    """A normal time, after an exponential wait for a share of them: an exponentially modified normal time."""
    found = after_wait(Spread(5.0, 0.25), np.array([wait_s]), np.array([share]), quantile)
    u, k = (float(found.at_s(quantile)[0]) - 5.0) / 0.5, 0.5 * share / wait_s
    waited = share * math.exp(k**2 / 2 - k * u) * NormalDist().cdf(u - k)
    assert NormalDist().cdf(-u) + waited == pytest.approx(1 - quantile, rel=0.06)
