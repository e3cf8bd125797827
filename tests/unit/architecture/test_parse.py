"""Configs as people have them: older keys, nested text models, windows, missing fields."""

from __future__ import annotations

import math

import pytest

from gpufleet.architecture.encoder_parse import ENCODER_FAMILIES
from gpufleet.architecture.families import FAMILIES, SAME_SHAPE, TEXT_MODEL_OF
from gpufleet.architecture.other_kinds import other_kind
from gpufleet.architecture.parameters import num_active_parameters, num_parameters, parameter_parts
from gpufleet.architecture.parse import parse_architecture
from gpufleet.domain.architecture import Attention, MixtureOfExperts
from gpufleet.errors import UsageError

LLAMA = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "vocab_size": 100,
}
EXPERTS = {**LLAMA, "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "head_dim": 16}


def windows(config):
    """Window of each block and how many layers it has."""
    return {block.mixer.window_tokens: block.count for block in parse_architecture(config, "m").blocks}


def test_absent_kv_heads_mean_multi_head_attention():
    assert parse_architecture(LLAMA, "m").num_kv_heads == 4


def test_a_config_without_model_type_is_known_by_its_class():
    config = {key: value for key, value in LLAMA.items() if key != "model_type"}
    assert parse_architecture({**config, "architectures": ["LlamaForCausalLM"]}, "m").family == "llama"


def test_tied_embedding_is_counted_once():
    untied = num_parameters(parse_architecture(LLAMA, "m"))
    tied = num_parameters(parse_architecture({**LLAMA, "tie_word_embeddings": True}, "m"))
    assert untied - tied == 100 * 64


def test_biases_that_a_llama_config_asks_for_are_counted():
    plain = num_parameters(parse_architecture(LLAMA, "m"))
    biased = num_parameters(parse_architecture({**LLAMA, "attention_bias": True, "mlp_bias": True}, "m"))
    assert biased - plain == 4 * (4 * 64 + 2 * 128 + 64)


def test_original_falcon_configs_use_other_names():
    falcon = {"model_type": "RefinedWebModel", "hidden_size": 4544, "n_head": 71, "n_layer": 32, "vocab_size": 65024}
    assert num_parameters(parse_architecture(falcon, "falcon-7b")) == 6_921_720_704
    wide = {"model_type": "RefinedWeb", "hidden_size": 8192, "n_head": 128, "n_head_kv": 8, "n_layer": 60}
    assert num_parameters(parse_architecture(wide, "falcon-40b")) == 41_303_293_952


def test_original_bloom_config_names_its_width_n_embed():
    bloom = {"model_type": "bloom", "n_embed": 14336, "num_attention_heads": 112, "n_layer": 70, "vocab_size": 250880}
    assert num_parameters(parse_architecture(bloom, "bloom")) == 176_247_271_424


def test_opt_350m_embeds_in_a_narrower_space():
    """OPT-350M: width 1024, embedding 512, norms behind the blocks and none at the end; 331,196,416 parameters."""
    opt = {
        "model_type": "opt",
        "hidden_size": 1024,
        "word_embed_proj_dim": 512,
        "num_attention_heads": 16,
        "num_hidden_layers": 24,
        "ffn_dim": 4096,
        "do_layer_norm_before": False,
    }
    assert num_parameters(parse_architecture(opt, "opt-350m")) == 331_196_416


def test_qwen_slides_only_when_told_and_only_in_upper_layers():
    qwen = {**LLAMA, "model_type": "qwen2", "sliding_window": 512, "max_window_layers": 3}
    assert windows({**qwen, "use_sliding_window": False}) == {math.inf: 4}
    assert windows({**qwen, "use_sliding_window": True}) == {math.inf: 3, 512: 1}


def test_mistral_null_window_means_the_whole_context():
    mistral = {**LLAMA, "model_type": "mistral", "num_key_value_heads": 2}
    assert windows({**mistral, "sliding_window": None}) == {math.inf: 4}
    assert windows({**mistral, "sliding_window": 256}) == {256: 4}


def test_layer_types_win_over_the_rule_of_the_family():
    kinds = ["full_attention"] * 3 + ["sliding_attention"]
    assert windows({**LLAMA, "model_type": "gemma2", "sliding_window": 32, "layer_types": kinds}) == {
        math.inf: 3,
        32: 1,
    }


def test_gemma_3_without_layer_types_follows_its_pattern():
    gemma = {**LLAMA, "model_type": "gemma3_text", "num_hidden_layers": 26, "sliding_window": 512}
    assert windows({**gemma, "sliding_window_pattern": 6}) == {512: 22, math.inf: 4}


def test_multimodal_gemma_counts_its_text_model_and_says_so():
    """google/gemma-3-4b-it leaves 8 heads of 256, 4 KV heads and the vocabulary of 262,208 to its class."""
    inner = {"model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34}
    arch = parse_architecture({"model_type": "gemma3", "text_config": inner, "torch_dtype": "bfloat16"}, "gemma-3-4b")
    attention, mlp, norms = 2560 * 256 * (8 + 4 + 4 + 8), 3 * 2560 * 10240, 4 * 2560 + 2 * 256
    assert num_parameters(arch) == 262_208 * 2560 + 34 * (attention + mlp + norms) + 2560 == 3_880_263_168
    assert arch.notes[0] == "text model only: the vision part is not counted"
    assert arch.notes[1].startswith("The config leaves out, and the family's default was taken: num_attention_heads 8,")


def test_llama_4_without_lists_interleaves_by_its_steps():
    llama4 = {
        **LLAMA,
        "num_key_value_heads": 2,
        "num_local_experts": 4,
        "num_experts_per_tok": 1,
        "interleave_moe_layer_step": 2,
        "intermediate_size_mlp": 256,
    }
    arch = parse_architecture({"model_type": "llama4", "text_config": {**llama4, "model_type": "llama4_text"}}, "m")
    routed = sum(block.count for block in arch.blocks if isinstance(block.feed_forward, MixtureOfExperts))
    chunked = sum(block.count for block in arch.blocks if isinstance(block.mixer, Attention) and block.mixer.chunked)
    assert (routed, chunked) == (2, 3)


def test_qwen_moe_keeps_dense_layers_where_told():
    arch = parse_architecture({**EXPERTS, "model_type": "qwen3_moe", "mlp_only_layers": [0, 3]}, "m")
    assert parameter_parts(arch).dense_mlp == 2 * 3 * 64 * 128
    assert parameter_parts(arch).routed_experts == 2 * 8 * 3 * 64 * 32


@pytest.mark.parametrize("missing", sorted(set(LLAMA) - {"model_type"}))
def test_a_missing_size_is_named(missing):
    config = {key: value for key, value in LLAMA.items() if key != missing}
    with pytest.raises(UsageError, match=missing):
        parse_architecture(config, "m")


@pytest.mark.parametrize(
    ("family", "kind"),
    [
        ("UNet2DConditionModel", "an image generator"),
        ("FluxTransformer2DModel", "an image generator"),
        ("StableDiffusion3Pipeline", "an image generator"),
        ("QwenImageTransformer2DModel", "an image generator"),
        ("AutoencoderKL", "an image generator"),
        ("WanTransformer3DModel", "a video generator"),
        ("CogVideoXPipeline", "a video generator"),
        ("speecht5", "a text-to-speech model"),
        ("parler_tts", "a text-to-speech model"),
        ("fastspeech2_conformer", "a text-to-speech model"),
        ("musicgen", "a generator or codec of sound"),
        ("detr", "a model of images alone"),
    ],
)
def test_models_of_other_kinds_say_what_they_are_and_what_to_do(family, kind):
    with pytest.raises(UsageError, match=rf"{kind}.*Measure its .* per second") as refusal:
        parse_architecture({"_class_name": family}, "m")
    assert "Nearest family" not in str(refusal.value)


@pytest.mark.parametrize("family", sorted({*FAMILIES, *SAME_SHAPE, *TEXT_MODEL_OF, *ENCODER_FAMILIES}))
def test_no_family_that_is_read_is_of_another_kind(family):
    assert other_kind(family) is None


def test_an_unknown_family_names_the_nearest():
    with pytest.raises(UsageError, match=r"not understood: ssm_state_size.*Nearest family: deepseek_v3"):
        parse_architecture({**LLAMA, "model_type": "deepseek_v33", "ssm_state_size": 128}, "m")


def test_an_unknown_family_whose_fields_are_understood_is_read_as_a_llama_and_says_so():
    known, unknown = (parse_architecture({**LLAMA, "model_type": family}, "m") for family in ("llama", "newcomer"))
    assert num_parameters(unknown) == num_parameters(known)
    assert (unknown.is_assumed, known.is_assumed) == (True, False)
    assert "is not known" in unknown.notes[0]


def test_an_unknown_family_with_experts_is_read_as_a_mixture():
    experts = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 64, "first_k_dense_replace": 1}
    arch = parse_architecture({**LLAMA, "model_type": "newcomer", **experts}, "m")
    assert arch.is_moe
    assert num_active_parameters(arch) < num_parameters(arch)


def test_heads_that_do_not_divide_the_width_need_a_head_dim():
    with pytest.raises(UsageError, match="no multiple of 3 heads"):
        parse_architecture({**LLAMA, "num_attention_heads": 3}, "m")
    assert parse_architecture({**LLAMA, "num_attention_heads": 3, "head_dim": 32}, "m").num_heads == 3


def test_kinds_of_layers_that_are_not_planned_are_refused():
    with pytest.raises(UsageError, match="linear_attention"):
        parse_architecture({**LLAMA, "model_type": "qwen3", "layer_types": ["linear_attention"] * 4}, "m")


def test_every_family_has_a_sentence_about_itself():
    assert all(builder.__doc__ for builder in FAMILIES.values())
