"""Scores of models that are not decoders: what a row says, what is left out and why."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpufleet.accuracy.figures import RowScores
from gpufleet.accuracy.models import ModelFinder
from gpufleet.accuracy.other_models import Asked, score_other_model
from gpufleet.accuracy.score import score_files
from gpufleet.inputs.measurements import MeasurementRow

MEASUREMENTS = Path(__file__).resolve().parents[3] / "measurements" / "other_models.csv"
BERT = {
    "task": "encoder", "model": "bert-base", "engine": "FasterTransformer", "gpu": "T4", "precision": "fp16",
    "batch": "8", "input_shape": "seq_len 128", "metric": "throughput", "value": "950", "unit": "sequences/s",
}  # fmt: skip
SPEECH = {
    "task": "speech-to-text", "model": "whisper-small", "engine": "faster-whisper", "gpu": "L4", "precision": "int8",
    "batch": "1", "input_shape": "13 min audio", "metric": "transcription time", "value": "60", "unit": "s",
    "notes": "beam 5; a recording",
}  # fmt: skip


def scored(cells: dict[str, str]) -> RowScores:
    return score_other_model(MeasurementRow(2, cells), "mine.csv", ModelFinder())


def test_a_rate_is_compared_with_its_prediction() -> None:
    (figure,) = scored(BERT).figures
    assert (figure.quantity, figure.measured) == ("sequences_per_s", 950)
    assert figure.predicted == pytest.approx(950, rel=0.3)


def test_half_of_the_stated_length_is_a_faster_row() -> None:
    whole, half = (scored({**BERT, "mean_length_ratio": ratio}).figures[0] for ratio in ("1", "0.5"))
    assert (half.predicted or 0) > 1.5 * (whole.predicted or 0)


def test_a_recording_its_beams_and_its_memory_are_read() -> None:
    asked = Asked.of(MeasurementRow(2, SPEECH))
    assert (asked.audio_s, asked.beams, asked.precision) == (780.0, 5, "int8")
    assert [f.quantity for f in scored({**SPEECH, "vram_gb": "2"}).figures] == ["transcription_time", "memory"]


def test_a_speed_is_that_of_the_large_model_over_ones_own() -> None:
    row = {**SPEECH, "metric": "speed relative to large", "unit": "x", "input_shape": "", "precision": "", "value": "4"}
    (figure,) = scored({**row, "engine": "openai-whisper"}).figures
    assert 1.5 < (figure.predicted or 0) < 8


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"task": "text-to-image"}, "image generation is not planned yet"),
        ({"task": "text-to-speech"}, "text-to-speech is not planned yet"),
        ({"num_gpus": "2"}, "several GPUs"),
        ({"metric": "happiness"}, "a metric that is not scored"),
        ({"value": "1000000"}, "faster than the peak"),
    ],
)
def test_rows_that_take_no_part_say_why(change: dict[str, str], reason: str) -> None:
    assert reason in str(scored({**BERT, **change}).left_out)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"model": "nobody"}, "unknown model"),
        ({"gpu": "X1"}, "unknown GPU"),
        ({"engine": "vapour"}, "unknown engine"),
        ({"input_shape": "seq_len 4096", "value": "1"}, "positions for 512"),
    ],
)
def test_rows_that_nothing_predicts_say_why(change: dict[str, str], reason: str) -> None:
    (figure,) = scored({**BERT, **change}).figures
    assert figure.predicted is None
    assert reason in str(figure.reason)


def test_audio_of_unknown_length_has_no_prediction() -> None:
    (figure,) = scored({**SPEECH, "input_shape": "a podcast"}).figures
    assert "length of the audio" in str(figure.reason)


@pytest.mark.slow
def test_published_rows_are_all_accounted_for() -> None:
    (file,) = score_files([MEASUREMENTS]).files
    left_out = {reason.reason: reason.count for reason in file.left_out}
    assert file.num_rows == 528
    assert left_out == {
        "image generation is not planned yet": 33,
        "text-to-speech is not planned yet": 6,
        "a pass over several GPUs is not planned yet": 64,
    }
    everything = {scores.quantity: scores for scores in file.groups if scores.by == "all"}
    assert everything["sequences_per_s"].num_predicted == 410
    assert (everything["sequences_per_s"].median_error_ratio or 1) < 0.25
    assert (everything["sequences_per_s"].interval_coverage_ratio or 0) > 0.75


def test_published_images_and_transcriptions_lie_in_their_ranges_as_often_as_said() -> None:
    """PyTorch on three GeForce cards, whose kernels nobody measured, and Whisper on four GPUs; seen by the fits."""
    (file,) = score_files([MEASUREMENTS.parent / "encoders_published.csv"]).files
    images, speech = (
        next(s for s in file.groups if s.by == "all" and s.quantity == quantity)
        for quantity in ("images_per_s", "transcription_time")
    )
    assert (images.num_predicted, speech.num_predicted) == (26, 24)
    assert (images.interval_coverage_ratio or 0) > 0.8
    assert (images.median_error_ratio or 1) < 0.35
    assert 0.7 < (speech.interval_coverage_ratio or 0) < 0.95
    assert (speech.median_error_ratio or 1) < 0.25
