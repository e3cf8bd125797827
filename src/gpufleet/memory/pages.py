"""Layers of several kinds in one pool of equal pages, as vLLM lays out hybrids and models with windows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias, cast

import numpy as np

from gpufleet.architecture.kv_cache import bytes_per_vector, round_to_blocks
from gpufleet.architecture.recurrent import Recurrent, state_bytes_per_layer
from gpufleet.architecture.sharding import shard
from gpufleet.domain.architecture import Architecture, Attention, LatentAttention, Mixer
from gpufleet.domain.arrays import Floats, Ints
from gpufleet.domain.mixers import CompressedAttention, GatedDeltaNet, NoMixer, StateSpace
from gpufleet.records import dataclass

ATTENTION_ALIGNMENT_TOKENS, LATENT_ALIGNMENT_TOKENS = 16, 128
ALMOST_EQUAL_COUNTS = 1.5  # then groups are as large as the larger kind
SPARE_WINDOW_BLOCKS = 1  # a window seldom starts where a block does

CachedMixer: TypeAlias = Attention | LatentAttention
Pooled: TypeAlias = CachedMixer | Recurrent


@dataclass(frozen=True)
class Kind:
    """`count` layers that need the same pages: one type of cache, one window, one size."""

    mixer: Pooled
    count: int


@dataclass(frozen=True)
class Pages:
    """A pool whose pages serve any layer: `group_layers` pages of `page_bytes` are one block.

    `groups` holds how often each kind takes a block of its own, `block_tokens` how many tokens such a block covers
    (infinite where it is a state).
    """

    kinds: tuple[Kind, ...]
    groups: tuple[int, ...]
    block_tokens: tuple[Floats, ...]
    page_bytes: Floats
    group_layers: Floats

    @property
    def block_bytes(self) -> Floats:
        """Bytes of one block of the pool on one device."""
        return self.page_bytes * self.group_layers

    @property
    def bytes_per_logged_token(self) -> Floats:
        """Pool bytes for a token as vLLM counted them before 0.21: blocks / groups x the smallest block of tokens."""
        smallest: Floats = math.inf
        for tokens in self.block_tokens:
            smallest = np.minimum(smallest, tokens)
        return self.block_bytes * sum(self.groups) / smallest


def shares_pages(arch: Architecture) -> bool:
    """Whether the layers of a model need different numbers of blocks for the same context.

    Layers that all see everything lie side by side whatever their sizes. Compressed attention has a layout of its own.
    """
    mixers = [block.mixer for block in arch.blocks if not isinstance(block.mixer, NoMixer)]
    if any(isinstance(mixer, CompressedAttention) for mixer in mixers):
        return False
    return len({_reach(mixer) for mixer in mixers}) > 1


def _reach(mixer: Mixer) -> tuple[str, float]:
    if isinstance(mixer, (GatedDeltaNet, StateSpace)):
        return "state", 0.0
    return ("window", mixer.window_tokens) if isinstance(mixer, Attention) else ("window", math.inf)


def has_windows(arch: Architecture) -> bool:
    """Whether any layer sees a window of its context alone."""
    return any(isinstance(b.mixer, Attention) and math.isfinite(b.mixer.window_tokens) for b in arch.blocks)


def common_window(arch: Architecture) -> float:
    """The window that all layers have; infinite where they do not share one."""
    windows = {b.mixer.window_tokens if isinstance(b.mixer, Attention) else math.inf for b in arch.blocks}
    return windows.pop() if len(windows) == 1 else math.inf


def kinds_of(arch: Architecture) -> tuple[Kind, ...]:
    """Layers that need the same pages, together; Qwen3.6-35B-A3B has thirty delta nets and ten attentions."""
    counts: dict[tuple[object, ...], int] = {}
    first: dict[tuple[object, ...], Pooled] = {}
    for block in arch.blocks:
        if isinstance(block.mixer, (Attention, LatentAttention, GatedDeltaNet, StateSpace)):
            key = _cache_key(block.mixer)
            counts[key] = counts.get(key, 0) + block.count
            first.setdefault(key, block.mixer)
    return tuple(Kind(first[key], count) for key, count in counts.items())


def _cache_key(mixer: Pooled) -> tuple[object, ...]:
    """What decides a layer's pages; its weights do not."""
    if isinstance(mixer, Attention):
        return "attention", mixer.num_kv_heads, mixer.head_dim, mixer.value_dim, mixer.window_tokens
    if isinstance(mixer, LatentAttention):
        return "latent", mixer.kv_lora_rank, mixer.qk_rope_head_dim
    return "state", mixer.state_elements, mixer.state_bytes_per_element, mixer.conv_width, mixer.convolved_width


def group_size(counts: Sequence[int]) -> int:
    """Layers that share one table of blocks: as many as the rarest kind has, or the commonest where all are alike.

    >>> group_size([30, 10]), group_size([13, 12]), group_size([52, 10])
    (10, 13, 10)
    """
    fewest, most = min(counts), max(counts)
    return most if most < ALMOST_EQUAL_COUNTS * fewest else fewest


