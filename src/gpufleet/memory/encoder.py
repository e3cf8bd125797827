"""Bytes that a pass of an encoder, and a decoder that attends to it, take on one GPU."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from gpufleet.architecture.encoder_parameters import encoder_weights_bytes
from gpufleet.domain.encoder import EncoderModel, Tower
from gpufleet.domain.precision import FP32, WeightFormat
from gpufleet.domain.runtime import Runtime
from gpufleet.domain.verdict import DOES_NOT_FIT, FITS, TIGHT
from gpufleet.memory.band import Band
from gpufleet.records import dataclass


@dataclass(frozen=True)
class PassSize:
    """What each input of a batch is: its tokens, what enters its convolutions, and what a decoder writes for it."""

    tokens: float
    positions: float = 0.0
    output_tokens: float = 0.0
    beams: int = 1


@dataclass(frozen=True, eq=False)
class EncoderMemory:
    """Bytes by part; activations and cache are of one input, and grow with the batch."""

    device_bytes: float
    weights_bytes: float
    reserve_bytes: Band
    activation_bytes_per_input: Band
    cache_bytes_per_input: float

    def total_bytes(self, inputs: float) -> Band:
        """What so many inputs together need: weights, runtime, activations, caches of a decoder."""
        per_input = self.activation_bytes_per_input.plus(Band.exact(self.cache_bytes_per_input))
        return Band.exact(self.weights_bytes).plus(self.reserve_bytes).plus(per_input.scaled(inputs))

    @cached_property
    def largest_batch(self) -> float:
        """Inputs that have room together; 0 where not even the weights have."""
        per_input = float(self.activation_bytes_per_input.expected) + self.cache_bytes_per_input
        room = self.device_bytes - self.weights_bytes - float(self.reserve_bytes.expected)
        return float(max(np.floor(room / per_input), 0.0))

    def verdict(self, inputs: float) -> str:
        """Whether so many inputs have room, also where estimates are at their high end."""
        total = self.total_bytes(inputs)
        if float(total.expected) > self.device_bytes:
            return DOES_NOT_FIT
        return FITS if float(total.high) <= self.device_bytes else TIGHT


def encoder_memory(
    model: EncoderModel, tower: Tower, runtime: Runtime, weights: WeightFormat, size: PassSize, device_bytes: float
) -> EncoderMemory:
    """The memory of passes of this size; every tower of the model is loaded, one is run."""
    return EncoderMemory(
        device_bytes=device_bytes,
        weights_bytes=encoder_weights_bytes(model, weights),
        reserve_bytes=Band.of(runtime.reserve_bytes),
        activation_bytes_per_input=activation_bytes(tower, runtime, size, weights.base.bytes_per_element),
        cache_bytes_per_input=decoder_cache_bytes(model.decoder, size, weights.base.bytes_per_element),
    )


def activation_bytes(tower: Tower, runtime: Runtime, size: PassSize, state_bytes: float) -> Band:
    """Bytes that one input holds while it passes a layer, or the convolutions, whichever is more.

    tokens (copies hidden + mlp copies x width) state + score copies x heads tokens^2 state where scores are written
    or convolved copies x the largest convolution state   [bytes]   Copies: `data/runtimes/<name>.toml`.
    """
    stack, copies = tower.stack, runtime.copies
    layer = Band.of(runtime.hidden_copies).scaled(size.tokens * stack.hidden_size * state_bytes)
    mlp = copies.mlp * size.tokens * stack.mlp_width * state_bytes
    scores = 0.0
    if not runtime.fuses_attention(stack.head_dim, state_bytes):
        scores = copies.scores * stack.num_heads * size.tokens**2 * state_bytes
    held = layer.plus(Band.exact(mlp + scores))
    return held.larger_of(Band.exact(copies.convolved * largest_convolution(tower, size.positions) * state_bytes))


def largest_convolution(tower: Tower, positions: float) -> float:
    """Elements of the largest output of a tower's convolutions for one input."""
    largest = 0.0
    for convolution in tower.convolutions:
        positions = convolution.positions_after(positions)
        largest = max(largest, positions * convolution.out_channels)
    return largest


def decoder_cache_bytes(decoder: Tower | None, size: PassSize, state_bytes: float) -> float:
    """Bytes that a decoder keeps for one input: keys and values of its answer and of the encoder, and its logits.

    layers * 2 * heads * head_dim * (beams * answer + encoder tokens) * state + beams * vocabulary * 4   [bytes]

    One window of 1,500 tokens in Whisper large, an answer of 120 tokens, no beams:

    >>> from gpufleet.architecture.encoder_parse import parse_encoder
    >>> large = {"model_type": "whisper", "d_model": 1280, "decoder_layers": 32, "decoder_attention_heads": 20}
    >>> whisper = parse_encoder({**large, "encoder_attention_heads": 20}, "whisper-large")
    >>> round(decoder_cache_bytes(whisper.decoder, PassSize(1500, output_tokens=120), 2.0) / 1e6)
    266
    """
    if decoder is None:
        return 0.0
    stack = decoder.stack
    kept = size.beams * size.output_tokens + size.tokens
    logits = size.beams * sum(head.outputs for head in decoder.projections) * FP32.bytes_per_element
    return stack.num_layers * 2 * stack.attention_width * kept * state_bytes + logits
