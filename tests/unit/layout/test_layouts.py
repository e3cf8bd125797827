"""Which layouts are possible, and the reasons users read."""

from dataclasses import replace

import pytest

from gpufleet.architecture.families import FAMILIES
from gpufleet.catalog.engine_eras import engine_of_version
from gpufleet.catalog.engines import find_engine, load_engines
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.models import shipped_architecture
from gpufleet.domain.engine import EngineProfile, Implemented
from gpufleet.domain.layout import Layout
from gpufleet.domain.precision import BF16, FP8, FP16, PRECISIONS, WeightFormat
from gpufleet.domain.precision_labels import weight_format
from gpufleet.domain.reason import Reason
from gpufleet.layout.enumerate import conceivable_layouts, enumerate_layouts, refused_layouts
from gpufleet.layout.feasible import refusal
from gpufleet.layout.support import architecture_refusal, arithmetic_of, engine_refusal, kv_refusal, weight_refusal
from gpufleet.report.words import sentence


@pytest.mark.parametrize(
    ("model", "layout", "reason"),
    [
        ("llama-3.3-70b", Layout(tp=3), Reason.of("heads_not_divisible", heads=64, parts=3)),
        ("llama-3.3-70b", Layout(tp=2, ep=2), Reason("no_experts")),
        ("llama-3.3-70b", Layout(attention_dp=2), Reason("attention_dp_of_dense")),
        ("llama-3.3-70b", Layout(pp=81), Reason.of("too_few_layers", layers=80, stages=81)),
        ("mixtral-8x7b", Layout(tp=16, ep=16), Reason.of("experts_not_divisible", experts=8, parts=16)),
        ("phi-4-14b", Layout(tp=4), Reason.of("kv_heads_not_divisible", kv_heads=10, parts=4)),
        (
            "deepseek-v3",
            Layout(tp=64, ep=1),
            Reason.of("width_breaks_block", width=2048, parts=64, rest=32, precision="fp8_block", block=128),
        ),
        ("phi-4-14b", Layout(tp=5), Reason.of("vocabulary_not_divisible", vocabulary=100352, parts=5, padded=100352)),
    ],
)
def test_a_refused_layout_says_why(model: str, layout: Layout, reason: Reason) -> None:
    assert refusal(shipped_architecture(model), layout) == reason


@pytest.mark.parametrize(
    ("model", "runs", "refused"),
    [
        ("qwen3-235b-a22b-fp8", [Layout(tp=4), Layout(tp=8, ep=8)], Layout(tp=8)),
        ("qwen3-30b-a3b-fp8", [Layout(tp=2), Layout(tp=4, ep=4)], Layout(tp=4)),
        ("minimax-m2.5", [Layout(tp=4), Layout(tp=8, ep=8)], Layout(tp=8)),
    ],
)
def test_tp_cuts_no_expert_within_a_block_of_128_scales(model: str, runs: list[Layout], refused: Layout) -> None:
    """vLLM ends with "The output_size of gate's and up's weight = 192 is not divisible by weight quantization
    block_n = 128": vllm-project/vllm issues/17569 (Qwen3-235B TP8), issues/25292 (Qwen3-30B TP4), pull/48173 (MiniMax).
    """
    arch = shipped_architecture(model)
    assert [refusal(arch, layout) for layout in runs] == [None] * len(runs)
    found = refusal(arch, refused)
    assert found is not None
    assert found.code == "expert_width_breaks_block"
    assert dict(found.figures)["rest"] == 192


@pytest.mark.parametrize("model", ["llama-3.3-70b", "deepseek-v3", "gpt-oss-120b"])
def test_every_layout_is_either_offered_or_refused_and_uses_all_gpus(model: str) -> None:
    arch = shipped_architecture(model)
    offered, refused = enumerate_layouts(arch, 8), refused_layouts(arch, 8)
    assert len(offered) + len(refused) == len(conceivable_layouts(arch, 8))
    assert {offered.row(i).num_devices for i in range(len(offered))} == {8}
    assert len({offered.row(i) for i in range(len(offered))}) == len(offered)


