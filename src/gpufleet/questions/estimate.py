"""The words of a copy of a model on GPUs, and of an estimate: a copy or two pools, and one kind of load."""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING

from gpufleet.domain.images import Images
from gpufleet.questions.fields import (
    ACCEPTANCE,
    ACCEPTED_LENGTH,
    BLOCK_SIZE,
    CALIBRATION,
    CHAT_TEMPLATE,
    CHUNKED_PREFILL,
    CPU_OFFLOAD,
    DTYPE,
    ENFORCE_EAGER,
    ENGINE_VERSION,
    IMAGES,
    IN,
    KV_OFFLOAD,
    LORA,
    LORA_SLOWDOWN,
    MAX_MODEL_LEN,
    MAX_NUM_SEQS,
    MAX_STEP_TOKENS,
    MEMORY_FRACTION,
    MODEL,
    OUT,
    PREFIX_CACHE,
    RATE,
    REASONING_PARSER,
    SPECULATE,
    TOLD,
    TOOL_CALL_PARSER,
    NamedPath,
)
from gpufleet.questions.words import (
    COUNT,
    ENGINE,
    INTEGER,
    LOAD,
    PEER_TO_PEER,
    REPLICAS,
    Preferred,
    Request,
    Word,
    as_in,
    flag,
    optional,
    said_by,
    text,
    usual,
    worded,
)
from gpufleet.records import dataclass

if TYPE_CHECKING:
    from gpufleet.domain.architecture import Architecture
    from gpufleet.domain.own_stack import OwnStack
    from gpufleet.domain.pool_request import PoolRequest
    from gpufleet.domain.token_counts import TokenCounts


GPUS = Word(text("NAME:N"), "GPU and how many each copy has, such as H100:8.", REPLICAS)
POOL = text("POOL")
TYPED = (
    "in", "out", "gpus", "prefill", "decode", "concurrency", "rate", "batch", "full_queue", "requests", "prefix_cache",
    "tp", "pp", "ep", "attention_dp", "precision", "kv_precision", "images", "engine", "engine_version", "instance",
    "peer_to_peer", "max_num_seqs", "max_num_batched_tokens", "gpu_memory_utilization", "max_model_len", "block_size",
    "enable_chunked_prefill", "enforce_eager", "calibration", *TOLD, "lora", "lora_slowdown", "cpu_offload_gb",
    "kv_offload", "speculate", "accepted_length", "acceptance",
)  # fmt: skip
"""Words that `gpufleet estimate` takes, in the order of its help; the others are Python's."""


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
    engine_version: str | None = worded(ENGINE_VERSION)
    max_batch: int | None = worded(MAX_NUM_SEQS)
    max_step_tokens: int | None = worded(MAX_STEP_TOKENS)
    memory_fraction: float | None = worded(MEMORY_FRACTION)
    max_model_len: int | None = worded(MAX_MODEL_LEN)
    block_tokens: int | None = worded(BLOCK_SIZE)
    chunks_prompts: bool | None = worded(CHUNKED_PREFILL)
    enforce_eager: bool | None = worded(ENFORCE_EAGER)
    calibration: str | NamedPath | OwnStack | None = worded(CALIBRATION)
    dtype: str | None = worded(DTYPE)
    tool_call_parser: str | None = worded(TOOL_CALL_PARSER)
    reasoning_parser: str | None = worded(REASONING_PARSER)
    chat_template: str | None = worded(CHAT_TEMPLATE)
    lora: str | None = worded(LORA)
    lora_slowdown: float | None = worded(LORA_SLOWDOWN)
    cpu_offload_gib: float | None = worded(CPU_OFFLOAD)
    kv_offload_bytes: float | None = worded(KV_OFFLOAD)
    speculate: str | None = worded(SPECULATE)
    accepted_length: float | None = worded(ACCEPTED_LENGTH)
    acceptance: float | None = worded(ACCEPTANCE)
    mixes_prompts: bool = flag("Prompts and decoding share steps (SGLang: --enable-mixed-chunk).", ENGINE)


@dataclass(frozen=True, kw_only=True)
class EstimateRequest(CopyQuestion):
    """One copy on `gpus`, or copies that only `prefill` and copies that only `decode`, under exactly one load.

    Without `engine` vLLM is meant, llama.cpp for its own files.
    `concurrency`: clients in a closed loop; `rate`: Poisson arrivals per second; `batch`: one static batch;
    `full_queue`: as many of `requests` that wait at once as the engine takes; else an endless queue, at the batch that
    serves most. At a rate or from clients, `requests` are a run of so many, which is replayed: too many for a steady
    state are answered too. `prefix_cache` is the share of prompt tokens that a cache holds. `waves` and `length_spread`
    describe the client; the engine is started with `max_batch`, `max_step_tokens`, `memory_fraction` (and keeps to it),
    `max_model_len`, `block_tokens`, `chunks_prompts`, `enforce_eager`,
    `poll_interval_steps`, `gather_steps`, `batch_wait_steps` and `batch_wait_ratio` (see `performance.serving.Client`).
    `explain` adds the steps by operation, and what would be faster. At a rate a number of tokens is a mean, with the
    usual spread of lengths, as in a plan; from clients prompts come as users' do, or all alike where both lengths are
    TokenCounts without percentiles (fixed=1000).
    A pool is "2x H100:4 TP4" (copies, GPUs of one, its TP, PP, EP and DP); the answer has `pools` then.
    """

    gpus: str | tuple[str, int] | None = field(
        default=None,
        kw_only=False,
        metadata=said_by(replace(GPUS, says="GPU and how many, such as H100:8.")),
    )
    input_tokens: float | TokenCounts = field(metadata=said_by(replace(IN, is_needed=True)))
    output_tokens: float | TokenCounts = field(metadata=said_by(replace(OUT, is_needed=True)))
    prefill: str | PoolRequest | None = optional(
        POOL, "In place of --gpus, with --decode: copies that only prefill, such as '2x H100:4 TP4'.", REPLICAS
    )
    decode: str | PoolRequest | None = optional(POOL, "Copies that only decode, such as 'H200:8 DP8 EP8'.", REPLICAS)
    concurrency: float | None = optional(COUNT, "Load: N clients, each of which sends again once it is answered.", LOAD)
    rate: float | None = worded(RATE, says="Load: Poisson arrivals, such as 2/s.")
    batch: float | None = optional(COUNT, "Load: one batch of N, prefilled together.", LOAD)
    full_queue: bool = flag("Load: the queue never empties.", LOAD)
    requests: float | None = optional(
        COUNT, "N requests in all, replayed, at --rate or --concurrency; with --full-queue they wait at once.", LOAD
    )
    prefix_cache: float | None = worded(PREFIX_CACHE, says="Share of prompt tokens that a cache holds; at --rate.")
    images: Images | None = worded(IMAGES, says="Images in each prompt, beside its text: 1x1024x1024.", label="")
    instance: str | None = as_in(CopyQuestion, "instance", says="Use the link of this machine, such as g6e.12xlarge.")
    peer_to_peer: bool | None = worded(PEER_TO_PEER, label="")
    waves: float | None = None
    length_spread: float = 1.0
    poll_interval_steps: float = 1.0
    gather_steps: float = 0.0
    batch_wait_steps: float = 0.0
    batch_wait_ratio: float = 0.0
    explain: bool = False
