"""What one device computes for a micro-batch in training: products, attention and what streams through memory.

Nothing here rests on a fitted constant of training: products come from the measured curves, the rest is counted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np

from gpufleet.architecture.flops import prompt_score_flop
from gpufleet.architecture.linears import Linear, linears
from gpufleet.architecture.sharding import shard
from gpufleet.domain.architecture import Architecture, Block, Mixer, MixtureOfExperts
from gpufleet.domain.arrays import BoolArray, FloatArray, Floats, IntArray
from gpufleet.domain.calibration import Calibration, GemmCurves, StreamFormula
from gpufleet.domain.mixers import GatedDeltaNet, StateSpace
from gpufleet.domain.training import Recipe, TrainingLayouts, TrainingMachine
from gpufleet.performance.elementwise import elementwise_s
from gpufleet.performance.gemm import gemm_s, quantised_bytes
from gpufleet.records import dataclass

WIDE = {"fp8": "bf16", "nvfp4": "bf16"}
"""Arithmetic of 16 bits that runs what a narrower one would not make faster."""
ELEMENT_BYTES = 2.0


@dataclass(frozen=True)
class Product:
    """A product of a layer: [tokens, inputs] x [inputs, outputs], `count` of them in the whole model.

    `part` is that of its weights.
    """

    part: str
    outputs: Floats
    inputs: Floats
    tokens: Floats
    count: Floats
    is_closing: bool = False


@dataclass(frozen=True, eq=False)
class Passes:
    """Seconds of forward, input-gradient and weight-gradient products: each [arithmetic, product, layout]."""

    forward: FloatArray
    of_inputs: FloatArray
    of_weights: FloatArray


@dataclass(frozen=True, eq=False)
class Shards:
    """The distinct parts of a model that devices work on: layouts that differ in these alone share their kernels."""

    device: IntArray
    tp: IntArray
    cp: IntArray
    ep: IntArray
    micro_batch: IntArray
    place: IntArray

    @classmethod
    def of(cls, layouts: TrainingLayouts) -> Shards:
        """The distinct shards of many layouts, and which one each layout has."""
        names = ("device", "tp", "cp", "ep", "micro_batch")
        columns = [getattr(layouts, name) for name in names]
        spans = [int(column.max(initial=0)) + 1 for column in columns]
        key = np.zeros(len(layouts), dtype=np.int64)
        for column, span in zip(columns, spans, strict=True):
            key = key * span + column
        _, first, place = np.unique(key, return_index=True, return_inverse=True)
        return cls(**{n: c[first] for n, c in zip(names, columns, strict=True)}, place=place.reshape(-1))

    def __len__(self) -> int:
        return len(self.tp)


@dataclass(frozen=True, eq=False)
class Kernels:
    """What each shard computes for a micro-batch of the whole model, its head apart.

    `products` and `head` in seconds, `closing` marks the last product of each layer; `attention_flop` of a forward
    pass; `hidden_elements` and `mlp_elements` that element-wise kernels of all layers touch, `logits`,
    `dispatched_elements` that tokens bring to experts, `recurrent_elements` that pass through states instead of
    attention, and `biased_elements` inside experts with biases.
    """

    products: Passes
    head: Passes
    closing: BoolArray
    attention_flop: FloatArray
    score_elements: FloatArray
    hidden_elements: FloatArray
    mlp_elements: FloatArray
    logits: FloatArray
    dispatched_elements: FloatArray
    adapted_elements: FloatArray
    recurrent_elements: FloatArray
    biased_elements: FloatArray


@dataclass(frozen=True, eq=False)
class KernelModel:
    """A model on machines under a recipe: what all layouts share."""

    arch: Architecture
    recipe: Recipe
    machines: Sequence[TrainingMachine]
    calibration: Calibration

    @cached_property
    def accelerator(self) -> IntArray:
        """The position of each machine's GPU in the calibration."""
        return np.array([self.calibration.accelerators.index(m.accelerator.name) for m in self.machines])

    def curves(self, device: IntArray, arithmetic: str) -> GemmCurves:
        """Measured products of each shard's device."""
        return self.calibration.gemm(self.accelerator[device], [arithmetic], np.zeros(len(device), dtype=np.int64))

    def kernels(self, shards: Shards) -> Kernels:
        """What each shard computes."""
        tokens = shards.micro_batch * self.recipe.sequence_tokens / shards.cp
        products = list(model_products(self.arch, shards, tokens))
        wide, narrow = self._arithmetics()
        head = Product("head", shard(self.arch.vocab_size, shards.tp), self.arch.hidden_size, tokens, 1)
        ranks = shards.tp
        return Kernels(
            products=self._passes(shards, products, narrow),
            head=self._passes(shards, [head], (wide,)),
            closing=np.array([each.is_closing for each in products]),
            attention_flop=self._attention_flop() * shards.micro_batch / shards.cp / ranks,
            score_elements=self._score_elements() * shards.micro_batch / shards.cp / ranks,
            hidden_elements=tokens * self.arch.hidden_size * self.arch.num_layers,
            mlp_elements=tokens / ranks * self._mlp_width(),
            logits=tokens * shard(self.arch.vocab_size, shards.tp),
            dispatched_elements=tokens / ranks * self._dispatched_width(),
            adapted_elements=tokens * self._adapted_width() / ranks,
            recurrent_elements=tokens * self._recurrent_width() / ranks,
            biased_elements=tokens * self._biased_width() / ranks,
        )

    def _arithmetics(self) -> tuple[str, tuple[str, ...]]:
        arithmetic = self.recipe.formats.arithmetic
        wide = WIDE.get(arithmetic, arithmetic)
        return wide, (arithmetic,) if wide == arithmetic else (wide, arithmetic)

    def _passes(self, shards: Shards, products: Sequence[Product], arithmetics: Sequence[str]) -> Passes:
        found: dict[str, list[list[FloatArray]]] = defaultdict(list)
        streams = self.calibration.formulas.streams
        for arithmetic in arithmetics:
            curves = self.curves(shards.device, arithmetic)
            timed = [_timed(curves, streams, each) for each in products]
            for i, name in enumerate(("forward", "of_inputs", "of_weights")):
                found[name].append([seconds[i] for seconds in timed])
        return Passes(**{name: np.array(each, dtype=np.float64) for name, each in found.items()})

    def _attention_flop(self) -> float:
        tokens = self.recipe.sequence_tokens
        return float(sum(b.count * prompt_score_flop(b.mixer, tokens) for b in self.arch.blocks))

    def _score_elements(self) -> float:
        return float(sum(b.count * b.mixer.num_heads for b in self.arch.blocks)) * self.recipe.sequence_tokens**2

    def _mlp_width(self) -> float:
        return sum(
            block.count * each.outputs * each.active
            for block in self.arch.blocks
            for each in linears(block, self.arch.hidden_size)
            if each.name in ("gate", "up")
        )

    def _dispatched_width(self) -> float:
        return sum(
            block.count * each.outputs * each.active
            for block in self.arch.blocks
            for each in linears(block, self.arch.hidden_size)
            if each.part == "experts" and each.name == "down"
        )

    def _recurrent_width(self) -> float:
        return float(sum(b.count * recurrent_width(b.mixer) for b in self.arch.blocks))

    def _biased_width(self) -> float:
        parts = [(b.count, b.feed_forward) for b in self.arch.blocks if isinstance(b.feed_forward, MixtureOfExperts)]
        return float(sum(n * e.top_k * e.expert_width * (1 + e.gated) for n, e in parts if e.expert_vector_params))

    def _adapted_width(self) -> float:
        modules = self.recipe.adapter.modules if self.recipe.adapter else ()
        return sum(
            block.count * (each.outputs + each.inputs) * each.active
            for block in self.arch.blocks
            for each in linears(block, self.arch.hidden_size)
            if each.name in modules
        )


