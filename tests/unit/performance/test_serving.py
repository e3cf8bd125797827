"""Closed forms of continuous and static batching."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest

from gpufleet.catalog.calibration import load_calibration, load_formulas
from gpufleet.catalog.engine_eras import load_engine
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.models import shipped_architecture
from gpufleet.domain.candidates import Candidates, Palette
from gpufleet.domain.engine import EngineProfile
from gpufleet.domain.precision import BF16
from gpufleet.performance.serving import (
    Client,
    Lengths,
    admitted_context_tokens,
    carried_requests_per_s,
    closed_loop,
    eager_share,
    engine_step_s,
    full_queue,
    held_back_steps,
    idle_ttft_s,
    loaded_ttft_s,
    lone_ttft_s,
    longest_gap_s,
    phases,
    prompt_service_s,
    static_batch,
    synchrony,
    tpot_s,
)
from gpufleet.performance.step import StepLoad, StepModel
from gpufleet.provenance import Sourced

USERS = Client()
LENGTHS = Lengths(1000.0, 200.0)
IDEAL = {
    "decode_scale_ratio": 1.0,
    "step_overhead_s": 0.0,
    "kernel_overhead_s": 0.0,
    "sequence_overhead_s": 0.0,
    "prefill_mixing_ratio": 1.0,
    "prefill_scale_ratio": 1.0,
    "request_overhead_s": 0.0,
    "token_overhead_s": 0.0,
    "first_token_steps": 0.5,
    "poll_wait_ratio": 0.5,
    "synchrony_ratio": 0.5,
    "eager_kernel_s": 0.0,
}


def engine(**constants: float) -> EngineProfile:
    """An engine that adds nothing to its kernels but what is stated."""
    values = {name: Sourced(value, "", "") for name, value in {**IDEAL, **constants}.items()}
    return replace(load_engine("vllm"), constants=values)


def model(name: str = "llama-3.1-8b", gpu: str = "H100-SXM", attention_dp: int = 1, **constants: float) -> StepModel:
    arch, device = shipped_architecture(name), load_catalog().accelerators[gpu]
    zero = np.zeros(1, dtype=np.int64)
    candidates = Candidates(
        Palette((device,), (arch.weights,), (BF16,), (engine(**constants),)),
        accelerator=zero,
        weight_format=zero,
        kv_precision=zero,
        engine=zero,
        tp=zero + 1,
        pp=zero + 1,
        ep=zero + attention_dp,
        attention_dp=zero + attention_dp,
        link_is_pcie=np.array([False]),
        link_bytes_per_s=np.array([device.nvlink_bytes_per_s or 0.0]),
    )
    return StepModel.build(arch, candidates, calibration(gpu))


@lru_cache(maxsize=4)
def calibration(gpu: str):
    return load_calibration((load_catalog().accelerators[gpu],))


def batch(number: float) -> np.ndarray:
    return np.array([number])


def test_an_ideal_engine_takes_as_long_as_its_kernels() -> None:
    ideal = model()
    kernels = ideal.seconds(StepLoad(batch(8), LENGTHS.mean_decode_context_tokens))
    np.testing.assert_allclose(phases(ideal, batch(8), LENGTHS).decode_step_s, kernels)


def test_overheads_of_steps_kernels_and_sequences_add_to_scaled_kernels() -> None:
    busy = model(decode_scale_ratio=1.2, step_overhead_s=1e-3, kernel_overhead_s=1e-6, sequence_overhead_s=20e-6)
    overhead_s = 1e-3 + busy.num_kernels[0] * 1e-6 + 8 * 20e-6
    assert engine_step_s(busy, np.array([5e-3]), batch(8))[0] == pytest.approx(1.2 * 5e-3 + overhead_s)


def test_hidden_launches_leave_a_share_of_the_kernels() -> None:
    least = load_formulas().engine_steps.least_ratio.value
    assert engine_step_s(model(kernel_overhead_s=-1.0), np.array([5e-3]), batch(8))[0] == pytest.approx(least * 5e-3)


def test_a_step_launches_a_kernel_for_each_operator_of_each_layer() -> None:
    """A Llama layer: four products, attention, activation, two norms, rotary embedding, cache write; one head."""
    assert model().num_kernels[0] == 32 * 10 + 1


def test_a_decode_step_sees_the_prompt_and_half_of_the_answer() -> None:
    assert LENGTHS.mean_decode_context_tokens == 1100


def test_a_lone_user_waits_for_nobody() -> None:
    ideal = model()
    alone = closed_loop(ideal, batch(1), LENGTHS, 64.0, USERS)
    at = phases(ideal, batch(1), LENGTHS)
    np.testing.assert_allclose(alone.tpot_s, at.decode_step_s)
    expected = loaded_ttft_s(ideal, at, batch(1), alone.requests_per_s, LENGTHS, USERS)
    np.testing.assert_allclose(alone.ttft_s, expected)
    np.testing.assert_allclose(expected, lone_ttft_s(ideal, LENGTHS), rtol=1e-6)


@pytest.mark.parametrize("output_tokens", [1.0, 2.0, 20.0, 200.0])
@pytest.mark.parametrize("clients", [1.0, 32.0, 300.0])
def test_clients_answers_and_their_time_balance(clients: float, output_tokens: float) -> None:
    """Little's law: requests/s x latency is the number of clients, and the slots carry no more than their cycle."""
    engine, lengths = model(request_overhead_s=0.01), Lengths(2000.0, output_tokens)
    found = closed_loop(engine, batch(clients), lengths, 64.0, USERS)
    latency_s = found.ttft_s + (output_tokens - 1) * found.tpot_s
    np.testing.assert_allclose(found.requests_per_s * latency_s, clients)
    slots = np.minimum(batch(clients), 64.0)
    carried = carried_requests_per_s(engine, phases(engine, slots, lengths), slots, lengths)
    assert 0.5 * carried[0] < found.requests_per_s[0] <= carried[0] * (1 + 1e-9)


