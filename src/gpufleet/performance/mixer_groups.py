"""Gated delta nets of a step, over measured curves: arrays are [..., operator, candidate]."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from gpufleet.domain.arrays import BoolArray, FloatArray, Floats
from gpufleet.domain.calibration import Curves
from gpufleet.performance.delta_net import (
    chunks_coordinates,
    chunks_roofline_s,
    chunks_s,
    update_roofline_s,
    update_s,
)
from gpufleet.performance.interpolation import Distinct, narrowed, rising
from gpufleet.performance.kernel_groups import KernelGroup, OfPrompts, StepTokens, Work
from gpufleet.records import dataclass


@dataclass(frozen=True)
class MixerGroup(KernelGroup):
    """An operator of a mixer that is not plain attention, in 16 bits."""

    curves: Curves

    def curves_of(self, part: int) -> Curves:
        """Those of its kernel."""
        return self.curves

    def is_executed(self, at: StepTokens) -> BoolArray:
        """Where a sequence decodes."""
        return at.is_decoding


@dataclass(frozen=True)
class Recurrence:
    """One gated delta net on one device: states of 128 x 128, bytes of a sequence's state, work of one token."""

    heads: FloatArray
    heads_per_key: float
    state_bytes: FloatArray
    flop_per_token: FloatArray
    bytes_per_token: FloatArray


@dataclass(frozen=True)
class DeltaUpdate(MixerGroup):
    """The state of every decoding sequence, read and written once."""

    of: Recurrence

    @cached_property
    def rising_curves(self) -> Curves:
        """The curves, rising over states."""
        per_state = Distinct.of(self.curves, self.of.state_bytes / self.of.heads)
        rows, (state_bytes,) = per_state.curves, per_state.sizes
        found = rising(narrowed(rows, (), ()), lambda at: update_roofline_s(rows, at[0], state_bytes))
        return per_state.spread(self.curves, found)

    def seconds(self, at: StepTokens) -> FloatArray:
        """Seconds of each layer; 0 where nothing decodes."""
        seconds = update_s(self.rising_curves, at.states_moved, self.of.heads, self.of.state_bytes)
        return np.where(self.is_executed(at), seconds, 0.0)

    def work(self, at: StepTokens) -> Work:
        """Every state read and written."""
        shape: dict[str, Floats] = {"sequences": at.decoding, "state bytes": self.of.state_bytes}
        moved_bytes = 2.0 * at.states_moved * self.of.state_bytes
        return Work.on_device(self.curves, shape, at.queries * self.of.flop_per_token, moved_bytes)


@dataclass(frozen=True)
class DeltaPrompts(OfPrompts, MixerGroup):
    """The recurrence over whole prompts."""

    of: Recurrence

    @cached_property
    def rising_curves(self) -> Curves:
        """The curves for value heads that share a key head like these, rising over states and tokens."""
        of = self.of
        distinct = Distinct.of(
            self.curves,
            of.flop_per_token / of.heads,
            of.bytes_per_token / of.heads,
            of.state_bytes / of.heads,
            of.heads_per_key,
        )
        flop, moved, state, per_key = distinct.sizes
        rows = narrowed(distinct.curves, chunks_coordinates(1.0, 1.0, 1.0, per_key), ("log2 value heads / key heads",))

        def roofline_s(at: tuple[FloatArray, ...]) -> FloatArray:
            states, tokens = at
            return chunks_roofline_s(rows, states * tokens * flop, states * (tokens * moved + 2.0 * state))

        return distinct.spread(self.curves, rising(rows, roofline_s))  # type: ignore[arg-type]

    def seconds(self, at: StepTokens) -> FloatArray:
        """Seconds of each layer; 0 without prompts."""
        of, (flop, moved_bytes) = self.of, self._amounts(at)
        seconds = chunks_s(
            self.rising_curves, at.prefilling, at.prompt_tokens, of.heads, of.heads_per_key, flop, moved_bytes
        )
        return np.where(self.is_executed(at), seconds, 0.0)

    def work(self, at: StepTokens) -> Work:
        """Inputs and outputs of every token, and each state once."""
        shape: dict[str, Floats] = {"prompts": at.prefilling, "tokens": at.prompt_tokens}
        return Work.on_device(self.curves, shape, *self._amounts(at))

    def _amounts(self, at: StepTokens) -> tuple[FloatArray, FloatArray]:
        tokens = at.prefilling * at.prompt_tokens
        moved_bytes = tokens * self.of.bytes_per_token + 2.0 * at.prefilling * self.of.state_bytes
        return tokens * self.of.flop_per_token, moved_bytes
