"""Operators of a step that run the same kernel, evaluated together: arrays are [..., operator, candidate]."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from gpufleet.domain.arrays import BoolArray, FloatArray, Floats, IntArray
from gpufleet.domain.calibration import (
    CollectiveCurves,
    Curves,
    GemmCurves,
    StreamFormula,
)
from gpufleet.performance.collectives import (
    COLLECTIVES,
    collective_coordinates,
    exchange_s,
    link_bytes,
    of_kind,
    seconds_per_byte,
)
from gpufleet.performance.elementwise import elementwise_s
from gpufleet.performance.gemm import gemm_bytes, gemm_coordinates, gemm_flop, gemm_roofline_s, gemm_rows
from gpufleet.performance.interpolation import Distinct, curve_s, log2, narrowed, rising
from gpufleet.performance.operations import Operation
from gpufleet.performance.roofline import RowRoofline
from gpufleet.records import dataclass

COUNTED = TOKENS, HEAD_ROWS, STAGE_TOKENS, PROMPT_TOKENS = range(4)
AnyCurves = TypeVar("AnyCurves", bound=Curves)


@dataclass(frozen=True)
class StepTokens:
    """What one group of ranks sees of a load, each [..., 1, candidate].

    `queries` are the tokens of those that decode, one of each or as many as are verified, `caches` what they read: one
    of each, or of each query where an engine verifies them as sequences of their own. `counted` holds, along the
    operator axis, what matrix products and exchanges work on: tokens of the group (TOKENS), sequences that get a next
    token (HEAD_ROWS), tokens of all groups of a stage (STAGE_TOKENS) and tokens of prompts (PROMPT_TOKENS).
    `in_flight`: micro-batches that pipeline stages work on at once. `drafting`: what a pass of the draft sees.
    """

    decoding: FloatArray
    queries: FloatArray
    caches: FloatArray
    decode_context_tokens: FloatArray
    prefilling: FloatArray
    prompt_tokens: FloatArray
    counted: FloatArray
    in_flight: FloatArray
    is_decoding: BoolArray
    is_prefilling: BoolArray
    has_prefill: bool
    drafting: StepTokens | None = None

    @property
    def states_moved(self) -> FloatArray:
        """Recurrent states that are read and written: read once, written after every token that is verified."""
        return np.asarray((self.decoding + self.queries) / 2)


@dataclass(frozen=True)
class Part:
    """One operator: `count` executions in a step; `place` among all operators in the order that a token meets them.

    `in_call_of_next`: the host launches it by the call of the operator that comes next.
    """

    name: str
    kernel: str
    count: int
    place: int
    in_call_of_next: bool = False


@dataclass(frozen=True)
class Work:
    """Shape of the executions, what they compute and move, and the seconds of each at peak."""

    shape: dict[str, Floats]
    flop: Floats
    moved_bytes: Floats
    compute_s: Floats = 0.0
    memory_s: Floats = 0.0
    link_s: Floats = 0.0

    @classmethod
    def on_device(cls, curves: Curves, shape: dict[str, Floats], flop: Floats, moved_bytes: Floats) -> Work:
        """Work that needs arithmetic and memory of the device."""
        compute_s = flop / curves.peak_flop_per_s
        return cls(shape, flop, moved_bytes, compute_s, moved_bytes / curves.bandwidth_bytes_per_s)


@dataclass(frozen=True)
class StepGroup(ABC):
    """Operators of a step that are timed together."""

    parts: tuple[Part, ...]

    @abstractmethod
    def seconds(self, at: StepTokens) -> FloatArray:
        """Seconds of one execution of each part."""

    @abstractmethod
    def operations(self, at: StepTokens, seconds: FloatArray | None = None) -> list[Operation]:
        """The parts one by one, taking these `seconds` where they are known."""

    @property
    @abstractmethod
    def is_supported(self) -> BoolArray:
        """Candidates whose device has a curve for every part."""

    @property
    def is_of_prompts(self) -> bool:
        """Whether only steps that prefill run the operators."""
        return False

    @cached_property
    def counts(self) -> FloatArray:
        """Executions of each part, as a column."""
        return np.array([[part.count] for part in self.parts], dtype=np.float64)

    def total_s(self, seconds: FloatArray) -> FloatArray:
        """Seconds of all executions of all parts, per candidate, where one execution of each takes these."""
        total: FloatArray = np.add.reduce(seconds * self.counts, axis=-2)
        return total

    @property
    def num_kernels(self) -> FloatArray | float:
        """Kernels that a decode step launches for all parts, per candidate."""
        return float(sum(part.count for part in self.parts))

    @property
    def num_calls(self) -> FloatArray | float:
        """Calls by which the host launches them, per candidate."""
        return self.num_kernels


@dataclass(frozen=True)
class KernelGroup(StepGroup):
    """Operators that one kernel executes."""

    @abstractmethod
    def work(self, at: StepTokens) -> Work:
        """What one execution of each part does."""

    @abstractmethod
    def curves_of(self, part: int) -> Curves | CollectiveCurves | None:
        """The measured curves that a part takes its time from."""

    @property
    def formula_fixed_s(self) -> float:
        """Fixed seconds of a kernel that a formula times; nothing where curves do."""
        return 0.0

    def is_executed(self, at: StepTokens) -> BoolArray | bool:
        """Candidates that execute them."""
        return True

    @property
    def is_supported(self) -> BoolArray:
        """Those whose device has a curve for every part."""
        curves = (self.curves_of(i) for i in range(len(self.parts)))
        return np.asarray(np.all([c.is_supported for c in curves if c is not None], axis=0))

    def operations(self, at: StepTokens, seconds: FloatArray | None = None) -> list[Operation]:
        """The parts one by one with their work."""
        each = np.broadcast_to(self.seconds(at) if seconds is None else seconds, self._shape(at))
        work = self.work(at)
        return [self._operation(i, at, work, each) for i in range(len(self.parts))]

    def _shape(self, at: StepTokens) -> tuple[int, ...]:
        return (*at.counted.shape[:-2], len(self.parts), at.counted.shape[-1])

    def _operation(self, index: int, at: StepTokens, work: Work, seconds: FloatArray) -> Operation:
        part, curves = self.parts[index], self.curves_of(index)

        def row(figure: Floats) -> FloatArray:
            return np.broadcast_to(np.asarray(figure, dtype=np.float64), seconds.shape)[..., index, :]

        def done(figure: Floats) -> FloatArray:
            return row(np.where(self.is_executed(at), figure, 0.0))

        return Operation(
            name=part.name,
            kernel=part.kernel,
            count=part.count,
            shape=tuple((label, row(size)) for label, size in work.shape.items()),
            seconds=row(seconds),
            flop=done(work.flop),
            moved_bytes=done(work.moved_bytes),
            compute_s=done(work.compute_s),
            memory_s=done(work.memory_s),
            link_s=done(work.link_s),
            fixed_s=self.formula_fixed_s if curves is None else curves.grids.fixed_s,
            curves=curves,
        )


def as_met(found: Iterable[tuple[StepGroup, Iterable[Operation]]]) -> list[Operation]:
    """The operations of these groups in the order that a token meets them."""
    placed = [(part.place, one) for group, each in found for part, one in zip(group.parts, each, strict=True)]
    return [operation for _, operation in sorted(placed, key=lambda pair: pair[0])]


@dataclass(frozen=True)
class OfPrompts(KernelGroup):
    """Operators that only prompts need."""

    @property
    def is_of_prompts(self) -> bool:
        """They are."""
        return True

    def is_executed(self, at: StepTokens) -> BoolArray:
        """Where there is a prompt."""
        return at.is_prefilling


def stacked(curves: Sequence[AnyCurves]) -> AnyCurves:
    """Curves over the same grids, one row for each."""
    names = [f.name for f in fields(curves[0]) if f.name != "grids"]
    rows: dict[str, Any] = {name: np.stack([getattr(c, name) for c in curves]) for name in names}
    return replace(curves[0], **rows)


@dataclass(frozen=True)
class Products(KernelGroup):
    """Dense matrix products [m, k] x [k, n]; `seen` says what m counts, as a row of `StepTokens.counted`."""

    curves: tuple[GemmCurves, ...]
    stack: GemmCurves
    seen: IntArray
    n: FloatArray
    k: FloatArray

    @cached_property
    def at_widths(self) -> GemmCurves:
        """The curves at the n and k of each product, rising over tokens."""
        rows = Distinct.of(self.stack, self.n, self.k)
        n, k = rows.sizes
        curves = narrowed(rows.curves, gemm_coordinates(1.0, n, k), ("log2 n", "log2 k"))
        return rows.spread(self.stack, rising(curves, lambda at: gemm_roofline_s(curves, at[0], n, k)))

    @cached_property
    def roofline(self) -> RowRoofline:
        """Least seconds of each product, by rows."""
        return gemm_rows(self.stack, self.n, self.k)

    @cached_property
    def log_widths(self) -> tuple[FloatArray, ...]:
        """Where n and k of each product stand in the grid."""
        return gemm_coordinates(1.0, self.n, self.k)[1:]

    def seconds(self, at: StepTokens) -> FloatArray:
        """Seconds of each product; see `gemm_s`."""
        return self.timed(at)[0]

    def timed(self, at: StepTokens) -> tuple[FloatArray, FloatArray]:
        """Seconds of each product, and those at peak."""
        m = self._m(at)
        least_s = self.roofline.seconds(m)
        return curve_s(self.at_widths, least_s, (log2(m), *self.log_widths)), least_s

    def work(self, at: StepTokens) -> Work:
        """Both operands once and the result once."""
        m, n, k, c = self._m(at), self.n, self.k, self.stack
        moved_bytes = gemm_bytes(m, n, k, c.bytes_per_element, c.activation_bytes_per_element)
        return Work.on_device(c, {"m": m, "n": n, "k": k}, gemm_flop(m, n, k), moved_bytes)

    def curves_of(self, part: int) -> GemmCurves:
        """Those of the part's precision."""
        return self.curves[part]

    def _m(self, at: StepTokens) -> FloatArray:
        return np.asarray(at.counted[..., self.seen, :])


