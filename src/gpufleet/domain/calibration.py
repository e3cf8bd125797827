"""Measured kernels of every accelerator as stacked arrays, and the small bundles of them that candidates gather.

A grid holds ln(measured seconds / (roofline seconds + fixed seconds)): dimensionless, so that peaks and bandwidths
stay with the `Accelerator` and a curve can be lent to a GPU that nobody measured.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from gpufleet.domain.arrays import BoolArray, FloatArray, Floats, IntArray, Ints
from gpufleet.domain.precision import PRECISIONS
from gpufleet.errors import UnknownName
from gpufleet.provenance import Grade, Sourced
from gpufleet.records import dataclass

PRECISION_INDEX: Mapping[str, int] = {name: index for index, name in enumerate(PRECISIONS)}
UNSUPPORTED = -1
EVERY_ENGINE = ""
MIXER_OPERATORS = (
    "delta_decode",
    "delta_prefill",
    "kda_decode",
    "kda_prefill",
    "index_decode",
    "index_prefill",
    "index_choice",
    "sparse_prefill",
    "block_prefill",
)
OWN_KERNELS = (EVERY_ENGINE, "vllm", "sglang", "tensorrt-llm")
GENERAL_KERNELS = ("vllm general", "tensorrt-llm general")
"""Experts as an engine runs them where it takes no kernels made for the device."""
NCCL = "nccl"
"""Collectives of engines that have no all-reduce of their own."""
ENGINES_WITH_KERNELS = (*OWN_KERNELS, *GENERAL_KERNELS, NCCL)


@dataclass(frozen=True)
class Axis:
    """One coordinate of a grid: `count` knots from `low` (log2 of the quantity), `step` apart."""

    name: str
    low: float
    step: float
    count: int

    def __post_init__(self) -> None:
        if self.count < 2 or not self.step > 0:
            raise ValueError(f"axis {self.name}: needs two knots and a positive step, found {self.count}, {self.step}")


@dataclass(frozen=True, eq=False)
class Grids:
    """Tables of one operator over the same axes; `values[table, ...]` is the log ratio to the roofline.

    `reads` says which of an operator's coordinates each axis takes, where the grid was narrowed; empty: all, in order.
    """

    axes: tuple[Axis, ...]
    values: FloatArray
    fixed_s: float
    reads: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        expected = tuple(axis.count for axis in self.axes)
        if self.values.shape[1:] != expected:
            raise ValueError(f"grids: tables of shape {self.values.shape[1:]} on axes of {expected} knots")

    @cached_property
    def strides(self) -> tuple[int, ...]:
        """Values between two knots of each axis, where all values lie in one row."""
        return strides_of(self.axes)

    @cached_property
    def in_a_row(self) -> FloatArray:
        """All values, table after table."""
        return self.values.reshape(-1)

    @cached_property
    def climbs(self) -> FloatArray:
        """What each value in the row lacks to its neighbour along the last axis."""
        return np.diff(self.values, axis=-1, append=self.values[..., -1:]).reshape(-1)


def strides_of(axes: Sequence[Axis]) -> tuple[int, ...]:
    """Cells between two knots of each axis; the last axis runs fastest.

    >>> strides_of((Axis("log2 m", 0.0, 1.0, 15), Axis("log2 n", 5.0, 1.0, 12)))
    (12, 1)
    """
    return tuple(math.prod(axis.count for axis in axes[i + 1 :]) for i in range(len(axes)))


def first_cells(table: IntArray, axes: Sequence[Axis]) -> IntArray:
    """Where the table of each candidate begins; that of one without a table is the first."""
    cells: IntArray = np.maximum(table, 0) * math.prod(axis.count for axis in axes)
    return cells


@dataclass(frozen=True, eq=False)
class Curves:
    """One operator for an array of candidates.

    `table` is UNSUPPORTED where the device cannot run the operator in this precision; `log_slowdown` widens a borrowed
    curve, `lost_ratio` says how much the device lacks, at least, of bandwidth and peak of the one that was measured;
    `low_ratio` and `high_ratio` bound measured / predicted seconds at the 10th and 90th percentile.
    """

    grids: Grids
    table: IntArray
    peak_flop_per_s: FloatArray
    bandwidth_bytes_per_s: FloatArray
    bytes_per_element: FloatArray
    log_slowdown: FloatArray
    lost_ratio: FloatArray
    grade: IntArray
    low_ratio: FloatArray
    high_ratio: FloatArray

    @cached_property
    def first_cell(self) -> IntArray:
        """Where the table of each candidate begins among the values of the grids."""
        return first_cells(self.table, self.grids.axes)

    @property
    def is_supported(self) -> BoolArray:
        """Whether the device runs this operator in this precision."""
        return self.table > UNSUPPORTED

    @cached_property
    def is_supported_everywhere(self) -> bool:
        """Whether the devices of all candidates do."""
        return bool(self.is_supported.all())

    @cached_property
    def is_slower_anywhere(self) -> bool:
        """Whether any candidate's curve was borrowed from a faster kernel."""
        return bool(np.any(self.log_slowdown))

    @cached_property
    def is_weaker_anywhere(self) -> bool:
        """Whether any candidate's curve was borrowed from a device with more bandwidth and a higher peak."""
        return bool(np.any(self.lost_ratio))


