"""Gated delta nets, and attention over chosen tokens with its index: measured curves that behave."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

import numpy as np
import pytest

from gpufleet.catalog import calibration as kernels
from gpufleet.catalog.calibration import load_calibration
from gpufleet.catalog.calibration import read_tables as kernel_file
from gpufleet.catalog.engine_eras import load_engine
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.models import shipped_architecture
from gpufleet.domain.calibration import MIXER_OPERATORS, Calibration
from gpufleet.domain.candidates import Candidates, Palette
from gpufleet.domain.precision_labels import kv_precision
from gpufleet.performance.step import StepLoad, StepModel
from gpufleet.performance.uncertainty import grades, mixer_curves
from gpufleet.provenance import Grade

ACCELERATORS = tuple(load_catalog().accelerators.values())
NAMES = [a.name for a in ACCELERATORS]
MODELS = ("qwen3.5-27b", "kimi-linear-48b-a3b", "deepseek-v3.2", "glm-5-fp8", "minimax-m3", "deepseek-v4-flash")
ENGINES = ("vllm", "sglang", "tensorrt-llm", "llama.cpp")


@lru_cache(maxsize=1)
def calibration() -> Calibration:
    return load_calibration(ACCELERATORS)


@lru_cache(maxsize=128)
def model(name: str, gpu: str, engine: str = "vllm", ranks: tuple[int, ...] = (8,)) -> StepModel:
    arch, profile, zero = shipped_architecture(name), load_engine(engine), np.zeros(len(ranks), dtype=np.int64)
    candidates = Candidates(
        Palette(ACCELERATORS, (arch.weights,), (kv_precision(arch.weights, profile),), (profile,)),
        accelerator=zero + NAMES.index(gpu),
        weight_format=zero,
        kv_precision=zero,
        engine=zero,
        tp=np.array(ranks),
        pp=zero + 1,
        ep=zero + 1,
        attention_dp=zero + 1,
        link_is_pcie=zero > 0,
        through_host=zero > 0,
        link_bytes_per_s=zero + 450e9,
    )
    return StepModel.build(arch, candidates, calibration())


def loads(sequences: np.ndarray | float, context: np.ndarray | float) -> StepLoad:
    return StepLoad(np.reshape(sequences, (-1, 1)) + 0.0, np.reshape(context, (-1, 1)) + 0.0)


def prompts(number: np.ndarray | float, tokens: np.ndarray | float) -> StepLoad:
    tokens = np.reshape(tokens, (-1, 1)) + 0.0
    return StepLoad(0.0 * tokens, 1.0, np.reshape(number, (-1, 1)) + 0.0, tokens)


def seconds_of(step: StepModel, kernel: str, load: StepLoad) -> np.ndarray:
    """Seconds of one layer's operators of this kernel, per load."""
    found = [o.seconds[..., 0] for o in step.operations(load) if o.kernel == kernel]
    assert found
    return np.asarray(found[0])


def test_a_state_update_takes_what_was_measured() -> None:
    """Qwen3.5 with 32 value heads a GPU, 64 sequences, vLLM 0.24 on H100 and B200: 95 + 4 us, 49 + 4 us."""
    for gpu, measured_s in (("H100-SXM", 99e-6), ("B200", 53e-6)):
        step = model("qwen3.5-35b-a3b", gpu, ranks=(1,))
        found = seconds_of(step, "state update", loads(64.0, 1000.0))
        assert found == pytest.approx(measured_s, rel=0.06)


def test_engines_scan_prompts_with_kernels_of_their_own() -> None:
    """On H100 the kernels of vLLM take a third of the seconds of those of SGLang: 0.42 and 0.11 of the roofline."""
    ours, theirs = (
        seconds_of(model("qwen3.5-35b-a3b", "H100-SXM", engine, (1,)), "chunked scan", prompts(4.0, 8192.0))
        for engine in ("vllm", "sglang")
    )
    assert 2.5 < (theirs / ours)[0] < 6.0


def test_choosing_is_part_of_what_a_prompt_pays() -> None:
    """GLM-5 on H200, 16 prompts of 1,024 tokens after 16,384: a choice takes 0.3 to 0.7 of its scores' 2.5 ms."""
    step = model("glm-5-fp8", "H200-SXM")
    load = prompts(16.0, 16_384.0)
    share = seconds_of(step, "choice over prompts", load) / seconds_of(step, "index prefill", load)
    assert 0.2 < share[0] < 0.8


