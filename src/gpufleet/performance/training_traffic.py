"""What a training step waits for on links and networks: of tensors, experts, context, stages, and data parallelism."""

from __future__ import annotations

import numpy as np

from gpufleet.architecture.sharding import shard
from gpufleet.domain.architecture import Attention
from gpufleet.domain.arrays import FloatArray, Floats, IntArray
from gpufleet.domain.training import Sharding
from gpufleet.performance.training_kernels import ELEMENT_BYTES
from gpufleet.performance.training_time import Held, TrainingTime, tokens_of, trained_ratio


def tensor_parallel_seconds(time: TrainingTime) -> FloatArray:
    """What is waited for of the sums of tensor parallelism, forward and backward.

    4 sums a layer of tokens x hidden, each 2 (tp - 1) / tp of it over the link   [s]   arXiv:2205.05198
    """
    c, shards, tokens = time.constants, time.shards, tokens_of(time)
    name = "tensor_exposed" if time.recipe.overlapped and time.recipe.compiled else "tensor_exposed_eager"
    moved = 4 * time.arch.num_reductions * tokens * time.arch.hidden_size * ELEMENT_BYTES * (shards.tp - 1) / shards.tp
    inside = shards.tp <= time.of_shard("num_gpus")
    outside = time.of_shard("network_bytes_per_s") * c.value("network_ratio") / time.of_shard("num_gpus")
    rate = np.where(inside, time.of_shard("link_bytes_per_s") * c.value("link_ratio"), outside)
    return np.asarray(c.value(name) * moved / rate)


def expert_parallel_seconds(time: TrainingTime) -> FloatArray:
    """What is waited for of bringing tokens to their experts and back, forward and backward: 4 all-to-all a layer."""
    k, c, shards = time.kernels, time.constants, time.shards
    moved = 4 * ELEMENT_BYTES * k.dispatched_elements * (shards.ep - 1) / shards.ep
    node = time.of_shard("num_gpus")
    abroad = np.where(shards.ep > node, 1 - node / shards.ep, 0.0)
    network = time.of_shard("network_bytes_per_s") * c.value("network_ratio") / node
    link = time.of_shard("link_bytes_per_s") * c.value("link_ratio")
    return np.asarray(c.value("expert_exposed") * np.maximum(moved * abroad / network, moved * (1 - abroad) / link))


def context_parallel_seconds(time: TrainingTime, attention_s: FloatArray) -> FloatArray:
    """What is waited for of passing keys and values around the ring beside the attention of the pieces.

    Forward once, backward twice: 2 kv_heads d tokens (cp - 1) elements   [s]   arXiv:2310.01889
    """
    c, shards, arch = time.constants, time.shards, time.arch
    width = sum(
        b.count * b.mixer.num_kv_heads * (b.mixer.head_dim + b.mixer.value_dim)
        for b in arch.blocks
        if isinstance(b.mixer, Attention)
    )
    moved = 3 * ELEMENT_BYTES * tokens_of(time) * (shards.cp - 1) * shard(width, shards.tp)
    node = time.of_shard("num_gpus")
    network = time.of_shard("network_bytes_per_s") * c.value("network_ratio") / node
    inside = shards.tp * shards.cp <= node
    rate = np.where(inside, time.of_shard("link_bytes_per_s") * c.value("link_ratio"), network)
    traffic, always = moved / rate, c.value("shard_exposed")
    return np.asarray(always * traffic + np.maximum((1 - always) * traffic - 3 * attention_s, 0.0))


def between_stages_seconds(time: TrainingTime) -> FloatArray:
    """What a stage waits for in passing a micro-batch on, forward and backward, once for each of its chunks.

    2 v tokens x hidden / tp over the network; interleaved schedules pass it on beside computing   [s]
    Source: Narayanan et al. 2021, arXiv:2104.04473, section 4.1 (scatter and gather).
    """
    layouts, c = time.layouts, time.constants
    tokens = layouts.tokens_per_micro_batch(time.recipe)
    moved = 2 * layouts.interleave * ELEMENT_BYTES * tokens * time.arch.hidden_size / layouts.tp
    node = time.at("num_gpus")
    network = time.at("network_bytes_per_s") * c.value("network_ratio") / node
    rate = np.where(layouts.num_devices > node, network, time.at("link_bytes_per_s") * c.value("link_ratio"))
    waited = np.where(layouts.interleave > 1, c.value("shard_exposed"), 1.0)
    return np.where(layouts.pp > 1, waited * moved / rate, 0.0)


def data_parallel_seconds(time: TrainingTime, computing_s: FloatArray) -> FloatArray:
    """What a step waits for of the traffic of data parallelism; `computing_s` of a micro-batch on a mean stage."""
    gathered = sharded_seconds(time, computing_s)
    once = reduced_seconds(time, computing_s)
    is_sharded = time.layouts.sharding >= Sharding.ZERO_3
    return np.asarray(np.where(is_sharded, gathered, once) + replicated_seconds(time, computing_s))


