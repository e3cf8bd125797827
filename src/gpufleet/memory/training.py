"""What training takes of one device: states, activations, logits and what software adds; and whether that fits."""

from __future__ import annotations

import math
from dataclasses import fields
from functools import cached_property

import numpy as np

from gpufleet.architecture.linears import num_adapter_parameters
from gpufleet.architecture.parameters import num_parameters
from gpufleet.domain.architecture import Architecture
from gpufleet.domain.arrays import AnyArray, BoolArray, FloatArray, Floats
from gpufleet.domain.training import Recipe, Recompute, Sharding, TrainingLayouts
from gpufleet.domain.training_constants import TrainingMemoryConstants
from gpufleet.domain.verdict import DOES_NOT_FIT, FITS, TIGHT
from gpufleet.memory.band import Band
from gpufleet.memory.training_activations import SOURCE as ACTIVATION_SOURCE
from gpufleet.memory.training_activations import Activations, activations, bytes_per_logit, microbatches_in_flight
from gpufleet.memory.training_states import ModelStates, model_states, trained_bytes_per_parameter
from gpufleet.provenance import Grade, Term
from gpufleet.records import dataclass

STATE_SOURCE = "Rajbhandari et al. 2020, arXiv:1910.02054 (ZeRO)"


@dataclass(frozen=True, eq=False)
class TrainingMemory:
    """Bytes on the fullest device of each layout, term by term.

    `weights` of the model, `optimizer` states with master weights, `adapters` with their gradients and states,
    `gathered` blocks of sharded weights, `buffers` of DDP, `activations` of the first stage, `logits` as far as they
    exceed what is freed by then, `step`: copies that the optimizer makes. `reused` is negative: gradients and copies
    that take the room of activations that are freed meanwhile.
    `peak` is what the allocator reports (PyTorch's peak of allocated memory), `total` what the device must have:
    context, communication buffers and fragmentation included. `host_bytes` lie in host memory, per GPU; the machine
    needs `host_need_bytes` with all of its GPUs that train, and has `host_memory_bytes`, infinite where nobody says.
    """

    device_bytes: FloatArray
    weights: FloatArray
    gradients: FloatArray
    optimizer: FloatArray
    adapters: FloatArray
    gathered: FloatArray
    buffers: FloatArray
    activations: FloatArray
    logits: FloatArray
    step: FloatArray
    reused: FloatArray
    workspace: FloatArray
    peak: Band
    context: Band
    communication: Band
    fragmentation: Band
    host_bytes: FloatArray
    host_need_bytes: FloatArray
    host_memory_bytes: FloatArray

    @cached_property
    def total(self) -> Band:
        """What the device must have."""
        return self.peak.beside(self.context).beside(self.communication).beside(self.fragmentation)

    @property
    def fits(self) -> BoolArray:
        """Whether the expected total has room, on the device and on its host: verdicts `fits` and `tight`."""
        return np.asarray(self.total.expected <= self.device_bytes) & self.fits_host

    @property
    def fits_surely(self) -> BoolArray:
        """Whether the high end has room too."""
        return np.asarray(self.total.high <= self.device_bytes) & self.fits_host

    @property
    def fits_host(self) -> BoolArray:
        """Whether the machine has the memory that lies outside of its devices; so it is where that is not known."""
        return np.asarray(self.host_need_bytes <= self.host_memory_bytes)

    @property
    def verdicts(self) -> AnyArray:
        """Fits, tight or does not fit, in the words that users read."""
        return np.where(self.fits_surely, FITS, np.where(self.fits, TIGHT, DOES_NOT_FIT))


COUNTED = (
    *("weights", "gradients", "optimizer", "adapters", "gathered", "buffers", "activations", "logits", "step"),
    "reused",
)


def training_memory(
    arch: Architecture,
    recipe: Recipe,
    layouts: TrainingLayouts,
    device_bytes: Floats,
    constants: TrainingMemoryConstants,
    host_memory_bytes: Floats = math.inf,
    states: ModelStates | None = None,
) -> TrainingMemory:
    """The memory of every layout on its device; `device_bytes` is one size, or one of each device that layouts name.

    So is `host_memory_bytes`, that of the machines. `states` are those of `model_states`, where they are known already.

    states + max(activations + logits, gradients + step) where gradients live for one step alone, else gradients +
    max(activations + logits, step); times what the allocator adds   [bytes]
    """
    states = states or model_states(arch, recipe, layouts, constants)
    kept = activations(arch, recipe, layouts, constants)
    terms = _counted(states, kept, layouts)
    ratio, workspace = constants.allocator_ratio.value, constants.workspace_bytes.value
    counted = sum(terms.values(), np.zeros(len(layouts)))
    expected = counted * ratio + workspace
    peak = Band.of(constants.peak_ratio).scaled(expected)
    joined = np.where(layouts.num_devices > 1, 1.0, 0.0)
    return TrainingMemory(
        device_bytes=_of_devices(device_bytes, layouts),
        **terms,
        workspace=expected - counted,
        peak=peak,
        context=Band.of(constants.context_bytes).scaled(np.ones(len(layouts))),
        communication=Band.of(constants.communication_bytes).scaled(joined),
        fragmentation=Band.of(constants.fragmentation_ratio).scaled(peak.expected),
        host_bytes=states.host + kept.host,
        host_need_bytes=host_need_bytes(states.host + kept.host, layouts, constants),
        host_memory_bytes=_of_devices(host_memory_bytes, layouts),
    )