def test_clients_beyond_the_room_wait_for_a_slot() -> None:
    ideal = model()
    full, crowded = (closed_loop(ideal, batch(n), LENGTHS, 16.0, USERS) for n in (16, 48))
    np.testing.assert_allclose(crowded.requests_per_s, full.requests_per_s, rtol=0.02)
    np.testing.assert_allclose(crowded.tpot_s, full.tpot_s)
    slots_carry = carried_requests_per_s(ideal, phases(ideal, batch(16), LENGTHS), batch(16), LENGTHS)
    np.testing.assert_allclose(crowded.ttft_s - full.ttft_s, 32 / slots_carry)


def test_neighbours_prompts_lengthen_every_token_by_their_share() -> None:
    ideal = model()
    at = phases(ideal, batch(21), LENGTHS)
    np.testing.assert_allclose(tpot_s(ideal, at, batch(21), LENGTHS), at.decode_step_s + 20 / 200 * at.prompt_extra_s)


def test_clients_in_step_meet_half_of_the_prompts_before_their_first_token() -> None:
    ideal = model()
    at = phases(ideal, batch(21), LENGTHS)
    mixed, apart = (tpot_s(ideal, at, batch(21), LENGTHS, s) - at.decode_step_s for s in (1.0, 0.0))
    np.testing.assert_allclose(mixed, apart / 2)


def test_one_wave_of_equal_requests_moves_in_step_and_users_do_not() -> None:
    ideal = model(synchrony_ratio=0.3)
    assert synchrony(ideal, Client(waves=1.0))[0] == 1
    assert synchrony(ideal, Client(waves=10.0))[0] == pytest.approx(0.1)
    assert synchrony(ideal, Client(waves=10.0, length_spread_ratio=0.0))[0] == pytest.approx(0.3)
    assert synchrony(ideal, USERS)[0] == 0


def test_prompts_of_short_answers_share_steps_and_the_reading_of_weights() -> None:
    """64 sequences with answers of 4 tokens: 16 prompts in every step."""
    ideal, short = model(), Lengths(100.0, 4.0)
    together = phases(ideal, batch(64), short)
    decode = ideal.seconds(StepLoad(batch(64), short.mean_decode_context_tokens))
    mixed = ideal.seconds(StepLoad(batch(63), short.mean_decode_context_tokens, 16.0, 100.0))
    np.testing.assert_allclose(together.prompt_extra_s, (mixed - decode) / 16)


def test_no_step_is_more_than_wholly_mixed() -> None:
    """Tokens of a crowded engine with short answers take no longer than a step that carries all prompts that arrive."""
    eager, short = model(prefill_mixing_ratio=5.0), Lengths(500.0, 8.0)
    at = phases(eager, batch(64), short)
    mixed = eager.seconds(StepLoad(batch(63), short.mean_decode_context_tokens, 8.0, 500.0))
    assert tpot_s(eager, at, batch(64), short)[0] <= mixed[0]


