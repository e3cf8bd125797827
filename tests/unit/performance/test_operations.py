"""A step as a list of operations: what each is, what it does, what bounds it."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest

from gpufleet.catalog.calibration import load_calibration
from gpufleet.catalog.engine_eras import load_engine
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.models import shipped_architecture
from gpufleet.domain.candidates import Candidates, Palette
from gpufleet.domain.layout import Layout
from gpufleet.domain.precision import PRECISIONS, WeightFormat
from gpufleet.optimize.links import usual_link
from gpufleet.performance.attention import attention_decode_s
from gpufleet.performance.attention_groups import Heads
from gpufleet.performance.gemm import gemm_s
from gpufleet.performance.latent_attention import absorb_s, latent_core_s
from gpufleet.performance.layer_operators import cache_bytes_per_s_of
from gpufleet.performance.moe import busiest_rank, experts_s
from gpufleet.performance.operations import Operation
from gpufleet.performance.step import StepLoad, StepModel

ACCELERATORS = tuple(load_catalog().accelerators.values())
NAMES = [a.name for a in ACCELERATORS]
FORMATS = tuple(WeightFormat.uniform(PRECISIONS[name]) for name in ("bf16", "fp8"))
LAYOUTS = (
    Layout(), Layout(tp=2), Layout(tp=8), Layout(tp=4, ep=4), Layout(tp=2, pp=2), Layout(attention_dp=8, ep=8),
    Layout(tp=2, attention_dp=4, ep=8), Layout(tp=8, ep=2), Layout(pp=4), Layout(tp=4, pp=2),
)  # fmt: skip
MODELS = ("llama-3.1-8b", "llama-3.3-70b", "gemma-3-12b-text", "mixtral-8x7b", "qwen3-235b-a22b", "deepseek-v3")
LOADS = {
    "one token": StepLoad(np.ones(1), 100.0),
    "decode": StepLoad(np.full(1, 64.0), 3000.0),
    "mixed": StepLoad(np.full(1, 63.0), 3000.0, 2.0, 700.0),
    "prompt": StepLoad(np.zeros(1), 1.0, 1.0, 2000.0),
}
RISING = 0.05


@lru_cache(maxsize=1)
def calibration():
    return load_calibration(ACCELERATORS)


@lru_cache(maxsize=32)
def model(name: str, gpu: str = "H200-SXM", layouts: tuple[Layout, ...] = LAYOUTS) -> StepModel:
    """Every layout in both formats."""
    rows = [(x, f) for x in layouts for f in range(len(FORMATS))]
    links = [usual_link(ACCELERATORS[NAMES.index(gpu)], x.num_devices) for x, _ in rows]
    zero = np.zeros(len(rows), dtype=np.int64)
    candidates = Candidates(
        Palette(ACCELERATORS, FORMATS, (PRECISIONS["bf16"],), (load_engine("vllm"),)),
        accelerator=zero + NAMES.index(gpu),
        weight_format=np.array([f for _, f in rows]),
        kv_precision=zero,
        engine=zero,
        tp=np.array([x.tp for x, _ in rows]),
        pp=np.array([x.pp for x, _ in rows]),
        ep=np.array([x.ep for x, _ in rows]),
        attention_dp=np.array([x.attention_dp for x, _ in rows]),
        link_is_pcie=np.array([is_pcie for is_pcie, _ in links]),
        through_host=np.zeros(len(links), dtype=np.bool_),
        link_bytes_per_s=np.array([rate for _, rate in links]),
    )
    return StepModel.build(shipped_architecture(name), candidates, calibration())


def load(name: str, rows: int = 2 * len(LAYOUTS)) -> StepLoad:
    x = LOADS[name]
    return StepLoad(np.repeat(x.decoding, rows), x.decode_context_tokens, x.prefilling, x.prompt_tokens)


def of_kernel(found: list[Operation], kernel: str) -> list[Operation]:
    return [operation for operation in found if operation.kernel == kernel]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("kind", LOADS)
def test_operations_add_up_to_the_terms_and_terms_to_the_step(name: str, kind: str) -> None:
    found = model(name)
    operations, terms = found.operations(load(kind)), found.terms(load(kind))
    for term, seconds in terms.items():
        np.testing.assert_allclose(sum(o.total_s for o in operations if o.name == term), seconds, rtol=1e-12)
    np.testing.assert_allclose(sum(terms.values()), found.seconds(load(kind)), rtol=1e-12)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("kind", LOADS)
def test_no_operation_beats_its_roofline(name: str, kind: str) -> None:
    for operation in model(name).operations(load(kind)):
        assert (operation.seconds >= operation.roofline_s * (1 - 1e-9)).all() or operation.kernel in (
            "all-reduce", "all-gather", "reduce-scatter",
        ), operation.name  # fmt: skip
        assert (operation.seconds > 0).tolist() == (operation.bound != "nothing").tolist()


@pytest.mark.parametrize("name", MODELS)
def test_a_candidate_takes_as_long_alone_as_among_others(name: str) -> None:
    found = model(name)
    together = found.seconds(load("mixed"))
    for row in (0, 5, 11, len(together) - 1):
        alone = StepModel.build(found.arch, found.candidates.take(np.array([row])), calibration())
        np.testing.assert_allclose(alone.seconds(load("mixed", 1)), together[row : row + 1], rtol=1e-12)


@pytest.mark.parametrize("name", MODELS)
def test_loads_side_by_side_take_what_each_takes_alone(name: str) -> None:
    """Arrays of [load, candidate] are as good as one load at a time."""
    found, rows = model(name), len(model(name).candidates)
    batches = np.array([[1.0], [7.0], [64.0]]) * np.ones(rows)
    together = found.seconds(StepLoad(batches, 3000.0, 1.0, 700.0))
    alone = [found.seconds(StepLoad(batch, 3000.0, 1.0, 700.0)) for batch in batches]
    np.testing.assert_allclose(together, alone, rtol=1e-12)


def test_the_weights_of_a_dense_model_are_read_once_in_a_step() -> None:
    """Llama 3.1 8B in bf16 without its embedding table: 8.03e9 - 0.525e9 parameters of 2 bytes."""
    found = model("llama-3.1-8b", layouts=(Layout(),))
    products = of_kernel(found.operations(load("one token", 2)), "gemm")
    read_bytes = sum(o.count * o.moved_bytes[0] for o in products)
    assert read_bytes == pytest.approx(2 * (8.03e9 - 0.525e9), rel=0.01)
    flop = sum(o.count * o.flop[0] for o in products)
    assert flop == pytest.approx(2 * (8.03e9 - 0.525e9), rel=0.01)


def test_shapes_are_those_of_one_device() -> None:
    found = model("llama-3.3-70b", layouts=(Layout(tp=8),))
    operations = found.operations(load("decode", 2))
    projection = next(o for o in operations if o.kernel == "gemm")
    first = {label: float(size[0]) for label, size in projection.shape}
    assert first == {"m": 64.0, "n": (64 + 2 * 8) * 128 / 8, "k": 8192.0}
    (attention,) = of_kernel(operations, "attention decode")
    assert {label: float(size[0]) for label, size in attention.shape} == {
        "sequences": 64.0, "heads": 8.0, "kv heads": 1.0, "head size": 128.0, "context": 3000.0,
    }  # fmt: skip
    assert attention.count == 80


def test_layers_that_are_alike_are_one_operation() -> None:
    """DeepSeek-V3: 3 dense and 58 MoE layers share their attention; only 58 route."""
    operations = model("deepseek-v3").operations(load("decode"))
    assert {o.count for o in of_kernel(operations, "latent decode")} == {61}
    assert [o.count for o in of_kernel(operations, "gemm") if o.name == "router"] == [58]
    assert [o.count for o in operations if o.name == "mlp" and o.kernel == "gemm"] == [3, 3]


def test_windowed_and_full_layers_are_told_apart() -> None:
    """Gemma 3 12B: 5 of 6 layers see 1,024 tokens."""
    attention = of_kernel(model("gemma-3-12b-text").operations(load("decode")), "attention decode")
    context = {float(dict(o.shape)["context"][0]): o.count for o in attention}
    assert context == {1024.0: 40, 3000.0: 8}


def test_operations_come_in_the_order_that_a_token_meets_them() -> None:
    names = [o.name for o in model("deepseek-v3").operations(load("mixed"))]
    order = ["attention projections", "attention over the KV cache", "all-reduce after attention", "mlp", "experts"]
    assert [names.index(name) for name in order] == sorted(names.index(name) for name in order)
    assert names[-1] == "output head"


def test_the_stacked_kernels_are_the_kernels() -> None:
    """An operation takes what its kernel's own function says of its shape, but for what keeps it rising over tokens."""
    found = model("deepseek-v3")
    operations, hw = found.operations(load("decode")), found.hardware
    product = of_kernel(operations, "gemm")[1]
    m, n, k = (size for _, size in product.shape)
    np.testing.assert_allclose(product.seconds, gemm_s(hw.attention_gemm, m, n, k), rtol=RISING)
    core, absorb = (of_kernel(operations, kernel)[0] for kernel in ("latent decode", "latent absorb"))
    sequences, heads, context = (size for _, size in core.shape)
    expected = latent_core_s(hw.latent_attention, sequences, heads, context)
    np.testing.assert_allclose(core.seconds, expected, rtol=RISING)
    np.testing.assert_allclose(absorb.seconds, absorb_s(hw.latent_attention, sequences, heads), rtol=RISING)
    (experts,) = of_kernel(found.operations(load("prompt")), "experts")
    c = found.candidates
    popularity = hw.calibration.formulas.routing.popularity_shape.value
    of_rank = busiest_rank(2000.0 / c.pp, 256, 8, c.ep.astype(float), popularity)
    expected = experts_s(hw.experts, of_rank, 7168, 2048, c.ep.astype(float), c.moe_tp.astype(float))
    np.testing.assert_allclose(experts.seconds, expected, rtol=RISING)


