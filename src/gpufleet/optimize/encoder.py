"""How fast an encoder is on one GPU: memory first, then passes over the batches that have room."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

import numpy as np

from gpufleet.architecture.encoder_flops import tower_flop
from gpufleet.domain.accelerator import Accelerator
from gpufleet.domain.arrays import FloatArray
from gpufleet.domain.calibration import Calibration
from gpufleet.domain.encoder import EncoderModel, Tower
from gpufleet.domain.precision import WeightFormat
from gpufleet.domain.runtime import LogRange, Runtime
from gpufleet.errors import DataMissing
from gpufleet.memory.encoder import EncoderMemory, PassSize, encoder_memory
from gpufleet.performance.forward import (
    Answer,
    PassCurves,
    PassTimes,
    decoder_steps,
    lent_log_ratios,
    together,
    tower_pass,
    tried_batches,
    worst_grade,
)
from gpufleet.provenance import Grade
from gpufleet.records import dataclass

ENOUGH_RATIO = 0.97
MOST_TRIED = 4096


@dataclass(frozen=True, eq=False)
class EncoderQuestion:
    """One tower of a model on copies of one GPU; `batch` None asks for the smallest that gives nearly all throughput.

    `audio_s` is the length of a recording, which windows cut; of audio without windows it is one input.
    """

    model: EncoderModel
    tower: Tower
    gpu: Accelerator
    runtime: Runtime
    weights: WeightFormat
    size: PassSize
    batch: float | None
    num_gpus: int = 1
    audio_s: float | None = None

    @property
    def learnt(self) -> LogRange:
        """What the runtime missed on models of this kind."""
        return self.runtime.range_of(self.model.decoder is not None)

    @property
    def most_inputs(self) -> float:
        """Inputs that the runtime takes together: few windows of audio in some."""
        speech = self.runtime.speech
        return (speech.most_windows if speech and self.tower.window_s else None) or math.inf

    @property
    def new_audio_s(self) -> float | None:
        """Seconds of a recording that one window adds to those before; None where inputs are no windows."""
        speech, window_s = self.runtime.speech, self.tower.window_s
        ratio = 1.0 if speech is None else speech.new_audio_ratio.value
        return None if window_s is None else window_s * ratio

    @property
    def num_windows(self) -> int:
        """Windows of a recording; 1 where it has none."""
        new_s = self.new_audio_s
        return 1 if self.audio_s is None or new_s is None else math.ceil(self.audio_s / new_s)

    @property
    def host_s_per_window(self) -> float:
        """Seconds in which the host reads a window and makes its mel frames, while the GPU waits. [s]"""
        speech = self.runtime.speech
        return 0.0 if speech is None else (self.new_audio_s or 0.0) * speech.host_s_per_audio_s.value


@dataclass(frozen=True, eq=False)
class EncoderSolution:
    """Memory, the pass at the batch, and factors that bound its time."""

    memory: EncoderMemory
    batch: float
    times: PassTimes
    low_ratio: float
    high_ratio: float
    grade: Grade

    @property
    def pass_s(self) -> float:
        """Seconds of one batch, reading and answers included."""
        return float(self.times.seconds[0])

    @property
    def reading_s(self) -> float:
        """Seconds of it in which the host reads audio."""
        return float(np.atleast_1d(self.times.reading_s)[0])


def solve_encoder(question: EncoderQuestion, calibration: Calibration) -> EncoderSolution:
    """The pass at the asked batch, or at the one that gives nearly all throughput."""
    q = question
    memory = encoder_memory(q.model, q.tower, q.runtime, q.weights, q.size, q.gpu.memory_bytes)
    curves = curves_of(calibration, q.gpu, q.weights)
    batch = q.batch if q.batch is not None else enough(q, curves, memory.largest_batch)
    times = pass_times(q, curves, np.array([batch], dtype=np.float64))
    low, high = log_bounds(q, curves)
    return EncoderSolution(memory, float(batch), times, math.exp(low), math.exp(high), grade_of(q, curves))


def grade_of(question: EncoderQuestion, curves: PassCurves) -> Grade:
    """The worse grade of the runtime's constants and of the kernels."""
    return Grade(max(worst_grade(curves), int(question.learnt.measured.grade_on(question.gpu.name))))