@dataclass(frozen=True, eq=False)
class ProductCurves(Curves):
    """Matrix products; `bytes_per_element` of the weights."""

    activation_bytes_per_element: FloatArray


@dataclass(frozen=True, eq=False)
class GemmCurves(ProductCurves):
    """Dense matrix products."""


@dataclass(frozen=True, eq=False)
class ExpertCurves(ProductCurves):
    """Grouped matrix products of routed experts."""


@dataclass(frozen=True, eq=False)
class AttentionCurves:
    """Attention over the KV cache and over prompts; `bytes_per_element` of the KV cache.

    `window`: what a sliding window costs beyond decode over as many tokens.
    """

    decode: Curves
    prefill: Curves
    window: Curves


@dataclass(frozen=True, eq=False)
class LatentAttentionCurves:
    """Multi-head latent attention: absorbed decode, prefill core, and the two batched products around the decode."""

    decode: Curves
    prefill: Curves
    absorb: Curves


@dataclass(frozen=True, eq=False)
class CollectiveCurves:
    """Collectives over one kind of link: four tables each (all-reduce, all-gather, reduce-scatter, all-to-all).

    Those of candidates `through_host` pass the memory of the host, as `host` says.
    """

    grids: Grids
    table: IntArray
    link_bytes_per_s: FloatArray
    grade: IntArray
    low_ratio: FloatArray
    high_ratio: FloatArray
    through_host: BoolArray
    host: HostExchangeFormula

    @cached_property
    def first_cell(self) -> IntArray:
        """Where the table of each candidate begins among the values of the grids."""
        return first_cells(self.table, self.grids.axes)

    @property
    def is_supported(self) -> BoolArray:
        """Whether the link was measured, or lent a curve."""
        return self.table > UNSUPPORTED


@dataclass(frozen=True, eq=False)
class OperatorTables:
    """Which table every accelerator uses for one operator: arrays [engine, accelerator, precision].

    Engine 0 is the fastest kernel of all; the others follow `ENGINES_WITH_KERNELS`. `is_widened`: the device lacks the
    arithmetic of the precision and multiplies its weights with activations of 16 bits. `of_row`: the row of the file
    that each table is made of, where some are made of another.
    """

    grids: Grids
    table: IntArray
    peak_flop_per_s: FloatArray
    log_slowdown: FloatArray
    lost_ratio: FloatArray
    grade: IntArray
    low_ratio: FloatArray
    high_ratio: FloatArray
    is_widened: BoolArray
    of_row: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        shapes = {a.shape for a in (self.table, self.peak_flop_per_s, self.log_slowdown, self.grade, self.low_ratio)}
        if len(shapes) > 1:
            raise ValueError(f"operator tables: arrays of different shapes {shapes}")
        if self.table.size and self.table.max() >= len(self.grids.values):
            raise ValueError("operator tables: an accelerator refers to a table that is not there")


