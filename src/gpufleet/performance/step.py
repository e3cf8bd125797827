"""Seconds of one engine step: every operator of every layer, on one GPU of a replica.

A step processes the tokens of `decoding` sequences (one each) and of `prefilling` prompts. Matrix products see all of
these tokens together, attention sees each kind on its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import Any, TypeAlias, TypeVar

import numpy as np

from gpufleet.domain.architecture import Architecture
from gpufleet.domain.arrays import BoolArray, FloatArray, Floats
from gpufleet.domain.calibration import Calibration
from gpufleet.domain.candidates import Candidates
from gpufleet.performance.hardware import Hardware, gather_hardware
from gpufleet.performance.kernel_groups import (
    COUNTED,
    HEAD_ROWS,
    PROMPT_TOKENS,
    STAGE_TOKENS,
    TOKENS,
    KernelGroup,
    StepTokens,
)
from gpufleet.performance.layer_operators import kernel_groups
from gpufleet.performance.operations import Operation


@dataclass(frozen=True)
class StepLoad:
    """What one step of a replica processes; counts are of the whole replica.

    decoding sequences at `decode_context_tokens`, and `prefilling` prompts of `prompt_tokens`.
    """

    decoding: FloatArray
    decode_context_tokens: Floats
    prefilling: Floats = 0.0
    prompt_tokens: Floats = 0.0

    @cached_property
    def has_prefill(self) -> bool:
        """Whether any candidate prefills in this step."""
        return bool(np.any(np.asarray(self.prefilling) * np.asarray(self.prompt_tokens) > 0))


Evaluated: TypeAlias = tuple[KernelGroup, FloatArray]
Found = TypeVar("Found")


@dataclass(frozen=True)
class StepModel:
    """One architecture on many candidates, with the hardware figures of each candidate gathered once."""

    arch: Architecture
    candidates: Candidates
    hardware: Hardware

    @classmethod
    def build(cls, arch: Architecture, candidates: Candidates, calibration: Calibration) -> StepModel:
        """Gather the curves of each candidate's accelerator, formats and link."""
        return cls(arch, candidates, gather_hardware(calibration, candidates))

    @cached_property
    def groups(self) -> tuple[KernelGroup, ...]:
        """The operators of a step by kernel; what they look like does not depend on the load."""
        return kernel_groups(self.arch, self.candidates, self.hardware)

    def operations(self, load: StepLoad) -> list[Operation]:
        """What the step executes, in the order that a token meets it."""
        at = step_tokens(load, self.candidates)
        placed = [(p.place, o) for g in _run(self.groups, at) for p, o in zip(g.parts, g.operations(at), strict=True)]
        return [operation for _, operation in sorted(placed, key=lambda pair: pair[0])]

    def terms(self, load: StepLoad) -> dict[str, FloatArray]:
        """Seconds by operator, summed over layers; the step is their sum.

        Pipeline stages work on `micro_batches` at once: a token passes all layers at batch / micro_batches.
        """
        return terms_of(self.evaluated(load))

    def evaluated(self, load: StepLoad) -> list[Evaluated]:
        """Every group of operators that the step runs, with the seconds of one execution of each."""
        at = step_tokens(load, self.candidates)
        return [(group, group.seconds(at)) for group in _run(self.groups, at)]

    @cached_property
    def is_supported(self) -> BoolArray:
        """Candidates whose device has a kernel curve for every operator in its precision."""
        supported = np.ones(len(self.candidates), dtype=np.bool_)
        for group in self.groups:
            supported &= group.is_supported
        return supported

    def once(self, figure: Callable[[StepModel], Found]) -> Found:
        """What a function of the model alone finds: computed once, however many loads are asked for."""
        if figure not in self._found:
            self._found[figure] = figure(self)
        found: Found = self._found[figure]
        return found

    @cached_property
    def _found(self) -> dict[Callable[[StepModel], Any], Any]:
        return {}

    @cached_property
    def num_kernels(self) -> FloatArray:
        """Kernels that a decode step launches."""
        nothing_to_prefill = step_tokens(StepLoad(np.ones(len(self.candidates)), 1.0), self.candidates)
        counts = [group.num_kernels for group in _run(self.groups, nothing_to_prefill)]
        return np.asarray(sum(counts) + np.zeros(len(self.candidates)))

    def seconds(self, load: StepLoad) -> FloatArray:
        """Seconds of the whole step."""
        return total_s(self.evaluated(load))


def total_s(evaluated: Iterable[Evaluated]) -> FloatArray:
    """Seconds of the whole step."""
    return np.asarray(sum(group.total_s(seconds) for group, seconds in evaluated), dtype=np.float64)


def terms_of(evaluated: Iterable[Evaluated]) -> dict[str, FloatArray]:
    """Seconds by operator, in the order that a token meets them."""
    placed: list[tuple[int, str, FloatArray]] = []
    for group, seconds in evaluated:
        of_all = seconds * group.counts
        placed += [(part.place, part.name, of_all[..., i, :]) for i, part in enumerate(group.parts)]
    terms: dict[str, FloatArray] = {}
    for _, name, of_part in sorted(placed, key=itemgetter(0)):
        terms[name] = terms[name] + of_part if name in terms else of_part
    return terms


def _run(groups: tuple[KernelGroup, ...], at: StepTokens) -> Iterator[KernelGroup]:
    return (group for group in groups if at.has_prefill or not group.is_of_prompts)


def step_tokens(load: StepLoad, candidates: Candidates) -> StepTokens:
    """What each group of ranks sees of a load; pipeline stages work on `micro_batches` at once."""
    c = candidates
    groups = np.asarray(c.attention_dp * c.micro_batches, dtype=np.float64)
    decoding, prefilling = _per_group(load.decoding, groups), _per_group(load.prefilling, groups)
    prompt = np.asarray(load.prompt_tokens, dtype=np.float64)
    *loads, rows = np.broadcast(decoding, prefilling, prompt).shape
    counted = np.empty((*loads, len(COUNTED), rows))
    counted[..., PROMPT_TOKENS, :] = prefilling * prompt
    counted[..., TOKENS, :] = decoding + counted[..., PROMPT_TOKENS, :]
    counted[..., HEAD_ROWS, :] = decoding + prefilling
    counted[..., STAGE_TOKENS, :] = (load.decoding + np.asarray(load.prefilling) * prompt) / c.micro_batches
    return StepTokens(
        decoding=decoding[..., None, :],
        decode_context_tokens=_operator_axis(load.decode_context_tokens),
        prefilling=prefilling[..., None, :],
        prompt_tokens=_operator_axis(np.where(prefilling > 0, prompt, 1.0)),
        counted=np.maximum(counted, 1.0),
        has_prefill=load.has_prefill,
    )


def _operator_axis(figure: Floats) -> FloatArray:
    figure = np.asarray(figure, dtype=np.float64)
    return figure[..., None, :] if figure.ndim else figure


def _per_group(count: Floats, groups: FloatArray) -> FloatArray:
    """Sequences of the busiest group: at least one while there are any."""
    count = np.asarray(count, dtype=np.float64)
    return np.where(count > 0, np.maximum(count / groups, 1.0), 0.0)
