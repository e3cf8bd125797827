"""Who is served first: classes before each other, arrivals within a class; who waits in vain, and who is given up."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from tests.properties.random_clusters import table_of

from gpufleet.domain.replay import ANSWERED, REFUSED, TIMED_OUT, TOO_LONG, Replay
from gpufleet.domain.requests import Requests
from gpufleet.simulate.cluster import Change, Cluster, Copy, EngineRules, Member, replay
from gpufleet.simulate.state import READY, STARTING

STEP_S = 1e-3
ONE_AT_A_TIME = EngineRules(largest_batch=1, step_tokens=512, num_blocks=1000)


def alone(rules: EngineRules = ONE_AT_A_TIME, **how: object) -> Cluster:
    """One replica whose steps take a millisecond, whatever they hold."""
    return Cluster((Copy(rules, table_of(STEP_S)),), (Member(),), **how)  # type: ignore[arg-type]


def asked(times: list[float], classes: list[int], tokens: int = 10) -> Requests:
    num = len(times)
    lengths = np.full(num, tokens, dtype=np.int64)
    return Requests(np.array(times), lengths, lengths, np.array(classes, dtype=np.int64), ("urgent", "rest"))


def first_tokens(happened: Replay, request_class: int) -> list[float]:
    return [float(t) for t in happened.first_token_s[happened.requests.request_class == request_class]]


def test_an_earlier_class_goes_before_all_that_wait_of_a_later_one() -> None:
    happened = replay(alone(), asked([0.0] * 5 + [0.001] * 3, [1] * 5 + [0] * 3))
    begun_before = sum(first < min(first_tokens(happened, 0)) for first in first_tokens(happened, 1))
    assert begun_before == 1, "only the one that ran already"
    assert max(first_tokens(happened, 0)) < sorted(first_tokens(happened, 1))[1]


def test_within_a_class_the_first_come_is_the_first_served() -> None:
    happened = replay(alone(), asked([i * 1e-4 for i in range(20)], [0] * 20))
    assert first_tokens(happened, 0) == sorted(first_tokens(happened, 0))


def test_who_waits_too_long_is_given_up_and_frees_the_queue() -> None:
    happened = replay(alone(timeout_s=0.015), asked([0.0] * 6, [0] * 6))
    fates = happened.fate.tolist()
    assert fates[0] == ANSWERED
    assert TIMED_OUT in fates
    waits = happened.first_token_s[happened.is_answered]
    assert waits.max() <= 0.015 + 11 * STEP_S


@pytest.mark.parametrize(("patience_steps", "fate"), [(10, ANSWERED), (9.75, TIMED_OUT)])
def test_who_is_looked_at_in_the_moment_of_giving_up_is_served(patience_steps: float, fate: int) -> None:
    """The first takes ten steps of a 1,024th of a second: every time is exact."""
    step_s = 2.0**-10
    cluster = Cluster((Copy(ONE_AT_A_TIME, table_of(step_s)),), timeout_s=patience_steps * step_s)
    assert replay(cluster, asked([0.0, 0.0], [0, 0])).fate.tolist() == [ANSWERED, fate]


def test_who_has_begun_is_not_given_up_when_room_is_taken_away() -> None:
    """Preempted, it waits longer than a client who has seen nothing would."""
    rules = EngineRules(largest_batch=2, step_tokens=512, num_blocks=20, block_tokens=4)
    happened = replay(alone(rules, timeout_s=0.005), asked([0.0, 0.0], [0, 0], tokens=38))
    assert happened.preemptions.tolist() == [0, 1]
    assert happened.is_answered.all()


def test_a_replica_that_is_full_refuses_and_a_retry_finds_room() -> None:
    crowded = asked([0.0] * 6, [0] * 6)
    refused = replay(alone(most_waiting=2), crowded)
    assert refused.fate.tolist().count(REFUSED) == 3
    retried = replay(alone(most_waiting=2, retries=100, backoff_s=0.01), crowded)
    assert retried.is_answered.all()
    assert retried.retries.sum() > 0


def test_a_request_longer_than_the_context_ends_too_long_and_holds_up_nobody() -> None:
    rules = replace(ONE_AT_A_TIME, longest_tokens=15)
    happened = replay(alone(rules), asked([0.0, 0.1], [0, 0], tokens=10))
    assert happened.fate.tolist() == [TOO_LONG, TOO_LONG]
    assert not math.isfinite(happened.first_token_s[0])


@pytest.mark.parametrize("budget", [16, 64])
def test_a_prompt_is_cut_into_as_many_steps_as_the_budget_makes_of_it(budget: int) -> None:
    rules = replace(ONE_AT_A_TIME, step_tokens=budget)
    happened = replay(alone(rules), asked([0.0], [0], tokens=64))
    assert happened.first_token_s[0] == pytest.approx(64 / budget * STEP_S)


@pytest.mark.parametrize(("longest_tokens", "fate"), [(20, ANSWERED), (19, TOO_LONG)])
def test_a_request_as_long_as_the_context_is_served(longest_tokens: int, fate: int) -> None:
    happened = replay(alone(replace(ONE_AT_A_TIME, longest_tokens=longest_tokens)), asked([0.0], [0]))
    assert happened.fate.tolist() == [fate]


def test_those_that_wait_in_front_are_counted_until_a_replica_is_ready() -> None:
    """Four come within four seconds, and the only replica is ready after ten: then all are served."""
    one = Copy(replace(ONE_AT_A_TIME, largest_batch=8), table_of(STEP_S))
    late = Cluster((one,), (Member(is_ready=False),), changes=(Change(0.0, 0, STARTING), Change(10.0, 0, READY)))
    happened = replay(late, asked([0.0, 1.0, 2.0, 4.0], [0] * 4))
    at_once = happened.timeline.waiting[happened.timeline.time_s < 4.0]
    assert at_once.max() == 3
    assert sorted(at_once.tolist()) == at_once.tolist()
    assert happened.timeline.waiting[-1] == 0
    assert happened.first_token_s.min() >= 10.0
    assert happened.is_answered.all()
