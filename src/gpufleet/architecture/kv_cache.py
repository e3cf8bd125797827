"""Bytes of KV cache that one sequence occupies; scalars or arrays, which broadcast."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import cast

import numpy as np

from gpufleet.architecture.recurrent import state_bytes_per_layer
from gpufleet.architecture.sparse_attention import entries, index_of, indexed_entries
from gpufleet.domain.architecture import Architecture, Attention, Block, LatentAttention, Mixer
from gpufleet.domain.arrays import Floats
from gpufleet.domain.mixers import CompressedAttention, GatedDeltaNet, StateSpace

FP8_BYTES, SCALE_BYTES = 1.0, 4.0
LATENT_SCALE_BLOCK, ENTRY_SCALE_BLOCK, ENTRY_ALIGNMENT = 128, 64, 8


def kv_elements_per_token(mixer: Mixer) -> int:
    """Numbers that one layer keeps for one token, or for one compressed entry.

    MHA, GQA, MQA: kv_heads * (head_dim + value_dim); MLA: kv_lora_rank + qk_rope_head_dim; compressed: head_dim, as
    keys are values; layers with a state, or none: 0.

    >>> kv_elements_per_token(Attention(num_heads=32, num_kv_heads=8, head_dim=128))
    2048
    """
    if isinstance(mixer, LatentAttention):
        return mixer.kv_lora_rank + mixer.qk_rope_head_dim
    if isinstance(mixer, Attention):
        return mixer.num_kv_heads * (mixer.head_dim + mixer.value_dim)
    return mixer.head_dim if isinstance(mixer, CompressedAttention) else 0


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


def bytes_per_vector(mixer: Mixer, kv_bytes_per_element: Floats) -> Floats:
    """Bytes that one layer keeps for one token, or for one compressed entry, on no more than one copy   [bytes]."""
    return kv_elements_per_token(mixer) * kv_bytes_per_element + kept_beside_fp8_bytes(mixer, kv_bytes_per_element)


def held_tokens(mixer: Mixer, context_tokens: Floats) -> Floats:
    """Vectors of a context that a layer keeps: all, at most its window or one chunk, or a window and compressed ones.

    A layer that reads only what an index chooses keeps everything that may be chosen.

    >>> float(held_tokens(Attention(32, 8, 128, window_tokens=4096), 10_000))
    4096.0
    """
    window = mixer.window_tokens if isinstance(mixer, (Attention, CompressedAttention)) else math.inf
    held = cast(Floats, np.minimum(context_tokens, window))
    return held + entries(mixer, context_tokens) if isinstance(mixer, CompressedAttention) else held


def block_kv_bytes_per_layer(block: Block, kv_bytes_per_element: Floats, context_tokens: Floats) -> Floats:
    """Bytes that one sequence keeps in one layer: elements * bytes per element * vectors held, index, state   [bytes].

    >>> from gpufleet.domain.architecture import DenseMlp
    >>> layer = Block(32, Attention(32, 8, 128), DenseMlp(14336, gated=True))
    >>> float(block_kv_bytes_per_layer(layer, 2.0, 1))
    4096.0
    """
    mixer = block.mixer
    cache = bytes_per_vector(mixer, kv_bytes_per_element) * held_tokens(mixer, context_tokens)
    return cache + index_bytes_per_layer(mixer, context_tokens) + state_bytes(mixer)


def index_bytes_per_layer(mixer: Mixer, context_tokens: Floats) -> Floats:
    """Bytes that the index of one layer keeps of one sequence, in its own format, on every rank   [bytes].

    >>> from gpufleet.domain.mixers import TokenIndex
    >>> index = TokenIndex(64, 128, 1536, 192, 132.0)
    >>> float(index_bytes_per_layer(LatentAttention(128, 1536, 512, 128, 64, 128, index=index), 1000))
    132000.0
    """
    index = index_of(mixer)
    return index.cache_bytes_per_entry * indexed_entries(mixer, context_tokens) if index else 0.0


def state_bytes(mixer: Mixer) -> float:
    """Bytes that one sequence keeps in one layer whatever its length; 0 where the layer has a cache instead."""
    return state_bytes_per_layer(mixer) if isinstance(mixer, (GatedDeltaNet, StateSpace)) else 0.0


def full_attention_kv_bytes(arch: Architecture, kv_bytes_per_element: Floats, context_tokens: Floats) -> Floats:
    """Bytes of KV cache that one sequence occupies in its full-attention layers.

    2 (K and V) * layers * kv_heads * head_dim * bytes_per_element * context   [bytes]
    MHA, GQA, MQA. Sliding-window and chunked layers: `windowed_kv_bytes`; MLA: `latent_kv_bytes`.
    Source: Shazeer 2019 (arXiv:1911.02150); GQA, Ainslie et al. 2023 (arXiv:2305.13245).

    >>> from gpufleet.domain.architecture import DenseMlp
    >>> layer = Block(32, Attention(32, 8, 128), DenseMlp(14336, gated=True))
    >>> llama_3_8b = Architecture("llama-3-8b", "llama", 4096, 128256, (layer,), False, 8192)
    >>> float(full_attention_kv_bytes(llama_3_8b, 2.0, 1))
    131072.0
    """
    full = (b for b in arch.blocks if isinstance(b.mixer, Attention) and math.isinf(b.mixer.window_tokens))
    return _cache_bytes(full, kv_bytes_per_element, context_tokens)


def windowed_kv_bytes(arch: Architecture, kv_bytes_per_element: Floats, context_tokens: Floats) -> Floats:
    """Bytes of KV cache that one sequence occupies in layers that see a window or a chunk.

    2 (K and V) * layers * kv_heads * head_dim * bytes_per_element * min(context, window)   [bytes]
    Source: Mistral 7B (arXiv:2310.06825), section 2.

    >>> from gpufleet.domain.architecture import DenseMlp
    >>> layer = Block(32, Attention(32, 8, 128, window_tokens=4096), DenseMlp(14336, gated=True))
    >>> mistral_7b = Architecture("mistral-7b-v0.1", "mistral", 4096, 32000, (layer,), False, 32768)
    >>> float(windowed_kv_bytes(mistral_7b, 2.0, 32768)) / 2**20
    512.0
    """
    windowed = (b for b in arch.blocks if isinstance(b.mixer, Attention) and math.isfinite(b.mixer.window_tokens))
    return _cache_bytes(windowed, kv_bytes_per_element, context_tokens)


def latent_kv_bytes(arch: Architecture, kv_bytes_per_element: Floats, context_tokens: Floats) -> Floats:
    """Bytes of cache that one sequence occupies in layers of multi-head latent attention.

    layers * (kv_lora_rank + qk_rope_head_dim) * bytes_per_element * context   [bytes]
    One latent serves all heads, so every tensor-parallel rank keeps a copy. Source: DeepSeek-V2 (arXiv:2405.04434).

    >>> from gpufleet.domain.architecture import DenseMlp
    >>> layer = Block(61, LatentAttention(128, 1536, 512, 128, 64, 128), DenseMlp(18432, gated=True))
    >>> float(latent_kv_bytes(Architecture("v3", "deepseek_v3", 7168, 129280, (layer,), False, 163840), 2.0, 1))
    70272.0
    """
    latent = (b for b in arch.blocks if isinstance(b.mixer, LatentAttention))
    return _cache_bytes(latent, kv_bytes_per_element, context_tokens)


def compressed_kv_bytes(arch: Architecture, kv_bytes_per_element: Floats, context_tokens: Floats) -> Floats:
    """Bytes of cache that one sequence occupies in layers of compressed attention, without their index.

    layers * head_dim * bytes_per_element * (min(context, window) + context / tokens_per_entry)   [bytes]
    """
    compressed = (b for b in arch.blocks if isinstance(b.mixer, CompressedAttention))
    return _cache_bytes(compressed, kv_bytes_per_element, context_tokens)


def index_bytes_per_sequence(arch: Architecture, context_tokens: Floats) -> Floats:
    """Bytes that the indices of sparse attention keep of one sequence.

    layers with an index of their own * bytes per entry * entries   [bytes]   Source: arXiv:2512.02556.
    """
    per_block = (b.count * index_bytes_per_layer(b.mixer, context_tokens) for b in arch.blocks)
    return sum(per_block, _nothing(1.0, context_tokens))


def state_bytes_per_sequence(arch: Architecture) -> float:
    """Bytes of recurrent state that one sequence keeps, whatever its length   [bytes].

    >>> from gpufleet.domain.architecture import DenseMlp
    >>> layer = Block(30, GatedDeltaNet(16, 32, 128, 128, 4), DenseMlp(512, gated=True))
    >>> state_bytes_per_sequence(Architecture("qwen3.5", "qwen3_5", 2048, 248320, (layer,), False, 262144)) / 2**20
    61.40625
    """
    return sum(block.count * state_bytes(block.mixer) for block in arch.blocks)


def kv_bytes_per_sequence(arch: Architecture, kv_bytes_per_element: Floats, context_tokens: Floats) -> Floats:
    """Bytes that one sequence of `context_tokens` occupies in the whole model, on no more than one copy.

    full_attention_kv_bytes + windowed_kv_bytes + latent_kv_bytes + compressed_kv_bytes + index_bytes_per_sequence
    + state_bytes_per_sequence   [bytes]

    >>> from gpufleet.domain.architecture import DenseMlp
    >>> layer = Block(80, Attention(64, 8, 128), DenseMlp(28672, gated=True))
    >>> llama_70b = Architecture("llama-3.1-70b", "llama", 8192, 128256, (layer,), False, 131072)
    >>> float(16 * kv_bytes_per_sequence(llama_70b, 2.0, 4096)) / 2**30
    20.0
    """
    return _kv_bytes(arch.blocks, kv_bytes_per_element, context_tokens)


def _kv_bytes(blocks: Iterable[Block], kv_bytes_per_element: Floats, context_tokens: Floats) -> Floats:
    per_block = (
        block.count * block_kv_bytes_per_layer(block, kv_bytes_per_element, context_tokens) for block in blocks
    )
    return sum(per_block, _nothing(kv_bytes_per_element, context_tokens))


def _cache_bytes(blocks: Iterable[Block], kv_bytes_per_element: Floats, context_tokens: Floats) -> Floats:
    """Cached vectors alone, without index and state."""
    per_block = (
        b.count * bytes_per_vector(b.mixer, kv_bytes_per_element) * held_tokens(b.mixer, context_tokens) for b in blocks
    )
    return sum(per_block, _nothing(kv_bytes_per_element, context_tokens))


def _nothing(kv_bytes_per_element: Floats, context_tokens: Floats) -> Floats:
    return cast(Floats, 0.0 * np.multiply(kv_bytes_per_element, context_tokens))
