"""Floating-point operations of the forward pass, by part; a multiply and an add are two. Scalars or arrays.

Norms, activations and softmax are left out: below 1 % of any model here.
"""

from __future__ import annotations

from dataclasses import fields
from typing import cast

from gpufleet.architecture.parameters import (
    ParameterParts,
    expert_params,
    head_params,
    parameter_parts,
)
from gpufleet.architecture.recurrent import recurrence_flop_per_token
from gpufleet.architecture.sparse_attention import (
    attended_tokens,
    index_flop_per_entry,
    index_of,
    indexed_entries,
    indexed_pairs,
    prompt_pairs,
)
from gpufleet.domain.architecture import Architecture, Attention, Mixer, MixtureOfExperts
from gpufleet.domain.arrays import Floats
from gpufleet.domain.mixers import CompressedAttention, GatedDeltaNet, NoMixer, StateSpace
from gpufleet.records import dataclass


@dataclass(frozen=True)
class FlopParts:
    """FLOP by part: `experts` of the experts that a token is routed to, with the projections into their space;
    `scores` attention over the context, the index that chooses from it, and the recurrence of layers with a state.
    """

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


def score_flop_per_context_token(mixer: Mixer, absorbed: bool = False) -> int:
    """FLOP of one query token against one cached vector in one layer, scores and weighted values.

    MHA, GQA, MQA: 2 * heads * (head_dim + value_dim). MLA: 2 * heads * (nope + rope + v), or, when the up-projections
    are absorbed into query and output (decode), 2 * heads * (2 kv_lora_rank + rope). Source: arXiv:2405.04434.
    Compressed: 4 * heads * head_dim. Layers without a cache: 0.

    >>> score_flop_per_context_token(Attention(num_heads=32, num_kv_heads=8, head_dim=128))
    16384
    """
    if isinstance(mixer, Attention):
        return 2 * mixer.num_heads * (mixer.head_dim + mixer.value_dim)
    if isinstance(mixer, CompressedAttention):
        return 4 * mixer.num_heads * mixer.head_dim
    if isinstance(mixer, (GatedDeltaNet, StateSpace, NoMixer)):
        return 0
    if absorbed:
        return 2 * mixer.num_heads * (2 * mixer.kv_lora_rank + mixer.qk_rope_head_dim)
    return 2 * mixer.num_heads * (mixer.qk_nope_head_dim + mixer.qk_rope_head_dim + mixer.v_head_dim)


def decode_score_flop(mixer: Mixer, context_tokens: Floats) -> Floats:
    """FLOP of one new token in one layer beside its projections: attention, index and recurrence.

    >>> float(decode_score_flop(Attention(num_heads=32, num_kv_heads=8, head_dim=128), 1000))
    16384000.0
    """
    attention = score_flop_per_context_token(mixer, absorbed=True) * attended_tokens(mixer, context_tokens)
    return attention + _index_flop(mixer, indexed_entries(mixer, context_tokens)) + _recurrence_flop(mixer)


def prompt_score_flop(mixer: Mixer, tokens: Floats) -> Floats:
    """FLOP of a prompt in one layer beside its projections: causal attention, index and recurrence.

    >>> float(prompt_score_flop(Attention(num_heads=32, num_kv_heads=8, head_dim=128), 1000))
    8200192000.0
    """
    attention = score_flop_per_context_token(mixer) * prompt_pairs(mixer, tokens)
    return attention + _index_flop(mixer, indexed_pairs(mixer, tokens)) + _recurrence_flop(mixer) * tokens


def _index_flop(mixer: Mixer, scored: Floats) -> Floats:
    index = index_of(mixer)
    return index_flop_per_entry(index) * scored if index else 0.0


def _recurrence_flop(mixer: Mixer) -> float:
    return float(recurrence_flop_per_token(mixer)) if isinstance(mixer, (GatedDeltaNet, StateSpace)) else 0.0


def flop_per_token(arch: Architecture, context_tokens: Floats) -> FlopParts:
    """FLOP to decode one token after `context_tokens`: 2 per active matrix parameter, and attention over the context.

    >>> from gpufleet.domain.architecture import Block, DenseMlp
    >>> layer = Block(32, Attention(32, 8, 128), DenseMlp(14336, gated=True))
    >>> llama_3_8b = Architecture("llama-3-8b", "llama", 4096, 128256, (layer,), False, 8192)
    >>> float(flop_per_token(llama_3_8b, 2048).total)
    16083058688.0
    """
    scores = sum((b.count * decode_score_flop(b.mixer, context_tokens) for b in arch.blocks), cast(Floats, 0.0))
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
    scores = sum((b.count * prompt_score_flop(b.mixer, tokens) for b in arch.blocks), cast(Floats, 0.0))
    return _flop_parts(arch, tokens=tokens, scores=scores)


def _flop_parts(arch: Architecture, tokens: Floats, scores: Floats) -> FlopParts:
    parts: ParameterParts = parameter_parts(arch)
    return FlopParts(
        projections=2.0 * parts.attention * tokens,
        scores=scores,
        dense_mlp=2.0 * parts.dense_mlp * tokens,
        shared_experts=2.0 * parts.shared_experts * tokens,
        experts=2.0 * (active_expert_params(arch) + parts.expert_latents) * tokens,
        router=2.0 * parts.router * tokens,
        head=2.0 * head_params(arch),
    )


def active_expert_params(arch: Architecture) -> int:
    """Matrix parameters of the routed experts that serve one token, over all layers."""
    return sum(
        block.count * block.feed_forward.top_k * int(expert_params(block.feed_forward, arch.hidden_size))
        for block in arch.blocks
        if isinstance(block.feed_forward, MixtureOfExperts)
    )
