"""How much slower than expected candidates are planned to be, where limits must hold with a stated confidence."""

from __future__ import annotations

import numpy as np

from gpufleet.domain.arrays import FloatArray
from gpufleet.domain.confidence import EXPECTED, HIGH_END
from gpufleet.domain.interruption import Spread
from gpufleet.performance.queueing import normal_quantile
from gpufleet.performance.serving import Lengths, decode_step_s
from gpufleet.performance.step import StepModel
from gpufleet.performance.uncertainty import has_waiting_host, time_bounds
from gpufleet.provenance import Grade
from gpufleet.records import dataclass


def slow_ratio(confidence: float, high_ratio: FloatArray) -> FloatArray:
    """How many times as long as expected is planned for, where it is `high_ratio` times at the high end.

    ratio(c) = ratio(0.9) ^ (z(c) / z(0.9)): ranges are log-normal   [1]

    >>> slow_ratio(0.5, np.array([1.3])), slow_ratio(0.9, np.array([1.3]))
    (array([1.]), array([1.3]))
    """
    return np.asarray(high_ratio ** (normal_quantile(confidence) / normal_quantile(HIGH_END)))


def planned_value(confidence: float, spread: Spread) -> float:
    """The value between expected and high that is planned for; what never happens does not happen then either.

    >>> planned_value(0.9, Spread(0.1, 0.2, 0.8)), planned_value(0.5, Spread(0.1, 0.2, 0.8))
    (0.8, 0.2)
    """
    if spread.expected == 0:
        return 0.0
    return spread.expected * float(slow_ratio(confidence, np.array(spread.high / spread.expected)))


def doubt_ratio(grade: Grade, slow: float) -> float:
    """How many times its expected cost a job counts in a choice: it is paid by the hour, and may take `slow` as long.

    A speed that nobody measured, on this GPU or a relative of it, has to be worth it where it disappoints by as much as
    the plan promises to bear. A service counts so by itself: its machines are enough at that confidence.

    >>> doubt_ratio(Grade.ROOFLINE, 1.6), doubt_ratio(Grade.MEASURED, 1.1)
    (1.6, 1.0)
    """
    return max(slow, 1.0) if grade >= Grade.ROOFLINE else 1.0


def surer_power(confidence: float) -> float:
    """Which power of a ratio at a confidence is that halfway to certainty: z((1 + c) / 2) / z(c)   [1].

    >>> slow_ratio(0.8, np.array([1.3])) ** surer_power(0.8), slow_ratio(0.9, np.array([1.3]))
    (array([1.3]), array([1.3]))
    """
    return float(normal_quantile((1 + confidence) / 2) / normal_quantile(confidence))


@dataclass(frozen=True)
class Caution:
    """Factors on expected times at a confidence, [candidate, batch].

    Steps that are `tpot_ratio` times as slow serve a rate as the expected ones serve `tpot_ratio` times that rate, so
    many times later; first tokens come `ttft_ratio` times later. Not `is_late`: faster than expected. Halfway to
    certainty they are these ratios to the power of `surer_power`.
    """

    ttft_ratio: FloatArray
    tpot_ratio: FloatArray
    is_late: bool = True
    surer_power: float = 1.0

    @classmethod
    def at(cls, confidence: float, model: StepModel, batch: FloatArray, lengths: Lengths) -> Caution | None:
        """The factors of every candidate at every batch; None where the expected value is planned for.

        The ratios are those of `slow_ratio`.
        """
        if confidence == EXPECTED:
            return None
        each = np.repeat(batch[:, None], len(model.candidates), axis=1)
        steps_s = decode_step_s(model, each, lengths) if has_waiting_host(model) else each
        columns = [time_bounds(model, b, lengths, step_s) for b, step_s in zip(each, steps_s, strict=True)]
        ttft, tpot = (
            slow_ratio(confidence, np.stack([column[name].high_ratio for column in columns], axis=1))
            for name in ("ttft", "tpot")
        )
        return cls(ttft, tpot, confidence > EXPECTED, surer_power(confidence))

    @classmethod
    def of_passes(cls, confidence: float, high_ratio: FloatArray, num_columns: int) -> Caution | None:
        """The factors of copies whose passes take at most `high_ratio` times as long at the high end, at every batch.

        >>> Caution.of_passes(0.9, np.array([1.3]), 2).tpot_ratio
        array([[1.3, 1.3]])
        """
        if confidence == EXPECTED:
            return None
        ratio = np.repeat(slow_ratio(confidence, high_ratio)[:, None], num_columns, axis=1)
        return cls(ratio, ratio, confidence > EXPECTED, surer_power(confidence))

    @property
    def surer(self) -> Caution:
        """The factors halfway to certainty."""
        return Caution(self.ttft_ratio**self.surer_power, self.tpot_ratio**self.surer_power, self.is_late)

    def of(self, metric: str) -> FloatArray:
        """The factor on a metric: whole answers are late as their steps are."""
        return self.ttft_ratio if metric == "ttft" else self.tpot_ratio
