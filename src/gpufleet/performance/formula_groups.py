"""State-space layers of a step, timed by formula: arrays are [..., operator, candidate]."""

from __future__ import annotations

import numpy as np

from gpufleet.domain.arrays import BoolArray, FloatArray, Floats
from gpufleet.domain.calibration import Formulas
from gpufleet.performance.kernel_groups import KernelGroup, OfPrompts, StepTokens, Work
from gpufleet.performance.recurrence import scan_s, state_update_s
from gpufleet.records import dataclass


@dataclass(frozen=True)
class FormulaGroup(KernelGroup):
    """Operators without a measured curve."""

    formulas: Formulas
    peak_flop_per_s: FloatArray
    bandwidth_bytes_per_s: FloatArray

    def curves_of(self, part: int) -> None:
        """None: a formula."""
        return

    @property
    def formula_fixed_s(self) -> float:
        """That of any kernel which moves memory."""
        return self.formulas.streams.fixed_s.value

    def is_executed(self, at: StepTokens) -> BoolArray:
        """Where a sequence decodes."""
        return at.is_decoding

    def _work(self, shape: dict[str, Floats], flop: Floats, moved_bytes: Floats) -> Work:
        memory_s = moved_bytes / self.bandwidth_bytes_per_s
        return Work(shape, flop, moved_bytes, flop / self.peak_flop_per_s, memory_s)


@dataclass(frozen=True)
class ImageTower(OfPrompts, FormulaGroup):
    """The vision tower over the images of every prompt: `flop` of one prompt on one device, in 16 bits."""

    flop: FloatArray

    def seconds(self, at: StepTokens) -> FloatArray:
        """Seconds of all prompts; 0 without any."""
        flop_per_s = self.formulas.vision.flop_ratio.value * self.peak_flop_per_s
        return np.where(self.is_executed(at), at.prefilling * self.flop / flop_per_s, 0.0)

    def work(self, at: StepTokens) -> Work:
        """Arithmetic alone: what the tower moves is small beside it."""
        return self._work({"prompts": at.prefilling}, at.prefilling * self.flop, np.zeros_like(self.flop))


@dataclass(frozen=True)
class StateSpaceWork:
    """One state-space layer on one device: bytes of a sequence's state, FLOP and bytes of one token."""

    state_bytes: FloatArray
    flop_per_token: FloatArray
    bytes_per_token: FloatArray


@dataclass(frozen=True)
class StateUpdate(FormulaGroup):
    """The state of every decoding sequence, read and written once."""

    of: StateSpaceWork

    def seconds(self, at: StepTokens) -> FloatArray:
        """Seconds of each layer; 0 where nothing decodes."""
        formulas, states = self.formulas.state_space, self.of.state_bytes
        seconds = state_update_s(formulas, self.bandwidth_bytes_per_s, at.states_moved, states)
        return np.where(self.is_executed(at), seconds, 0.0)

    def work(self, at: StepTokens) -> Work:
        """Every state read and written."""
        shape: dict[str, Floats] = {"sequences": at.decoding, "state bytes": self.of.state_bytes}
        return self._work(shape, at.queries * self.of.flop_per_token, 2.0 * at.states_moved * self.of.state_bytes)


@dataclass(frozen=True)
class PromptScan(OfPrompts, FormulaGroup):
    """The recurrence over whole prompts."""

    of: StateSpaceWork

    def seconds(self, at: StepTokens) -> FloatArray:
        """Seconds of each layer; 0 without prompts."""
        flop, moved_bytes = self._amounts(at)
        formulas = self.formulas.state_space
        seconds = scan_s(formulas, self.peak_flop_per_s, self.bandwidth_bytes_per_s, flop, moved_bytes)
        return np.where(self.is_executed(at), seconds, 0.0)

    def work(self, at: StepTokens) -> Work:
        """Inputs and outputs of every token, and each state once."""
        shape: dict[str, Floats] = {"prompts": at.prefilling, "tokens": at.prompt_tokens}
        return self._work(shape, *self._amounts(at))

    def _amounts(self, at: StepTokens) -> tuple[FloatArray, FloatArray]:
        tokens = at.prefilling * at.prompt_tokens
        moved_bytes = tokens * self.of.bytes_per_token + 2.0 * at.prefilling * self.of.state_bytes
        return tokens * self.of.flop_per_token, moved_bytes
