"""Bytes of KV cache that one sequence occupies; scalars or arrays, which broadcast."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import cast

import numpy as np

from gpufleet.domain.architecture import Architecture, Attention, Block, LatentAttention
from gpufleet.domain.arrays import Floats


def kv_elements_per_token(mixer: Attention | LatentAttention) -> int:
    """Numbers that one layer keeps for one token.

    MHA, GQA, MQA: 2 (K and V) * kv_heads * head_dim; MLA: kv_lora_rank + qk_rope_head_dim.

    >>> kv_elements_per_token(Attention(num_heads=32, num_kv_heads=8, head_dim=128))
    2048
    """
    if isinstance(mixer, LatentAttention):
        return mixer.kv_lora_rank + mixer.qk_rope_head_dim
    return 2 * mixer.num_kv_heads * mixer.head_dim


def held_tokens(mixer: Attention | LatentAttention, context_tokens: Floats) -> Floats:
    """Tokens of a context that a layer keeps: all, at most its window, or at most one chunk.

    >>> float(held_tokens(Attention(32, 8, 128, window_tokens=4096), 10_000))
    4096.0
    """
    window = mixer.window_tokens if isinstance(mixer, Attention) else math.inf
    return cast(Floats, np.minimum(context_tokens, window))


def block_kv_bytes_per_layer(block: Block, kv_bytes_per_element: Floats, context_tokens: Floats) -> Floats:
    """Bytes that one sequence keeps in one layer: elements per token * bytes per element * tokens held   [bytes].

    >>> from gpufleet.domain.architecture import DenseMlp
    >>> layer = Block(32, Attention(32, 8, 128), DenseMlp(14336, gated=True))
    >>> float(block_kv_bytes_per_layer(layer, 2.0, 1))
    4096.0
    """
    return kv_elements_per_token(block.mixer) * kv_bytes_per_element * held_tokens(block.mixer, context_tokens)


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
    return _kv_bytes(full, kv_bytes_per_element, context_tokens)


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
    return _kv_bytes(windowed, kv_bytes_per_element, context_tokens)


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
    return _kv_bytes(latent, kv_bytes_per_element, context_tokens)


def kv_bytes_per_sequence(arch: Architecture, kv_bytes_per_element: Floats, context_tokens: Floats) -> Floats:
    """Bytes of cache that one sequence of `context_tokens` occupies in the whole model, on no more than one copy.

    full_attention_kv_bytes + windowed_kv_bytes + latent_kv_bytes   [bytes]

    >>> from gpufleet.domain.architecture import DenseMlp
    >>> layer = Block(80, Attention(64, 8, 128), DenseMlp(28672, gated=True))
    >>> llama_70b = Architecture("llama-3.1-70b", "llama", 8192, 128256, (layer,), False, 131072)
    >>> float(16 * kv_bytes_per_sequence(llama_70b, 2.0, 4096)) / 2**30
    20.0
    """
    return _kv_bytes(arch.blocks, kv_bytes_per_element, context_tokens)


def _kv_bytes(blocks: Iterable[Block], kv_bytes_per_element: Floats, context_tokens: Floats) -> Floats:
    nothing = cast(Floats, 0.0 * np.multiply(kv_bytes_per_element, context_tokens))
    per_block = (
        block.count * block_kv_bytes_per_layer(block, kv_bytes_per_element, context_tokens) for block in blocks
    )
    return sum(per_block, nothing)
