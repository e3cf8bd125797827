"""Passes of a draft model that propose what a step of the model verifies: arrays are [..., operator, candidate]."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np

from gpufleet.domain.architecture import Architecture, Draft
from gpufleet.domain.arrays import BoolArray, FloatArray
from gpufleet.domain.calibration import Calibration
from gpufleet.domain.candidates import Candidates
from gpufleet.domain.precision import BF16, WeightFormat
from gpufleet.performance.hardware import Hardware
from gpufleet.performance.kernel_groups import StepGroup, StepTokens
from gpufleet.performance.layer_operators import kernel_groups
from gpufleet.performance.operations import Operation
from gpufleet.records import dataclass

PASSES_OF_DRAFT = "passes of the draft"
AFTER_ALL = 1_000_000


@dataclass(frozen=True)
class DraftGroup(StepGroup):
    """Operators of a draft that are timed together, in as many `passes` as it drafts tokens; those of prompts once."""

    group: StepGroup
    passes: FloatArray

    @classmethod
    def of(cls, group: StepGroup, passes: FloatArray) -> DraftGroup:
        """All parts of the group, counted as the draft's, after the model's own."""
        parts = tuple(replace(part, name=PASSES_OF_DRAFT, place=AFTER_ALL + part.place) for part in group.parts)
        return cls(parts, group, passes)

    def seconds(self, at: StepTokens) -> FloatArray:
        """Seconds of each part in all passes of a step."""
        return np.asarray(self.group.seconds(_of_draft(at)) * self._times)

    def operations(self, at: StepTokens, seconds: FloatArray | None = None) -> list[Operation]:
        """The parts of the first candidate one by one, as often as its draft passes, with the work of one pass."""
        times = max(int(self._times[0]), 1)
        found = self.group.operations(_of_draft(at), (self.seconds(at) if seconds is None else seconds) / times)
        return [replace(one, name=PASSES_OF_DRAFT, count=times * one.count) for one in found]

    @property
    def is_of_prompts(self) -> bool:
        """As the group."""
        return self.group.is_of_prompts

    @property
    def is_supported(self) -> BoolArray:
        """Those of the group, and all that draft nothing."""
        return np.asarray(self.group.is_supported | (self.passes <= 0))

    @property
    def num_kernels(self) -> FloatArray | float:
        """Those of all passes."""
        return self.group.num_kernels * self.passes

    @property
    def num_calls(self) -> FloatArray | float:
        """Those of all passes."""
        return self.group.num_calls * self.passes

    @cached_property
    def _times(self) -> FloatArray:
        return np.minimum(self.passes, 1.0) if self.is_of_prompts else self.passes


@dataclass(frozen=True, eq=False)
class Drafts:
    """A draft model beside the candidates whose engines draft, each over the ranks of its own layout."""

    model: Architecture
    passes: FloatArray
    groups: tuple[StepGroup, ...]

    @classmethod
    def of(cls, draft: Draft | None, candidates: Candidates, calibration: Calibration) -> Drafts | None:
        """The operators of its passes; None without a model that drafts."""
        if draft is None or draft.model is None or not candidates.drafts_any:
            return None
        passes = candidates.draft_passes
        own = as_draft(candidates, None if draft.shares_format else draft.model.weights)
        groups = kernel_groups(draft.model, own, Hardware(calibration, own))
        return cls(draft.model, passes, tuple(DraftGroup.of(group, passes) for group in groups))

    @property
    def num_reductions(self) -> FloatArray:
        """Sums over the ranks of tensor parallelism in all passes of a step."""
        return np.asarray(self.passes * self.model.num_reductions)


def own_format(draft: WeightFormat, weights: WeightFormat) -> WeightFormat:
    """The format of a draft's weights beside a model in one: 16 bits are those that the model runs in."""
    return WeightFormat.uniform(weights.base) if draft.name == BF16.name else draft


def as_draft(candidates: Candidates, own: WeightFormat | None) -> Candidates:
    """The same replicas with a draft in place of the model: one token at a time, in a format of its own."""
    palette = candidates.palette
    engines = tuple(engine.without_drafts() for engine in palette.engines)
    formats = tuple(own_format(own, weights) for weights in palette.weight_formats) if own else palette.weight_formats
    return Candidates(replace(palette, engines=engines, weight_formats=formats), **candidates.columns())


def _of_draft(at: StepTokens) -> StepTokens:
    assert at.drafting is not None, "only candidates that draft have groups of a draft"
    return at.drafting
