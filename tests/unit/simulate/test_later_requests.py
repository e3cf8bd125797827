"""Requests that come at times of their own: in the order of time, and of those at one time in the order of asking."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from tests.properties.random_clusters import plain_modules


@pytest.fixture(scope="module")
def events() -> ModuleType:
    return plain_modules()["events"]


def state_of(ready_s: list[float], arrivals: int = 0) -> SimpleNamespace:
    """Requests of which the first so many come by themselves; `later` begins at word 3."""
    cluster = SimpleNamespace(later=3, num_later=0, next_arrival=0, num_arrivals=arrivals)
    return SimpleNamespace(
        cluster=[cluster], words=[-7] * (3 + len(ready_s)), requests=[SimpleNamespace(ready_s=at) for at in ready_s]
    )


@pytest.mark.parametrize("seed", range(12))
def test_later_requests_come_in_the_order_of_time_whenever_they_are_put_there(events: ModuleType, seed: int) -> None:
    """Some are put there, some taken, in turn; the one that is taken is the first of those that are there."""
    dice = np.random.default_rng(seed)
    ready_s = dice.integers(0, 15, 40).astype(float).tolist()
    state, there = state_of(ready_s), set[int]()
    for n in dice.permutation(40).tolist():
        events.come_later(state, n)
        there.add(n)
        if dice.random() < 0.3:
            first = min(there, key=lambda each: (ready_s[each], each))
            assert events.next_request_s(state) == ready_s[first]
            assert events.take_request(state) == first
            there.remove(first)
    rest = [events.take_request(state) for _ in range(len(there))]
    assert rest == sorted(there, key=lambda each: (ready_s[each], each))
    assert state.words[:3] == [-7] * 3
    assert events.next_request_s(state) == np.inf


def test_of_new_and_later_requests_at_one_time_the_new_one_comes_first(events: ModuleType) -> None:
    state = state_of([1.0, 2.0, 5.0, 2.0, 0.5, 7.0], arrivals=3)
    for n in (3, 4, 5):
        events.come_later(state, n)
    taken = [(events.next_request_s(state), events.take_request(state)) for _ in range(6)]
    assert taken == [(0.5, 4), (1.0, 0), (2.0, 1), (2.0, 3), (5.0, 2), (7.0, 5)]
