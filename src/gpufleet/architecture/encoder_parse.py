"""From a config mapping to an `EncoderModel`, for families that are not decoders."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

from gpufleet.architecture import encoder_decoder_families as with_decoder
from gpufleet.architecture import encoder_families as encoders
from gpufleet.architecture.config_fields import ConfigFields
from gpufleet.architecture.weight_format import base_precision
from gpufleet.domain.encoder import EncoderModel
from gpufleet.domain.precision import WeightFormat
from gpufleet.errors import UsageError, shorten

EncoderBuilder = Callable[[ConfigFields, str], EncoderModel]

ENCODER_FAMILIES: Mapping[str, EncoderBuilder] = {
    "bert": encoders.bert,
    "camembert": encoders.xlm_roberta,
    "clip": encoders.clip,
    "distilbert": encoders.distilbert,
    "hubert": encoders.wav2vec2,
    "mpnet": encoders.mpnet,
    "mt5": with_decoder.mt5,
    "roberta": encoders.roberta,
    "t5": with_decoder.t5,
    "vit": encoders.vit,
    "wav2vec2": encoders.wav2vec2,
    "whisper": with_decoder.whisper,
    "xlm-roberta": encoders.xlm_roberta,
}
_BY_FOLDED = {re.sub(r"[-_]", "", family): family for family in ENCODER_FAMILIES}
_CLASS_ENDINGS = r"(Model|For[A-Z]\w*|LMHeadModel)$"


def encoder_family_of(config: Mapping[str, object]) -> str | None:
    """The family of a config that is no decoder's, however it is spelt; None for all others.

    >>> encoder_family_of({"model_type": "xlm_roberta"}), encoder_family_of({"architectures": ["Wav2Vec2Model"]})
    ('xlm-roberta', 'wav2vec2')
    """
    classes = config.get("architectures")
    first = classes[0] if isinstance(classes, list) and classes else ""
    named = config.get("model_type") or config.get("_class_name") or first
    bare = re.sub(_CLASS_ENDINGS, "", named) if isinstance(named, str) else ""
    return _BY_FOLDED.get(re.sub(r"[-_]", "", bare).casefold())


def parse_encoder(config: Mapping[str, object], name: str) -> EncoderModel:
    """The shape that a Hugging Face config of an encoder describes.

    >>> parse_encoder({"model_type": "bert", "num_hidden_layers": 24}, "bert").num_layers
    24
    """
    family = encoder_family_of(config)
    if family is None:
        known = ", ".join(ENCODER_FAMILIES)
        found = shorten(config.get("model_type") or config.get("architectures"))
        raise UsageError(f"{name} is of no family of encoders", found=found, expected=f"one of {known}")
    if config.get("quantization_config"):
        raise UsageError(f"{name}: a quantised checkpoint of an encoder is not planned yet", hint="See --precision.")
    try:
        model = ENCODER_FAMILIES[family](ConfigFields(config, name), family)
    except ValueError as refusal:
        raise UsageError(f"{name}: {refusal}", expected="the shape of a model that exists") from None
    return replace(model, weights=WeightFormat.uniform(base_precision(config, name)))
