"""Many configurations at once: equal-length arrays, one element per candidate."""

from __future__ import annotations

from dataclasses import fields
from functools import cached_property

import numpy as np

from gpufleet.domain.accelerator import Accelerator
from gpufleet.domain.arrays import AnyArray, BoolArray, FloatArray, IntArray
from gpufleet.domain.engine import EngineProfile
from gpufleet.domain.instance import Instance
from gpufleet.domain.precision import Precision, WeightFormat
from gpufleet.records import dataclass


@dataclass(frozen=True)
class Palette:
    """What the index columns of `Candidates` refer to."""

    accelerators: tuple[Accelerator, ...]
    weight_formats: tuple[WeightFormat, ...]
    kv_precisions: tuple[Precision, ...]
    engines: tuple[EngineProfile, ...]


@dataclass(frozen=True, eq=False)
class Candidates:
    """One replica per row: hardware, formats, engine, layout and link.

    `accelerator`, `weight_format`, `kv_precision` and `engine` index the palette; `link_bytes_per_s` is per GPU and
    direction, 0 where a replica has one GPU; `through_host`: the machine lets GPUs exchange through the host alone.
    """

    palette: Palette
    accelerator: IntArray
    weight_format: IntArray
    kv_precision: IntArray
    engine: IntArray
    tp: IntArray
    pp: IntArray
    ep: IntArray
    attention_dp: IntArray
    link_is_pcie: BoolArray
    through_host: BoolArray
    link_bytes_per_s: FloatArray

    def __post_init__(self) -> None:
        lengths = {name: len(column) for name, column in self.columns().items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"candidates: columns differ in length: {lengths}")

    def __len__(self) -> int:
        return len(self.tp)

    def columns(self) -> dict[str, AnyArray]:
        """The arrays by name."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "palette"}

    def take(self, rows: IntArray | BoolArray) -> Candidates:
        """The candidates of these rows, in their order."""
        return Candidates(self.palette, **{name: column[rows] for name, column in self.columns().items()})

    @cached_property
    def devices_per_stage(self) -> IntArray:
        """GPUs that exchange data in every layer: those of one pipeline stage."""
        return self.tp * self.attention_dp

    @cached_property
    def num_devices(self) -> IntArray:
        """GPUs of one replica."""
        return self.devices_per_stage * self.pp

    def on(self, instance: Instance) -> IntArray:
        """Rows whose replica fits into one machine of this type and was rated on its link."""
        accelerator, gpu_count, is_switched, is_through_host, link_bytes_per_s = instance.host
        names = [gpu.name for gpu in self.palette.accelerators]
        if accelerator not in names:
            return np.zeros(0, dtype=np.int64)
        same_link = (self.link_is_pcie != is_switched) & (self.link_bytes_per_s == link_bytes_per_s)
        same_link &= self.through_host == is_through_host
        has_room = (same_link | (self.num_devices == 1)) & (self.num_devices <= gpu_count)
        return np.flatnonzero((self.accelerator == names.index(accelerator)) & has_room)

    @cached_property
    def micro_batches(self) -> IntArray:
        """Parts of a batch that are worked on at once: one a pipeline stage, one in all where stages take turns."""
        takes_turns = np.array([engine.splits_by_layer for engine in self.palette.engines], dtype=np.bool_)
        return np.where(takes_turns[self.engine], 1, self.pp)

    @cached_property
    def num_groups(self) -> FloatArray:
        """Groups of ranks that work on sequences of their own: those of attention-DP, in each micro-batch."""
        return np.asarray(self.attention_dp * self.micro_batches, dtype=np.float64)

    @property
    def verified_tokens(self) -> FloatArray:
        """Tokens of each sequence that a step of decoding works on: its next one, and those that were drafted."""
        return self.engine_figure("verified_tokens", 1.0)

    @property
    def draft_passes(self) -> FloatArray:
        """Passes of a draft in each step of decoding, one for each token of a sequence that it proposes in a row."""
        return self.engine_figure("draft_passes", 0.0)

    @property
    def caches_per_sequence(self) -> FloatArray:
        """Reads of the cache of a sequence in a step: one, or one for each token that is verified apart."""
        return np.where(self.engine_figure("verifies_apart", 0.0) > 0, self.verified_tokens, 1.0)

    @cached_property
    def drafts_any(self) -> bool:
        """Whether any engine drafts tokens."""
        return any(engine.drafts is not None for engine in self.palette.engines)

    @property
    def tokens_per_step(self) -> FloatArray:
        """Tokens that a step of decoding gives each sequence on average: more than one where drafts are accepted."""
        return self.engine_figure("accepted_length", 1.0)

    @property
    def moe_tp(self) -> IntArray:
        """Parts that each routed expert is cut into."""
        return self.devices_per_stage // self.ep

    def engine_constant(self, name: str) -> FloatArray:
        """A fitted constant of each candidate's engine."""
        if name not in self._engine_constants:
            constants = np.array([engine.constant(name) for engine in self.palette.engines])
            self._engine_constants[name] = constants[self.engine]
        return self._engine_constants[name]

    def engine_figure(self, name: str, otherwise: float) -> FloatArray:
        """A figure of each candidate's engine that only some engines or versions have."""
        if name not in self._engine_constants:
            figures = np.array([engine.figure(name, otherwise) for engine in self.palette.engines])
            self._engine_constants[name] = figures[self.engine]
        return self._engine_constants[name]

    def engine_range(self, name: str) -> FloatArray:
        """Low and high of such a figure, 0 where an engine has none [end, candidate]."""
        known = [engine.constants.get(name) for engine in self.palette.engines]
        lows, highs = zip(
            *((0.0, 0.0) if x is None else (x.low or x.value, x.high or x.value) for x in known), strict=True
        )
        return np.array([lows, highs])[:, self.engine]

    @cached_property
    def _engine_constants(self) -> dict[str, FloatArray]:
        return {}
