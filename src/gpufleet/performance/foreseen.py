"""Steps of several loads in one evaluation: the same equations, a third of the time where candidates are few."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from gpufleet.domain.arrays import FloatArray, Floats
from gpufleet.performance.kernel_groups import KernelGroup
from gpufleet.performance.step import Evaluated, Found, StepLoad, StepModel, total_s


@dataclass(frozen=True)
class Foreseen:
    """One load among `together`, of which it has some rows."""

    load: StepLoad
    shape: tuple[int, ...]
    rows: slice
    seconds: FloatArray
    together: list[Evaluated]

    @property
    def evaluated(self) -> list[Evaluated]:
        """The groups that this load runs."""
        return [
            (group, seconds[self.rows].reshape(*self.shape[:-1], len(group.parts), self.shape[-1]))
            for group, seconds in self.together
            if self.load.has_prefill or not group.is_of_prompts
        ]


@dataclass(frozen=True)
class ForeseenSteps(StepModel):
    """A step model that remembers the loads it was told of; any other load is computed when it is asked for.

    What depends on no load is that of `asked`, the model that it was made of.
    """

    known: dict[bytes, Foreseen] = field(default_factory=dict)
    asked: StepModel = field(kw_only=True)

    @classmethod
    def of(cls, model: StepModel) -> ForeseenSteps:
        """A model that remembers nothing yet."""
        return cls(model.arch, model.candidates, model.hardware, asked=model)

    @property
    def groups(self) -> tuple[KernelGroup, ...]:
        """The operators by kernel."""
        return self.asked.groups

    @property
    def num_kernels(self) -> FloatArray:
        """Kernels that a decode step launches."""
        return self.asked.num_kernels

    def once(self, figure: Callable[[StepModel], Found]) -> Found:
        """What a function of the model alone finds."""
        return self.asked.once(figure)

    def foresee(self, loads: Sequence[StepLoad]) -> None:
        """Compute these loads at once, as rows of one load."""
        one = np.ones(len(self.candidates))
        shapes = [np.broadcast(one, *_figures(load)).shape for load in loads]
        ends = [0]
        for shape in shapes:
            ends.append(ends[-1] + math.prod(shape[:-1]))
        rows = np.empty((4, ends[-1], len(one)))
        for i, load in enumerate(loads):
            for figure, column in zip(_figures(load), rows, strict=True):
                column[ends[i] : ends[i + 1]].reshape(shapes[i])[...] = figure
        evaluated = super().evaluated(StepLoad(*rows))
        seconds = total_s(evaluated)
        for i, load in enumerate(loads):
            own = slice(ends[i], ends[i + 1])
            self.known[_key(load)] = Foreseen(load, shapes[i], own, seconds[own].reshape(shapes[i]), evaluated)

    def evaluated(self, load: StepLoad) -> list[Evaluated]:
        """Every group of operators that the step runs, remembered."""
        found = self.known.get(_key(load))
        return super().evaluated(load) if found is None else found.evaluated

    def seconds(self, load: StepLoad) -> FloatArray:
        """Seconds of the whole step, remembered."""
        found = self.known.get(_key(load))
        return super().seconds(load) if found is None else found.seconds


def _figures(load: StepLoad) -> tuple[Floats, ...]:
    return load.decoding, load.decode_context_tokens, load.prefilling, load.prompt_tokens


def _key(load: StepLoad) -> bytes:
    return b"|".join(np.asarray(figure, dtype=np.float64).tobytes() for figure in _figures(load))
