"""How many GPUs of one kind a training takes: the fewest that hold it, or that are done in time, and their layout."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property

import numpy as np

from gpufleet.api.training_estimates import estimate_training, usual_step_tokens
from gpufleet.catalog.calibration import calibration_of
from gpufleet.catalog.load import Catalog
from gpufleet.catalog.network import network_of_gpu
from gpufleet.catalog.training_constants import load_training_memory_constants
from gpufleet.catalog.training_time import load_training_time
from gpufleet.domain.accelerator import Accelerator
from gpufleet.domain.architecture import Architecture
from gpufleet.domain.arrays import BoolArray
from gpufleet.domain.training import Recipe, TrainingLayouts, TrainingMachine
from gpufleet.layout.training import FINE, Cluster, Grid, training_layouts
from gpufleet.memory.training import TrainingMemory, training_memory
from gpufleet.optimize.training_machines import trains_on, usual_training_machine
from gpufleet.performance.training import step_terms
from gpufleet.performance.training_kernels import KernelModel
from gpufleet.performance.training_time import TrainingTime
from gpufleet.provenance import Grade
from gpufleet.records import dataclass
from gpufleet.results.base import Figure
from gpufleet.results.training import TrainingEstimate

COUNTS = tuple(1 << power for power in range(14))
"""Numbers of GPUs that are tried: 1, 2, 4 to 8,192."""


@dataclass(frozen=True, eq=False)
class TrainingCounts:
    """A training on usual machines of one GPU, on any number of them.

    A step works on the usual number of tokens, rounded up so that all GPUs share it; a rank works on no more sequences
    at once than `most_micro_batch`, where that is said.
    """

    arch: Architecture
    recipe: Recipe
    accelerator: Accelerator
    tables: Catalog
    is_from_nothing: bool = False
    most_micro_batch: int | None = None

    @property
    def runs(self) -> bool:
        """Whether a training stack runs on these GPUs in the arithmetic of the recipe."""
        gpu = self.accelerator
        return trains_on(gpu, self.recipe.formats.peak)

    @cached_property
    def machine(self) -> TrainingMachine:
        """A full machine of these GPUs."""
        network = network_of_gpu(self.accelerator, self.tables.instances.values())
        return usual_training_machine(self.accelerator, network)

    @cached_property
    def grid(self) -> Grid:
        """The layouts that are searched."""
        most = self.most_micro_batch
        return FINE if most is None else replace(FINE, micro_batch=tuple({1, most, *self.below(most)}))

    @staticmethod
    def below(most: int) -> Iterator[int]:
        """Usual micro-batches that are no larger."""
        return (size for size in FINE.micro_batch if size <= most)

    def global_batch(self, num_gpus: int) -> int:
        """Sequences of a step: the usual tokens, so many that every rank has as many."""
        usual = usual_step_tokens(self.arch, is_from_nothing=self.is_from_nothing)
        return num_gpus * math.ceil(max(usual / self.recipe.sequence_tokens, 1.0) / num_gpus)

    def layouts(self, num_gpus: int) -> TrainingLayouts:
        """Every layout of so many GPUs that the rules allow."""
        cluster = Cluster(0, self.machine, num_gpus)
        return training_layouts(self.arch, self.recipe, cluster, self.global_batch(num_gpus), self.grid)[0]

    def memory(self, layouts: TrainingLayouts) -> TrainingMemory:
        """What layouts take of a GPU."""
        constants = load_training_memory_constants()
        return training_memory(self.arch, self.recipe, layouts, self.accelerator.memory_bytes, constants)

    def fastest(self, num_gpus: int) -> TrainingEstimate | None:
        """The fastest layout of so many GPUs that has room; None where none has."""
        layouts = self.layouts(num_gpus) if self.runs else None
        fitting = None if layouts is None or not len(layouts) else layouts.take(self.memory(layouts).fits)
        if fitting is None or not len(fitting):
            return None
        model = KernelModel(self.arch, self.recipe, (self.machine,), calibration_of(self.tables))
        steps = step_terms(TrainingTime(model, fitting, load_training_time())).total
        per_token = np.asarray(steps / fitting.global_batch)
        row = np.array([int(np.argmin(per_token))])
        return estimate_training(self.arch, self.recipe, fitting.take(row), self.machine, catalog=self.tables)

    def fewest(self, tokens: float = 0.0, within_s: float = math.inf) -> TrainingEstimate | None:
        """The fewest GPUs that have room and are done with these tokens in time; None where no number of them is."""
        found = (self.fastest(count) for count in COUNTS if self.runs)
        return next((each for each in found if each and seconds_for(each, tokens) <= within_s), None)

    def in_time_figure(self, tokens: float, within_s: float) -> Figure | None:
        """The fewest GPUs that are done in time: as expected, where steps are as short as may be, and as long."""
        ends: dict[str, TrainingEstimate | None] = dict.fromkeys(("high", "value", "low"))
        for found in filter(None, (self.fastest(count) for count in COUNTS if self.runs)):
            for end in ends:
                ends[end] = ends[end] or (found if seconds_for(found, tokens, end) <= within_s else None)
            if ends["low"] is not None:
                break
        low, value, high = (None if each is None else float(each.num_gpus) for each in ends.values())
        grade = Grade.TRANSFERRED.label if ends["value"] is None else ends["value"].speed.tokens_per_s_per_gpu.grade
        return None if value is None else Figure(value=value, unit="GPUs", low=low, high=high, grade=grade)

    def fewest_figure(self) -> Figure | None:
        """The fewest GPUs that have room: as expected, at the low end of what they take, and at the high end."""
        low, expected, high = (self.first_that_fits(end) for end in ("low", "expected", "high"))
        if expected is None:
            return None
        return Figure(value=expected, unit="GPUs", low=low, high=high, grade=Grade.TRANSFERRED.label)

    def first_that_fits(self, end: str) -> float | None:
        """The fewest GPUs that have room at one end of what they take."""
        return next((float(count) for count in COUNTS if self.runs and self.fits_at(count, end).any()), None)

    def fits_at(self, num_gpus: int, end: str) -> BoolArray:
        """Which layouts of so many GPUs have room at one end of what they take."""
        layouts = self.layouts(num_gpus)
        if not len(layouts):
            return np.zeros(0, dtype=np.bool_)
        memory = self.memory(layouts)
        return np.asarray(getattr(memory.total, end) <= memory.device_bytes)


def seconds_for(estimate: TrainingEstimate, tokens: float, end: str = "value") -> float:
    """Seconds that so many tokens take at the expected rate or at its low or high end, nothing lost to stops.

    tokens / (tokens per second and GPU x GPUs)   [s]
    """
    rate = getattr(estimate.speed.tokens_per_s_per_gpu, end)
    return tokens / (float(rate) * estimate.num_gpus)