@pytest.mark.parametrize(
    ("engine", "gpu", "label", "reason"),
    [
        ("vllm", "V100-SXM2-16GB", "fp8", "V100-SXM2-16GB (Volta) has no fp8 arithmetic: it needs Ada"),
        ("tensorrt-llm", "A100-SXM4-80GB", "fp8", "has no fp8 arithmetic"),
        ("tensorrt-llm", "H100-SXM", "nvfp4", "nvfp4 needs Blackwell"),
        ("vllm", "T4", "nvfp4", "Ampere, Ada and Hopper run its weights with bf16 arithmetic"),
        ("sglang", "A100-SXM4-80GB", "fp8_block", "has no kernels for block-scaled fp8"),
        ("sglang", "A100-SXM4-80GB", "mxfp4", "needs Hopper or newer"),
        ("vllm", "V100-SXM2-16GB", "int4", "needs Turing or newer"),
        ("tensorrt-llm", "MI300X", "bf16", "TensorRT-LLM does not run on MI300X"),
        ("vllm", "K80", "bf16", "vLLM does not run on K80 (Kepler)"),
        ("tensorrt-llm", "H100-SXM", "nf4", "TensorRT-LLM does not run nf4 weights"),
        ("vllm", "Gaudi2", "fp16", "not run fp16 weights in this engine, but bf16 of the same bytes"),
        ("vllm", "TPU-v6e", "fp16", "but bf16 of the same bytes (--precision bf16)"),
    ],
)
def test_a_format_that_does_not_run_is_refused_with_a_reason(engine: str, gpu: str, label: str, reason: str) -> None:
    arch, accelerator = shipped_architecture("llama-3.1-8b"), load_catalog().accelerators[gpu]
    refused = weight_refusal(find_engine(engine), accelerator, weight_format(arch, label))
    assert refused is not None
    assert reason in sentence(refused)


@pytest.mark.parametrize(
    ("engine", "gpu", "label"),
    [
        ("vllm", "A100-SXM4-80GB", "fp8"),
        ("vllm", "A100-SXM4-80GB", "mxfp4"),
        ("vllm", "A100-SXM4-80GB", "fp8_block"),
        ("vllm", "A100-SXM4-80GB", "nvfp4"),
        ("vllm", "L40S", "nvfp4"),
        ("vllm", "H100-SXM", "nvfp4"),
        ("sglang", "H100-SXM", "nvfp4"),
        ("vllm", "T4", "fp8"),
        ("vllm", "T4", "int4"),
        ("vllm", "MI300X", "fp8"),
        ("tensorrt-llm", "B200", "nvfp4"),
        ("sglang", "H200-SXM", "fp8_block"),
    ],
)
def test_a_format_that_runs_is_not_refused(engine: str, gpu: str, label: str) -> None:
    arch, accelerator = shipped_architecture("llama-3.1-8b"), load_catalog().accelerators[gpu]
    assert weight_refusal(find_engine(engine), accelerator, weight_format(arch, label)) is None


def test_a_bf16_checkpoint_runs_as_fp16_on_a_t4_and_not_as_bf16() -> None:
    arch, t4, vllm = shipped_architecture("llama-3.1-8b"), load_catalog().accelerators["T4"], find_engine("vllm")
    assert weight_refusal(vllm, t4, arch.weights) is None
    assert "has no bf16 arithmetic" in str(weight_refusal(vllm, t4, arch.weights, allow_fp16_twin=False))
    assert arithmetic_of(vllm, t4, BF16) == "fp16"


def test_fp8_weights_are_widened_on_ampere() -> None:
    accelerators = load_catalog().accelerators
    assert arithmetic_of(find_engine("vllm"), accelerators["A100-SXM4-80GB"], FP8) == "bf16"
    assert arithmetic_of(find_engine("vllm"), accelerators["L40S"], FP8) == "fp8"