@dataclass(frozen=True, eq=False)
class CollectiveTables:
    """Which tables every accelerator uses: arrays [engine, accelerator, link], over its own links (0) and PCIe (1)."""

    grids: Grids
    table: IntArray
    grade: IntArray
    low_ratio: FloatArray
    high_ratio: FloatArray


@dataclass(frozen=True)
class StateFormulas:
    """Judgements that time state-space layers, of which no kernel was measured.

    `fixed_s` of a kernel, and the share of arithmetic peak and bandwidth that it reaches, for the update of states by
    new tokens and for the scan of prompts; `missed_ratio` bounds measured / predicted seconds.
    """

    update_fixed_s: Sourced
    update_stream_ratio: Sourced
    scan_fixed_s: Sourced
    scan_flop_ratio: Sourced
    scan_stream_ratio: Sourced
    missed_ratio: Sourced

    @property
    def log_range(self) -> tuple[float, float]:
        """ln of the 10th and 90th percentile of measured / predicted seconds."""
        missed = self.missed_ratio
        return math.log(missed.low or missed.value), math.log(missed.high or missed.value)


@dataclass(frozen=True)
class StreamFormula:
    """What times kernels that only move memory: `fixed_s` of each, and the share of the bandwidth that it reaches."""

    fixed_s: Sourced
    bandwidth_ratio: Sourced


@dataclass(frozen=True)
class HostReadFormula:
    """The share of its peak that the link to host memory reaches where kernels read weights, or copies KV, over it."""

    link_ratio: Sourced


@dataclass(frozen=True)
class HostExchangeFormula:
    """What an exchange takes that passes the memory of the host: a start, and a share of the link.

    `whole_s`: what the protocol for large tensors takes beside that; smaller ones go at half the rate.
    """

    fixed_s: Sourced
    link_ratio: Sourced
    whole_s: Sourced


@dataclass(frozen=True)
class VisionFormula:
    """What times a vision tower, of which none was measured: the share of the arithmetic peak that it reaches."""

    flop_ratio: Sourced


@dataclass(frozen=True)
class SparsePromptFormula:
    """What prompts pay that read chosen or compressed entries: `least_heads` of a device, however few it has."""

    least_heads: Sourced


@dataclass(frozen=True)
class EngineStepFormula:
    """What bounds the fitted line of a decode step: `least_ratio` of its kernels' seconds, however launches overlap.

    `stream_s`: what server and client take for each answer that streams, before a new one's first token is seen.
    `older_host_ratio`: what a host that the device waits for takes in older machines, over newer ones.
    """

    least_ratio: Sourced
    stream_s: Sourced
    older_host_ratio: Sourced


@dataclass(frozen=True)
class RoutingFormula:
    """How evenly tokens choose experts: the popularity of experts is gamma distributed with `popularity_shape`."""

    popularity_shape: Sourced


@dataclass(frozen=True)
class HandoverFormula:
    """What handing keys and values from a prefill copy to a decode copy takes, of which nothing was measured here.

    `link_ratio`: share of the link that many small blocks reach; `overlap_ratio`: share that is hidden behind the
    prefill.
    """

    link_ratio: Sourced
    overlap_ratio: Sourced


@dataclass(frozen=True)
class Formulas:
    """Judgements where a formula stands in for measured kernels, by what it times.

    `scale_search`: the largest value of a whole tensor, which its quantisation then takes as scale.
    `split_sums`: what a product over parts of the sums takes beside one in a single kernel, where rows are few.
    """

    streams: StreamFormula
    scale_search: StreamFormula
    split_sums: StreamFormula
    vision: VisionFormula
    state_space: StateFormulas
    sparse_prompts: SparsePromptFormula
    engine_steps: EngineStepFormula
    routing: RoutingFormula
    handover: HandoverFormula
    host_exchange: HostExchangeFormula
    host_read: HostReadFormula


