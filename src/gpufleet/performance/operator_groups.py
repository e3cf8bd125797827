"""Operators of a step or a pass, written down one by one and gathered by the kernel that executes them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count as counted_up
from typing import TypeAlias, TypeVar

import numpy as np

from gpufleet.domain.arrays import FloatArray, Floats
from gpufleet.domain.calibration import GemmCurves, StreamFormula
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

SomeProducts = TypeVar("SomeProducts", bound=Products)
Product: TypeAlias = tuple[Part, GemmCurves, int, Floats, Floats]


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
        self._streams: list[tuple[Part, Floats]] = []
        self._places = counted_up(1)

    def part(self, name: str, kernel: str, count: int) -> Part:
        """The next operator that a token meets, `count` times."""
        return Part(name, kernel, count, next(self._places))

    def apart(self) -> OperatorGroups:
        """Operators met next that are gathered apart from the others."""
        others = OperatorGroups(self.num_candidates, self.bandwidth_bytes_per_s, self.formula, self.element_bytes)
        others._places = self._places
        return others

    def add_product(self, name: str, curves: GemmCurves, n: Floats, k: Floats, count: int, seen: int = TOKENS) -> None:
        """A product with an [n, k] matrix, of as many rows as `StepTokens.counted` holds in its row `seen`."""
        self._products.append((self.part(name, "gemm", count), curves, seen, n, k))

    def add_prompt_product(self, name: str, curves: GemmCurves, n: Floats, k: Floats, count: int) -> None:
        """A product with an [n, k] matrix that only prompts need."""
        self._prompt_products.append((self.part(name, "gemm", count), curves, PROMPT_TOKENS, n, k))

    def add_stream(self, name: str, elements: Floats, count: int) -> None:
        """An element-wise kernel that reads and writes so many elements for each token that is counted first."""
        self._streams.append((self.part(name, "elementwise", count), elements * self.element_bytes))

    def groups(self) -> tuple[StepGroup, ...]:
        """All of them."""
        gathered = ((Products, self._products), (PromptProducts, self._prompt_products))
        products = [self._product_group(kind, rows) for kind, rows in gathered if rows]
        streams = [self.all_streams()] if self._streams else []
        return (*products, *self.others, *streams)

    def products_of(self, kind: type[SomeProducts]) -> SomeProducts:
        """Its plain products, at least one, as a group of this kind."""
        return self._product_group(kind, self._products)

    def _product_group(self, kind: type[SomeProducts], rows: Sequence[Product]) -> SomeProducts:
        parts, curves, seen, n, k = zip(*rows, strict=True)
        return kind(parts, curves, stacked(curves), np.array(seen), self._stacked(n), self._stacked(k))

    def all_streams(self) -> Streams:
        """Its element-wise kernels, at least one."""
        parts, moved_bytes = zip(*self._streams, strict=True)
        return Streams(parts, self.formula, self.bandwidth_bytes_per_s, self._stacked(moved_bytes))

    def _stacked(self, sizes: Sequence[Floats]) -> FloatArray:
        return np.stack([np.broadcast_to(np.asarray(size, dtype=np.float64), self.num_candidates) for size in sizes])
