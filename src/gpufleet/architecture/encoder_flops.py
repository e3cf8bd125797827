"""Floating-point operations of one pass through an encoder; a multiply and an add are two. Scalars or arrays.

Norms, activations and softmax are left out: below 1 % of any model here.
"""

from __future__ import annotations

from dataclasses import fields
from typing import cast

from gpufleet.architecture.encoder_parameters import convolution_params, stack_attention_params, stack_mlp_params
from gpufleet.domain.arrays import Floats
from gpufleet.domain.encoder import LayerStack, Tower
from gpufleet.records import dataclass


@dataclass(frozen=True)
class PassFlop:
    """FLOP of one pass by part; `scores` is attention between tokens."""

    convolutions: Floats
    projections: Floats
    scores: Floats
    mlp: Floats
    heads: Floats

    @property
    def total(self) -> Floats:
        """All parts together."""
        return cast(Floats, sum(getattr(self, part.name) for part in fields(self)))


def seen_pairs(stack: LayerStack, tokens: Floats) -> Floats:
    """Pairs of tokens that see each other in one layer: n^2, or n (n + 1) / 2 where a token sees those before it.

    >>> seen_pairs(LayerStack(12, 768, 12, 64, 3072), 128)
    16384
    """
    return tokens * (tokens + 1) / 2 if stack.is_causal else tokens * tokens


def tower_flop(tower: Tower, tokens: Floats, positions: float = 0.0) -> PassFlop:
    """FLOP of one input of `tokens` through a tower; `positions` enter its convolutions.

    layers * (2 (4 h a + mlp) n + 4 a pairs) + convolutions + projections   [FLOP]   h hidden size, a heads * head_dim

    BERT-base over 128 tokens (BERT, arXiv:1810.04805, has 85 M matrix parameters in its layers):

    >>> from gpufleet.architecture.encoder_parse import parse_encoder
    >>> bert = parse_encoder({"model_type": "bert"}, "bert-base-uncased").towers[0]
    >>> round(tower_flop(bert, 128).total / 1e9, 1)
    22.3
    """
    stack = tower.stack
    own = 4 * stack.hidden_size * stack.attention_width
    cross = stack_attention_params(stack) - own
    return PassFlop(
        convolutions=_convolutions_flop(tower, positions),
        projections=stack.num_layers * 2.0 * (own + cross) * tokens,
        scores=stack.num_layers * 4.0 * stack.attention_width * seen_pairs(stack, tokens),
        mlp=stack.num_layers * 2.0 * stack_mlp_params(stack) * tokens,
        heads=_heads_flop(tower, tokens),
    )


def _heads_flop(tower: Tower, tokens: Floats) -> Floats:
    per_row = [(2.0 * p.inputs * p.outputs, p.once) for p in tower.projections]
    once, each = (sum(flop for flop, is_once in per_row if is_once is wanted) for wanted in (True, False))
    return once + each * tokens


def _convolutions_flop(tower: Tower, positions: float) -> float:
    flop = 0.0
    for convolution in tower.convolutions:
        positions = convolution.positions_after(positions)
        flop += 2.0 * convolution_params(convolution) * positions
    return flop