def host_need_bytes(host_bytes: FloatArray, layouts: TrainingLayouts, constants: TrainingMemoryConstants) -> FloatArray:
    """What a machine must have beside its GPUs: system + GPUs x (process + pinned x what lies there of each)   [bytes].

    GPUs: those of the layout that one machine holds.
    """
    of_gpu = constants.host_process_bytes.value + constants.host_pinned_ratio.value * host_bytes
    on_machine = np.minimum(layouts.num_devices, layouts.ranks_per_node)
    return np.asarray(constants.host_system_bytes.value + on_machine * of_gpu)


def _of_devices(device_bytes: Floats, layouts: TrainingLayouts) -> FloatArray:
    sizes = np.atleast_1d(np.asarray(device_bytes, dtype=np.float64))
    return sizes[layouts.device] if len(sizes) > 1 else np.full(len(layouts), sizes[0])


def _counted(states: ModelStates, kept: Activations, layouts: TrainingLayouts) -> dict[str, FloatArray]:
    """Every counted term; `reused` is what the two ends of a step share.

    The backward pass begins with all activations and the first gradient, and ends with all gradients and the step of
    the optimizer. Logits are freed before the first layer is recomputed; the last stage keeps fewer micro-batches.
    """
    of_layers = kept.kept + kept.working + kept.gathered
    of_last = kept.kept_last + np.maximum(kept.logits, kept.working) + kept.gathered
    logits = np.maximum(of_last - of_layers, 0.0)
    begins = of_layers + logits
    head = np.where(states.frees_gradients, states.head_gradient, 0.0)
    ends = states.step + np.where(states.frees_gradients, states.last_gradients, 0.0)
    always = np.where(states.frees_gradients, 0.0, states.gradients)
    gradients = states.gradients + head
    return {
        "weights": states.weights,
        "gradients": gradients,
        "optimizer": states.master + states.optimizer,
        "adapters": states.adapters,
        "gathered": states.gathered,
        "buffers": states.buffers,
        "activations": of_layers,
        "logits": logits,
        "step": states.step,
        "reused": always + np.maximum(begins + head, ends) - (gradients + begins + states.step),
    }


def trainable_share(arch: Architecture, recipe: Recipe) -> float:
    """Share of all weights that learn: 1, or adapters over adapters and model.

    >>> from gpufleet.domain.architecture import Attention, Block, DenseMlp
    >>> from gpufleet.domain.training import ADAMW, BF16_PURE, Adapter, Method
    >>> layer = Block(32, Attention(32, 32, 128), DenseMlp(11008, True), 2 * 4096)
    >>> llama = Architecture("llama-2-7b", "llama", 4096, 32000, (layer,), False, 4096, vector_params=4096)
    >>> round(trainable_share(llama, Recipe(Method.LORA, BF16_PURE, ADAMW, 2048, Adapter(8, ("q", "v")))), 5)
    0.00062
    """
    if recipe.adapter is None:
        return 1.0
    adapters = num_adapter_parameters(arch, recipe.adapter)
    return adapters / (adapters + num_parameters(arch))


def checkpoint_bytes(arch: Architecture, recipe: Recipe) -> float:
    """Bytes of a checkpoint that training resumes from: what learns, its master weights and optimizer states.

    trained weights x (weight + master + states); the frozen model is not written again   [bytes]
    AdamW beside 16-bit weights and fp32 master weights: 14 bytes per weight (Megatron-LM, arXiv:2104.04473, section
    5.10: 13.8 TB for 1 trillion).
    """
    learns = num_parameters(arch) if recipe.adapter is None else num_adapter_parameters(arch, recipe.adapter)
    master, _, states = trained_bytes_per_parameter(recipe)
    return learns * (recipe.formats.weight_bytes + master + states)


