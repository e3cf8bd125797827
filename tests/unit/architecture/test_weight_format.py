"""The number formats that a checkpoint says it is stored in."""

from __future__ import annotations

import pytest

from gpufleet.architecture.parameters import weights_bytes
from gpufleet.architecture.parse import parse_architecture
from gpufleet.catalog.models import load_model_config
from gpufleet.domain.precision import FP8, FP8_BLOCK, INT4, PER_TENSOR, PER_TOKEN, STATIC
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


def test_one_skipped_layer_of_many_takes_its_bytes_and_does_not_decide():
    kept = weights(DENSE, quant_method="awq", bits=4, modules_to_not_convert=["model.layers.0.self_attn"]).attention
    assert kept.name == "int4"
    assert kept.bytes_per_element == pytest.approx((3 * INT4.bytes_per_element + 2) / 4)


B4, B8 = INT4.bytes_per_element, 1.0
LINEAR = {"weights": {"num_bits": 4, "type": "int", "group_size": 128}, "targets": ["Linear"]}
EIGHT = {"weights": {"num_bits": 8, "type": "int", "group_size": 128}}


@pytest.mark.parametrize(
    ("said", "attention", "mlp"),
    [
        ({"dynamic": {"-:.*self_attn.*": {}}}, 2.0, B4),
        ({"dynamic": {r"-:.*\.down_proj": {}}}, B4, (2 * B4 + 2) / 3),
        ({"dynamic": {r"+:.*\.down_proj": {"bits": 8}}}, B4, (2 * B4 + B8) / 3),
        ({"dynamic": {r"-:.*\.layers\.[01]\..*": {}, ".*mlp.*": {"bits": 8}}}, (B4 + 2) / 2, 1.5),
        ({"dynamic": {r"-:model\.layers\.3\.(?:mlp|self_attn)\..*": {}}}, (3 * B4 + 2) / 4, (3 * B4 + 2) / 4),
        ({"modules_to_not_convert": ["v_proj", "model.layers.*.mlp.up_proj"]}, (3 * B4 + 2) / 4, (2 * B4 + 2) / 3),
        ({"modules_to_not_convert": [r"model\.layers\.(0|1)\.mlp\..*"]}, B4, (B4 + 2) / 2),
        (
            {"quant_method": "auto-round", "extra_config": {"model.layers.0.mlp.down_proj": {"bits": 16}}},
            B4,
            (11 * B4 + 2) / 12,
        ),
        ({"quant_method": "auto-round", "extra_config": {"(q|k)_proj": {"bits": 8}}}, (B4 + B8) / 2, B4),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"a": LINEAR, "b": {**EIGHT, "targets": ["re:.*down_proj"]}},
            },
            B4,
            (2 * B4 + B8) / 3,
        ),
        (
            {"quant_method": "compressed-tensors", "config_groups": {"b": {**EIGHT, "targets": ["re:.*self_attn.*"]}}},
            B8,
            2.0,
        ),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True, "llm_int8_skip_modules": ["self_attn"]}, 2.0, B8),
    ],
)
def test_what_a_quantiser_says_of_some_modules_is_read_whole(said, attention, mlp):
    fmt = weights(DENSE, **{"quant_method": "gptq", "bits": 4, "group_size": 128, **said})
    assert fmt.attention.bytes_per_element == pytest.approx(attention)
    assert fmt.mlp.bytes_per_element == pytest.approx(mlp)


def test_llama_in_gptq_with_plain_attention_takes_its_bytes():
    """7.71 GB: 1.34e9 weights of attention at 2 bytes more than at 4 bits."""
    config = {
        **load_model_config("llama-3.1-8b"),
        "quantization_config": {
            "quant_method": "gptq",
            "bits": 4,
            "group_size": 128,
            "dynamic": {"-:.*self_attn.*": {}},
        },
    }
    llama = parse_architecture(config, "m")
    assert weights_bytes(llama, llama.weights) == pytest.approx(7.71e9, rel=0.002)


QUARK = {
    "quant_method": "quark",
    "global_quant_config": {"weight": {"dtype": "fp8_e4m3"}, "input_tensors": {"dtype": "fp8_e4m3"}},
    "exclude": ["lm_head"],
}


def test_quark_is_read_with_its_patterns_and_its_cache():
    cache = {"output_tensors": {"dtype": "fp8_e4m3"}, "weight": {"dtype": "fp8_e4m3"}}
    fmt = weights(
        DENSE,
        **QUARK,
        layer_quant_config={"*k_proj": cache, "*mlp*": {"weight": {"dtype": "fp4"}}},
        kv_cache_group=["*k_proj"],
    )
    assert (fmt.attention.name, fmt.mlp.name, fmt.kv) == ("fp8", "mxfp4", FP8)


def test_formats_of_a_few_modules_are_kept_to_ask_whether_they_run():
    fmt = weights(DENSE, quant_method="gptq", bits=4, dynamic={r"+:.*\.o_proj": {"bits": 8}})
    assert [p.name for p in fmt.besides] == ["int8_wo"]


@pytest.mark.parametrize(
    "said",
    [
        {"dynamic": {".*o_proj": {"bits": 3}}},
        {"dynamic": {"+:(.*)*x": {}}},
        {"dynamic": {"+:([": {}}},
        {"dynamic": "all"},
        {"modules_to_not_convert": ["re:[a-z]*[a-z]*[a-z]*[a-z]*[a-z]*[a-z]*0"]},
        {"modules_to_not_convert": "lm_head"},
        {"quant_method": "auto-round", "data_type": "mx_int"},
        {"quant_method": "auto-round", "extra_config": {"lm_head": {"bits": 2}}},
        {"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "int3"}}},
        {"quant_method": "quark", "layer_type_quant_config": {"Linear": {}}},
        {"quant_method": "compressed-tensors", "config_groups": {"a": {**LINEAR, "targets": ["Embedding"]}}},
        {"quant_method": "compressed-tensors", "config_groups": {"a": {**LINEAR, "targets": "all"}}},
    ],
)
def test_what_cannot_be_read_of_a_quantisation_is_refused(said):
    with pytest.raises(UsageError):
        weights(DENSE, **{"quant_method": "gptq", "bits": 4, **said})


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
        "model.layers.*.self_attn*": {"quant_algo": "FP8"},
        "model.layers.*.mlp.experts.3.gate_proj": {"quant_algo": "NVFP4", "group_size": 16},
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
