"""Ranges and grades of predictions."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gpufleet.api import estimate
from gpufleet.api.configured import one_candidate
from gpufleet.catalog.calibration import calibration_of
from gpufleet.catalog.engine_eras import load_engine
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.models import shipped_architecture
from gpufleet.domain.layout import Layout
from gpufleet.domain.precision_labels import kv_precision, weight_format
from gpufleet.performance.serving import Lengths
from gpufleet.performance.step import StepModel
from gpufleet.performance.uncertainty import crowding, grades, regime_ratio, time_bounds, weighty_curves
from gpufleet.provenance import Grade

FEW = np.array([16.0])
USUAL = Lengths(1000.0, 500.0)


def model(name: str, gpu: str, engine: str = "vllm", layout: Layout = Layout(), precision=None) -> StepModel:  # noqa: B008
    tables, arch = load_catalog(), shipped_architecture(name)
    profile, weights = load_engine(engine), weight_format(arch, precision)
    candidates = one_candidate(
        tables,
        tables.accelerators[gpu],
        profile,
        weights,
        kv_precision(weights, profile),
        layout,
        None,
    )
    return StepModel.build(arch, candidates, calibration_of(tables))


def test_measured_kernels_add_nothing_to_the_range_of_the_engine() -> None:
    constants = load_engine("vllm").constants
    bounds = time_bounds(model("llama-3.1-8b", "H100-SXM"), FEW, USUAL)["tpot"]
    assert bounds.low_ratio[0] == pytest.approx(math.exp(min(constants["tpot_log_low"].value, 0)))
    assert bounds.high_ratio[0] == pytest.approx(math.exp(max(constants["tpot_log_high"].value, 0)))


@pytest.mark.parametrize("quantity", ["tpot", "ttft"])
@pytest.mark.parametrize("gpu", ["MI300X", "T4", "L4"])
def test_borrowed_kernels_widen_both_ends(gpu: str, quantity: str) -> None:
    own, lent = (
        time_bounds(model("llama-3.1-8b", name, precision="fp16"), FEW, USUAL)[quantity] for name in ("H100-SXM", gpu)
    )
    assert lent.low_ratio[0] < own.low_ratio[0]
    assert lent.high_ratio[0] > own.high_ratio[0]


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm", "gpt-fast", "transformers", "llama.cpp"])
@pytest.mark.parametrize("quantity", ["tpot", "ttft"])
def test_the_expected_value_lies_within_every_range(engine: str, quantity: str) -> None:
    bounds = time_bounds(model("llama-3.1-8b", "H100-SXM", engine), FEW, USUAL)[quantity]
    assert bounds.low_ratio[0] < 1 < bounds.high_ratio[0]


def test_ranges_widen_beyond_the_batches_that_were_measured() -> None:
    at = model("llama-3.1-8b", "H100-SXM")
    measured, beyond = (time_bounds(at, np.array([float(batch)]), USUAL)["tpot"] for batch in (256, 8192))
    assert beyond.low_ratio[0] < measured.low_ratio[0]
    assert beyond.high_ratio[0] > measured.high_ratio[0]
    assert time_bounds(at, FEW, USUAL)["tpot"].high_ratio[0] == measured.high_ratio[0]


@pytest.mark.parametrize("quantity", ["tpot", "ttft"])
@pytest.mark.parametrize("lengths", [Lengths(1e6, 500.0), Lengths(2.0, 500.0), Lengths(1000.0, 1e6)])
def test_ranges_widen_beyond_the_lengths_that_were_measured(quantity: str, lengths: Lengths) -> None:
    at = model("llama-3.1-8b", "H100-SXM")
    known, beyond = (time_bounds(at, FEW, asked)[quantity] for asked in (USUAL, lengths))
    assert beyond.low_ratio[0] < known.low_ratio[0]
    assert beyond.high_ratio[0] > known.high_ratio[0]


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm", "gpt-fast", "transformers", "llama.cpp"])
@pytest.mark.parametrize("quantity", ["tpot", "ttft"])
def test_no_range_shrinks_or_jumps_as_clients_join(engine: str, quantity: str) -> None:
    at = model("llama-3.1-8b", "H100-SXM", engine)
    clients = np.geomspace(1, 4096, 400)
    widths = [np.log(time_bounds(at, np.array([n]), USUAL)[quantity].high_ratio[0]) for n in clients]
    growth = np.diff(widths) / widths[:-1]
    assert growth.min() >= -1e-12
    assert growth.max() < 0.05


def test_the_first_token_is_known_worst_where_groups_wait_for_each_other() -> None:
    together, apart = (
        time_bounds(
            model("deepseek-v3", "B200", layout=Layout(tp=tp, ep=8, attention_dp=dp)), np.array([64.0 * dp]), USUAL
        )
        for tp, dp in ((8, 1), (1, 8))
    )
    assert apart["ttft"].high_ratio[0] >= together["ttft"].high_ratio[0]
    assert apart["tpot"].high_ratio[0] == together["tpot"].high_ratio[0]


def test_a_lone_request_without_groups_has_the_narrowest_first_token() -> None:
    """64 sequences of a group: log2(3) doublings of crowding."""
    assert crowding(64.0) == pytest.approx(math.log2(3))
    assert regime_ratio(0.2, 0.5, 64.0, 1) == pytest.approx(math.exp(0.2 * math.log2(3)))
    assert regime_ratio(0.2, 0.5, 0.0, 1) == 1


@pytest.mark.parametrize(
    ("gpu", "engine", "grade"),
    [
        ("H100-SXM", "vllm", Grade.MEASURED),
        ("T4", "vllm", Grade.TRANSFERRED),
        ("MI300X", "vllm", Grade.ROOFLINE),
        ("H100-SXM", "transformers", Grade.TRANSFERRED),
    ],
)
def test_the_worst_of_kernels_and_engine_grades_the_answer(gpu: str, engine: str, grade: Grade) -> None:
    assert grades(model("llama-3.1-8b", gpu, engine, precision="fp16"))[0] >= grade


def test_a_mixture_is_graded_by_its_experts_and_a_latent_model_by_its_own_attention() -> None:
    dense, mixture, latent = (model(n, "H100-SXM") for n in ("llama-3.1-8b", "qwen3-30b-a3b", "deepseek-v2-lite"))
    assert weighty_curves(dense)[1] is dense.hardware.mlp_gemm
    assert weighty_curves(mixture)[1] is mixture.hardware.experts
    assert weighty_curves(latent)[2] is latent.hardware.latent_attention.decode


def test_links_count_for_the_grade_only_where_gpus_talk() -> None:
    alone, together = (model("llama-3.1-8b", "L4", layout=Layout(tp=n)) for n in (1, 2))
    assert grades(together)[0] >= grades(alone)[0]


def test_no_range_goes_below_the_reading_of_the_weights() -> None:
    """Llama-3.1-8B in bf16 reads 15 GB for a token: 50 ms at the 300 GB/s of an L4, whatever the engine."""
    found = estimate("llama-3.1-8b", "L4:1", input_tokens=100, output_tokens=100, batch=1)
    assert 0.048 < found.tpot_s.low < found.tpot_s.value < found.tpot_s.high
