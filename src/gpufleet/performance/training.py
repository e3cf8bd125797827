"""Seconds of a training step for many layouts at once: what every device computes, and what it waits for.

t = m t_stage + (pp - 1) / v t_mean + what data parallelism, the optimizer and offloading leave exposed   [s]

`m` micro-batches pass the slowest stage; the bubble is that of 1F1B with `v` chunks a stage (Narayanan et al. 2021,
arXiv:2104.04473). Every part is a named array; the exposed parts sum to the step.
"""

from __future__ import annotations

from dataclasses import fields
from functools import cached_property

import numpy as np

from gpufleet.domain.architecture import MixtureOfExperts
from gpufleet.domain.arrays import FloatArray
from gpufleet.domain.mixers import GatedDeltaNet, StateSpace
from gpufleet.domain.training import Recompute, Sharding
from gpufleet.performance.training_kernels import ELEMENT_BYTES
from gpufleet.performance.training_layers import FORWARD_SHARE, OF_LAYERS, LayerTimes, head_seconds, layer_times
from gpufleet.performance.training_time import Held, TrainingTime, trained_ratio
from gpufleet.performance.training_traffic import between_stages_seconds, data_parallel_seconds
from gpufleet.records import dataclass


@dataclass(frozen=True, eq=False)
class StepTerms:
    """Exposed seconds of one step by cause: arrays, one element a layout, which sum to the step."""

    products: FloatArray
    attention: FloatArray
    elementwise: FloatArray
    output_head: FloatArray
    recompute: FloatArray
    tensor_parallel: FloatArray
    context_parallel: FloatArray
    expert_parallel: FloatArray
    adapters: FloatArray
    host: FloatArray
    uneven_stages: FloatArray
    stage_traffic: FloatArray
    bubble: FloatArray
    data_parallel: FloatArray
    optimizer: FloatArray
    offload: FloatArray

    @cached_property
    def total(self) -> FloatArray:
        """Seconds of the step."""
        return np.asarray(sum(getattr(self, f.name) for f in fields(self)))


def step_terms(time: TrainingTime) -> StepTerms:
    """Exposed seconds of a step by cause."""
    layouts, place = time.layouts, time.shards.place
    layers, head = layer_times(time), head_seconds(time)[place]
    again = repeated_seconds(layers, time)
    host = host_seconds(time, layers.once[place] + again)
    whole = layers.once[place] + again + host
    between = between_stages_seconds(time)
    stage = Stage.of(time, whole, head, between)
    passed = layouts.num_micro_batches * stage.share
    young = time.at("immature_ratio") * time.measured_ratio
    exposed = {name: passed * getattr(layers, name)[place] for name in OF_LAYERS}
    terms = StepTerms(
        **exposed,
        recompute=passed * again,
        host=passed * host,
        output_head=layouts.num_micro_batches * head / layouts.pp,
        uneven_stages=layouts.num_micro_batches * (stage.slowest_s - stage.share * whole - head / layouts.pp - between),
        stage_traffic=layouts.num_micro_batches * between,
        bubble=(layouts.pp - 1) / layouts.interleave * stage.mean_s,
        data_parallel=data_parallel_seconds(time, whole / layouts.pp),
        optimizer=optimizer_seconds(time),
        offload=offload_seconds(time, whole / layouts.pp),
    )
    return StepTerms(**{f.name: getattr(terms, f.name) * young for f in fields(StepTerms)})


def repeated_seconds(layers: LayerTimes, time: TrainingTime) -> FloatArray:
    """What recomputation adds to all layers of each layout: nothing, the core of attention, or a forward pass."""
    place, recompute = time.shards.place, time.layouts.recompute
    repeated = np.where(recompute == Recompute.SELECTIVE, layers.core[place], 0.0)
    return np.asarray(np.where(recompute == Recompute.FULL, layers.forward[place], repeated))


@dataclass(frozen=True, eq=False)
class Stage:
    """Stages of a pipeline for one micro-batch: seconds of the slowest and the mean one.

    `share` of all layers lies on a mean stage.
    """

    share: FloatArray
    slowest_s: FloatArray
    mean_s: FloatArray

    @classmethod
    def of(cls, time: TrainingTime, layers_s: FloatArray, head_s: FloatArray, between_s: FloatArray) -> Stage:
        """The head is on the last stage, which has no more layers than the others; all wait `between_s`.

        Chunks of ceil(L / (pp v)) layers; what is left over falls to the last stages.
        """
        pp, v, layers = time.layouts.pp, time.layouts.interleave, time.arch.num_layers
        chunks = pp * v
        fullest = np.minimum(np.ceil(layers / chunks) * v, layers) / layers
        last = np.maximum(layers - fullest * layers * (pp - 1), 0) / layers
        last = np.where(layers % chunks == 0, 1 / pp, np.maximum(last, np.floor(layers / chunks) * v / layers))
        slowest = np.maximum(fullest * layers_s, last * layers_s + head_s) + between_s
        return cls(1 / pp, slowest, (layers_s + head_s) / pp + between_s)


