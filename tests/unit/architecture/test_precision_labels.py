"""What a precision label means for a model."""

import pytest

from gpufleet.catalog.engines import find_engine
from gpufleet.catalog.models import shipped_architecture
from gpufleet.domain.precision import PRECISIONS, WeightFormat
from gpufleet.domain.precision_labels import kv_precision, weight_format
from gpufleet.errors import UnknownName

LLAMA, DEEPSEEK, GPT_OSS = (shipped_architecture(n) for n in ("llama-3.1-8b", "deepseek-v3", "gpt-oss-120b"))


@pytest.mark.parametrize("arch", [LLAMA, DEEPSEEK, GPT_OSS], ids=lambda a: a.name)
@pytest.mark.parametrize("label", [None, "own", "OWN"])
def test_nothing_said_means_the_checkpoint(arch, label) -> None:
    assert weight_format(arch, label) is arch.weights


@pytest.mark.parametrize(
    ("arch", "label"),
    [
        (LLAMA, "bf16"),
        (LLAMA, "bfloat16"),
        (DEEPSEEK, "fp8"),
        (DEEPSEEK, "fp8_block"),
        (GPT_OSS, "fp4"),
        (GPT_OSS, "mxfp4"),
    ],
    ids=str,
)
def test_a_label_of_the_checkpoints_own_family_means_the_checkpoint(arch, label) -> None:
    assert weight_format(arch, label) is arch.weights


@pytest.mark.parametrize(
    ("label", "name"),
    [("awq", "int4"), ("GPTQ", "int4"), ("w4a16", "int4"), ("half", "fp16"), ("FP8", "fp8"), ("fp4", "nvfp4")],
)
def test_other_words_for_a_format_mean_that_format(label: str, name: str) -> None:
    assert weight_format(LLAMA, label).mlp.name == name


def test_quantisers_leave_embedding_norms_and_head_in_16_bits() -> None:
    found = weight_format(LLAMA, "int4")
    assert (found.attention.name, found.mlp.name) == ("int4", "int4")
    assert (found.base.name, found.head.name) == ("bf16", "bf16")


def test_two_labels_name_linear_layers_and_experts() -> None:
    found = weight_format(DEEPSEEK, "fp8+int4")
    assert (found.attention.name, found.mlp.name, found.experts.name) == ("fp8", "fp8", "int4")
    assert found.name == "fp8+int4"


def test_attention_of_a_block_fp8_model_stays_in_bf16_in_nvfp4() -> None:
    found = weight_format(DEEPSEEK, "nvfp4")
    assert (found.attention.name, found.mlp.name, found.experts.name) == ("bf16", "nvfp4", "nvfp4")


def test_sixteen_bits_are_sixteen_bits_everywhere() -> None:
    found = weight_format(LLAMA, "fp16")
    parts = {found.base.name, found.attention.name, found.mlp.name, found.experts.name, found.head.name}
    assert parts == {"fp16"}


@pytest.mark.parametrize("label", ["fp7", "", "int4+fp7", "nan"])
def test_an_unknown_label_is_refused_with_the_known_ones(label: str) -> None:
    with pytest.raises(UnknownName, match="Known: fp32"):
        weight_format(LLAMA, label)


@pytest.mark.parametrize(
    ("engine", "label", "kv"),
    [
        ("vllm", "bf16", "bf16"),
        ("vllm", "fp16", "fp16"),
        ("vllm", "fp8", "bf16"),
        ("vllm", "nvfp4", "fp8"),
        ("tensorrt-llm", "bf16", "bf16"),
        ("tensorrt-llm", "fp8", "fp8"),
    ],
)
def test_the_cache_is_kept_as_engines_keep_it(engine: str, label: str, kv: str) -> None:
    assert kv_precision(weight_format(LLAMA, label), find_engine(engine)).name == kv


def test_a_model_in_32_bits_keeps_its_cache_in_16() -> None:
    assert kv_precision(WeightFormat.uniform(PRECISIONS["fp32"]), find_engine("vllm")).name == "bf16"
