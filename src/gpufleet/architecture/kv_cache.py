"""Bytes of KV cache that one sequence occupies, in a model or on a rank of it; scalars or arrays, which broadcast."""

from __future__ import annotations

import math
from typing import cast

import numpy as np

from gpufleet.architecture.recurrent import state_bytes_per_layer
from gpufleet.architecture.sharding import shard
from gpufleet.architecture.sparse_attention import entries, index_of, indexed_entries
from gpufleet.domain.architecture import Architecture, Attention, LatentAttention, Mixer
from gpufleet.domain.arrays import Floats, Ints
from gpufleet.domain.mixers import CompressedAttention, GatedDeltaNet, StateSpace

FP8_BYTES, SCALE_BYTES = 1.0, 4.0
LATENT_SCALE_BLOCK, ENTRY_SCALE_BLOCK, ENTRY_ALIGNMENT = 128, 64, 8


def kv_elements_per_token(mixer: Mixer, tp: Ints = 1) -> Floats:
    """Numbers that one layer, or one of its ranks, keeps for one token, or for one compressed entry.

    MHA, GQA, MQA: ceil(kv_heads / tp) (head_dim + value_dim), as heads are copied once TP exceeds them; on every rank:
    MLA: kv_lora_rank + qk_rope_head_dim; compressed: head_dim, as keys are values; layers with a state, or none: 0.

    >>> kv_elements_per_token(Attention(num_heads=32, num_kv_heads=8, head_dim=128))
    2048
    >>> kv_elements_per_token(LatentAttention(128, 1536, 512, 128, 64, 128), tp=8)
    576
    """
    if isinstance(mixer, Attention):
        return shard(mixer.num_kv_heads, tp) * (mixer.head_dim + mixer.value_dim)
    if isinstance(mixer, LatentAttention):
        copied = mixer.kv_lora_rank + mixer.qk_rope_head_dim
    else:
        copied = mixer.head_dim if isinstance(mixer, CompressedAttention) else 0
    return cast(Floats, copied + 0 * tp)


def kept_beside_fp8_bytes(mixer: Mixer, kv_bytes_per_element: Floats) -> Floats:
    """Bytes of a cached vector beyond one byte an element, where attention chooses what it reads of an fp8 cache.

    The rotary part stays in 16 bits; scales: fp32 per 128 of a latent, a byte per 64 of a compressed entry, in whole 8.
    DeepSeek-V3.2 caches 512 + 4 x 4 + 64 x 2 = 656 bytes a token, V4 448 + 64 x 2 + 8 = 584 an entry: MLAAttentionSpec
    of vLLM (v1/kv_cache_interface.py), FlashMLA, SGLang.

    >>> float(kept_beside_fp8_bytes(LatentAttention(128, 1536, 512, 128, 64, 128, kept_tokens=2048), 1.0))
    80.0
    """
    extra = 0.0
    if isinstance(mixer, LatentAttention) and math.isfinite(mixer.kept_tokens):
        extra = mixer.qk_rope_head_dim + SCALE_BYTES * mixer.kv_lora_rank / LATENT_SCALE_BLOCK
    elif isinstance(mixer, CompressedAttention):
        plain = mixer.head_dim - mixer.rope_head_dim
        extra = mixer.rope_head_dim + ENTRY_ALIGNMENT * math.ceil(plain / ENTRY_SCALE_BLOCK / ENTRY_ALIGNMENT)
    return cast(Floats, np.where(np.asarray(kv_bytes_per_element) == FP8_BYTES, extra, 0.0)[()])


def bytes_per_vector(mixer: Mixer, kv_bytes_per_element: Floats, tp: Ints = 1) -> Floats:
    """Bytes that one layer, or one of its ranks, keeps for one token, or for one compressed entry.   [bytes]

    >>> float(bytes_per_vector(LatentAttention(128, 1536, 512, 128, 64, 128, kept_tokens=2048), 1.0, tp=8))
    656.0
    """
    elements = kv_elements_per_token(mixer, tp)
    return elements * kv_bytes_per_element + kept_beside_fp8_bytes(mixer, kv_bytes_per_element)


def held_tokens(mixer: Mixer, context_tokens: Floats) -> Floats:
    """Vectors of a context that a layer keeps: all, at most its window or one chunk, or a window and compressed ones.

    A layer that reads only what an index chooses keeps everything that may be chosen.

    >>> float(held_tokens(Attention(32, 8, 128, window_tokens=4096), 10_000))
    4096.0
    """
    window = mixer.window_tokens if isinstance(mixer, (Attention, CompressedAttention)) else math.inf
    held = cast(Floats, np.minimum(context_tokens, window))
    return held + entries(mixer, context_tokens) if isinstance(mixer, CompressedAttention) else held


