"""Bytes of weights, gradients, optimizer states and adapters on one device, for many layouts at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from gpufleet.architecture.linears import Linear, linears
from gpufleet.architecture.parameters import LayerParams, embedding_params, head_params, layer_params
from gpufleet.architecture.sharding import shard
from gpufleet.domain.architecture import Architecture, Block
from gpufleet.domain.arrays import BoolArray, FloatArray, Floats, Ints
from gpufleet.domain.precision import FP32
from gpufleet.domain.training import Recipe, Sharding, TrainingLayouts
from gpufleet.domain.training_constants import TrainingMemoryConstants
from gpufleet.memory.weights import ElementBytes, stage_share
from gpufleet.records import dataclass


@dataclass(frozen=True, eq=False)
class RankAmounts:
    """An amount (weights, or bytes) of the fullest rank, by how its copies lie.

    `dense` of the stage's layers and `ends` (embedding, head) have a copy on each rank of DP and CP, `experts` on every
    rank of a stage that does not hold other ones.
    """

    dense: Floats
    experts: Floats
    ends: Floats

    @property
    def total(self) -> Floats:
        """All together, unsharded."""
        return self.dense + self.experts + self.ends

    @property
    def layers(self) -> Floats:
        """Those of the layers: what tables of Megatron count, which leave the embedding out."""
        return self.dense + self.experts

    def times(self, factor: Floats) -> RankAmounts:
        """Each multiplied."""
        return RankAmounts(self.dense * factor, self.experts * factor, self.ends * factor)

    def plus(self, other: RankAmounts) -> RankAmounts:
        """Both, part by part."""
        return RankAmounts(self.dense + other.dense, self.experts + other.experts, self.ends + other.ends)

    def sharded(self, layouts: TrainingLayouts, is_sharded: BoolArray) -> RankAmounts:
        """One rank's share where sharded, else all of it."""
        dense_ranks = np.where(is_sharded, layouts.shard_ranks(), 1)
        expert_ranks = np.where(is_sharded, expert_shard_ranks(layouts), 1)
        return RankAmounts(self.dense / dense_ranks, self.experts / expert_ranks, self.ends / dense_ranks)


ONE_OF_EACH = ElementBytes(1.0, 1.0, 1.0, 1.0, 1.0)


def expert_tp(layouts: TrainingLayouts) -> FloatArray:
    """Ranks that one expert is cut over: those of TP where experts are not spread, else none.

    Megatron-Core with expert-tensor-parallel size 1, DeepSeek-V3.
    """
    return np.where(layouts.ep > 1, 1, layouts.tp).astype(np.float64)


