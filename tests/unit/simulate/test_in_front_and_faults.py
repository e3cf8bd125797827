"""What stands before the replicas and what befalls them, with draws that are known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.unit.simulate.queues import queue_replay

from gpufleet.domain.replay import ANSWERED, FROM_CACHE
from gpufleet.domain.requests import Requests
from gpufleet.simulate.cluster import Change
from gpufleet.simulate.faults import cold_starts, failures
from gpufleet.simulate.front import beyond_cache, drawn_share, told_apart, with_cached
from gpufleet.simulate.state import OFF, READY, STARTING


class Told:
    """A generator whose draws are told beforehand."""

    def __init__(self, *draws: float) -> None:
        self.draws: Iterator[float] = iter(draws)
        self.means: list[float] = []

    def exponential(self, mean: float) -> float:
        self.means.append(mean)
        return next(self.draws)

    def random(self, number: int) -> np.ndarray:
        return np.array([next(self.draws) for _ in range(number)])


def five(classes: list[int] | None = None, names: tuple[str, ...] = ("",)) -> Requests:
    tokens = np.full(5, 100)
    return Requests(np.arange(5.0), tokens, tokens - 89, np.array(classes or [0] * 5), names)


def test_all_replicas_start_at_once_and_are_ready_after_a_cold_start() -> None:
    assert cold_starts(2, 10.0, 5.0) == [
        Change(10.0, 0, STARTING), Change(10.0, 1, STARTING), Change(15.0, 0, READY), Change(15.0, 1, READY)
    ]  # fmt: skip


def test_a_replica_fails_a_drawn_time_after_it_is_back() -> None:
    """First after 10 s, back after 3 s, again 7 s later; the third loss would come after the end."""
    dice: Any = Told(10.0, 7.0, 80.0)
    assert failures(dice, 1, 100.0, 200.0, 20.0, 3.0) == [
        Change(110.0, 0, OFF), Change(110.0, 0, STARTING), Change(113.0, 0, READY),
        Change(120.0, 0, OFF), Change(120.0, 0, STARTING), Change(123.0, 0, READY),
    ]  # fmt: skip
    assert dice.means == [20.0] * 3


def test_nothing_fails_when_the_last_request_has_come() -> None:
    dice: Any = Told(100.0)
    assert failures(dice, 1, 100.0, 200.0, 20.0, 3.0) == []


def test_losses_of_several_replicas_stand_in_the_order_of_time() -> None:
    dice: Any = Told(50.0, 99.0, 5.0, 99.0)
    found = failures(dice, 2, 0.0, 100.0, 20.0, 60.0)
    assert [(c.time_s, c.replica) for c in found if c.state == OFF] == [(5.0, 1), (50.0, 0)]
    assert [c.time_s for c in found] == sorted(c.time_s for c in found)


def test_each_request_is_among_a_share_by_a_draw_of_its_own() -> None:
    dice: Any = Told(0.1, 0.5, 0.9, 0.49, 0.0)
    assert drawn_share(dice, five(), 0.5).tolist() == [True, False, False, True, True]


def test_what_a_cache_answers_is_whole_as_it_comes_and_the_rest_is_as_it_was_served() -> None:
    is_hit = np.array([False, True, False, False, True])
    asked = five([0, 0, 1, 1, 0], ("chat", "code"))
    passed = beyond_cache(asked, is_hit)
    assert passed.arrival_s.tolist() == [0.0, 2.0, 3.0]
    served = queue_replay(
        passed.arrival_s, np.full(3, 0.25), request_class=passed.request_class, class_names=("a", "b")
    )
    served = replace(served, preemptions=np.array([2, 0, 1]), retries=np.array([0, 3, 0]))
    whole = with_cached(served, asked, is_hit)
    assert whole.requests.request_class.tolist() == [0, 0, 1, 1, 0]
    assert whole.requests.class_names == ("a", "b")
    assert whole.fate.tolist() == [ANSWERED, FROM_CACHE, ANSWERED, ANSWERED, FROM_CACHE]
    assert whole.first_token_s.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert whole.finish_s.tolist() == [0.25, 1.0, 2.25, 3.25, 4.0]
    assert whole.replica.tolist() == [0, -1, 0, 0, -1]
    assert whole.cached_tokens.tolist() == [25, 0, 25, 25, 0]
    assert whole.preemptions.tolist() == [2, 0, 0, 1, 0]
    assert whole.retries.tolist() == [0, 0, 3, 0, 0]
    assert whole.end_s == 4.0, "the last is answered by the cache when all others are done"


@pytest.mark.parametrize(("service_s", "is_partial", "end_s"), [(9.0, False, 27.0), (0.25, True, 3.25)])
def test_a_replay_ends_with_its_last_answer_and_where_it_was_stopped(
    service_s: float, is_partial: bool, end_s: float
) -> None:
    is_hit = np.array([False, True, False, False, True])
    passed = beyond_cache(five(), is_hit)
    served = replace(queue_replay(passed.arrival_s, np.full(3, service_s)), is_partial=is_partial)
    assert with_cached(served, five(), is_hit).end_s == end_s


def test_requests_of_the_small_model_are_classes_of_their_own() -> None:
    is_small = np.array([True, False, True, False, False])
    told = told_apart(five([0, 0, 1, 1, 0], ("chat", "code")), is_small, "small")
    assert told.class_names == ("chat", "code", "chat small", "code small")
    assert told.request_class.tolist() == [2, 0, 3, 1, 0]
    assert told_apart(five(), is_small, "small").class_names == ("large", "small")
