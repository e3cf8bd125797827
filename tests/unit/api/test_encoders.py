"""`estimate_encoder`: what is asked, understood and refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpufleet.api import estimate_encoder
from gpufleet.errors import DataMissing, Infeasible, UnknownName, UsageError


def test_without_a_batch_the_smallest_with_nearly_all_throughput_is_taken() -> None:
    chosen = estimate_encoder("bert-large", "H100", input_tokens=128)
    huge = estimate_encoder("bert-large", "H100", input_tokens=128, batch=4096)
    half = estimate_encoder("bert-large", "H100", input_tokens=128, batch=chosen.batch / 2)
    assert chosen.inputs_per_s.value >= 0.97 * huge.inputs_per_s.value * 0.97
    assert half.inputs_per_s.value < chosen.inputs_per_s.value
    assert any(i.origin.startswith("chosen") for i in chosen.inputs)


def test_an_image_needs_no_length() -> None:
    found = estimate_encoder("vit-base", "T4", batch=8)
    assert (found.unit, found.tokens_per_input, found.kind) == ("image", 197, "vision encoder")


def test_clip_takes_an_image_unless_a_text_is_given() -> None:
    image, text = (
        estimate_encoder("clip-vit-base-patch32", "T4"),
        estimate_encoder("clip-vit-base-patch32", "T4", input_tokens=77),
    )
    assert (image.unit, text.unit) == ("image", "sequence")


def test_whisper_cuts_a_recording_into_windows() -> None:
    minute, hour = (estimate_encoder("whisper-small", "T4", audio_s=s, batch=1) for s in (60.0, 3600.0))
    assert hour.latency_s.value == pytest.approx(60 * minute.latency_s.value)
    assert hour.real_time_factor is not None
    assert hour.audio_s_per_s is not None
    assert hour.latency_s.value == pytest.approx(hour.real_time_factor.value * 3600)
    assert hour.audio_s_per_s.value == pytest.approx(1 / hour.real_time_factor.value)


def test_windows_of_a_pipeline_overlap_and_those_of_faster_whisper_do_not() -> None:
    """transformers hears 5 s of a window twice at both of its ends: 30 s of it bring 20 s of new audio."""
    for engine, new_s in (("transformers", 20), ("faster-whisper", 30)):
        found = estimate_encoder("whisper-small", "A100", batch=8, engine=engine)
        assert found.audio_s_per_s is not None
        assert found.audio_s_per_s.value == pytest.approx(new_s * found.inputs_per_s.value)


def test_the_host_reads_audio_while_the_gpu_waits() -> None:
    """A turbo decoder on an RTX 3090 took 33 s for an hour of audio whatever the batch (speaches-ai, issue 169)."""
    found = estimate_encoder("whisper-large-v3-turbo", "RTX 3090", batch=16, audio_s=3600.0, engine="faster-whisper")
    reading = next(term for term in found.terms if "reads audio" in term.name)
    assert reading.value > 0.3 * sum(term.value for term in found.terms)
    assert sum(term.value for term in found.terms) == pytest.approx(found.latency_s.value * 16 / 120, rel=1e-6)
    assert found.latency_s.value == pytest.approx(33.4, rel=0.25)


def test_what_decodes_one_window_after_another_takes_no_batch() -> None:
    alone = estimate_encoder("whisper-small", "A100", engine="openai-whisper")
    assert alone.batch == 1
    with pytest.raises(Infeasible, match="1 window"):
        estimate_encoder("whisper-small", "A100", batch=2, engine="whisper.cpp")


def test_beams_are_those_of_the_engine_unless_they_are_said() -> None:
    usual, said = (estimate_encoder("whisper-small", "A100", engine="faster-whisper", beams=b) for b in (None, 5))
    greedy = estimate_encoder("whisper-small", "A100", engine="faster-whisper", beams=1, batch=usual.batch)
    assert usual.latency_s == said.latency_s
    assert greedy.latency_s.value <= usual.latency_s.value
    assert any((i.name, i.value, i.origin) == ("beams", "5", "default of the engine") for i in usual.inputs)


def test_constants_of_few_rows_are_transferred_to_other_gpus() -> None:
    for engine in ("whisper.cpp", "openai-whisper"):
        assert estimate_encoder("whisper-large-v3", "H100", engine=engine).grade == "transferred"
    assert estimate_encoder("bert-base", "A100", input_tokens=64, engine="fastertransformer").grade == "measured"
    assert estimate_encoder("bert-base", "A100", input_tokens=64, engine="tei").grade == "transferred"


def test_an_engine_that_nobody_measured_is_graded_below_those_of_few_rows() -> None:
    """vLLM has no row; text-embeddings-inference one, on an L4; FasterTransformer hundreds."""
    grades = [
        estimate_encoder("bert-base", "A100", input_tokens=64, engine=engine).grade
        for engine in ("fastertransformer", "tei", "vllm")
    ]
    assert grades == ["measured", "transferred", "roofline"]


def test_an_engine_is_refused_where_it_does_not_run() -> None:
    with pytest.raises(Infeasible, match=r"does not run on CDNA3.*MI300X.*What runs it there: --engine openai-whisper"):
        estimate_encoder("whisper-small", "MI300X", engine="faster-whisper")


def test_transcription_is_more_often_slower_than_said_than_faster() -> None:
    """Fallback to other temperatures and slow hosts only ever add time."""
    found = estimate_encoder("whisper-large-v3", "A100", batch=24).latency_s
    assert found.low is not None
    assert found.high is not None
    assert found.high / found.value > found.value / found.low


def test_an_answer_of_whisper_is_ordinary_speech_unless_it_is_said() -> None:
    found = estimate_encoder("whisper-small", "T4")
    assert found.output_tokens == 120
    assert any("4 tokens for a second" in i.origin for i in found.inputs)


def test_a_million_sequences_cost_what_the_hours_of_one_gpu_do() -> None:
    one, four = (estimate_encoder("bert-base", ("L4", n), input_tokens=128, batch=32) for n in (1, 4))
    assert one.price is not None
    assert one.usd_per_million_inputs is not None
    hours = 1e6 / one.inputs_per_s.value / 3600
    assert one.usd_per_million_inputs.value == pytest.approx(hours * one.price.price_per_gpu_usd_per_hour)
    assert four.usd_per_million_inputs is not None
    assert four.usd_per_million_inputs.value == pytest.approx(one.usd_per_million_inputs.value)


def test_a_card_that_nobody_rents_out_has_no_cost() -> None:
    found = estimate_encoder("bert-base", "RTX 3070 Ti", input_tokens=128, batch=32)
    assert (found.price, found.usd_per_million_inputs) == (None, None)


def test_beams_cost_time_and_memory() -> None:
    one, five = (estimate_encoder("whisper-large-v3", "L4", batch=8, beams=b) for b in (1, 5))
    assert five.latency_s.value > one.latency_s.value
    assert five.memory_bytes.value > one.memory_bytes.value


def test_a_distilled_decoder_is_faster_than_the_whole_one() -> None:
    whole, distilled = (estimate_encoder(m, "L4", batch=8) for m in ("whisper-large-v3", "distil-whisper-large-v3"))
    assert distilled.latency_s.value < 0.5 * whole.latency_s.value


def test_a_card_without_bf16_runs_a_bf16_checkpoint_in_fp16() -> None:
    found = estimate_encoder("bert-base", "T4", input_tokens=128, batch=1)
    assert found.weight_format == "fp16"


def test_a_small_batch_waits_for_the_host() -> None:
    found = estimate_encoder("bert-base", "H100", input_tokens=32, batch=1, engine="torchscript")
    assert found.binding_limit.startswith("the host")
    assert sum(term.value for term in found.terms) == pytest.approx(found.latency_s.value)


def test_terms_add_up_to_the_latency() -> None:
    found = estimate_encoder("t5-3b", "A100", input_tokens=512, output_tokens=50, batch=64)
    assert sum(term.value for term in found.terms) == pytest.approx(found.latency_s.value, rel=1e-6)


def test_t5_beyond_its_training_length_is_a_warning() -> None:
    found = estimate_encoder("t5-small", "T4", input_tokens=4096, output_tokens=10, batch=1)
    assert any("trained on" in note for note in found.notes)


def test_a_model_that_does_not_fit_says_so() -> None:
    found = estimate_encoder("t5-11b", "T4", input_tokens=512, output_tokens=10, batch=1)
    assert (found.verdict, found.is_held, found.largest_batch) == ("does not fit", False, 0)


def test_a_config_of_ones_own_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"model_type": "bert", "num_hidden_layers": 3}), encoding="utf-8")
    assert estimate_encoder(folder, "T4", input_tokens=64, batch=2).model == "mine"


@pytest.mark.parametrize(
    ("model", "asked", "error", "message"),
    [
        ("bert-base", {}, UsageError, "takes text"),
        ("bert-base", {"input_tokens": 600}, Infeasible, "positions for 512"),
        ("bert-base", {"input_tokens": 0}, UsageError, "input tokens"),
        ("bert-base", {"input_tokens": 64, "output_tokens": 5}, UsageError, "writes no answer"),
        ("bert-base", {"input_tokens": 64, "beams": 4}, UsageError, "writes no answer"),
        ("bert-base", {"input_tokens": 64, "audio_s": 5.0}, UsageError, "takes no audio"),
        ("bert-base", {"input_tokens": 64, "batch": 1.5}, UsageError, "whole number"),
        ("bert-base", {"input_tokens": 64, "precision": "fp3"}, UnknownName, "unknown precision"),
        ("bert-base", {"input_tokens": 64, "precision": "tf32"}, DataMissing, "tf32"),
        ("bert-base", {"input_tokens": 64, "engine": "sglang"}, UnknownName, "engine of encoders"),
        (
            "bert-base",
            {"input_tokens": 64, "engine": "whisper"},
            Infeasible,
            "does not run bert .* one of fastertransf",
        ),
        ("whisper-tiny", {"engine": "tei"}, Infeasible, "does not run whisper models .* one of faster-whisper"),
        ("whisper-tiny", {"engine": "openai-whisper", "precision": "int8"}, Infeasible, "int8"),
        ("vit-base", {"input_tokens": 64}, UsageError, "takes no text"),
        ("t5-small", {"input_tokens": 64}, UsageError, "writes an answer"),
        ("whisper-tiny", {"output_tokens": 5000}, UsageError, "1 to 448"),
        ("whisper-tiny", {"beams": 0}, UsageError, "beams"),
        ("whisper-tiny", {"audio_s": -1.0}, UsageError, "audio"),
        ("wav2vec2-base", {}, UsageError, "takes audio"),
        ("wav2vec2-base", {"audio_s": 1e-4}, UsageError, "cannot be encoded"),
        ("llama-3-8b", {"input_tokens": 64}, UsageError, "no family of encoders"),
        ("bert-bsae", {"input_tokens": 64}, UnknownName, "bert-base"),
    ],
)
def test_what_cannot_be_answered_is_said(
    model: str, asked: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        estimate_encoder(model, "T4", **asked)