@dataclass(frozen=True)
class PromptProducts(OfPrompts, Products):
    """Products that only prompts need: the latent expanded into keys and values."""

    def seconds(self, at: StepTokens) -> FloatArray:
        """Seconds of each product; 0 without prompts."""
        return np.where(self.is_executed(at), super().seconds(at), 0.0)


@dataclass(frozen=True)
class OfLastStage(StepGroup):
    """Operators of the last pipeline stage alone: it ends a token's pass for every micro-batch in flight."""

    group: StepGroup

    @classmethod
    def of(cls, group: StepGroup) -> OfLastStage:
        """All parts of the group."""
        return cls(group.parts, group)

    def seconds(self, at: StepTokens) -> FloatArray:
        """Seconds of each part for all micro-batches, as others of them pass before a token's next turn.

        T = layers + a t_head   [s]   a micro-batches over pp stages take turns of layers / pp, the last of which also
        makes logits; where a = pp, all wait for it: pp (layers / pp + t_head).
        """
        return self.group.seconds(at) * at.in_flight

    def operations(self, at: StepTokens, seconds: FloatArray | None = None) -> list[Operation]:
        """The parts one by one with the work of one micro-batch."""
        return self.group.operations(at, self.seconds(at) if seconds is None else seconds)

    @property
    def is_supported(self) -> BoolArray:
        """Those of the group."""
        return self.group.is_supported

    @property
    def num_kernels(self) -> FloatArray | float:
        """Those of the group."""
        return self.group.num_kernels

    @property
    def num_calls(self) -> FloatArray | float:
        """Those of the group."""
        return self.group.num_calls


