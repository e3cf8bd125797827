"""Steps of several loads in one evaluation: the same equations, a third of the time where candidates are few."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import field
from itertools import accumulate
from typing import TypeAlias

import numpy as np

from gpufleet.domain.arrays import FloatArray, Floats
from gpufleet.performance.draft_groups import Drafts
from gpufleet.performance.kernel_groups import StepGroup
from gpufleet.performance.step import Found, StepLoad, StepModel, StepParts
from gpufleet.records import dataclass

Key: TypeAlias = tuple[bytes | float, ...]
ONE_CANDIDATE = np.ones(1)


@dataclass(frozen=True)
class Foreseen:
    """Seconds of one load: of all executions of each operator, [operator, row], and of the step in its own shape."""

    parts: StepParts
    executed_s: FloatArray
    seconds: FloatArray

    def terms(self, load: StepLoad) -> dict[str, FloatArray]:
        """Seconds by operator."""
        shape = self.seconds.shape
        return self.parts.terms(self.executed_s.T.reshape(*shape[:-1], -1, shape[-1]), load)


@dataclass(frozen=True)
class ForeseenSteps(StepModel):
    """A step model of one candidate that remembers the loads it was told of; others are computed when asked for.

    What depends on no load is that of `asked`, the model that it was made of.
    """

    known: dict[Key, Foreseen] = field(default_factory=dict)
    asked: StepModel = field(kw_only=True)

    @classmethod
    def of(cls, model: StepModel) -> ForeseenSteps:
        """A model that remembers nothing yet."""
        return cls(model.arch, model.candidates, model.hardware, asked=model)

    @property
    def groups(self) -> tuple[StepGroup, ...]:
        """The operators by kernel."""
        return self.asked.groups

    @property
    def drafts(self) -> Drafts | None:
        """What the engines draft with."""
        return self.asked.drafts

    @property
    def num_kernels(self) -> FloatArray:
        """Kernels that a decode step launches."""
        return self.asked.num_kernels

    @property
    def num_calls(self) -> FloatArray:
        """Calls by which the host launches them."""
        return self.asked.num_calls

    def once(self, figure: Callable[[StepModel], Found]) -> Found:
        """What a function of the model alone finds."""
        return self.asked.once(figure)

    def foresee(self, loads: Sequence[StepLoad]) -> list[FloatArray]:
        """Seconds of these loads, computed at once: their rows side by side as if each were a candidate of its own."""
        shapes = [np.broadcast(ONE_CANDIDATE, *_figures(load)).shape for load in loads]
        ends = [0, *accumulate(map(math.prod, shapes))]
        rows = np.empty((4, ends[-1]))
        for load, shape, start, end in zip(loads, shapes, ends, ends[1:], strict=False):
            own = rows[:, start:end].reshape(4, *shape)
            own[0], own[1], own[2], own[3] = _figures(load)
        together = StepLoad(*rows)
        parts = self.parts_run(together)
        executed_s = parts.executed_s(super().evaluated(together), ())
        seconds = np.add.reduce(executed_s, axis=0)
        each = []
        for load, shape, start, end in zip(loads, shapes, ends, ends[1:], strict=False):
            each.append(seconds[start:end].reshape(shape))
            self.known[_key(load)] = Foreseen(parts, executed_s[:, start:end], each[-1])
        return each

    def terms(self, load: StepLoad) -> dict[str, FloatArray]:
        """Seconds by operator, remembered."""
        found = self.known.get(_key(load))
        return super().terms(load) if found is None else found.terms(load)

    def seconds(self, load: StepLoad) -> FloatArray:
        """Seconds of the whole step, remembered."""
        found = self.known.get(_key(load))
        return super().seconds(load) if found is None else found.seconds


def _figures(load: StepLoad) -> tuple[Floats, ...]:
    return load.decoding, load.decode_context_tokens, load.prefilling, load.prompt_tokens


def _key(load: StepLoad) -> Key:
    return tuple(figure.tobytes() if isinstance(figure, np.ndarray) else figure for figure in _figures(load))
