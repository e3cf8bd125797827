"""Quantising the input of products: within what wrote it or in a kernel of its own, by engine and checkpoint."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest

from gpufleet.architecture.parse import parse_architecture
from gpufleet.catalog.calibration import load_calibration, load_formulas
from gpufleet.catalog.engine_eras import load_engine
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.models import load_model_config, shipped_architecture
from gpufleet.domain.calibration import Calibration, engine_index
from gpufleet.domain.candidates import Candidates, Palette
from gpufleet.domain.precision import BF16, FP8, NVFP4, PER_TENSOR, STATIC, WeightFormat
from gpufleet.performance.elementwise import elementwise_s
from gpufleet.performance.gemm import gemm_s, quantised_bytes
from gpufleet.performance.layer_operators import SCALE_SEARCH
from gpufleet.performance.operator_groups import QUANTISATION
from gpufleet.performance.step import StepLoad, StepModel
from gpufleet.units import MICROSECOND

ACCELERATORS = tuple(load_catalog().accelerators.values())
NAMES = [a.name for a in ACCELERATORS]
LAYERS = 32
FP8_EVERYWHERE = WeightFormat.uniform(FP8)
TOKEN, PROMPT = StepLoad(np.ones(1), 100.0), StepLoad(np.zeros(1), 1.0, 1.0, 4096.0)


@lru_cache(maxsize=1)
def calibration() -> Calibration:
    return load_calibration(ACCELERATORS)


def model(
    weights: WeightFormat,
    engine: str,
    version: str | None = None,
    gpu: str = "H100-SXM",
    name: str = "llama-3.1-8b",
    num_stages: int = 1,
) -> StepModel:
    """A model on one GPU, or one a stage."""
    zero = np.zeros(1, dtype=np.int64)
    candidates = Candidates(
        Palette(ACCELERATORS, (weights,), (BF16,), (load_engine(engine, version),)),
        accelerator=zero + NAMES.index(gpu),
        weight_format=zero,
        kv_precision=zero,
        engine=zero,
        tp=zero + 1,
        pp=zero + num_stages,
        ep=zero + 1,
        attention_dp=zero + 1,
        link_is_pcie=np.zeros(1, dtype=np.bool_),
        through_host=np.zeros(1, dtype=np.bool_),
        link_bytes_per_s=np.zeros(1),
    )
    return StepModel.build(shipped_architecture(name), candidates, calibration())


def kernels(of: StepModel, name: str, load: StepLoad = TOKEN) -> float:
    """How many kernels of this name a layer launches."""
    return sum(o.count for o in of.operations(load) if o.name == name) / LAYERS


@pytest.mark.parametrize(
    ("engine", "version", "weights", "apart"),
    [
        ("tensorrt-llm", None, FP8_EVERYWHERE, 2),
        ("tensorrt-llm", "1.0.0rc3", FP8_EVERYWHERE, 3),
        ("tensorrt-llm", None, WeightFormat.uniform(NVFP4), 3),
        ("vllm", None, FP8_EVERYWHERE, 1),
        ("sglang", None, FP8_EVERYWHERE, 4),
        ("sglang", None, WeightFormat.uniform(BF16), 0),
    ],
)
def test_an_engine_quantises_apart_what_it_does_not_fuse(
    engine: str, version: str | None, weights: WeightFormat, apart: int
) -> None:
    gpu = "B200" if weights.mlp is NVFP4 else "H100-SXM"
    assert kernels(model(weights, engine, version, gpu), QUANTISATION) == apart


def test_a_gpu_without_fp8_arithmetic_quantises_nothing() -> None:
    assert kernels(model(FP8_EVERYWHERE, "vllm", gpu="A100-SXM4-80GB"), QUANTISATION) == 0


def test_only_scales_that_nobody_stored_are_searched_and_by_tensorrt_llm_alone() -> None:
    stored, found = (replace(FP8_EVERYWHERE, activation_scales=scales) for scales in (STATIC, PER_TENSOR))
    assert [kernels(model(w, "tensorrt-llm"), SCALE_SEARCH) for w in (FP8_EVERYWHERE, stored, found)] == [0, 0, 2]
    assert kernels(model(found, "vllm"), SCALE_SEARCH) == 0


def test_the_search_for_scales_takes_7_microseconds_a_product() -> None:
    """quantize/trtllm/computescale of aiconfigurator-core 0.12.0 on an H100: 7.2 us for a row of 4,096 or 12,288."""
    found = replace(FP8_EVERYWHERE, activation_scales=PER_TENSOR)
    searches = [o for o in model(found, "tensorrt-llm").operations(TOKEN) if o.name == SCALE_SEARCH]
    assert [float(o.seconds[0]) for o in searches] == pytest.approx([7.2 * MICROSECOND] * 2, rel=0.01)


def test_a_checkpoint_says_whether_scales_are_searched() -> None:
    config = {**load_model_config("llama-3.1-8b"), "quantization_config": {"quant_method": "fp8"}}
    schemes = [{**config["quantization_config"], "activation_scheme": scheme} for scheme in ("static", "dynamic")]
    stored = [parse_architecture({**config, "quantization_config": q}, "m").weights for q in schemes]
    assert [kernels(model(w, "tensorrt-llm"), SCALE_SEARCH) for w in stored] == [0, 2]


def test_prompts_under_older_tensorrt_llm_wait_for_quantisation() -> None:
    def seconds(version: str) -> float:
        of = model(FP8_EVERYWHERE, "tensorrt-llm", version)
        return float(of.terms(PROMPT)[QUANTISATION][0])

    assert seconds("1.0") > seconds("1.2") > 2 * seconds("1.3")


@pytest.mark.parametrize(
    ("gpu", "call_us", "search_us"), [("H100-SXM", 18.6, 7.3), ("H200-SXM", 16.9, 7.3), ("B200", 18.6, 8.9)]
)
def test_fp8_products_of_tensorrt_llm_hold_no_search(gpu: str, call_us: float, search_us: float) -> None:
    """Measured calls of 8 x 4,096 x 4,096 and their search for a scale (aiconfigurator-core 0.12.0, 1.3.0rc20)."""
    place, first = np.array([NAMES.index(gpu)]), np.array([0])
    curves = calibration().gemm(place, ["fp8"], first, engine_index(["tensorrt-llm"]))
    streams, moved_bytes = load_formulas().streams, 8 * quantised_bytes(curves, 4096)
    seconds = gemm_s(curves, 8.0, 4096, 4096) + elementwise_s(streams, curves.bandwidth_bytes_per_s, moved_bytes)
    assert float(seconds[0]) == pytest.approx((call_us - search_us) * MICROSECOND, rel=0.08)


def test_a_row_is_read_in_16_bits_and_written_in_fewer() -> None:
    place, first = np.array([NAMES.index("B200")]), np.array([0])
    of = {name: calibration().gemm(place, [name], first) for name in ("bf16", "fp8", "nvfp4")}
    assert {name: float(quantised_bytes(curves, 1600)[0]) for name, curves in of.items()} == {
        "bf16": 0.0,
        "fp8": 4800.0,
        "nvfp4": 3200.0 + 900.0,
    }


def test_the_call_of_a_product_quantises_its_input_too() -> None:
    """SGLang fuses nothing: four products of a layer are launched by as many calls in fp8 as in 16 bits."""
    narrow, wide = (model(weights, "sglang") for weights in (FP8_EVERYWHERE, WeightFormat.uniform(BF16)))
    assert narrow.num_kernels - wide.num_kernels == 4 * LAYERS
    assert narrow.num_calls == wide.num_calls == wide.num_kernels


@pytest.mark.parametrize(("weights", "apart"), [(FP8_EVERYWHERE, 4), (WeightFormat.uniform(BF16), 0)])
def test_shared_experts_quantise_as_other_products_do(weights: WeightFormat, apart: int) -> None:
    """DeepSeek-V2-Lite: two products of attention and two of dense or shared experts in each of 27 layers."""
    of = model(weights, "sglang", name="deepseek-v2-lite")
    assert sum(o.count for o in of.operations(TOKEN) if o.name == QUANTISATION) == 27 * apart


def test_shared_experts_search_for_scales_too() -> None:
    found = replace(FP8_EVERYWHERE, activation_scales=PER_TENSOR)
    searched = model(found, "tensorrt-llm", name="deepseek-v2-lite").operations(TOKEN)
    assert sum(o.count for o in searched if o.name == SCALE_SEARCH) == 27 * 3


def test_the_last_of_two_stages_quantises_for_the_head_of_both_micro_batches() -> None:
    head = replace(WeightFormat.uniform(BF16), head=FP8)
    one, two = (model(head, "sglang", num_stages=stages).terms(StepLoad(np.full(1, 2.0), 100.0)) for stages in (1, 2))
    assert two[QUANTISATION][0] == pytest.approx(2 * one[QUANTISATION][0], rel=0.05)
