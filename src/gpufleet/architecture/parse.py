"""From a config mapping to an `Architecture`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gpufleet.architecture.config_fields import ConfigFields
from gpufleet.architecture.families import TEXT_MODEL_OF, builder_of, family_of
from gpufleet.architecture.read_config import ReadConfig
from gpufleet.architecture.spelling import doubts, near_key
from gpufleet.architecture.vision import vision_tower
from gpufleet.architecture.weight_format import weight_format_of
from gpufleet.domain.architecture import Architecture, VisionTower
from gpufleet.errors import UsageError

LOADED_IN_16_BITS = "stored in 32 bits, planned in 16 as engines load it: the command says --dtype"
PREDICTORS = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules", "mtp_transformer_layers")
"""What configs call the number of modules that predict tokens beyond the next."""
TEXT_PART_ONLY = "text model only: the vision part is not counted"
_KEEP_TEXT_OUTSIDE = ("qwen2_vl", "qwen2_5_vl")
_HELD_OUTSIDE = ("quantization_config", "torch_dtype", "dtype", "tie_word_embeddings")


def parse_architecture(config: Mapping[str, object], name: str) -> Architecture:
    """The shape that a Hugging Face config describes, in the checkpoint's own number formats.

    >>> tiny = {"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12, "vocab_size": 50257}
    >>> parse_architecture(tiny, "gpt2").num_layers
    12
    """
    if not isinstance(config, Mapping):
        raise UsageError(f"{name}: a config is one JSON object", found=config, expected="{...} with a model_type")
    text, notes = _text_model(config, name)
    tower = _vision_tower(config, text, name)
    family = family_of(text)
    read = ReadConfig(text)
    fields = ConfigFields(read, name)
    build = builder_of(family, fields)
    try:
        architecture = build(fields, family)
    except ValueError as refusal:
        raise UsageError(f"{name}: {refusal}", expected="the shape of a model that exists") from None
    weights = weight_format_of(text, architecture)
    narrowed = (LOADED_IN_16_BITS,) if weights.is_narrowed else ()
    notes = (*architecture.notes, *narrowed, *(() if tower else notes), *doubts(read))
    predictors = fields.optional_count(*PREDICTORS) or 0
    return replace(architecture, weights=weights, notes=notes, vision=tower, num_predictors=predictors)


def _vision_tower(config: Mapping[str, object], text: Mapping[str, object], name: str) -> VisionTower | None:
    vision = config.get("vision_config")
    if text is config or not isinstance(vision, Mapping):
        return None
    return vision_tower(family_of(config), vision, text, name)


def _text_model(config: Mapping[str, object], name: str) -> tuple[Mapping[str, object], tuple[str, ...]]:
    """The language model inside a multimodal config, with the fields that are kept outside it.

    A head that the whole model unties stays untied: transformers saves the text model's default beside it.
    """
    family = family_of(config)
    text = config.get("text_config")
    if family not in TEXT_MODEL_OF:
        return config, ()
    if text is None and family in _KEEP_TEXT_OUTSIDE:
        text = {key: value for key, value in config.items() if key not in ("model_type", "vision_config")}
    if not isinstance(text, Mapping):
        near = near_key("text_config", set(config) - {"text_config"})
        hint = f"Did you mean text_config by {near}?" if near else None
        expected = "text_config with the text model"
        raise UsageError(f"{name}: a {family} config without text_config", expected=expected, hint=hint)
    inherited = {key: config[key] for key in _HELD_OUTSIDE if config.get(key) is not None}
    inner = {"model_type": TEXT_MODEL_OF[family], **inherited, **{k: v for k, v in text.items() if v is not None}}
    unties = {"tie_word_embeddings": False} if config.get("tie_word_embeddings") is False else {}
    return {**inner, **unties}, (TEXT_PART_ONLY,)