def test_an_engine_that_reads_full_slots_pays_for_short_prompts_too() -> None:
    """vLLM's sparse kernel reads 2,048 slots for any token: 4,096 tokens take nearly as long in 256 prompts as in 4."""
    step = model("deepseek-v3.2", "H200-SXM")
    short, long = seconds_of(step, "sparse prefill", prompts(np.array([256.0, 4.0]), np.array([16.0, 1024.0])))
    assert 0.75 * long < short <= long


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("gpu", ["H200-SXM", "B200", "L40S", "A100-SXM4-80GB", "MI300X"])
@pytest.mark.parametrize("name", MODELS)
def test_seconds_never_fall_and_never_jump(name: str, gpu: str, engine: str) -> None:
    """Over sequences, context, prompts and their tokens, in steps of 1 %: not faster, and not 10 % slower."""
    step, sweep = model(name, gpu, engine), 1.01 ** np.arange(0, 1100)
    for load in (
        loads(sweep[sweep < 2000], 3000.0),
        loads(24.0, sweep),
        prompts(sweep[sweep < 500], 700.0),
        prompts(2.0, sweep[sweep < 30_000]),
    ):
        seconds = step.seconds(load)[:, 0]
        assert np.all(np.isfinite(seconds)) == step.is_supported[0]
        if step.is_supported[0]:
            assert np.all(np.diff(seconds) >= -1e-9 * seconds[1:])
            assert np.all(seconds[1:] <= 1.1 * seconds[:-1])


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", MODELS)
def test_ranks_never_save_more_than_their_share(name: str, engine: str) -> None:
    ranks = (1, 2, 4)
    step = model(name, "H200-SXM", engine, ranks)
    for load in (loads(np.array([1.0, 16.0, 256.0]), 5000.0), prompts(np.array([1.0, 8.0]), np.array([300.0, 9000.0]))):
        seconds = step.seconds(load)
        for at, rank in enumerate(ranks):
            assert np.all(seconds[:, at] * rank >= 0.97 * seconds[:, 0])


def test_a_gpu_with_the_formats_runs_them_all_whoever_measured_their_kernels() -> None:
    for name in MODELS:
        assert all(
            model(name, gpu, engine).is_supported[0] for gpu in ("H200-SXM", "B200", "L40S") for engine in ENGINES
        )


def test_the_grade_says_whose_kernels_were_measured() -> None:
    measured = {"qwen3.5-27b": ("H100-SXM", "L40S"), "deepseek-v3.2": ("H200-SXM", "B200")}
    for name, gpus in measured.items():
        for gpu in gpus:
            assert {int(c.grade[0]) for c in mixer_curves(model(name, gpu))} == {Grade.MEASURED}
    lent = mixer_curves(model("kimi-linear-48b-a3b", "A100-SXM4-80GB"))
    assert {int(c.grade[0]) for c in lent} == {Grade.TRANSFERRED}
    assert grades(model("deepseek-v4-flash", "H200-SXM"))[0] == Grade.TRANSFERRED


def test_a_borrowed_curve_is_trusted_less_than_a_measured_one() -> None:
    own, lent = (mixer_curves(model("kimi-linear-48b-a3b", gpu)) for gpu in ("H100-SXM", "A100-SXM4-80GB"))
    for measured, borrowed in zip(own, lent, strict=True):
        assert borrowed.high_ratio[0] > measured.high_ratio[0]


def test_tables_are_read_when_a_model_has_such_an_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    read: set[str] = set()
    monkeypatch.setenv("GPUFLEET_CACHE", "")
    monkeypatch.setattr(kernels, "read_tables", lambda operator: read.add(operator) or kernel_file(operator))
    fresh = load_calibration(ACCELERATORS)
    assert set(fresh.tables) > set(MIXER_OPERATORS)
    assert len(fresh.tables) == len(list(fresh.tables))
    with pytest.raises(KeyError):
        fresh.tables["collectives"]
    llama = model("llama-3.1-8b", "H100-SXM")
    assert StepModel.build(llama.arch, llama.candidates, fresh).is_supported.all()
    assert read == {"gemm", "decode", "prefill", "window", "collectives"}


def test_a_step_rises_with_its_sequences_also_beyond_all_that_was_measured() -> None:
    step = model("glm-5-fp8", "B200", "sglang")
    seconds = step.seconds(loads(2.0 ** np.arange(14), 200_000.0))[:, 0]
    assert all(low <= high for low, high in pairwise(seconds))
