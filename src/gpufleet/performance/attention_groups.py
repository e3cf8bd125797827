"""Attention of a step, over the KV cache and over prompts, plain and latent: arrays are [..., operator, candidate]."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from math import inf

import numpy as np

from gpufleet.domain.arrays import BoolArray, FloatArray, Floats
from gpufleet.domain.calibration import (
    AttentionCurves,
    Curves,
    LatentAttentionCurves,
)
from gpufleet.performance.attention import (
    decode_bytes,
    decode_coordinates,
    decode_flop,
    decode_roofline_s,
    decode_rows,
    prefill_bytes,
    prefill_coordinates,
    prefill_flop,
    prefill_roofline_s,
    prompt_pairs,
    prompt_roofline,
    rising_window,
    window_factor,
)
from gpufleet.performance.interpolation import Distinct, curve_s, log2, narrowed, rising
from gpufleet.performance.kernel_groups import KernelGroup, OfPrompts, StepTokens, Work
from gpufleet.performance.latent_attention import (
    absorb_bytes,
    absorb_coordinates,
    absorb_flop,
    absorb_roofline_s,
    absorb_rows,
    latent_decode_bytes,
    latent_decode_coordinates,
    latent_decode_flop,
    latent_decode_roofline_s,
    latent_decode_rows,
    latent_prefill_bytes,
    latent_prefill_flop,
    latent_prompt_roofline,
)
from gpufleet.performance.roofline import PairRoofline, RowRoofline
from gpufleet.records import dataclass

HEAD_SHAPE = ("log2 heads / kv heads", "log2 head_dim")
KEYS = "log2 mean keys"


@dataclass(frozen=True)
class Heads:
    """Heads of one device, and what they see."""

    num_heads: FloatArray
    num_kv_heads: FloatArray
    head_dim: FloatArray
    window_tokens: FloatArray

    @cached_property
    def any_window_tokens(self) -> Floats:
        """The windows; one number where all heads see everything."""
        return self.window_tokens if np.any(np.isfinite(self.window_tokens)) else inf

    @cached_property
    def log_shape(self) -> tuple[FloatArray, ...]:
        """Where the heads stand in the grid of decode attention."""
        return decode_coordinates(1.0, self.num_heads, self.num_kv_heads, self.head_dim, 1.0)[2:]


@dataclass(frozen=True)
class DecodeAttention(KernelGroup):
    """Attention of new tokens over the KV cache; several of a sequence read it once, as so many times the heads would.

    `cache_bytes_per_s`: second-level cache of the devices whose engine reads keys and values anew for each query head,
    or memory over the passes of one that writes them out for each; infinite where its kernel reads them once for all
    queries of a group.
    """

    curves: AttentionCurves
    heads: Heads
    cache_bytes_per_s: FloatArray

    @cached_property
    def at_heads(self) -> AttentionCurves:
        """The curves for these heads, rising over sequences and context."""
        h, decode = self.heads, self.curves.decode
        rows = Distinct.of(decode, h.num_heads, h.num_kv_heads, h.head_dim)
        heads, kv_heads, size = rows.sizes
        curves = narrowed(rows.curves, decode_coordinates(1.0, heads, kv_heads, size, 1.0), HEAD_SHAPE)
        raised = rising(curves, lambda at: decode_roofline_s(curves, at[0] / kv_heads, heads, kv_heads, size, at[1]))
        return replace(self.curves, decode=rows.spread(decode, raised), window=rising_window(self.curves.window))

    @cached_property
    def roofline(self) -> RowRoofline:
        """Least seconds of a layer's attention, by cached tokens and sequences."""
        h = self.heads
        return decode_rows(self.curves.decode, h.num_heads, h.num_kv_heads, h.head_dim)

    def seconds(self, at: StepTokens) -> FloatArray:
        """Seconds of each layer's attention, see `attention_decode_s`; 0 where nothing decodes."""
        seconds = self._over_cache_s(at) * self._window_factor(at)
        if self._reads_per_head:
            seconds = np.maximum(seconds, self.read_per_head_s(at))
        return np.where(self.is_executed(at), seconds, 0.0)

    def _over_cache_s(self, at: StepTokens) -> FloatArray:
        context = self._context(at)
        coordinates = (log2(at.caches * self.heads.num_kv_heads), log2(context), *self.heads.log_shape)
        roofline_s = self.roofline.seconds_in(at.caches, at.caches * context)
        return curve_s(self.at_heads.decode, roofline_s, coordinates)

    def _window_factor(self, at: StepTokens) -> Floats:
        h = self.heads
        if isinstance(h.any_window_tokens, float):
            return 1.0
        context = at.decode_context_tokens
        return window_factor(self.at_heads.window, at.caches, h.num_kv_heads, h.head_dim, context, h.window_tokens)

    @cached_property
    def _reads_per_head(self) -> bool:
        return bool(np.any(np.isfinite(self.cache_bytes_per_s)))

    def read_per_head_s(self, at: StepTokens) -> FloatArray:
        """Keys and values that every query head reads for itself; 0 where they share them   [s]."""
        h, kv_bytes = self.heads, self.curves.decode.bytes_per_element
        read = decode_bytes(at.caches, h.num_heads, h.num_heads, h.head_dim, self._context(at), kv_bytes)
        return np.asarray(read / self.cache_bytes_per_s)

    def is_executed(self, at: StepTokens) -> BoolArray:
        """Where a sequence decodes."""
        return at.is_decoding

    def work(self, at: StepTokens) -> Work:
        """The cache read once."""
        h, context, kv_bytes = self.heads, self._context(at), self.curves.decode.bytes_per_element
        shape = {"sequences": at.caches, "heads": h.num_heads, "kv heads": h.num_kv_heads, "head size": h.head_dim}
        return Work.on_device(
            self.curves.decode,
            {**shape, "context": context},
            decode_flop(at.caches, h.num_heads, h.head_dim, context),
            decode_bytes(at.caches, h.num_heads, h.num_kv_heads, h.head_dim, context, kv_bytes),
        )

    def curves_of(self, part: int) -> Curves:
        """Decode attention."""
        return self.curves.decode

    def _context(self, at: StepTokens) -> FloatArray:
        tokens, window_tokens = at.decode_context_tokens, self.heads.any_window_tokens
        return tokens if isinstance(window_tokens, float) else np.minimum(tokens, window_tokens)


