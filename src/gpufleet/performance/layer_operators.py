"""The operators of an architecture on many candidates, in groups that share a kernel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import TypeVar

import numpy as np

from gpufleet.domain.architecture import (
    Architecture,
    Attention,
    DenseMlp,
    LatentAttention,
    MixtureOfExperts,
    QueryKeyNorm,
)
from gpufleet.domain.arrays import FloatArray, Floats
from gpufleet.domain.calibration import GemmCurves
from gpufleet.domain.candidates import Candidates
from gpufleet.performance.attention_groups import (
    DecodeAttention,
    Heads,
    LatentAbsorb,
    LatentDecode,
    LatentPrompts,
    PromptAttention,
)
from gpufleet.performance.collectives import ALL_GATHER, ALL_REDUCE, REDUCE_SCATTER
from gpufleet.performance.hardware import Hardware
from gpufleet.performance.kernel_groups import (
    HEAD_ROWS,
    PROMPT_TOKENS,
    STAGE_TOKENS,
    TOKENS,
    Exchanges,
    KernelGroup,
    Part,
    Products,
    PromptProducts,
    RoutedExperts,
    Streams,
    kernel_of,
    stacked,
)
from gpufleet.units import GB

ACTIVATION_BYTES = 2.0
SUM_BYTES = 4.0
CACHE_BYTES_PER_S_PER_CORE = 30 * GB  # fitted to TensorRT-LLM 0.5 to 0.9; 25 to 32 do equally well
Alike = TypeVar("Alike", bound=Hashable)
PROJECTIONS, OVER_CACHE, OVER_PROMPTS = "attention projections", "attention over the KV cache", "attention over prompts"
POSITIONS, HEAD_NORMS, QUANTISATION = "rotary and KV write", "query and key norms", "activation quantisation"


def kernel_groups(arch: Architecture, candidates: Candidates, hardware: Hardware) -> tuple[KernelGroup, ...]:
    """Every operator of a step; those that layers have in common count together."""
    operators = _Operators(arch, candidates, hardware)
    operators.add_mixers()
    operators.add_feed_forwards()
    operators.add_ends_of_layers()
    operators.add_head()
    return operators.groups()


@dataclass(frozen=True)
class _Product:
    part: Part
    curves: GemmCurves
    seen: int
    n: Floats
    k: Floats


@dataclass(frozen=True)
class _Exchange:
    part: Part
    kind: int
    seen: int
    bytes_per_token: float
    num_ranks: FloatArray


@dataclass(frozen=True)
class _Stream:
    part: Part
    bytes_per_token: Floats


@dataclass
class _Operators:
    """Operators in the order that a token meets them."""

    arch: Architecture
    candidates: Candidates
    hardware: Hardware
    products: list[_Product] = field(default_factory=list)
    prompt_products: list[_Product] = field(default_factory=list)
    exchanges: list[_Exchange] = field(default_factory=list)
    streams: list[_Stream] = field(default_factory=list)
    others: list[KernelGroup] = field(default_factory=list)
    num_parts: int = 0

    def __post_init__(self) -> None:
        self.tp = np.asarray(self.candidates.tp, dtype=np.float64)

    def part(self, name: str, kernel: str, count: int) -> Part:
        self.num_parts += 1
        return Part(name, kernel, count, self.num_parts)

    def add_product(self, name: str, curves: GemmCurves, n: Floats, k: Floats, count: int) -> None:
        self.add_quantisation(curves.activation_bytes_per_element, k, count)
        self.products.append(_Product(self.part(name, "gemm", count), curves, TOKENS, n, k))

    def add_quantisation(self, bytes_per_element: FloatArray, width: Floats, count: int) -> None:
        """The input of a product in fewer than 16 bits: read, and written in its format."""
        moved = np.where(bytes_per_element < ACTIVATION_BYTES, ACTIVATION_BYTES + bytes_per_element, 0.0) * width
        if np.any(moved):
            self.streams.append(_Stream(self.part(QUANTISATION, "elementwise", count), moved))

    def add_exchange(self, name: str, kind: int, seen: int, num_ranks: FloatArray, count: int) -> None:
        width = self.arch.vocab_size if seen == HEAD_ROWS else self.arch.hidden_size
        self._add_exchange_of(width * ACTIVATION_BYTES, name, kind, seen, num_ranks, count)

    def _add_exchange_of(
        self, bytes_per_token: float, name: str, kind: int, seen: int, num_ranks: FloatArray, count: int
    ) -> None:
        part = self.part(name, kernel_of(kind), count)
        self.exchanges.append(_Exchange(part, kind, seen, bytes_per_token, num_ranks))

    def add_stream(self, name: str, elements_per_token: Floats, count: int) -> None:
        part = self.part(name, "elementwise", count)
        self.streams.append(_Stream(part, elements_per_token * ACTIVATION_BYTES))

    def add_mixers(self) -> None:
        mixers = _counted((replace(b.mixer, vector_params=0), b.count) for b in self.arch.blocks)
        plain = {m: count for m, count in mixers.items() if isinstance(m, Attention)}
        endless = ((replace(m, window_tokens=inf, chunked=False), n) for m, n in plain.items())
        for shape, count in _counted(endless).items():
            self._projections(shape, count)
            self._positions(shape, count)
        if plain:
            self._attention(plain)
        for mixer, count in mixers.items():
            if isinstance(mixer, LatentAttention):
                self._latent_projections(mixer, count)
                self._latent_attention(mixer, count)
        alone = sum(b.count for b in self.arch.blocks if not b.summed_together)
        if alone:
            self.add_exchange("all-reduce after attention", ALL_REDUCE, TOKENS, self.tp, alone)

    def _widths(self, mixer: Attention) -> tuple[FloatArray, FloatArray]:
        """Elements of a token's query, and of its key, on one device."""
        kv_heads = np.maximum(mixer.num_kv_heads / self.tp, 1.0)
        return mixer.num_heads / self.tp * mixer.head_dim, kv_heads * mixer.head_dim

    def _projections(self, mixer: Attention, count: int) -> None:
        hidden, curves = self.arch.hidden_size, self.hardware.attention_gemm
        query, key = self._widths(mixer)
        self.add_product(PROJECTIONS, curves, query + 2 * key, hidden, count)
        self.add_product(PROJECTIONS, curves, hidden, query, count)

    def _positions(self, mixer: Attention, count: int) -> None:
        """Queries and keys normed where the model does so, rotated, and keys and values put into the cache."""
        query, key = self._widths(mixer)
        if mixer.query_key_norm is not QueryKeyNorm.NONE:
            self.add_stream(HEAD_NORMS, 2 * query, count)
            self.add_stream(HEAD_NORMS, 2 * key, count)
        if mixer.query_key_norm is QueryKeyNorm.ALL_HEADS:
            self._add_exchange_of(SUM_BYTES, HEAD_NORMS, ALL_REDUCE, TOKENS, self.tp, 2 * count)
        self.add_stream(POSITIONS, 2 * (query + key), count)
        self.add_stream(POSITIONS, 4 * key, count)

    def _attention(self, mixers: Mapping[Attention, int]) -> None:
        heads = Heads(
            num_heads=np.stack([m.num_heads / self.tp for m in mixers]),
            num_kv_heads=np.stack([np.maximum(m.num_kv_heads / self.tp, 1.0) for m in mixers]),
            head_dim=np.array([[float(m.head_dim)] for m in mixers]),
            window_tokens=np.array([[m.window_tokens] for m in mixers]),
        )
        decode = tuple(self.part(OVER_CACHE, "attention decode", count) for count in mixers.values())
        prompts = tuple(self.part(OVER_PROMPTS, "attention prefill", count) for count in mixers.values())
        curves = self.hardware.attention
        cache_bytes_per_s = cache_bytes_per_s_of(self.candidates, heads)
        self.others += [
            DecodeAttention(decode, curves, heads, cache_bytes_per_s),
            PromptAttention(prompts, curves, heads),
        ]

    def _latent_projections(self, mixer: LatentAttention, count: int) -> None:
        hidden, heads = self.arch.hidden_size, mixer.num_heads / self.tp
        query = heads * (mixer.qk_nope_head_dim + mixer.qk_rope_head_dim)
        latent = mixer.kv_lora_rank + mixer.qk_rope_head_dim
        products: list[tuple[Floats, Floats]]
        if mixer.q_lora_rank is None:
            products = [(query + latent, hidden)]
        else:
            products = [(mixer.q_lora_rank + latent, hidden), (query, mixer.q_lora_rank)]
            self.add_stream(HEAD_NORMS, 2 * mixer.q_lora_rank, count)
        self.add_stream(HEAD_NORMS, 2 * mixer.kv_lora_rank, count)
        self.add_stream(POSITIONS, 2 * (heads + 1) * mixer.qk_rope_head_dim, count)
        self.add_stream(POSITIONS, 2 * latent, count)
        for n, k in [*products, (hidden, heads * mixer.v_head_dim)]:
            self.add_product(PROJECTIONS, self.hardware.attention_gemm, n, k, count)

    def _latent_attention(self, mixer: LatentAttention, count: int) -> None:
        curves, heads = self.hardware.latent_attention, mixer.num_heads / self.tp
        self.others += [
            LatentDecode((self.part(OVER_CACHE, "latent decode", count),), curves, heads),
            LatentAbsorb((self.part(OVER_CACHE, "latent absorb", count),), curves, heads),
            LatentPrompts((self.part(OVER_PROMPTS, "latent prefill", count),), curves, heads),
        ]
        width = heads * (mixer.qk_nope_head_dim + mixer.v_head_dim)
        part = self.part(OVER_PROMPTS, "gemm", count)
        self.prompt_products.append(
            _Product(part, self.hardware.attention_gemm, PROMPT_TOKENS, width, mixer.kv_lora_rank)
        )

    def add_feed_forwards(self) -> None:
        parts = _counted((replace(b.feed_forward, vector_params=0), b.count) for b in self.arch.blocks)
        for feed_forward, count in parts.items():
            if isinstance(feed_forward, DenseMlp):
                self._gated_mlp("mlp", feed_forward.width / self.tp, feed_forward.gated, count)
                self.add_exchange("all-reduce after mlp", ALL_REDUCE, TOKENS, self.tp, count)
            else:
                self._experts(feed_forward, count)

    def _gated_mlp(self, name: str, width: Floats, gated: bool, count: int) -> None:
        hidden, curves = self.arch.hidden_size, self.hardware.mlp_gemm
        up_width = (2 if gated else 1) * width
        self.add_product(name, curves, up_width, hidden, count)
        self.add_stream(name, up_width + width, count)
        self.add_product(name, curves, hidden, width, count)

    def _experts(self, moe: MixtureOfExperts, count: int) -> None:
        hidden, hw, c = self.arch.hidden_size, self.hardware, self.candidates
        self.add_product("router", hw.router_gemm, float(moe.num_experts), hidden, count)
        self.add_stream("router", 2 * moe.num_experts, 2 * count)
        self.add_quantisation(hw.experts.activation_bytes_per_element, hidden, count)
        part = self.part("experts", "experts", count)
        ep, moe_tp = np.asarray(c.ep, dtype=np.float64), np.asarray(c.moe_tp, dtype=np.float64)
        self.others.append(RoutedExperts((part,), hw.experts, moe, hidden, ep, moe_tp))
        if moe.shared_width:
            self._gated_mlp("shared experts", moe.shared_width / self.tp, moe.gated, count)
            self.add_stream("shared experts", 3 * hidden, count)
        self._exchange_with_experts(count)

    def _exchange_with_experts(self, count: int) -> None:
        """TP ranks share tokens and only reduce; attention-DP groups gather all tokens first and scatter results."""
        is_parted = self.candidates.attention_dp > 1
        ranks = np.where(is_parted, self.tp * self.candidates.attention_dp, 1.0)
        self.add_exchange("expert exchange", ALL_GATHER, STAGE_TOKENS, ranks, count)
        self.add_exchange("expert exchange", REDUCE_SCATTER, STAGE_TOKENS, ranks, count)
        tp = np.where(is_parted, 1.0, self.tp)
        self.add_exchange("expert exchange", ALL_REDUCE, STAGE_TOKENS, tp, count)

    def add_ends_of_layers(self) -> None:
        """Two norms with residual: 4 passes each."""
        self.add_stream("norms and residuals", 4 * self.arch.hidden_size, 2 * self.arch.num_layers)

    def add_head(self) -> None:
        part = self.part("output head", "gemm", 1)
        width = self.arch.vocab_size / self.tp
        self.products.append(_Product(part, self.hardware.head_gemm, HEAD_ROWS, width, self.arch.hidden_size))
        self.add_exchange("output head", ALL_GATHER, HEAD_ROWS, self.tp, 1)

    def groups(self) -> tuple[KernelGroup, ...]:
        expansions = [self._products(PromptProducts, self.prompt_products)] if self.prompt_products else []
        products = self._products(Products, self.products)
        return (products, *expansions, *self.others, self._exchanges(), self._streams())

    def _products(self, kind: type[Products], rows: Sequence[_Product]) -> Products:
        curves = tuple(row.curves for row in rows)
        return kind(
            tuple(row.part for row in rows),
            curves,
            stacked(curves),
            np.array([row.seen for row in rows]),
            np.stack([row.n + 0 * self.tp for row in rows]),
            np.stack([row.k + 0 * self.tp for row in rows]),
        )

    def _exchanges(self) -> Exchanges:
        rows = self.exchanges
        return Exchanges(
            tuple(row.part for row in rows),
            self.hardware.collectives,
            np.array([[row.kind] for row in rows]),
            np.array([row.seen for row in rows]),
            np.array([[row.bytes_per_token] for row in rows]),
            np.stack([row.num_ranks for row in rows]),
        )

    def _streams(self) -> Streams:
        rows = self.streams
        bytes_per_token = np.stack([row.bytes_per_token + 0 * self.tp for row in rows])
        return Streams(tuple(row.part for row in rows), self.hardware.bandwidth_bytes_per_s, bytes_per_token)


def cache_bytes_per_s_of(candidates: Candidates, heads: Heads) -> FloatArray:
    """What query heads read keys and values with, each for itself; infinite where a kernel shares them in the group.

    Engines without a kernel for a group size launch one block per query head: the first one brings keys and values
    from memory, the others find them in the second-level cache, at 30 GB/s for each multiprocessor.
    """
    shared = candidates.engine_figure("shared_query_heads", np.inf)
    group = heads.num_heads / heads.num_kv_heads
    cores = np.array([gpu.sm_count or np.inf for gpu in candidates.palette.accelerators])[candidates.accelerator]
    is_shared = ~np.isfinite(shared) | (group == shared) | (group <= 1)
    return np.where(is_shared, np.inf, cores * CACHE_BYTES_PER_S_PER_CORE)


def _counted(layers: Iterable[tuple[Alike, int]]) -> dict[Alike, int]:
    """Layers of each kind, in the order of their first appearance."""
    counts: Counter[Alike] = Counter()
    for kind, count in layers:
        counts[kind] += count
    return counts
