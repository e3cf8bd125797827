"""KV-cache bytes of one sequence on one device."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from gpufleet.architecture.kv_cache import layer_kv_bytes, state_bytes
from gpufleet.domain.architecture import Architecture, Attention, LatentAttention, Mixer
from gpufleet.domain.arrays import Floats, Ints
from gpufleet.memory.weights import stage_share


def kv_bytes_per_sequence_per_device(
    arch: Architecture,
    kv_bytes_per_element: Floats,
    context_tokens: Floats,
    tp: Ints = 1,
    pp: Ints = 1,
    block_tokens: Floats = 1,
) -> Floats:
    """KV bytes that one sequence of `context_tokens` holds on the fullest device of its replica.

    sum over the layers of a stage of `layer_kv_bytes`   [bytes]

    >>> from gpufleet.domain.architecture import Block, DenseMlp
    >>> layer = Block(80, Attention(64, 8, 128), DenseMlp(28672, True))
    >>> llama = Architecture("llama-3.1-70b", "llama", 8192, 128256, (layer,), False, 131072)
    >>> 16 * float(kv_bytes_per_sequence_per_device(llama, 2.0, 4096)) / 2**30
    20.0
    """
    per_layer = [layer_kv_bytes(b.mixer, kv_bytes_per_element, context_tokens, tp, block_tokens) for b in arch.blocks]
    return stage_share(arch, per_layer, pp)


def state_bytes_per_sequence_per_device(
    arch: Architecture, tp: Ints = 1, pp: Ints = 1, least_bytes_per_element: Floats = 0.0
) -> Floats:
    """State that one sequence holds on the fullest device of its replica, whatever its length; 0 without such layers.

    >>> from gpufleet.domain.architecture import Block, DenseMlp
    >>> from gpufleet.domain.mixers import GatedDeltaNet
    >>> blocks = (Block(36, GatedDeltaNet(16, 64, 128, 128, 4), DenseMlp(1024, True)),
    ...           Block(12, Attention(32, 2, 256), DenseMlp(1024, True)))
    >>> arch = Architecture("qwen3.5-122b-a10b", "qwen3_5_moe", 3072, 248320, blocks, False, 262144)
    >>> float(state_bytes_per_sequence_per_device(arch, 4)) / 1e6
    38.412288
    """
    return stage_share(arch, [state_bytes(block.mixer, tp, least_bytes_per_element) for block in arch.blocks], pp)


def with_windows_of(arch: Architecture, tokens: float) -> Architecture:
    """The model as an engine caches it that keeps so many tokens, infinite ones are all, in layers with a window.

    >>> from gpufleet.domain.architecture import Block, DenseMlp
    >>> layers = (Block(9, Attention(40, 8, 128, window_tokens=8192), DenseMlp(8192, True)),)
    >>> scout = Architecture("llama-4-scout", "llama4_text", 5120, 202048, layers, False, 10485760)
    >>> with_windows_of(scout, math.inf).blocks[0].mixer.window_tokens
    inf
    """

    def of_tokens(mixer: Mixer) -> Mixer:
        if isinstance(mixer, Attention) and mixer.window_tokens < math.inf:
            return replace(mixer, window_tokens=tokens)
        return mixer

    return _with_mixers(arch, of_tokens)


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
