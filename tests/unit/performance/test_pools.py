"""Two pools in closed form: what more copies, slower links and fewer slots must do, and the limits that are known."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.catalog.calibration import load_calibration
from gpufleet.catalog.engine_eras import load_engine
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.models import shipped_architecture
from gpufleet.domain.candidates import Candidates, Palette
from gpufleet.domain.precision import BF16
from gpufleet.performance.pools import (
    PoolCurves,
    Pools,
    answer_s,
    at_rate,
    closed_loop_of_pools,
    crowded_step_s,
    first_token_s,
    geometric,
    handed_over_bytes,
    handover_s,
    open_passage,
    running_step_s,
)
from gpufleet.performance.queueing import mean_wait_s
from gpufleet.performance.serving import Lengths, decode_step_s, lone_ttft_s, request_host_s
from gpufleet.performance.step import StepModel

LENGTHS = Lengths(4000.0, 400.0)
copies = st.integers(1, 16)
clients = st.integers(1, 2000)
loads = st.floats(0.01, 0.94)


@lru_cache
def model(tp: int = 4, attention_dp: int = 1, engine: str = "vllm", arch: str = "llama-3.3-70b") -> StepModel:
    """llama-3.3-70b in bf16 on H100-SXM."""
    accelerator = load_catalog().accelerators["H100-SXM"]
    arch_ = shipped_architecture(arch)
    weights = arch_.weights
    zero, one = np.zeros(1, dtype=np.int64), np.ones(1, dtype=np.int64)
    candidates = Candidates(
        Palette((accelerator,), (weights,), (BF16,), (load_engine(engine),)),
        zero, zero, zero, zero, tp * one, one, one, attention_dp * one,
        through_host=np.array([False]),
        link_is_pcie=np.array([False]), link_bytes_per_s=np.array([450e9]),
    )  # fmt: skip
    return StepModel.build(arch_, candidates, load_calibration([accelerator]))


def curves(
    prefill: float = 2,
    decode: float = 2,
    hand_s: float = 0.01,
    most: float = 2.0,
    largest: float = 300.0,
    variation: float = 0.0,
) -> PoolCurves:
    """P copies of TP4 and D copies of TP8."""
    room = np.array([most]), np.array([largest])
    return PoolCurves(Pools(model(4), model(8), prefill, decode, *room, hand_s), LENGTHS, variation)


@given(prefill=copies, decode=copies, load=loads)
def test_more_copies_that_prefill_never_raise_the_first_token_at_a_fixed_rate(
    prefill: int, decode: int, load: float
) -> None:
    few, more = curves(prefill, decode), curves(prefill + 1, decode)
    rate = load * np.minimum(few.carried_per_s, more.carried_per_s)
    assert open_passage(more, rate).ttft_s <= open_passage(few, rate).ttft_s * (1 + 1e-12)


@given(prefill=copies, decode=copies, load=loads)
def test_more_copies_that_decode_never_raise_the_time_per_token_at_a_fixed_rate(
    prefill: int, decode: int, load: float
) -> None:
    few, more = curves(prefill, decode), curves(prefill, decode + 1)
    rate = load * few.carried_per_s
    assert open_passage(more, rate).tpot_s <= open_passage(few, rate).tpot_s * (1 + 1e-12)


@given(prefill=copies, decode=copies, number=clients, waves=st.sampled_from([1.0, 10.0, np.inf]))
def test_clients_are_rate_times_answer_whatever_binds(prefill: int, decode: int, number: int, waves: float) -> None:
    """Little's law: tokens that go in come out."""
    both = curves(prefill, decode, largest=20.0)
    found = closed_loop_of_pools(both, np.array([float(number)]), waves)
    assert found.requests_per_s * answer_s(both, found) == pytest.approx(number, rel=1e-9)
    assert found.requests_per_s <= both.carried_per_s * (1 + 1e-12)


@pytest.mark.slow
@given(prefill=copies, decode=copies, number=clients)
def test_one_more_client_never_slows_the_pools(prefill: int, decode: int, number: int) -> None:
    both = curves(prefill, decode, largest=40.0)
    fewer, more = (closed_loop_of_pools(both, np.array([float(n)])) for n in (number, number + 1))
    assert more.requests_per_s >= fewer.requests_per_s * (1 - 1e-9)
    assert more.ttft_s >= fewer.ttft_s * (1 - 1e-9)


@given(number=clients)
def test_endless_copies_that_decode_reach_the_step_of_one_sequence(number: int) -> None:
    found = closed_loop_of_pools(curves(4, np.inf), np.array([float(number)]))
    alone_s = decode_step_s(model(8), np.ones(1), LENGTHS)
    assert found.tpot_s == pytest.approx(alone_s, rel=1e-12)


def test_endless_copies_of_both_are_a_lone_request_without_a_wait() -> None:
    """The host of the second pool and one step of it are all that comes on top."""
    found = closed_loop_of_pools(curves(np.inf, np.inf, hand_s=0.0), np.array([64.0]))
    lone_s = lone_ttft_s(model(4), LENGTHS) + request_host_s(model(8), LENGTHS)
    assert found.wait_s == 0
    assert found.ttft_s == pytest.approx(lone_s + decode_step_s(model(8), np.ones(1), LENGTHS), rel=1e-12)


def test_a_lone_client_waits_for_nobody() -> None:
    assert closed_loop_of_pools(curves(1, 1), np.array([1.0])).wait_s == pytest.approx(0.0, abs=1e-12)


