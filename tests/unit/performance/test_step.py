"""One engine step, operator by operator."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest

from gpufleet.architecture.parameters import weights_bytes
from gpufleet.catalog.calibration import load_calibration
from gpufleet.catalog.engine_eras import load_engine
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.models import shipped_architecture
from gpufleet.domain.candidates import Candidates, Palette
from gpufleet.domain.engine import EngineProfile
from gpufleet.domain.layout import Layout
from gpufleet.domain.precision_labels import kv_precision, weight_format
from gpufleet.optimize.links import usual_link
from gpufleet.performance.layer_operators import OVER_CACHE
from gpufleet.performance.step import StepLoad, StepModel

ACCELERATORS = tuple(load_catalog().accelerators.values())
NAMES = [a.name for a in ACCELERATORS]
VLLM = load_engine("vllm")
COLLECTIVE_TERMS = ("all-reduce after attention", "all-reduce after mlp", "expert exchange")


@lru_cache(maxsize=1)
def calibration():
    return load_calibration(ACCELERATORS)


def model(
    name: str,
    gpu: str,
    *layouts: Layout,
    precision: str | None = None,
    link: float | None = None,
    engine: EngineProfile = VLLM,
) -> StepModel:
    arch = shipped_architecture(name)
    weights = weight_format(arch, precision)
    device = ACCELERATORS[NAMES.index(gpu)]
    links = [usual_link(device, x.num_devices) for x in layouts]
    zero = np.zeros(len(layouts), dtype=np.int64)
    candidates = Candidates(
        Palette(ACCELERATORS, (weights,), (kv_precision(weights, engine),), (engine,)),
        accelerator=zero + NAMES.index(gpu),
        weight_format=zero,
        kv_precision=zero,
        engine=zero,
        tp=np.array([x.tp for x in layouts]),
        pp=np.array([x.pp for x in layouts]),
        ep=np.array([x.ep for x in layouts]),
        attention_dp=np.array([x.attention_dp for x in layouts]),
        link_is_pcie=np.array([is_pcie for is_pcie, _ in links]),
        through_host=np.zeros(len(links), dtype=np.bool_),
        link_bytes_per_s=np.array([rate if link is None else link for _, rate in links]),
    )
    return StepModel.build(arch, candidates, calibration())


def decode(batch: float, context: float = 1000.0, rows: int = 1) -> StepLoad:
    return StepLoad(np.full(rows, batch), context)


def prefill(prompt: float, number: float = 1.0, rows: int = 1) -> StepLoad:
    return StepLoad(np.zeros(rows), 1.0, number, prompt)


@pytest.mark.parametrize(
    ("name", "gpu", "layout"),
    [
        ("llama-3.1-8b", "H100-SXM", Layout()),
        ("llama-3.3-70b", "L40S", Layout(tp=4)),
        ("mixtral-8x7b", "A100-SXM4-80GB", Layout(tp=4)),
        ("deepseek-v3", "H200-SXM", Layout(attention_dp=8, ep=8)),
        ("gemma-3-12b-text", "L4", Layout(tp=2)),
        ("gpt2", "H100-SXM", Layout()),
    ],
)
@pytest.mark.parametrize("load", [decode(16.0), prefill(2000.0), StepLoad(np.full(1, 16.0), 800.0, 1.0, 700.0)])
def test_the_terms_are_positive_and_add_up_to_the_step(name: str, gpu: str, layout: Layout, load: StepLoad) -> None:
    found = model(name, gpu, layout)
    terms = found.terms(load)
    assert all(np.isfinite(s).all() and (s >= 0).all() for s in terms.values())
    np.testing.assert_allclose(sum(terms.values()), found.seconds(load))


def test_a_dense_model_has_no_expert_terms_and_a_mixture_has() -> None:
    dense, mixture = (set(model(n, "H100-SXM", Layout(tp=4)).terms(decode(8))) for n in ("qwen3-32b", "qwen3-30b-a3b"))
    assert {"experts", "router", "expert exchange", "shared experts"}.isdisjoint(dense)
    assert {"experts", "router", "expert exchange"} <= mixture
    assert "mlp" in dense
    assert "mlp" not in mixture


def test_shared_experts_and_dense_first_layers_of_deepseek_are_counted() -> None:
    terms = model("deepseek-v3", "H200-SXM", Layout(tp=8)).terms(decode(8))
    assert {"shared experts", "experts", "mlp", "all-reduce after mlp"} <= set(terms)


@pytest.mark.parametrize("name", ["llama-3.1-8b", "qwen3-30b-a3b", "deepseek-v2-lite"])
def test_one_gpu_exchanges_nothing(name: str) -> None:
    terms = model(name, "H100-SXM", Layout()).terms(decode(32))
    assert all(terms[term] == 0 for term in COLLECTIVE_TERMS if term in terms)


def test_each_layer_reduces_twice_however_the_layers_are_dealt_out() -> None:
    terms = model("llama-3.3-70b", "H100-SXM", Layout(tp=4)).terms(decode(32))
    np.testing.assert_allclose(terms["all-reduce after attention"], terms["all-reduce after mlp"])
    assert terms["all-reduce after mlp"] > 80 * 4e-6


@pytest.mark.parametrize(("gpu", "tp"), [("H100-SXM", 8), ("H100-SXM", 2), ("A100-SXM4-80GB", 8), ("B200", 1)])
def test_no_token_of_a_70b_comes_faster_than_its_weights_are_read(gpu: str, tp: int) -> None:
    """141 GB in bf16 over 8 x 3.35 TB/s are 5.2 ms; the embedding table is not read."""
    found = model("llama-3.3-70b", gpu, Layout(tp=tp))
    device = ACCELERATORS[NAMES.index(gpu)]
    embedding_bytes = 128256 * 8192 * 2
    read_bytes = weights_bytes(found.arch, found.arch.weights) - embedding_bytes
    floor_s = read_bytes / (tp * device.bandwidth_bytes_per_s)
    assert floor_s <= found.seconds(decode(1.0, 1.0))[0] <= 3 * floor_s


@pytest.mark.parametrize(
    ("gpu", "precision"), [("H100-SXM", "bf16"), ("H100-SXM", "fp8"), ("L40S", "fp8"), ("A10", None)]
)
@pytest.mark.parametrize("prompt", [512.0, 4096.0, 16384.0])
def test_no_prompt_is_read_beyond_the_arithmetic_peak(gpu: str, precision: str | None, prompt: float) -> None:
    """2 flop per weight of the layers and token: the attention over the prompt comes on top."""
    found = model("llama-3.1-8b", gpu, Layout(), precision=precision)
    weights = found.candidates.palette.weight_formats[0]
    peak = ACCELERATORS[NAMES.index(gpu)].peak_flop_per_s[weights.mlp.arithmetic]
    layer_weights = 32 * (4096 * (4096 + 2 * 1024) + 4096 * 4096 + 3 * 4096 * 14336)
    assert found.seconds(prefill(prompt))[0] >= 2 * layer_weights * prompt / peak


def test_two_stages_of_a_pipeline_take_a_token_as_long_as_half_the_batch_and_wait_for_the_head_of_both() -> None:
    piped, alone = model("llama-3.1-8b", "H100-SXM", Layout(pp=2)), model("llama-3.1-8b", "H100-SXM", Layout())
    head_s = alone.terms(decode(32))["output head"]
    np.testing.assert_allclose(piped.seconds(decode(64)), alone.seconds(decode(32)) + head_s)


def test_a_sequence_that_is_alone_in_a_pipeline_waits_for_no_head_but_its_own() -> None:
    piped, alone = model("llama-3.1-8b", "H100-SXM", Layout(pp=4)), model("llama-3.1-8b", "H100-SXM", Layout())
    np.testing.assert_allclose(piped.seconds(decode(1)), alone.seconds(decode(1)))


def test_attention_of_eight_groups_sees_an_eighth_of_the_batch() -> None:
    grouped, alone = (
        model("deepseek-v3", "H200-SXM", layout).terms(decode(batch))["attention over the KV cache"]
        for layout, batch in ((Layout(attention_dp=8, ep=8), 256.0), (Layout(), 32.0))
    )
    np.testing.assert_allclose(grouped, alone)


def test_fewer_requests_than_groups_still_cost_the_busiest_group_one() -> None:
    found = model("deepseek-v3", "H200-SXM", Layout(attention_dp=8, ep=8))
    one, eight = (found.terms(decode(batch)) for batch in (1.0, 8.0))
    np.testing.assert_allclose(one["attention over the KV cache"], eight["attention over the KV cache"])
    assert one["experts"] < eight["experts"]


def test_experts_see_the_tokens_of_all_groups_and_attention_only_its_own() -> None:
    split, whole = (
        model("qwen3-235b-a22b", "H200-SXM", layout).terms(decode(256.0))
        for layout in (Layout(attention_dp=8, ep=8), Layout(tp=8, ep=8))
    )
    np.testing.assert_allclose(split["experts"], whole["experts"])
    assert split["attention projections"] > whole["attention projections"]


def test_no_decoding_and_no_prompt_leave_attention_idle() -> None:
    found = model("llama-3.1-8b", "H100-SXM", Layout())
    assert found.terms(prefill(500.0))["attention over the KV cache"] == 0
    assert "attention over prompts" not in found.terms(decode(4.0))


def test_a_sliding_window_caps_what_a_decode_step_reads() -> None:
    """Mistral-7B v0.1 sees 4,096 tokens in every layer; Llama-3.1-8B has the same heads and sees all.

    Skipping the hidden tokens costs a few percent.
    """
    windowed, full = (model(n, "H100-SXM", Layout()) for n in ("mistral-7b-v0.1", "llama-3.1-8b"))
    near, far = (windowed.terms(decode(32.0, c))["attention over the KV cache"] for c in (4096.0, 32768.0))
    np.testing.assert_allclose(near, far, rtol=0.1)
    grown = [full.terms(decode(32.0, c))["attention over the KV cache"] for c in (4096.0, 32768.0)]
    assert grown[1] > 5 * grown[0]
    np.testing.assert_allclose(near, grown[0])


def test_local_layers_of_gemma_keep_long_contexts_cheap() -> None:
    """Five of six layers of Gemma-3 see 1,024 tokens: eight times the context costs far less than eight times."""
    found = model("gemma-3-12b-text", "H100-SXM", Layout())
    near, far = (found.terms(decode(32.0, c))["attention over the KV cache"][0] for c in (8192.0, 65536.0))
    assert 1.5 * near < far < 7 * near


def test_every_rank_reads_the_whole_latent_cache() -> None:
    """512 + 64 elements of 2 bytes per token and layer whatever the TP: 15 ms for 64 x 16,000 tokens at 4.8 TB/s."""
    found = model("deepseek-v3", "H200-SXM", Layout(tp=8), Layout(tp=4))
    floor_s = 61 * 64 * 16000 * 576 * 2 / ACCELERATORS[NAMES.index("H200-SXM")].bandwidth_bytes_per_s
    seconds = found.terms(decode(64.0, 16000.0, rows=2))["attention over the KV cache"]
    assert (seconds >= floor_s).all()
    assert seconds[0] > 0.5 * seconds[1]


def test_half_the_link_slows_only_what_crosses_it() -> None:
    wide, narrow = (
        model("llama-3.1-8b", "L40S", Layout(tp=4), link=rate).terms(prefill(4000.0)) for rate in (16e9, 8e9)
    )
    for name, seconds in wide.items():
        if name.startswith("all-reduce"):
            assert narrow[name] > 1.8 * seconds
        elif name != "output head":
            np.testing.assert_allclose(narrow[name], seconds)


def test_quantised_weights_speed_up_a_lone_token_and_not_a_long_prompt_by_as_much() -> None:
    bf16, int4 = (model("llama-3.1-8b", "H100-SXM", Layout(), precision=p) for p in ("bf16", "int4"))
    token = bf16.seconds(decode(1.0)) / int4.seconds(decode(1.0))
    prompt = bf16.seconds(prefill(8000.0)) / int4.seconds(prefill(8000.0))
    assert 1.5 < token[0] < 4
    assert prompt[0] < 1.3


def test_layouts_computed_together_equal_each_on_its_own() -> None:
    layouts = [Layout(), Layout(tp=2), Layout(tp=4), Layout(tp=2, pp=2), Layout(tp=8)]
    together = model("llama-3.1-8b", "H100-SXM", *layouts).seconds(decode(16.0, rows=5))
    alone = [model("llama-3.1-8b", "H100-SXM", x).seconds(decode(16.0))[0] for x in layouts]
    np.testing.assert_allclose(together, alone)


def test_a_format_that_a_device_cannot_multiply_takes_for_ever() -> None:
    """Volta has no bf16 units; the engine's rules refuse this before, the kernels agree."""
    assert np.isinf(model("llama-3.1-8b", "V100-SXM2-32GB", Layout(), precision="bf16").seconds(decode(1.0)))
    assert np.isfinite(model("llama-3.1-8b", "V100-SXM2-32GB", Layout(), precision="fp16").seconds(decode(1.0)))


@pytest.mark.parametrize(
    ("name", "version", "shares"),
    [
        ("llama-2-70b", "0.6.1", False),
        ("llama-2-70b", "0.8.0", True),
        ("mistral-7b-v0.1", "0.8.0", False),
        ("mistral-7b-v0.1", "0.14.0", True),
        ("llama-2-7b", "0.6.1", True),
    ],
)
def test_early_engines_read_keys_and_values_for_each_query_head(name: str, version: str, shares: bool) -> None:
    """TensorRT-LLM: no kernel for grouped queries before 0.7, then one for groups of eight, then for all."""
    load = decode(128, 2000.0)
    then, now = (
        model(name, "H100-SXM", Layout(tp=4), engine=load_engine("tensorrt-llm", v)).terms(load)[OVER_CACHE][0]
        for v in (version, "1.1")
    )
    assert (then == now) if shares else (then > 1.3 * now)


def test_falcon_reduces_attention_and_mlp_together() -> None:
    falcon = model("falcon-180b", "H100-SXM", Layout(tp=8)).terms(decode(64))
    assert "all-reduce after attention" not in falcon
    assert falcon["all-reduce after mlp"][0] > 0