@dataclass(frozen=True)
class PromptAttention(OfPrompts):
    """Causal attention over whole prompts."""

    curves: AttentionCurves
    heads: Heads

    @cached_property
    def at_heads(self) -> AttentionCurves:
        """The curves for these heads."""
        h = self.heads
        place = prefill_coordinates(1.0, 1.0, 1.0, h.num_heads, h.num_kv_heads, h.head_dim)
        return replace(self.curves, prefill=narrowed(self.curves.prefill, place, HEAD_SHAPE))

    @cached_property
    def roofline(self) -> PairRoofline:
        """Least seconds of a layer's attention, by pairs and tokens."""
        h = self.heads
        return prompt_roofline(self.curves.prefill, h.num_heads, h.num_kv_heads, h.head_dim)

    @cached_property
    def log_shape(self) -> tuple[FloatArray, ...]:
        """Where the heads stand in the grid."""
        h = self.heads
        return prefill_coordinates(1.0, 1.0, 1.0, h.num_heads, h.num_kv_heads, h.head_dim)[2:]

    def seconds(self, at: StepTokens) -> FloatArray:
        """Seconds of each layer's attention, see `attention_prefill_s`; 0 without prompts."""
        prompt, tokens = at.prompt_tokens, at.prefilling * at.prompt_tokens
        pairs = self._pairs(prompt)
        coordinates = (log2(tokens * self.heads.num_heads), log2(pairs / np.maximum(prompt, 1.0)), *self.log_shape)
        roofline_s = self.roofline.seconds(at.prefilling * pairs, tokens)
        return np.where(self.is_executed(at), curve_s(self.at_heads.prefill, roofline_s, coordinates), 0.0)

    def work(self, at: StepTokens) -> Work:
        """Every pair that may see each other; queries, keys, values and outputs once."""
        h, prompt, kv_bytes = self.heads, at.prompt_tokens, self.curves.prefill.bytes_per_element
        shape = {"prompts": at.prefilling, "tokens": prompt, "heads": h.num_heads, "kv heads": h.num_kv_heads}
        return Work.on_device(
            self.curves.prefill,
            {**shape, "head size": h.head_dim, "window": h.window_tokens},
            prefill_flop(at.prefilling, self._pairs(prompt), h.num_heads, h.head_dim),
            prefill_bytes(at.prefilling, prompt, prompt, h.num_heads, h.num_kv_heads, h.head_dim, kv_bytes),
        )

    def curves_of(self, part: int) -> Curves:
        """Prefill attention."""
        return self.curves.prefill

    def _pairs(self, tokens: FloatArray) -> FloatArray:
        return prompt_pairs(tokens, self.heads.any_window_tokens)


