"""What no simulated cluster does, however it is set up: `random_clusters` says how that is."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.effort import cases
from tests.properties.naive_cluster import NaiveCluster
from tests.properties.random_clusters import (
    COLUMNS,
    clusters,
    columns_of,
    crowded_clusters,
    digest,
    plain_modules,
    requests,
    table_of,
)

from gpufleet.domain.replay import ANSWERED, FATES, TOO_LONG, UNFINISHED, Replay
from gpufleet.domain.requests import Requests
from gpufleet.simulate.cluster import Cluster, Copy, EngineRules, Member, Running, replay
from gpufleet.simulate.compiled import IS_COMPILED

MANY, FEWER = cases(200, 2000), cases(80, 200)
"""Clusters; the larger numbers by `make brute-force`."""
SLACK_S = 1e-9
seeds = st.integers(0, 2**32)


@pytest.fixture(scope="module")
def plain() -> dict[str, ModuleType]:
    return plain_modules()


def dice(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def blocks_needed(cluster: Cluster, asked: Requests) -> np.ndarray:
    """Blocks of each request, by copies [copy, request]."""
    tokens = asked.input_tokens + asked.output_tokens
    return np.array([-(-tokens // copy.rules.block_tokens) for copy in cluster.copies])


@pytest.mark.slow
@settings(max_examples=MANY)
@given(clusters(waits_for_batches=True), requests(), seeds)
def test_every_request_ends_and_every_answer_is_whole(cluster: Cluster, asked: Requests, seed: int) -> None:
    running = Running(cluster, asked, dice(seed))
    while running.go_on():
        pass
    done = running.replay()
    assert not done.is_partial
    assert set(np.unique(done.fate)) <= set(range(len(FATES)))
    check_times(done)
    check_nothing_is_left(running, done)
    fits = np.any(blocks_needed(cluster, done.requests) <= [[c.rules.num_blocks] for c in cluster.copies], axis=0)
    assert np.all(fits[done.is_answered])
    if math.isinf(cluster.timeout_s) and cluster.most_waiting is None:
        assert set(np.unique(done.fate)) <= {ANSWERED, TOO_LONG, UNFINISHED}


def check_times(done: Replay) -> None:
    """Answers come after questions, tokens one after the other; what has no answer has no end."""
    answered = done.is_answered
    first_s, finish_s, arrival_s = (
        column[answered] for column in (done.first_token_s, done.finish_s, done.requests.arrival_s)
    )
    several = done.requests.output_tokens[answered] > 1
    assert np.all(first_s > arrival_s)
    assert np.all(finish_s >= first_s)
    assert np.all((finish_s > first_s)[several])
    assert np.all(done.replica[answered] >= 0)
    assert np.all(np.isnan(done.finish_s[~answered]))
    assert np.all(done.cached_tokens[answered] < done.requests.input_tokens[answered])
    assert np.all(done.busy_s <= done.paid_s + SLACK_S)


def check_nothing_is_left(running: Running, done: Replay) -> None:
    """All tokens were made and all blocks are free; requests that no replica took wait in front of them."""
    for name in ("used_blocks", "running", "waiting", "num_joining", "tokens_left", "context_tokens"):
        assert np.all(running.of_replicas(name) == 0), name
    assert np.all(running.of_replicas("end_s") == np.inf)
    rows = running.records.requests
    assert np.all((rows["left_tokens"] == 0) == (rows["fate"] == ANSWERED))
    unfinished = np.sum(done.fate == UNFINISHED)
    never_sent = len(done.fate) - running.shared("next_client") if running.cluster.clients else 0
    assert unfinished == running.shared("num_unrouted") + never_sent
    assert running.shared("num_ended") + unfinished == len(done.fate)


@pytest.mark.slow
@settings(max_examples=FEWER)
@given(clusters(), requests(), seeds)
def test_at_no_moment_is_a_pool_overfull_or_a_replica_idle_before_work(
    plain: dict[str, ModuleType], cluster: Cluster, asked: Requests, seed: int
) -> None:
    running = plain["cluster"].Running(cluster, asked, dice(seed))
    now_s, admitted = -math.inf, Admissions(running)
    while running.run(math.inf, 1):
        check_replicas(running)
        assert running.shared("now_s") >= now_s
        now_s = running.shared("now_s")
        admitted.see(running)
    admitted.check()


def check_replicas(running: Any) -> None:
    """Every replica within its limits, and none at rest while requests wait."""
    for replica in running.state.replicas:
        engine = running.state.engines[replica.engine]
        assert 0 <= replica.used_blocks <= engine.num_blocks
        assert replica.used_blocks + replica.idle_blocks <= engine.num_blocks
        assert replica.idle_blocks >= 0
        assert replica.running + replica.num_joining <= engine.largest_batch
        assert replica.tokens_left >= 0
        assert replica.end_s >= replica.clock_s
        is_at_rest = replica.end_s == math.inf
        assert not (is_at_rest and replica.waiting), "idle before work"
        held = sum(running.state.words[replica.phases : replica.phases + engine.block_tokens])
        assert held == (0 if engine.reserves_answers else replica.running)


class Admissions:
    """At which event each request was first admitted, and where."""

    def __init__(self, running: Any) -> None:
        self.rows, self.event = running.state.requests, 0
        self.seen: dict[int, list[tuple[float, int, int]]] = {}
        self.waits = set(range(len(self.rows)))

    def see(self, running: Any) -> None:
        self.event += 1
        for n in sorted(self.waits):
            row = self.rows[n]
            if row.retries:
                self.waits.remove(n)
            elif row.replica >= 0:
                self.waits.remove(n)
                self.seen.setdefault((row.replica, row.request_class), []).append((row.ready_s, self.event))

    def check(self) -> None:
        """First come, first served: of one class at one replica, nobody was admitted before an earlier one."""
        for entries in self.seen.values():
            for came, event in entries:
                assert all(event <= other for later, other in entries if later > came)


@pytest.mark.skipif(not IS_COMPILED, reason="Numba is not installed")
@pytest.mark.slow
@settings(max_examples=MANY)
@given(clusters(waits_for_batches=True), requests(), seeds)
def test_compiled_and_plain_agree_to_the_bit(
    plain: dict[str, ModuleType], cluster: Cluster, asked: Requests, seed: int
) -> None:
    assert digest(replay(cluster, asked, dice(seed))) == digest(plain["cluster"].replay(cluster, asked, dice(seed)))


@pytest.mark.slow
@settings(max_examples=FEWER)
@given(clusters(), requests(), seeds)
def test_runs_of_steps_are_single_steps(
    plain: dict[str, ModuleType], cluster: Cluster, asked: Requests, seed: int
) -> None:
    at_once = columns_of(plain["cluster"].replay(cluster, asked, dice(seed)))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(plain["replica"], "steps_in_cell", lambda *_: 1)
        one_by_one = columns_of(plain["cluster"].replay(cluster, asked, dice(seed)))
    for name, column in at_once.items():
        np.testing.assert_allclose(column, one_by_one[name], rtol=1e-9, atol=1e-9, err_msg=name)


@pytest.mark.slow
@settings(max_examples=FEWER)
@given(clusters(), requests(), seeds)
def test_the_rules_told_step_by_step_come_to_the_same(cluster: Cluster, asked: Requests, seed: int) -> None:
    """The reference counts all anew in every step: a rule that only one of the two keeps shows in some answer."""
    check_against_the_naive(cluster, asked, seed)


@pytest.mark.slow
@settings(max_examples=2 * FEWER)
@given(crowded_clusters(), requests((6, 12, 20)), seeds)
def test_the_rules_told_step_by_step_come_to_the_same_where_every_block_counts(
    cluster: Cluster, asked: Requests, seed: int
) -> None:
    check_against_the_naive(cluster, asked, seed)


def check_against_the_naive(cluster: Cluster, asked: Requests, seed: int) -> None:
    """Answers of every request in the order in which they were asked; how long each replica computed and was paid."""
    running, naive = Running(cluster, asked, dice(seed)), NaiveCluster(cluster, asked, dice(seed))
    while running.go_on():
        pass
    naive.run()
    done, rows = running.replay(), running.records.requests
    for name in COLUMNS:
        told = np.array([getattr(each, name) for each in naive.sequences])
        np.testing.assert_allclose(rows[name], told, rtol=1e-9, atol=1e-9, err_msg=name)
    for name in ("busy_s", "paid_s"):
        told = np.array([getattr(server, name) for server in naive.servers])
        np.testing.assert_allclose(getattr(done, name), told, rtol=1e-9, atol=1e-9, err_msg=name)
    assert done.end_s == pytest.approx(naive.now_s, rel=1e-12)


@settings(max_examples=FEWER)
@given(clusters(), requests(), seeds, st.integers(1, 9))
def test_a_replay_is_the_same_again_and_in_parts(cluster: Cluster, asked: Requests, seed: int, part: int) -> None:
    whole = digest(replay(cluster, asked, dice(seed)))
    assert digest(replay(cluster, asked, dice(seed))) == whole
    running = Running(cluster, asked, dice(seed))
    while running.run(math.inf, part) == part:
        pass
    assert digest(running.replay()) == whole


@pytest.mark.slow
@settings(max_examples=FEWER)
@given(clusters(is_open=True), requests(), seeds)
def test_what_is_stopped_is_marked_and_true_as_far_as_it_goes(cluster: Cluster, asked: Requests, seed: int) -> None:
    whole = replay(cluster, asked, dice(seed))
    part = replay(cluster, asked, dice(seed), should_stop=lambda: True)
    assert part.end_s <= whole.end_s
    ended = part.is_answered
    assert np.array_equal(part.finish_s[ended], whole.finish_s[ended])
    assert part.is_partial or digest(part) == digest(whole)


@given(st.integers(1, 3), st.integers(1, 3), st.floats(1e-3, 1.0))
def test_in_turn_no_replica_of_a_pool_is_passed_over(prefilling: int, decoding: int, gap_s: float) -> None:
    """Prompts and the KV they leave come by turns; each of the two pools has turns of its own."""
    pools = (Member(role=1),) * prefilling + (Member(role=2),) * decoding
    copy = Copy(EngineRules(8, 64, 10_000), table_of(0.01, prompt_s=1e-3))
    ones = np.ones(36, np.int64)
    done = replay(Cluster((copy,), pools, "round_robin"), Requests(gap_s * np.arange(36), ones, 9 * ones, 0 * ones))
    assert np.all(np.bincount(done.replica, minlength=len(pools))[prefilling:] == 36 // decoding)
    assert np.all(done.busy_s > 0)


@given(st.integers(2, 30), st.floats(0.0, 2.0), seeds)
def test_requests_of_a_closed_loop_stand_in_the_order_they_were_sent(num: int, think_s: float, seed: int) -> None:
    """Clients pause as long as dice say: who was asked first is not who sends first."""
    copy = Copy(EngineRules(4, 64, 10_000, token_s=1e-3, late_steps=1.0), table_of(0.01, prompt_s=1e-3))
    tokens = dice(seed).integers(1, 40, (2, num))
    zero = np.zeros(num, np.int64)
    done = replay(Cluster((copy,), clients=3, think_s=think_s), Requests(1.0 * zero, *tokens, zero), dice(seed))
    assert np.all(done.ttft_s > 0)
    assert sorted(zip(*tokens, strict=True)) == sorted(
        zip(done.requests.input_tokens, done.requests.output_tokens, strict=True)
    )
    alone_s = 0.01 * (done.requests.output_tokens - 1)
    assert np.all(done.latency_s >= alone_s)
    assert max(np.sum((done.requests.arrival_s <= t) & (done.finish_s > t)) for t in done.requests.arrival_s) <= 3


@pytest.mark.slow
@settings(max_examples=FEWER)
@given(st.integers(1, 4), st.integers(1, 80), st.floats(0.1, 3.0), seeds)
def test_twice_the_replicas_let_nobody_wait_longer(count: int, num: int, load: float, seed: int) -> None:
    """One request at a time, each of the same length, in turn: every other one of a queue goes elsewhere."""
    copy = Copy(EngineRules(1, 1 << 20, 1000), table_of(0.01))
    gaps_s = dice(seed).exponential(0.2 / load / count, num)
    ones = np.ones(num, np.int64)
    asked = Requests(np.cumsum(gaps_s), 10 * ones, 20 * ones, 0 * ones)
    few, many = (replay(Cluster((copy,), (Member(),) * n, "round_robin"), asked) for n in (count, 2 * count))
    assert np.all(many.ttft_s <= few.ttft_s + SLACK_S)
