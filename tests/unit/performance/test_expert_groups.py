"""Shared experts beside routed ones: what a second stream hides, and what it does not."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest
from tests.unit.performance.shipped_steps import shipped_step_model

from gpufleet.catalog.engine_eras import load_engine
from gpufleet.performance.operator_groups import QUANTISATION
from gpufleet.performance.step import StepLoad, StepModel


@lru_cache(maxsize=8)
def model(version: str, gpu: str = "B200", engine: str = "vllm") -> StepModel:
    """DeepSeek-V3 in fp8 on eight GPUs."""
    return shipped_step_model("deepseek-v3", load_engine(engine, version), gpu, 8)


def load(sequences: float, prompts: float = 0.0) -> StepLoad:
    return StepLoad(np.array([sequences]), 1000.0, prompts, 64.0 * np.sign(prompts))


def saved_s(at: StepLoad, engine: str = "vllm", versions: tuple[str, str] = ("0.11.0", "0.11.1")) -> float:
    before, after = (model(version, engine=engine).seconds(at)[0] for version in versions)
    return float(before - after)


def test_a_second_stream_saves_what_vllm_measured_of_deepseek_r1() -> None:
    # 23.35 to 22.09 ms a token on eight B200 at batch 32 (vllm-project/vllm pull/26440)
    assert saved_s(load(32.0)) == pytest.approx(1.26e-3, rel=0.25)


def test_no_more_is_hidden_than_shared_experts_take_and_some_of_them_stays() -> None:
    for sequences in (1.0, 16.0, 256.0):
        terms = model("0.11.0").terms(load(sequences))
        assert 0 < saved_s(load(sequences)) < terms["shared experts"][0] + terms[QUANTISATION][0]


def test_each_keeps_what_the_device_needs_for_its_work() -> None:
    for sequences in (1.0, 64.0, 256.0):
        for operation in model("0.11.1").operations(load(sequences)):
            assert operation.seconds[0] >= operation.roofline_s[0] * (1 - 1e-12)


def test_longer_steps_and_steps_with_prompts_run_one_after_the_other() -> None:
    assert saved_s(load(257.0)) == 0.0
    assert saved_s(load(8.0, prompts=1.0)) == 0.0


@pytest.mark.parametrize(
    ("engine", "versions"),
    [("sglang", ("0.4.5", "0.4.6")), ("tensorrt-llm", ("0.18", "0.19")), ("vllm", ("0.8.5", "0.15"))],
)
def test_every_engine_began_with_it_at_some_version(engine: str, versions: tuple[str, str]) -> None:
    assert saved_s(load(32.0), engine, versions) > 0


def test_almost_empty_tiles_of_experts_took_longer_before_kernels_were_tuned_for_them() -> None:
    """Qwen3-235B-A22B in fp8 under vLLM 0.12.0 on two H200: 52 ms a token from 4 to 20 clients (NVIDIA's own runs)."""
    before, after = (
        shipped_step_model("qwen3-235b-a22b", load_engine("vllm", v), "H200-SXM", 4) for v in ("0.12.0", "0.13.0")
    )

    def experts_ratio(at: StepLoad) -> float:
        return float(before.terms(at)["experts"][0] / after.terms(at)["experts"][0])

    assert experts_ratio(load(8.0)) > 1.5
    assert experts_ratio(load(8.0, prompts=128.0)) == pytest.approx(1.0)
