"""Weight bytes of one device under tensor, pipeline, expert and attention-data parallelism."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import TypeAlias, cast

import numpy as np

from gpufleet.architecture.parameters import embedding_params, head_params, layer_params
from gpufleet.architecture.sharding import shard
from gpufleet.domain.architecture import Architecture, Block, MixtureOfExperts
from gpufleet.domain.arrays import Floats, IntArray, Ints
from gpufleet.domain.layout import Layout
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
    held = layer_params(block, hidden_size, tp, ep, tp * attention_dp // ep)
    return LayerBytes(
        attention=sizes.attention * held.attention,
        mlp=sizes.mlp * (held.dense_mlp + held.shared_experts + held.expert_latents),
        experts=sizes.experts * held.routed_experts + sizes.base * held.expert_vectors,
        vectors=sizes.base * (held.vectors + held.router),
    )


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


def embedding_bytes(arch: Architecture, weights: AnyFormat, tp: Ints) -> Floats:
    """The token embedding cut over the vocabulary, with learned positions and its norm copied.   [bytes]

    A vision tower lies beside it, cut over the ranks.
    """
    params = embedding_params(arch, tp)
    if arch.vision:
        params = params + shard(arch.vision.params, tp)
    return _sizes(weights).base * params


def head_bytes(arch: Architecture, weights: AnyFormat, tp: Ints) -> Floats:
    """The output head cut over the vocabulary, with the final norm; a tied head is counted by `end_bytes`.   [bytes]"""
    sizes = _sizes(weights)
    element = sizes.base if arch.tied_embeddings else sizes.head
    return element * head_params(arch, tp) + sizes.base * arch.vector_params


def end_bytes(arch: Architecture, weights: AnyFormat, tp: Ints, pp: Ints) -> Floats:
    """Embedding and head of the fullest stage: both (one matrix where tied) without PP, else the larger.   [bytes]"""
    embedding, head = embedding_bytes(arch, weights, tp), head_bytes(arch, weights, tp)
    sizes = _sizes(weights)
    shared = sizes.base * head_params(arch, tp) if arch.tied_embeddings else 0.0
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
    >>> from gpufleet.domain.architecture import Attention, DenseMlp
    >>> layer = Block(32, Attention(32, 8, 128), DenseMlp(14336, True), 2 * 4096)
    >>> llama = Architecture("llama-3-8b", "llama", 4096, 128256, (layer,), False, 8192, vector_params=4096)
    >>> round(float(weights_bytes_per_device(llama, WeightFormat.uniform(BF16))) / 2**30, 2)
    14.96
    """
    layers = [layer_bytes(block, arch.hidden_size, weights, tp, ep, attention_dp).total for block in arch.blocks]
    return stage_share(arch, layers, pp) + end_bytes(arch, weights, tp, pp)


def offloaded_bytes_per_device(
    arch: Architecture,
    weights: AnyFormat,
    asked_bytes: Floats,
    tp: Ints = 1,
    pp: Ints = 1,
    ep: Ints = 1,
    attention_dp: Ints = 1,
) -> Floats:
    """Weights of the fullest device that lie in host memory: as many as asked, of layers alone.

    min(asked, layers of the fullest stage)   [bytes]; embedding and head stay
    Source: vLLM, make_layers in model_executor/models/utils.py and model_executor/offloader/uva.py.
    """
    layers = [layer_bytes(block, arch.hidden_size, weights, tp, ep, attention_dp).total for block in arch.blocks]
    return cast(Floats, np.minimum(asked_bytes, stage_share(arch, layers, pp))[()])


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

    >>> from gpufleet.domain.architecture import Attention
    >>> moe = Block(58, Attention(1, 1, 1), MixtureOfExperts(256, 8, 2048, True))
    >>> active_expert_share(moe, 1.0)
    0.03125
    """
    part = block.feed_forward
    if not isinstance(part, MixtureOfExperts):
        return 1.0
    idle_share: float = (1.0 - part.top_k / part.num_experts) ** tokens
    return 1.0 - idle_share
