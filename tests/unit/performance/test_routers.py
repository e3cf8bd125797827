"""The router of experts: what fp32 costs where an engine has no kernel for it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gpufleet.catalog.calibration import load_calibration
from gpufleet.catalog.engine_eras import load_engine
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.models import shipped_architecture
from gpufleet.domain.candidates import Candidates, Palette
from gpufleet.domain.engine import EngineProfile
from gpufleet.domain.layout import Layout
from gpufleet.domain.precision_labels import kv_precision
from gpufleet.optimize.links import usual_link
from gpufleet.performance.step import StepLoad, StepModel

ACCELERATORS = tuple(load_catalog().accelerators.values())
OF_ROUTER = ("routes_in_fp32", "plain_fp32_router")


def step_s(profile: EngineProfile, sequences: float, model: str = "minimax-m2.5") -> float:
    """Kernels of a decode step on four B200."""
    arch, zero = shipped_architecture(model), np.zeros(1, dtype=np.int64)
    names = [a.name for a in ACCELERATORS]
    is_pcie, rate = usual_link(ACCELERATORS[names.index("B200")], Layout(4).num_devices)
    candidates = Candidates(
        Palette(ACCELERATORS, (arch.weights,), (kv_precision(arch.weights, profile),), (profile,)),
        accelerator=zero + names.index("B200"),
        weight_format=zero,
        kv_precision=zero,
        engine=zero,
        tp=zero + 4,
        pp=zero + 1,
        ep=zero + 1,
        attention_dp=zero + 1,
        link_is_pcie=np.array([is_pcie]),
        link_bytes_per_s=np.array([rate]),
    )
    load = StepLoad(np.array([sequences]), 1900.0)
    return float(StepModel.build(arch, candidates, load_calibration(ACCELERATORS)).seconds(load)[0])


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
