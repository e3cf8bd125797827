"""Weight bytes of one device under tensor, pipeline, expert and attention-data parallelism."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import TypeAlias, cast

import numpy as np

from gpufleet.architecture.parameters import latent_params, split_params
from gpufleet.architecture.sparse_attention import index_of, index_params
from gpufleet.domain.architecture import Architecture, Attention, Block, DenseMlp, LatentAttention, MixtureOfExperts
from gpufleet.domain.arrays import Floats, IntArray, Ints
from gpufleet.domain.layout import Layout
from gpufleet.domain.mixers import NoFeedForward
from gpufleet.domain.precision import MXFP4, WeightFormat
from gpufleet.memory.band import Band
from gpufleet.provenance import Grade, Term
from gpufleet.records import dataclass

SOURCE = "sharding rules of Megatron-LM (arXiv:1909.08053) as vLLM, SGLang and TensorRT-LLM apply them"


@dataclass(frozen=True)
class ElementBytes:
    """Bytes per weight of each part of a model, scales included; scalars or one element per candidate."""

    base: Floats
    attention: Floats
    mlp: Floats
    experts: Floats
    head: Floats

    @classmethod
    def of(cls, weights: WeightFormat) -> ElementBytes:
        """The element sizes of one checkpoint format."""
        return cls(**{f.name: getattr(weights, f.name).bytes_per_element for f in fields(cls)})

    @classmethod
    def gather(cls, formats: Sequence[WeightFormat], index: IntArray) -> ElementBytes:
        """The element sizes of many candidates, each naming its format by position."""
        parts = {f.name: [getattr(w, f.name).bytes_per_element for w in formats] for f in fields(cls)}
        return cls(**{name: np.array(sizes)[index] for name, sizes in parts.items()})


AnyFormat: TypeAlias = WeightFormat | ElementBytes


def _sizes(weights: AnyFormat) -> ElementBytes:
    return ElementBytes.of(weights) if isinstance(weights, WeightFormat) else weights


def shard(size: int, parts: Ints) -> Floats:
    """Elements of the largest of `parts` near-equal pieces: what the fullest rank holds.

    ceil(size / parts). One KV head over many ranks is one per rank: replication needs no rule of its own.
    Floating point, so that a model of absurd size does not overflow 64-bit integers.

    >>> shard(8, 16), shard(10, 4)
    (1.0, 3.0)
    """
    return cast(Floats, -(-float(size) // parts))


def attention_matrix_params(mixer: Attention, hidden_size: int, tp: Ints) -> Floats:
    """Projection weights of one attention layer on one rank.

    h (d + d_v) ceil(heads / tp) + h (d + d_v) ceil(kv_heads / tp): Q and O, then K and V, whose heads are copied once
    TP exceeds them; a gate on the output is cut like Q.   [weights]

    >>> attention_matrix_params(Attention(64, 8, 128), 8192, 16)
    10485760.0
    """
    per_head = hidden_size * (mixer.head_dim + mixer.value_dim)
    per_kv_head = hidden_size * mixer.head_dim if mixer.keys_are_values else per_head
    gate = hidden_size * shard(mixer.gate_width, tp)
    return per_head * shard(mixer.num_heads, tp) + per_kv_head * shard(mixer.num_kv_heads, tp) + gate


def latent_attention_matrix_params(mixer: LatentAttention, hidden_size: int, tp: Ints) -> Floats:
    """Projection weights of one MLA layer on one rank: down-projections are copied, the rest is cut by heads.

    h (r_q + r_kv + d_rope) + ceil(heads / tp) (r_q (d_nope + d_rope) + r_kv (d_nope + d_v) + d_v h)   [weights]
    Without a query latent (DeepSeek-V2-Lite) the query projection is h (d_nope + d_rope) per head.

    >>> latent_attention_matrix_params(LatentAttention(128, 1536, 512, 128, 64, 128), 7168, 1)
    187105280.0
    """
    query_rank = hidden_size if mixer.q_lora_rank is None else mixer.q_lora_rank
    copied_query = 0 if mixer.q_lora_rank is None else mixer.q_lora_rank
    copied = hidden_size * (copied_query + mixer.kv_lora_rank + mixer.qk_rope_head_dim)
    per_head = (
        query_rank * (mixer.qk_nope_head_dim + mixer.qk_rope_head_dim)
        + mixer.kv_lora_rank * (mixer.qk_nope_head_dim + mixer.v_head_dim)
        + mixer.v_head_dim * hidden_size
    )
    return copied + per_head * shard(mixer.num_heads, tp) + hidden_size * shard(mixer.gate_width, tp)


def mlp_matrix_params(width: int, gated: bool, hidden_size: int, parts: Ints) -> Floats:
    """Weights of one feed-forward part on one rank: (2 or 3) h ceil(width / parts).   [weights]

    >>> mlp_matrix_params(28672, True, 8192, 4)
    176160768.0
    """
    return (2 + gated) * hidden_size * shard(width, parts)


def expert_matrix_params(moe: MixtureOfExperts, hidden_size: int, ep: Ints, moe_tp: Ints) -> Floats:
    """Weights of routed experts on one rank: ceil(experts / ep) experts, each cut in `moe_tp`.   [weights]

    >>> expert_matrix_params(MixtureOfExperts(256, 8, 2048, True), 7168, 8, 1)
    1409286144.0
    """
    width = moe.latent_width or hidden_size
    return shard(moe.num_experts, ep) * mlp_matrix_params(moe.expert_width, moe.gated, width, moe_tp)


@dataclass(frozen=True)
class LayerBytes:
    """Bytes of one layer on one rank, by part."""

    attention: Floats
    mlp: Floats
    experts: Floats
    vectors: Floats

    @property
    def total(self) -> Floats:
        """All parts."""
        return self.attention + self.mlp + self.experts + self.vectors


def layer_bytes(
    block: Block, hidden_size: int, weights: AnyFormat, tp: Ints, ep: Ints, attention_dp: Ints
) -> LayerBytes:
    """Bytes of one layer of `block` on one rank; norms, biases, sinks and the router are copied on every rank."""
    sizes = _sizes(weights)
    vectors = block.vector_params + block.mixer.vector_params + block.feed_forward.vector_params
    mlp: Floats = 0.0
    experts: Floats = 0.0
    if isinstance(block.feed_forward, DenseMlp):
        mlp = mlp_matrix_params(block.feed_forward.width, block.feed_forward.gated, hidden_size, tp)
    elif not isinstance(block.feed_forward, NoFeedForward):
        moe = block.feed_forward
        vectors += hidden_size * moe.num_experts
        mlp = mlp_matrix_params(moe.shared_width, moe.gated, hidden_size, tp) + latent_params(moe, hidden_size)
        experts = sizes.experts * expert_matrix_params(moe, hidden_size, ep, tp * attention_dp // ep)
        experts = experts + sizes.base * shard(moe.num_experts, ep) * moe.expert_vector_params
    attention = sizes.attention * _mixer_params(block, hidden_size, tp)
    return LayerBytes(attention, sizes.mlp * mlp, experts, sizes.base * vectors)


def _mixer_params(block: Block, hidden_size: int, tp: Ints) -> Floats:
    """Weights of one layer's token mixer on one rank; its index is copied on every rank."""
    mixer = block.mixer
    index = index_of(mixer)
    copied = index_params(index, hidden_size) if index else 0
    if isinstance(mixer, Attention):
        return copied + attention_matrix_params(mixer, hidden_size, tp)
    if isinstance(mixer, LatentAttention):
        return copied + latent_attention_matrix_params(mixer, hidden_size, tp)
    split = split_params(mixer, hidden_size)
    return copied + split.copied + shard(split.sharded, tp)


