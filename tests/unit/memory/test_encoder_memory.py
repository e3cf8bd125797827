"""Memory of encoders: what a batch needs, and how large it may be."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpufleet.architecture.encoder_parse import parse_encoder
from gpufleet.catalog.runtimes import find_runtime
from gpufleet.domain.precision import FP16, FP32, WeightFormat
from gpufleet.memory.band import Band
from gpufleet.memory.encoder import (
    EncoderMemory,
    PassSize,
    activation_bytes,
    decoder_cache_bytes,
    encoder_memory,
    largest_convolution,
)
from gpufleet.units import GB, GIB

BERT = parse_encoder({"model_type": "bert"}, "bert-base")
HALF = WeightFormat.uniform(FP16)


def memory_of(engine: str, tokens: float, weights: WeightFormat = HALF) -> EncoderMemory:
    return encoder_memory(BERT, BERT.towers[0], find_runtime(engine), weights, PassSize(tokens), 15 * GIB)


def test_weights_are_the_parameters_in_their_format() -> None:
    assert memory_of("torchscript", 128).weights_bytes == 2 * 109_482_240
    assert memory_of("torchscript", 128, WeightFormat.uniform(FP32)).weights_bytes == 4 * 109_482_240


def test_the_largest_batch_is_the_last_that_fits() -> None:
    found = memory_of("torchscript", 512)
    assert found.verdict(found.largest_batch) != "does not fit"
    assert found.verdict(found.largest_batch + 1) == "does not fit"


def test_scores_in_memory_grow_with_the_square_of_the_length() -> None:
    eager, fused = (memory_of(engine, 512).activation_bytes_per_input for engine in ("torchscript", "transformers"))
    assert float(eager.expected) - float(fused.expected) == 2 * 12 * 512**2 * 2


def test_a_model_larger_than_the_card_has_room_for_nothing() -> None:
    large = parse_encoder({"model_type": "bert", "num_hidden_layers": 3000}, "huge")
    runtime = find_runtime("transformers")
    found = encoder_memory(large, large.towers[0], runtime, HALF, PassSize(128), 15 * GIB)
    assert (found.largest_batch, found.verdict(1)) == (0, "does not fit")


def test_samples_of_audio_take_more_than_the_layers_do() -> None:
    tower = parse_encoder({"model_type": "wav2vec2"}, "m").towers[0]
    assert largest_convolution(tower, 160_000) == 31_999 * 512


def test_the_first_convolution_of_wav2vec_takes_more_than_a_layer() -> None:
    """31,999 positions of 512 channels, read and written in 16 bits: 65.5 MB for ten seconds of sound."""
    tower = parse_encoder({"model_type": "wav2vec2"}, "m").towers[0]
    held = activation_bytes(tower, find_runtime("transformers"), PassSize(499, positions=160_000), 2.0)
    assert held.low == held.expected == 2 * 31_999 * 512 * 2


def test_the_mlp_of_a_layer_is_held_in_two_copies() -> None:
    stack, engine = BERT.towers[0].stack, find_runtime("transformers")
    wide = replace(BERT.towers[0], stack=replace(stack, mlp_width=2 * stack.mlp_width))
    held = [float(activation_bytes(tower, engine, PassSize(128), 2.0).expected) for tower in (BERT.towers[0], wide)]
    assert held[1] - held[0] == 2 * 128 * 3072 * 2


def test_an_encoder_keeps_nothing_between_steps() -> None:
    assert decoder_cache_bytes(None, PassSize(128), 2.0) == 0


# SYSTRAN/faster-whisper README: whisper-large-v2, 13 minutes, beam 5, RTX 3070 Ti; figures of nvidia-smi.
@pytest.mark.parametrize(
    ("engine", "precision", "megabytes", "tolerance"),
    [
        ("faster-whisper", "fp16", 4525, 0.1),
        ("faster-whisper", "int8", 2926, 0.1),
        ("whisper.cpp", "fp16", 4127, 0.1),
        ("transformers", "fp16", 4960, 0.2),
    ],
)
def test_whisper_takes_what_was_published(engine: str, precision: str, megabytes: float, tolerance: float) -> None:
    from gpufleet.api import estimate_encoder

    found = estimate_encoder(
        "whisper-large-v2", "RTX 3070 Ti", batch=1, beams=5, precision=precision, engine=engine, audio_s=780.0
    )
    assert found.memory_bytes.value / GB == pytest.approx(megabytes * (GIB / 1024) / GB, rel=tolerance)


def test_a_batch_fits_to_the_last_byte_and_is_tight_one_byte_below() -> None:
    memory = EncoderMemory(10.0, 4.0, Band(1.0, 1.0, 2.0), Band(1.0, 2.0, 3.0), 1.0)
    expected = {10.0: "fits", 9.0: "tight", 8.0: "tight", 7.0: "does not fit"}
    assert {room: replace(memory, device_bytes=room).verdict(1) for room in expected} == expected
    assert [replace(memory, device_bytes=room).largest_batch for room in (10.0, 11.0, 13.9, 14.0, 4.0)] == [
        1,
        2,
        2,
        3,
        0,
    ]
