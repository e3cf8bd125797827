"""The words of an estimate of a model that is not a decoder."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from gpufleet.questions.fields import MODEL, EncoderRequest, NamedPath
from gpufleet.questions.words import COUNT, ENGINE, LOAD, Request, Word, as_in, optional, said_by, text
from gpufleet.records import dataclass

if TYPE_CHECKING:
    from gpufleet.domain.encoder import EncoderModel


@dataclass(frozen=True, kw_only=True)
class EncodeRequest(Request):
    """Copies of one GPU that encode texts of `input_tokens`, images, or recordings of `audio_s` seconds.

    `output_tokens`: what a decoder (T5, Whisper) writes for each input. Without `batch`, the smallest that gives nearly
    all throughput; without `beams`, those that the engine keeps; without `engine`, what such a model is usually served
    with.
    """

    model: str | NamedPath | EncoderModel = field(kw_only=False, metadata=said_by(MODEL))
    gpus: str | tuple[str, int] = field(
        kw_only=False,
        metadata=said_by(Word(text("NAME:N"), "GPU and how many copies, such as T4:2.", LOAD, is_needed=True)),
    )
    input_tokens: float | None = as_in(EncoderRequest, "in", says="Tokens of a text: 128, 512.")
    audio_s: float | None = as_in(EncoderRequest, "audio", says="Length of a recording: 10s, 30min, 1h.")
    output_tokens: float | None = as_in(
        EncoderRequest, "out", says="Tokens that a decoder writes for each input (T5, Whisper)."
    )
    batch: float | None = optional(
        COUNT, "Inputs in a batch; default: as few as reach 97 % of the best throughput.", LOAD
    )
    beams: int | None = as_in(
        EncoderRequest, "beams", says="Hypotheses that a decoder keeps; default: as many as the engine keeps, 1 or 5."
    )
    precision: str | None = optional(
        text("NAME"), "fp32, tf32, fp16, bf16, int8; default: the checkpoint's own.", ENGINE
    )
    engine: str | None = optional(
        text("NAME"),
        "text-embeddings-inference, infinity, vllm, faster-whisper, transformers, ...; default: the usual one.",
        ENGINE,
    )