def expert_shard_ranks(layouts: TrainingLayouts) -> FloatArray:
    """Ranks of a stage with the same experts, over which ZeRO spreads what belongs to them.

    tp cp dp / (ep x ranks that cut one expert); of one machine where sharding is hybrid   [ranks]
    Source: Megatron-Core, expert data parallelism (core/parallel_state.py).
    """
    share = layouts.ep * expert_tp(layouts)
    whole = np.maximum(layouts.tp * layouts.cp * layouts.dp / share, 1.0)
    of_node = np.maximum(np.minimum(whole, layouts.ranks_per_node // np.minimum(share, layouts.ranks_per_node)), 1.0)
    return np.where(layouts.sharding == Sharding.HYBRID, of_node, whole)


def shards_optimizer(layouts: TrainingLayouts) -> BoolArray:
    """Whether ranks keep a share of optimizer states and master weights (ZeRO-1 and up)."""
    return np.asarray(layouts.sharding >= Sharding.ZERO_1)


def shards_gradients(layouts: TrainingLayouts) -> BoolArray:
    """Whether ranks keep a share of the gradients (ZeRO-2 and up)."""
    return np.asarray(layouts.sharding >= Sharding.ZERO_2)


def shards_weights(layouts: TrainingLayouts) -> BoolArray:
    """Whether ranks keep a share of the weights (ZeRO-3, FSDP, HSDP)."""
    return np.asarray(layouts.sharding >= Sharding.ZERO_3)


def of_block(block: Block, hidden: int, sizes: ElementBytes, layouts: TrainingLayouts) -> RankAmounts:
    """What a rank holds of one layer, each part times its size."""
    held = _layer(block, hidden, layouts)
    dense = (
        sizes.attention * held.attention
        + sizes.mlp * (held.dense_mlp + held.shared_experts + held.expert_latents)
        + sizes.base * (held.vectors + held.router)
    )
    return RankAmounts(dense, sizes.experts * held.routed_experts + sizes.base * held.expert_vectors, 0.0)


def _layer(block: Block, hidden: int, layouts: TrainingLayouts) -> LayerParams:
    tp, ep = _exact(layouts.tp), _exact(layouts.ep)
    return layer_params(block, hidden, tp, ep, cast(Ints, expert_tp(layouts)))


def _exact(parts: Ints) -> Ints:
    return cast(Ints, np.asarray(parts, dtype=np.float64))


def held_by_rank(arch: Architecture, sizes: ElementBytes, layouts: TrainingLayouts) -> RankAmounts:
    """Amounts of the fullest stage: ceil(layers / pp) layers, and the larger end of the model; both without PP.

    Tied weights lie on the first and the last stage once each, and once altogether without PP.
    Source: Megatron-LM (arXiv:1909.08053, arXiv:2104.04473); interleaving does not change how many layers a rank has.
    """
    blocks = [of_block(block, arch.hidden_size, sizes, layouts) for block in arch.blocks]
    return RankAmounts(
        dense=_stage(arch, [each.dense for each in blocks], layouts),
        experts=_stage(arch, [each.experts for each in blocks], layouts),
        ends=_ends(arch, sizes, layouts),
    )


def _stage(arch: Architecture, per_layer: Sequence[Floats], layouts: TrainingLayouts) -> Floats:
    return stage_share(arch, per_layer, _exact(layouts.pp))


def _ends(arch: Architecture, sizes: ElementBytes, layouts: TrainingLayouts) -> Floats:
    """Embedding and head of the fullest stage."""
    tp = _exact(layouts.tp)
    matrix = head_params(arch, tp)
    embedding = sizes.base * embedding_params(arch, tp)
    if arch.vision:
        embedding = embedding + sizes.base * shard(arch.vision.params, tp)
    head = (sizes.base if arch.tied_embeddings else sizes.head) * matrix + sizes.base * arch.vector_params
    shared = sizes.base * matrix if arch.tied_embeddings else 0.0
    return cast(Floats, np.where(layouts.pp > 1, np.maximum(embedding, head), embedding + head - shared))


def trained_bytes_per_parameter(recipe: Recipe) -> tuple[float, float, float]:
    """Bytes of master weights, gradient and optimizer states of one trained weight.

    States are fp32, or as wide as the weight where they follow it (pure bf16 AdamW: 4 of its 8 bytes).
    """
    formats, optimizer = recipe.formats, recipe.optimizer
    narrow = formats.weight_bytes / FP32.bytes_per_element if optimizer.follows_weights else 1.0
    return formats.master_bytes, formats.gradient_bytes, optimizer.state_bytes * narrow


def adapters_of_rank(arch: Architecture, recipe: Recipe, layouts: TrainingLayouts) -> RankAmounts:
    """Adapter weights of the fullest rank.

    rank (n + k) of an adapted weight [n, k]; of a cut weight the side that is cut is cut too   [weights]
    Source: Hu et al. 2021, arXiv:2106.09685.
    """
    nothing = RankAmounts(np.zeros(len(layouts)), np.zeros(len(layouts)), 0.0)
    if recipe.adapter is None:
        return nothing
    dense: list[Floats] = []
    experts: list[Floats] = []
    for block in arch.blocks:
        adapted = [each for each in linears(block, arch.hidden_size) if each.name in recipe.adapter.modules]
        dense.append(sum((_adapter(each, recipe, layouts) for each in adapted if each.part != "experts"), 0.0))
        experts.append(sum((_adapter(each, recipe, layouts) for each in adapted if each.part == "experts"), 0.0))
    return nothing.plus(RankAmounts(_stage(arch, dense, layouts), _stage(arch, experts, layouts), 0.0))


def _adapter(each: Linear, recipe: Recipe, layouts: TrainingLayouts) -> Floats:
    assert recipe.adapter is not None
    is_expert = each.part == "experts"
    parts = expert_tp(layouts) if is_expert else _exact(layouts.tp)
    outputs = shard(each.outputs, cast(Ints, parts)) if each.cut == "outputs" else each.outputs
    inputs = shard(each.inputs, cast(Ints, parts)) if each.cut == "inputs" else each.inputs
    copies = shard(each.copies, _exact(layouts.ep)) if is_expert else each.copies
    return recipe.adapter.rank * (outputs + inputs) * copies


@dataclass(frozen=True, eq=False)
class ModelStates:
    """Bytes on the fullest device that do not depend on batch or sequence; what a flag offloads lies in `host`.

    `master` weights and `optimizer` states of what learns, `gradients` of the model; those of adapters are in
    `adapters`. `gathered`: blocks and ends that are whole while in use, with one block's gradients. `head_gradient`
    arises while all activations are still kept; with `frees_gradients` the others arise as activations go, and
    `last_gradients` are there at the end. `buffers` are the buckets of DDP, `step` copies that the optimizer makes of
    one matrix.
    """

    weights: FloatArray
    master: FloatArray
    gradients: FloatArray
    optimizer: FloatArray
    adapters: FloatArray
    gathered: FloatArray
    head_gradient: FloatArray
    last_gradients: FloatArray
    buffers: FloatArray
    step: FloatArray
    frees_gradients: BoolArray
    host: FloatArray

    @property
    def resident(self) -> FloatArray:
        """What lies there all the time."""
        return self.weights + self.master + self.optimizer + self.adapters


def model_states(
    arch: Architecture, recipe: Recipe, layouts: TrainingLayouts, constants: TrainingMemoryConstants
) -> ModelStates:
    """Weights, gradients and states of the fullest device of each layout.

    weights: parameters x bytes, / ranks under ZeRO-3; gradients / ranks from ZeRO-2 on, master weights and optimizer
    states from ZeRO-1 on   [bytes]   Source: Rajbhandari et al. 2020, arXiv:1910.02054, section 5.
    """
    params = held_by_rank(arch, ONE_OF_EACH, layouts)
    weights = _weights(arch, recipe, layouts, params).sharded(layouts, shards_weights(layouts)).total
    master, gradients, optimizer = _of_what_learns(recipe, layouts, params)
    adapters = _adapter_bytes(arch, recipe, layouts)
    weights, master, gradients, optimizer = (_full(each, layouts) for each in (weights, master, gradients, optimizer))
    head = _head_gradient(arch, recipe, layouts)
    away = np.asarray(shards_weights(layouts) & recipe.offloads_weights)
    states_away = away | recipe.optimizer.is_on_host
    host = np.where(away, weights + gradients, 0.0) + np.where(states_away, master + optimizer, 0.0)
    return ModelStates(
        weights=np.where(away, 0.0, weights),
        master=np.where(states_away, 0.0, master),
        gradients=np.where(away, 0.0, gradients),
        optimizer=np.where(states_away, 0.0, optimizer),
        adapters=_full(adapters, layouts),
        gathered=gathered_bytes(arch, recipe, layouts, constants.gathered_blocks.value),
        head_gradient=head,
        last_gradients=head if recipe.optimizer.in_backward else np.where(away, 0.0, gradients),
        buffers=np.where(has_buckets(recipe, layouts), gradients, 0.0),
        step=_step_bytes(arch, recipe, layouts, constants),
        frees_gradients=frees_gradients(recipe, layouts),
        host=host,
    )


def _full(amount: Floats, layouts: TrainingLayouts) -> FloatArray:
    return np.broadcast_to(np.asarray(amount, dtype=np.float64), (len(layouts),))


def _weights(arch: Architecture, recipe: Recipe, layouts: TrainingLayouts, params: RankAmounts) -> RankAmounts:
    if recipe.is_frozen_base:
        return held_by_rank(arch, ElementBytes.of(recipe.base), layouts)
    return params.times(recipe.formats.weight_bytes)


def _of_what_learns(recipe: Recipe, layouts: TrainingLayouts, params: RankAmounts) -> tuple[Floats, Floats, Floats]:
    """Master weights, gradients and states of the weights of the model."""
    if recipe.is_frozen_base:
        return 0.0, _flat_gradients(recipe, layouts, params), 0.0
    master, gradient, states = trained_bytes_per_parameter(recipe)
    shares_states = params.sharded(layouts, shards_optimizer(layouts)).total
    is_spread = shards_gradients(layouts) & ~keeps_whole_gradients(recipe, layouts)
    gradients = params.times(gradient).sharded(layouts, np.asarray(is_spread)).total
    if recipe.optimizer.in_backward:
        gradients = 0.0 * gradients
    return master * shares_states, gradients, states * shares_states


def keeps_whole_gradients(recipe: Recipe, layouts: TrainingLayouts) -> BoolArray:
    """Whether gradients of sharded weights stay whole while micro-batches accumulate without being reduced.

    Source: PyTorch, FullyShardedDataParallel.no_sync, as Lightning Fabric accumulates, and as pipelines do.
    """
    accumulates = shards_weights(layouts) & (layouts.num_micro_batches > 1)
    return np.asarray(accumulates & (recipe.flat_blocks | (layouts.pp > 1)))


def keeps_whole_weights(layouts: TrainingLayouts) -> BoolArray:
    """Whether sharded weights stay gathered for all micro-batches of a pipeline, not to be gathered for each.

    Source: torchtitan, reshard_after_forward of FSDP2 is off under pipeline parallelism.
    """
    return np.asarray(shards_weights(layouts) & (layouts.pp > 1) & (layouts.num_micro_batches > 1))


def _flat_gradients(recipe: Recipe, layouts: TrainingLayouts, params: RankAmounts) -> Floats:
    """Gradients that frozen weights get where they share a flat weight with adapters; the ends have no adapters.

    Whole while micro-batches accumulate, else one rank's share   [bytes]
    Source: PyTorch, use_orig_params of FullyShardedDataParallel; LoRA of 13B over 4 GPUs takes 35.6 GB in LitGPT.
    """
    layers = RankAmounts(params.dense, params.experts, 0.0).times(recipe.formats.gathered_bytes)
    is_flat = np.asarray(shards_weights(layouts) & recipe.flat_blocks)
    whole = keeps_whole_gradients(recipe, layouts)
    return np.where(is_flat, layers.sharded(layouts, ~whole).total, 0.0)


def _adapter_bytes(arch: Architecture, recipe: Recipe, layouts: TrainingLayouts) -> Floats:
    """Weights, gradients and states of adapters, each sharded as those of a model are."""
    held = adapters_of_rank(arch, recipe, layouts)
    master, gradient, states = trained_bytes_per_parameter(recipe)
    of_weights = held.times(recipe.formats.weight_bytes).sharded(layouts, shards_weights(layouts)).total
    of_gradients = held.times(gradient).sharded(layouts, shards_gradients(layouts)).total
    on_device = 0.0 if recipe.optimizer.is_on_host else master + states
    return of_weights + of_gradients + held.times(on_device).sharded(layouts, shards_optimizer(layouts)).total


def frees_gradients(recipe: Recipe, layouts: TrainingLayouts) -> BoolArray:
    """Whether gradients are only there from the backward pass to the optimizer's step, as activations are freed.

    Not where micro-batches accumulate, nor where gradients wider than the weights have a buffer (Megatron).
    """
    has_buffer = recipe.formats.gradient_bytes > recipe.formats.weight_bytes
    return np.asarray((layouts.num_micro_batches == 1) & (not has_buffer))


def has_buckets(recipe: Recipe, layouts: TrainingLayouts) -> BoolArray:
    """Whether gradients are copied into buckets to be reduced: DDP of PyTorch as it comes.

    Not where gradients have a buffer of their own that is reduced in place (Megatron).
    Source: PyTorch, DistributedDataParallel, gradient_as_bucket_view=False.
    """
    has_buffer = recipe.formats.gradient_bytes > recipe.formats.weight_bytes
    return np.asarray((layouts.sharding == Sharding.DDP) & (layouts.shard_ranks() > 1) & (not has_buffer))


def gathered_bytes(arch: Architecture, recipe: Recipe, layouts: TrainingLayouts, blocks: float) -> FloatArray:
    """Weights that are whole while in use under ZeRO-3: blocks, an end, and gradients of one block until reduced.

    blocks x the largest block + embedding or head (both where they are one flat weight) + one block of gradients where
    the model learns; a whole stage in a pipeline; without ZeRO-3 the 16-bit copies of fp32 weights that autocast keeps
    for the backward pass   [bytes]
    Source: Zhao et al. 2023, arXiv:2304.11277, section 3; PyTorch, torch.amp.autocast (cache_enabled).
    """
    sizes = ElementBytes.of(recipe.base) if recipe.is_frozen_base else _uniform(recipe.formats.gathered_bytes)
    gradient = 0.0 if recipe.is_frozen_base else recipe.formats.gathered_bytes
    largest = largest_block(arch, sizes, layouts)
    of_gradients = gradient * largest_block(arch, ONE_OF_EACH, layouts)
    end = _ends(arch, sizes, layouts) if recipe.flat_blocks else sizes.base * embedding_params(arch, _exact(layouts.tp))
    stage = held_by_rank(arch, sizes, layouts).total
    whole = np.where(keeps_whole_weights(layouts), stage, blocks * largest + of_gradients + end)
    is_spread = layouts.shard_ranks() > 1
    in_use = np.where(shards_weights(layouts) & is_spread, whole, _cast_copies(arch, recipe, layouts))
    return in_use + widened_matrix_bytes(arch, recipe, layouts)


def widened_matrix_bytes(arch: Architecture, recipe: Recipe, layouts: TrainingLayouts) -> Floats:
    """The largest matrix of a layer in the format that it is multiplied in, where it is stored in fewer bits.

    outputs x inputs / tp x 2   [bytes]   Source: bitsandbytes and torchao widen NF4 a whole matrix at a time.
    """
    width = recipe.formats.activation_bytes
    if not recipe.is_frozen_base or recipe.base.mlp.bytes_per_element >= width:
        return 0.0
    matrices = (each for block in arch.blocks for each in linears(block, arch.hidden_size))
    return width * max((float(each.outputs * each.inputs) for each in matrices), default=0.0) / layouts.tp


def _cast_copies(arch: Architecture, recipe: Recipe, layouts: TrainingLayouts) -> Floats:
    """Copies of all weights in the format that is computed with, where weights themselves are wider."""
    formats = recipe.formats
    if recipe.is_frozen_base or formats.gathered_bytes >= formats.weight_bytes:
        return 0.0
    return formats.gathered_bytes * held_by_rank(arch, ONE_OF_EACH, layouts).layers


def _uniform(size: float) -> ElementBytes:
    return ElementBytes(size, size, size, size, size)


def largest_block(arch: Architecture, sizes: ElementBytes, layouts: TrainingLayouts) -> Floats:
    """The largest layer of a rank."""
    largest: Floats = 0.0
    for block in arch.blocks:
        largest = np.maximum(largest, of_block(block, arch.hidden_size, sizes, layouts).total)
    return largest


def _head_gradient(arch: Architecture, recipe: Recipe, layouts: TrainingLayouts) -> FloatArray:
    """The first gradient of the backward pass, and with steps in the backward pass the largest of a block after it."""
    if recipe.is_frozen_base:
        return np.zeros(len(layouts))
    head = recipe.formats.gradient_bytes * head_params(arch, _exact(layouts.tp))
    if recipe.optimizer.in_backward:
        head = np.maximum(head, recipe.formats.gradient_bytes * largest_block(arch, ONE_OF_EACH, layouts))
    return _full(np.where(shards_weights(layouts) & (layouts.shard_ranks() > 1), 0.0, head), layouts)


def _step_bytes(
    arch: Architecture, recipe: Recipe, layouts: TrainingLayouts, constants: TrainingMemoryConstants
) -> FloatArray:
    """Copies of the largest matrix and its states that are stepped in fp32 where states have 8 bits.

    Not where they are paged, whose kernels widen them a block at a time.
    """
    is_narrow = recipe.optimizer.state_bytes <= recipe.optimizer.num_states * FP32.bytes_per_element / 2
    if recipe.is_frozen_base or not is_narrow or recipe.optimizer.is_on_host:
        return np.zeros(len(layouts))
    copies = constants.widened_state_bytes.value * head_params(arch, _exact(layouts.tp))
    return _full(copies / np.where(shards_optimizer(layouts), layouts.shard_ranks(), 1), layouts)