def test_kv_formats_follow_the_card() -> None:
    accelerators, vllm = load_catalog().accelerators, find_engine("vllm")
    llama = shipped_architecture("llama-3.1-8b")
    assert kv_refusal(vllm, accelerators["T4"], BF16, llama) is None
    assert kv_refusal(vllm, accelerators["T4"], FP8, llama) == Reason.of(
        "unsupported_kv_cache", engine="vLLM", device="T4 (Turing)", kv="fp8"
    )
    assert engine_refusal(find_engine("sglang"), accelerators["V100-SXM2-16GB"]) is not None


@pytest.mark.parametrize("engine", load_engines().values(), ids=lambda engine: engine.name)
def test_lists_of_architectures_name_families_that_are_read_and_their_source(engine: EngineProfile) -> None:
    stated = engine.architectures
    named = {*stated.has, *stated.lacks}
    assert named <= set(FAMILIES)
    assert bool(named) == bool(stated.source)


def test_a_list_of_what_an_engine_has_and_one_of_what_it_lacks_exclude_each_other() -> None:
    with pytest.raises(ValueError, match="not both"):
        Implemented(has=("llama",), lacks=("mpt",))


def test_a_decoder_that_is_only_read_by_its_usual_fields_is_in_no_list_and_passes() -> None:
    llama, fast = shipped_architecture("llama-3.1-8b"), find_engine("gpt-fast")
    unknown = replace(llama, family="somebodys_own", is_assumed=True)
    assert architecture_refusal(fast, unknown) is None
    assert architecture_refusal(fast, replace(unknown, is_assumed=False)) is not None


def test_an_engine_that_splits_by_layer_takes_one_layout() -> None:
    mixture = shipped_architecture("mixtral-8x7b")
    assert conceivable_layouts(mixture, 4, by_layer=True) == [Layout(pp=4)]
    assert len(enumerate_layouts(mixture, 64, by_layer=True)) == 0, "32 layers cannot fill 64 stages"


@pytest.mark.parametrize(
    ("version", "code"),
    [
        ("0.10.2", None),
        ("0.11", "kv_cache_of_other_versions"),
        ("0.11.2", "kv_cache_of_other_versions"),
        ("0.12", None),
    ],
)
def test_an_fp8_cache_before_ada_runs_in_versions_with_kernels_for_it(version: str, code: str | None) -> None:
    """vllm-project/vllm issues/26431: 'type fp8e4nv not supported in this architecture' on an RTX 3090 with 0.11."""
    ampere, llama = load_catalog().accelerators["RTX-3090"], shipped_architecture("llama-3.1-8b")
    reason = kv_refusal(engine_of_version("vllm", version), ampere, FP8, llama)
    assert (reason and reason.code) == code


@pytest.mark.parametrize("model", ["deepseek-v2-lite", "gpt-oss-20b", "phi-2"])
def test_an_fp8_cache_before_ada_is_of_plain_attention_with_usual_heads(model: str) -> None:
    accelerators, arch = load_catalog().accelerators, shipped_architecture(model)
    reason = kv_refusal(engine_of_version("vllm"), accelerators["RTX-3090"], FP8, arch)
    assert reason is not None
    assert reason.code == "kv_cache_of_other_heads"
    assert kv_refusal(engine_of_version("vllm"), accelerators["H100-SXM"], FP8, arch) is None


@pytest.mark.parametrize(
    ("version", "gpu", "weights", "runs"),
    [
        ("0.5.0", "A100-SXM4-80GB", "fp8", False),
        ("0.5.4", "A100-SXM4-80GB", "fp8", True),
        ("0.8.5", "A100-SXM4-80GB", "nvfp4", False),
        ("0.9.0", "H100-SXM", "nvfp4", True),
        ("0.13.0", "T4", "fp8", False),
        ("0.19.0", "T4", "fp8", True),
        ("0.10.0", "H100-SXM", "mxfp4", False),
    ],
)
def test_weights_run_from_the_version_that_brought_their_kernels(version, gpu, weights, runs) -> None:
    stored = WeightFormat.uniform(PRECISIONS[weights], FP16)
    reason = weight_refusal(engine_of_version("vllm", version), load_catalog().accelerators[gpu], stored)
    assert (reason is None) == runs
    assert reason is None or reason.code == "weights_of_other_versions"
