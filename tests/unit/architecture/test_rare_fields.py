"""Fields that few configs set: each changes the number of parameters as it changes the model's own class.

Differences: transformers 5.23.0, the class of the shipped config built on the meta device with and without the field.
"""

from __future__ import annotations

import pytest

from gpufleet.architecture.encoder_parameters import num_encoder_parameters
from gpufleet.architecture.encoder_parse import parse_encoder
from gpufleet.architecture.parameters import num_parameters
from gpufleet.architecture.parse import parse_architecture
from gpufleet.catalog.models import load_model_config
from gpufleet.errors import UsageError

OF_DECODERS = [
    ("qwen3-next-80b-a3b", {"attention_bias": True}, 135_168),
    ("qwen3.5-27b", {"text_config": {"attention_bias": True}}, 311_296),
    ("gemma-4-26b-a4b", {"text_config": {"attention_bias": True}}, 335_360),
    ("gemma-4-26b-a4b", {"text_config": {"attention_k_eq_v": False}}, 100_925_440),
    ("gemma-4-26b-a4b", {"text_config": {"attention_k_eq_v": False, "attention_bias": True}}, 101_296_640),
    ("mamba-2.8b", {"use_bias": True}, 819_200),
    ("mamba2-2.7b", {"use_bias": True}, 840_704),
    ("nemotron-3-nano-30b-a3b", {"use_bias": True}, 298_816),
]
OF_ENCODERS = [
    ("whisper-base", {"tie_word_embeddings": False}, 26_554_880),
    ("vit-base-patch16-224", {"pooler_output_size": 512}, -196_864),
    ("hubert-base", {"conv_pos_batch_norm": True}, 1_408),
]


def with_fields(config: dict[str, object], fields: dict[str, object]) -> dict[str, object]:
    """A config with other values, those of its text model included."""
    text = {"text_config": {**config["text_config"], **fields["text_config"]}} if "text_config" in fields else {}
    return {**config, **fields, **text}


@pytest.mark.parametrize(("model", "fields", "difference"), OF_DECODERS)
def test_a_rare_field_of_a_decoder_changes_what_it_changes_in_the_class(model, fields, difference):
    config = load_model_config(model)
    usual, rare = (num_parameters(parse_architecture(c, model)) for c in (config, with_fields(config, fields)))
    assert rare - usual == difference


@pytest.mark.parametrize(("model", "fields", "difference"), OF_ENCODERS)
def test_a_rare_field_of_an_encoder_changes_what_it_changes_in_the_class(model, fields, difference):
    config = load_model_config(model)
    usual, rare = (num_encoder_parameters(parse_encoder(c, model)) for c in (config, {**config, **fields}))
    assert rare - usual == difference


def test_transformers_words_for_the_layers_of_nemotron_are_read_as_its_letters():
    words = {"M": "linear_attention", "*": "full_attention", "-": "mlp", "E": "moe"}
    config = load_model_config("nemotron-3-nano-30b-a3b")
    letters = config.pop("hybrid_override_pattern")
    saved = {**config, "layers_block_type": [words[letter] for letter in letters]}
    assert num_parameters(parse_architecture(saved, "m")) == 31_577_937_344


def test_sizes_that_transformers_saves_layer_by_layer_are_those_of_gemma_4s_global_layers():
    config = load_model_config("gemma-4-26b-a4b")
    globally = ("global_head_dim", "num_global_key_value_heads")
    text = {key: value for key, value in config["text_config"].items() if key not in globally}
    text["per_layer_config"] = {f"{layer:02}": {"head_dim": 512, "num_key_value_heads": 2} for layer in range(5, 30, 6)}
    assert num_parameters(parse_architecture({**config, "text_config": text}, "m")) == 25_805_933_872


@pytest.mark.parametrize("layers", [{"five": {"head_dim": 1}}, {"05": 3}, [1], None])
def test_what_is_no_size_of_a_layer_changes_nothing(layers):
    config = load_model_config("gemma-4-26b-a4b")
    text = {**config["text_config"], "per_layer_config": layers}
    assert num_parameters(parse_architecture({**config, "text_config": text}, "m")) == 25_805_933_872


def test_a_size_of_a_layer_that_cannot_be_is_refused():
    config = load_model_config("gemma-4-26b-a4b")
    text = {**config["text_config"], "per_layer_config": {"05": {"head_dim": -1}}}
    with pytest.raises(UsageError, match="head_dim"):
        parse_architecture({**config, "text_config": text}, "m")


def test_a_head_that_the_whole_model_unties_is_not_tied_by_the_text_models_default():
    config = load_model_config("qwen3-vl-235b-a22b")
    text = {**config["text_config"], "tie_word_embeddings": True}
    saved = {**config, "tie_word_embeddings": False, "text_config": text}
    assert num_parameters(parse_architecture(saved, "m")) == 235_670_022_896


def test_an_adapter_that_is_not_counted_is_refused():
    with pytest.raises(UsageError, match="adapter"):
        parse_encoder({"model_type": "wav2vec2", "add_adapter": True}, "m")
