"""Seconds of all layers of a model for one micro-batch, forward and backward, by cause."""

from __future__ import annotations

import numpy as np

from gpufleet.architecture.parameters import parameter_parts
from gpufleet.domain.architecture import Architecture, Attention
from gpufleet.domain.arrays import FloatArray
from gpufleet.performance.training_kernels import ELEMENT_BYTES
from gpufleet.performance.training_time import TrainingTime
from gpufleet.performance.training_traffic import (
    context_parallel_seconds,
    expert_parallel_seconds,
    tensor_parallel_seconds,
)
from gpufleet.records import dataclass

BACKWARD_ATTENTION = 2.5
"""Products of the backward pass of flash attention over those of the forward pass (Dao 2023, arXiv:2307.08691)."""
FULL_HEAD = 128
FORWARD_SHARE, FORWARD_TRAFFIC_SHARE = 1 / 3, 1 / 2
"""Shares that belong to the forward pass: of element-wise traffic and what launches kernels; of what ranks exchange."""
CHEAP_SHARE = 1 / 2
"""Share of the forward pass's element-wise traffic that selective recomputation repeats: a judgement."""
OF_LAYERS = (
    "products",
    "attention",
    "elementwise",
    "tensor_parallel",
    "context_parallel",
    "expert_parallel",
    "adapters",
)
"""Causes that lie in the layers of a stage."""


@dataclass(frozen=True, eq=False)
class LayerTimes:
    """Seconds of all layers of the model for one micro-batch on one rank, by cause, forward and backward together.

    `forward` of it is what full recomputation repeats, `core` what selective recomputation does.
    """

    products: FloatArray
    attention: FloatArray
    elementwise: FloatArray
    tensor_parallel: FloatArray
    context_parallel: FloatArray
    expert_parallel: FloatArray
    adapters: FloatArray
    forward: FloatArray
    core: FloatArray

    @property
    def once(self) -> FloatArray:
        """Forward and backward without what is computed again."""
        return np.asarray(sum(getattr(self, name) for name in OF_LAYERS))


def layer_times(time: TrainingTime) -> LayerTimes:
    """All layers for one micro-batch, of each distinct shard."""
    recipe, shards = time.recipe, time.shards
    forward, backward = product_seconds(time)
    ahead, behind = attention_seconds(time)
    stream = streamed_seconds(time)
    tensor = tensor_parallel_seconds(time)
    experts = expert_parallel_seconds(time)
    ring = context_parallel_seconds(time, ahead)
    adapters = adapter_seconds(time) + dequantised_seconds(time)
    beside = (stream + adapters) * FORWARD_SHARE + (tensor + experts) * FORWARD_TRAFFIC_SHARE
    core = np.zeros(len(shards)) if recipe.flash else ahead
    return LayerTimes(
        products=forward + backward,
        attention=ahead + behind,
        elementwise=stream,
        tensor_parallel=tensor,
        context_parallel=ring,
        expert_parallel=experts,
        adapters=adapters,
        forward=forward - closing_seconds(time) + ahead + beside,
        core=core + stream * FORWARD_SHARE * CHEAP_SHARE,
    )


def product_seconds(time: TrainingTime) -> tuple[FloatArray, FloatArray]:
    """Products forward and backward; frozen weights have no gradient of their own."""
    wide, narrow = time.of_shard("wide_ratio"), time.of_shard("narrow_ratio")
    p, frozen = time.kernels.products, time.recipe.is_frozen_base
    forward, of_inputs = (summed(each, wide, narrow) for each in (p.forward, p.of_inputs))
    of_weights = 0.0 if frozen else summed(p.of_weights, wide, narrow)
    return forward, of_inputs + of_weights


def closing_seconds(time: TrainingTime) -> FloatArray:
    """Last products of all layers forward, where recomputing stops before them; else nothing."""
    if not time.recipe.stops_early:
        return np.zeros(len(time.shards))
    wide, narrow = time.of_shard("wide_ratio"), time.of_shard("narrow_ratio")
    return summed(time.kernels.products.forward * time.kernels.closing[:, None], wide, narrow)


