"""What drafts tokens for a model: its own prediction module, an EAGLE-3 head, another model, or the text itself."""

from __future__ import annotations

import math

from gpufleet.domain.architecture import (
    Architecture,
    Attention,
    Block,
    DenseMlp,
    Draft,
    LatentAttention,
    MixtureOfExperts,
)
from gpufleet.domain.mixers import CompressedAttention
from gpufleet.domain.speculation import EAGLE3, MTP, N_GRAM
from gpufleet.errors import Infeasible

EAGLE_VOCAB = 32_000
"""Tokens that an EAGLE-3 head can propose (`draft_vocab_size` of its config): the commonest of the model's."""
EAGLE_HEAD_DIM, EAGLE_KV_HEADS, EAGLE_MLP_RATIO = 128, 8, 3.5
"""Shape of the head of a model whose own attention is no plain one, and its MLP where no layer has a dense one."""


def draft_of(arch: Architecture, method: str, model: Architecture | None = None) -> Draft:
    """What an engine drafts with by a method; a `model` of its own where that is one.

    >>> from gpufleet.architecture.parameters import num_parameters
    >>> from gpufleet.domain.architecture import Attention, Block, DenseMlp
    >>> layers = (Block(32, Attention(32, 8, 128), DenseMlp(14336, True)),)
    >>> draft = draft_of(Architecture("llama-3.1-8b", "llama", 4096, 128256, layers, False, 131072), EAGLE3)
    >>> draft.model.blocks[0].feed_forward.width, round(num_parameters(draft.model) / 1e9, 2)
    (14336, 0.42)
    """
    if method == N_GRAM:
        return Draft(method)
    if method == MTP:
        return Draft(method, prediction_module(arch), shares_vocabulary=True, shares_format=True)
    if method == EAGLE3:
        return Draft(method, eagle_head(arch))
    if model is None:
        raise ValueError("a draft model is to be named")
    return Draft(method, model)


def prediction_module(arch: Architecture) -> Architecture:
    """One layer that sees a token and the model's hidden state, and predicts the token after next.

    Attention over the whole context where any layer has it, the feed-forward part of most layers, a product of
    2 hidden x hidden before them; embedding and head are the model's. Sources: DeepSeek-V3, arXiv:2412.19437, 2.2.
    """
    if not arch.num_predictors:
        raise Infeasible(
            f"{arch.name} has no module that predicts tokens ahead",
            found="--speculate mtp",
            hint="n-gram drafts from the text, eagle3 with a head that was trained for a model, or name a draft model.",
        )
    mixers = [b.mixer for b in arch.blocks if isinstance(b.mixer, (Attention, LatentAttention, CompressedAttention))]
    mixer = max(mixers, key=lambda each: each.window_tokens if isinstance(each, Attention) else math.inf)
    parts = [(b.count, b.feed_forward) for b in arch.blocks if isinstance(b.feed_forward, (DenseMlp, MixtureOfExperts))]
    feed_forward = max(parts, key=lambda part: part[0])[1]
    joined = 2 * arch.hidden_size**2
    return Architecture(
        name=f"{arch.name} mtp",
        family=arch.family,
        hidden_size=arch.hidden_size,
        vocab_size=arch.vocab_size,
        blocks=(Block(1, mixer, feed_forward, vector_params=joined),),
        tied_embeddings=True,
        max_context_tokens=arch.max_context_tokens,
        weights=arch.weights,
    )


def eagle_head(arch: Architecture) -> Architecture:
    """One layer of plain attention over the hidden states of three of the model's layers, with a head of its own.

    Its queries, keys and values see a token beside them: 2 hidden wide. Source: EAGLE-3, arXiv:2503.01840.
    """
    hidden = arch.hidden_size
    own = next((b.mixer for b in arch.blocks if isinstance(b.mixer, Attention)), None)
    heads = max(hidden // EAGLE_HEAD_DIM, EAGLE_KV_HEADS) // EAGLE_KV_HEADS * EAGLE_KV_HEADS
    attention = Attention(heads, EAGLE_KV_HEADS, EAGLE_HEAD_DIM)
    if own is not None:
        attention = Attention(own.num_heads, own.num_kv_heads, own.head_dim)
    widths = [b.feed_forward.width for b in arch.blocks if isinstance(b.feed_forward, DenseMlp)]
    width = widths[0] if widths else int(EAGLE_MLP_RATIO * hidden)
    seen_twice = hidden * attention.head_dim * (attention.num_heads + 2 * attention.num_kv_heads)
    return Architecture(
        name=f"{arch.name} eagle3",
        family=arch.family,
        hidden_size=hidden,
        vocab_size=min(EAGLE_VOCAB, arch.vocab_size),
        blocks=(Block(1, attention, DenseMlp(width, gated=True), vector_params=3 * hidden**2 + seen_twice),),
        tied_embeddings=True,
        max_context_tokens=arch.max_context_tokens,
    )
