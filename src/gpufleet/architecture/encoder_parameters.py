"""Exact parameter counts of encoders, by part and by tower, and the bytes they take.

Counts are those of the model's own class with tied weights once; Whisper's fixed sinusoids count, as they do there.
"""

from __future__ import annotations

from dataclasses import fields

from gpufleet.domain.encoder import Convolution, EncoderModel, LayerStack, Tower
from gpufleet.domain.precision import WeightFormat
from gpufleet.records import dataclass


@dataclass(frozen=True)
class EncoderParts:
    """Parameters of a tower or of a model; `vectors` are norms, biases and single vectors."""

    embedding: int = 0
    convolutions: int = 0
    attention: int = 0
    mlp: int = 0
    projections: int = 0
    vectors: int = 0

    @property
    def total(self) -> int:
        """All parts together."""
        return sum(getattr(self, part.name) for part in fields(self))


def stack_attention_params(stack: LayerStack) -> int:
    """Parameters of one layer's attention matrices: query, key, value and output, twice with cross attention.

    4 * hidden * heads * head_dim   [parameters]   BERT-large: 4 * 1024 * 1024

    >>> stack_attention_params(LayerStack(24, 1024, 16, 64, 4096))
    4194304
    """
    return 4 * stack.hidden_size * stack.attention_width * (1 + stack.attends_to_encoder)


def stack_mlp_params(stack: LayerStack) -> int:
    """Parameters of one layer's feed-forward matrices: up and down, and gate where gated.

    >>> stack_mlp_params(LayerStack(24, 1024, 16, 64, 4096))
    8388608
    """
    return (3 if stack.gated else 2) * stack.hidden_size * stack.mlp_width


def convolution_params(convolution: Convolution) -> int:
    """Parameters of a convolution's kernels: out * in / groups * kernel   [parameters].

    The patches of ViT-base: 768 * 3 * 16 * 16

    >>> convolution_params(Convolution(3, 768, kernel=256))
    589824
    """
    return convolution.out_channels * convolution.in_channels // convolution.groups * convolution.kernel


def tower_parts(tower: Tower) -> EncoderParts:
    """Parameters of one tower."""
    stack = tower.stack
    return EncoderParts(
        embedding=tower.embedding_params,
        convolutions=sum(map(convolution_params, tower.convolutions)),
        attention=stack.num_layers * stack_attention_params(stack),
        mlp=stack.num_layers * stack_mlp_params(stack),
        projections=sum(p.inputs * p.outputs for p in tower.projections if not p.is_tied),
        vectors=tower.vector_params
        + stack.num_layers * stack.vector_params
        + sum(convolution.vector_params for convolution in tower.convolutions),
    )


def encoder_parts(model: EncoderModel) -> EncoderParts:
    """Parameters of the whole model, by part."""
    parts = [EncoderParts(vectors=model.other_params), *map(tower_parts, model.all_towers)]
    return EncoderParts(**{f.name: sum(getattr(p, f.name) for p in parts) for f in fields(EncoderParts)})


def num_encoder_parameters(model: EncoderModel) -> int:
    """All parameters, tied weights once.

    >>> from gpufleet.architecture.encoder_parse import parse_encoder
    >>> num_encoder_parameters(parse_encoder({"model_type": "bert"}, "bert-base-uncased"))
    109482240
    """
    return encoder_parts(model).total


def encoder_weights_bytes(model: EncoderModel, weights: WeightFormat) -> float:
    """Bytes of the checkpoint: layers in their precisions, embedding, convolutions, head and vectors in the base.

    >>> from gpufleet.architecture.encoder_parse import parse_encoder
    >>> from gpufleet.domain.precision import FP16, WeightFormat
    >>> bert = parse_encoder({"model_type": "bert"}, "bert-base-uncased")
    >>> encoder_weights_bytes(bert, WeightFormat.uniform(FP16))
    218964480.0
    """
    parts = encoder_parts(model)
    return (
        (parts.embedding + parts.convolutions + parts.vectors) * weights.base.bytes_per_element
        + parts.projections * weights.head.bytes_per_element
        + parts.attention * weights.attention.bytes_per_element
        + parts.mlp * weights.mlp.bytes_per_element
    )