@dataclass(frozen=True)
class InputAttention(PromptAttention):
    """Attention among the tokens of whole inputs, each of which sees `keys` in the mean."""

    keys: float

    @cached_property
    def at_heads(self) -> AttentionCurves:
        """The curves for these heads and so many keys, rising over query rows."""
        prefill = self.curves.prefill
        rows = Distinct.of(prefill, self.heads.head_dim, self.keys)
        size, keys = rows.sizes
        place = prefill_coordinates(1.0, 1.0, keys, np.ones(1), np.ones(1), size)
        curves = narrowed(rows.curves, place, (*HEAD_SHAPE, KEYS))
        raised = rising(curves, lambda at: prefill_roofline_s(curves, 1.0, at[0], at[0], at[0] * keys, 1.0, 1.0, size))
        return replace(self.curves, prefill=rows.spread(prefill, raised))

    def _pairs(self, tokens: FloatArray) -> FloatArray:
        return tokens * self.keys


@dataclass(frozen=True)
class Choice:
    """What a query reads of its context where it does not read it all: single tokens, and compressed entries."""

    window_tokens: float
    tokens_per_entry: float = inf
    kept_entries: float = 0.0

    def context(self, tokens: FloatArray) -> FloatArray:
        """Cached vectors that a new token reads."""
        entries = np.minimum(tokens / self.tokens_per_entry, self.kept_entries)
        return np.minimum(tokens, self.window_tokens) + entries

    def pairs(self, tokens: FloatArray) -> FloatArray:
        """Pairs of query and cached vector over a prompt."""
        pairs = prompt_pairs(tokens, self.window_tokens)
        if self.tokens_per_entry == inf:
            return pairs
        reach = self.tokens_per_entry * self.kept_entries
        return pairs + prompt_pairs(tokens, reach) / self.tokens_per_entry


@dataclass(frozen=True)
class LatentGroup(KernelGroup):
    """Multi-head latent attention; `num_heads` of one device, as many of the measured width as do the same work.

    Tokens of a sequence that are verified together read its cache once, as so many times the heads would.
    """

    curves: LatentAttentionCurves
    num_heads: FloatArray
    choice: Choice | None = None

    @cached_property
    def log_heads(self) -> FloatArray:
        """Where the heads stand in the grids."""
        return log2(self.num_heads)

    def is_executed(self, at: StepTokens) -> BoolArray:
        """Where a sequence decodes."""
        return at.is_decoding


@dataclass(frozen=True)
class LatentDecode(LatentGroup):
    """Absorbed attention of new tokens over the compressed cache."""

    @cached_property
    def at_heads(self) -> LatentAttentionCurves:
        """The curves for these heads, rising over sequences and context."""
        rows = Distinct.of(self.curves.decode, self.num_heads)
        (heads,) = rows.sizes
        curves = narrowed(rows.curves, latent_decode_coordinates(1.0, heads, 1.0), ("log2 heads",))
        raised = rising(curves, lambda at: latent_decode_roofline_s(curves, at[0], heads, at[1]))
        return replace(self.curves, decode=rows.spread(self.curves.decode, raised))

    @cached_property
    def roofline(self) -> RowRoofline:
        """Least seconds of a layer's attention, by cached tokens and sequences."""
        return latent_decode_rows(self.curves.decode, self.num_heads)

    def seconds(self, at: StepTokens) -> FloatArray:
        """Seconds of each layer's attention, see `latent_core_s`; 0 where nothing decodes."""
        sequences, context = self._sequences(at), self._context(at)
        roofline_s = self.roofline.seconds_in(sequences, sequences * context)
        coordinates = (log2(sequences), self.log_heads, log2(context))
        return np.where(self.is_executed(at), curve_s(self.at_heads.decode, roofline_s, coordinates), 0.0)

    def work(self, at: StepTokens) -> Work:
        """The compressed cache read once."""
        sequences, context, curves = self._sequences(at), self._context(at), self.curves.decode
        return Work.on_device(
            curves,
            {"sequences": sequences, "heads": self.num_heads, "context": context},
            latent_decode_flop(sequences, self.num_heads, context),
            latent_decode_bytes(sequences, self.num_heads, context, curves.bytes_per_element),
        )

    def curves_of(self, part: int) -> Curves:
        """Absorbed decode."""
        return self.curves.decode

    def _sequences(self, at: StepTokens) -> FloatArray:
        """Those that read a cache of their own: every token that chooses what it reads does."""
        return at.queries if self.choice else at.caches

    def _context(self, at: StepTokens) -> FloatArray:
        context = at.decode_context_tokens
        return self.choice.context(context) if self.choice else context


