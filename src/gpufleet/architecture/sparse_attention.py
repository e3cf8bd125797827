"""Attention that reads part of its context: what an index chooses, and what a compressed cache holds."""

from __future__ import annotations

import math
from typing import cast

import numpy as np

from gpufleet.architecture.sharding import SplitParams
from gpufleet.domain.architecture import Attention, LatentAttention, Mixer
from gpufleet.domain.arrays import Floats
from gpufleet.domain.mixers import CompressedAttention, TokenIndex


def index_of(mixer: Mixer) -> TokenIndex | None:
    """The index of a layer that has one of its own."""
    return mixer.index if isinstance(mixer, (Attention, LatentAttention, CompressedAttention)) else None


def index_params(index: TokenIndex, hidden_size: int) -> int:
    """Matrix parameters of an index: its queries, and what it projects from the hidden state. DeepSeek-V3.2:

    >>> index_params(TokenIndex(64, 128, 1536, 128 + 64, 132.0), 7168)
    13959168
    """
    return index.query_width * index.num_heads * index.head_dim + hidden_size * index.projected_width


def index_flop_per_entry(index: TokenIndex) -> int:
    """FLOP to score one cached entry for one query.   2 heads x head_dim   [flop]"""
    return 2 * index.num_heads * index.head_dim


def compressed_attention_params(mixer: CompressedAttention, hidden_size: int) -> SplitParams:
    """Matrix parameters without the index: queries and output cut by heads; keys and compressor copied.

    DeepSeek-V4-Flash, layers of 128 tokens an entry:

    >>> compressed_attention_params(CompressedAttention(64, 512, 1024, 8, 1024, 128, 128), 4096).on_rank()
    111149056
    """
    width, output_width = mixer.num_heads * mixer.head_dim, mixer.output_groups * mixer.output_rank
    sharded = mixer.q_lora_rank * width + mixer.output_rank * width + output_width * hidden_size
    compressor = 2 * mixer.overlap * mixer.head_dim if mixer.tokens_per_entry else 0
    return SplitParams(sharded, hidden_size * (mixer.q_lora_rank + mixer.head_dim + compressor))


def entries(mixer: CompressedAttention, context_tokens: Floats) -> Floats:
    """Compressed entries that a layer keeps of a context: whole groups of tokens.

    >>> float(entries(CompressedAttention(64, 512, 1024, 8, 1024, 128, 4), 1000))
    250.0
    """
    if not mixer.tokens_per_entry:
        return cast(Floats, 0.0 * np.asarray(context_tokens, dtype=np.float64)[()])
    return np.floor_divide(context_tokens, float(mixer.tokens_per_entry))


def indexed_entries(mixer: Mixer, context_tokens: Floats) -> Floats:
    """Entries that a layer's own index keeps a key of; none without an index."""
    if index_of(mixer) is None:
        return cast(Floats, 0.0 * np.asarray(context_tokens, dtype=np.float64)[()])
    return entries(mixer, context_tokens) if isinstance(mixer, CompressedAttention) else context_tokens


def reach_tokens(mixer: Mixer) -> float:
    """Most single tokens that a query of this layer reads; inf where it reads them all, 0 where none."""
    if isinstance(mixer, Attention):
        return min(mixer.window_tokens, mixer.kept_tokens)
    if isinstance(mixer, LatentAttention):
        return mixer.kept_tokens
    return mixer.window_tokens if isinstance(mixer, CompressedAttention) else 0.0


def attended_tokens(mixer: Mixer, context_tokens: Floats) -> Floats:
    """Cached vectors that one query reads in a layer: its window or choice, and compressed entries.

    >>> from gpufleet.domain.architecture import LatentAttention
    >>> float(attended_tokens(LatentAttention(128, 1536, 512, 128, 64, 128, kept_tokens=2048), 100_000))
    2048.0
    """
    read = np.minimum(context_tokens, reach_tokens(mixer))
    if isinstance(mixer, CompressedAttention):
        read = read + np.minimum(entries(mixer, context_tokens), mixer.kept_entries)
    return cast(Floats, read)


def prompt_pairs(mixer: Mixer, tokens: Floats) -> Floats:
    """Pairs of query and cached vector that a layer computes over a prompt.

    Full: n (n + 1) / 2. Window or choice of w: that up to w, then w for each further token. Chunks of w: that within
    each chunk. Compressed entries of r tokens: a window of r x kept, divided by r.

    >>> float(prompt_pairs(Attention(8, 8, 64, window_tokens=4), 6))
    18.0
    """
    if isinstance(mixer, Attention) and mixer.chunked:
        chunk = mixer.window_tokens
        return np.floor_divide(tokens, chunk) * _triangle(chunk) + _triangle(np.mod(tokens, chunk))
    pairs = _windowed(tokens, reach_tokens(mixer))
    if isinstance(mixer, CompressedAttention) and mixer.tokens_per_entry:
        ratio = mixer.tokens_per_entry
        pairs = pairs + _windowed(tokens, ratio * mixer.kept_entries) / ratio
    return pairs


def indexed_pairs(mixer: Mixer, tokens: Floats) -> Floats:
    """Pairs of query and entry that a layer's own index scores over a prompt."""
    if index_of(mixer) is None:
        return cast(Floats, 0.0 * np.asarray(tokens, dtype=np.float64)[()])
    return _triangle(tokens) / (mixer.tokens_per_entry if isinstance(mixer, CompressedAttention) else 1)


def _windowed(tokens: Floats, window: float) -> Floats:
    if math.isinf(window):
        return _triangle(tokens)
    inside = np.minimum(tokens, window)
    return _triangle(inside) + (tokens - inside) * window


def _triangle(side: Floats) -> Floats:
    return side * (side + 1) / 2
