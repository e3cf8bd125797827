"""Clusters and requests at the edge of what there can be: every replay ends, with a fate for every request."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.properties.random_clusters import table_of

from gpufleet.domain.replay import ANSWERED, REFUSED, TIMED_OUT, TOO_LONG, UNFINISHED, Replay
from gpufleet.domain.requests import PrefixBlocks, Requests
from gpufleet.simulate.cluster import Change, Cluster, Copy, EngineRules, Member, replay
from gpufleet.simulate.compiled import IS_COMPILED
from gpufleet.simulate.state import DRAINING, OFF, READY

AT_ONCE = 100_000 if IS_COMPILED else 2_000
TABLE = table_of(0.01, 1e-4, 1e-7, 1e-4, 1e-9)
RULES = EngineRules(largest_batch=64, step_tokens=512, num_blocks=1000)


def asked(arrival_s: object, prompts: object, answers: object, prefix: PrefixBlocks | None = None) -> Requests:
    times_s = np.asarray(arrival_s, dtype=np.float64)
    columns = (np.broadcast_to(np.asarray(c, dtype=np.int64), times_s.shape) for c in (prompts, answers, 0))
    return Requests(times_s, *columns, prefix=prefix)


def cluster_of(rules: EngineRules = RULES, count: int = 1, **more: object) -> Cluster:
    return replace(Cluster((Copy(rules, TABLE),), (Member(),) * count), **more)


def fates(done: Replay) -> set[int]:
    """What became of the requests; those that were answered have times."""
    assert np.all(np.isfinite(done.finish_s[done.is_answered]))
    assert not done.is_partial
    return set(done.fate.tolist())


def test_no_requests_at_all() -> None:
    done = replay(cluster_of(), asked([], 1, 1))
    assert len(done.fate) == 0
    assert not done.is_partial
    assert done.paid_s.tolist() == [0.0]


def test_one_request_of_one_token() -> None:
    done = replay(cluster_of(), asked([7.0], 1, 1))
    assert fates(done) == {ANSWERED}
    assert done.first_token_s == done.finish_s


@pytest.mark.parametrize("routing", ["round_robin", "least_requests", "least_tokens", "least_kv", "prefix_aware"])
def test_a_hundred_thousand_at_one_moment(routing: str) -> None:
    done = replay(cluster_of(count=3, routing=routing), asked(np.zeros(AT_ONCE), 20, 5))
    assert fates(done) == {ANSWERED}
    assert np.all(np.diff(np.bincount(done.replica)) < AT_ONCE / 10)


def test_a_request_longer_than_the_pool_is_told_so_and_holds_up_nobody() -> None:
    done = replay(cluster_of(), asked([0.0, 1.0, 1.0, 1.0], [10, 16_000, 10, 15_984], [10, 10, 10, 16]))
    assert done.fate.tolist() == [ANSWERED, TOO_LONG, ANSWERED, ANSWERED]


@pytest.mark.parametrize("block_tokens", [1, 16])
def test_a_pool_of_one_block(block_tokens: int) -> None:
    rules = replace(RULES, num_blocks=1, block_tokens=block_tokens)
    done = replay(cluster_of(rules), asked(np.zeros(50), 1, np.arange(1, 51)))
    fit = 1 + np.arange(1, 51) <= block_tokens
    assert np.array_equal(done.fate, np.where(fit, ANSWERED, TOO_LONG))


@pytest.mark.parametrize("mixes", [True, False])
@pytest.mark.parametrize("budget", [1, 2, 7])
def test_a_budget_smaller_than_what_runs(budget: int, mixes: bool) -> None:
    rules = replace(RULES, step_tokens=budget, mixes_prompts=mixes)
    done = replay(cluster_of(rules), asked(np.zeros(300), 30, 40))
    assert fates(done) == {ANSWERED}


def test_blocks_of_one_token_in_a_pool_that_is_always_full() -> None:
    rules = replace(RULES, num_blocks=60, block_tokens=1)
    done = replay(cluster_of(rules), asked(np.linspace(0, 1, 400), 10, 50))
    assert fates(done) == {ANSWERED}
    assert done.preemptions.sum() > 0


def test_the_same_prompt_from_everybody_in_a_pool_that_it_fills() -> None:
    prefix = PrefixBlocks(16, 4 * np.arange(201), np.tile(np.arange(4), 200))
    rules = replace(RULES, num_blocks=7)
    done = replay(cluster_of(rules), asked(np.linspace(0, 5, 200), 64, 30, prefix))
    assert fates(done) == {ANSWERED}
    assert done.cached_tokens[0] == 0
    assert np.all(done.cached_tokens[1:] == 63)


@pytest.mark.parametrize("state", [OFF, DRAINING])
def test_all_replicas_gone_for_good(state: int) -> None:
    """What runs when a replica drains is answered; what was lost, and what comes later, is not."""
    gone = (Change(0.5, 0, state), Change(0.5, 1, state))
    done = replay(cluster_of(count=2, changes=gone), asked(np.linspace(0, 1, 21), 10, 100))
    assert fates(done) == {ANSWERED, UNFINISHED} if state == DRAINING else {UNFINISHED}
    assert np.all(done.paid_s <= (0.5 if state == OFF else done.end_s))


def test_a_replica_that_is_lost_and_back_again_and_again() -> None:
    changes = tuple(Change(0.3 * i, 0, OFF if i % 2 else READY) for i in range(40))
    done = replay(cluster_of(changes=changes), asked(np.linspace(0, 1, 30), 10, 20))
    assert fates(done) == {ANSWERED}
    assert done.retries.max() > 0


def test_no_patience_at_all() -> None:
    done = replay(cluster_of(replace(RULES, largest_batch=1), timeout_s=0.0, retries=3), asked(np.zeros(20), 10, 10))
    assert fates(done) == {ANSWERED, TIMED_OUT}
    assert done.retries.max() == 3


def test_only_one_may_wait() -> None:
    done = replay(cluster_of(replace(RULES, largest_batch=1), most_waiting=1), asked(np.zeros(20), 10, 10))
    assert done.fate.tolist() == [ANSWERED] * 2 + [REFUSED] * 18


def test_a_draw_without_dice_is_refused() -> None:
    with pytest.raises(ValueError, match="generator"):
        replay(cluster_of(count=2, routing="random"), asked([0.0], 1, 1))


def test_clients_without_requests_and_requests_without_clients() -> None:
    assert len(replay(cluster_of(clients=5), asked([], 1, 1)).fate) == 0
    assert fates(replay(cluster_of(clients=0), asked(np.zeros(3), 1, 1))) == {UNFINISHED}
    assert fates(replay(cluster_of(clients=9), asked(np.zeros(3), 1, 1))) == {ANSWERED}