def test_a_prompt_costs_less_among_others_than_alone_among_steps_of_decoding() -> None:
    """phi alone, k where every step carries a prompt, half way where every second one does."""
    engine = model(prefill_mixing_ratio=1.3, decode_scale_ratio=1.1)
    for sequences, ratio in ((2.0, 1.298), (100.0, 1.2), (200.0, 1.1), (400.0, 1.1)):
        at = phases(engine, batch(sequences), LENGTHS)
        service = prompt_service_s(engine, at, batch(sequences), LENGTHS)
        np.testing.assert_allclose(service, ratio * at.prompt_extra_s)


@pytest.mark.parametrize("output_tokens", [20.0, 200.0])
def test_an_engine_full_of_prompts_answers_later_with_every_client(output_tokens: float) -> None:
    """The queue of a server that prompts keep busy has no cliff: one client more changes a first token by under 6 %."""
    engine, lengths = model(prefill_mixing_ratio=1.3), Lengths(4000.0, output_tokens)
    clients = np.arange(16.0, 160.0)
    first_s = np.array([closed_loop(engine, batch(n), lengths, 1000.0, USERS).ttft_s[0] for n in clients])
    later = first_s[1:] / first_s[:-1]
    assert later.min() > 0.9999
    assert later.max() < 1.06


def test_requests_that_are_all_alike_meet_the_next_prompt_and_others_do_not() -> None:
    ideal = model(synchrony_ratio=0.0)
    at, rate = phases(ideal, batch(8), LENGTHS), batch(1.0)
    alike, spread = (
        loaded_ttft_s(ideal, at, batch(8), rate, LENGTHS, Client(waves=10.0, length_spread_ratio=n)) for n in (0.0, 0.2)
    )
    np.testing.assert_allclose(alike - spread, prompt_service_s(ideal, at, batch(8), LENGTHS) * 7 / 8)


def test_a_host_that_launches_a_prefill_slowly_sets_its_pace() -> None:
    slow = model(eager_kernel_s=1e-3)
    np.testing.assert_allclose(lone_ttft_s(slow, LENGTHS), slow.num_kernels * 1e-3)
    np.testing.assert_allclose(lone_ttft_s(model(eager_kernel_s=1e-9), LENGTHS), lone_ttft_s(model(), LENGTHS))


def test_an_engine_that_looks_for_requests_every_30_steps_delays_the_first_and_not_the_later() -> None:
    ideal = model(poll_wait_ratio=0.5)
    each, rarely = (closed_loop(ideal, batch(4), LENGTHS, 64.0, Client(poll_interval_steps=n)) for n in (1.0, 31.0))
    np.testing.assert_allclose(rarely.ttft_s - each.ttft_s, 15 * phases(ideal, batch(4), LENGTHS).decode_step_s)
    np.testing.assert_allclose(rarely.tpot_s, each.tpot_s)


def test_a_static_batch_takes_its_prefill_and_then_a_step_for_each_further_token() -> None:
    ideal = model()
    found = static_batch(ideal, batch(8), LENGTHS)
    latency_s = found.ttft_s + 199 * found.tpot_s
    np.testing.assert_allclose(found.requests_per_s, 8 / latency_s)
    np.testing.assert_allclose(found.output_tokens_per_s(LENGTHS), 8 * 200 / latency_s)
    np.testing.assert_allclose(found.ttft_s, lone_ttft_s(ideal, LENGTHS, 8.0))


def test_eight_prompts_together_take_longer_than_one_and_less_than_eight_times() -> None:
    one, eight = (lone_ttft_s(model(), Lengths(50.0, 10.0), n)[0] for n in (1.0, 8.0))
    assert one < eight < 8 * one


def test_a_full_queue_never_lets_a_slot_idle() -> None:
    ideal = model()
    full, clients = full_queue(ideal, batch(64), LENGTHS), closed_loop(ideal, batch(64), LENGTHS, 64.0, USERS)
    np.testing.assert_allclose(full.requests_per_s, clients.requests_per_s)
    np.testing.assert_allclose(full.tpot_s, clients.tpot_s)


def test_a_queue_of_whole_waves_is_as_fast_as_one_that_never_ends() -> None:
    endless, whole = (full_queue(model(), batch(64), LENGTHS, queued) for queued in (np.inf, 640.0))
    np.testing.assert_allclose(whole.requests_per_s, endless.requests_per_s)