def sharded_seconds(time: TrainingTime, computing_s: FloatArray) -> FloatArray:
    """Weights gathered for the forward and for the backward pass, gradients scattered, in every micro-batch."""
    recipe, layouts = time.recipe, time.layouts
    weights = recipe.base.mlp.bytes_per_element if recipe.is_frozen_base else recipe.formats.gathered_bytes
    gradients = 0.0 if recipe.is_frozen_base else ELEMENT_BYTES
    held = Held.of(time.arch, layouts)
    per_parameter = 2 * weights + gradients
    ranks = layouts.shard_ranks().astype(np.float64)
    traffic = ring_seconds(time, held.dense * per_parameter, ranks, layouts.tp, GATHERS)
    fewer = np.minimum(held.expert_ranks, ranks)
    traffic = traffic + ring_seconds(time, held.experts * per_parameter, fewer, layouts.ep)
    return np.asarray(layouts.num_micro_batches * waited_seconds(time, traffic, computing_s))


def reduced_seconds(time: TrainingTime, computing_s: FloatArray) -> FloatArray:
    """Gradients summed once a step; sharded optimizers (ZeRO-1, ZeRO-2) scatter them and gather weights after.

    ZeRO-2 keeps no whole gradients: it scatters them after every micro-batch.
    """
    formats, layouts = time.recipe.formats, time.layouts
    held = Held.of(time.arch, layouts)
    trained = trained_ratio(time)
    summed_bytes = np.where(
        layouts.sharding == Sharding.DDP, 2 * formats.gradient_bytes, formats.gradient_bytes + formats.weight_bytes
    )
    traffic = ring_seconds(time, trained * held.dense * summed_bytes, held.dense_ranks, layouts.tp)
    traffic = traffic + ring_seconds(time, trained * held.experts * summed_bytes, held.expert_ranks, layouts.ep)
    times = np.where(layouts.sharding == Sharding.ZERO_2, layouts.num_micro_batches, 1.0)
    return times * waited_seconds(time, traffic, computing_s)


def replicated_seconds(time: TrainingTime, computing_s: FloatArray) -> FloatArray:
    """Under hybrid sharding, gradients of a machine's share summed with those of the other machines once a step."""
    layouts = time.layouts
    ranks = layouts.shard_ranks()
    copies = np.asarray(layouts.dp * layouts.cp / ranks)
    if not np.any((layouts.sharding == Sharding.HYBRID) & (copies > 1)):
        return np.zeros(len(layouts))
    held = Held.of(time.arch, layouts)
    moved = trained_ratio(time) * (held.dense + held.experts) / ranks * 2 * time.recipe.formats.gradient_bytes
    traffic = ring_seconds(time, moved, copies, time.at("num_gpus"))
    waited = waited_seconds(time, traffic, computing_s)
    return np.asarray(np.where(layouts.sharding == Sharding.HYBRID, waited, 0.0))


def waited_seconds(time: TrainingTime, traffic_s: FloatArray, computing_s: FloatArray) -> FloatArray:
    """What is waited for of traffic beside a micro-batch's computing.

    a c + max(0, (1 - a) c - h t): of traffic c a share a is always waited for, the rest hides behind h t   [s]
    """
    c = time.constants
    always = c.value("shard_exposed")
    hidden = c.value("hidden_ratio" if time.recipe.overlapped else "hidden_ratio_eager")
    return np.asarray(always * traffic_s + np.maximum((1 - always) * traffic_s - hidden * computing_s, 0.0))


GATHERS = 3
"""Collectives of a layer whose weights are sharded: gathered forward and backward, its gradients scattered."""


def ring_seconds(
    time: TrainingTime, moved: FloatArray, ranks: FloatArray, neighbours: Floats | IntArray, rounds: int = 1
) -> FloatArray:
    """Seconds to gather or scatter so many bytes over ranks of which every `neighbours`-th is one of the ring.

    (n - 1) / n bytes / min(link, share of the machine's network) + rounds latency n for each layer   [s]
    """
    c, node = time.constants, time.at("num_gpus")
    link = time.at("link_bytes_per_s") * c.value("shard_link_ratio")
    network = time.at("network_bytes_per_s") * c.value("network_ratio") / np.minimum(neighbours, node)
    rate = np.where(ranks * neighbours > node, np.minimum(link, network), link)
    collectives = rounds * time.arch.num_layers / time.layouts.pp
    latency = c.value("latency_s") * np.maximum(ranks - node / np.minimum(neighbours, node), 0.0) * collectives
    return np.asarray(np.where(ranks > 1, moved * (ranks - 1) / ranks / rate + latency, 0.0))
