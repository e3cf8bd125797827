"""The operators of an architecture on many candidates, in groups that share a kernel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace
from math import inf
from typing import TypeVar

import numpy as np

from gpufleet.architecture.recurrent import (
    Recurrent,
    recurrence_flop_per_token,
    recurrent_params,
    state_bytes_per_layer,
)
from gpufleet.architecture.sparse_attention import index_flop_per_entry, index_of
from gpufleet.domain.architecture import (
    Architecture,
    Attention,
    DenseMlp,
    LatentAttention,
    Mixer,
    MixtureOfExperts,
    QueryKeyNorm,
)
from gpufleet.domain.arrays import FloatArray, Floats
from gpufleet.domain.calibration import WIDE_BYTES, SparsePromptFormula
from gpufleet.domain.candidates import Candidates
from gpufleet.domain.engine import ACTIVATION, ATTENTION, NORM
from gpufleet.domain.mixers import CompressedAttention, GatedDeltaNet, NoFeedForward, NoMixer, StateSpace
from gpufleet.performance.attention_groups import (
    Choice,
    DecodeAttention,
    Heads,
    LatentAbsorb,
    LatentDecode,
    LatentPrompts,
    PromptAttention,
)
from gpufleet.performance.collectives import ALL_GATHER, ALL_REDUCE, REDUCE_SCATTER
from gpufleet.performance.delta_net import STATE_ELEMENTS
from gpufleet.performance.expert_groups import ExpertsTogether, RoutedExperts
from gpufleet.performance.formula_groups import ImageTower, PromptScan, StateSpaceWork, StateUpdate
from gpufleet.performance.hardware import Hardware
from gpufleet.performance.host_link import OFFLOADED, OffloadedWeights
from gpufleet.performance.kernel_groups import (
    HEAD_ROWS,
    STAGE_TOKENS,
    TOKENS,
    Exchanges,
    OfLastStage,
    Part,
    StepGroup,
    kernel_of,
)
from gpufleet.performance.latent_attention import (
    KEY_DIM,
    KV_LORA_RANK,
    LATENT_DIM,
    QK_NOPE_HEAD_DIM,
    V_HEAD_DIM,
)
from gpufleet.performance.mixer_groups import DeltaPrompts, DeltaUpdate, Recurrence
from gpufleet.performance.operator_groups import OperatorGroups
from gpufleet.performance.sparse_attention import BLOCK_HEAD_DIM
from gpufleet.performance.sparse_groups import (
    BlockPrompts,
    IndexChoice,
    IndexDecode,
    IndexPrompts,
    PromptChoice,
    Scoring,
    SparsePrompts,
)

ACTIVATION_BYTES = 2.0
SUM_BYTES = 4.0
WIDENING = 3.0
"""Elements of 16 bits that are read and written where one is widened to fp32."""
PASSES = 2.0
"""Kernels that rotate and write the cache, or that choose experts, where an engine's measured kernels hold neither."""
Alike = TypeVar("Alike", bound=Hashable)
PROJECTIONS, OVER_CACHE, OVER_PROMPTS = "attention projections", "attention over the KV cache", "attention over prompts"
STATE, OVER_STATE, INDEX = "recurrent state", "recurrence over prompts", "token index"
POSITIONS, HEAD_NORMS, SHARED = "rotary and KV write", "query and key norms", "shared experts"
SCALE_SEARCH, SPLIT_SUMS = "search for scales", "sums of the router in parts"
EARLIER_PRODUCT, PRODUCT, EXPERTS = "earlier product", "product", "experts"


def kernel_groups(arch: Architecture, candidates: Candidates, hardware: Hardware) -> tuple[StepGroup, ...]:
    """Every operator of a step; those that layers have in common count together."""
    operators = _Operators(arch, candidates, hardware)
    operators.add_images()
    operators.add_offloaded()
    operators.add_mixers()
    operators.add_feed_forwards()
    operators.add_ends_of_layers()
    operators.add_head()
    return operators.groups()