def training_terms(
    arch: Architecture,
    recipe: Recipe,
    layouts: TrainingLayouts,
    device_bytes: Floats,
    constants: TrainingMemoryConstants,
) -> list[Term]:
    """The terms of the first of these layouts, with their formulas and the numbers put in."""
    one = layouts.take(np.array([0]))
    memory = training_memory(arch, recipe, one, device_bytes, constants)
    numbers = _numbers(arch, recipe, one, constants)
    amounts = {name: float(getattr(memory, name)[0]) for name in COUNTED}
    counted = [
        Term(name, amount, "bytes", FORMULAS[name][0], numbers[name], FORMULAS[name][1])
        for name, amount in amounts.items()
        if amount
    ]
    judged = {"context": memory.context, "communication": memory.communication, "fragmentation": memory.fragmentation}
    low, high = float(np.asarray(memory.peak.low)[0]), float(np.asarray(memory.peak.high)[0])
    workspace = Term(
        "allocator",
        float(memory.workspace[0]),
        "bytes",
        "counted x (ratio - 1) + workspace",
        f"ratio {constants.allocator_ratio.value:.4g}; the whole peak within {low:,.0f} to {high:,.0f} bytes",
        constants.allocator_ratio.source,
    )
    return [*counted, workspace, *(_judged(name, band, constants) for name, band in judged.items())]


def _judged(name: str, band: Band, constants: TrainingMemoryConstants) -> Term:
    constant = {f.name.rpartition("_")[0]: getattr(constants, f.name) for f in fields(constants)}[name]
    low, value, high = (float(np.asarray(end)[0]) for end in (band.low, band.expected, band.high))
    return Term(
        name,
        value,
        "bytes",
        "judged",
        f"{constant.value:.4g} {constant.unit}",
        constant.source,
        Grade.TRANSFERRED,
        low,
        high,
    )


FORMULAS = {
    "weights": ("weights of the fullest stage x bytes, / ranks under ZeRO-3", STATE_SOURCE),
    "gradients": ("trained weights x bytes, / ranks from ZeRO-2 on", STATE_SOURCE),
    "optimizer": ("trained weights x (master + states), / ranks from ZeRO-1 on", STATE_SOURCE),
    "adapters": (
        "rank (outputs + inputs) x (weight + gradient + master + states)",
        "Hu et al. 2021, arXiv:2106.09685",
    ),
    "gathered": ("blocks in use x block + end + one block's gradients", "Zhao et al. 2023, arXiv:2304.11277 (FSDP)"),
    "buffers": ("gradients, copied into buckets", "PyTorch, DistributedDataParallel"),
    "activations": ("tokens x layers of a stage x kept per token x micro-batches in flight", ACTIVATION_SOURCE),
    "logits": ("tokens x vocabulary / tp x bytes per logit", "measured peaks of LitGPT and torchtune"),
    "step": ("largest matrix x fp32 copies of weight and states", "torchao, AdamW8bit"),
    "reused": (
        "max(activations + logits, gradients + step) less their sum",
        "peak of a step: the larger of the two ends of its backward pass",
    ),
}
"""Formula and source of each counted term."""


def _numbers(
    arch: Architecture, recipe: Recipe, one: TrainingLayouts, constants: TrainingMemoryConstants
) -> dict[str, str]:
    """The numbers that the formula of each counted term takes."""
    master, gradient, states = trained_bytes_per_parameter(recipe)
    layout = _layout_in_words(one)
    width = recipe.base.name if recipe.is_frozen_base else f"{recipe.formats.weight_bytes:g} B"
    tokens = float(one.tokens_per_micro_batch(recipe)[0])
    mode = Recompute(int(one.recompute[0])).name.lower()
    in_flight = float(microbatches_in_flight(one)[0])
    logit = bytes_per_logit(recipe, constants).value
    return {
        "weights": f"{num_parameters(arch):,} parameters at {width}, {layout}",
        "gradients": f"{gradient:g} B each, {layout}",
        "optimizer": f"{master:g} + {states:g} B ({recipe.optimizer.name}), {layout}",
        "adapters": f"rank {recipe.adapter.rank} on {', '.join(recipe.adapter.modules)}" if recipe.adapter else "none",
        "gathered": f"{constants.gathered_blocks.value:g} blocks, {layout}",
        "buffers": f"{gradient:g} B each, {layout}",
        "activations": f"{tokens:,.0f} tokens, {in_flight:.4g} in flight, recompute {mode}",
        "logits": f"{tokens:,.0f} tokens, vocabulary {arch.vocab_size:,}, {logit:.3g} B",
        "step": f"{constants.widened_state_bytes.value:g} B per weight",
        "reused": "gradients arise while activations are freed",
    }


def _layout_in_words(one: TrainingLayouts) -> str:
    degrees = ", ".join(f"{name.upper()} {int(getattr(one, name)[0])}" for name in ("tp", "pp", "cp", "dp", "ep"))
    return f"{degrees}, {Sharding(int(one.sharding[0])).label}"
