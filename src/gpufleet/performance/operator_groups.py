"""Operators of a step or a pass, written down one by one and gathered by the kernel that executes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count as counted_up
from typing import TypeAlias

import numpy as np

from gpufleet.domain.arrays import FloatArray, Floats
from gpufleet.domain.calibration import GemmCurves, StreamFormula
from gpufleet.performance.gemm import quantised_bytes
from gpufleet.performance.kernel_groups import (
    PROMPT_TOKENS,
    TOKENS,
    Part,
    Products,
    PromptProducts,
    StepGroup,
    Streams,
    stacked,
)

Product: TypeAlias = tuple[Part, GemmCurves, int, Floats, Floats]
Stream: TypeAlias = tuple[Part, StreamFormula, int, Floats, Floats]
QUANTISATION = "quantisation"


class OperatorGroups:
    """Operators in the order that a token meets them; sizes are scalars or one element per candidate.

    `formula` times kernels that only move memory; `element_bytes` is what an element takes that flows between kernels.
    """

    def __init__(
        self, num_candidates: int, bandwidth_bytes_per_s: FloatArray, formula: StreamFormula, element_bytes: float
    ) -> None:
        self.num_candidates = num_candidates
        self.bandwidth_bytes_per_s = bandwidth_bytes_per_s
        self.formula = formula
        self.element_bytes = element_bytes
        self.others: list[StepGroup] = []
        self._products: list[Product] = []
        self._prompt_products: list[Product] = []
        self._streams: list[Stream] = []
        self._places = counted_up(1)

    def part(self, name: str, kernel: str, count: int) -> Part:
        """The next operator that a token meets, `count` times."""
        return Part(name, kernel, count, next(self._places))

    def part_of_next(self, name: str, kernel: str, count: int) -> Part:
        """The same of an operator that the host launches by the call of the one after it."""
        return replace(self.part(name, kernel, count), in_call_of_next=True)

    def add_product(
        self,
        name: str,
        curves: GemmCurves,
        n: Floats,
        k: Floats,
        count: int,
        seen: int = TOKENS,
        quantised_apart: Floats = 1.0,
        slowdown: Floats = 1.0,
    ) -> None:
        """A product with an [n, k] matrix, of as many rows as `StepTokens.counted` holds in its row `seen`.

        Input that it takes in fewer bits is quantised by a kernel of its own (1), which takes `slowdown` times as long
        for a byte as the formula says, or by what wrote it (0).
        """
        moved_bytes = quantised_bytes(curves, k) * quantised_apart
        self.add_pass(QUANTISATION, self.formula, moved_bytes, count, seen, slowdown)
        self._products.append((self.part(name, "gemm", count), curves, seen, n, k))

    def add_prompt_product(self, name: str, curves: GemmCurves, n: Floats, k: Floats, count: int) -> None:
        """A product with an [n, k] matrix that only prompts need."""
        self._prompt_products.append((self.part(name, "gemm", count), curves, PROMPT_TOKENS, n, k))

    def add_stream(self, name: str, elements: Floats, count: int) -> None:
        """An element-wise kernel that reads and writes so many elements for each token that is counted first."""
        part, moved_bytes = self.part(name, "elementwise", count), elements * self.element_bytes
        self._streams.append((part, self.formula, TOKENS, moved_bytes, 1.0))

    def add_pass(
        self,
        name: str,
        formula: StreamFormula,
        moved_bytes: Floats,
        count: int,
        seen: int = TOKENS,
        slowdown: Floats = 1.0,
    ) -> None:
        """An element-wise kernel over the input of the next product; none where no candidate moves any bytes."""
        if np.any(moved_bytes):
            self._streams.append((self.part_of_next(name, "elementwise", count), formula, seen, moved_bytes, slowdown))

    def groups(self) -> tuple[StepGroup, ...]:
        """All of them."""
        return (*self.product_groups(), *self.others, *self.stream_groups())

    def product_groups(self) -> list[Products]:
        """Its products: those of every step, and those that only prompts need."""
        gathered = ((Products, self._products), (PromptProducts, self._prompt_products))
        return [self._product_group(kind, rows) for kind, rows in gathered if rows]

    def _product_group(self, kind: type[Products], rows: Sequence[Product]) -> Products:
        parts, curves, seen, n, k = zip(*rows, strict=True)
        return kind(parts, curves, stacked(curves), np.array(seen), self._stacked(n), self._stacked(k))

    def stream_groups(self) -> list[Streams]:
        """Its element-wise kernels, a group for each formula."""
        return [self._stream_group(formula) for formula in dict.fromkeys(stream[1] for stream in self._streams)]

    def _stream_group(self, formula: StreamFormula) -> Streams:
        of_formula = (stream for stream in self._streams if stream[1] == formula)
        parts, _, seen, moved_bytes, slowdown = zip(*of_formula, strict=True)
        moved, slowdowns = self._stacked(moved_bytes), self._stacked(slowdown)
        return Streams(parts, formula, self.bandwidth_bytes_per_s, moved, np.array(seen), slowdowns)

    def _stacked(self, sizes: Sequence[Floats]) -> FloatArray:
        return np.stack([np.broadcast_to(np.asarray(size, dtype=np.float64), self.num_candidates) for size in sizes])
