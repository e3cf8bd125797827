"""Questions of training: what is trained, on how much, how, and in which layout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from gpufleet.domain.habits import DEFAULT_RANK, DEFAULT_SEQUENCE_TOKENS
from gpufleet.questions.fields import CALIBRATION, DEADLINE, MODEL, JobRequest, NamedPath, words_of
from gpufleet.questions.words import (
    ENGINE,
    LOAD,
    TRAINING,
    WHOLE,
    Kind,
    Word,
    as_in,
    flag,
    names,
    optional,
    plain,
    said_by,
    text,
    worded,
)
from gpufleet.records import dataclass
from gpufleet.units import HOUR, Bounds, parse_corpus, parse_tokens

if TYPE_CHECKING:
    from gpufleet.domain.architecture import Architecture
    from gpufleet.domain.own_stack import OwnStack

LARGEST_SIZE = 65_536
"""No part of a layout is larger."""
CORPUS = Kind("N", parse_corpus, unit="tokens")
TOKENS = Kind("N", plain(parse_tokens), unit="tokens")
TRAINING_HEADROOM = 0.0
"""None: the tokens are known, unlike requests, and the high end of their time is planned with already."""


@dataclass(frozen=True, kw_only=True)
class TrainingRequest(JobRequest):
    """A model to be trained on a number of tokens; `JobRequest` and `PlanRequest` say what else may be named.

    `gpus` may fix their number: 'H100:256'. Without a deadline the cheapest run is planned, however long it takes.
    `layout` fixes parts of the layout: 'tp=4,pp=2,micro-batch=1'; `measured` are runs of one's own, each a layout and
    the tokens per second and GPU that it reached: 'H100:8,micro-batch=4@9800'; `calibration` keeps what such runs say.
    """

    model: str | NamedPath | Architecture = field(kw_only=False, metadata=said_by(MODEL))
    tokens: float | None = optional(
        CORPUS, "Tokens to train on, all epochs together: 50M, 100B, 2T.", LOAD, what="the number of tokens"
    )
    sequence_tokens: float | None = optional(
        TOKENS,
        f"Tokens of a sequence: 2048, 8k; default {DEFAULT_SEQUENCE_TOKENS}, or the model's own limit.",
        LOAD,
        name="seq",
        what="the sequence",
        label="sequence",
        shown="{:,.0f} tokens".format,
    )
    deadline_s: float | None = worded(
        DEADLINE,
        says="Done within 24h, 3d, 1week of the start; default: whenever it is cheapest.",
        label="deadline",
        shown=lambda seconds: f"{seconds / HOUR:g} h",
    )
    headroom: float | None = as_in(
        JobRequest,
        "headroom",
        says="Plan the work at least this much longer than expected, whatever the confidence; "
        f"default {TRAINING_HEADROOM:.0%}.",
    )
    gpus: Sequence[str] | None = as_in(
        JobRequest,
        "gpus",
        kind=names("NAME[:N],..."),
        says="Only these GPUs, so many of them where a number is said: H100:256.",
    )
    global_batch: int | None = optional(
        WHOLE,
        "Sequences of a step over all GPUs; default: 131k tokens in fine-tuning, 4M in pre-training.",
        TRAINING,
        name="batch",
        what="the global batch",
        bounds=Bounds(1, 1_000_000, "sequences"),
        label="global batch",
        shown="{:,} sequences".format,
    )
    precision: str | None = optional(
        text("NAME"),
        "bf16-mixed (default), bf16-autocast, bf16 (default of adapters), fp16, fp16-mixed, fp8-mixed, nvfp4-mixed or "
        "fp32.",
        ENGINE,
        what="the precision",
    )
    optimizer: str | None = optional(
        text("NAME"),
        "adamw (default), adamw-8bit, paged-adamw-8bit; each also with -in-backward behind it.",
        ENGINE,
        label="optimizer",
        what="the optimizer",
    )
    layout: str | None = optional(
        text("NAME=N,..."),
        "Fix parts of the layout: tp=4,pp=2,cp=1,ep=8,dp=2,micro-batch=1,interleave=2,recompute=full,sharding=zero-3.",
        TRAINING,
        joined_by=",",
        has_parts=True,
        label="layout",
    )
    offload: Sequence[str] | None = optional(
        names("WHAT,..."),
        "Keep optimizer, activations or weights in host memory.",
        TRAINING,
        label="kept in host memory",
        shown=", ".join,
    )
    measured: str | None = optional(
        text("RUN@N"),
        "Runs of your own, layout and tokens/s/GPU: 'H100:8,micro-batch=4@9800'; more behind ';'.",
        TRAINING,
        label="your own runs",
    )
    calibration: str | NamedPath | OwnStack | None = worded(
        CALIBRATION, says="What 'gpufleet calibrate --save' kept of your own training runs."
    )
    stack: str | None = optional(
        text("NAME"),
        "Software: te (default of pre-training), pytorch-sdpa (default of fine-tuning), eager or jax.",
        ENGINE,
        what="the stack",
        label="stack",
    )
    eager: bool = flag("Kernels are not fused: as --stack eager.", ENGINE)
    idle: bool = flag("GPUs of a machine may stay idle.", TRAINING)


@dataclass(frozen=True)
class TrainRequest(TrainingRequest):
    """Training all weights of a model from nothing: `TrainingRequest` says what may be named."""


@dataclass(frozen=True)
class FinetuneRequest(TrainingRequest):
    """Training a model further: all of its weights, or adapters beside it (LoRA; QLoRA on weights of 4 bits)."""

    method: str | None = optional(
        text("NAME"), "full, lora (default) or qlora.", TRAINING, what="the method", label="method"
    )
    rank: int | None = optional(
        WHOLE,
        f"Rank of adapters; default {DEFAULT_RANK}.",
        TRAINING,
        what="the rank",
        bounds=Bounds(1, 65_536, ""),
        label="rank",
    )
    modules: Sequence[str] | None = optional(
        names("NAME,..."),
        "Matrices with adapters: q,k,v,o,gate,up,down, attention, all-linear (default).",
        TRAINING,
        label="adapters on",
        shown=", ".join,
    )


TRAINED: tuple[type[TrainingRequest], ...] = (TrainRequest, FinetuneRequest)
NOT_OF_TRAINING = ("trace", "engine", "every")
"""Words of other jobs that training has no use for."""


def words_of_training(kind: type[TrainingRequest]) -> dict[str, Word[Any]]:
    """Words of a question of training."""
    return {name: row for name, row in words_of(kind).items() if name not in NOT_OF_TRAINING}
