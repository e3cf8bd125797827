"""The words of a copy of a model on GPUs: its layout, its formats, its engine and how that is started."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from gpufleet.questions.fields import MODEL, NamedPath
from gpufleet.questions.words import (
    ENGINE,
    INTEGER,
    REPLICAS,
    SHARE,
    Preferred,
    Request,
    Word,
    flag,
    optional,
    said_by,
    text,
    usual,
)
from gpufleet.records import dataclass

if TYPE_CHECKING:
    from gpufleet.domain.architecture import Architecture

GPUS = Word(text("NAME:N"), "GPU and how many each copy has, such as H100:8.", REPLICAS)
POOL = text("POOL")


@dataclass(frozen=True, kw_only=True)
class CopyQuestion(Request):
    """A copy as `api.estimate` takes it: GPUs, layout, formats, engine and how that was started."""

    model: str | NamedPath | Architecture = field(kw_only=False, metadata=said_by(MODEL))
    gpus: str | tuple[str, int] | None = field(default=None, kw_only=False, metadata=said_by(GPUS))
    instance: str | None = optional(
        text("NAME"), "Use the link and the price of this machine, such as g6e.12xlarge.", REPLICAS
    )
    tp: int | None = optional(INTEGER, "Tensor-parallel size; default: all GPUs that the other options leave.", ENGINE)
    pp: int = usual(1, INTEGER, "Pipeline stages; default 1, or one a machine.", ENGINE)
    ep: int | None = optional(INTEGER, "GPUs over which whole experts are spread.", ENGINE)
    attention_dp: int = usual(
        1, INTEGER, "Groups of GPUs, each of which attends to its own requests; default 1.", ENGINE
    )
    precision: str | None = optional(
        text("NAME"), "Format of weights: bf16, fp8, int4; default: the checkpoint's own.", ENGINE
    )
    kv_precision: str | None = optional(text("NAME"), "KV cache: bf16, fp16, fp8 or int8.", ENGINE)
    engine: str | None = optional(
        text("NAME"),
        "vllm (default), sglang, tensorrt-llm, llama.cpp (default of GGUF), ...",
        ENGINE,
        preferred=Preferred("serving engine", "vllm", 4),
    )
    engine_version: str | None = optional(text("VERSION"), "Such as 0.6.4; default: the newest known.", ENGINE)
    max_batch: int | None = optional(INTEGER, "Sequences that the engine runs at once (vLLM: --max-num-seqs).", ENGINE)
    max_step_tokens: int | None = optional(INTEGER, "Tokens of one step (vLLM: --max-num-batched-tokens).", ENGINE)
    memory_fraction: float | None = optional(SHARE, "Memory that the engine keeps to: 0.9.", ENGINE)
    mixes_prompts: bool = flag("Prompts and decoding share steps (SGLang: --enable-mixed-chunk).", ENGINE)