@dataclass(frozen=True, eq=False)
class Calibration:
    """Kernel curves of `accelerators`, in this order; candidates index it by accelerator and precision.

    `tables` by operator, those of `MIXER_OPERATORS` among them; `formulas` where there are none.
    """

    accelerators: tuple[str, ...]
    bandwidth_bytes_per_s: FloatArray
    tables: Mapping[str, OperatorTables]
    collective_tables: CollectiveTables
    formulas: Formulas

    def tables_of(self, operator: str) -> OperatorTables | CollectiveTables:
        """The tables of an operator by its name, as the files are called."""
        return self.collective_tables if operator == "collectives" else self.tables[operator]

    def mixer(
        self, operator: str, accelerator: IntArray, precisions: Sequence[str], index: IntArray, engine: Ints = 0
    ) -> Curves:
        """Curves of a kernel of `MIXER_OPERATORS`, computing in `precisions[index]`."""
        return Curves(**self._gather(self.tables[operator], accelerator, precisions, index, engine))

    def gemm(self, accelerator: IntArray, precisions: Sequence[str], index: IntArray, engine: Ints = 0) -> GemmCurves:
        """Curves of dense products with weights in `precisions[index]`; `engine` as `engine_index` gives it."""
        return GemmCurves(**self._gather_products(self.tables["gemm"], accelerator, precisions, index, engine))

    def experts(
        self, accelerator: IntArray, precisions: Sequence[str], index: IntArray, engine: Ints = 0
    ) -> ExpertCurves:
        """Curves of routed experts with weights in `precisions[index]`; `engine` as `engine_index` gives it."""
        return ExpertCurves(**self._gather_products(self.tables["experts"], accelerator, precisions, index, engine))

    def attention(
        self, accelerator: IntArray, precisions: Sequence[str], index: IntArray, engine: Ints = 0
    ) -> AttentionCurves:
        """Curves of attention with the KV cache in `precisions[index]`."""
        return AttentionCurves(
            decode=self._gather_cache(self.tables["decode"], accelerator, precisions, index, engine),
            prefill=self._gather_cache(self.tables["prefill"], accelerator, precisions, index, engine),
            window=self._gather_cache(self.tables["window"], accelerator, precisions, index, engine),
        )

    def latent_attention(
        self, accelerator: IntArray, precisions: Sequence[str], index: IntArray, engine: Ints = 0
    ) -> LatentAttentionCurves:
        """Curves of latent attention with the compressed cache in `precisions[index]`."""
        return LatentAttentionCurves(
            decode=Curves(**self._gather(self.tables["latent_decode"], accelerator, precisions, index, engine)),
            prefill=Curves(**self._gather(self.tables["latent_prefill"], accelerator, precisions, index, engine)),
            absorb=Curves(**self._gather(self.tables["latent_absorb"], accelerator, precisions, index, engine)),
        )

    def collectives(
        self,
        accelerator: IntArray,
        link_is_pcie: BoolArray,
        link_bytes_per_s: Floats,
        engine: Ints = 0,
        through_host: BoolArray | None = None,
    ) -> CollectiveCurves:
        """Curves of collectives over each candidate's link; `link_bytes_per_s` per GPU and direction."""
        by_host = np.zeros(len(accelerator), dtype=np.bool_) if through_host is None else through_host
        tables, place = self.collective_tables, (engine, accelerator, np.asarray(link_is_pcie).astype(np.int64))
        return CollectiveCurves(
            grids=tables.grids,
            table=tables.table[place],
            link_bytes_per_s=np.asarray(link_bytes_per_s, dtype=np.float64),
            grade=np.where(by_host, np.maximum(tables.grade[place], int(Grade.TRANSFERRED)), tables.grade[place]),
            low_ratio=tables.low_ratio[place],
            high_ratio=tables.high_ratio[place],
            through_host=by_host,
            host=self.formulas.host_exchange,
        )

    def _gather_products(
        self, tables: OperatorTables, accelerator: IntArray, precisions: Sequence[str], index: IntArray, engine: Ints
    ) -> dict[str, Any]:
        fields = self._gather(tables, accelerator, precisions, index, engine)
        activation = np.array([ACTIVATION_BYTES.get(name, WIDE_BYTES) for name in precisions])[index]
        is_widened = tables.is_widened[engine, accelerator, _columns_of(precisions)[index]]
        return {**fields, "activation_bytes_per_element": np.where(is_widened, WIDE_BYTES, activation)}

    def _gather_cache(
        self, tables: OperatorTables, accelerator: IntArray, precisions: Sequence[str], index: IntArray, engine: Ints
    ) -> Curves:
        """Curves over a KV cache; one that is widened as it is read takes as long as one of 16 bits."""
        fields = self._gather(tables, accelerator, precisions, index, engine)
        is_widened = tables.is_widened[engine, accelerator, _columns_of(precisions)[index]]
        stored = fields["bytes_per_element"]
        return Curves(**{**fields, "bytes_per_element": np.where(is_widened, WIDE_BYTES, stored)})

    def _gather(
        self,
        tables: OperatorTables,
        accelerator: IntArray,
        precisions: Sequence[str],
        index: IntArray,
        engine: Ints = 0,
    ) -> dict[str, Any]:
        place = engine, accelerator, _columns_of(precisions)[index]
        bytes_per_element = np.array([PRECISIONS[name].bytes_per_element for name in precisions])[index]
        return {
            "grids": tables.grids,
            "table": tables.table[place],
            "peak_flop_per_s": tables.peak_flop_per_s[place],
            "bandwidth_bytes_per_s": self.bandwidth_bytes_per_s[accelerator],
            "bytes_per_element": bytes_per_element,
            "log_slowdown": tables.log_slowdown[place],
            "lost_ratio": tables.lost_ratio[place],
            "grade": tables.grade[place],
            "low_ratio": tables.low_ratio[place],
            "high_ratio": tables.high_ratio[place],
        }


