"""The router of experts: what fp32 costs where an engine has no kernel for it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.unit.performance.shipped_steps import shipped_step_model

from gpufleet.catalog.engine_eras import load_engine
from gpufleet.domain.engine import EngineProfile
from gpufleet.performance.step import StepLoad

OF_ROUTER = ("routes_in_fp32", "plain_fp32_router")


def step_s(profile: EngineProfile, sequences: float, model: str = "minimax-m2.5") -> float:
    """Kernels of a decode step on four B200."""
    load = StepLoad(np.array([sequences]), 1900.0)
    return float(shipped_step_model(model, profile, "B200", 4).seconds(load)[0])


def in_bf16(profile: EngineProfile) -> EngineProfile:
    kept = {name: figure for name, figure in profile.constants.items() if name not in OF_ROUTER}
    return replace(profile, constants=kept)


@pytest.mark.parametrize(("sequences", "measured"), [(4, 0.085), (8, 0.066), (32, 0.087), (128, 0.068)])
def test_a_router_in_fp32_costs_what_was_measured(sequences: int, measured: float) -> None:
    """Tokens/s that MiniMax-M2.5 gains on B200 when it leaves fp32: vllm-project/vllm pull/41332."""
    plain = load_engine("vllm", "0.19.0")
    gained = step_s(plain, sequences) / step_s(in_bf16(plain), sequences) - 1
    assert gained == pytest.approx(measured, abs=0.05)


def test_newer_versions_and_other_models_do_not_pay() -> None:
    old, new = load_engine("vllm", "0.19.0"), load_engine("vllm", "0.27.0")
    assert step_s(in_bf16(new), 4) == step_s(new, 4)
    assert step_s(in_bf16(old), 4, "qwen3-30b-a3b") == step_s(old, 4, "qwen3-30b-a3b")
