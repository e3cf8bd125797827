"""The layouts that a number of GPUs allows one replica of a model to take."""

from __future__ import annotations

import numpy as np

from gpufleet.domain.architecture import Architecture
from gpufleet.domain.arrays import IntArray
from gpufleet.domain.layout import Layout
from gpufleet.domain.precision import WeightFormat
from gpufleet.domain.reason import Reason
from gpufleet.layout.feasible import refusal
from gpufleet.records import dataclass


@dataclass(frozen=True)
class LayoutColumns:
    """Layouts as equal-length arrays."""

    tp: IntArray
    pp: IntArray
    ep: IntArray
    attention_dp: IntArray

    @classmethod
    def of(cls, layouts: list[Layout]) -> LayoutColumns:
        """One row per layout."""
        columns = np.array([(x.tp, x.pp, x.ep, x.attention_dp) for x in layouts], dtype=np.int64).reshape(-1, 4)
        return cls(*columns.T)

    def __len__(self) -> int:
        return len(self.tp)

    def row(self, index: int) -> Layout:
        """One layout as a noun."""
        return Layout(int(self.tp[index]), int(self.pp[index]), int(self.ep[index]), int(self.attention_dp[index]))


def divisors(number: int) -> list[int]:
    """Whole numbers that divide `number`, rising.

    >>> divisors(12)
    [1, 2, 3, 4, 6, 12]
    """
    return [d for d in range(1, number + 1) if number % d == 0]


def conceivable_layouts(arch: Architecture, num_devices: int, *, by_layer: bool = False) -> list[Layout]:
    """Layouts of one replica on exactly `num_devices` GPUs, before any rule: fewest pipeline stages first.

    Attention-DP only for mixtures of experts; EP spans the ranks of a stage or none of them, as vLLM and SGLang do.
    `by_layer`: of an engine that gives each GPU a run of layers (`EngineProfile.splits_by_layer`).
    """
    if by_layer:
        return [Layout(pp=num_devices)]
    return [
        Layout(tp=stage // attention_dp, pp=num_devices // stage, ep=ep, attention_dp=attention_dp)
        for stage in reversed(divisors(num_devices))
        for attention_dp in (divisors(stage) if arch.is_moe else [1])
        for ep in ([1, stage] if arch.is_moe and stage > 1 else [1])
    ]


def enumerate_layouts(
    arch: Architecture, num_devices: int, weights: WeightFormat | None = None, *, by_layer: bool = False
) -> LayoutColumns:
    """The possible layouts of one replica on exactly `num_devices` GPUs, as arrays."""
    conceivable = conceivable_layouts(arch, num_devices, by_layer=by_layer)
    return LayoutColumns.of([layout for layout in conceivable if refusal(arch, layout, weights) is None])


def refused_layouts(
    arch: Architecture, num_devices: int, weights: WeightFormat | None = None, *, by_layer: bool = False
) -> list[tuple[Layout, Reason]]:
    """The layouts that a rule excludes, each with its reason."""
    conceivable = conceivable_layouts(arch, num_devices, by_layer=by_layer)
    reasons = [(layout, refusal(arch, layout, weights)) for layout in conceivable]
    return [(layout, reason) for layout, reason in reasons if reason]