def engine_index(names: Sequence[str]) -> IntArray:
    """Which kernels each engine runs: a position in `ENGINES_WITH_KERNELS`, 0 where its own were not measured.

    >>> [int(i) for i in engine_index(["sglang", "llama.cpp"])]
    [2, 0]
    """
    measured = ENGINES_WITH_KERNELS
    return np.array([measured.index(name) if name in measured else 0 for name in names], dtype=np.int64)


def general_index(names: Sequence[str]) -> IntArray:
    """The same of each engine's general kernels for experts; its own where it has no others.

    >>> [ENGINES_WITH_KERNELS[i] for i in general_index(["tensorrt-llm", "sglang"])]
    ['tensorrt-llm general', 'sglang']
    """
    general = [f"{name} general" for name in names]
    return engine_index([g if g in GENERAL_KERNELS else name for g, name in zip(general, names, strict=True)])


def kernels_instead(engine: str) -> tuple[str, ...]:
    """Whose kernels stand for those of an engine, nearest first.

    >>> kernels_instead("vllm general"), kernels_instead("vllm"), kernels_instead("")
    (('vllm general', 'vllm', ''), ('vllm', ''), ('',))
    """
    return tuple(dict.fromkeys((engine, engine.removesuffix(" general"), EVERY_ENGINE)))


WIDE_BYTES = 2.0
ACTIVATION_BYTES: Mapping[str, float] = {
    "fp32": 4.0,
    "tf32": 4.0,
    "fp8": 1.0,
    "fp8_block": PRECISIONS["fp8_block"].bytes_per_element,
    "int8": 1.0,
    "nvfp4": PRECISIONS["nvfp4"].bytes_per_element,
}


def _columns_of(precisions: Sequence[str]) -> IntArray:
    return np.array([precision_index(name) for name in precisions])


def precision_index(name: str) -> int:
    """The column of a precision; an unknown name is refused with the nearest known ones."""
    if name not in PRECISION_INDEX:
        raise UnknownName("precision", name, PRECISION_INDEX)
    return PRECISION_INDEX[name]
