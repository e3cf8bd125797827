"""Whether a step of training fits given GPUs: the fastest layout that does, and the most that it has room for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from gpufleet.domain.architecture import Architecture
from gpufleet.domain.arrays import FloatArray
from gpufleet.domain.calibration import Calibration
from gpufleet.domain.confidence import HIGH_END
from gpufleet.domain.training import Recipe, TrainingLayouts, TrainingMachine
from gpufleet.domain.training_constants import TrainingMemoryConstants
from gpufleet.domain.training_time import TrainingTimeConstants
from gpufleet.layout.training import Cluster, Drop, Grid, training_layouts
from gpufleet.memory.training import TrainingMemory, training_memory
from gpufleet.optimize.training_machines import HostMemory, host_with, rising_memory
from gpufleet.performance.queueing import normal_quantile
from gpufleet.performance.training import step_terms
from gpufleet.performance.training_kernels import KernelModel
from gpufleet.performance.training_time import TrainingTime
from gpufleet.records import dataclass

MOST_MICRO_BATCH, SEQUENCE_STEP_TOKENS = 4096, 256


@dataclass(frozen=True, eq=False)
class TrainingFitQuestion:
    """A model under a recipe on so many GPUs of one kind of machine; a layout fits with `confidence`.

    `hosts` are machine types that hold them, those of fewest GPUs first: what lies outside of the GPUs takes the first
    that is large enough.
    """

    arch: Architecture
    recipe: Recipe
    machine: TrainingMachine
    num_gpus: int
    global_batch: int
    grid: Grid
    time: TrainingTimeConstants
    memory: TrainingMemoryConstants
    calibration: Calibration
    confidence: float
    hosts: tuple[HostMemory, ...] = ()

    @property
    def cluster(self) -> Cluster:
        """The GPUs."""
        return Cluster(0, self.machine, self.num_gpus)


@dataclass(frozen=True, eq=False)
class TrainingPlace:
    """The layout that is chosen, alone in its arrays, with the largest settings for which it has room."""

    question: TrainingFitQuestion
    layouts: TrainingLayouts
    num_layouts: int

    @property
    def time(self) -> TrainingTime:
        """Its step."""
        return timed(self.question, self.layouts)

    @property
    def memory(self) -> TrainingMemory:
        """Its memory."""
        return memory_of(self.question, self.layouts)

    @property
    def fits(self) -> bool:
        """Whether the expected total has room."""
        return bool(self.memory.fits[0])

    @property
    def host(self) -> HostMemory | None:
        """The machine type that holds what lies outside of the GPUs, or has most; None where nothing lies there."""
        need_bytes = float(self.memory.host_need_bytes[0])
        return host_with(self.question.hosts, need_bytes) if self.question.recipe.uses_host_memory else None


def allowed_layouts(question: TrainingFitQuestion) -> tuple[TrainingLayouts, list[Drop]]:
    """Every layout of the GPUs that the rules allow, and how many each rule dropped."""
    q = question
    return training_layouts(q.arch, q.recipe, q.cluster, q.global_batch, q.grid)


def best_place(question: TrainingFitQuestion) -> TrainingPlace | None:
    """The layout on the smallest machines whose memory lets any fit, else on those with most of it; None: none."""
    place = None
    for host in rising_memory(question.hosts) if question.recipe.uses_host_memory else ():
        machine = replace(question.machine, host_memory_bytes=host.memory_bytes)
        place = best_on_machine(replace(question, machine=machine))
        if place is None or place.fits:
            return place
    return place or best_on_machine(question)


def best_on_machine(question: TrainingFitQuestion) -> TrainingPlace | None:
    """The fastest layout that fits surely, else as expected; None: there is none.

    Else the one with least host memory of those that fit the GPUs, else the one with least memory.
    """
    layouts, _ = allowed_layouts(question)
    if not len(layouts):
        return None
    memory = memory_of(question, layouts)
    expected = np.asarray(memory.total.expected)
    sure = (short_bytes(question, memory) <= 0) & memory.fits_host
    for fitting in (sure, memory.fits):
        if fitting.any():
            kept = layouts.take(fitting)
            row = int(np.argmin(step_terms(timed(question, kept)).total))
            return TrainingPlace(question, kept.take(np.array([row])), len(layouts))
    of_gpu = expected <= memory.device_bytes
    missing = np.where(of_gpu, memory.host_need_bytes, np.inf) if of_gpu.any() else expected
    return TrainingPlace(question, layouts.take(np.array([int(np.argmin(missing))])), len(layouts))


def memory_of(question: TrainingFitQuestion, layouts: TrainingLayouts) -> TrainingMemory:
    """The memory of layouts on these GPUs."""
    q = question
    machine = q.machine
    return training_memory(
        q.arch, q.recipe, layouts, machine.accelerator.memory_bytes, q.memory, machine.host_memory_bytes
    )


def short_bytes(question: TrainingFitQuestion, memory: TrainingMemory) -> FloatArray:
    """Bytes that each layout lacks with the confidence of the question; none where it is not above zero."""
    expected, high = np.asarray(memory.total.expected), np.asarray(memory.total.high)
    surer = normal_quantile(question.confidence) / normal_quantile(HIGH_END)
    return np.asarray(expected + surer * (high - expected) - memory.device_bytes)


def timed(question: TrainingFitQuestion, layouts: TrainingLayouts) -> TrainingTime:
    """The step of layouts on these GPUs."""
    model = KernelModel(question.arch, question.recipe, (question.machine,), question.calibration)
    return TrainingTime(model, layouts, question.time)


def largest_micro_batch(place: TrainingPlace) -> int | None:
    """The largest micro-batch that fits surely, all else kept; one that fits as it is counts. None: not even one."""
    own = int(place.layouts.micro_batch[0])
    found = largest(lambda size: fits_surely(place.question, with_micro_batch(place.layouts, size)), MOST_MICRO_BATCH)
    return max(found or 0, own if place.fits else 0) or None


def with_micro_batch(layouts: TrainingLayouts, size: int) -> TrainingLayouts:
    """The same with another micro-batch, and as many of them."""
    return TrainingLayouts(**{**layouts.columns(), "micro_batch": np.full(len(layouts), size)})


def longest_sequence(place: TrainingPlace) -> int | None:
    """The longest sequence that fits surely, all else kept, in steps of 256 tokens; None: not even such a one."""
    q = place.question
    limit, own = int(q.arch.max_context_tokens), int(q.recipe.sequence_tokens)
    step = max(SEQUENCE_STEP_TOKENS, 2 * int(place.layouts.cp[0]))
    if fits_surely(with_sequence(q, limit), place.layouts):
        return limit
    found = largest(lambda steps: fits_surely(with_sequence(q, steps * step), place.layouts), limit // step)
    return max(step * (found or 0), own if place.fits else 0) or None


def with_sequence(question: TrainingFitQuestion, tokens: int) -> TrainingFitQuestion:
    """The same with sequences of another length."""
    return replace(question, recipe=replace(question.recipe, sequence_tokens=float(tokens)))


def fits_surely(question: TrainingFitQuestion, layouts: TrainingLayouts) -> bool:
    """Whether a layout fits with the confidence of the question."""
    memory = memory_of(question, layouts)
    return bool(short_bytes(question, memory)[0] <= 0 and memory.fits_host[0])


def largest(holds: Callable[[int], bool], most: int) -> int | None:
    """The largest whole number up to `most` for which something holds that holds for all smaller ones.

    >>> largest(lambda n: n * n < 50, 100), largest(lambda n: False, 100)
    (7, None)
    """
    low, high = 0, most + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low or None