def recurrent_width(mixer: Mixer) -> int:
    """Elements of a token that pass through the states of a recurrent layer; 0 of attention."""
    if isinstance(mixer, StateSpace):
        return mixer.inner_width
    return mixer.num_value_heads * mixer.value_head_dim if isinstance(mixer, GatedDeltaNet) else 0


def _timed(curves: GemmCurves, streams: StreamFormula, p: Product) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Forward [m, k, n], gradient of the inputs [m, n, k], gradient of the weights [n, m, k]."""
    m, n, k = p.tokens, p.outputs, p.inputs
    return (
        p.count * _quantised_s(curves, streams, m, n, k),
        p.count * _quantised_s(curves, streams, m, k, n),
        p.count * _quantised_s(curves, streams, n, k, m),
    )


def _quantised_s(curves: GemmCurves, streams: StreamFormula, m: Floats, n: Floats, k: Floats) -> FloatArray:
    """A product and, before it, the kernel that quantises its left operand."""
    moved_bytes = m * quantised_bytes(curves, k)
    quantising_s = elementwise_s(streams, curves.bandwidth_bytes_per_s, moved_bytes)
    return gemm_s(curves, m, n, k) + np.where(moved_bytes > 0, quantising_s, 0.0)


def model_products(arch: Architecture, shards: Shards, tokens: FloatArray) -> Iterator[Product]:
    """The products of all layers on one device; those of the same inputs are one, as kernels fuse them."""
    for block in arch.blocks:
        yield from block_products(block, arch.hidden_size, shards, tokens)


def block_products(block: Block, hidden_size: int, shards: Shards, tokens: FloatArray) -> Iterator[Product]:
    """The products of one kind of layer: its count is in them."""
    groups: dict[tuple[str, int, str], list[Linear]] = defaultdict(list)
    for each in linears(block, hidden_size):
        groups[each.part, each.inputs, each.cut].append(each)
    for (part, inputs, cut), fused in groups.items():
        outputs = sum(each.outputs for each in fused)
        if part == "experts":
            held = shard(fused[0].copies, shards.ep)
            routed = tokens / shards.tp * fused[0].active / held
            yield Product(part, outputs, inputs, routed, block.count * held, cut == "inputs")
            continue
        cut_outputs = shard(outputs, shards.tp) if cut == "outputs" else outputs
        cut_inputs = shard(inputs, shards.tp) if cut == "inputs" else inputs
        yield Product(part, cut_outputs, cut_inputs, tokens, block.count, cut == "inputs" and part != "attention")
