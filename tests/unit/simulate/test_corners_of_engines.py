"""Corners in which an engine once did what no engine does: full pools, KV that moves, clients that give up."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.properties.random_clusters import table_of

from gpufleet.domain.replay import ANSWERED, TIMED_OUT, Replay
from gpufleet.domain.requests import PrefixBlocks, Requests
from gpufleet.simulate.cluster import Cluster, Copy, EngineRules, Member, Running, replay

STEP_S = 1e-3
RULES = EngineRules(largest_batch=8, step_tokens=512, num_blocks=1000, block_tokens=4)
POOLS = (Member(copy=0, role=1), Member(copy=1, role=2))


def copy_of(**limits: int) -> Copy:
    """An engine whose steps take a millisecond, whatever they hold."""
    return Copy(replace(RULES, **limits), table_of(STEP_S))  # type: ignore[arg-type]


def asked(*rows: tuple[float, int, int, int], prefix: PrefixBlocks | None = None) -> Requests:
    """Steps until each request comes, tokens of its prompt and answer, its class."""
    comes, prompts, answers, classes = (np.array(column) for column in zip(*rows, strict=True))
    return Requests(comes * STEP_S, prompts, answers, classes, ("urgent", "rest"), prefix)


def same_conversation(block_tokens: int, *blocks: int) -> PrefixBlocks:
    """Prompts of so many blocks each, all of which begin alike."""
    first = np.concatenate([[0], np.cumsum(blocks)])
    return PrefixBlocks(block_tokens, first, np.concatenate([np.arange(count) for count in blocks]))


def pools(decoding: Copy, num_decoding: int = 1, **how: object) -> Cluster:
    """One replica that prefills with room for all, and some that decode."""
    return Cluster((copy_of(), decoding), (POOLS[0],) + (POOLS[1],) * num_decoding, **how)  # type: ignore[arg-type]


def steps(seconds: float) -> float:
    return seconds / STEP_S


def ended(cluster: Cluster, requests: Requests) -> tuple[Running, Replay]:
    running = Running(cluster, requests)
    while running.go_on():
        pass
    return running, running.replay()


def test_moved_kv_that_ends_with_its_block_waits_for_room_for_the_next_token() -> None:
    """Four tokens fill one block of four, and the first step takes a second: three blocks hold one such sequence."""
    done = replay(pools(copy_of(num_blocks=3)), asked((0, 4, 3, 0), (0, 4, 3, 0)))
    assert done.finish_s[0] < done.first_token_s[1]
    assert done.timeline.kv_used_ratio.max() <= 1


def test_moved_kv_within_its_block_is_decoded_beside_others() -> None:
    """Three tokens leave room for the fourth: the same pool holds two such sequences for a step."""
    done = replay(pools(copy_of(num_blocks=3)), asked((0, 3, 4, 0), (0, 3, 1, 0)))
    assert done.first_token_s[1] < done.finish_s[0]


def test_a_moved_request_that_gives_up_takes_what_it_brought_and_no_more() -> None:
    """It brought its answer, its prompt is done: a replica that forgets more looks idle to least_tokens."""
    cluster = pools(copy_of(largest_batch=1), routing="least_tokens", timeout_s=20 * STEP_S)
    running, done = ended(cluster, asked((0, 100, 90, 0), (0, 100, 90, 0)))
    assert done.fate.tolist() == [ANSWERED, TIMED_OUT]
    assert running.of_replicas("tokens_left").tolist() == [0, 0]


def test_a_request_that_gives_up_before_its_prompt_takes_both_with_it() -> None:
    cluster = Cluster((copy_of(largest_batch=1),), routing="least_tokens", timeout_s=20 * STEP_S)
    running, done = ended(cluster, asked((0, 100, 90, 0), (0, 100, 90, 0)))
    assert done.fate.tolist() == [ANSWERED, TIMED_OUT]
    assert running.of_replicas("tokens_left").tolist() == [0]


def test_what_a_decoding_replica_holds_of_a_prompt_spares_no_prefill() -> None:
    """The second prompt was prefilled whole elsewhere: that its KV meets its like at the decoder is no hit."""
    prompts = asked((0, 8, 90, 0), (50, 8, 90, 0), prefix=same_conversation(4, 2, 2))
    members = (Member(0, 1), Member(0, 1), Member(1, 2))
    running, done = ended(Cluster((copy_of(), copy_of()), members, "round_robin"), prompts)
    assert done.cached_tokens.tolist() == [0, 0]
    assert running.of_replicas("tokens_left").tolist() == [0, 0, 0]


def test_what_a_prefilling_replica_holds_of_a_prompt_is_a_hit() -> None:
    prompts = asked((0, 8, 90, 0), (50, 8, 90, 0), prefix=same_conversation(4, 2, 2))
    assert replay(pools(copy_of()), prompts).cached_tokens.tolist() == [0, 7]


@pytest.mark.parametrize(("block_tokens", "hit_tokens"), [(4, 20), (5, 29), (10, 29), (20, 20), (40, 0)])
def test_prompts_share_only_what_is_whole_blocks_of_trace_and_pool(block_tokens: int, hit_tokens: int) -> None:
    """30 tokens, three blocks of the trace: 4 and 10 meet at 20, 10 alone at 30, but for the last token."""
    prompts = asked((0, 30, 5, 0), (50, 30, 5, 0), prefix=same_conversation(10, 3, 3))
    cluster = Cluster((copy_of(block_tokens=block_tokens),))
    running, done = ended(cluster, prompts)
    assert done.cached_tokens.tolist() == [0, hit_tokens]
    assert running.of_replicas("used_blocks").tolist() == [0]


def test_a_small_one_that_was_preempted_with_a_large_one_comes_back_before_others_end() -> None:
    """All three want a block when none is left: the two newest go, and the smaller, which is urgent, finds room again
    with the next step."""
    done = replay(Cluster((copy_of(num_blocks=12),)), asked((0, 1, 40, 1), (0.5, 38, 8, 1), (1.5, 3, 4, 0)))
    assert done.preemptions.tolist() == [0, 1, 1]
    assert done.is_answered.all(), "the large one too comes back"
    assert steps(done.first_token_s[2]) == pytest.approx(3)
    assert steps(done.finish_s[2]) == pytest.approx(7)


def test_a_prompt_waits_where_it_would_leave_too_few_blocks_beside_others_and_not_on_an_idle_engine() -> None:
    """Ten blocks of four: two prompts of four blocks run at once, and do not where three blocks are to stay free."""
    two = asked((0, 15, 3, 0), (0, 15, 3, 0))
    together, apart = (replay(Cluster((copy_of(num_blocks=10, spare_blocks=spare),)), two) for spare in (0, 3))
    assert together.first_token_s[1] < together.finish_s[0]
    assert apart.first_token_s[1] > apart.finish_s[0]
    alone = replay(Cluster((copy_of(num_blocks=10, spare_blocks=9),)), asked((0, 15, 3, 0)))
    assert alone.is_answered.all()


def test_an_urgent_one_finds_room_where_the_first_of_the_others_does_not() -> None:
    done = replay(Cluster((copy_of(num_blocks=27),)), asked((0, 4, 60, 1), (0, 100, 4, 1), (20.5, 4, 4, 0)))
    assert steps(done.first_token_s[2]) == pytest.approx(22)
    assert done.first_token_s[1] > done.finish_s[0]


def test_who_stands_behind_one_that_gives_up_is_served_with_the_next_step() -> None:
    """The large one waits in vain for room since the run began; the small one behind it needs next to none."""
    cluster = Cluster((copy_of(num_blocks=27),), timeout_s=20.5 * STEP_S)
    done = replay(cluster, asked((0, 4, 60, 1), (0, 100, 4, 1), (10, 4, 4, 1)))
    assert done.fate.tolist() == [ANSWERED, TIMED_OUT, ANSWERED]
    assert steps(done.first_token_s[2]) == pytest.approx(22)


def test_who_gives_up_a_full_batch_goes_elsewhere_with_the_next_step() -> None:
    """It came while the batch ran, which was full; sent again at once, it finds the other replica."""
    members = (Member(), Member())
    cluster = Cluster((copy_of(largest_batch=1),), members, "round_robin", timeout_s=10.25 * STEP_S, retries=1)
    done = replay(cluster, asked((0, 4, 60, 0), (0, 4, 5, 0), (3, 4, 5, 0)))
    assert done.retries.tolist() == [0, 0, 1]
    assert (int(done.replica[2]), steps(done.first_token_s[2])) == (1, pytest.approx(15))


@pytest.mark.parametrize(("num_blocks", "waits"), [(12, True), (13, False)])
def test_a_prefix_that_nobody_reads_needs_room_again_when_it_is_read(num_blocks: int, waits: bool) -> None:
    """Two blocks are held but not in use, ten are: the third request brings no room for its own three."""
    prompts = asked((0, 8, 2, 0), (5, 36, 4, 0), (6.5, 8, 2, 0), prefix=same_conversation(4, 2, 0, 2))
    done = replay(Cluster((copy_of(num_blocks=num_blocks),)), prompts)
    assert (done.first_token_s[2] > done.finish_s[1]) == waits
    assert done.cached_tokens[2] == 7
    assert done.timeline.kv_used_ratio.max() <= 1


def test_a_prefix_that_is_read_takes_no_room_again() -> None:
    prompts = asked((0, 8, 20, 0), (5, 35, 5, 0), (6.5, 8, 2, 0), prefix=same_conversation(4, 2, 0, 2))
    done = replay(Cluster((copy_of(num_blocks=14),)), prompts)
    assert done.first_token_s[2] < done.finish_s[1]


def test_least_kv_counts_the_blocks_that_a_run_under_way_has_taken() -> None:
    """A short prompt has grown beyond a long one that came late: 14 blocks and 11 when the third is sent."""
    cluster = Cluster((copy_of(),), (Member(), Member()), "least_kv")
    done = replay(cluster, asked((0, 4, 60, 0), (45.5, 40, 9, 0), (50.5, 4, 4, 0)))
    assert done.replica.tolist() == [0, 1, 1]


def test_a_prefix_whose_room_an_answer_has_taken_attracts_nobody() -> None:
    """The long answer fills the last block within its run; what stood there is gone before the run has ended."""
    prompts = asked((0, 5, 2, 0), (5, 4, 43, 0), (46.7, 5, 2, 0), prefix=same_conversation(4, 1, 0, 1))
    done = replay(Cluster((copy_of(num_blocks=12),), (Member(), Member()), "prefix_aware"), prompts)
    assert steps(done.finish_s[1]) > 46.7
    assert done.replica.tolist() == [0, 0, 1]


def test_a_prefix_that_still_has_room_attracts_its_like() -> None:
    prompts = asked((0, 5, 2, 0), (5, 4, 43, 0), (40.7, 5, 2, 0), prefix=same_conversation(4, 1, 0, 1))
    done = replay(Cluster((copy_of(num_blocks=12),), (Member(), Member()), "prefix_aware"), prompts)
    assert done.replica.tolist() == [0, 0, 0]