def stage_share(arch: Architecture, per_layer: Sequence[Floats], pp: Ints) -> Floats:
    """Sum over the layers of the fullest pipeline stage, given one amount per block's layer.

    ceil(layers / pp) times the mean layer. Kinds alternate through the depth, except one rarer than one layer in
    eight, which is a prologue (the dense first layers of DeepSeek): the mean of the other kinds then counts.
    """
    counts = [block.count for block in arch.blocks]
    total = sum((n * amount for n, amount in zip(counts, per_layer, strict=True)), 0.0)
    body = [i for i, n in enumerate(counts) if 8 * n >= arch.num_layers]
    body_mean = sum((counts[i] * per_layer[i] for i in body), 0.0) / sum(counts[i] for i in body) if body else 0.0
    mean = np.maximum(total / arch.num_layers, body_mean)
    return cast(Floats, np.minimum(total, shard(arch.num_layers, pp) * mean))


def vocabulary_matrix_params(arch: Architecture, tp: Ints) -> Floats:
    """Weights of the token embedding, and as many of an output head of its own, on one rank.   [weights]"""
    return (arch.embedding_width or arch.hidden_size) * shard(arch.vocab_size, tp)


def embedding_bytes(arch: Architecture, weights: AnyFormat, tp: Ints) -> Floats:
    """The token embedding cut over the vocabulary, with learned positions and its norm copied.   [bytes]

    A vision tower lies beside it, cut over the ranks.
    """
    params = vocabulary_matrix_params(arch, tp) + arch.embedding_params
    if arch.vision:
        params = params + shard(arch.vision.params, tp)
    return _sizes(weights).base * params