@dataclass(frozen=True)
class LatentAbsorb(LatentGroup):
    """The products of new tokens into and out of the latent space."""

    @cached_property
    def at_heads(self) -> LatentAttentionCurves:
        """The curves for these heads, rising over tokens."""
        rows = Distinct.of(self.curves.absorb, self.num_heads)
        (heads,) = rows.sizes
        curves = narrowed(rows.curves, absorb_coordinates(1.0, heads), ("log2 heads",))
        raised = rising(curves, lambda at: absorb_roofline_s(curves, at[0], heads))
        return replace(self.curves, absorb=rows.spread(self.curves.absorb, raised))

    @cached_property
    def roofline(self) -> RowRoofline:
        """Least seconds of both products, by tokens."""
        return absorb_rows(self.curves.absorb, self.num_heads)

    def seconds(self, at: StepTokens) -> FloatArray:
        """Seconds of both products of each layer, see `absorb_s`; 0 where nothing decodes."""
        roofline_s = self.roofline.seconds(at.queries)
        seconds = curve_s(self.at_heads.absorb, roofline_s, (log2(at.queries), self.log_heads))
        return np.where(self.is_executed(at), seconds, 0.0)

    def work(self, at: StepTokens) -> Work:
        """Both matrices of every head once."""
        flop, moved_bytes = absorb_flop(at.queries, self.num_heads), absorb_bytes(at.queries, self.num_heads)
        return Work.on_device(self.curves.absorb, {"m": at.queries, "heads": self.num_heads}, flop, moved_bytes)

    def curves_of(self, part: int) -> Curves:
        """The batched products."""
        return self.curves.absorb


@dataclass(frozen=True)
class LatentPrompts(OfPrompts, LatentGroup):
    """Causal attention over whole prompts, with the latent expanded to full heads."""

    @cached_property
    def roofline(self) -> PairRoofline:
        """Least seconds of a layer's attention, by pairs and tokens."""
        return latent_prompt_roofline(self.curves.prefill, self.num_heads)

    def seconds(self, at: StepTokens) -> FloatArray:
        """Seconds of each layer's attention, see `latent_prefill_s`; 0 without prompts."""
        prompt, tokens, pairs = at.prompt_tokens, at.prefilling * at.prompt_tokens, self._pairs(at)
        roofline_s = self.roofline.seconds(at.prefilling * pairs, tokens)
        coordinates = (log2(tokens * self.num_heads), log2(pairs / prompt))
        return np.where(self.is_executed(at), curve_s(self.curves.prefill, roofline_s, coordinates), 0.0)

    def work(self, at: StepTokens) -> Work:
        """Every pair that may see each other; queries, keys, values and outputs once."""
        prompts, prompt, heads = at.prefilling, at.prompt_tokens, self.num_heads
        return Work.on_device(
            self.curves.prefill,
            {"prompts": prompts, "tokens": prompt, "heads": heads},
            latent_prefill_flop(prompts, self._pairs(at), heads),
            latent_prefill_bytes(prompts, prompt, heads),
        )

    def curves_of(self, part: int) -> Curves:
        """Latent prefill."""
        return self.curves.prefill

    def _pairs(self, at: StepTokens) -> FloatArray:
        prompt = at.prompt_tokens
        return self.choice.pairs(prompt) if self.choice else prompt_pairs(prompt)
