"""Seconds of a training step for many layouts at once: what every device computes, and what it waits for.

t = m t_stage + (pp - 1) / v t_mean + what data parallelism, the optimizer and offloading leave exposed   [s]

`m` micro-batches pass the slowest stage; the bubble is that of 1F1B with `v` chunks a stage (Narayanan et al. 2021,
arXiv:2104.04473). Every part is a named array; the exposed parts sum to the step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from functools import cached_property

import numpy as np

from gpufleet.architecture.parameters import parameter_parts
from gpufleet.architecture.sharding import shard
from gpufleet.domain.architecture import Architecture, Attention
from gpufleet.domain.arrays import BoolArray, FloatArray, Floats, IntArray
from gpufleet.domain.training import Recipe, Recompute, Sharding, TrainingLayouts, TrainingMachine
from gpufleet.domain.training_time import TrainingTimeConstants
from gpufleet.performance.training_kernels import ELEMENT_BYTES, WIDE, KernelModel, Kernels, Shards
from gpufleet.performance.uncertainty import Bounds
from gpufleet.provenance import Grade
from gpufleet.records import dataclass
from gpufleet.units import GB

BACKWARD_ATTENTION = 2.5
"""Products of the backward pass of flash attention over those of the forward pass (Dao 2023, arXiv:2307.08691)."""
FULL_HEAD = 128
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
FORWARD_SHARE = 1 / 3
"""Share of element-wise traffic, and of what launches kernels, that belongs to the forward pass."""


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


@dataclass(frozen=True, eq=False)
class TrainingTime:
    """The step of a model under a recipe in many layouts; `software_year` dates the software, None is unknown."""

    model: KernelModel
    layouts: TrainingLayouts
    constants: TrainingTimeConstants
    software_year: float | None = None
    measured_ratio: float = 1.0

    @property
    def arch(self) -> Architecture:
        """The model."""
        return self.model.arch

    @property
    def recipe(self) -> Recipe:
        """How it is trained."""
        return self.model.recipe

    @cached_property
    def shards(self) -> Shards:
        """The distinct shards of the layouts."""
        return Shards.of(self.layouts)

    @cached_property
    def kernels(self) -> Kernels:
        """What each distinct shard computes."""
        return self.model.kernels(self.shards)

    @cached_property
    def machine(self) -> MachineFigures:
        """Figures of the machine of each distinct shard."""
        return MachineFigures.of(self.model.machines, self.constants, self.recipe, self.software_year)

    def terms(self) -> StepTerms:
        """Exposed seconds of a step by cause."""
        return step_terms(self)

    def at(self, name: str) -> FloatArray:
        """A figure of the machine of each layout."""
        return np.asarray(getattr(self.machine, name)[self.layouts.device])

    def of_shard(self, name: str) -> FloatArray:
        """A figure of the machine of each distinct shard."""
        return np.asarray(getattr(self.machine, name)[self.shards.device])


@dataclass(frozen=True, eq=False)
class MachineFigures:
    """Figures of machines as arrays, one element a machine; ratios multiply seconds of measured kernels."""

    peak_flop_per_s: FloatArray
    bandwidth_bytes_per_s: FloatArray
    link_bytes_per_s: FloatArray
    network_bytes_per_s: FloatArray
    host_link_bytes_per_s: FloatArray
    num_gpus: FloatArray
    wide_ratio: FloatArray
    narrow_ratio: FloatArray
    attention_ratio: FloatArray
    immature_ratio: FloatArray

    @classmethod
    def of(
        cls,
        machines: Sequence[TrainingMachine],
        constants: TrainingTimeConstants,
        recipe: Recipe,
        software_year: float | None,
    ) -> MachineFigures:
        """The figures that a recipe meets on each machine."""
        kind = "" if recipe.compiled else "_eager"
        rows = []
        for machine in machines:
            gpu = machine.accelerator
            peaks = gpu.peak_flop_per_s
            rows.append(
                (
                    peaks.get("bf16") or peaks.get("fp16") or peaks.get("fp32") or np.nan,
                    gpu.bandwidth_bytes_per_s,
                    machine.link_bytes_per_s or np.inf,
                    machine.network_bytes_per_s or np.inf,
                    slot_bytes_per_s(gpu.pcie_generation),
                    machine.num_gpus,
                    constants.of(f"sustained{kind}", gpu.generation),
                    constants.of("sustained_fp8", gpu.generation),
                    constants.of(f"attention{kind}", gpu.generation),
                    immature_ratio(constants, gpu.release_year, software_year),
                )
            )
        return cls(*np.array(rows, dtype=np.float64).T)


LANES, FIRST_GENERATION = 16, 3


def slot_bytes_per_s(pcie_generation: int | None) -> float:
    """Rate of the x16 slot between a GPU and its host in one direction; generation 3 where it is not known.

    16 lanes x 2**(generation - 3) GB/s   [bytes/s]   Source: PCI-SIG base specifications, before encoding overhead.

    >>> slot_bytes_per_s(5) / 1e9
    64.0
    """
    return LANES * 2.0 ** ((pcie_generation or FIRST_GENERATION) - FIRST_GENERATION) * GB


def immature_ratio(constants: TrainingTimeConstants, release_year: int | None, software_year: float | None) -> float:
    """How much slower software is that is young for its GPU: exp(g max(0, release + mature - year)).   [1]

    V100 and A100 under one software of 2020 differ by as much as one GPU does under software of 2020 and of 2022.
    """
    if software_year is None or release_year is None:
        years = constants.value("unknown_immaturity_years")
    else:
        years = max(release_year + constants.value("mature_years") - software_year, 0.0)
    most = constants.value("mature_years")
    return float(np.exp(constants.value("immaturity") * min(years, most)))


def summed(passes: FloatArray, wide: FloatArray, narrow: FloatArray) -> FloatArray:
    """Seconds of products [arithmetic, product, shard] together, each in the faster arithmetic: 16 or 8 bits."""
    each = passes[0] * wide
    if len(passes) > 1:
        each = np.minimum(each, passes[1] * narrow)
    return np.asarray(each.sum(axis=0))


def layer_times(time: TrainingTime) -> LayerTimes:
    """All layers for one micro-batch, of each distinct shard."""
    k, c, recipe, shards = time.kernels, time.constants, time.recipe, time.shards
    forward, backward = product_seconds(time)
    ahead, behind = attention_seconds(time)
    stream = streamed_seconds(time)
    tensor = tensor_parallel_seconds(time)
    experts = expert_parallel_seconds(time)
    ring = context_parallel_seconds(time, ahead)
    adapters = c.value("adapter_bytes") * k.adapted_elements / time.of_shard("bandwidth_bytes_per_s")
    adapters = adapters + dequantised_seconds(time)
    third = (stream + tensor * 1.5 + experts * 1.5 + adapters) * FORWARD_SHARE
    core = np.zeros(len(shards)) if recipe.flash else ahead
    return LayerTimes(
        products=forward + backward,
        attention=ahead + behind,
        elementwise=stream,
        tensor_parallel=tensor,
        context_parallel=ring,
        expert_parallel=experts,
        adapters=adapters,
        forward=forward - closing_seconds(time) + ahead + third,
        core=core + stream * FORWARD_SHARE / 2,
    )


def product_seconds(time: TrainingTime) -> tuple[FloatArray, FloatArray]:
    """Products forward and backward; frozen weights have no gradient of their own."""
    wide, narrow = time.of_shard("wide_ratio"), time.of_shard("narrow_ratio")
    p, frozen = time.kernels.products, time.recipe.is_frozen_base
    slower = np.where(time.kernels.routed, time.constants.value("sustained_experts"), 1.0)[:, None]
    forward, of_inputs = (summed(each * slower, wide, narrow) for each in (p.forward, p.of_inputs))
    of_weights = 0.0 if frozen else summed(p.of_weights * slower, wide, narrow)
    return forward, of_inputs + of_weights


def closing_seconds(time: TrainingTime) -> FloatArray:
    """Last products of all layers forward, where recomputing stops before them; else nothing."""
    if not time.recipe.stops_early:
        return np.zeros(len(time.shards))
    slower = np.where(time.kernels.routed, time.constants.value("sustained_experts"), 1.0) * time.kernels.closing
    wide, narrow = time.of_shard("wide_ratio"), time.of_shard("narrow_ratio")
    return summed(time.kernels.products.forward * slower[:, None], wide, narrow)


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
    moved = moved + c.value("routed_bytes") * k.dispatched_elements
    return np.asarray(moved / time.of_shard("bandwidth_bytes_per_s"))


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


def tokens_of(time: TrainingTime) -> FloatArray:
    """Tokens of a micro-batch on a rank of each shard."""
    return np.asarray(time.shards.micro_batch * time.recipe.sequence_tokens / time.shards.cp, dtype=np.float64)


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


def repeated_seconds(layers: LayerTimes, time: TrainingTime) -> FloatArray:
    """What recomputation adds to all layers of each layout: nothing, the core of attention, or a forward pass."""
    place, recompute = time.shards.place, time.layouts.recompute
    repeated = np.where(recompute == Recompute.SELECTIVE, layers.core[place], 0.0)
    return np.asarray(np.where(recompute == Recompute.FULL, layers.forward[place], repeated))


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


def host_seconds(time: TrainingTime, device_s: FloatArray) -> FloatArray:
    """By how much launching the kernels of all layers outlasts what the device computes for them."""
    per_layer = time.constants.value("host_s" if time.recipe.compiled else "host_s_eager")
    again = np.where(time.layouts.recompute == Recompute.FULL, 1 + FORWARD_SHARE, 1.0)
    return np.asarray(np.maximum(per_layer * time.arch.num_layers * again - device_s, 0.0))


@dataclass(frozen=True, eq=False)
class Held:
    """Parameters of the layers and ends that one rank holds before data-parallel sharding, and their replicas."""

    dense: FloatArray
    experts: FloatArray
    dense_ranks: FloatArray
    expert_ranks: FloatArray

    @classmethod
    def of(cls, arch: Architecture, layouts: TrainingLayouts) -> Held:
        """Mean over the stages."""
        parts = parameter_parts(arch)
        dense = (parts.total - parts.routed_experts) / (layouts.tp * layouts.pp)
        experts = parts.routed_experts / (layouts.ep * layouts.pp)
        ranks = np.asarray(layouts.dp * layouts.cp, dtype=np.float64)
        return cls(dense, experts, ranks, np.maximum(ranks * layouts.tp / layouts.ep, 1.0))


def ring_seconds(time: TrainingTime, moved: FloatArray, ranks: FloatArray, neighbours: Floats | IntArray) -> FloatArray:
    """Seconds to gather or scatter so many bytes over ranks of which every `neighbours`-th is one of the ring.

    (n - 1) / n bytes / min(link, share of the machine's network) + latency n   [s]
    """
    c, node = time.constants, time.at("num_gpus")
    link = time.at("link_bytes_per_s") * c.value("shard_link_ratio")
    network = time.at("network_bytes_per_s") * c.value("network_ratio") / np.minimum(neighbours, node)
    rate = np.where(ranks * neighbours > node, np.minimum(link, network), link)
    collectives = time.arch.num_layers / time.layouts.pp
    latency = c.value("latency_s") * np.maximum(ranks - node / np.minimum(neighbours, node), 0.0) * collectives
    return np.asarray(np.where(ranks > 1, moved * (ranks - 1) / ranks / rate + latency, 0.0))


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
    neighbours = layouts.tp
    ranks = layouts.shard_ranks().astype(np.float64)
    traffic = ring_seconds(time, held.dense * per_parameter, ranks, neighbours)
    fewer = np.minimum(held.expert_ranks, ranks)
    traffic = traffic + ring_seconds(time, held.experts * per_parameter, fewer, np.minimum(layouts.ep, neighbours * 8))
    return np.asarray(layouts.num_micro_batches * waited_seconds(time, traffic, computing_s))


def waited_seconds(time: TrainingTime, traffic_s: FloatArray, computing_s: FloatArray) -> FloatArray:
    """What is waited for of traffic beside a micro-batch's computing.

    a c + max(0, (1 - a) c - h t): of traffic c a share a is always waited for, the rest hides behind h t   [s]
    """
    c = time.constants
    always = c.value("shard_exposed")
    hidden = c.value("hidden_ratio" if time.recipe.overlapped else "hidden_ratio_eager")
    return np.asarray(always * traffic_s + np.maximum((1 - always) * traffic_s - hidden * computing_s, 0.0))


def reduced_seconds(time: TrainingTime, computing_s: FloatArray) -> FloatArray:
    """Gradients summed once a step; sharded optimizers (ZeRO-1, ZeRO-2) scatter them and gather weights after."""
    formats, layouts = time.recipe.formats, time.layouts
    held = Held.of(time.arch, layouts)
    trained = trained_ratio(time)
    summed_bytes = np.where(
        layouts.sharding == Sharding.DDP, 2 * formats.gradient_bytes, formats.gradient_bytes + formats.weight_bytes
    )
    traffic = ring_seconds(time, trained * held.dense * summed_bytes, held.dense_ranks, layouts.tp)
    traffic = traffic + ring_seconds(time, trained * held.experts * summed_bytes, held.expert_ranks, layouts.ep)
    return waited_seconds(time, traffic, computing_s)


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


def trained_ratio(time: TrainingTime) -> float:
    """Share of the weights that have gradients; of adapters next to none, which hides entirely."""
    return 0.0 if time.recipe.is_frozen_base else 1.0


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
    """What a step waits for host memory: gradients down and weights up with an optimizer on the host, activations."""
    recipe, layouts = time.recipe, time.layouts
    rate, held = time.at("host_link_bytes_per_s"), Held.of(time.arch, layouts)
    seconds = np.zeros(len(layouts))
    if recipe.optimizer.is_offloaded:
        own = held.dense / held.dense_ranks + held.experts / held.expert_ranks
        stepped = (recipe.optimizer.state_bytes + recipe.formats.master_bytes) * 2
        moved = recipe.formats.gradient_bytes + recipe.formats.weight_bytes
        host_rate = time.constants.value("host_memory_bytes_per_s") / time.at("num_gpus")
        seconds = trained_ratio(time) * own * (moved / rate + stepped / host_rate)
    if recipe.offloads_activations:
        tokens = layouts.tokens_per_micro_batch(recipe)
        moved_s = 2 * ELEMENT_BYTES * tokens * time.arch.hidden_size * time.arch.num_layers / layouts.pp / rate
        waited = np.maximum(moved_s - computing_s, 0.0) + time.constants.value("offload_exposed") * moved_s
        seconds = seconds + layouts.num_micro_batches * waited
    return np.asarray(seconds)


def tokens_per_s_per_gpu(time: TrainingTime, step_s: FloatArray) -> FloatArray:
    """Tokens of the global batch over the step and the GPUs that work.   [tokens/s]"""
    layouts = time.layouts
    return np.asarray(layouts.global_batch * time.recipe.sequence_tokens / step_s / layouts.num_devices)


def is_supported(time: TrainingTime) -> BoolArray:
    """Whether the GPU of each layout computes in the arithmetic of the recipe."""
    able = [m.accelerator.computes(time.recipe.formats.peak) for m in time.model.machines]
    return np.array(able, dtype=np.bool_)[time.layouts.device]


def time_bounds(time: TrainingTime) -> Bounds:
    """How far the step of each layout may lie from what is expected: 10th and 90th percentile of measured / predicted.

    ln factor = +- sqrt(runs^2 + kernels^2 + lent^2): runs whose source was left out of the fit; curves that another
    GPU lends; constants of generations without runs. A measured run of one's own replaces the first.   [1]
    """
    c, kind = time.constants, "experts" if time.arch.is_moe else "dense"
    spread = c.spreads["own" if time.measured_ratio != 1.0 else kind]
    ends = np.array([[spread.low or 1.0], [spread.high or 1.0]])
    lent = np.array([lent_log_ratios(time.model, machine) for machine in range(len(time.model.machines))]).T
    squared = np.log(ends) ** 2 + lent**2 + unmeasured_squared(time)
    low, high = np.exp(np.array([[-1.0], [1.0]]) * np.sqrt(squared))[:, time.layouts.device]
    return Bounds(low, high)


def lent_log_ratios(model: KernelModel, machine: int) -> tuple[float, float]:
    """ln of the ends of measured / predicted of products that another GPU lends; 0 where they were measured."""
    arithmetic = WIDE.get(model.recipe.formats.arithmetic, model.recipe.formats.arithmetic)
    curves = model.curves(np.array([machine]), arithmetic)
    if int(curves.grade[0]) == Grade.MEASURED:
        return 0.0, 0.0
    return -float(np.log(curves.low_ratio[0])), float(np.log(curves.high_ratio[0]))


def unmeasured_squared(time: TrainingTime) -> FloatArray:
    """Squared ln factors of generations on which no run was measured, by end and machine."""
    spread = time.constants.spreads["unmeasured_generation"]
    ends = np.log([[spread.low or 1.0], [spread.high or 1.0]]) ** 2
    unknown = [not time.constants.is_measured("sustained", m.accelerator.generation) for m in time.model.machines]
    return np.asarray(ends * np.array(unknown))


def grade_of(time: TrainingTime, machine: int) -> Grade:
    """How the time on a machine is known: runs on its generation, else lent; the worst of that and its kernels."""
    of_runs = time.constants.is_measured("sustained", time.model.machines[machine].accelerator.generation)
    arithmetic = WIDE.get(time.recipe.formats.arithmetic, time.recipe.formats.arithmetic)
    of_kernels = Grade(int(time.model.curves(np.array([machine]), arithmetic).grade[0]))
    return max(of_kernels, Grade.MEASURED if of_runs and not time.arch.is_moe else Grade.TRANSFERRED)
