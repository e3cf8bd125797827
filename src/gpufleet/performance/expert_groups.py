"""Experts of a step: the routed ones of one kind of layer, and shared ones that run after them or beside them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, reduce

import numpy as np

from gpufleet.domain.architecture import MixtureOfExperts
from gpufleet.domain.arrays import BoolArray, FloatArray
from gpufleet.domain.calibration import ExpertCurves
from gpufleet.performance.interpolation import Distinct, curve_s, log2, narrowed, rising
from gpufleet.performance.kernel_groups import (
    STAGE_TOKENS,
    TOKENS,
    KernelGroup,
    Products,
    StepGroup,
    StepTokens,
    Streams,
    Work,
)
from gpufleet.performance.moe import (
    RankLoad,
    busiest_rank,
    experts_bytes,
    experts_coordinates,
    experts_flop,
    experts_roofline_s,
    experts_rows,
)
from gpufleet.performance.operations import Operation
from gpufleet.performance.roofline import RowRoofline
from gpufleet.records import dataclass

SHORTEST_S = 1e-12
TILE_ROWS = 128.0  # reference dimension


@dataclass(frozen=True)
class RoutedExperts(KernelGroup):
    """Grouped products of the routed experts of one kind of layer.

    `few_rows_ratio`: how many times longer than measured kernels an engine's take whose tiles of TILE_ROWS rows of an
    expert are almost empty.
    """

    curves: ExpertCurves
    moe: MixtureOfExperts
    hidden_size: int
    ep: FloatArray
    moe_tp: FloatArray
    popularity_shape: float
    few_rows_ratio: FloatArray

    @cached_property
    def at_widths(self) -> ExpertCurves:
        """The curves for matrices of this size on this many ranks, rising over rows per expert and experts."""
        hidden, products, one = self.hidden_size, self._num_products, RankLoad(np.ones(1), np.ones(1))
        rows = Distinct.of(self.curves, self.moe.expert_width / self.moe_tp, self.ep)
        width, ep = rows.sizes
        place = experts_coordinates(one, hidden, width, ep)
        curves = narrowed(rows.curves, place, ("log2 hidden", "log2 width", "log2 ep"))

        def roofline_s(at: Sequence[FloatArray]) -> FloatArray:
            return experts_roofline_s(curves, RankLoad(at[0] * at[1], at[1]), hidden, width, products)

        return rows.spread(self.curves, rising(curves, roofline_s))

    @cached_property
    def roofline(self) -> RowRoofline:
        """Least seconds of a layer's routed experts, by rows and experts."""
        return experts_rows(self.curves, self.hidden_size, self.moe.expert_width / self.moe_tp, self._num_products)

    @cached_property
    def log_sizes(self) -> tuple[FloatArray, ...]:
        """Where hidden size, width and ranks stand in the grid."""
        one = RankLoad(np.ones(1), np.ones(1))
        return experts_coordinates(one, self.hidden_size, self.moe.expert_width / self.moe_tp, self.ep)[2:]

    @property
    def _num_products(self) -> int:
        return 3 if self.moe.gated else 2

    def seconds(self, at: StepTokens) -> FloatArray:
        """Seconds of each layer's routed experts; see `experts_s`."""
        return self.timed(at)[0]

    def timed(self, at: StepTokens) -> tuple[FloatArray, FloatArray]:
        """Seconds of each layer's routed experts, and those at peak."""
        load = self._load(at)
        coordinates = (log2(load.rows / load.experts), log2(load.experts), *self.log_sizes)
        least_s = self.roofline.seconds_in(load.experts, load.rows)
        seconds = curve_s(self.at_widths, least_s, coordinates)
        return seconds * self._in_tiles(load) if self._is_tuned_anywhere else seconds, least_s

    @cached_property
    def _is_tuned_anywhere(self) -> bool:
        return bool(np.any(self.few_rows_ratio != 1))

    def _in_tiles(self, load: RankLoad) -> FloatArray:
        """1 + (r - 1) max(1 - rows of an expert / TILE_ROWS, 0)   [1]."""
        empty = np.maximum(1 - load.rows / load.experts / TILE_ROWS, 0.0)
        return np.asarray(1 + (self.few_rows_ratio - 1) * empty)

    def work(self, at: StepTokens) -> Work:
        """The weights of every active expert once, and the rows that they work on."""
        width = self.moe.expert_width / self.moe_tp
        products, kernel_bytes = self._num_products, self.curves.bytes_per_element
        load = self._load(at)
        return Work.on_device(
            self.curves,
            {"rows": load.rows, "active experts": load.experts, "hidden": float(self.hidden_size), "width": width},
            experts_flop(load.rows, self.hidden_size, width, products),
            experts_bytes(load.experts, load.rows, self.hidden_size, width, products, kernel_bytes),
        )

    def curves_of(self, part: int) -> ExpertCurves:
        """Grouped products."""
        return self.curves

    def _load(self, at: StepTokens) -> RankLoad:
        tokens = at.counted[..., STAGE_TOKENS : STAGE_TOKENS + 1, :]
        return busiest_rank(tokens, self.moe.num_experts, self.moe.top_k, self.ep, self.popularity_shape)