@dataclass(frozen=True)
class Exchanges(KernelGroup):
    """Collectives; `seen` says what is exchanged, as a row of `StepTokens.counted`. One rank exchanges nothing."""

    curves: CollectiveCurves
    kind: IntArray
    seen: IntArray
    bytes_per_token: FloatArray
    num_ranks: FloatArray

    @cached_property
    def at_ranks(self) -> CollectiveCurves:
        """The curves of each kind for this many ranks."""
        return narrowed(of_kind(self.curves, self.kind), collective_coordinates(1.0, self.num_ranks), ("log2 ranks",))

    @cached_property
    def log_ranks(self) -> FloatArray:
        """Where the ranks stand in the grid."""
        return log2(self.num_ranks)

    @cached_property
    def link_s_per_byte(self) -> FloatArray:
        """Least seconds of each collective for each byte of its tensor."""
        return seconds_per_byte(self.curves, self.kind, self.num_ranks)

    @property
    def num_kernels(self) -> FloatArray:
        """Ranks that are alone launch nothing."""
        counts = np.array([[part.count] for part in self.parts], dtype=np.float64)
        return np.asarray(np.where(self.num_ranks > 1, counts, 0.0).sum(axis=0))

    @property
    def is_supported(self) -> BoolArray:
        """Candidates with one rank, or whose link is known."""
        is_known = self.curves.is_supported & (self.curves.link_bytes_per_s > 0)
        return np.asarray(np.all((self.num_ranks <= 1) | is_known, axis=0))

    def seconds(self, at: StepTokens) -> FloatArray:
        """Seconds of each collective."""
        if not self._is_needed:
            return np.zeros(self._shape(at))
        return exchange_s(self.at_ranks, self._size_bytes(at), self.num_ranks, self.link_s_per_byte, self.log_ranks)

    @cached_property
    def _is_needed(self) -> bool:
        return bool(np.any(self.num_ranks > 1))

    def work(self, at: StepTokens) -> Work:
        """What each rank sends over its link."""
        size_bytes = self._size_bytes(at)
        sent_bytes = link_bytes(self.kind, size_bytes, self.num_ranks)
        link = np.where(self.curves.link_bytes_per_s > 0, self.curves.link_bytes_per_s, np.inf)
        return Work({"bytes": size_bytes, "ranks": self.num_ranks}, 0.0, sent_bytes, link_s=sent_bytes / link)

    def curves_of(self, part: int) -> CollectiveCurves:
        """Those of the link."""
        return self.curves

    def _size_bytes(self, at: StepTokens) -> FloatArray:
        return np.asarray(at.counted[..., self.seen, :] * self.bytes_per_token)


