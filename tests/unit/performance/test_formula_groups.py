"""Steps of recurrent, sparse and compressed layers: no faster than physics, and graded by how they are known."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from itertools import pairwise

import numpy as np
import pytest
from tests.unit.performance.shipped_steps import calibration, shipped_step_model

from gpufleet.architecture.flops import flop_per_token, prefill_flop
from gpufleet.architecture.parameters import num_active_parameters, num_text_parameters
from gpufleet.catalog.engine_eras import load_engine
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.models import shipped_architecture
from gpufleet.performance.recurrence import borrows_full_attention, is_timed_by_formula, scan_s, state_update_s
from gpufleet.performance.serving import Lengths
from gpufleet.performance.step import StepLoad, StepModel
from gpufleet.performance.uncertainty import borrowed_log_ratios, grades, time_bounds
from gpufleet.provenance import Grade

TODAY = {
    "qwen3.5-27b": 2,
    "qwen3-next-80b-a3b": 4,
    "kimi-linear-48b-a3b": 2,
    "nemotron-3-nano-30b-a3b": 2,
    "nemotron-3-super-120b-a12b-fp8": 4,
    "mamba-2.8b": 1,
    "mamba2-2.7b": 1,
    "minimax-m3": 8,
    "deepseek-v3.2": 8,
    "glm-5-fp8": 8,
    "deepseek-v4-flash": 8,
}


@lru_cache(maxsize=32)
def model(name: str, tp: int) -> StepModel:
    return shipped_step_model(name, load_engine("vllm"), "H200-SXM", tp)


def decode(sequences: float, context: float) -> StepLoad:
    return StepLoad(np.array([sequences]), context)


def prompt(tokens: float) -> StepLoad:
    return StepLoad(np.array([0.0]), 1.0, 1.0, tokens)


@pytest.mark.parametrize(("name", "tp"), TODAY.items())
def test_every_operator_of_a_step_is_no_faster_than_physics_and_runs(name, tp):
    step = model(name, tp)
    assert step.is_supported.all()
    for load in (decode(32, 8192), prompt(8192)):
        for operation in step.operations(load):
            assert np.all(operation.seconds >= 0.99 * operation.roofline_s), operation.name


@pytest.mark.parametrize(("name", "tp"), TODAY.items())
def test_the_work_of_a_step_is_about_the_counted_flop(name, tp):
    """Attention in absorbed or padded form, idle rows of experts and tiny products differ; nothing is forgotten."""
    step = model(name, tp)
    arch = step.arch
    for load, counted in (
        (decode(64, 16_384), 64 * flop_per_token(arch, 16_384).total),
        (prompt(4096), prefill_flop(arch, 4096).total),
    ):
        done = tp * sum(float(np.sum(o.count * o.flop)) for o in step.operations(load))
        assert 0.75 * counted < done < 6 * counted


@pytest.mark.parametrize(("name", "tp"), TODAY.items())
def test_more_sequences_longer_contexts_and_prompts_never_take_less(name, tp):
    step = model(name, tp)
    by_batch = [float(step.seconds(decode(n, 4096))[0]) for n in (1, 8, 64, 256)]
    by_context = [float(step.seconds(decode(16, n))[0]) for n in (128, 2048, 16_384, 131_072)]
    by_prompt = [float(step.seconds(prompt(n))[0]) for n in (128, 1024, 8192, 32_768)]
    for rising in (by_batch, by_context, by_prompt):
        assert all(low <= high * (1 + 1e-9) for low, high in pairwise(rising))


@pytest.mark.parametrize("name", ["mamba-2.8b", "mamba2-2.7b"])
def test_a_model_of_states_alone_takes_as_long_after_any_context(name):
    step = model(name, 1)
    assert step.seconds(decode(16, 100)) == pytest.approx(step.seconds(decode(16, 100_000)))


def test_the_published_example_of_a_state_update_and_of_a_scan():
    """64 sequences with states of 2.15 MB, and a prompt of 8,192 tokens, on an H100."""
    formulas = calibration().formulas.state_space
    assert float(state_update_s(formulas, 3.35e12, 64, 2.15e6)) == pytest.approx(109e-6, rel=5e-3)
    assert float(scan_s(formulas, 989e12, 3.35e12, 8192 * 3.2e6, 8192 * 3.3e4)) == pytest.approx(287e-6, rel=5e-3)


def test_a_step_of_states_takes_its_constants_and_its_range_from_data():
    step = model("mamba2-2.7b", 1)
    formulas = step.hardware.calibration.formulas.state_space
    slower = replace(
        formulas,
        update_stream_ratio=replace(formulas.update_stream_ratio, value=formulas.update_stream_ratio.value / 2),
        missed_ratio=replace(formulas.missed_ratio, high=2 * formulas.missed_ratio.high),
    )
    formulas_of_all = replace(calibration().formulas, state_space=slower)
    other = StepModel.build(step.arch, step.candidates, replace(calibration(), formulas=formulas_of_all))
    update, twice = (
        next(o for o in m.operations(decode(64, 100)) if o.kernel == "state update") for m in (step, other)
    )
    fixed_s = formulas.update_fixed_s.value
    assert twice.seconds - fixed_s == pytest.approx(2 * (update.seconds - fixed_s))
    highs = [float(borrowed_log_ratios(m)[1][0]) for m in (step, other)]
    assert highs[1] - highs[0] == pytest.approx(np.log(2))


def test_norms_take_their_seconds_from_data():
    step = model("qwen3.5-27b", 2)
    streams = step.hardware.calibration.formulas.streams
    slower = replace(
        streams,
        fixed_s=replace(streams.fixed_s, value=2 * streams.fixed_s.value),
        bandwidth_ratio=replace(streams.bandwidth_ratio, value=streams.bandwidth_ratio.value / 2),
    )
    formulas = replace(calibration().formulas, streams=slower)
    other = StepModel.build(step.arch, step.candidates, replace(calibration(), formulas=formulas))
    pairs = zip(step.operations(decode(64, 100)), other.operations(decode(64, 100)), strict=True)
    for once, twice in pairs:
        factor = 2 if once.kernel == "elementwise" else 1
        assert twice.seconds == pytest.approx(factor * once.seconds, rel=1e-12)


@pytest.mark.parametrize("name", ["nemotron-3-nano-30b-a3b", "mamba2-2.7b", "mamba-2.8b"])
def test_what_is_timed_by_formula_is_said_to_be_a_roofline_with_a_wider_range(name):
    step = model(name, TODAY[name])
    assert is_timed_by_formula(step.arch)
    assert grades(step).tolist() == [Grade.ROOFLINE]
    assert_wider_than_usual(step)


@pytest.mark.parametrize("name", ["minimax-m3", "deepseek-v4-flash", "deepseek-v3.2"])
def test_what_borrows_the_curves_of_full_attention_is_said_to_be_transferred_with_a_wider_range(name):
    step = model(name, TODAY[name])
    assert borrows_full_attention(step.arch)
    assert grades(step).tolist() == [Grade.TRANSFERRED]
    assert_wider_than_usual(step)


@pytest.mark.parametrize("name", ["qwen3.5-27b", "qwen3-next-80b-a3b", "kimi-linear-48b-a3b"])
def test_what_was_measured_on_the_device_is_said_to_be_measured_with_a_wider_range(name):
    step = model(name, TODAY[name])
    assert grades(step).tolist() == [Grade.MEASURED]
    assert_wider_than_usual(step)


def assert_wider_than_usual(step: StepModel) -> None:
    wide, narrow = (
        time_bounds(m, np.array([16.0]), Lengths(1000.0, 200.0))["tpot"] for m in (step, model("llama-3.1-8b", 1))
    )
    assert wide.high_ratio > narrow.high_ratio
    assert wide.low_ratio < narrow.low_ratio


def test_full_attention_is_neither_timed_by_formula_nor_borrowed():
    for name in ("llama-3.1-8b", "deepseek-v3", "gpt-oss-20b", "gemma-4-26b-a4b", "mimo-v2-flash"):
        arch = shipped_architecture(name)
        assert not is_timed_by_formula(arch)
        assert not borrows_full_attention(arch)


def test_reading_chosen_tokens_grows_slower_than_reading_all_of_them():
    """DeepSeek-V3.2 against V3, alike but for the index: 128k tokens cost it less to go on from, 1k more."""
    sparse, full = model("deepseek-v3.2", 8), model("deepseek-v3", 8)
    assert sparse.seconds(decode(32, 1024)) > full.seconds(decode(32, 1024))
    assert sparse.seconds(decode(32, 131_072)) < full.seconds(decode(32, 131_072))


def test_a_token_takes_at_least_the_active_weights_once():
    step = model("qwen3-next-80b-a3b", 4)
    share = num_active_parameters(step.arch) / num_text_parameters(step.arch)
    assert share < 0.06
    floor_s = 2.0 * num_active_parameters(step.arch) / 4 / load_catalog().accelerators["H200-SXM"].bandwidth_bytes_per_s
    assert float(step.seconds(decode(1, 100))[0]) > floor_s