@dataclass(frozen=True)
class ExpertsTogether(StepGroup):
    """Routed experts of one kind of layer, and products and element-wise kernels of its shared experts.

    In steps of decoding of up to `beside_tokens` tokens of a rank the engine runs the shared ones on a second stream
    beside the routed ones; 0: never.
    """

    routed: RoutedExperts
    shared: tuple[Products | Streams, ...]
    beside_tokens: FloatArray

    @classmethod
    def of(
        cls, routed: RoutedExperts, shared: Sequence[Products | Streams], beside_tokens: FloatArray
    ) -> ExpertsTogether:
        """All parts of them, in this order."""
        parts = (part for group in (routed, *shared) for part in group.parts)
        return cls(tuple(parts), routed, tuple(shared), beside_tokens)

    def seconds(self, at: StepTokens) -> FloatArray:
        """Seconds of each part, of which those that run at once hide some of each other's."""
        timed = [group.timed(at) for group in self._groups]
        alone_s, is_beside = np.concatenate([seconds for seconds, _ in timed], axis=-2), self._is_beside(at)
        if not is_beside.any():
            return alone_s
        least_s = np.concatenate([least for _, least in timed], axis=-2)
        return np.where(is_beside, side_by_side_s(alone_s, least_s), alone_s)

    def operations(self, at: StepTokens, seconds: FloatArray | None = None) -> list[Operation]:
        """The parts one by one with their work."""
        each = self.seconds(at) if seconds is None else seconds
        ends = np.cumsum([len(group.parts) for group in self._groups])[:-1]
        parted = zip(self._groups, np.split(each, ends, axis=-2), strict=True)
        return [operation for group, of_group in parted for operation in group.operations(at, of_group)]

    @property
    def is_supported(self) -> BoolArray:
        """Candidates whose device has a curve for all of them."""
        return reduce(np.logical_and, (group.is_supported for group in self._groups))

    @property
    def num_kernels(self) -> FloatArray | float:
        """Those of all of them."""
        return sum((group.num_kernels for group in self._groups), 0.0)

    @property
    def num_calls(self) -> FloatArray | float:
        """Those of all of them."""
        return sum((group.num_calls for group in self._groups), 0.0)

    @property
    def _groups(self) -> tuple[RoutedExperts | Products | Streams, ...]:
        return self.routed, *self.shared

    def _is_beside(self, at: StepTokens) -> BoolArray:
        is_short = at.counted[..., TOKENS : TOKENS + 1, :] <= self.beside_tokens
        return np.asarray(is_short & ~at.is_prefilling)


def side_by_side_s(alone_s: FloatArray, least_s: FloatArray) -> FloatArray:
    """Seconds of routed experts (the first row) and of all kernels of shared ones on a stream beside them.

    T = max(t_routed, sum of t_shared, sum of rooflines): two streams end with the longer one, and no sooner than the
    device could have done the work of both. Each kernel keeps its roofline r and the same share of the rest:
    r + (t - r) (T - sum of r) / sum of (t - r)   [s]

    >>> side_by_side_s(np.array([[5.0], [2.0], [1.0]]), np.array([[4.0], [1.0], [0.5]])).tolist()
    [[4.0], [1.0], [0.5]]
    """
    shared_s = alone_s[..., 1:, :].sum(axis=-2, keepdims=True)
    least_sum_s, beyond_s = least_s.sum(axis=-2, keepdims=True), alone_s - least_s
    together_s = np.maximum(np.maximum(alone_s[..., :1, :], shared_s), least_sum_s)
    beyond_sum_s = np.maximum(beyond_s.sum(axis=-2, keepdims=True), SHORTEST_S)
    return np.asarray(least_s + beyond_s * ((together_s - least_sum_s) / beyond_sum_s))
