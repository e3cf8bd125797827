"""Scores models that are not decoders: rates of sequences and images, transcription times, relative speed, memory."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from gpufleet import api
from gpufleet.accuracy.figures import Comparison, Prediction, Quantity, RowLabels, RowScores, one_line, stated
from gpufleet.accuracy.models import ModelFinder
from gpufleet.accuracy.precisions import precision_of
from gpufleet.architecture.encoder_flops import tower_flop
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.query import resolve_gpu
from gpufleet.domain.encoder import Takes
from gpufleet.domain.precision import PRECISIONS
from gpufleet.errors import GpufleetError, UsageError
from gpufleet.inputs.measurements import MeasurementRow
from gpufleet.records import dataclass
from gpufleet.results.encoders import EncoderEstimate
from gpufleet.units import GIB, parse_duration

SEQUENCES_PER_S = Quantity("sequences_per_s", "value", "sequences/s")
IMAGES_PER_S = Quantity("images_per_s", "value", "images/s")
TRANSCRIPTION = Quantity("transcription_time", "value", "s")
RELATIVE_SPEED = Quantity("relative_speed", "value", "x")
VRAM = Quantity("memory", "vram_gb", "GiB", GIB)
QUANTITIES: Mapping[tuple[str, str], Quantity] = {
    ("throughput", "sequences/s"): SEQUENCES_PER_S,
    ("throughput", "images/s"): IMAGES_PER_S,
    ("transcription time", "s"): TRANSCRIPTION,
    ("speed relative to large", "x"): RELATIVE_SPEED,
}
NOT_YET: Mapping[str, str] = {
    "text-to-image": "image generation is not planned yet",
    "text-to-speech": "text-to-speech is not planned yet",
}
SEQUENCE = re.compile(r"^seq_len (\d+)$")
AUDIO = re.compile(r"^(\d+(?:\.\d+)?) ?(s|min|h) audio$")
BEAMS = re.compile(r"\bbeam (\d+)\b")
REFERENCE_MODEL = "whisper-large-v2"
REFERENCE_ENGINE = "openai-whisper"


@dataclass(frozen=True)
class Asked:
    """What a row ran, in the words of `api.estimate_encoder`."""

    model: str
    gpu: str
    engine: str
    precision: str | None
    batch: float
    input_tokens: float | None
    audio_s: float | None
    beams: int

    @classmethod
    def of(cls, row: MeasurementRow) -> Asked:
        """The model, GPU and load of a row; raises what it does not say."""
        shape = row.text("input_shape")
        tokens, audio = SEQUENCE.match(shape), AUDIO.match(shape)
        if row.text("metric") == "transcription time" and audio is None:
            raise UsageError("the length of the audio is not stated", found=shape)
        ratio = row.positive("mean_length_ratio") or 1.0
        beams = BEAMS.search(row.text("notes"))
        label = precision_of(row.text("precision"))
        return cls(
            model=row.text("model_id", "model"),
            gpu=row.text("gpu_id", "gpu"),
            engine=re.sub(r"\s+", "-", row.text("engine").casefold()),
            precision="int8" if label == "int8_wo" else label,
            batch=row.positive("batch") or 1.0,
            input_tokens=max(float(tokens[1]) * ratio, 1.0) if tokens else None,
            audio_s=parse_duration(f"{audio[1]}{audio[2]}") if audio else None,
            beams=int(beams[1]) if beams else 1,
        )

    def answer(self, models: ModelFinder, model: str | None = None) -> EncoderEstimate:
        """What the api answers for this row, or for another model under the same load."""
        encoder = models.encoder_of(model or self.model)
        return api.estimate_encoder(
            encoder,
            (self.gpu, 1),
            input_tokens=self.input_tokens,
            audio_s=self.audio_s,
            batch=self.batch,
            beams=self.beams if encoder.decoder is not None else 1,
            precision=self.precision,
            engine=self.engine or REFERENCE_ENGINE,
        )


def score_other_model(row: MeasurementRow, file: str, models: ModelFinder) -> RowScores:
    """What a row measured, and its memory, beside what the api answers."""
    reason = not_scored(row, models)
    quantity = QUANTITIES.get((row.text("metric"), row.text("unit")))
    if reason is not None or quantity is None:
        return RowScores(left_out=reason or f"a metric that is not scored: {row.text('metric')}")
    wanted = stated(row, (quantity, VRAM))
    compare = Comparison(RowLabels(file, row, engine=row.text("engine"), group=group_of(row)))
    try:
        readings = readings_of(Asked.of(row), models)
        predictions = {q: readings[q]() for q in wanted}
    except GpufleetError as refusal:
        return RowScores([compare.scored(q, one_line(refusal)) for q in wanted])
    return RowScores([compare.scored(q, predictions[q]) for q in wanted])


def group_of(row: MeasurementRow) -> str:
    """Task, engine and precision: what a row is grouped by."""
    return ", ".join(filter(None, (row.text("task"), row.text("engine"), row.text("precision"))))


def not_scored(row: MeasurementRow, models: ModelFinder) -> str | None:
    """Why a row takes no part: another kind of model, several GPUs, or a time that no GPU of this type can reach."""
    if row.text("task") in NOT_YET:
        return NOT_YET[row.text("task")]
    if (row.whole("num_gpus") or 1) > 1:
        return "a pass over several GPUs is not planned yet"
    return impossible(row, models)


def impossible(row: MeasurementRow, models: ModelFinder) -> str | None:
    """Whether a row's sequences per second need more arithmetic than the GPU's published peak."""
    tokens = SEQUENCE.match(row.text("input_shape"))
    rate = row.positive("value") if row.text("unit") == SEQUENCES_PER_S.unit else None
    if tokens is None or rate is None:
        return None
    try:
        asked = Asked.of(row)
        tower = models.encoder_of(asked.model).tower_for(Takes.TEXT)
        peaks = resolve_gpu(load_catalog(), asked.gpu).accelerator.peak_flop_per_s
    except GpufleetError:
        return None
    precision = PRECISIONS.get(asked.precision or "")
    peak = None if precision is None else peaks.get(precision.arithmetic)
    if tower is None or peak is None or asked.input_tokens is None:
        return None
    needed = rate * float(tower_flop(tower, asked.input_tokens).total)
    return "faster than the peak of the GPU at the stated length" if needed > peak else None


def readings_of(asked: Asked, models: ModelFinder) -> Mapping[Quantity, Callable[[], Prediction]]:
    """Where each quantity of a row stands in an estimate."""
    return {
        SEQUENCES_PER_S: lambda: Prediction.of(asked.answer(models).inputs_per_s),
        IMAGES_PER_S: lambda: Prediction.of(asked.answer(models).inputs_per_s),
        TRANSCRIPTION: lambda: Prediction.of(asked.answer(models).latency_s),
        RELATIVE_SPEED: lambda: relative_speed(asked, models),
        VRAM: lambda: Prediction.of(asked.answer(models).memory_bytes),
    }


def relative_speed(asked: Asked, models: ModelFinder) -> Prediction:
    """How many times faster than the large model; the errors of both are taken to cancel but for one range."""
    own, large = asked.answer(models), asked.answer(models, REFERENCE_MODEL)
    ratio = large.latency_s.value / own.latency_s.value
    if own.latency_s.low is None or own.latency_s.high is None:
        return Prediction(ratio, None, None, own.grade)
    narrow, wide = own.latency_s.value / own.latency_s.high, own.latency_s.value / own.latency_s.low
    return Prediction(ratio, ratio * narrow, ratio * wide, own.grade)
