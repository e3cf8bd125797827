"""Closed forms of continuous and static batching."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest
from tools.calibrate.constants import NEUTRAL

from gpufleet.catalog.calibration import load_calibration, load_formulas
from gpufleet.catalog.engine_eras import load_engine
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.models import shipped_architecture
from gpufleet.domain.candidates import Candidates, Palette
from gpufleet.domain.engine import EngineProfile
from gpufleet.domain.precision import BF16
from gpufleet.domain.precision_labels import weight_format
from gpufleet.performance.serving import (
    Client,
    Lengths,
    admitted_context_tokens,
    carried_requests_per_s,
    closed_loop,
    computed_again,
    eager_kernel_s,
    eager_share,
    engine_step_s,
    full_queue,
    held_back_steps,
    idle_ttft_s,
    launches_s,
    loaded_ttft_s,
    lone_ttft_s,
    longest_gap_s,
    most_beside_prompts,
    phases,
    prompt_service_s,
    prompts_load,
    request_host_s,
    static_batch,
    synchrony,
    tpot_s,
)
from gpufleet.performance.shared_steps import growth_short_of_room, kernels_in_pieces_s, step_rules
from gpufleet.performance.step import StepLoad, StepModel
from gpufleet.provenance import Sourced

USERS = Client()
LENGTHS = Lengths(1000.0, 200.0)
IDEAL = {**NEUTRAL, "synchrony_ratio": 0.5}


def engine(**constants: float) -> EngineProfile:
    """An engine that adds nothing to its kernels but what is stated."""
    values = {name: Sourced(value, "", "") for name, value in {**IDEAL, **constants}.items()}
    return replace(load_engine("vllm"), constants=values)


def model(
    name: str = "llama-3.1-8b",
    gpu: str = "H100-SXM",
    attention_dp: int = 1,
    pp: int = 1,
    tp: int = 1,
    **constants: float,
) -> StepModel:
    arch, device = shipped_architecture(name), load_catalog().accelerators[gpu]
    zero = np.zeros(1, dtype=np.int64)
    candidates = Candidates(
        Palette((device,), (arch.weights,), (BF16,), (engine(**constants),)),
        accelerator=zero,
        weight_format=zero,
        kv_precision=zero,
        engine=zero,
        tp=zero + tp,
        pp=zero + pp,
        ep=zero + attention_dp,
        attention_dp=zero + attention_dp,
        link_is_pcie=np.array([False]),
        through_host=np.array([False]),
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


def test_ranks_wait_for_the_slowest_in_each_all_reduce() -> None:
    """Llama-3.1-8B sums 64 times in a step, after attention and after the MLP of each layer."""
    alone, four = (model(tp=tp, reduction_overhead_s=1e-6) for tp in (1, 4))
    steps_s = [engine_step_s(each, np.array([5e-3]), batch(8))[0] for each in (alone, four)]
    assert steps_s == pytest.approx([5e-3, 5e-3 + 64 * 3 * 1e-6])


def test_a_request_is_handed_to_every_rank() -> None:
    of_ranks = [request_host_s(model(tp=tp, rank_overhead_s=2e-3), LENGTHS)[0] for tp in (1, 2, 8)]
    assert of_ranks == pytest.approx([0.0, 2e-3, 14e-3])
    in_groups = request_host_s(model(tp=2, attention_dp=4, rank_overhead_s=2e-3), LENGTHS)[0]
    assert in_groups == pytest.approx(14e-3), "groups of attention-DP are told of every request too"


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
    np.testing.assert_allclose(alone.ttft_s, expected, rtol=1e-3)
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
    full, some, many = (closed_loop(ideal, batch(n), LENGTHS, 16.0, USERS) for n in (16, 48, 80))
    np.testing.assert_allclose(some.requests_per_s, full.requests_per_s, rtol=0.02)
    np.testing.assert_allclose(many.tpot_s, some.tpot_s, rtol=3e-3)
    slots_carry = carried_requests_per_s(ideal, phases(ideal, some.batch, LENGTHS), some.batch, LENGTHS)
    np.testing.assert_allclose(many.ttft_s - some.ttft_s, 32 / slots_carry, rtol=3e-3)


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


def test_the_first_prompt_of_a_step_costs_more_than_those_that_share_it() -> None:
    """phi where prompts come alone, k where many share a step, phi and k (n - 1) for the n that come together."""
    engine = model(prefill_mixing_ratio=1.3, decode_scale_ratio=1.1)
    for sequences, together in ((0.02, 1.0), (200.0, 1.582), (400.0, 2.313)):
        at = phases(engine, batch(sequences), LENGTHS)
        cost = together * prompt_service_s(engine, at) / at.prompt_extra_s
        np.testing.assert_allclose(cost, 1.3 + (together - 1) * 1.1, rtol=1e-3)


def test_a_step_takes_no_more_prompts_than_its_tokens_hold() -> None:
    """8,192 tokens: a whole prompt of 8,000 and the rest of another, however many come."""
    engine, crowd = model(prefill_mixing_ratio=1.3, decode_scale_ratio=1.1), batch(100.0)
    at = phases(engine, crowd, Lengths(8000.0, 10.0))
    assert at.prompts.per_step[0] == 10
    assert at.prompts.together[0] == 8192 / 8000
    assert at.prompts.sharing[0] == 1 + 8192 / 8000
    assert prompt_service_s(engine, at)[0] == pytest.approx((1.1 + 0.2 / 2.024) * at.prompt_extra_s[0])


def test_prompts_leave_room_for_some_that_decode() -> None:
    """Answers of 50 after prompts of 8,000: a step of 8,192 tokens is full with 51 that decode and their successors."""
    engine, lengths = model(), Lengths(8000.0, 50.0)
    assert most_beside_prompts(engine, lengths)[0] == pytest.approx(8192 * 50 / 8050)
    few, many = (closed_loop(engine, batch(n), lengths, 1000.0, USERS) for n in (60, 240))
    assert few.batch[0] == many.batch[0] == most_beside_prompts(engine, lengths)[0]
    np.testing.assert_allclose(few.tpot_s, many.tpot_s, rtol=0.02)
    np.testing.assert_allclose(few.requests_per_s, many.requests_per_s, rtol=0.02)
    assert closed_loop(engine, batch(40), lengths, 1000.0, USERS).batch[0] == 40
    assert most_beside_prompts(model(mixes_prompts=0.0), lengths)[0] == np.inf


def test_a_client_that_is_away_longer_meets_fewer_prompts() -> None:
    """A second on the way is some 150 steps in which it does not decode, beside 200 in which it does."""
    here, away = (closed_loop(model(request_overhead_s=s), batch(16), LENGTHS, 64.0, USERS).tpot_s for s in (0.0, 1.0))
    step_s = phases(model(), batch(16), LENGTHS).decode_step_s
    assert 0.4 < (away - step_s) / (here - step_s) < 0.65


def test_where_clients_wait_a_slot_is_taken_while_another_client_is_away() -> None:
    engine = model(request_overhead_s=1.0)
    some, waiting = (closed_loop(engine, batch(n), LENGTHS, 16.0, USERS).tpot_s for n in (16, 160))
    step_s = phases(engine, batch(16), LENGTHS).decode_step_s
    assert waiting - step_s > 1.5 * (some - step_s)


def test_nobody_waits_for_a_pool_that_holds_whole_sequences_of_every_client() -> None:
    """What a pool has beyond whole sequences is left over already: 9 clients in room for 9 wait for no slot.

    Qwen3-235B-A22B under vLLM 0.12.0 on two H200 (NVIDIA's own runs): 1.04 s until the first of 2,000 tokens.
    """
    waits_s = [float(closed_loop(model(), batch(n), LENGTHS, 16.0, USERS).ttft_s[0]) for n in (15, 16, 17)]
    assert waits_s[1] - waits_s[0] < 0.2 * (waits_s[2] - waits_s[1])
    assert closed_loop(model(), batch(16), LENGTHS, 16.0, USERS).batch[0] == 16


def test_pieces_of_a_prompt_read_the_weights_again_and_attend_as_one() -> None:
    """4,096 tokens in pieces of 512; an engine with the budget of 8,192 has none."""
    prompt, cut = Lengths(4096.0, 1.0), replace(model().candidates.palette.engines[0], prefill_budget_tokens=512)
    whole_model = model()
    palette = replace(whole_model.candidates.palette, engines=(cut,))
    candidates = replace(whole_model.candidates, palette=palette)
    pieces_model = StepModel.build(whole_model.arch, candidates, whole_model.hardware.calibration)
    load, piece = prompts_load(np.ones(1), prompt), prompts_load(np.ones(1), Lengths(512.0, 1.0))
    assert kernels_in_pieces_s(whole_model, load) == pytest.approx(whole_model.seconds(load))
    rest_s = whole_model.seconds(piece) - whole_model.prompt_attention_s(piece)
    expected_s = 8 * rest_s + whole_model.prompt_attention_s(load)
    assert kernels_in_pieces_s(pieces_model, load) == pytest.approx(expected_s)
    assert expected_s[0] > whole_model.seconds(load)[0]


def test_answers_that_end_in_the_same_step_make_room_for_growth() -> None:
    """Against the same drawn: Poisson ends, each of which frees so many times what all grow by till then."""
    dice = np.random.default_rng(7)
    for ended, freed in ((0.05, 3.0), (0.5, 2.0), (2.0, 1.2), (5.0, 1.5)):
        drawn = np.maximum(1 - dice.poisson(ended, 200_000) * freed / ended, 0.0).mean()
        assert growth_short_of_room(ended, freed) == pytest.approx(drawn, abs=0.005)


def test_a_crowded_pool_computes_again_what_answers_grow_by() -> None:
    """200 tokens for each prompt of 1,000, once a tenth more clients than slots wait; none where none is preempted."""
    slots = 16.0
    short = float(growth_short_of_room(slots / 200, 6.0))
    assert short == pytest.approx(math.exp(-slots / 200), rel=1e-3), "one end in 13 steps seldom makes room in time"
    for clients, share in ((slots, 0.0), (1.05 * slots, 0.1), (1.2 * slots, 0.2)):
        assert computed_again(model(), batch(clients), LENGTHS, 16.0)[0] == pytest.approx(share * short)
    assert computed_again(model(reserved_output_ratio=1.0), batch(64), LENGTHS, 16.0)[0] == 0
    assert computed_again(model(), batch(2000), LENGTHS, 1024.0)[0] == 0


@pytest.mark.parametrize(("output_tokens", "most"), [(20.0, 1.15), (200.0, 1.06)])
def test_an_engine_full_of_prompts_answers_later_with_every_client(output_tokens: float, most: float) -> None:
    """The queue of a server that prompts keep busy has no cliff: one client more changes a first token by under 6 %.

    Once steps are full of tokens (answers of 20, 41 clients), each waits for one prompt more, a seventh of its wait.
    """
    engine, lengths = model(prefill_mixing_ratio=1.3), Lengths(4000.0, output_tokens)
    clients = np.arange(16.0, 160.0)
    first_s = np.array([closed_loop(engine, batch(n), lengths, 1000.0, USERS).ttft_s[0] for n in clients])
    later = first_s[1:] / first_s[:-1]
    assert later.min() > 0.9999
    assert later.max() < most


def test_requests_that_are_all_alike_meet_the_next_prompt_and_others_do_not() -> None:
    ideal = model(synchrony_ratio=0.0)
    at, rate = phases(ideal, batch(8), LENGTHS), batch(1.0)
    alike, spread = (
        loaded_ttft_s(ideal, at, batch(8), rate, LENGTHS, Client(waves=10.0, length_spread_ratio=n)) for n in (0.0, 0.2)
    )
    np.testing.assert_allclose(alike - spread, prompt_service_s(ideal, at) * 7 / 8)


def test_a_host_that_launches_a_prefill_slowly_sets_its_pace() -> None:
    slow = model(eager_kernel_s=1e-3)
    np.testing.assert_allclose(lone_ttft_s(slow, LENGTHS), slow.num_kernels * 1e-3)
    np.testing.assert_allclose(lone_ttft_s(model(eager_kernel_s=1e-9), LENGTHS), lone_ttft_s(model(), LENGTHS))
    slower = model(eager_kernel_s=1e-3, prefill_launch_ratio=2.0)
    np.testing.assert_allclose(lone_ttft_s(slower, LENGTHS), 2 * lone_ttft_s(slow, LENGTHS))
    np.testing.assert_array_equal(*(engine_step_s(m, np.array([5e-3]), batch(8), 1.0) for m in (slow, slower)))


@pytest.mark.parametrize(
    ("label", "ratio"), [("bf16", 1.0), ("int8_wo", 1.4), ("int4", 1.1), ("gptq", 1.1), ("awq", 1.3)]
)
def test_products_of_some_formats_take_the_host_longer_to_launch(label: str, ratio: float) -> None:
    llama = model(eager_kernel_s=1e-5, eager_int8_wo_ratio=1.4, eager_int4_ratio=1.1, eager_awq_ratio=1.3)
    candidates = replace(
        llama.candidates,
        palette=replace(llama.candidates.palette, weight_formats=(weight_format(llama.arch, label),)),
    )
    assert eager_kernel_s(candidates)[0] == pytest.approx(ratio * 1e-5)


def test_a_host_that_walks_through_all_experts_takes_its_time_for_each() -> None:
    """Mixtral 8x7B: eight experts in each of 32 layers, of which a token needs two."""
    sparse, dense = (model(name, eager_expert_s=1e-4) for name in ("mixtral-8x7b", "llama-3.1-8b"))
    assert launches_s(sparse)[0] == pytest.approx(32 * 8 * 1e-4)
    assert launches_s(dense)[0] == 0.0


def test_keys_and_values_written_out_for_each_query_head_pass_through_memory() -> None:
    """Llama 3.1 8B: 4,096 bytes of keys and values for a head of 128 in 32 layers, 32 query heads, in 16 bits."""
    long = StepLoad(batch(1), 30_000.0)
    shared, written_out = model(), model(kv_passes_per_query_head=5.0)
    bandwidth = load_catalog().accelerators["H100-SXM"].bandwidth_bytes_per_s
    least_s = 5 * 30_000 * 32 * 32 * 2 * 128 * 2 / bandwidth
    assert written_out.terms(long)["attention over the KV cache"][0] == pytest.approx(least_s, rel=0.01)
    assert written_out.seconds(long)[0] > shared.seconds(long)[0] + 0.5 * least_s


def test_kernels_that_only_store_few_bits_take_as_long_as_those_of_16() -> None:
    def of(label: str, **constants: float) -> float:
        llama = model(**constants)
        palette = replace(llama.candidates.palette, weight_formats=(weight_format(llama.arch, label),))
        candidates = replace(llama.candidates, palette=palette)
        return float(
            StepModel.build(llama.arch, candidates, calibration("H100-SXM")).seconds(StepLoad(batch(1), 100.0))[0]
        )

    wide_s = of("bf16", weights_only_as_16_bits=1.0)
    assert wide_s == of("bf16")
    assert of("int4", weights_only_as_16_bits=1.0) == of("int8_wo", weights_only_as_16_bits=1.0) == wide_s
    assert of("int4") < 0.7 * wide_s
    assert of("fp8", weights_only_as_16_bits=1.0) == of("fp8")


@pytest.mark.parametrize("gpu", ["A100-SXM4-80GB", "RTX-4090", "H100-SXM"])
@pytest.mark.parametrize("engine_name", ["transformers", "autoawq"])
def test_no_prefill_is_faster_than_the_arithmetic_of_the_datasheet(engine_name: str, gpu: str) -> None:
    shipped = {name: c.value for name, c in load_engine(engine_name).constants.items()}
    llama, peak = model(gpu=gpu, **shipped), load_catalog().accelerators[gpu].peak_flop_per_s["bf16"]
    for tokens in (256.0, 2048.0, 30_000.0):
        flop = 2 * 6.98e9 * tokens + 32 * 2 * 32 * 128 * tokens**2  # matrices of the layers, causal attention
        assert lone_ttft_s(llama, Lengths(tokens, 1.0))[0] > flop / peak


def test_an_engine_that_looks_for_requests_every_30_steps_delays_the_first_and_not_the_later() -> None:
    ideal = model(poll_wait_ratio=0.5)
    each, rarely = (closed_loop(ideal, batch(4), LENGTHS, 64.0, Client(poll_interval_steps=n)) for n in (1.0, 31.0))
    at = phases(ideal, batch(4), LENGTHS)
    found_s = 30 * at.prompts.per_step * prompt_service_s(ideal, at)
    np.testing.assert_allclose(rarely.ttft_s - each.ttft_s, 15 * at.decode_step_s + found_s, rtol=1e-3)
    np.testing.assert_allclose(rarely.tpot_s, each.tpot_s, rtol=5e-3)


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
    np.testing.assert_allclose(full.requests_per_s, clients.requests_per_s, rtol=0.01)
    assert clients.tpot_s[0] < full.tpot_s[0] < 1.01 * clients.tpot_s[0]


def test_a_queue_of_whole_waves_is_as_fast_as_one_that_never_ends() -> None:
    endless, whole = (full_queue(model(), batch(64), LENGTHS, queued) for queued in (np.inf, 640.0))
    np.testing.assert_allclose(whole.requests_per_s, endless.requests_per_s)


def test_the_last_wave_of_a_queue_decodes_alone() -> None:
    """Ten waves of 64 and one request more: all prompts, ten times 200 steps of 64 and 200 steps of one."""
    ideal = model()
    at, rest = phases(ideal, batch(64), LENGTHS), phases(ideal, batch(1), LENGTHS)
    found = full_queue(ideal, batch(64), LENGTHS, 641.0)
    steps_s = 200 * (10 * at.decode_step_s + rest.decode_step_s)
    np.testing.assert_allclose(641 / found.requests_per_s, 641 * prompt_service_s(ideal, at) + steps_s)


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


def test_groups_of_attention_dp_wait_for_each_others_prompts_unless_all_have_one_at_once() -> None:
    single, groups = (model("qwen3-30b-a3b", attention_dp=n) for n in (1, 4))

    def extra_s(m: StepModel, gather_steps: float = 0.0) -> float:
        at = phases(m, batch(64), LENGTHS, Client(gather_steps=gather_steps))
        return float((tpot_s(m, at, batch(64), LENGTHS) - at.decode_step_s)[0])

    assert extra_s(groups, 100.0) < 0.6 * extra_s(single) < extra_s(groups) < extra_s(single)


def test_a_queue_in_a_group_holds_its_own_prompts_alone() -> None:
    groups = model("qwen3-30b-a3b", attention_dp=4)
    apart, together = (phases(groups, batch(64), LENGTHS, Client(gather_steps=n)) for n in (0.0, 100.0))
    assert apart.prompts.stalls > 1.5
    assert together.prompts.stalls == 1.0
    assert apart.prompt_extra_s < together.prompt_extra_s


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
    assert held_steps(single, patient) == 0
    assert held_steps(groups, patient) == 100
    assert held_steps(groups, hasty) == 60
    assert held_steps(groups, USERS) == 0


def test_prompts_of_a_group_wait_until_they_fill_a_step_or_patience_ends() -> None:
    """At 64 sequences with answers of 200 tokens a prompt arrives every 3.125 steps; TensorRT-LLM: batch_wait_*."""
    engine_s = model()
    budget = float(step_rules(engine_s).room_tokens[0])
    three = (3 * LENGTHS.input_tokens + 64) / budget
    waits = [Client(batch_wait_steps=steps, batch_wait_ratio=three) for steps in (0.0, 5.0, 1e9)]
    found = [phases(engine_s, batch(64), LENGTHS, client).prompts for client in waits]
    assert [float(prompts.waited[0]) for prompts in found] == pytest.approx([0.0, 5 * 1.8 / 2.6, 6.25 * 2 / 3])
    assert [float(prompts.together[0]) for prompts in found[1:]] == pytest.approx([2.6, 3.0])
    assert held_steps(engine_s, waits[1], 64) == pytest.approx(5 * 1.8 / 2.6)


def held_steps(m: StepModel, client: Client, sequences: float = 8) -> float:
    at = phases(m, batch(sequences), LENGTHS, client)
    return float(held_back_steps(m, at, batch(sequences), LENGTHS, client)[0])


def test_prompts_of_several_micro_batches_pass_the_stages_of_a_pipeline_at_once() -> None:
    short = Lengths(2000.0, 20.0)
    for sequences in (64.0, 256.0):
        served = [full_queue(model(pp=pp), batch(pp * sequences), short) for pp in (1, 4)]
        alone, piped = (found.requests_per_s[0] for found in served)
        assert 3 * alone < piped < 4 * alone


def test_every_stage_has_a_host_that_prepares_its_steps() -> None:
    idle_s, busy_s = (engine_step_s(model(pp=4, step_overhead_s=s), np.array([5e-3]), batch(8)) for s in (0.0, 1e-3))
    assert busy_s - idle_s == pytest.approx(4e-3)


def test_prompts_that_are_found_at_the_same_time_end_together() -> None:
    polls = [Client(poll_interval_steps=steps) for steps in (11.0, 21.0, 41.0)]
    engine_of_polls = model(poll_wait_ratio=0.0)
    first_s = [closed_loop(engine_of_polls, batch(64), LENGTHS, 96.0, client).ttft_s[0] for client in polls]
    at = phases(engine_of_polls, batch(64), LENGTHS)
    found_s = at.prompts.per_step[0] * prompt_service_s(engine_of_polls, at)[0]
    assert np.diff(first_s) == pytest.approx([10 * found_s, 20 * found_s], rel=0.02)