class _Linears(OperatorGroups):
    """Operators of layers, whose products are with parts of the weights."""

    def __init__(self, hardware: Hardware) -> None:
        formula = hardware.calibration.formulas.streams
        super().__init__(len(hardware.candidates), hardware.bandwidth_bytes_per_s, formula, ACTIVATION_BYTES)
        self.hardware = hardware

    def apart(self) -> _Linears:
        """Operators met next that are gathered apart from the others."""
        others = _Linears(self.hardware)
        others._places = self._places
        return others

    def add_linear(
        self, name: str, part: str, n: Floats, k: Floats, count: int, written_by: str, seen: int = TOKENS
    ) -> None:
        """A product with an [n, k] matrix of this part of the weights, whose input `written_by` says what wrote.

        Input that an earlier product took is quantised by then.
        """
        hw = self.hardware
        apart = hw.quantised_apart(part, written_by) if written_by != EARLIER_PRODUCT else np.zeros(self.num_candidates)
        searched_bytes = hw.searched(part) * apart * k * WIDE_BYTES
        self.add_pass(SCALE_SEARCH, hw.calibration.formulas.scale_search, searched_bytes, count, seen)
        self.add_product(name, hw.products(part), n, k, count, seen, apart, hw.quantisation_slowdown(part))


class _Operators(_Linears):
    """Operators of a decoder in the order that a token meets them."""

    def __init__(self, arch: Architecture, candidates: Candidates, hardware: Hardware) -> None:
        super().__init__(hardware)
        self.arch, self.candidates = arch, candidates
        self.tp = np.asarray(candidates.tp, dtype=np.float64)
        self.exchanges: list[tuple[Part, int, int, float, FloatArray]] = []

    def add_exchange(self, name: str, kind: int, seen: int, num_ranks: FloatArray, count: int) -> None:
        width = self.arch.vocab_size if seen == HEAD_ROWS else self.arch.hidden_size
        self._add_exchange_of(width * ACTIVATION_BYTES, name, kind, seen, num_ranks, count)

    def _add_exchange_of(
        self, bytes_per_token: float, name: str, kind: int, seen: int, num_ranks: FloatArray, count: int
    ) -> None:
        self.exchanges.append((self.part(name, kernel_of(kind), count), kind, seen, bytes_per_token, num_ranks))

    def add_images(self) -> None:
        """The vision tower, cut over the ranks of tensor parallelism as its weights are."""
        if self.arch.images is None:
            return
        peak, formulas = self.hardware.router_gemm.peak_flop_per_s, self.hardware.calibration.formulas
        parts = (self.part("vision tower", "vision tower", 1),)
        flop = self.arch.images.tower_flop / self.tp
        self.others.append(ImageTower(parts, formulas, peak, self.bandwidth_bytes_per_s, flop))

    def add_offloaded(self) -> None:
        """Weights that lie in host memory, where any candidate keeps some there."""
        if not any(engine.beside.offloaded_bytes for engine in self.candidates.palette.engines):
            return
        hw, parts = self.hardware, (self.part(OFFLOADED, "host link", 1),)
        formulas, ratio = hw.calibration.formulas, hw.calibration.formulas.host_read.link_ratio.value
        peak, bandwidth = hw.router_gemm.peak_flop_per_s, self.bandwidth_bytes_per_s
        self.others.append(OffloadedWeights(parts, formulas, peak, bandwidth, self.arch, self.candidates, ratio))

    def add_mixers(self) -> None:
        mixers = _counted((replace(b.mixer, vector_params=0), b.count) for b in self.arch.blocks)
        plain = {m: count for m, count in mixers.items() if isinstance(m, Attention)}
        endless = (
            (replace(m, window_tokens=inf, chunked=False, kept_tokens=inf, index=None), n) for m, n in plain.items()
        )
        for shape, count in _counted(endless).items():
            self._projections(shape, count)
            self._positions(shape, count)
        if plain:
            self._attention(plain)
        for mixer, count in mixers.items():
            self._add_mixer(mixer, count)
        alone = sum(b.count for b in self.arch.blocks if not (b.summed_together or isinstance(b.mixer, NoMixer)))
        if alone:
            self.add_exchange("all-reduce after attention", ALL_REDUCE, TOKENS, self.tp, alone)

    @property
    def _num_mixers(self) -> int:
        return sum(block.count for block in self.arch.blocks if not isinstance(block.mixer, NoMixer))

    def _add_mixer(self, mixer: Mixer, count: int) -> None:
        """What is not plain attention, and what chooses tokens for any attention."""
        if isinstance(mixer, LatentAttention):
            self._latent_projections(mixer, count)
            self._latent_attention(mixer, count)
        elif isinstance(mixer, CompressedAttention):
            self._compressed_projections(mixer, count)
            self._compressed_attention(mixer, count)
        elif isinstance(mixer, (GatedDeltaNet, StateSpace)):
            self._recurrent_projections(mixer, count)
            self._recurrence(mixer, count)
        self._index(mixer, count)

    def _widths(self, mixer: Attention) -> tuple[FloatArray, FloatArray]:
        """Elements of a token's query, and of its key, on one device."""
        kv_heads = np.maximum(mixer.num_kv_heads / self.tp, 1.0)
        return mixer.num_heads / self.tp * mixer.head_dim, kv_heads * mixer.head_dim

    def _projections(self, mixer: Attention, count: int) -> None:
        hidden = self.arch.hidden_size
        query, key = self._widths(mixer)
        value = key * (mixer.value_dim / mixer.head_dim)
        output = query * (mixer.value_dim / mixer.head_dim)
        if mixer.keys_are_values:
            value = 0.0 * key
        gate = mixer.gate_width / self.tp
        self.add_linear(PROJECTIONS, "attention", query + (key + value) + gate, hidden, count, NORM)
        if mixer.gate_width:
            self.add_stream(PROJECTIONS, gate + 2 * output, count)
        self.add_linear(PROJECTIONS, "attention", hidden, output, count, ACTIVATION if mixer.gate_width else ATTENTION)

    def _positions(self, mixer: Attention, count: int) -> None:
        """Queries and keys normed where the model does so, rotated, and keys and values put into the cache.

        An engine's `position_passes` say how many of the last two are kernels beside its attention as measured.
        """
        query, key = self._widths(mixer)
        if mixer.query_key_norm is not QueryKeyNorm.NONE:
            self.add_stream(HEAD_NORMS, 2 * query, count)
            self.add_stream(HEAD_NORMS, 2 * key, count)
        if mixer.query_key_norm is QueryKeyNorm.ALL_HEADS:
            are_apart = self.candidates.engine_figure("head_norms_together", 0.0) == 0
            for ranks in (self.tp, np.where(are_apart, self.tp, 1.0)):
                self._add_exchange_of(SUM_BYTES, HEAD_NORMS, ALL_REDUCE, TOKENS, ranks, count)
        passes = self.candidates.engine_figure("position_passes", PASSES)
        self.add_stream(POSITIONS, 2 * (query + key) * (passes > 1), count)
        self.add_stream(POSITIONS, 4 * key * (passes > 0), count)

    def _attention(self, mixers: Mapping[Attention, int]) -> None:
        heads, curves = self._heads(mixers, self._queries_per_cache), self.hardware.attention
        decode = tuple(self.part(OVER_CACHE, "attention decode", count) for count in mixers.values())
        self.others.append(DecodeAttention(decode, curves, heads, cache_bytes_per_s_of(self.candidates, heads)))
        plain = {mixer: count for mixer, count in mixers.items() if not mixer.chooses_tokens}
        if plain:
            prompts = tuple(self.part(OVER_PROMPTS, "attention prefill", count) for count in plain.values())
            self.others.append(PromptAttention(prompts, curves, self._heads(plain)))
        for mixer in (mixer for mixer in mixers if mixer.chooses_tokens):
            self._block_attention(mixer, mixers[mixer])

    @property
    def _queries_per_cache(self) -> FloatArray:
        return self.candidates.verified_tokens / self.candidates.caches_per_sequence

    def _heads(self, mixers: Iterable[Attention], queries: Floats = 1.0) -> Heads:
        return Heads(
            num_heads=np.stack([queries * m.num_heads / self.tp for m in mixers]),
            num_kv_heads=np.stack([np.maximum(m.num_kv_heads / self.tp, 1.0) for m in mixers]),
            head_dim=np.array([[(m.head_dim + m.value_dim) / 2] for m in mixers]),
            window_tokens=np.array([[min(m.window_tokens, m.kept_tokens)] for m in mixers]),
        )

    def _block_attention(self, mixer: Attention, count: int) -> None:
        """Prompts that score what came before and read the best of it, in one kernel or several."""
        heads = mixer.num_heads / self.tp * (mixer.head_dim / BLOCK_HEAD_DIM)
        flop = float(index_flop_per_entry(mixer.index)) if mixer.index else 0.0
        part, curves = self.part(OVER_PROMPTS, "block prefill", count), self.hardware.mixer("block_prefill")
        self.others.append(BlockPrompts((part,), curves, heads, mixer.kept_tokens, flop))

    def _latent_projections(self, mixer: LatentAttention, count: int) -> None:
        hidden, heads = self.arch.hidden_size, mixer.num_heads / self.tp
        query = heads * (mixer.qk_nope_head_dim + mixer.qk_rope_head_dim)
        latent = mixer.kv_lora_rank + mixer.qk_rope_head_dim
        products: list[tuple[Floats, Floats, str]]
        if mixer.q_lora_rank is None:
            products = [(query + latent, hidden, NORM)]
        else:
            products = [(mixer.q_lora_rank + latent, hidden, NORM), (query, mixer.q_lora_rank, NORM)]
            self.add_stream(HEAD_NORMS, 2 * mixer.q_lora_rank, count)
        self.add_stream(HEAD_NORMS, 2 * mixer.kv_lora_rank, count)
        self.add_stream(POSITIONS, 2 * (heads + 1) * mixer.qk_rope_head_dim, count)
        self.add_stream(POSITIONS, 2 * latent, count)
        if mixer.gate_width:
            products.append((mixer.gate_width / self.tp, hidden, EARLIER_PRODUCT))
            self.add_stream(PROJECTIONS, 3 * mixer.gate_width / self.tp, count)
        for n, k, written_by in [*products, (hidden, heads * mixer.v_head_dim, PRODUCT)]:
            self.add_linear(PROJECTIONS, "attention", n, k, count, written_by)

    def _latent_attention(self, mixer: LatentAttention, count: int) -> None:
        """Heads of other widths than the measured ones count as many as do the same work."""
        curves, heads = self.hardware.latent_attention, mixer.num_heads / self.tp
        nope, value, rope = mixer.qk_nope_head_dim, mixer.v_head_dim, mixer.qk_rope_head_dim
        core = heads * ((2 * mixer.kv_lora_rank + rope) / (LATENT_DIM + KV_LORA_RANK))
        absorbed = heads * (mixer.kv_lora_rank * (nope + value) / (KV_LORA_RANK * (QK_NOPE_HEAD_DIM + V_HEAD_DIM)))
        reading = heads * ((nope + rope + value) / (KEY_DIM + V_HEAD_DIM))
        if mixer.kept_tokens < inf:
            self._sparse_attention(core, mixer.kept_tokens, count)
        else:
            together = core * self._queries_per_cache
            self.others += [
                LatentDecode((self.part(OVER_CACHE, "latent decode", count),), curves, together),
                LatentPrompts((self.part(OVER_PROMPTS, "latent prefill", count),), curves, reading),
            ]
        self.others.append(LatentAbsorb((self.part(OVER_CACHE, "latent absorb", count),), curves, absorbed))
        width = heads * (mixer.qk_nope_head_dim + mixer.v_head_dim)
        self.add_prompt_product(OVER_PROMPTS, self.hardware.attention_gemm, width, mixer.kv_lora_rank, count)

    def _sparse_attention(self, heads: FloatArray, kept_tokens: float, count: int) -> None:
        """Latent attention over what an index kept."""
        decode, prefill = self.hardware.latent_attention, self.hardware.mixer("sparse_prefill")
        choice = Choice(kept_tokens)
        self.others += [
            LatentDecode((self.part(OVER_CACHE, "latent decode", count),), decode, heads, choice),
            SparsePrompts((self.part(OVER_PROMPTS, "sparse prefill", count),), prefill, heads, kept_tokens),
        ]

    def _compressed_projections(self, mixer: CompressedAttention, count: int) -> None:
        hidden, width = self.arch.hidden_size, mixer.num_heads / self.tp * mixer.head_dim
        compressor = 2 * mixer.overlap * mixer.head_dim if mixer.tokens_per_entry else 0
        output = mixer.output_groups * mixer.output_rank / self.tp
        down = mixer.q_lora_rank + mixer.head_dim + compressor
        of_group = mixer.num_heads * mixer.head_dim / mixer.output_groups
        products: list[tuple[Floats, Floats, str]] = [(down, hidden, NORM), (width, mixer.q_lora_rank, NORM)]
        products += [(output, of_group, ATTENTION), (hidden, output, PRODUCT)]
        self.add_stream(HEAD_NORMS, 2 * (mixer.q_lora_rank + mixer.head_dim), count)
        self.add_stream(POSITIONS, 2 * (width + mixer.head_dim + compressor), count)
        for n, k, written_by in products:
            self.add_linear(PROJECTIONS, "attention", n, k, count, written_by)

    def _compressed_attention(self, mixer: CompressedAttention, count: int) -> None:
        """All heads over one vector that is key and value: the kernel of latent attention, of other widths."""
        ratio = float(mixer.tokens_per_entry or inf)
        choice = Choice(mixer.window_tokens, ratio, mixer.kept_entries if mixer.tokens_per_entry else 0.0)
        curves, heads, width = self.hardware.latent_attention, mixer.num_heads / self.tp, 2 * mixer.head_dim
        decoding = heads * (width / (LATENT_DIM + KV_LORA_RANK))
        kernel = self.hardware.calibration.formulas.sparse_prompts
        reading = heads_of_sparse_kernel(kernel, heads) * (width / (KEY_DIM + V_HEAD_DIM))
        self.others += [
            LatentDecode((self.part(OVER_CACHE, "latent decode", count),), curves, decoding, choice),
            LatentPrompts((self.part(OVER_PROMPTS, "latent prefill", count),), curves, reading, choice),
        ]

    def _recurrent_projections(self, mixer: Recurrent, count: int) -> None:
        """All products into the recurrence as one, and the one out of it."""
        hidden, params = self.arch.hidden_size, recurrent_params(mixer, self.arch.hidden_size)
        output = mixer.value_width if isinstance(mixer, GatedDeltaNet) else mixer.inner_width
        into = (params.sharded / hidden - output) / self.tp + params.copied / hidden
        self.add_linear(PROJECTIONS, "attention", into, hidden, count, NORM)
        self.add_stream(HEAD_NORMS, 3 * output / self.tp, count)
        self.add_linear(PROJECTIONS, "attention", hidden, output / self.tp, count, NORM)

    def _recurrence(self, mixer: Recurrent, count: int) -> None:
        flop = recurrence_flop_per_token(mixer) / self.tp
        state = np.asarray(state_bytes_per_layer(mixer, self.candidates.tp), dtype=np.float64)
        if isinstance(mixer, GatedDeltaNet):
            self._delta_net(mixer, state, flop, count)
            return
        moved = (2 * mixer.convolved_width + mixer.inner_width) * ACTIVATION_BYTES / self.tp
        of = StateSpaceWork(state, flop, moved)
        peak, bandwidth = self.hardware.router_gemm.peak_flop_per_s, self.hardware.bandwidth_bytes_per_s
        formulas = self.hardware.calibration.formulas
        self.others += [
            StateUpdate((self.part(STATE, "state update", count),), formulas, peak, bandwidth, of),
            PromptScan((self.part(OVER_STATE, "chunked scan", count),), formulas, peak, bandwidth, of),
        ]

    def _delta_net(self, mixer: GatedDeltaNet, state_bytes: FloatArray, flop: FloatArray, count: int) -> None:
        """One number of forgetting per head, or one per channel: kernels of their own."""
        kernel = "kda" if mixer.decay_rank else "delta"
        of = Recurrence(
            heads=mixer.state_elements / STATE_ELEMENTS / self.tp,
            heads_per_key=mixer.num_value_heads / mixer.num_key_heads,
            state_bytes=state_bytes,
            flop_per_token=flop,
            bytes_per_token=(2 * mixer.convolved_width + mixer.value_width) * ACTIVATION_BYTES / self.tp,
        )
        decode, prefill = (self.hardware.mixer(f"{kernel}_{phase}") for phase in ("decode", "prefill"))
        self.others += [
            DeltaUpdate((self.part(STATE, "state update", count),), decode, of),
            DeltaPrompts((self.part(OVER_STATE, "chunked scan", count),), prefill, of),
        ]

    def _index(self, mixer: Mixer, count: int) -> None:
        """Queries and keys of the index, then every entry scored by every rank."""
        index = index_of(mixer)
        if index is None:
            return
        ratio = mixer.tokens_per_entry if isinstance(mixer, CompressedAttention) else 1
        queries, projected = float(index.num_heads * index.head_dim), float(index.projected_width)
        self.add_linear(INDEX, "attention", queries, index.query_width, count, EARLIER_PRODUCT)
        self.add_linear(INDEX, "attention", projected, self.arch.hidden_size, count, EARLIER_PRODUCT)
        of = Scoring(index_flop_per_entry(index), index.cache_bytes_per_entry, ratio)
        decode, prefill, choice = (self.hardware.mixer(f"index_{kind}") for kind in ("decode", "prefill", "choice"))
        self.others += [
            IndexDecode((self.part(INDEX, "index decode", count),), decode, of),
            IndexChoice((self.part(INDEX, "choice", count),), choice, of),
        ]
        if not (isinstance(mixer, Attention) and mixer.chooses_tokens):
            self.others += [
                IndexPrompts((self.part(INDEX, "index prefill", count),), prefill, of),
                PromptChoice((self.part(INDEX, "choice over prompts", count),), choice, of),
            ]

    def add_feed_forwards(self) -> None:
        parts = _counted((replace(b.feed_forward, vector_params=0), b.count) for b in self.arch.blocks)
        for feed_forward, count in parts.items():
            if isinstance(feed_forward, DenseMlp):
                self._add_mlp(self, "mlp", feed_forward.width / self.tp, feed_forward.gated, count)
                self.add_exchange("all-reduce after mlp", ALL_REDUCE, TOKENS, self.tp, count)
            elif not isinstance(feed_forward, NoFeedForward):
                self._experts(feed_forward, count)

    def _add_mlp(self, to: _Linears, name: str, width: Floats, gated: bool, count: int) -> None:
        hidden, up_width = self.arch.hidden_size, (2 if gated else 1) * width
        to.add_linear(name, "mlp", up_width, hidden, count, NORM)
        to.add_stream(name, up_width + width, count)
        to.add_linear(name, "mlp", hidden, width, count, ACTIVATION)

    def _experts(self, moe: MixtureOfExperts, count: int) -> None:
        hidden, hw, c = self.arch.hidden_size, self.hardware, self.candidates
        width = moe.latent_width or hidden
        self._router(moe, count)
        if moe.latent_width:
            self.add_linear("expert latents", "mlp", float(width), hidden, count, NORM)
            self.add_linear("expert latents", "mlp", float(hidden), width, count, EXPERTS)
        part = self.part("experts", "experts", count)
        ep, moe_tp = np.asarray(c.ep, dtype=np.float64), np.asarray(c.moe_tp, dtype=np.float64)
        popularity_shape = hw.calibration.formulas.routing.popularity_shape.value
        few_rows = c.engine_figure("few_rows_ratio", 1.0)
        routed = RoutedExperts((part,), hw.experts, moe, width, ep, moe_tp, popularity_shape, few_rows)
        self.others.append(self._with_shared_experts(routed, moe, count) if moe.shared_width else routed)
        self._exchange_with_experts(count)

    def _router(self, moe: MixtureOfExperts, count: int) -> None:
        """The product that scores experts, and their choice where the measured experts do not hold it.

        In fp32 an engine without a kernel for it widens the input first and multiplies over parts of the sums.
        """
        hidden, experts, hw, c = self.arch.hidden_size, float(moe.num_experts), self.hardware, self.candidates
        if moe.routes_in_fp32:
            is_plain = np.where(c.engine_figure("plain_fp32_router", 0.0) > 0, 1.0, 0.0)
            self.add_stream("router", is_plain * WIDENING * hidden, count)
            self.add_pass(SPLIT_SUMS, hw.calibration.formulas.split_sums, is_plain * 2 * SUM_BYTES * experts, count)
        gemm = hw.fp32_router_gemm if moe.routes_in_fp32 else hw.router_gemm
        self.add_product("router", gemm, experts, hidden, count)
        chooses_apart = c.engine_figure("router_passes", PASSES) > 0
        self.add_stream("router", np.where(chooses_apart, 2.0 * experts, 0.0), 2 * count)

    def _with_shared_experts(self, routed: RoutedExperts, moe: MixtureOfExperts, count: int) -> ExpertsTogether:
        shared, beside_tokens = self.apart(), self.candidates.engine_figure("shared_beside_tokens", 0.0)
        self._add_mlp(shared, SHARED, moe.shared_width / self.tp, moe.gated, count)
        self.add_stream(SHARED, 3 * self.arch.hidden_size, count)
        return ExpertsTogether.of(routed, [*shared.product_groups(), *shared.stream_groups()], beside_tokens)

    def _exchange_with_experts(self, count: int) -> None:
        """TP ranks share tokens and only reduce; attention-DP groups gather all tokens first and scatter results."""
        is_parted = self.candidates.attention_dp > 1
        ranks = np.where(is_parted, self.tp * self.candidates.attention_dp, 1.0)
        self.add_exchange("expert exchange", ALL_GATHER, STAGE_TOKENS, ranks, count)
        self.add_exchange("expert exchange", REDUCE_SCATTER, STAGE_TOKENS, ranks, count)
        tp = np.where(is_parted, 1.0, self.tp)
        self.add_exchange("expert exchange", ALL_REDUCE, STAGE_TOKENS, tp, count)

    def add_ends_of_layers(self) -> None:
        """A norm with residual for each part of a layer: 4 passes, over every residual stream."""
        feed_forwards = (b.count for b in self.arch.blocks if not isinstance(b.feed_forward, NoFeedForward))
        passes = 4 * self.arch.hidden_size * self.arch.residual_streams
        self.add_stream("norms and residuals", passes, self._num_mixers + sum(feed_forwards))

    def add_head(self) -> None:
        width = self.arch.vocab_size / self.tp
        has_stages = bool(np.any(self.candidates.micro_batches > 1))
        head = self.apart() if has_stages else self
        head.add_linear("output head", "head", width, self.arch.hidden_size, 1, NORM, HEAD_ROWS)
        if has_stages:
            self.others += [OfLastStage.of(group) for group in head.groups()]
        self.add_exchange("output head", ALL_GATHER, HEAD_ROWS, self.tp, 1)

    def groups(self) -> tuple[StepGroup, ...]:
        return (*super().groups(), self._exchange_group())

    def _exchange_group(self) -> Exchanges:
        parts, kinds, seen, bytes_per_token, num_ranks = zip(*self.exchanges, strict=True)
        collectives, of_token = self.hardware.collectives, np.array(bytes_per_token)[:, None]
        return Exchanges(parts, collectives, np.array(kinds)[:, None], np.array(seen), of_token, np.stack(num_ranks))