def test_attention_of_a_dense_model_is_its_kernel() -> None:
    """But for what keeps it rising over context."""
    found = model("gemma-3-12b-text")
    for attention in of_kernel(found.operations(load("decode")), "attention decode"):
        sequences, heads, kv_heads, head_dim, context = (size for _, size in attention.shape)
        whole = load("decode").decode_context_tokens
        window = np.where(context < whole, context, np.inf)
        expected = attention_decode_s(found.hardware.attention, sequences, heads, kv_heads, head_dim, whole, window)
        np.testing.assert_allclose(attention.seconds, expected, rtol=RISING)


def test_what_query_heads_read_their_cache_with_is_a_figure_of_the_engine_with_its_range() -> None:
    """An A100 has 108 multiprocessors; engines whose kernels share keys and values in a group have no such figure."""
    found, engine = model("llama-2-70b", "A100-SXM4-80GB"), load_engine("tensorrt-llm", "0.6.1")
    figure = engine.constants["cache_bytes_per_s_per_core"]
    assert figure.low < figure.value < figure.high
    half = replace(figure, value=figure.value / 2)
    slower = replace(engine, constants={**engine.constants, "cache_bytes_per_s_per_core": half})
    heads = Heads(np.array([[64.0]]), np.array([[8.0]]), np.array([[128.0]]), np.array([[np.inf]]))
    rates = []
    for each in (engine, slower, load_engine("vllm")):
        palette = replace(found.candidates.palette, engines=(each,))
        rates.append(float(cache_bytes_per_s_of(replace(found.candidates, palette=palette), heads)[0, 0]))
    assert rates == [108 * figure.value, 54 * figure.value, np.inf]


