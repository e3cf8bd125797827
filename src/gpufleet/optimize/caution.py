"""How much slower than expected candidates are planned to be, where limits must hold with a stated confidence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpufleet.domain.arrays import FloatArray
from gpufleet.performance.queueing import normal_quantile
from gpufleet.performance.serving import Lengths
from gpufleet.performance.step import StepModel
from gpufleet.performance.uncertainty import time_bounds

EXPECTED, HIGH_END = 0.5, 0.9


@dataclass(frozen=True)
class Caution:
    """Factors on expected times at a confidence, [candidate, batch].

    Steps that are `tpot_ratio` times as slow serve a rate as the expected ones serve `tpot_ratio` times that rate, so
    many times later; first tokens come `ttft_ratio` times later.
    """

    ttft_ratio: FloatArray
    tpot_ratio: FloatArray

    @classmethod
    def at(cls, confidence: float, model: StepModel, batch: FloatArray, lengths: Lengths) -> Caution | None:
        """The factors of every candidate at every batch; None where the expected value is planned for.

        ratio(c) = ratio(0.9) ^ (z(c) / z(0.9)): ranges are log-normal   [1]
        """
        if confidence == EXPECTED:
            return None
        power = normal_quantile(confidence) / normal_quantile(HIGH_END)
        rows = np.ones(len(model.candidates))
        columns = [time_bounds(model, b * rows, lengths) for b in batch]
        ttft, tpot = (
            np.stack([column[name].high_ratio for column in columns], axis=1) ** power for name in ("ttft", "tpot")
        )
        return cls(ttft, tpot)

    @classmethod
    def of_passes(cls, confidence: float, high_ratio: FloatArray, num_columns: int) -> Caution | None:
        """The factors of copies whose passes take at most `high_ratio` times as long at the high end, at every batch.

        >>> Caution.of_passes(0.9, np.array([1.3]), 2).tpot_ratio
        array([[1.3, 1.3]])
        """
        if confidence == EXPECTED:
            return None
        power = normal_quantile(confidence) / normal_quantile(HIGH_END)
        ratio = np.repeat(high_ratio[:, None] ** power, num_columns, axis=1)
        return cls(ratio, ratio)

    def of(self, metric: str) -> FloatArray:
        """The factor on a metric: whole answers are late as their steps are."""
        return self.ttft_ratio if metric == "ttft" else self.tpot_ratio
