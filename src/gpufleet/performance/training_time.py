"""Layouts of a training step with what times them: kernels, figures of machines, what every rank holds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from gpufleet.architecture.flops import prompt_score_flop
from gpufleet.architecture.parameters import num_active_parameters, parameter_parts
from gpufleet.domain.accelerator import Accelerator
from gpufleet.domain.architecture import Architecture
from gpufleet.domain.arrays import FloatArray, Floats
from gpufleet.domain.training import AttentionKernel, Recipe, Recompute, TrainingLayouts, TrainingMachine
from gpufleet.domain.training_time import TrainingTimeConstants
from gpufleet.performance.training_kernels import KernelModel, Kernels, Shards
from gpufleet.records import dataclass
from gpufleet.units import GB

LANES, FIRST_GENERATION = 16, 3
NVFP4 = "nvfp4"
CARDS, CARDS_OF = "12.", "Blackwell card"
FORWARD_AND_BACKWARD, FROZEN = 3.0, 2.0
"""Passes of products over every weight: forward, gradients of inputs, gradients of weights (of which LoRA has none)."""


@dataclass(frozen=True, eq=False)
class TrainingTime:
    """The step of a model under a recipe in many layouts; `software_year` dates the software, None is unknown.

    Steps of one's own took `measured_ratio` times as long as predicted, of each layout or of all; `range_ratio` is left
    of their ranges.
    """

    model: KernelModel
    layouts: TrainingLayouts
    constants: TrainingTimeConstants
    software_year: float | None = None
    measured_ratio: Floats = 1.0
    range_ratio: Floats = 1.0

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
    launched_ratio: FloatArray

    @classmethod
    def of(
        cls,
        machines: Sequence[TrainingMachine],
        constants: TrainingTimeConstants,
        recipe: Recipe,
        software_year: float | None,
    ) -> MachineFigures:
        """The figures that a recipe meets on each machine."""
        narrow = "sustained_nvfp4" if recipe.formats.arithmetic == NVFP4 else "sustained_fp8"
        rows = []
        for machine in machines:
            gpu, generation = machine.accelerator, kernel_generation(machine.accelerator)
            peaks = gpu.peak_flop_per_s
            rows.append(
                (
                    peaks.get("bf16") or peaks.get("fp16") or peaks.get("fp32") or np.nan,
                    gpu.bandwidth_bytes_per_s,
                    machine.link_bytes_per_s or np.inf,
                    machine.network_bytes_per_s or np.inf,
                    slot_bytes_per_s(gpu.pcie_generation),
                    machine.num_gpus,
                    constants.of("sustained", generation),
                    constants.of(narrow, generation),
                    attention_ratio(constants, recipe.attention, generation),
                    immature_ratio(constants, gpu.release_year, software_year),
                    launched_ratio(constants, generation, software_year),
                )
            )
        return cls(*np.array(rows, dtype=np.float64).T)


def kernel_generation(gpu: Accelerator) -> str:
    """The generation whose kernels run on a GPU: cards of Blackwell (compute capability 12) are none of B200's.

    >>> from gpufleet.catalog.load import load_catalog
    >>> [kernel_generation(load_catalog().accelerators[name]) for name in ("B200", "RTX-5090")]
    ['Blackwell', 'Blackwell card']
    """
    return CARDS_OF if (gpu.compute_capability or "").startswith(CARDS) else gpu.generation


def attention_ratio(constants: TrainingTimeConstants, kernel: AttentionKernel, generation: str) -> float:
    """Share of the peak that kernels of attention reach on long sequences of a generation's GPUs.   [1]"""
    if kernel is AttentionKernel.FUSED:
        return constants.of("attention_fused", generation)
    older = constants.value("flash_1_ratio") if kernel is AttentionKernel.FLASH_1 else 1.0
    return constants.of("attention_flash_2", generation) * older


def launched_ratio(constants: TrainingTimeConstants, generation: str, software_year: float | None) -> float:
    """Share of launching experts one by one that remains where a generation's software groups them; 1 before.   [1]

    Software that nobody dates is taken to lie between: the geometric mean of both.
    """
    grouped, since = constants.value("expert_grouped_ratio"), constants.of("expert_grouped_year", generation)
    if software_year is None and math.isfinite(since):
        return math.sqrt(grouped)
    return grouped if software_year is not None and software_year >= since else 1.0


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


def tokens_of(time: TrainingTime) -> FloatArray:
    """Tokens of a micro-batch on a rank of each shard."""
    return np.asarray(time.shards.micro_batch * time.recipe.sequence_tokens / time.shards.cp, dtype=np.float64)


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


def trained_ratio(time: TrainingTime) -> float:
    """Share of the weights that have gradients; of adapters next to none, which hides entirely."""
    return 0.0 if time.recipe.is_frozen_base else 1.0


def tokens_per_s_per_gpu(time: TrainingTime, step_s: FloatArray) -> FloatArray:
    """Tokens of the global batch over the step and the GPUs that work.   [tokens/s]"""
    layouts = time.layouts
    return np.asarray(layouts.global_batch * time.recipe.sequence_tokens / step_s / layouts.num_devices)


def flop_per_token(time: TrainingTime, row: int) -> tuple[float, float]:
    """Operations of a token that the model needs, and that the hardware does with what is computed again.

    2 x active weights of products and the causal half of attention, x 3 (x 2 where they are frozen)   [FLOP]
    """
    arch, sequence = time.arch, time.recipe.sequence_tokens
    parts = parameter_parts(arch)
    matrices = (
        num_active_parameters(arch) - parts.embedding - parts.vectors + (parts.embedding if not parts.head else 0)
    )
    scores = sum(b.count * float(np.asarray(prompt_score_flop(b.mixer, sequence))) for b in arch.blocks) / sequence
    passes = FROZEN if time.recipe.is_frozen_base else FORWARD_AND_BACKWARD
    model = passes * 2 * matrices + FORWARD_AND_BACKWARD * scores
    again = {Recompute.NONE: 0.0, Recompute.SELECTIVE: 0.0 if time.recipe.flash else scores}
    repeated = again.get(Recompute(int(time.layouts.recompute[row])), 2 * matrices + scores)
    return model, model + repeated