def heads_of_sparse_kernel(formula: SparsePromptFormula, heads: FloatArray) -> FloatArray:
    """Heads that a prompt pays for where it reads chosen tokens: a least number; kernels do not expand the latent."""
    return np.maximum(heads, formula.least_heads.value)


def cache_bytes_per_s_of(candidates: Candidates, heads: Heads) -> FloatArray:
    """What query heads read keys and values with, each for itself; infinite where a kernel shares them in the group.

    Engines without a kernel for a group size launch one block per query head: the first one brings keys and values
    from memory, the others find them in the second-level cache, at a rate for each multiprocessor. An engine that
    writes keys and values out for every query head moves them through memory, `kv_passes_per_query_head` times.
    """
    shared = candidates.engine_figure("shared_query_heads", np.inf)
    group = heads.num_heads / heads.num_kv_heads
    gpus = candidates.palette.accelerators
    cores = np.array([gpu.sm_count or np.inf for gpu in gpus])[candidates.accelerator]
    memory_bytes_per_s = np.array([gpu.bandwidth_bytes_per_s for gpu in gpus])[candidates.accelerator]
    rate = candidates.engine_figure("cache_bytes_per_s_per_core", np.inf)
    is_shared = ~np.isfinite(shared) | (group == shared) | (group <= 1)
    passes = candidates.engine_figure("kv_passes_per_query_head", 0.0)
    written_out = np.divide(memory_bytes_per_s, passes, out=np.full(len(candidates), np.inf), where=passes > 0)
    return np.asarray(np.minimum(np.where(is_shared, np.inf, cores * rate), written_out), dtype=np.float64)


def _counted(layers: Iterable[tuple[Alike, int]]) -> dict[Alike, int]:
    """Layers of each kind, in the order of their first appearance."""
    counts: Counter[Alike] = Counter()
    for kind, count in layers:
        counts[kind] += count
    return counts
