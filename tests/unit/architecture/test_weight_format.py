"""The number formats that a checkpoint says it is stored in."""

from __future__ import annotations

import pytest

from gpufleet.architecture.parse import parse_architecture
from gpufleet.domain.precision import FP8_BLOCK, INT4, PER_TENSOR, PER_TOKEN, STATIC
from gpufleet.errors import UsageError

DENSE = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "vocab_size": 100,
    "torch_dtype": "bfloat16",
}
SPARSE = {
    **DENSE,
    "model_type": "qwen3_moe",
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
}


def weights(config, **quantization):
    return parse_architecture({**config, "quantization_config": quantization}, "m").weights


def names(fmt):
    return fmt.attention.name, fmt.mlp.name, fmt.experts.name, fmt.head.name


@pytest.mark.parametrize(
    ("quantization", "name"),
    [
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8_block"),
        ({"quant_method": "fp8", "activation_scheme": "static"}, "fp8"),
        ({"quant_method": "fbgemm_fp8"}, "fp8"),
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, "int4"),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128}, "int4"),
        ({"quant_method": "gptq", "bits": 8}, "int8_wo"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "nf4"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "nvfp4"),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, "fp8"),
    ],
)
def test_quantised_linear_layers_leave_embedding_and_head_alone(quantization, name):
    fmt = weights(DENSE, **quantization)
    assert fmt.name == name
    assert names(fmt) == (name, name, name, "bf16")
    assert fmt.base.name == "bf16"


@pytest.mark.parametrize(
    ("group", "name"),
    [
        ({"weights": {"num_bits": 8, "type": "float", "strategy": "channel"}, "input_activations": {}}, "fp8"),
        ({"weights": {"num_bits": 8, "type": "float", "strategy": "block"}}, "fp8_block"),
        ({"weights": {"num_bits": 8, "type": "int"}, "input_activations": {"num_bits": 8}}, "int8"),
        ({"weights": {"num_bits": 8, "type": "int"}, "input_activations": None}, "int8_wo"),
        ({"weights": {"num_bits": 4, "type": "int", "group_size": 128}}, "int4"),
        ({"weights": {"num_bits": 4, "type": "float", "group_size": 16}}, "nvfp4"),
    ],
)
def test_compressed_tensors_say_it_in_their_groups(group, name):
    assert weights(DENSE, quant_method="compressed-tensors", config_groups={"group_0": group}).name == name


def test_smaller_groups_carry_more_scales():
    fine = weights(DENSE, quant_method="gptq", bits=4, group_size=32).attention
    assert fine.name == "int4"
    assert fine.bytes_per_element == pytest.approx(0.5 + 2.5 / 32)
    assert fine.bytes_per_element > INT4.bytes_per_element


def test_mxfp4_is_for_experts_only():
    fmt = weights(SPARSE, quant_method="mxfp4", modules_to_not_convert=["model.layers.*.self_attn", "lm_head"])
    assert names(fmt) == ("bf16", "bf16", "mxfp4", "bf16")


@pytest.mark.parametrize(
    "ignored",
    [
        ["re:.*self_attn.*", "lm_head"],
        ["model.layers.*.self_attn"],
        ["self_attn"],
        [f"model.layers.{layer}.self_attn*" for layer in range(4)],
        [f"language_model.model.layers.{layer}.self_attn.q_proj" for layer in range(4)],
    ],
)
def test_attention_that_the_quantiser_skipped_keeps_its_precision(ignored):
    assert names(weights(SPARSE, quant_method="modelopt", quant_algo="NVFP4", ignore=ignored)) == (
        "bf16",
        "nvfp4",
        "nvfp4",
        "bf16",
    )


def test_kimi_style_ignore_lists_leave_only_routed_experts():
    ignored = ["lm_head", "re:.*self_attn.*", "re:.*shared_experts.*", r"re:.*mlp\.(gate|up|gate_up|down)_proj.*"]
    group = {"weights": {"num_bits": 4, "type": "int", "group_size": 32, "symmetric": True}}
    fmt = weights(SPARSE, quant_method="compressed-tensors", config_groups={"g": group}, ignore=ignored)
    assert names(fmt) == ("bf16", "bf16", "int4", "bf16")
    assert fmt.experts.bytes_per_element == 0.5 + 2 / 32


def test_a_router_that_is_not_converted_says_nothing_about_gate_projections():
    fmt = weights(SPARSE, quant_method="fp8", weight_block_size=[128, 128], modules_to_not_convert=["gate", "lm_head"])
    assert (fmt.attention, fmt.mlp, fmt.experts) == (FP8_BLOCK, FP8_BLOCK, FP8_BLOCK)