def test_the_last_wave_of_a_queue_decodes_alone() -> None:
    """Ten waves of 64 and one request more: all prompts, ten times 200 steps of 64 and 200 steps of one."""
    ideal = model()
    at, rest = phases(ideal, batch(64), LENGTHS), phases(ideal, batch(1), LENGTHS)
    found = full_queue(ideal, batch(64), LENGTHS, 641.0)
    steps_s = 200 * (10 * at.decode_step_s + rest.decode_step_s)
    np.testing.assert_allclose(
        641 / found.requests_per_s, 641 * prompt_service_s(ideal, at, batch(64), LENGTHS) + steps_s
    )


def test_fewer_requests_than_slots_run_together() -> None:
    few, slots = full_queue(model(), batch(64), LENGTHS, 16.0), full_queue(model(), batch(16), LENGTHS)
    assert few.batch[0] == 16
    np.testing.assert_allclose(few.requests_per_s, slots.requests_per_s)


def test_a_sequence_counts_for_what_it_holds_on_average_or_for_all_that_it_may_hold() -> None:
    """TensorRT-LLM starts a request where its whole answer has room; others where it has room as things are."""
    held = np.mean(LENGTHS.input_tokens + np.arange(LENGTHS.output_tokens + 1))
    assert admitted_context_tokens(model().candidates, LENGTHS)[0] == held == 1100
    reserved = load_engine("tensorrt-llm").constants["reserved_output_ratio"].value
    never_evicting = model(reserved_output_ratio=reserved)
    assert admitted_context_tokens(never_evicting.candidates, LENGTHS)[0] == 1200


def test_steps_beyond_the_recorded_graphs_wait_for_the_host() -> None:
    eager = model(eager_kernel_s=40e-6, graphed_context_tokens=1100)
    assert eager_share(eager, LENGTHS)[0] == pytest.approx(0.5)
    launches_s, graphed_s = 40e-6 * 321, 5e-3
    assert engine_step_s(eager, np.array([graphed_s]), batch(8), 1.0)[0] == pytest.approx(launches_s)
    assert engine_step_s(eager, np.array([graphed_s]), batch(8), 0.5)[0] == pytest.approx((launches_s + graphed_s) / 2)
    assert engine_step_s(eager, np.array([20e-3]), batch(8), 1.0)[0] == pytest.approx(20e-3)


def test_engines_without_a_limit_record_every_context() -> None:
    assert eager_share(model(), Lengths(100_000.0, 10.0))[0] == 0


def test_groups_share_the_prompts_of_a_mixture_of_experts() -> None:
    single, groups = (model("qwen3-30b-a3b", attention_dp=n) for n in (1, 4))
    extra = [
        tpot_s(m, phases(m, batch(64), LENGTHS), batch(64), LENGTHS) - phases(m, batch(64), LENGTHS).decode_step_s
        for m in (single, groups)
    ]
    assert extra[1] < 0.6 * extra[0]


def test_a_first_token_among_many_waits_for_running_steps_and_a_lone_one_for_none() -> None:
    halfway = model(first_token_steps=0.5)
    at, lone = phases(halfway, batch(1), LENGTHS), lone_ttft_s(halfway, LENGTHS)
    assert idle_ttft_s(halfway, at, lone, 0.0)[0] == lone[0]
    idle = idle_ttft_s(halfway, at, lone, 1e9)
    assert idle[0] == pytest.approx(lone[0] + 0.5 * at.decode_step_s[0])


def test_a_chunk_of_a_prompt_stretches_a_step_less_than_the_whole_prompt() -> None:
    at = phases(model(), batch(8), LENGTHS)
    whole, half = (longest_gap_s(at, LENGTHS.input_tokens, n * LENGTHS.input_tokens)[0] for n in (2.0, 0.5))
    assert whole == pytest.approx(at.decode_step_s[0] + at.prompt_extra_s[0])
    assert half == pytest.approx(at.decode_step_s[0] + at.prompt_extra_s[0] / 2)


def test_groups_of_attention_dp_may_hold_a_prompt_back_until_all_have_one_or_patience_ends() -> None:
    """At 8 sequences with answers of 200 tokens a prompt arrives every 25 steps: 4 groups have theirs after 100."""
    patient, hasty = Client(gather_steps=1e9), Client(gather_steps=60.0)
    single, groups = (model("qwen3-30b-a3b", attention_dp=n) for n in (1, 4))
    assert held_back_steps(single, batch(8), LENGTHS, patient)[0] == 0
    assert held_back_steps(groups, batch(8), LENGTHS, patient)[0] == 100
    assert held_back_steps(groups, batch(8), LENGTHS, hasty)[0] == 60
    assert held_back_steps(groups, batch(8), LENGTHS, USERS)[0] == 0