def host_seconds(time: TrainingTime, device_s: FloatArray) -> FloatArray:
    """By how much launching the kernels of all layers outlasts what the device computes for them."""
    per_layer = time.constants.value("host_s" if time.recipe.compiled else "host_s_eager")
    again = np.where(time.layouts.recompute == Recompute.FULL, 1 + FORWARD_SHARE, 1.0)
    waited = np.maximum(per_layer * time.arch.num_layers * again - device_s, 0.0)
    return np.asarray(waited + expert_launch_seconds(time))


def expert_launch_seconds(time: TrainingTime) -> FloatArray:
    """What devices wait for the host in layers with experts, whose kernels it launches when it knows their tokens.

    layers with experts x `expert_layer_s`, shorter where software groups them: not beside layers with states   [s]
    """
    blocks = time.arch.blocks
    routed = sum(block.count for block in blocks if isinstance(block.feed_forward, MixtureOfExperts))
    seconds = np.full(len(time.layouts), routed * time.constants.value("expert_layer_s"))
    is_hybrid = any(isinstance(block.mixer, StateSpace | GatedDeltaNet) for block in blocks)
    return seconds if is_hybrid else np.asarray(seconds * time.at("launched_ratio"))


def optimizer_seconds(time: TrainingTime) -> FloatArray:
    """The optimizer's pass over what a rank steps: states, gradients and weights read, states and weights written."""
    recipe, layouts = time.recipe, time.layouts
    formats, held = recipe.formats, Held.of(time.arch, layouts)
    moved = 2 * (recipe.optimizer.state_bytes + formats.master_bytes + formats.weight_bytes) + formats.gradient_bytes
    is_sharded = layouts.sharding >= Sharding.ZERO_1
    dense = held.dense / np.where(is_sharded, held.dense_ranks, 1.0)
    experts = held.experts / np.where(is_sharded, held.expert_ranks, 1.0)
    rate = time.at("bandwidth_bytes_per_s") * time.constants.value("optimizer_ratio")
    return np.asarray(trained_ratio(time) * (dense + experts) * moved / rate)


def offload_seconds(time: TrainingTime, computing_s: FloatArray) -> FloatArray:
    """What a step waits for host memory: the optimizer's states, activations and weights that lie there."""
    recipe, seconds = time.recipe, np.zeros(len(time.layouts))
    if recipe.optimizer.is_offloaded:
        seconds = seconds + host_step_seconds(time)
    if recipe.offloads_weights:
        seconds = seconds + host_weights_seconds(time)
    if recipe.offloads_activations:
        seconds = seconds + host_activations_seconds(time, computing_s)
    return np.asarray(seconds)


def host_step_seconds(time: TrainingTime) -> FloatArray:
    """Gradients down, weights up, and the host's pass over states: a GPU has its share of the host's memory."""
    recipe, own = time.recipe, own_parameters(time)
    stepped = (recipe.optimizer.state_bytes + recipe.formats.master_bytes) * 2
    moved = recipe.formats.gradient_bytes + recipe.formats.weight_bytes
    host_rate = time.constants.value("host_memory_bytes_per_s") / time.at("num_gpus")
    return trained_ratio(time) * own * (moved / time.at("host_link_bytes_per_s") + stepped / host_rate)


def host_weights_seconds(time: TrainingTime) -> FloatArray:
    """A rank's share of the weights up for the forward and the backward pass, its gradients down, every micro-batch."""
    recipe = time.recipe
    up = 2 * (recipe.base.mlp.bytes_per_element if recipe.is_frozen_base else recipe.formats.gathered_bytes)
    moved = up + trained_ratio(time) * recipe.formats.gradient_bytes
    return time.layouts.num_micro_batches * own_parameters(time) * moved / time.at("host_link_bytes_per_s")


def host_activations_seconds(time: TrainingTime, computing_s: FloatArray) -> FloatArray:
    """The inputs of all layers of a stage down and up; most of it hides behind computing."""
    tokens = time.layouts.tokens_per_micro_batch(time.recipe)
    kept = tokens * time.arch.hidden_size * time.arch.num_layers / time.layouts.pp
    moved_s = 2 * ELEMENT_BYTES * kept / time.at("host_link_bytes_per_s")
    waited = np.maximum(moved_s - computing_s, 0.0) + time.constants.value("offload_exposed") * moved_s
    return np.asarray(time.layouts.num_micro_batches * waited)


def own_parameters(time: TrainingTime) -> FloatArray:
    """Weights that a rank alone keeps of what data parallelism shares."""
    held = Held.of(time.arch, time.layouts)
    return held.dense / held.dense_ranks + held.experts / held.expert_ranks