def round_to_blocks(tokens: Floats, block_tokens: Floats) -> Floats:
    """Tokens that whole KV blocks hold: ceil(tokens / block) x block.

    >>> float(round_to_blocks(1000, 16))
    1008.0
    """
    return cast(Floats, np.ceil(np.asarray(tokens, dtype=np.float64) / block_tokens)[()] * block_tokens)


def layer_kv_bytes(
    mixer: Mixer, kv_bytes_per_element: Floats, context_tokens: Floats, tp: Ints = 1, block_tokens: Floats = 1
) -> Floats:
    """Bytes that one sequence keeps in one layer, or in one of its ranks: vectors in whole blocks, index, state.

    Full attention: 2 (K and V) * kv_heads * head_dim * bytes_per_element * context   [bytes]
    Window or chunk: the same * min(context, window)
    MLA: (kv_lora_rank + qk_rope_head_dim) * bytes_per_element * context; one latent serves all heads of all ranks
    Compressed: head_dim * bytes_per_element * (min(context, window) + context / tokens_per_entry)
    Sources: Shazeer 2019 (arXiv:1911.02150); GQA, Ainslie et al. 2023 (arXiv:2305.13245); Mistral 7B, section 2
    (arXiv:2310.06825); DeepSeek-V2 (arXiv:2405.04434). Blocks: PagedAttention (arXiv:2309.06180).

    >>> float(layer_kv_bytes(Attention(32, 8, 128), 2.0, 1))
    4096.0
    >>> 32 * float(layer_kv_bytes(Attention(32, 8, 128, window_tokens=4096), 2.0, 32768)) / 2**20
    512.0
    >>> 61 * float(layer_kv_bytes(LatentAttention(128, 1536, 512, 128, 64, 128), 2.0, 1))
    70272.0
    """
    held = round_to_blocks(held_tokens(mixer, context_tokens), block_tokens)
    cache = bytes_per_vector(mixer, kv_bytes_per_element, tp) * held
    return cache + index_bytes_per_layer(mixer, context_tokens) + state_bytes(mixer, tp)


def index_bytes_per_layer(mixer: Mixer, context_tokens: Floats) -> Floats:
    """Bytes that the index of one layer keeps of one sequence, in its own format, on every rank   [bytes].

    >>> from gpufleet.domain.mixers import TokenIndex
    >>> index = TokenIndex(64, 128, 1536, 192, 132.0)
    >>> float(index_bytes_per_layer(LatentAttention(128, 1536, 512, 128, 64, 128, index=index), 1000))
    132000.0
    """
    index = index_of(mixer)
    return index.cache_bytes_per_entry * indexed_entries(mixer, context_tokens) if index else 0.0


def state_bytes(mixer: Mixer, tp: Ints = 1, least_bytes_per_element: Floats = 0.0) -> Floats:
    """Bytes that one sequence keeps in one layer whatever its length; 0 where the layer has a cache instead."""
    if isinstance(mixer, (GatedDeltaNet, StateSpace)):
        return state_bytes_per_layer(mixer, tp, least_bytes_per_element)
    return 0.0


def index_bytes_per_sequence(arch: Architecture, context_tokens: Floats) -> Floats:
    """Bytes that the indices of sparse attention keep of one sequence.

    layers with an index of their own * bytes per entry * entries   [bytes]   Source: arXiv:2512.02556.
    """
    return sum((b.count * index_bytes_per_layer(b.mixer, context_tokens) for b in arch.blocks), 0.0 * context_tokens)


def state_bytes_per_sequence(arch: Architecture) -> float:
    """Bytes of recurrent state that one sequence keeps, whatever its length   [bytes].

    >>> from gpufleet.domain.architecture import Block, DenseMlp
    >>> layer = Block(30, GatedDeltaNet(16, 32, 128, 128, 4), DenseMlp(512, gated=True))
    >>> state_bytes_per_sequence(Architecture("qwen3.5", "qwen3_5", 2048, 248320, (layer,), False, 262144)) / 2**20
    61.40625
    """
    return float(sum(block.count * state_bytes(block.mixer) for block in arch.blocks))


def kv_bytes_per_sequence(arch: Architecture, kv_bytes_per_element: Floats, context_tokens: Floats) -> Floats:
    """Bytes that one sequence of `context_tokens` occupies in the whole model, on no more than one copy.   [bytes]

    >>> from gpufleet.domain.architecture import Block, DenseMlp
    >>> layer = Block(80, Attention(64, 8, 128), DenseMlp(28672, gated=True))
    >>> llama_70b = Architecture("llama-3.1-70b", "llama", 8192, 128256, (layer,), False, 131072)
    >>> float(16 * kv_bytes_per_sequence(llama_70b, 2.0, 4096)) / 2**30
    20.0
    """
    per_block = (b.count * layer_kv_bytes(b.mixer, kv_bytes_per_element, context_tokens) for b in arch.blocks)
    return sum(per_block, cast(Floats, 0.0))
