"""Steps of several loads in one evaluation: the same equations, a third of the time where candidates are few."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from gpufleet.domain.arrays import FloatArray, Floats
from gpufleet.performance.kernel_groups import KernelGroup
from gpufleet.performance.layer_operators import OVER_PROMPTS
from gpufleet.performance.step import StepLoad, StepModel


@dataclass(frozen=True)
class ForeseenSteps(StepModel):
    """A step model that remembers the loads it was told of; any other load is computed when it is asked for."""

    known: dict[bytes, dict[str, FloatArray]] = field(default_factory=dict)
    kernels: tuple[KernelGroup, ...] = ()

    @classmethod
    def of(cls, model: StepModel) -> ForeseenSteps:
        """A model that remembers nothing yet."""
        return cls(model.arch, model.candidates, model.hardware, {}, model.groups)

    @property
    def groups(self) -> tuple[KernelGroup, ...]:
        """Those of the model that it was made of."""
        return self.kernels

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
        terms = super().terms(StepLoad(*rows))
        for i, load in enumerate(loads):
            self.known[_key(load)] = {
                name: seconds[ends[i] : ends[i + 1]].reshape(shapes[i])
                for name, seconds in terms.items()
                if name != OVER_PROMPTS or load.has_prefill
            }

    def terms(self, load: StepLoad) -> dict[str, FloatArray]:
        """Seconds by operator, remembered."""
        key = _key(load)
        if key not in self.known:
            self.known[key] = super().terms(load)
        return self.known[key]

    def seconds(self, load: StepLoad) -> FloatArray:
        """Seconds of the whole step."""
        return np.asarray(sum(self.terms(load).values()), dtype=np.float64)


def _figures(load: StepLoad) -> tuple[Floats, ...]:
    return load.decoding, load.decode_context_tokens, load.prefilling, load.prompt_tokens


def _key(load: StepLoad) -> bytes:
    return b"|".join(np.asarray(figure, dtype=np.float64).tobytes() for figure in _figures(load))
