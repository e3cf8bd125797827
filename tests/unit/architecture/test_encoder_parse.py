"""Configs of models that are not decoders: what is read, and what is said about the others."""

from __future__ import annotations

import pytest

from gpufleet.architecture.config_fields import ConfigFields
from gpufleet.architecture.encoder_families import wav2vec2
from gpufleet.architecture.encoder_flops import seen_pairs, tower_flop
from gpufleet.architecture.encoder_parameters import encoder_parts, num_encoder_parameters, tower_parts
from gpufleet.architecture.encoder_parse import ENCODER_FAMILIES, encoder_family_of, parse_encoder
from gpufleet.architecture.parse import parse_architecture
from gpufleet.architecture.unknown_family import NEEDED
from gpufleet.domain.encoder import Convolution, LayerStack, Takes
from gpufleet.errors import UsageError


@pytest.mark.parametrize("family", sorted(ENCODER_FAMILIES))
def test_every_family_can_be_built_from_the_defaults_of_its_class(family: str) -> None:
    assert num_encoder_parameters(parse_encoder({"model_type": family}, "m")) > 1_000_000


@pytest.mark.parametrize("family", sorted(ENCODER_FAMILIES))
def test_a_plan_of_decoders_sends_encoders_to_the_verb_that_answers(family: str) -> None:
    with pytest.raises(UsageError, match=r"not a decoder.*gpufleet encode"):
        parse_architecture({"model_type": family}, "m")


@pytest.mark.parametrize("spelt", [{"model_type": "FAMILY"}, {"architectures": ["FAMILY"]}])
@pytest.mark.parametrize("family", sorted(ENCODER_FAMILIES))
def test_an_encoder_is_no_decoder_though_its_config_gives_what_every_decoder_has(
    family: str, spelt: dict[str, object]
) -> None:
    """Without type_vocab_size, whose default is 2, a BERT has the fields of Llama."""
    said = {key: [family] if isinstance(value, list) else family for key, value in spelt.items()}
    with pytest.raises(UsageError, match=r"not a decoder.*gpufleet encode"):
        parse_architecture({**said, **dict.fromkeys(NEEDED, 64)}, "m")


def test_a_bert_without_token_types_has_two() -> None:
    shape = {"model_type": "bert", "hidden_size": 64, "num_attention_heads": 8}
    stated = (num_encoder_parameters(parse_encoder({**shape, "type_vocab_size": n}, "m")) for n in (1, 2))
    assert [num_encoder_parameters(parse_encoder(shape, "m")) - params for params in stated] == [64, 0]


@pytest.mark.parametrize(
    ("config", "family"),
    [
        ({"model_type": "xlm_roberta"}, "xlm-roberta"),
        ({"model_type": "vi_t"}, "vit"),
        ({"architectures": ["BertForMaskedLM"]}, "bert"),
        ({"architectures": ["WhisperForConditionalGeneration"]}, "whisper"),
        ({"architectures": ["ViTForImageClassification"]}, "vit"),
        ({"model_type": "llama"}, None),
        ({"model_type": ["bert"]}, None),
        ({}, None),
    ],
)
def test_a_family_is_known_however_it_is_spelt(config: dict[str, object], family: str | None) -> None:
    assert encoder_family_of(config) == family


def test_roberta_keeps_two_positions_for_padding() -> None:
    config = {"model_type": "roberta", "max_position_embeddings": 514}
    assert parse_encoder(config, "m").max_tokens == 512


def test_flan_t5_has_a_head_of_its_own_and_t5_has_the_embedding() -> None:
    shape = {"model_type": "t5", "d_model": 64, "vocab_size": 1000}
    tied, own = (num_encoder_parameters(parse_encoder({**shape, "tie_word_embeddings": t}, "m")) for t in (True, False))
    assert own - tied == 64 * 1000


def test_t5_decoders_may_be_shallower_than_their_encoders() -> None:
    model = parse_encoder({"model_type": "t5", "num_layers": 12, "num_decoder_layers": 4}, "m")
    assert [tower.stack.num_layers for tower in model.all_towers] == [12, 4]


