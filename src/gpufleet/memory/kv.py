"""KV-cache bytes of one sequence on one device."""

from __future__ import annotations

from typing import cast

import numpy as np

from gpufleet.architecture.kv_cache import held_tokens
from gpufleet.domain.architecture import Architecture, Attention, LatentAttention
from gpufleet.domain.arrays import Floats, Ints
from gpufleet.memory.weights import shard, stage_share


def round_to_blocks(tokens: Floats, block_tokens: Floats) -> Floats:
    """Tokens that whole KV blocks hold: ceil(tokens / block) x block.

    >>> float(round_to_blocks(1000, 16))
    1008.0
    """
    return cast(Floats, np.ceil(np.asarray(tokens, dtype=np.float64) / block_tokens)[()] * block_tokens)


def cached_elements_per_token(mixer: Attention | LatentAttention, tp: Ints) -> Floats:
    """Elements that one layer caches per token on one rank.

    2 ceil(kv_heads / tp) d for attention (heads are copied once TP exceeds them); r_kv + d_rope for MLA, on every rank.

    >>> cached_elements_per_token(LatentAttention(128, 1536, 512, 128, 64, 128), 8)
    576.0
    """
    if isinstance(mixer, LatentAttention):
        return cast(Floats, mixer.kv_lora_rank + mixer.qk_rope_head_dim + 0.0 * tp)
    return 2 * shard(mixer.num_kv_heads, tp) * mixer.head_dim


def kv_bytes_per_sequence_per_device(
    arch: Architecture,
    kv_bytes_per_element: Floats,
    context_tokens: Floats,
    tp: Ints = 1,
    pp: Ints = 1,
    block_tokens: Floats = 1,
) -> Floats:
    """KV bytes that one sequence of `context_tokens` holds on the fullest device of its replica.

    sum over the layers of a stage of elements_per_token x min(context, window), in whole blocks, x bytes   [bytes]
    Source: PagedAttention (arXiv:2309.06180); latent cache DeepSeek-V2 (arXiv:2405.04434).

    >>> from gpufleet.domain.architecture import Block, DenseMlp
    >>> layer = Block(80, Attention(64, 8, 128), DenseMlp(28672, True))
    >>> llama = Architecture("llama-3.1-70b", "llama", 8192, 128256, (layer,), False, 131072)
    >>> 16 * float(kv_bytes_per_sequence_per_device(llama, 2.0, 4096)) / 2**30
    20.0
    """
    per_layer = [
        cached_elements_per_token(block.mixer, tp)
        * kv_bytes_per_element
        * round_to_blocks(held_tokens(block.mixer, context_tokens), block_tokens)
        for block in arch.blocks
    ]
    return stage_share(arch, per_layer, pp)
