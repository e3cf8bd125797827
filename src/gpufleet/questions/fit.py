"""The words of a fit: of a model that serves, and of one that is trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING

from gpufleet.domain.habits import DEFAULT_METHOD
from gpufleet.domain.images import Images
from gpufleet.questions.estimate import CopyQuestion, EstimateRequest
from gpufleet.questions.fields import (
    BLOCK_SIZE,
    CHAT_TEMPLATE,
    CHUNKED_PREFILL,
    DTYPE,
    ENFORCE_EAGER,
    MAX_MODEL_LEN,
    MAX_NUM_SEQS,
    MAX_STEP_TOKENS,
    MEMORY_FRACTION,
    MODEL,
    REASONING_PARSER,
    SPECULATE,
    TOOL_CALL_PARSER,
    NamedPath,
)
from gpufleet.questions.training import LARGEST_SIZE, FinetuneRequest
from gpufleet.questions.words import (
    ENGINE,
    LOAD,
    ROW_COUNT,
    TRAINING,
    WHOLE,
    Kind,
    Request,
    Word,
    as_in,
    flag_of,
    names,
    optional,
    plain,
    said_by,
    text,
    usual,
    worded,
    words_of,
)
from gpufleet.records import dataclass
from gpufleet.units import TOKENS, Bounds, parse_tokens

if TYPE_CHECKING:
    from gpufleet.domain.architecture import Architecture

USUAL_CONTEXT = "8k"
GPUS = Word(text("NAME:N"), "GPU and how many, such as L40S:4.", LOAD)


@dataclass(frozen=True, kw_only=True)
class FitRequest(Request):
    """A model on GPUs, for users of a context; without `engine` vLLM is meant, llama.cpp for its own files."""

    model: str | NamedPath = field(kw_only=False, metadata=said_by(MODEL))
    gpus: str | None = field(default=None, kw_only=False, metadata=said_by(GPUS))
    context: float = field(
        default=parse_tokens(USUAL_CONTEXT),
        kw_only=False,
        metadata=said_by(
            Word(
                Kind("TOKENS", plain(parse_tokens), unit="tokens"),
                f"Tokens of prompt and answer together; default {USUAL_CONTEXT}.",
                LOAD,
                what="the context",
                bounds=TOKENS,
            )
        ),
    )
    batch: float | None = optional(
        ROW_COUNT, "Users that must fit at once; default: one.", LOAD, what="the batch", bounds=Bounds(1, 1_000_000, "")
    )
    images: Images | None = as_in(EstimateRequest, "images")
    engine: str | None = as_in(CopyQuestion, "engine")
    engine_version: str | None = as_in(CopyQuestion, "engine_version")
    precision: str | None = optional(
        text("NAME"),
        "Format of weights: bf16, fp8, int4, ...; default: the checkpoint's own. "
        "Of training: bf16-mixed, bf16, fp16, fp8-mixed, ...",
        ENGINE,
    )
    kv_precision: str | None = as_in(CopyQuestion, "kv_precision", says="KV cache: bf16 (default), fp16, fp8 or int8.")
    max_batch: int | None = worded(MAX_NUM_SEQS)
    max_step_tokens: int | None = worded(MAX_STEP_TOKENS)
    memory_fraction: float | None = worded(MEMORY_FRACTION)
    max_model_len: int | None = worded(MAX_MODEL_LEN)
    block_tokens: int | None = worded(BLOCK_SIZE)
    chunks_prompts: bool | None = worded(CHUNKED_PREFILL)
    enforce_eager: bool | None = worded(ENFORCE_EAGER)
    dtype: str | None = worded(DTYPE)
    tool_call_parser: str | None = worded(TOOL_CALL_PARSER)
    reasoning_parser: str | None = worded(REASONING_PARSER)
    chat_template: str | None = worded(CHAT_TEMPLATE)
    lora: str | None = as_in(CopyQuestion, "lora")
    lora_slowdown: float | None = as_in(CopyQuestion, "lora_slowdown")
    cpu_offload_gib: float | None = as_in(CopyQuestion, "cpu_offload_gb")
    kv_offload_bytes: float | None = as_in(CopyQuestion, "kv_offload")
    speculate: str | None = worded(SPECULATE)


@dataclass(frozen=True, kw_only=True)
class TrainingFitRequest(Request):
    """A step of fine-tuning on so many GPUs, by words of `FinetuneRequest`; what is unsaid is as usual there."""

    model: str | NamedPath | Architecture = field(kw_only=False, metadata=said_by(MODEL))
    gpus: str | None = field(default=None, kw_only=False, metadata=said_by(GPUS))
    method: str = usual(DEFAULT_METHOD, text("NAME"), "Ask about training: full, lora or qlora.", TRAINING)
    sequence_tokens: float | None = as_in(FinetuneRequest, "seq", heading=TRAINING)
    micro_batch: int | None = optional(
        WHOLE,
        "Sequences that a GPU works on at a time; default: what is fastest.",
        TRAINING,
        what="the micro-batch",
        bounds=Bounds(1, LARGEST_SIZE, ""),
    )
    rank: int | None = as_in(FinetuneRequest, "rank", heading=TRAINING)
    modules: Sequence[str] | None = as_in(FinetuneRequest, "modules", heading=TRAINING)
    precision: str | None = as_in(FinetuneRequest, "precision", heading=TRAINING)
    optimizer: str | None = as_in(FinetuneRequest, "optimizer", heading=TRAINING)
    layout: Sequence[str] | None = as_in(FinetuneRequest, "layout", heading=TRAINING, kind=names("NAME=N,..."))
    offload: Sequence[str] | None = as_in(FinetuneRequest, "offload", heading=TRAINING)
    stack: str | None = as_in(FinetuneRequest, "stack", heading=TRAINING)
    eager: bool = flag_of(replace(words_of(FinetuneRequest)["eager"], heading=TRAINING))