def test_thirty_seconds_of_audio_are_1500_tokens_of_whisper() -> None:
    tower = parse_encoder({"model_type": "whisper"}, "m").towers[0]
    assert (tower.window_s, tower.fixed_tokens) == (30.0, 1500)


def test_a_second_of_audio_is_49_tokens_of_wav2vec2() -> None:
    """wav2vec 2.0 (arXiv:2006.11477), section 4: a stride of 20 ms and a receptive field of 25 ms."""
    tower = parse_encoder({"model_type": "wav2vec2"}, "m").towers[0]
    assert tower.tokens_of(16000) == 49
    assert tower.takes is Takes.AUDIO


def test_layer_norm_features_have_a_norm_behind_every_convolution() -> None:
    group, layer = (
        tower_parts(wav2vec2(ConfigFields({"feat_extract_norm": norm}, "m"), "wav2vec2").towers[0]).vectors
        for norm in ("group", "layer")
    )
    assert layer - group == 6 * 2 * 512


def test_an_image_is_patches_and_a_class_token() -> None:
    tower = parse_encoder({"model_type": "vit", "image_size": 384, "patch_size": 16}, "m").towers[0]
    assert tower.fixed_tokens == 24 * 24 + 1


def test_clip_has_a_tower_for_images_and_one_for_texts() -> None:
    model = parse_encoder({"model_type": "clip"}, "m")
    assert [tower.takes for tower in model.towers] == [Takes.IMAGE, Takes.TEXT]
    assert model.towers[1].stack.is_causal


def test_a_token_of_a_causal_stack_sees_those_before_it() -> None:
    stack = LayerStack(1, 64, 1, 64, 64, is_causal=True)
    assert (seen_pairs(stack, 4), seen_pairs(LayerStack(1, 64, 1, 64, 64), 4)) == (10, 16)


def test_flop_are_two_for_each_parameter_and_token_besides_attention() -> None:
    model = parse_encoder({"model_type": "bert", "num_hidden_layers": 2}, "m")
    parts, flop = encoder_parts(model), tower_flop(model.towers[0], 100)
    assert flop.projections + flop.mlp == 2 * 100 * (parts.attention + parts.mlp)
    assert flop.heads == 2 * parts.projections


def test_stored_precision_is_read() -> None:
    assert parse_encoder({"model_type": "bert", "torch_dtype": "float32"}, "m").weights.name == "fp32"


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"model_type": "bert", "hidden_size": 0}, "not a size"),
        ({"model_type": "bert", "hidden_size": 100, "num_attention_heads": 12}, "no multiple of 12 heads"),
        ({"model_type": "bert", "num_hidden_layers": 100_000}, "absurd"),
        ({"model_type": "clip", "text_config": 3}, "not an object"),
        ({"model_type": "vit", "patch_size": 500}, "larger than its image"),
        ({"model_type": "wav2vec2", "conv_dim": [512]}, "differ in length"),
        ({"model_type": "wav2vec2", "conv_dim": [512] * 1000}, "absurd"),
        ({"model_type": "wav2vec2", "num_conv_pos_embedding_groups": 7}, "groups"),
        ({"model_type": "bert", "quantization_config": {"quant_method": "awq"}}, "not planned yet"),
        ({"model_type": "bert", "torch_dtype": "int3"}, "torch_dtype"),
        ({"model_type": "llama"}, "no family of encoders"),
    ],
)
def test_what_is_wrong_with_a_config_is_said(config: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_encoder(config, "m")


def test_a_convolution_without_padding_loses_its_ends() -> None:
    kept, lost = (Convolution(8, 8, 3, 2, is_padded=padded).positions_after(10) for padded in (True, False))
    assert (kept, lost) == (5, 4)


def test_audio_shorter_than_a_kernel_gives_no_token() -> None:
    assert Convolution(1, 8, 10, 5, is_padded=False).positions_after(3) == 0