def summed(passes: FloatArray, wide: FloatArray, narrow: FloatArray) -> FloatArray:
    """Seconds of products [arithmetic, product, shard] together, each in the faster arithmetic: 16 or 8 bits."""
    each = passes[0] * wide
    if len(passes) > 1:
        each = np.minimum(each, passes[1] * narrow)
    return np.asarray(each.sum(axis=0))


def attention_seconds(time: TrainingTime) -> tuple[FloatArray, FloatArray]:
    """Attention forward and backward: flash kernels, or products and passes over scores that lie in memory."""
    k, c = time.kernels, time.constants
    peak, share = time.of_shard("peak_flop_per_s"), time.of_shard("attention_ratio")
    if time.recipe.flash:
        ramp = 1 + c.value("attention_ramp_tokens") * time.shards.cp / time.recipe.sequence_tokens
        head = min(head_dim_of(time.arch) / FULL_HEAD, 1.0) ** c.value("head_exponent")
        forward = k.attention_flop * ramp / (peak * share * head)
        return forward, forward * BACKWARD_ATTENTION / c.value("backward_attention_ratio")
    moved = c.value("score_bytes") * k.score_elements / time.of_shard("bandwidth_bytes_per_s")
    forward = 2 * k.attention_flop / (peak * c.value("score_product_ratio")) + moved
    return forward, 2 * forward


def head_dim_of(arch: Architecture) -> float:
    """Elements of one head of the layers with attention."""
    dims = [block.mixer.head_dim for block in arch.blocks if isinstance(block.mixer, Attention)]
    return float(max(dims, default=FULL_HEAD))


def streamed_seconds(time: TrainingTime) -> FloatArray:
    """Element-wise kernels, forward and backward; without sequence parallelism every TP rank does all norms."""
    k, c, shards = time.kernels, time.constants, time.shards
    per_hidden = c.value("hidden_bytes" if time.recipe.compiled else "hidden_bytes_eager")
    moved = per_hidden * k.hidden_elements / shards.tp + 2 * c.value("mlp_bytes") * k.mlp_elements
    moved = moved + c.value("recurrent_bytes") * k.recurrent_elements + c.value("biased_bytes") * k.biased_elements
    return np.asarray(moved / time.of_shard("bandwidth_bytes_per_s"))


def adapter_seconds(time: TrainingTime) -> FloatArray:
    """Adapters: traffic of their inputs and outputs, and three passes of products as narrow as their rank."""
    k, adapter = time.kernels, time.recipe.adapter
    moved = time.constants.value("adapter_bytes") * k.adapted_elements / time.of_shard("bandwidth_bytes_per_s")
    flop = 6 * (adapter.rank if adapter else 0) * k.adapted_elements
    rate = time.of_shard("peak_flop_per_s") * time.constants.value("narrow_product_ratio")
    return np.asarray(moved + flop / rate)


def dequantised_seconds(time: TrainingTime) -> FloatArray:
    """Frozen weights in fewer bits than they are multiplied in: read, widened and written once forward and backward."""
    recipe, shards = time.recipe, time.shards
    stored = recipe.base.mlp.bytes_per_element
    if not recipe.is_frozen_base or stored >= ELEMENT_BYTES:
        return np.zeros(len(shards))
    parts = parameter_parts(time.arch)
    held = (parts.total - parts.embedding - parts.head - parts.routed_experts) / shards.tp
    held = held + parts.routed_experts / shards.ep
    rate = time.of_shard("bandwidth_bytes_per_s") * time.constants.value("dequantised_ratio")
    return np.asarray(2 * held * (stored + ELEMENT_BYTES) / rate)


def head_seconds(time: TrainingTime) -> FloatArray:
    """The output head and the loss of one micro-batch, forward and backward, in 16 bits."""
    k, wide = time.kernels, time.of_shard("wide_ratio")
    seconds = summed(k.head.forward, wide, wide) + summed(k.head.of_inputs, wide, wide)
    if not time.recipe.is_frozen_base:
        seconds = seconds + summed(k.head.of_weights, wide, wide)
    return np.asarray(seconds + time.constants.value("logit_bytes") * k.logits / time.of_shard("bandwidth_bytes_per_s"))