def head_bytes(arch: Architecture, weights: AnyFormat, tp: Ints) -> Floats:
    """The output head cut over the vocabulary, with the final norm; a tied head is counted by `end_bytes`.   [bytes]"""
    sizes = _sizes(weights)
    element = sizes.base if arch.tied_embeddings else sizes.head
    return element * vocabulary_matrix_params(arch, tp) + sizes.base * arch.vector_params


def end_bytes(arch: Architecture, weights: AnyFormat, tp: Ints, pp: Ints) -> Floats:
    """Embedding and head of the fullest stage: both (one matrix where tied) without PP, else the larger.   [bytes]"""
    embedding, head = embedding_bytes(arch, weights, tp), head_bytes(arch, weights, tp)
    sizes = _sizes(weights)
    shared = sizes.base * vocabulary_matrix_params(arch, tp) if arch.tied_embeddings else 0.0
    return cast(Floats, np.where(np.asarray(pp) > 1, np.maximum(embedding, head), embedding + head - shared)[()])


def weights_bytes_per_device(
    arch: Architecture,
    weights: AnyFormat,
    tp: Ints = 1,
    pp: Ints = 1,
    ep: Ints = 1,
    attention_dp: Ints = 1,
) -> Floats:
    """Weight bytes of the fullest device of a replica.

    layers of the fullest stage x (attention / tp + dense MLP / tp + experts / (tp attention_dp) + copied vectors)
    + embedding and head / tp   [bytes]
    Source: Megatron-LM sharding (arXiv:1909.08053) as engines apply it; checked against loading logs of vLLM.

    >>> from gpufleet.domain.precision import BF16
    >>> layer = Block(32, Attention(32, 8, 128), DenseMlp(14336, True), 2 * 4096)
    >>> llama = Architecture("llama-3-8b", "llama", 4096, 128256, (layer,), False, 8192, vector_params=4096)
    >>> round(float(weights_bytes_per_device(llama, WeightFormat.uniform(BF16))) / 2**30, 2)
    14.96
    """
    layers = [layer_bytes(block, arch.hidden_size, weights, tp, ep, attention_dp).total for block in arch.blocks]
    return stage_share(arch, layers, pp) + end_bytes(arch, weights, tp, pp)


