"""Attention over chosen tokens, and the index that chooses: arrays are [..., operator, candidate]."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from gpufleet.domain.arrays import FloatArray, Floats
from gpufleet.domain.calibration import Curves
from gpufleet.performance.attention import prefill_flop, prompt_pairs
from gpufleet.performance.interpolation import Distinct, narrowed, rising
from gpufleet.performance.kernel_groups import OfPrompts, StepTokens, Work
from gpufleet.performance.latent_attention import (
    latent_prefill_bytes,
    latent_prefill_flop,
)
from gpufleet.performance.mixer_groups import MixerGroup
from gpufleet.performance.sparse_attention import (
    BLOCK_HEAD_DIM,
    block_prefill_roofline_s,
    block_prefill_s,
    sparse_coordinates,
    sparse_prefill_roofline_s,
    sparse_prefill_s,
)
from gpufleet.performance.token_index import (
    SCORE_BYTES,
    choice_roofline_s,
    choice_s,
    entries_roofline_s,
    prompt_scores_roofline_s,
    scored_entries_s,
    scored_prompts_s,
)
from gpufleet.records import dataclass


@dataclass(frozen=True)
class Scoring:
    """One token index: what scoring one entry takes, and how many tokens an entry stands for."""

    flop_per_entry: float
    bytes_per_entry: float
    tokens_per_entry: float


@dataclass(frozen=True)
class IndexGroup(MixerGroup):
    """An operator of a token index; each rank meets all entries. Queries are new tokens, or those of prompts."""

    of: Scoring

    @cached_property
    def rising_curves(self) -> Curves:
        """The curves, rising over queries and entries."""
        rows = Distinct.of(self.curves)
        found = rising(narrowed(rows.curves, (), ()), lambda at: self._roofline_s(rows.curves, at[0], at[1]))
        return rows.spread(self.curves, found)

    def _roofline_s(self, curves: Curves, queries: Floats, entries: Floats) -> FloatArray:
        raise NotImplementedError

    def _met(self, at: StepTokens) -> tuple[FloatArray, FloatArray]:
        """Queries, and entries that each of them meets."""
        return at.queries, np.asarray(at.decode_context_tokens / self.of.tokens_per_entry)


@dataclass(frozen=True)
class OfPromptQueries(OfPrompts, IndexGroup):
    """Every token of a prompt meets the entries before it."""

    def _met(self, at: StepTokens) -> tuple[FloatArray, FloatArray]:
        pairs = prompt_pairs(at.prompt_tokens) / self.of.tokens_per_entry
        return at.prefilling * at.prompt_tokens, pairs / at.prompt_tokens


@dataclass(frozen=True)
class IndexDecode(IndexGroup):
    """The cached index of every sequence, scored for its new token."""

    def seconds(self, at: StepTokens) -> FloatArray:
        """Seconds of each layer; 0 where nothing decodes."""
        queries, entries = self._met(at)
        of = self.of
        seconds = scored_entries_s(self.rising_curves, queries, entries, of.flop_per_entry, of.bytes_per_entry)
        return np.where(self.is_executed(at), seconds, 0.0)

    def work(self, at: StepTokens) -> Work:
        """The index of every sequence read once, its scores written."""
        queries, entries = self._met(at)
        scored = queries * entries
        moved_bytes = scored * (self.of.bytes_per_entry + SCORE_BYTES)
        shape: dict[str, Floats] = {"sequences": queries, "entries": entries}
        return Work.on_device(self.curves, shape, scored * self.of.flop_per_entry, moved_bytes)

    def _roofline_s(self, curves: Curves, queries: Floats, entries: Floats) -> FloatArray:
        return entries_roofline_s(curves, queries, entries, self.of.flop_per_entry, self.of.bytes_per_entry)


@dataclass(frozen=True)
class IndexPrompts(OfPromptQueries):
    """Every token of a prompt, scored against the entries before it."""

    def seconds(self, at: StepTokens) -> FloatArray:
        """Seconds of each layer; 0 without prompts."""
        queries, entries = self._met(at)
        seconds = scored_prompts_s(self.rising_curves, queries, entries, self.of.flop_per_entry)
        return np.where(self.is_executed(at), seconds, 0.0)

    def work(self, at: StepTokens) -> Work:
        """Scores of every pair; entries are shared by the tokens of a tile."""
        queries, entries = self._met(at)
        pairs = queries * entries
        shape: dict[str, Floats] = {"queries": queries, "entries": entries}
        return Work.on_device(self.curves, shape, pairs * self.of.flop_per_entry, pairs * SCORE_BYTES)

    def _roofline_s(self, curves: Curves, queries: Floats, entries: Floats) -> FloatArray:
        return prompt_scores_roofline_s(curves, queries, entries, self.of.flop_per_entry)


@dataclass(frozen=True)
class IndexChoice(IndexGroup):
    """The best entries of each new token."""

    def seconds(self, at: StepTokens) -> FloatArray:
        """Seconds of each layer; 0 where it does not run."""
        seconds = choice_s(self.rising_curves, *self._met(at))
        return np.where(self.is_executed(at), seconds, 0.0)

    def work(self, at: StepTokens) -> Work:
        """Every score read once."""
        queries, entries = self._met(at)
        shape: dict[str, Floats] = {"queries": queries, "entries": entries}
        return Work.on_device(self.curves, shape, 0.0, queries * entries * SCORE_BYTES)

    def _roofline_s(self, curves: Curves, queries: Floats, entries: Floats) -> FloatArray:
        return choice_roofline_s(curves, queries, entries)


@dataclass(frozen=True)
class PromptChoice(OfPromptQueries, IndexChoice):
    """The best entries of each token of a prompt."""


@dataclass(frozen=True)
class SparseGroup(OfPrompts, MixerGroup):
    """Attention of prompts, by `num_heads` of one device, over at most `kept_tokens` of what came before."""

    num_heads: FloatArray
    kept_tokens: float

    @cached_property
    def rising_curves(self) -> Curves:
        """The curves for these heads, rising over queries and tokens."""
        distinct = Distinct.of(self.curves, self.num_heads)
        (heads,) = distinct.sizes
        rows = narrowed(distinct.curves, sparse_coordinates(1.0, 1.0, heads), ("log2 heads",))
        return distinct.spread(self.curves, rising(rows, lambda at: self._roofline_s(rows, at[0], at[1], heads)))

    def _roofline_s(self, curves: Curves, queries: FloatArray, tokens: FloatArray, heads: FloatArray) -> FloatArray:
        raise NotImplementedError

    def _kept(self, at: StepTokens) -> FloatArray:
        """Tokens that a query reads, in the mean."""
        return np.asarray(prompt_pairs(at.prompt_tokens, self.kept_tokens) / at.prompt_tokens)


@dataclass(frozen=True)
class SparsePrompts(SparseGroup):
    """Latent attention of whole prompts over what an index kept for each of their tokens."""

    def seconds(self, at: StepTokens) -> FloatArray:
        """Seconds of each layer; 0 without prompts."""
        queries = at.prefilling * at.prompt_tokens
        seconds = sparse_prefill_s(self.rising_curves, queries, self._kept(at), self.num_heads)
        return np.where(self.is_executed(at), seconds, 0.0)

    def work(self, at: StepTokens) -> Work:
        """Every pair of a query and a kept token."""
        queries, kept, heads = at.prefilling * at.prompt_tokens, self._kept(at), self.num_heads
        shape: dict[str, Floats] = {"queries": queries, "kept": kept, "heads": heads}
        flop = latent_prefill_flop(1.0, queries * kept, heads)
        return Work.on_device(self.curves, shape, flop, latent_prefill_bytes(1.0, queries, heads))

    def _roofline_s(self, curves: Curves, queries: FloatArray, tokens: FloatArray, heads: FloatArray) -> FloatArray:
        return sparse_prefill_roofline_s(curves, queries, tokens, heads)


@dataclass(frozen=True)
class BlockPrompts(SparseGroup):
    """Plain attention of whole prompts over the best blocks, with the scores that choose them."""

    flop_per_entry: float

    def seconds(self, at: StepTokens) -> FloatArray:
        """Seconds of each layer; 0 without prompts."""
        queries, seen, kept = self._met(at)
        seconds = block_prefill_s(self.rising_curves, queries, seen, kept, self.num_heads, self.flop_per_entry)
        return np.where(self.is_executed(at), seconds, 0.0)

    def work(self, at: StepTokens) -> Work:
        """Scores of every pair, and the pairs of a query and a kept token."""
        queries, seen, kept = self._met(at)
        shape: dict[str, Floats] = {"queries": queries, "seen": seen, "kept": kept, "heads": self.num_heads}
        flop = queries * seen * self.flop_per_entry
        flop = flop + prefill_flop(1.0, queries * kept, self.num_heads, BLOCK_HEAD_DIM)
        return Work.on_device(self.curves, shape, flop, 0.0)

    def _met(self, at: StepTokens) -> tuple[FloatArray, FloatArray, FloatArray]:
        seen = prompt_pairs(at.prompt_tokens) / at.prompt_tokens
        return at.prefilling * at.prompt_tokens, np.asarray(seen), self._kept(at)

    def _roofline_s(self, curves: Curves, queries: FloatArray, tokens: FloatArray, heads: FloatArray) -> FloatArray:
        prompt = 2 * tokens - 1
        kept = prompt_pairs(prompt, self.kept_tokens) / prompt
        return block_prefill_roofline_s(curves, queries, tokens, kept, heads, self.flop_per_entry)