def test_what_bounds_an_operation() -> None:
    """One token reads weights and waits for its tiny exchange; a long prompt computes and fills the link."""
    found = model("llama-3.3-70b", layouts=(Layout(tp=4),))
    token, prompt = (found.operations(load(kind, 2)) for kind in ("one token", "prompt"))
    assert of_kernel(token, "gemm")[2].bound[0] == "bandwidth"
    assert of_kernel(prompt, "gemm")[2].bound[0] == "compute"
    assert of_kernel(token, "all-reduce")[0].bound[0] == "latency"
    assert of_kernel(prompt, "all-reduce")[0].bound[0] == "link"
    assert of_kernel(token, "attention decode")[0].bound[0] == "latency"
    assert of_kernel(prompt, "attention decode")[0].bound[0] == "nothing"


def test_an_operation_knows_the_curves_that_it_took_its_time_from() -> None:
    found = model("qwen3-235b-a22b")
    for operation in found.operations(load("mixed")):
        if operation.kernel == "elementwise":
            assert operation.curves is None
        else:
            assert operation.curves is not None
            assert operation.curves.grade.shape == operation.seconds.shape


@pytest.mark.parametrize(
    ("engine", "kernels"), [("vllm", (2, 0)), ("sglang", (1, 2)), ("tensorrt-llm", (0, 0)), ("transformers", (2, 2))]
)
def test_what_a_measured_call_holds_is_not_added_again(engine: str, kernels: tuple[int, int]) -> None:
    """Kernels of a layer that rotate and write the cache, and that choose experts."""
    found = model("gpt-oss-120b", layouts=(Layout(),))
    palette = replace(found.candidates.palette, engines=(load_engine(engine),))
    own = StepModel.build(found.arch, replace(found.candidates, palette=palette), calibration())
    operations = own.operations(load("decode", 2))
    small = [o for o in operations if o.kernel == "elementwise" and o.seconds.max() > 0]
    counts = (sum(o.count for o in small if o.name.startswith(name)) for name in ("rotary", "router"))
    assert tuple(count / 36 for count in counts) == kernels
