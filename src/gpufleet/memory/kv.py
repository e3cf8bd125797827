"""KV-cache bytes of one sequence on one device."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import cast

import numpy as np

from gpufleet.architecture.kv_cache import (
    held_tokens,
    index_bytes_per_layer,
    kept_beside_fp8_bytes,
    kv_elements_per_token,
)
from gpufleet.architecture.recurrent import CONVOLUTION_BYTES_PER_ELEMENT, Recurrent
from gpufleet.architecture.sharding import shard
from gpufleet.architecture.sparse_attention import index_of
from gpufleet.domain.architecture import Architecture, Attention, LatentAttention, Mixer
from gpufleet.domain.arrays import Floats, Ints
from gpufleet.domain.mixers import GatedDeltaNet, StateSpace
from gpufleet.memory.weights import stage_share


def round_to_blocks(tokens: Floats, block_tokens: Floats) -> Floats:
    """Tokens that whole KV blocks hold: ceil(tokens / block) x block.

    >>> float(round_to_blocks(1000, 16))
    1008.0
    """
    return cast(Floats, np.ceil(np.asarray(tokens, dtype=np.float64) / block_tokens)[()] * block_tokens)


def cached_elements_per_token(mixer: Mixer, tp: Ints) -> Floats:
    """Elements that one layer caches per token, or per compressed entry, on one rank.

    ceil(kv_heads / tp) (d + d_v) for attention (heads are copied once TP exceeds them); r_kv + d_rope for MLA and
    d for compressed attention, on every rank.

    >>> from gpufleet.domain.architecture import LatentAttention
    >>> cached_elements_per_token(LatentAttention(128, 1536, 512, 128, 64, 128), 8)
    576.0
    """
    if isinstance(mixer, Attention):
        return shard(mixer.num_kv_heads, tp) * (mixer.head_dim + mixer.value_dim)
    return cast(Floats, kv_elements_per_token(mixer) + 0.0 * tp)


def cached_bytes_per_token(mixer: Mixer, kv_bytes_per_element: Floats, tp: Ints) -> Floats:
    """Bytes that one layer caches per token, or per compressed entry, on one rank.

    >>> from gpufleet.domain.architecture import LatentAttention
    >>> float(cached_bytes_per_token(LatentAttention(128, 1536, 512, 128, 64, 128, kept_tokens=2048), 1.0, 8))
    656.0
    """
    elements = cached_elements_per_token(mixer, tp) * kv_bytes_per_element
    return elements + kept_beside_fp8_bytes(mixer, kv_bytes_per_element)


def state_bytes_per_device(mixer: Recurrent, tp: Ints, least_bytes_per_element: Floats = 0.0) -> Floats:
    """Recurrent state and convolution taps that one sequence holds in one layer on one rank: heads are dealt out.

    `least_bytes_per_element`: of an engine that keeps states in a wider format than the model asks for.

    >>> float(state_bytes_per_device(GatedDeltaNet(16, 32, 128, 128, 4), 8)) / 2**20
    0.255859375
    """
    taps = CONVOLUTION_BYTES_PER_ELEMENT * (mixer.conv_width - 1)
    state = shard(mixer.state_elements, tp) * np.maximum(mixer.state_bytes_per_element, least_bytes_per_element)
    return state + taps * shard(mixer.convolved_width, tp)


def layer_bytes_per_device(
    mixer: Mixer, kv_bytes_per_element: Floats, context_tokens: Floats, tp: Ints, block_tokens: Floats
) -> Floats:
    """What one sequence holds in one layer on one rank: whole blocks of cache, the index in its own format, state."""
    if isinstance(mixer, (GatedDeltaNet, StateSpace)):
        return state_bytes_per_device(mixer, tp)
    held = round_to_blocks(held_tokens(mixer, context_tokens), block_tokens)
    cache = cached_bytes_per_token(mixer, kv_bytes_per_element, tp) * held
    return cache + index_bytes_per_layer(mixer, context_tokens) if index_of(mixer) else cache


def kv_bytes_per_sequence_per_device(
    arch: Architecture,
    kv_bytes_per_element: Floats,
    context_tokens: Floats,
    tp: Ints = 1,
    pp: Ints = 1,
    block_tokens: Floats = 1,
) -> Floats:
    """KV bytes that one sequence of `context_tokens` holds on the fullest device of its replica.

    sum over the layers of a stage of elements_per_token x min(context, window), in whole blocks, x bytes, with the
    index of sparse attention and the state of recurrent layers   [bytes]
    Source: PagedAttention (arXiv:2309.06180); latent cache DeepSeek-V2 (arXiv:2405.04434).

    >>> from gpufleet.domain.architecture import Block, DenseMlp
    >>> layer = Block(80, Attention(64, 8, 128), DenseMlp(28672, True))
    >>> llama = Architecture("llama-3.1-70b", "llama", 8192, 128256, (layer,), False, 131072)
    >>> 16 * float(kv_bytes_per_sequence_per_device(llama, 2.0, 4096)) / 2**30
    20.0
    """
    per_layer = [
        layer_bytes_per_device(block.mixer, kv_bytes_per_element, context_tokens, tp, block_tokens)
        for block in arch.blocks
    ]
    return stage_share(arch, per_layer, pp)


def state_bytes_per_sequence_per_device(
    arch: Architecture, tp: Ints = 1, pp: Ints = 1, least_bytes_per_element: Floats = 0.0
) -> Floats:
    """State that one sequence holds on the fullest device of its replica, whatever its length; 0 without such layers.

    >>> from gpufleet.domain.architecture import Block, DenseMlp
    >>> blocks = (Block(36, GatedDeltaNet(16, 64, 128, 128, 4), DenseMlp(1024, True)),
    ...           Block(12, Attention(32, 2, 256), DenseMlp(1024, True)))
    >>> arch = Architecture("qwen3.5-122b-a10b", "qwen3_5_moe", 3072, 248320, blocks, False, 262144)
    >>> float(state_bytes_per_sequence_per_device(arch, 4)) / 1e6
    38.412288
    """
    per_layer: list[Floats] = []
    for block in arch.blocks:
        if isinstance(block.mixer, (GatedDeltaNet, StateSpace)):
            per_layer.append(state_bytes_per_device(block.mixer, tp, least_bytes_per_element))
        else:
            per_layer.append(0.0)
    return stage_share(arch, per_layer, pp)


def with_whole_windows(arch: Architecture) -> Architecture:
    """The model as an engine caches it that keeps the whole context in layers with a window too.

    >>> from gpufleet.domain.architecture import Block, DenseMlp
    >>> layers = (Block(9, Attention(40, 8, 128, window_tokens=8192), DenseMlp(8192, True)),)
    >>> scout = Architecture("llama-4-scout", "llama4_text", 5120, 202048, layers, False, 10485760)
    >>> with_whole_windows(scout).blocks[0].mixer.window_tokens
    inf
    """
    return _with_mixers(arch, lambda m: replace(m, window_tokens=math.inf) if isinstance(m, Attention) else m)


def with_latents_as_heads(arch: Architecture, head_elements: int) -> Architecture:
    """The model as an engine caches it that knows no latent cache: keys and values of every head, padded.

    vLLM before 0.7.1 pads both to 256 elements (vllm/model_executor/models/deepseek_v2.py).
    """

    def as_heads(mixer: Mixer) -> Mixer:
        latent = isinstance(mixer, LatentAttention)
        return Attention(mixer.num_heads, mixer.num_heads, head_elements) if latent else mixer

    return _with_mixers(arch, as_heads)


def _with_mixers(arch: Architecture, cached: Callable[[Mixer], Mixer]) -> Architecture:
    return replace(arch, blocks=tuple(replace(block, mixer=cached(block.mixer)) for block in arch.blocks))
