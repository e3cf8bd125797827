"""What is measured of a replay, against queues whose truth is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.simulate.queues import markov_replay, queue_replay

from gpufleet.domain.replay import FROM_CACHE, REFUSED, TIMED_OUT, UNFINISHED, Replay, Timeline
from gpufleet.domain.slo import Limit, Slo
from gpufleet.simulate.metrics import MOST_POINTS, measured, sampled
from gpufleet.simulate.step_function import highest_between, means_between, values_at
from gpufleet.simulate.warm_up import warm_up

EMPTY = np.array([])


@given(st.integers(1, 60), st.integers(1, 4), st.integers(0, 10_000))
@settings(max_examples=50)
def test_littles_law_holds_on_runs_that_start_and_end_empty(number: int, servers: int, seed: int) -> None:
    """L = lambda W, exactly: whoever is there is there for as long as his latency (Little 1961)."""
    dice = np.random.default_rng(seed)
    replay = queue_replay(np.cumsum(dice.exponential(1.0, number)), dice.gamma(0.5, 2.0, number), servers)
    found = measured(replay, whole=True)
    there = found.running.mean + found.waiting.mean
    assert there == pytest.approx(found.requests_per_s * found.latency["latency"]["mean"].value, rel=1e-9)
    assert found.requests_per_s * found.counted.window_s == pytest.approx(number)


def test_the_mean_wait_of_a_queue_is_that_of_theory() -> None:
    """M/M/1 at load 0.6: a mean wait of 0.6 / 0.4 services, in the queue and beside it."""
    found = measured(markov_replay(0.6, 200_000, 3))
    assert found.latency["ttft"]["mean"].value == pytest.approx(1.5, rel=0.05)
    assert found.waiting.mean == pytest.approx(0.9, rel=0.05)
    assert found.utilisation_ratio == pytest.approx(0.6, rel=0.02)
    assert found.output_tokens_per_s == pytest.approx(11 * found.requests_per_s)
    assert found.prefix_hit_ratio == 0.25


@pytest.mark.slow
@pytest.mark.parametrize("load", [0.3, 0.6, 0.8, 0.9])
def test_a_queue_below_its_capacity_is_not_said_to_grow(load: float) -> None:
    growing = [measured(markov_replay(load, 3000, seed)).queue.is_growing for seed in range(30)]
    assert sum(growing) <= 1


@pytest.mark.parametrize("load", [1.2, 1.5, 2.0])
def test_a_queue_above_its_capacity_grows_by_what_is_not_served(load: float) -> None:
    trends = [measured(markov_replay(load, 3000, seed)).queue for seed in range(30)]
    assert all(trend.is_growing for trend in trends)
    assert np.mean([trend.growth_requests_per_s for trend in trends]) == pytest.approx(load - 1, rel=0.1)


def test_a_burst_only_drains() -> None:
    found = measured(queue_replay(np.zeros(500), np.ones(500), 4), whole=True)
    assert not found.queue.is_growing
    assert found.latency["latency"]["p99"].value == pytest.approx(124, rel=0.02)
    assert found.requests_per_s == pytest.approx(4.0)


def test_what_is_measured_of_a_growing_queue_is_all_of_it() -> None:
    found = measured(markov_replay(2.0, 3000, 1))
    assert found.counted.first == 0
    assert found.requests_per_s == pytest.approx(1.0, rel=0.05)


def test_the_warm_up_of_a_cluster_that_starts_full_is_left_out() -> None:
    dice = np.random.default_rng(5)
    start = np.concatenate((np.full(300, 50.0), np.zeros(3000))) + dice.exponential(0.5, 3300)
    assert warm_up(start).num_values == pytest.approx(300, abs=5)
    assert warm_up(start).is_settled
    assert not warm_up(np.linspace(0, 100, 1000)).is_settled
    assert warm_up(np.ones(20)).num_values == 0


def test_a_stated_warm_up_is_taken_at_its_word() -> None:
    replay = markov_replay(0.5, 4000, 1)
    found = measured(replay, warm_up_s=1000.0)
    begin_s = replay.requests.arrival_s[0]
    assert found.num_counted == np.count_nonzero(replay.requests.arrival_s >= begin_s + 1000.0)
    assert measured(replay, warm_up_s=0.0).num_counted == 4000
    assert measured(replay, warm_up_s=1e9).num_counted == 4000


def test_a_limit_is_kept_where_as_many_requests_as_its_percentile_names_are_within() -> None:
    service_s = np.repeat([1.0, 10.0], [95, 5])
    replay = queue_replay(np.arange(100) * 100.0, service_s)
    p95, p99, mean = (Limit("latency", statistic, 2.0) for statistic in ("p95", "p99", "mean"))
    found = measured(replay, Slo((p95, p99, mean)), whole=True)
    assert [one.is_kept for one in found.limits] == [True, False, True]
    assert [one.within_ratio.value for one in found.limits] == [0.95] * 3
    assert found.goodput_requests_per_s == pytest.approx(0.95 * found.requests_per_s)


def test_refused_requests_are_within_no_limit_and_have_no_latency() -> None:
    replay = queue_replay(np.arange(100) * 100.0, np.ones(100))
    fate = replay.fate.copy()
    fate[:4], fate[4:8] = REFUSED, TIMED_OUT
    nan = np.where(np.arange(100) < 8, np.nan, 0.0)
    lost = replace(replay, fate=fate, first_token_s=replay.first_token_s + nan, finish_s=replay.finish_s + nan)
    found = measured(lost, Slo((Limit("latency", "p95", 50.0), Limit("tpot", "p90", 1.0))), whole=True)
    assert [one.is_kept for one in found.limits] == [False, True]
    assert found.limits[0].within_ratio.value == 0.92
    assert found.latency["latency"]["p99"].value == pytest.approx(1.0)
    assert (found.fates["refused"], found.fates["timed out"], found.fates["answered"]) == (4, 4, 92)


def test_an_answer_of_one_token_has_no_tpot_and_keeps_any_limit_on_it() -> None:
    replay = queue_replay(np.arange(50) * 10.0, np.ones(50), output_tokens=1)
    found = measured(replay, Slo((Limit("tpot", "p99", 1e-6),)), whole=True)
    assert found.latency["tpot"] == {}
    assert found.limits[0].is_kept
    assert found.limits[0].value is None


def test_a_replay_that_was_stopped_says_nothing_of_requests_that_had_not_come() -> None:
    """Ten requests a second apart, stopped after the fifth: one is late already, one has just begun."""
    replay = queue_replay(np.arange(10.0), np.full(10, 0.5))
    fate = np.where(np.arange(10) < 3, replay.fate, UNFINISHED)
    nan = np.where(np.arange(10) < 3, 0.0, np.nan)
    times = {"first_token_s": replay.first_token_s + nan, "finish_s": replay.finish_s + nan}
    stopped = replace(replay, fate=fate, end_s=4.1, is_partial=True, **times)
    found = measured(stopped, Slo((Limit("ttft", "p50", 1.0),)), whole=True)
    assert found.num_arrived == 5
    assert found.fates["unfinished"] == 2
    assert found.limits[0].within_ratio.value == 0.75


def test_classes_have_figures_of_their_own() -> None:
    kinds = np.arange(400) % 2
    replay = queue_replay(
        np.arange(400) * 100.0, np.where(kinds == 0, 1.0, 9.0), request_class=kinds, class_names=("chat", "code")
    )
    slo = Slo((Limit("latency", "p95", 2.0, "chat"), Limit("latency", "p95", 2.0, "code")))
    found = measured(replay, slo, whole=True)
    assert [(c.name, c.num_requests) for c in found.classes] == [("chat", 200), ("code", 200)]
    assert [round(c.latency["latency"]["p50"].value, 6) for c in found.classes] == [1.0, 9.0]
    assert [one.is_kept for one in found.limits] == [True, False]


def test_the_response_cache_answers_without_a_replica() -> None:
    replay = queue_replay(np.arange(10.0), np.full(10, 0.1))
    found = measured(replace(replay, fate=np.full(10, FROM_CACHE)), whole=True)
    assert found.fates["answered from the response cache"] == 10
    assert found.latency["ttft"]["p50"].value == 0.0


def test_nothing_arrived_and_nothing_is_said() -> None:
    found = measured(queue_replay(EMPTY, EMPTY), Slo((Limit("ttft", "p95", 1.0),)))
    assert found.latency == {"ttft": {}, "tpot": {}, "latency": {}}
    assert (found.num_counted, found.requests_per_s, found.prefix_hit_ratio) == (0, 0.0, None)
    assert not found.limits[0].is_kept


@given(st.lists(st.tuples(st.floats(0, 100), st.integers(0, 9)), min_size=1, max_size=40), st.integers(1, 30))
def test_a_step_function_is_that_of_its_definition(steps: list[tuple[float, int]], parts: int) -> None:
    time_s = np.sort(np.array([at for at, _ in steps]))
    values = np.array([value for _, value in steps])
    edges = np.linspace(time_s[0], time_s[0] + 120.0, parts + 1)
    fine = np.linspace(edges[0], edges[-1], parts * 50 + 1)
    highest = highest_between(time_s, values, edges)
    assert np.all(highest >= means_between(time_s, values, edges) - 1e-9)
    assert np.all(highest >= np.reshape(values_at(time_s, values, fine[:-1]), (parts, 50)).max(axis=1))
    assert set(highest.tolist()) <= set(values.tolist())


def test_a_long_timeline_is_sampled_without_losing_its_peak() -> None:
    t = markov_replay(0.9, 20_000, 1).timeline
    short = sampled(t)
    assert len(short.time_s) == MOST_POINTS
    assert short.waiting.max() == t.waiting.max()
    assert sampled(short) is short
    still = Timeline(*(np.zeros(1000) for _ in range(6)))  # type: ignore[arg-type]
    assert len(sampled(still).time_s) == 1


def many(number: int) -> Replay:
    """Requests that wait for nothing, without a loop over them."""
    arrival_s = np.arange(number) * 0.1
    return replace(queue_replay(arrival_s[:2], np.full(2, 0.05)), **_columns(arrival_s))  # type: ignore[arg-type]


def _columns(arrival_s: np.ndarray) -> dict[str, object]:  # type: ignore[type-arg]
    number = len(arrival_s)
    base = queue_replay(arrival_s[:2], np.full(2, 0.05))
    zeros, ones = np.zeros(number, dtype=np.int64), np.ones(number, dtype=np.int64)
    requests = replace(
        base.requests, arrival_s=arrival_s, input_tokens=ones * 100, output_tokens=ones * 11, request_class=zeros
    )
    return {
        "requests": requests, "first_token_s": arrival_s + 0.01, "finish_s": arrival_s + 0.05, "fate": zeros,
        "replica": zeros, "cached_tokens": zeros, "preemptions": zeros, "retries": zeros, "end_s": arrival_s[-1] + 1,
    }  # fmt: skip


def test_a_million_requests_are_measured_in_columns() -> None:
    found = measured(many(1_000_000), Slo((Limit("ttft", "p99", 0.02),)))
    assert found.num_counted == 1_000_000
    assert found.limits[0].is_kept
    assert found.latency["tpot"]["p99"].value == pytest.approx(0.004)