@dataclass(frozen=True)
class Streams(KernelGroup):
    """Element-wise kernels, which only move memory; candidates without bytes do not launch them.

    `seen` says what the bytes are counted of, as a row of `StepTokens.counted`; `slowdown` how many times longer than
    by the formula a byte takes.
    """

    formula: StreamFormula
    bandwidth_bytes_per_s: FloatArray
    bytes_per_token: FloatArray
    seen: IntArray
    slowdown: FloatArray

    @property
    def formula_fixed_s(self) -> float:
        """That of its formula."""
        return self.formula.fixed_s.value

    def seconds(self, at: StepTokens) -> FloatArray:
        """Seconds of each kernel."""
        seconds = elementwise_s(self.formula, self.bandwidth_bytes_per_s / self.slowdown, self._size_bytes(at))
        return seconds if self._all_run else np.where(self.bytes_per_token > 0, seconds, 0.0)

    @cached_property
    def _all_run(self) -> bool:
        return bool(np.all(self.bytes_per_token > 0))

    def timed(self, at: StepTokens) -> tuple[FloatArray, FloatArray]:
        """Seconds of each kernel, and those at the bandwidth of the device."""
        return self.seconds(at), self._size_bytes(at) / self.bandwidth_bytes_per_s

    def is_executed(self, at: StepTokens) -> BoolArray:
        """Where there is anything to move."""
        return np.asarray(self.bytes_per_token > 0)

    @property
    def num_kernels(self) -> FloatArray:
        """Those that move anything."""
        return self._launched(self.counts)

    @property
    def num_calls(self) -> FloatArray:
        """Those that move anything and have a call of their own."""
        return self._launched(self.counts * [[not part.in_call_of_next] for part in self.parts])

    def _launched(self, counts: FloatArray) -> FloatArray:
        return np.asarray(np.where(self.bytes_per_token > 0, counts, 0.0).sum(axis=0))

    def work(self, at: StepTokens) -> Work:
        """What is read and written."""
        size_bytes = self._size_bytes(at)
        tokens = at.counted[..., self.seen, :]
        return Work({"tokens": tokens}, 0.0, size_bytes, memory_s=size_bytes / self.bandwidth_bytes_per_s)

    def curves_of(self, part: int) -> None:
        """None: a formula."""
        return

    def _size_bytes(self, at: StepTokens) -> FloatArray:
        return np.asarray(at.counted[..., self.seen, :] * self.bytes_per_token)


def kernel_of(kind: int) -> str:
    """The name of a collective as users read it.

    >>> kernel_of(0)
    'all-reduce'
    """
    return COLLECTIVES[kind].replace("_", "-")