def pages_of(
    arch: Architecture, kv_bytes_per_element: Floats, tp: Ints = 1, pp: Ints = 1, block_tokens: Floats = 16
) -> Pages:
    """The pages that a model's layers share on one device.

    Attention blocks are enlarged until a page holds a state: ceil(state / (a x bytes per token)) x a tokens, with
    a = 16, or 128 for a latent cache; the largest page counts, smaller tokens get more to a page.
    Source: Platform._align_hybrid_block_size and v1/core/kv_cache_utils.py of vLLM 0.11 to 0.27.

    >>> from gpufleet.domain.architecture import Block, DenseMlp
    >>> blocks = (Block(30, GatedDeltaNet(16, 32, 128, 128, 4), DenseMlp(512, True)),
    ...           Block(10, Attention(16, 2, 256), DenseMlp(512, True)))
    >>> found = pages_of(Architecture("qwen3.6-35b", "qwen3_5_moe", 2048, 248320, blocks, False, 262144), 1.0)
    >>> float(found.block_tokens[1]), found.groups, float(found.block_bytes)
    (2096.0, (3, 1), 21463040.0)
    """
    kinds = kinds_of(arch)
    tokens_in = _block_tokens(kinds, kv_bytes_per_element, tp, block_tokens)
    page: Floats = 0.0
    for kind, tokens in zip(kinds, tokens_in, strict=True):
        page = np.maximum(page, _page_bytes(kind.mixer, kv_bytes_per_element, tp, tokens))
    size = group_size([kind.count for kind in kinds])
    return Pages(
        kinds=kinds,
        groups=tuple(-(-kind.count // size) for kind in kinds),
        block_tokens=tuple(
            _fitted(kind.mixer, kv_bytes_per_element, tp, tokens, page)
            for kind, tokens in zip(kinds, tokens_in, strict=True)
        ),
        page_bytes=page,
        group_layers=shard(size, pp),
    )


def _block_tokens(
    kinds: Sequence[Kind], kv_bytes_per_element: Floats, tp: Ints, block_tokens: Floats
) -> Sequence[Floats]:
    """Tokens of each kind's block before pages are made equal: enough that a state fits into it."""
    state: Floats = 0.0
    for kind in kinds:
        if isinstance(kind.mixer, (GatedDeltaNet, StateSpace)):
            state = np.maximum(state, state_bytes_per_layer(kind.mixer, tp))
    found: list[Floats] = []
    for kind in kinds:
        if isinstance(kind.mixer, (GatedDeltaNet, StateSpace)):
            found.append(math.inf)
            continue
        align = LATENT_ALIGNMENT_TOKENS if isinstance(kind.mixer, LatentAttention) else ATTENTION_ALIGNMENT_TOKENS
        per_token = bytes_per_vector(kind.mixer, kv_bytes_per_element, tp)
        found.append(np.maximum(block_tokens, round_to_blocks(state / per_token, align)))
    return found


def _page_bytes(mixer: Pooled, kv_bytes_per_element: Floats, tp: Ints, tokens: Floats) -> Floats:
    if isinstance(mixer, (GatedDeltaNet, StateSpace)):
        return state_bytes_per_layer(mixer, tp)
    return bytes_per_vector(mixer, kv_bytes_per_element, tp) * tokens


def _fitted(mixer: Pooled, kv_bytes_per_element: Floats, tp: Ints, tokens: Floats, page: Floats) -> Floats:
    """Tokens of a kind's block where every page has the size of the largest: whole multiples of its own block."""
    if isinstance(mixer, (GatedDeltaNet, StateSpace)):
        return math.inf
    own = bytes_per_vector(mixer, kv_bytes_per_element, tp) * tokens
    return cast(Floats, tokens * np.floor_divide(page, own))


def blocks_per_sequence(
    mixer: Pooled, context_tokens: Floats, block_tokens: Floats, states: Floats, prefill_tokens: Floats
) -> Floats:
    """Blocks that one sequence takes in one group of layers.

    Full attention: ceil(context / block). Window: ceil(min(context, window - 1 + prefill) / block) + 1. State:
    `states`, 1, or 2 where the engine keeps the last block's state beside the running one to serve prefixes.
    """
    if isinstance(mixer, (GatedDeltaNet, StateSpace)):
        return states
    window = mixer.window_tokens if isinstance(mixer, Attention) else math.inf
    if math.isinf(window):
        return cast(Floats, np.ceil(np.asarray(context_tokens) / block_tokens)[()])
    kept = np.minimum(context_tokens, window - 1 + prefill_tokens)
    return cast(Floats, np.ceil(np.asarray(kept) / block_tokens)[()] + SPARE_WINDOW_BLOCKS)


def paged_bytes_per_sequence(
    pages: Pages, context_tokens: Floats, states: Floats = 1.0, prefill_tokens: Floats = 0.0
) -> Floats:
    """Bytes that one sequence takes of a pool of equal pages, on one device.

    block bytes x sum over kinds of groups x blocks   [bytes]
    Qwen3.6-35B-A3B in vLLM 0.24 with fp8 KV and prefix caching: 63 blocks of 2,096 tokens and 3 x 2 states of 131,072
    tokens; 299 blocks hold 4.33 of them, which the engine logs as 567,978 tokens (noonghunna/club-3090 issues/612).
    """
    blocks: Floats = 0.0
    for kind, groups, tokens in zip(pages.kinds, pages.groups, pages.block_tokens, strict=True):
        blocks = blocks + groups * blocks_per_sequence(kind.mixer, context_tokens, tokens, states, prefill_tokens)
    return blocks * pages.block_bytes
