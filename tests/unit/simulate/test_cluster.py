"""A simulation that is looked at while it runs: what is sampled, how much is done, what is paid, what is refused."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.properties.random_clusters import plain_modules, table_of

from gpufleet.domain.requests import PrefixBlocks, Requests
from gpufleet.simulate.cluster import (
    SAMPLES,
    UNLIMITED,
    Change,
    Cluster,
    Copy,
    EngineRules,
    Flat,
    Member,
    Running,
    begins_s,
    cells_of,
    has_pools,
    num_prefix_blocks,
    prefix_tokens,
    ready_times_s,
    replay,
    replicas_of,
    sent_s,
    wider_blocks,
)
from gpufleet.simulate.state import DRAINING, OFF, READY, STARTING

STEP_S = 0.01
RULES = EngineRules(largest_batch=4, step_tokens=512, num_blocks=10, block_tokens=4)
COPY = Copy(RULES, table_of(STEP_S))


def asked(*rows: tuple[float, int, int], prefix: PrefixBlocks | None = None) -> Requests:
    comes_s, prompts, answers = (np.array(column) for column in zip(*rows, strict=True))
    return Requests(comes_s.astype(float), prompts, answers, np.zeros(len(rows), np.int64), ("all",), prefix)


def test_rules_and_clusters_that_cannot_be_are_refused() -> None:
    for name in ("largest_batch", "step_tokens", "num_blocks", "block_tokens", "groups"):
        assert getattr(replace(RULES, **{name: 1}), name) == 1
        with pytest.raises(ValueError, match="below 1"):
            replace(RULES, **{name: 0})
    wrong: list[dict[str, Any]] = [{"members": ()}, {"copies": ()}, {"routing": "by hand"}]
    for words in wrong:
        with pytest.raises(ValueError, match="no replicas"):
            Cluster(**{"copies": (COPY,), **words})
    two = (Change(1.0, 0, OFF), Change(1.0, 0, READY))
    assert Cluster((COPY,), changes=two).changes == two
    with pytest.raises(ValueError, match="order"):
        Cluster((COPY,), changes=(two[0], Change(0.9, 0, READY)))
    three = replicas_of(COPY, 3, "random")
    assert (three.copies, three.members, three.routing) == ((COPY,), (Member(),) * 3, "random")
    for routing in ("random", "two_choices"):
        with pytest.raises(ValueError, match="generator"):
            replay(replicas_of(COPY, 2, routing), asked((0, 1, 1)))


def test_time_is_sampled_from_the_first_request_on() -> None:
    done = replay(replicas_of(COPY, 1), asked((5.0, 4, 8), (29.0, 4, 8)))
    assert done.timeline.time_s[0] == 5.0
    assert np.diff(done.timeline.time_s)[:10] == pytest.approx(24.0 / SAMPLES)
    empty = Requests(np.zeros(0), *(np.zeros(0, np.int64) for _ in range(3)), ("all",))
    assert replay(replicas_of(COPY, 1), empty).timeline.time_s.tolist() == [0.0]


def test_a_sample_counts_who_runs_who_waits_blocks_that_are_used_and_replicas_that_are_there() -> None:
    """Of three requests of five blocks two fit beside each other; the other replica starts."""
    cluster = Cluster((COPY,), (Member(), Member(is_ready=False)), changes=(Change(1.0, 1, STARTING),))
    running = Running(cluster, asked(*[(0.0, 12, 8)] * 3, (2.0, 1, 1)))
    running.run(STEP_S * 2.5, UNLIMITED)
    now_s, num_running, waiting, used, there, ready = running.samples[-1]
    assert (now_s, num_running, waiting, there, ready) == (STEP_S * 2.5, 2, 1, 1, 1)
    assert used == pytest.approx(8 / 10)
    running.run(1.5, UNLIMITED)
    assert running.samples[-1] == (1.5, 0, 0, 0.0, 2, 1)
    assert running.done_ratio == 0.75
    running.run(math.inf, UNLIMITED)
    assert running.done_ratio == 1.0
    assert running.samples[-1][0] == pytest.approx(2.0 + STEP_S, abs=STEP_S)


def test_a_prompt_that_is_begun_runs_and_one_whose_step_ends_it_does_too() -> None:
    """Of 600 tokens 512 fit into the first step."""
    roomy = Copy(replace(RULES, num_blocks=1000), COPY.table)
    running = Running(replicas_of(roomy, 1), asked((0.0, 600, 1)))
    counts = []
    for steps in (0.5, 1.5, 2.5):
        running.run(steps * STEP_S, UNLIMITED)
        counts.append(running.samples[-1][1])
    assert counts == [1, 1, 0]


def test_where_no_replica_is_there_all_wait_and_nothing_is_used() -> None:
    gone = Cluster((COPY,), (Member(),), changes=(Change(0.0, 0, OFF), Change(2.0, 0, READY)))
    running = Running(gone, asked((1.0, 4, 1), (1.0, 4, 1)))
    running.run(1.5, UNLIMITED)
    assert running.samples[-1] == (1.5, 0, 2, 0.0, 0, 0)
    done = replay(gone, asked((1.0, 4, 1), (1.0, 4, 1)))
    assert done.first_token_s.min() == pytest.approx(2.0 + STEP_S)
    assert done.paid_s.tolist() == pytest.approx([done.end_s - 2.0])


def test_a_replica_is_paid_from_when_it_is_switched_on_until_it_has_drained() -> None:
    changes = (Change(1.0, 1, STARTING), Change(2.0, 1, READY), Change(3.0, 1, DRAINING))
    roomy = Copy(replace(RULES, num_blocks=100), COPY.table)
    cluster = Cluster((roomy,), (Member(), Member(is_ready=False)), "round_robin", changes=changes)
    done = replay(cluster, asked((0.0, 4, 1), (2.5, 4, 100), (2.5, 4, 100), (9.0, 4, 1)))
    assert np.bincount(done.replica).tolist() == [3, 1]
    assert done.paid_s == pytest.approx([done.end_s, 2.5 + 100 * STEP_S - 1.0])


def test_what_is_stopped_says_how_far_it_came() -> None:
    seen: list[float] = []
    many = asked(*[(float(n), 4, 4) for n in range(10)])
    done = replay(replicas_of(COPY, 1), many, on_progress=seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == 0.9
    assert not done.is_partial
    calls = iter(range(SAMPLES))
    part = replay(replicas_of(COPY, 1), many, should_stop=lambda: next(calls) == 60)
    assert part.is_partial
    assert part.is_answered.tolist() == [True] * 3 + [False] * 7, "nine seconds in 240 parts, of which 61 passed"


# --- what is known before anything happens ---


def test_engines_get_requests_after_their_handling_and_clients_send_after_their_pause() -> None:
    slow = Copy(replace(RULES, request_s=0.1, token_s=0.01), table_of(STEP_S))
    three = asked((0.0, 10, 1), (1.0, 20, 1), (2.0, 30, 1))
    assert ready_times_s(Cluster((slow,)), three) == pytest.approx([0.2, 1.3, 2.4])
    closed = Cluster((slow,), clients=1, think_s=3.0)
    assert ready_times_s(closed, three) == pytest.approx([0.2, 0.3, 0.4])
    assert sent_s(closed, three, None).tolist() == [0.0, 3.0, 3.0]
    assert sent_s(Cluster((slow,)), three, None).tolist() == [0.0, 1.0, 2.0]
    drawn = sent_s(closed, asked(*[(7.0, 1, 1)] * 4000), np.random.default_rng(0))
    assert drawn[0] == 7.0
    assert drawn[1:].mean() == pytest.approx(3.0, rel=0.05)


def test_a_cluster_begins_with_its_first_request_or_change() -> None:
    one = asked((5.0, 1, 1))
    assert begins_s(Cluster((COPY,)), one) == 5.0
    assert begins_s(Cluster((COPY,), changes=(Change(2.0, 0, READY), Change(9.0, 0, OFF))), one) == 2.0
    assert begins_s(Cluster((COPY,), changes=(Change(8.0, 0, READY),)), one) == 5.0
    assert [has_pools(Cluster((COPY,), (Member(role=role),))) for role in (0, 1, 2)] == [False, True, True]
    assert has_pools(Cluster((COPY,), (Member(), Member(role=2))))


def test_prompts_share_blocks_that_are_whole_for_the_trace_and_every_pool() -> None:
    blocks = PrefixBlocks(6, np.array([0, 4, 9]), np.array([1, 2, 3, 4, 1, 2, 5, 6, 7]))
    two = Cluster((COPY, Copy(replace(RULES, block_tokens=9), COPY.table)))
    shared = asked((0.0, 30, 1), (0.0, 30, 1), prefix=blocks)
    assert (prefix_tokens(two, shared), prefix_tokens(Cluster((COPY,)), shared)) == (36, 12)
    assert prefix_tokens(two, asked((0.0, 30, 1))) == 1
    wide = wider_blocks(blocks, 2)
    assert (wide.block_tokens, wide.first.tolist(), wide.block.tolist()) == (12, [0, 2, 4], [2, 4, 2, 6])
    assert wider_blocks(blocks, 1) is blocks
    assert num_prefix_blocks(Cluster((COPY,)), shared) == blocks.num_distinct
    assert num_prefix_blocks(Cluster((COPY,), keeps_prefixes=False), shared) == 0


def test_cells_end_with_the_last_point_of_an_axis() -> None:
    assert cells_of(np.array([0, 1, 4]), 6).tolist() == [0, 1, 1, 1, 1, 1, 1]


def test_arrays_stand_end_to_end_and_are_never_none() -> None:
    flat = Flat(np.int64)
    assert [flat.add(values) for values in ([1, 2], np.zeros((2, 2)), [])] == [0, 2, 6]
    assert flat.array().tolist() == [1, 2, 0, 0, 0, 0]
    assert Flat(np.float64).array().tolist() == [0.0]


@pytest.mark.parametrize("mixes_prompts", [True, False])
def test_rules_without_constants_take_what_the_table_says(mixes_prompts: bool) -> None:
    """A prompt alone takes an idle step; beside one that decodes a step more, and no token is seen late."""
    table = table_of(STEP_S, prompt_s=1e-3)
    bare = EngineRules(largest_batch=4, step_tokens=512, num_blocks=100, mixes_prompts=mixes_prompts)
    idle_s, extra_s = table.idle_s[2], table.extra_s[1, 2]
    done = replay(replicas_of(Copy(bare, table), 1), asked((0.0, 32, 50), (0.1, 32, 1)))
    assert done.first_token_s[0] == pytest.approx(idle_s)
    assert done.finish_s[0] == pytest.approx(idle_s + 49 * STEP_S + extra_s)
    begins_s = idle_s + math.ceil((0.1 - idle_s) / STEP_S) * STEP_S
    assert done.first_token_s[1] == pytest.approx(begins_s + extra_s + (STEP_S if mixes_prompts else 0.0))


def test_the_host_takes_as_long_beside_others_as_alone_where_nothing_else_is_told() -> None:
    slow = EngineRules(largest_batch=4, step_tokens=512, num_blocks=100, launches_s=0.5)
    done = replay(replicas_of(Copy(slow, table_of(STEP_S)), 1), asked((0.0, 8, 50), (0.545, 8, 1)))
    assert done.first_token_s == pytest.approx([0.5, 0.55 + 0.5])


@pytest.mark.parametrize("count", [1, 3, 5])
def test_steps_between_two_batches_of_the_table_lie_between_them(count: int) -> None:
    """Three sequences: half way from two to four; five: a quarter of the way from four to eight."""
    table = table_of(STEP_S, sequence_s=0.001)
    roomy = Copy(replace(RULES, largest_batch=8, num_blocks=1000), table)
    done = replay(replicas_of(roomy, 1), asked(*[(0.0, 8, 11)] * count))
    alone_s, together_s = STEP_S + 0.001, STEP_S + count * 0.001
    assert done.finish_s[0] - done.first_token_s[0] == pytest.approx(alone_s + 9 * together_s)


# --- what a step with prompts takes ---


@pytest.fixture(scope="module")
def steps() -> Any:
    return plain_modules()["replica"]


def some(**told: float) -> Any:
    return SimpleNamespace(**told)


def test_groups_of_ranks_are_filled_by_what_prompts_have_beyond_the_fullest(steps: Any) -> None:
    """Of 400 tokens the fullest of five groups has 160: one and a half of the other four are as full."""
    full = [steps.filled_groups(some(prompt_tokens=n), some(groups=5), 160) for n in (160, 400, 800)]
    assert full == pytest.approx([0.0, 1.5 / 4, 1.0])
    assert steps.filled_groups(some(prompt_tokens=400), some(groups=1), 160) == 0.0


def test_the_first_prompts_of_each_group_cost_more_than_those_that_share_the_step(steps: Any) -> None:
    engine = some(prompt_alone_ratio=1.5, prompt_among_ratio=1.0, groups=2)
    assert [steps.prompt_ratio(some(num_prompts=n), engine) for n in (1, 2, 4)] == [1.5, 1.5, 1.25]


def test_a_step_of_prompts_after_another_is_prepared_where_nothing_decodes(steps: Any) -> None:
    engine = some(idle_prompt_ratio=1.2, prompt_alone_ratio=0.9)
    prefills, whole = (some(role=role, end_s=3.0, clock_s=3.0) for role in (1, 0))
    rested = some(role=1, end_s=2.0, clock_s=3.0)
    assert [steps.lone_prompts_s(r, engine, 10.0) for r in (prefills, whole, rested)] == pytest.approx([9, 12, 12])
    slow = some(idle_prompt_ratio=1.2, prompt_alone_ratio=1.3)
    assert steps.lone_prompts_s(prefills, slow, 10.0) == pytest.approx(12)


def test_the_host_launches_pieces_up_to_their_tokens_with_what_decodes_beside_them(steps: Any) -> None:
    told = {"launches_s": 0.4, "piece_launches_s": 0.1, "piece_tokens": 64, "busy_launch_ratio": 0.5, "groups": 2}
    mixes = some(mixes_prompts=1, waits_for_host=0, **told)
    apart, waits = some(mixes_prompts=0, waits_for_host=0, **told), some(mixes_prompts=0, waits_for_host=1, **told)
    alone, others = some(running=0), some(running=8)
    assert [steps.least_s(alone, mixes, n) for n in (64, 65)] == [0.1, 0.4]
    assert [steps.least_s(others, mixes, n) for n in (60, 61)] == [0.05, 0.2]
    assert [steps.least_s(others, engine, 64) for engine in (apart, waits)] == [0.05, 0.1]


def test_first_tokens_are_late_by_steps_and_streams_of_those_beside_them(steps: Any) -> None:
    engine = some(late_s=0.1, stream_s=0.01)
    late_s = [steps.lateness_s(some(step_s=0.2), engine, 2.0, others) for others in (0, 1, 3)]
    assert late_s == pytest.approx([0.0, 0.5 / 2 + 0.01, 0.5 * 3 / 4 + 0.03])
