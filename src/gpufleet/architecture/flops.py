"""Floating-point operations of the forward pass, by part; a multiply and an add are two. Scalars or arrays.

Norms, activations and softmax are left out: below 1 % of any model here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import cast

import numpy as np

from gpufleet.architecture.kv_cache import held_tokens
from gpufleet.architecture.parameters import (
    ParameterParts,
    expert_params,
    head_params,
    parameter_parts,
)
from gpufleet.domain.architecture import Architecture, Attention, LatentAttention, MixtureOfExperts
from gpufleet.domain.arrays import Floats


@dataclass(frozen=True)
class FlopParts:
    """FLOP by part; `experts` counts the experts that a token is routed to, `scores` attention over the context."""

    projections: Floats
    scores: Floats
    dense_mlp: Floats
    shared_experts: Floats
    experts: Floats
    router: Floats
    head: Floats

    @property
    def total(self) -> Floats:
        """All parts together."""
        return sum((getattr(self, part.name) for part in fields(self)), 0.0)


def score_flop_per_context_token(mixer: Attention | LatentAttention, absorbed: bool = False) -> int:
    """FLOP of one query token against one token of context in one layer, scores and weighted values.

    MHA, GQA, MQA: 4 * heads * head_dim. MLA: 2 * heads * (nope + rope + v), or, when the up-projections are
    absorbed into query and output (decode), 2 * heads * (2 kv_lora_rank + rope). Source: arXiv:2405.04434.

    >>> score_flop_per_context_token(Attention(num_heads=32, num_kv_heads=8, head_dim=128))
    16384
    """
    if isinstance(mixer, Attention):
        return 4 * mixer.num_heads * mixer.head_dim
    if absorbed:
        return 2 * mixer.num_heads * (2 * mixer.kv_lora_rank + mixer.qk_rope_head_dim)
    return 2 * mixer.num_heads * (mixer.qk_nope_head_dim + mixer.qk_rope_head_dim + mixer.v_head_dim)


def flop_per_token(arch: Architecture, context_tokens: Floats) -> FlopParts:
    """FLOP to decode one token after `context_tokens`: 2 per active matrix parameter, and attention over the context.

    >>> from gpufleet.domain.architecture import Block, DenseMlp
    >>> layer = Block(32, Attention(32, 8, 128), DenseMlp(14336, gated=True))
    >>> llama_3_8b = Architecture("llama-3-8b", "llama", 4096, 128256, (layer,), False, 8192)
    >>> float(flop_per_token(llama_3_8b, 2048).total)
    16083058688.0
    """
    scores = sum(
        (
            block.count
            * score_flop_per_context_token(block.mixer, absorbed=True)
            * held_tokens(block.mixer, context_tokens)
            for block in arch.blocks
        ),
        cast(Floats, 0.0),
    )
    return _flop_parts(arch, tokens=1.0, scores=scores)


def prefill_flop(arch: Architecture, tokens: Floats) -> FlopParts:
    """FLOP to read a prompt of `tokens`: 2 per active matrix parameter and token, causal attention, one head.

    The head is computed for the last token only, as serving engines do.

    >>> from gpufleet.domain.architecture import Block, DenseMlp
    >>> layer = Block(32, Attention(32, 8, 128), DenseMlp(14336, gated=True))
    >>> llama_3_8b = Architecture("llama-3-8b", "llama", 4096, 128256, (layer,), False, 8192)
    >>> float(prefill_flop(llama_3_8b, 1024).scores)
    275146342400.0
    """
    scores = sum(
        (
            block.count * score_flop_per_context_token(block.mixer) * causal_pairs(block.mixer, tokens)
            for block in arch.blocks
        ),
        cast(Floats, 0.0),
    )
    return _flop_parts(arch, tokens=tokens, scores=scores)


def causal_pairs(mixer: Attention | LatentAttention, tokens: Floats) -> Floats:
    """Pairs of query and context token that a layer computes over a prompt.

    Full: n (n + 1) / 2. Window w: that up to w, then w for each further token. Chunks of w: that within each chunk.

    >>> float(causal_pairs(Attention(8, 8, 64, window_tokens=4), 6))
    18.0
    """
    window = mixer.window_tokens if isinstance(mixer, Attention) else math.inf
    if math.isinf(window):
        return _triangle(tokens)
    if isinstance(mixer, Attention) and mixer.chunked:
        return np.floor_divide(tokens, window) * _triangle(window) + _triangle(np.mod(tokens, window))
    inside = np.minimum(tokens, window)
    return _triangle(inside) + (tokens - inside) * window


def _triangle(side: Floats) -> Floats:
    return side * (side + 1) / 2


def _flop_parts(arch: Architecture, tokens: Floats, scores: Floats) -> FlopParts:
    parts: ParameterParts = parameter_parts(arch)
    return FlopParts(
        projections=2.0 * parts.attention * tokens,
        scores=scores,
        dense_mlp=2.0 * parts.dense_mlp * tokens,
        shared_experts=2.0 * parts.shared_experts * tokens,
        experts=2.0 * active_expert_params(arch) * tokens,
        router=2.0 * parts.router * tokens,
        head=2.0 * head_params(arch),
    )


def active_expert_params(arch: Architecture) -> int:
    """Matrix parameters of the routed experts that serve one token, over all layers."""
    return sum(
        block.count * block.feed_forward.top_k * expert_params(block.feed_forward, arch.hidden_size)
        for block in arch.blocks
        if isinstance(block.feed_forward, MixtureOfExperts)
    )