def padding_bytes_per_device(
    arch: Architecture,
    weights: AnyFormat,
    alignment: Floats,
    tp: Ints = 1,
    pp: Ints = 1,
    ep: Ints = 1,
    attention_dp: Ints = 1,
) -> Band:
    """What MXFP4 kernels add to the experts of the fullest device: rows of the hidden size in whole tiles.

    expert bytes x (ceil(h / alignment) alignment / h - 1); high: expert widths in tiles of half that too   [bytes]
    Source: gpt-oss loads 13.47 and 64.4 GiB in vLLM on an H100 where the checkpoints have 12.8 and 60.8 (h = 2,880
    to 3,072), and 66.0 with Marlin kernels, which pad both sides.
    """
    is_padded = np.asarray(_sizes(weights).experts) == MXFP4.bytes_per_element
    rows = np.ceil(arch.hidden_size / np.asarray(alignment)) * alignment / arch.hidden_size
    one_side: list[Floats] = []
    both_sides: list[Floats] = []
    for block in arch.blocks:
        experts = layer_bytes(block, arch.hidden_size, weights, tp, ep, attention_dp).experts
        columns = _tiled(block, np.asarray(alignment) / 2, tp * attention_dp // ep)
        one_side.append(np.where(is_padded, rows - 1.0, 0.0) * experts)
        both_sides.append(np.where(is_padded, rows * columns - 1.0, 0.0) * experts)
    expected = stage_share(arch, one_side, pp)
    return Band(expected, expected, np.maximum(expected, stage_share(arch, both_sides, pp)))


def _tiled(block: Block, alignment: Floats, moe_tp: Ints) -> Floats:
    if not isinstance(block.feed_forward, MixtureOfExperts):
        return 1.0
    width = shard(block.feed_forward.expert_width, moe_tp)
    return cast(Floats, (np.ceil(width / alignment) * alignment / width)[()])


def weights_terms(arch: Architecture, weights: WeightFormat, layout: Layout) -> list[Term]:
    """The parts of `weights_bytes_per_device` for one layout, as `--explain` shows them."""
    tp, pp = layout.tp, layout.pp
    layers = [layer_bytes(b, arch.hidden_size, weights, tp, layout.ep, layout.attention_dp) for b in arch.blocks]
    of_all_layers = float(sum(b.count * layer.total for b, layer in zip(arch.blocks, layers, strict=True)))
    of_stage = float(stage_share(arch, [layer.total for layer in layers], pp)) / of_all_layers
    parts = {
        part: of_stage
        * sum(b.count * float(getattr(layer, part)) for b, layer in zip(arch.blocks, layers, strict=True))
        for part in _FORMULAS
    }
    inputs = f"vocabulary {arch.vocab_size}, hidden {arch.hidden_size}, tied {arch.tied_embeddings}, {layout.label}"
    ends = float(end_bytes(arch, weights, tp, pp))
    head = Term("embedding and head", ends, "bytes", "h x ceil(vocabulary / tp) x bytes", inputs, SOURCE)
    return [*(_part_term(part, amount, weights, layout) for part, amount in parts.items() if amount > 0), head]


_FORMULAS = {
    "attention": "layers x 2 h d (ceil(heads/tp) + ceil(kv_heads/tp)) x bytes (MLA: latents copied)",
    "mlp": "layers x (2 or 3) h ceil(width/tp) x bytes, shared experts included",
    "experts": "layers x ceil(experts/ep) x (2 or 3) h ceil(width/moe_tp) x bytes",
    "vectors": "layers x (norms + biases + router) x bytes, copied on every rank",
}


def _part_term(part: str, amount: float, weights: WeightFormat, layout: Layout) -> Term:
    precision = {"attention": weights.attention, "mlp": weights.mlp, "experts": weights.experts}.get(part, weights.base)
    inputs = f"{precision.name} at {precision.bytes_per_element:.4g} B, {layout.label}"
    return Term(f"{part} weights", amount, "bytes", _FORMULAS[part], inputs, SOURCE, Grade.MEASURED)


def weights_read_bytes_per_device(
    arch: Architecture, weights: AnyFormat, layout: Layout, batch_per_group: float = 1.0
) -> float:
    """Weight bytes that one decode step must read on the fullest device of a stage: all but embedding and idle experts.

    Experts that serve any of B tokens, when routing is even: E (1 - (1 - k/E)^B).   [bytes]
    """
    tokens = batch_per_group * layout.attention_dp
    per_layer = []
    for block in arch.blocks:
        layer = layer_bytes(block, arch.hidden_size, weights, layout.tp, layout.ep, layout.attention_dp)
        idle = layer.experts * (1.0 - active_expert_share(block, tokens))
        per_layer.append(layer.total - idle)
    return float(stage_share(arch, per_layer, layout.pp) + head_bytes(arch, weights, layout.tp))


def active_expert_share(block: Block, tokens: float) -> float:
    """Share of a layer's routed experts that serve at least one of `tokens`, when routing is even; 1 where dense.

    >>> moe = Block(58, Attention(1, 1, 1), MixtureOfExperts(256, 8, 2048, True))
    >>> active_expert_share(moe, 1.0)
    0.03125
    """
    part = block.feed_forward
    if not isinstance(part, MixtureOfExperts):
        return 1.0
    idle_share: float = (1.0 - part.top_k / part.num_experts) ** tokens
    return 1.0 - idle_share