def test_one_skipped_layer_of_many_does_not_decide():
    assert (
        weights(DENSE, quant_method="awq", bits=4, modules_to_not_convert=["model.layers.0.self_attn"]).attention
        == INT4
    )


@pytest.mark.parametrize(("dtype", "name"), [("float16", "fp16"), ("torch.bfloat16", "bf16"), ("float32", "bf16")])
def test_unquantised_checkpoints_are_in_their_dtype(dtype, name):
    assert parse_architecture({**DENSE, "torch_dtype": dtype}, "m").weights.name == name


@pytest.mark.parametrize(
    "quantization",
    [
        {"quant_method": "aqlm"},
        {"quant_method": "gptq", "bits": 3},
        {"quant_algo": "MIXED_PRECISION", "quantized_layers": {"lm_head": {"quant_algo": "W2A2"}}},
    ],
)
def test_a_quantisation_that_is_not_known_is_said(quantization):
    with pytest.raises(UsageError, match="quantisation that is not planned yet"):
        weights(DENSE, **quantization)


MIXED = {
    "quant_algo": "MIXED_PRECISION",
    "quantized_layers": {
        "model.layers.0.self_attn.q_proj": {"quant_algo": "FP8"},
        "model.layers.0.mlp.experts.3.gate_proj": {"quant_algo": "NVFP4", "group_size": 16},
        "lm_head": {"quant_algo": "W4A16_NVFP4"},
    },
}


def test_mixed_precision_gives_each_part_its_own_format_and_leaves_the_rest_plain():
    fmt = weights(SPARSE, **MIXED)
    assert (fmt.attention.name, fmt.mlp.name, fmt.experts.name, fmt.head.name) == ("fp8", "bf16", "nvfp4", "nvfp4")


def test_mixed_precision_over_an_fp8_checkpoint_leaves_the_rest_in_fp8():
    fmt = weights(SPARSE, **MIXED, quant_method="fp8", weight_block_size=[128, 128])
    assert (fmt.attention.name, fmt.mlp.name, fmt.experts.name) == ("fp8", "fp8_block", "nvfp4")


@pytest.mark.parametrize("layers", [None, [], "all"])
def test_mixed_precision_without_a_list_is_said(layers):
    with pytest.raises(UsageError, match="quantized_layers"):
        weights(SPARSE, quant_algo="MIXED_PRECISION", quantized_layers=layers)


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ({"kv_cache_quant_algo": "FP8"}, "fp8"),
        ({"kv_cache_scheme": {"num_bits": 8, "type": "float"}}, "fp8"),
        ({"kv_cache_scheme": None, "kv_cache_quant_algo": None}, None),
        ({"kv_cache_scheme": "FP8"}, "fp8"),
    ],
)
def test_a_checkpoint_says_which_cache_it_brings_scales_for(words, name):
    kv = weights(DENSE, quant_algo="NVFP4", **words).kv
    assert (kv and kv.name) == name


def compressed(**activations: object) -> dict[str, object]:
    weights = {"num_bits": 8, "type": "float", "strategy": "channel"}
    return {
        "quant_method": "compressed-tensors",
        "config_groups": {"group_0": {"weights": weights, "input_activations": activations or None}},
    }


@pytest.mark.parametrize(
    ("quantization", "scales"),
    [
        ({"quant_method": "fp8", "activation_scheme": "static"}, STATIC),
        ({"quant_method": "fp8", "activation_scheme": "dynamic"}, PER_TENSOR),
        ({"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}, PER_TOKEN),
        ({"quant_method": "fp8"}, None),
        ({"quant_method": "fbgemm_fp8"}, PER_TOKEN),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, STATIC),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, STATIC),
        ({"quant_method": "modelopt", "quant_algo": "FP8_PER_CHANNEL_PER_TOKEN"}, PER_TOKEN),
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, None),
        (compressed(num_bits=8, type="float", dynamic=False, strategy="tensor"), STATIC),
        (compressed(num_bits=8, type="float", dynamic=True, strategy="token"), PER_TOKEN),
        (compressed(num_bits=8, type="float", dynamic=True, strategy="tensor"), PER_TENSOR),
        (compressed(), None),
    ],
)
def test_a_checkpoint_says_where_the_scales_of_its_activations_come_from(quantization, scales):
    assert weights(DENSE, **quantization).activation_scales == scales