def curves_of(calibration: Calibration, gpu: Accelerator, weights: WeightFormat) -> PassCurves:
    """The kernel curves of a device in a format; a format that it cannot compute in is said to be missing."""
    curves = _gathered(calibration, gpu.name, weights)
    if not all(bool(each.is_supported.all()) for each in curves.all_curves):
        raise DataMissing(
            f"no kernel curve for {weights.name} on {gpu.name}",
            hint="Another --precision may have one: 'gpufleet catalog gpus' lists what each device computes in.",
        )
    return curves


@lru_cache(maxsize=64)
def _gathered(calibration: Calibration, gpu: str, weights: WeightFormat) -> PassCurves:
    return PassCurves.gather(calibration, calibration.accelerators.index(gpu), weights)


def enough(question: EncoderQuestion, curves: PassCurves, largest: float) -> float:
    """The smallest power of two that reaches 97 % of the best throughput of all that have room."""
    batches = batches_in(min(largest, question.most_inputs))
    return enough_of(batches, pass_times(question, curves, batches).seconds)


def batches_in(largest: float) -> FloatArray:
    """Powers of two that have room, one at least."""
    return tried_batches(int(min(max(largest, 1.0), MOST_TRIED))).astype(np.float64)


def enough_of(batches: FloatArray, seconds: FloatArray) -> float:
    """The smallest batch that reaches 97 % of the best throughput of these.

    >>> enough_of(np.array([1.0, 2.0, 4.0]), np.array([1.0, 1.0, 1.99]))
    2.0
    """
    rates = batches / seconds
    return float(batches[np.argmax(rates >= ENOUGH_RATIO * rates.max())])


def pass_times(question: EncoderQuestion, curves: PassCurves, batches: FloatArray) -> PassTimes:
    """Seconds of one pass at each of these batches: the tower, then what its decoder writes."""
    times = together(passes_of(question, curves, batches))
    return replace(times, reading_s=batches * question.host_s_per_window)


def passes_of(question: EncoderQuestion, curves: PassCurves, batches: FloatArray) -> list[PassTimes]:
    """The pass through the tower and, where the model has a decoder, the steps that write the answer."""
    q, size = question, question.size
    encoded = tower_pass(q.tower, curves, q.runtime, batches, size.tokens, size.positions)
    if q.model.decoder is None:
        return [encoded]
    answer = Answer(size.output_tokens, size.beams)
    return [encoded, decoder_steps(q.model.decoder, curves, q.runtime, batches, size.tokens, answer)]


def log_bounds(question: EncoderQuestion, curves: PassCurves) -> tuple[float, float]:
    """ln of the factors that turn an expected time into its 10th and 90th percentile.

    The wider of what the runtime missed on GPUs left out of its fit, which holds what lent kernels miss as far as
    those GPUs borrow, and of what lent kernels miss.
    """
    learnt, (lent_low, lent_high) = question.learnt, lent_log_ratios(curves)
    return -max(-learnt.low.value, lent_low), max(learnt.high.value, lent_high)


def flop_per_input(question: EncoderQuestion) -> float:
    """FLOP of one input: its pass, and every token that a decoder writes for it."""
    q, size = question, question.size
    flop = float(tower_flop(q.tower, size.tokens, size.positions).total)
    if q.model.decoder is None:
        return flop
    stack = q.model.decoder.stack
    written = size.output_tokens * size.beams
    over_encoder = 4.0 * stack.num_layers * stack.attention_width * size.tokens * written
    return flop + over_encoder + float(tower_flop(q.model.decoder, written).total)