def test_one_copy_that_takes_prompts_one_by_one_is_the_queue_with_one_server() -> None:
    """M/G/1 (Pollaczek-Khinchine), half of whose first-order wait is the rest of the prompt in service."""
    one = curves(1, 4, most=1.0)
    service_s = one.prefill_s[0]
    for load in (0.1, 0.5, 0.9):
        found = open_passage(one, load / service_s)
        assert found.wait_s == pytest.approx(mean_wait_s(load, service_s), rel=1e-9)


def test_prompts_that_differ_wait_longer() -> None:
    alike, differing = curves(1, 4), curves(1, 4, variation=1.0)
    rate = 0.7 * alike.carried_per_s
    assert open_passage(differing, rate).wait_s > open_passage(alike, rate).wait_s


def test_a_step_of_several_prompts_is_what_came_during_the_last_one() -> None:
    """Eight groups of attention-DP at nine tenths of what the copy carries."""
    groups = model(1, 8, "sglang", "deepseek-v3")
    full = PoolCurves(Pools(groups, groups, 1.0, 1.0, np.array([8.0]), np.array([64.0]), 0.0), LENGTHS)
    rate = 0.9 * full.prefill_pool_per_s
    found = open_passage(full, rate)
    assert 1 < found.prompts[0] < 8
    assert found.prompts == pytest.approx(rate * at_rate(full.prefill_per_s, full.prefill_s, rate), rel=0.02)


def test_clients_beyond_the_slots_of_the_decode_pool_wait_for_one() -> None:
    """3 copies that decode one sequence at a time under 6 clients: half of an answer is waiting for a slot."""
    tight = curves(16, 3, hand_s=0.0, largest=1.0)
    found = closed_loop_of_pools(tight, np.array([6.0]))
    decoding_s = LENGTHS.output_tokens * found.tpot_s
    assert found.requests_per_s == pytest.approx(3 / decoding_s)
    assert found.ttft_s == pytest.approx(decoding_s, rel=0.01)


def test_a_first_wave_that_sends_at_once_waits_longer() -> None:
    at_once, spread = (closed_loop_of_pools(curves(8), np.array([32.0]), waves) for waves in (2.0, np.inf))
    assert at_once.wait_s > 1.5 * spread.wait_s


def test_the_hand_over_is_bytes_over_the_link() -> None:
    """80 layers of 8 heads of 128, K and V in 16 bits: 327,680 bytes a token, a quarter of them on each of 4 GPUs."""
    handed = handed_over_bytes(model(4), model(8), 1000.0)
    assert handed == pytest.approx(327_680 * 1000 / 4)
    assert handover_s(handed, 50e9, 0.5, 0.0) == pytest.approx(327_680 * 1000 / 4 / 25e9)
    assert handover_s(handed, 50e9, 0.5, 1.0) == 0


def test_a_slower_link_is_added_to_the_first_token_alone() -> None:
    rate = 0.5 * curves().carried_per_s
    near, far = (open_passage(curves(hand_s=seconds), rate) for seconds in (0.0, 0.2))
    assert far.ttft_s - near.ttft_s == pytest.approx(0.2)
    assert far.tpot_s == near.tpot_s


def test_percentiles_rise_and_lie_around_the_mean() -> None:
    both = curves()
    found = open_passage(both, 0.8 * both.carried_per_s)
    first = [float(first_token_s(both, found, q)[0]) for q in (0.5, 0.9, 0.99)]
    later = [float(crowded_step_s(both, found, q)[0]) for q in (0.5, 0.9, 0.99)]
    assert first == sorted(first)
    assert first[0] < found.ttft_s < first[-1]
    assert later == sorted(later)
    assert later[0] == pytest.approx(float(found.tpot_s[0]))


def test_pairs_side_by_side_are_each_pair_alone() -> None:
    prefill, decode = np.array([1.0, 4.0]), np.array([3.0, 2.0])
    c = model(4).candidates.take(np.zeros(2, dtype=np.int64)), model(8).candidates.take(np.zeros(2, dtype=np.int64))
    calibration = model(4).hardware.calibration
    both = Pools(
        StepModel.build(model(4).arch, c[0], calibration), StepModel.build(model(4).arch, c[1], calibration),
        prefill, decode, np.array([2.0, 2.0]), np.array([300.0, 300.0]), 0.01,
    )  # fmt: skip
    together = closed_loop_of_pools(PoolCurves(both, LENGTHS), np.array([100.0, 100.0]))
    for i in range(2):
        alone = closed_loop_of_pools(curves(prefill[i], decode[i]), np.array([100.0]))
        assert together.ttft_s[i] == pytest.approx(alone.ttft_s[0], rel=1e-9)
        assert together.tpot_s[i] == pytest.approx(alone.tpot_s[0], rel=1e-9)


def test_groups_of_attention_dp_prefill_side_by_side() -> None:
    """A prompt for each group in one step takes less than their steps one after another."""
    groups = model(1, 8, "sglang", "deepseek-v3")
    c = PoolCurves(Pools(groups, groups, 1.0, 1.0, np.array([8.0]), np.array([64.0]), 0.0), LENGTHS)
    assert c.prefill_s[0] < c.prefill_s[-1] < 8 * c.prefill_s[0]


def test_the_rest_of_a_running_step_is_met_by_those_who_find_every_copy_at_work() -> None:
    both = curves(3, 3, most=1.0)
    step_s = float(both.prefill_s[0, 0])
    assert running_step_s(both, np.array([0.5 / step_s])) == pytest.approx(0.5**3 * step_s / 4)


def test_grids_begin_at_one_and_end_at_the_most() -> None:
    assert geometric(np.array([1.0, 64.0]), 4)[[0, -1]].tolist() == [[1.0, 1.0], [1.0, 64.0]]
    assert replace(curves().pools, handover_s=0.0).handover_s == 0.0
