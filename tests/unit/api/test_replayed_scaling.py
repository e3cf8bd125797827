"""The parts of a day that are replayed: the whole, or the worst that memory holds, each from where nobody waits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpufleet.errors import UsageError
from gpufleet.optimize.worst_parts import LEAD_S, requests_in, worst_parts
from gpufleet.simulate.scaling import Played
from gpufleet.units import DAY, HOUR, MINUTE

TICK_S, TICKS = 15.0, round(DAY / 15.0)


def day(arrivals: np.ndarray, late: np.ndarray, queue: np.ndarray | None = None) -> Played:
    """A day of so many requests a tick, of which so many are late."""
    numbers, none = np.ones(len(arrivals), dtype=np.int64), np.zeros(len(arrivals))
    waits = none if queue is None else queue
    return Played(TICK_S, 0.0, arrivals, numbers, numbers, arrivals, waits, arrivals - late, none, 0, 0)


def test_a_day_that_memory_holds_is_replayed_whole() -> None:
    part_s, [whole] = worst_parts(day(np.full(TICKS, 10.0), np.zeros(TICKS)))
    assert (part_s, whole.first, whole.counted, whole.end) == (DAY, 0, 0, TICKS)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**31), st.sampled_from([20_000.0, 60_000.0, 400_000.0]))
def test_of_a_day_that_is_too_long_the_hours_with_the_most_late_requests_are_replayed(seed: int, most: float) -> None:
    generator = np.random.default_rng(seed)
    arrivals = generator.poisson(100.0, TICKS).astype(np.float64)
    played = day(arrivals, np.round(arrivals * generator.random(TICKS) ** 4))
    part_s, parts = worst_parts(played, int(most))
    assert part_s == (HOUR if most > 40_000 else 15 * MINUTE)
    assert sum(requests_in(played, part) for part in parts) <= most
    late = (arrivals - played.kept).reshape(-1, round(part_s / TICK_S)).sum(axis=1)
    chosen = [part.counted // round(part_s / TICK_S) for part in parts]
    assert late[chosen].min() >= np.delete(late, chosen).max(initial=0)


def test_a_part_begins_where_nobody_waits_from_before() -> None:
    arrivals, late, queue = np.full(TICKS, 100.0), np.zeros(TICKS), np.zeros(TICKS)
    late[240:480], queue[100:300] = 50.0, 7.0
    _, [part] = worst_parts(day(arrivals, late, queue), 50_000)
    assert (part.first, part.counted, part.end) == (100, 240, 480)
    _, [part] = worst_parts(day(arrivals, late), 45_000)
    assert part.first == 240 - round(LEAD_S / TICK_S)


def test_a_minute_that_is_too_long_is_one_message() -> None:
    with pytest.raises(UsageError, match="worst minute"):
        worst_parts(day(np.full(TICKS, 1e6), np.zeros(TICKS)), 1000)
