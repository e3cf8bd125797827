"""Questions of plans, and the one row of each of their words: what all say, and what services, jobs and models add."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import KW_ONLY, field
from datetime import date
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from gpufleet.domain.beside import parse_adapters
from gpufleet.domain.images import LONGEST_SIDE_PIXELS, MOST_IMAGES, Images
from gpufleet.errors import UsageError
from gpufleet.questions.words import (
    BESIDE,
    COUNT,
    ENGINE,
    HOURS_OF_DAY,
    INTEGER,
    LOAD,
    NUMBER,
    PEER_TO_PEER,
    PERIOD,
    RATE_TEXT,
    RENTED,
    ROW_COUNT,
    SHARE,
    SLACK,
    STANDS_OR_NOT,
    USD_AT_ALL,
    USD_PER_TIME,
    WHOLE,
    WRITTEN,
    Kind,
    Preferred,
    Request,
    Word,
    as_in,
    file,
    flag,
    maybe_file,
    names,
    on_off,
    optional,
    plain,
    said_by,
    text,
    time_like,
    worded,
    words_of_fields,
)
from gpufleet.questions.words import words_of as words_of
from gpufleet.records import dataclass
from gpufleet.units import (
    BYTES,
    GIB,
    HOUR,
    REQUESTS_PER_S,
    TOKENS,
    USD_PER_HOUR,
    Bounds,
    in_full,
    parse_bytes,
    parse_whole_tokens,
)

if TYPE_CHECKING:
    from gpufleet.domain.architecture import Architecture
    from gpufleet.domain.encoder import EncoderModel
    from gpufleet.domain.own_stack import OwnStack
    from gpufleet.domain.slo import Slo
    from gpufleet.domain.token_counts import TokenCounts


EXPECTED = (
    f"count x width x height in pixels, such as 1x1024x1024; at most {MOST_IMAGES:,} images of "
    f"{LONGEST_SIDE_PIXELS:,} x {LONGEST_SIDE_PIXELS:,}"
)
MOST_ROWS = 1000
DEFAULT_HEADROOM = 0.2
DEFAULT_CONFIDENCE = 0.8
DEFAULT_STEADY = 0.2
MODEL = Word(maybe_file("MODEL"), "A name, a config.json, or the folder of one.", LOAD, is_typed=False)
RATE = Word(RATE_TEXT, "Requests per time, with Poisson arrivals: 50/s, 3000/min.", LOAD)
ENGINE_VERSION = Word(
    text("VERSION"), "Such as 0.6.4; default: the newest known; or --engine vllm==0.6.4.", ENGINE, name="engine_version"
)
MAX_NUM_SEQS = Word(
    INTEGER,
    "Sequences that the engine runs at once (SGLang: --max-running-requests).",
    ENGINE,
    name="max_num_seqs",
    singular="--max-batch",
    what="the number of sequences",
    bounds=Bounds(1, 1_000_000, ""),
)
MAX_STEP_TOKENS = Word(
    INTEGER,
    "Tokens of one step (SGLang: --chunked-prefill-size).",
    ENGINE,
    name="max_num_batched_tokens",
    singular="--max-step-tokens",
    what="the tokens of a step",
    bounds=Bounds(1, 10_000_000, ""),
)
MEMORY_FRACTION = Word(
    SHARE,
    "Share of memory that the engine keeps to: 0.9 (SGLang: --mem-fraction-static).",
    ENGINE,
    name="gpu_memory_utilization",
    singular="--memory-fraction",
)
CALIBRATION = Word(
    file("FILE.toml"),
    "What 'gpufleet calibrate --save' kept of your own engine on a GPU.",
    ENGINE,
    name="calibration",
    is_in_files=False,
)
DTYPE = Word(
    text("NAME"), "16 bits of computing: bfloat16, float16 or auto (default: the checkpoint's).", ENGINE, name="dtype"
)
TOOL_CALL_PARSER = Word(
    text("NAME"), "Parser of tool calls in the command (TensorRT-LLM: --tool_parser).", ENGINE, name="tool_call_parser"
)
REASONING_PARSER = Word(text("NAME"), "Parser of reasoning in the command.", ENGINE, name="reasoning_parser")
CHAT_TEMPLATE = Word(text("TEMPLATE"), "Chat template, a file that the server reads.", ENGINE, name="chat_template")
TOLD = ("dtype", "tool_call_parser", "reasoning_parser", "chat_template")
REPLICA_RATE = Word(
    text("[GPU:N@]N/TIME"),
    "What one copy of yours carried within your limits: 1.9/s with one --gpu, H100:2@1.9/s.",
    ENGINE,
    name="replica_rate",
    label="your rate of a copy",
)
MAX_MODEL_LEN = Word(
    Kind("TOKENS", plain(parse_whole_tokens), unit="tokens"),
    "Tokens of the longest request, prompt and answer (SGLang: --context-length).",
    ENGINE,
    name="max_model_len",
    what="the longest request",
    bounds=TOKENS,
)
BLOCK_SIZE = Word(
    INTEGER,
    "Tokens of a block of the KV cache (TensorRT-LLM: tokens_per_block).",
    ENGINE,
    name="block_size",
    singular="--page-size",
    what="the tokens of a block",
    bounds=Bounds(1, 8192, ""),
)
CHUNKED_PREFILL = Word(
    STANDS_OR_NOT,
    "Prompts may be cut over steps, with --no- not (SGLang: --chunked-prefill-size -1).",
    ENGINE,
    name="enable_chunked_prefill",
    is_negated=True,
)
ENFORCE_EAGER = Word(STANDS_OR_NOT, "No CUDA graphs (SGLang: --disable-cuda-graph).", ENGINE, name="enforce_eager")
LORA = Word(
    Kind("NxrR", plain(lambda said: str(parse_adapters(said)))),
    "LoRA adapters: 20xr16 of rank 16, all on the GPUs; 20xr16/4: four slots; 20xr16@attention.",
    ENGINE,
    name="lora",
)
LORA_SLOWDOWN = Word(
    NUMBER,
    "How much longer steps take with adapters: 0.15; default: nobody knows.",
    ENGINE,
    name="lora_slowdown",
    what="the slowdown by adapters",
    bounds=Bounds(0, 10, "(0.15: 15 % longer)"),
)
CPU_OFFLOAD = Word(
    NUMBER,
    "GiB of weights of each GPU in host memory, read in every step: 10.",
    ENGINE,
    name="cpu_offload_gb",
    what="the weights in host memory",
    bounds=Bounds(0, 4096, "GiB"),
)
KV_OFFLOAD = Word(
    Kind("SIZE", plain(parse_bytes), unit="bytes"),
    "KV cache that a copy keeps in host memory beside that of its GPUs: 200GiB.",
    ENGINE,
    name="kv_offload",
    shown=lambda size: f"{in_full(size / GIB)} GiB",
    what="the KV cache in host memory",
    bounds=BYTES,
)
KEPT_BESIDE = ("lora", "lora_slowdown", "cpu_offload_gib", "kv_offload_bytes")
"""Fields that say what is kept beside a model."""
SPECULATE = Word(
    text("METHOD:K"),
    "Draft K tokens a step: mtp:3, eagle3:3, ngram:5, or a draft model: qwen3-0.6b:4; mtp:3@coding names the task.",
    ENGINE,
    name="speculate",
)
ACCEPTED_LENGTH = Word(
    COUNT,
    "Tokens that a step with drafts yields, as your engine's metrics say: 2.4.",
    ENGINE,
    name="accepted_length",
    what="the accepted length",
    bounds=Bounds(1, 65, ""),
)
ACCEPTANCE = Word(
    SHARE,
    "Share of drafted tokens that are accepted, each after the last: 0.7.",
    ENGINE,
    name="acceptance",
    what="the acceptance",
    bounds=Bounds(0, 1, ""),
)
SPECULATED = ("speculate", "accepted_length", "acceptance")
"""Fields that say what drafts tokens."""
STARTED = (
    "engine_version", "max_batch", "max_step_tokens", "memory_fraction", "max_model_len", "block_tokens",
    "chunks_prompts", "enforce_eager", "calibration", *TOLD, *KEPT_BESIDE, *SPECULATED,
)  # fmt: skip
"""Fields that say which engine was started, and how."""
IN = Word(text("TOKENS"), "Tokens of a prompt: 1000, 8k, 300..4000, fixed=1000.", LOAD, name="in", has_parts=True)
OUT = Word(
    text("TOKENS"),
    "Tokens of an answer.",
    LOAD,
    name="out",
    has_parts=True,
    hint="--out is the tokens of an answer; --out-file FILE writes the page to a file.",
)
SLO = Word(
    text("LIMITS"),
    "Objectives, such as 'ttft.p95<500ms,tpot.p95<40ms'.",
    LOAD,
    joined_by=",",
    preferred=Preferred("objectives of a plan", "none", 5),
)
REQUESTS = Word(COUNT, "How many requests: 10M, 250k.", LOAD, what="the number of requests")
DEADLINE = Word(PERIOD, "Done within 90min, 24h, 3d, 1week of the start.", LOAD, name="deadline")
PREFIX_CACHE = Word(
    SHARE,
    "Share of prompt tokens that all requests have in common and a cache holds.",
    LOAD,
    label="prefix cache",
    shown=lambda share: f"{share:.0%} of prompt tokens" if share else "",
)
PREFIX_KV = Word(
    SHARE,
    "Share of prompt tokens whose KV is held once for all requests.",
    LOAD,
    label="KV held once",
    shown="{:.0%} of prompt tokens".format,
    is_typed=False,
)

ROWS = Word(
    ROW_COUNT, "Rows of the ranking.", WRITTEN, bounds=Bounds(1, MOST_ROWS, ""), is_in_files=False, shows_default=True
)
WORKLOAD = Word(
    file("FILE.yaml"),
    "Read these options from a file; an option typed here replaces its value.",
    LOAD,
    name="workload",
    is_in_files=False,
)
TRACE = Word(file(), "Take lengths and rate from a CSV or JSONL trace of requests.", LOAD, name="trace")
CURRENCY = Word(
    text("CODE@RATE"),
    "Show money in another currency, at your rate: EUR@0.92.",
    WRITTEN,
    name="currency",
    preferred=Preferred("currency of an answer, and your rate", "USD", 7),
    is_of_each_model=False,
)


def parse_images(text: str) -> Images:
    """How many images a request has, and their width and height in pixels.

    >>> parse_images("2 x 1024 x 768")
    Images(count=2, width_pixels=1024, height_pixels=768)
    """
    found = re.fullmatch(r"\s*(\d{1,9})\s*[x×]\s*(\d{1,9})\s*[x×]\s*(\d{1,9})\s*", str(text), re.IGNORECASE | re.ASCII)
    try:
        if found is not None:
            return Images(*map(int, found.groups()))
    except ValueError:
        pass
    raise UsageError("cannot read images", found=text, expected=EXPECTED)


IMAGES = Word(
    Kind("NxWxH", plain(parse_images)),
    "Images in each prompt, beside --in: 1x1024x1024 is one of 1,024 x 1,024 pixels.",
    LOAD,
    label="images",
)


class NamedPath(Protocol):
    """A path, of any library of paths."""

    def __fspath__(self) -> str:
        """The path as text."""
        ...


@dataclass(frozen=True, kw_only=True, init=False)
class MarketRequest(Request):
    """What every question says of the machines that may be rented, and at which prices; None takes the default.

    `price_change`: what if all rented machines cost so much more (0.2: 20 %) or less (-0.1) than known here.
    Prices older than `max_price_age_s` on `today` end the question with DataMissing.
    """

    clouds: Sequence[str] | None = optional(
        names("NAME,..."),
        "Only these clouds, such as aws,gcp.",
        RENTED,
        singular="--cloud",
        preferred=Preferred("clouds that a plan may use", "all", 1),
    )
    providers: Sequence[str] | None = optional(
        names("CLASS,..."),
        "Only providers at least so settled: hyperscaler, established, small; names too.",
        RENTED,
    )
    regions: Sequence[str] | None = optional(
        names("NAME,..."),
        "Only these regions; eu, us, germany too.",
        RENTED,
        singular="--region",
        preferred=Preferred("regions that a plan may use", "all", 2),
    )
    pricing: Sequence[str] | None = optional(
        names("KIND,..."),
        "Price kinds: on_demand (default), spot, ...",
        RENTED,
        preferred=Preferred("price kinds that a plan may use", "on_demand", 3),
    )
    price_change: float | None = None
    max_price_age_s: float | None = None
    today: date | None = None

    @property
    def may_use_spot(self) -> bool:
        """Whether spot machines may be rented where no price kind is named."""
        return True


@dataclass(frozen=True, kw_only=True, init=False)
class PlanRequest(MarketRequest):
    """What every question of a plan may say; None takes the default. Lists name what is allowed.

    Limits hold with `confidence`, from 0.5 (the expected value) over 0.8 (where None) to 0.9 (the high end of ranges)
    and beyond; where nothing keeps what nobody asked for, the plan is that of 0.5 and says so.
    `from_file` names the fields that a workload file gave, `from_config` those that were preferred: they change nothing
    but the origin that the answer states.
    """

    after_needed: ClassVar[tuple[Word[Any], ...]] = (WORKLOAD, TRACE)
    after_all: ClassVar[tuple[Word[Any], ...]] = (CURRENCY,)

    gpus: Sequence[str] | None = optional(
        names("NAME,..."), "Only these GPUs, without a count: H100,L40S.", RENTED, singular="--gpu"
    )
    easily_had: int | None = optional(
        WHOLE,
        "More GPUs of one type in a region than this carry a note; default: by class of provider, 8 to 64.",
        RENTED,
        what="the number of GPUs that are easily had",
        bounds=Bounds(1, 1_000_000, ""),
    )
    owned: Sequence[str] | None = optional(
        names("MACHINES,..."),
        "Machines that you have: '2 x 8 RTX-4090', '4 x A100-80GB at 0.12/kWh'.",
        RENTED,
        label="your machines",
        shown=", ".join,
    )
    precision: Sequence[str] | None = optional(
        names("NAME,..."), "Formats of weights: fp8,int4; default: the checkpoint's own.", ENGINE
    )
    engine: str | None = optional(
        text("NAME"),
        "vllm (default), sglang, tensorrt-llm, or all of them; for encoders one: infinity, vllm, ...",
        ENGINE,
        preferred=Preferred("serving engine", "vllm", 4),
        comes_last=True,
    )
    headroom: float | None = optional(
        SHARE,
        f"Capacity beyond the rate; default {DEFAULT_HEADROOM:.0%}.",
        SLACK,
        what="the headroom",
        bounds=Bounds(0, 10, "(1 = 100 %)"),
        preferred=Preferred("capacity of a plan beyond its rate", f"{DEFAULT_HEADROOM:.0%}", 6),
    )
    confidence: float | None = optional(
        SHARE,
        f"How surely limits hold: {DEFAULT_CONFIDENCE:g} (default), 0.5 as expected, 0.9 at the high end of ranges.",
        SLACK,
        label="confidence",
        shown="{:.3g}".format,
    )
    rows: int = worded(ROWS, 10)
    notes: Sequence[str] = ()
    from_file: Collection[str] = ()
    from_config: Collection[str] = ()


@dataclass(frozen=True, kw_only=True, init=False)
class ServiceRequest(PlanRequest):
    """What a question of a service adds: how busy it gets, what may fail, quiet hours, and what may be spent.

    Capacity is for the rate with the headroom, and for `busiest_rate`, that of a stretch of the time, without it.
    Capacity holds without `spare_machines`, or without one of `zones`. At `off_peak_rate` machines are given back, for
    all but `peak_hours` of a day.
    """

    busiest_rate: float | None = optional(
        RATE_TEXT,
        "Carry this rate of the busiest minutes too; of a trace by itself.",
        SLACK,
        name="busiest",
        what="the busiest rate",
        bounds=REQUESTS_PER_S,
        label="busiest rate",
        shown=lambda rate: f"{in_full(rate)}/s",
        fills="busiest_requests_per_s",
    )
    steady: float | None = optional(
        SHARE,
        f"Pay up to so much more for what holds more surely; default {DEFAULT_STEADY:.0%}, beside --confidence none.",
        SLACK,
        what="what more may be paid",
        bounds=Bounds(0, 1, "(1 = 100 %)"),
        label="paid for what holds more surely",
        shown="up to {:.0%} more".format,
        fills="steady_ratio",
        preferred=Preferred("what more may be paid for what holds more surely", f"{DEFAULT_STEADY:.0%}", 8),
    )
    min_replicas: int | None = optional(
        WHOLE,
        "At least N copies of the model.",
        SLACK,
        what="the number of replicas",
        bounds=Bounds(1, 10_000, ""),
        fills="min_replicas",
    )
    spare_machines: int | None = optional(
        WHOLE,
        "Keep rate and headroom even if N machines fail.",
        SLACK,
        what="the number of spare machines",
        bounds=Bounds(0, 1_000, ""),
        label="spare machines",
        fills="spare_machines",
        beyond_today="spare machines",
        plain=0,
    )
    zones: int | None = optional(
        WHOLE,
        "Spread machines over N zones, any one of which may fail.",
        SLACK,
        what="the number of zones",
        bounds=Bounds(1, 26, ""),
        label="zones",
        shown=lambda n: f"{n}, one may be lost" if n > 1 else "",
        fills="zones",
        beyond_today="zones",
        plain=1,
    )
    off_peak_rate: float | None = optional(
        RATE_TEXT,
        "Rate in quiet hours; needs --peak-hours.",
        SLACK,
        name="off_peak",
        label="rate off peak",
        shown=lambda rate: f"{in_full(rate)}/s",
        beyond_today="quiet hours",
    )
    peak_hours: float | None = optional(
        HOURS_OF_DAY,
        "Hours a day at the full --rate: 10h.",
        SLACK,
        label="peak hours",
        shown="{:g} a day".format,
        beyond_today="quiet hours",
    )
    budget_usd_per_hour: float | None = optional(
        USD_PER_TIME,
        "The most to spend: 20/h, 15000/mo; '20 EUR/h' with --currency.",
        RENTED,
        name="budget",
        what="the budget",
        bounds=USD_PER_HOUR,
        label="budget",
        shown="${:,.2f}/h".format,
        fills="most_usd_per_hour",
        beyond_today="a budget",
        is_of_each_model=False,
    )
    max_spot: float | None = optional(
        SHARE,
        "Put at most this share of the machines on spot.",
        RENTED,
        what="the spot share",
        bounds=Bounds(0, 1, ""),
        label="most on spot",
        shown="{:.0%} of the machines".format,
        fills="most_spot_ratio",
        beyond_today="a spot share",
    )

    @property
    def may_use_spot(self) -> bool:
        """Whether a share of the machines may be on spot."""
        return self.max_spot is not None


@dataclass(frozen=True, kw_only=True, init=False)
class JobRequest(PlanRequest):
    """What a question of a job adds; spot machines may be rented unless price kinds are named.

    A deadline runs from the start of the machines, which take `startup_s` before they work. `budget_usd` is for the
    whole job, which comes again every `period_s` (None: runs once, and buys nothing for a term). It is done in time
    with `confidence`.
    """

    pricing: Sequence[str] | None = as_in(PlanRequest, "pricing", says="Price kinds; default: on_demand and spot.")
    headroom: float | None = as_in(
        PlanRequest,
        "headroom",
        says=f"Plan the work this much longer than expected; default {DEFAULT_HEADROOM:.0%}.",
        preferred=None,
    )
    startup_s: float | None = optional(
        time_like("'10min'"), "Time until a machine is ready (image, weights); default 10min.", SLACK, name="startup"
    )
    most_machines: int | None = optional(
        WHOLE,
        "Rent at most N machines.",
        RENTED,
        name="max_machines",
        what="the number of machines",
        label="most machines",
        is_in_files=False,
    )
    budget_usd: float | None = optional(
        USD_AT_ALL,
        "The most to spend on the whole job; '500 EUR' with --currency.",
        RENTED,
        name="budget",
        label="budget",
        shown="${:,.2f}".format,
        is_of_each_model=False,
    )
    confidence: float | None = as_in(
        PlanRequest,
        "confidence",
        says=f"How surely the job is in time: {DEFAULT_CONFIDENCE:g} (default), 0.5 as expected, 0.9 at the high end.",
    )
    period_s: float | None = optional(
        PERIOD,
        "The job runs again after this time: day, week, 24h; then terms may be bought.",
        SLACK,
        name="every",
        label="comes again",
        shown=lambda seconds: f"every {seconds / HOUR:g} h",
    )


@dataclass(frozen=True, kw_only=True, init=False)
class WriterRequest(PlanRequest):
    """What a question of a model that writes adds; `fractions` also plans machines that hold a slice of a GPU.

    `prefix_cache` is the share of prompt tokens that a cache holds.
    """

    model: str | NamedPath | Architecture = field(kw_only=False, metadata=said_by(MODEL))
    allow_lower_precision: bool = flag("Also plan fp8, nvfp4 and int4 weights; says what they cost in quality.", ENGINE)
    kv_precision: str | None = optional(text("NAME"), "KV cache: bf16, fp16, fp8, int8.", ENGINE, is_in_files=False)
    prefix_cache: float | None = worded(PREFIX_CACHE)
    peer_to_peer: bool | None = worded(PEER_TO_PEER)
    images: Images | None = worded(IMAGES)
    engine_version: str | None = worded(ENGINE_VERSION)
    max_batch: int | None = worded(MAX_NUM_SEQS, label="sequences at once")
    max_step_tokens: int | None = worded(MAX_STEP_TOKENS, label="tokens of a step")
    memory_fraction: float | None = worded(MEMORY_FRACTION, label="memory fraction")
    max_model_len: int | None = worded(MAX_MODEL_LEN, label="longest request", shown="{:,} tokens".format)
    block_tokens: int | None = worded(BLOCK_SIZE, label="tokens of a block")
    chunks_prompts: bool | None = worded(CHUNKED_PREFILL, label="chunked prefill", shown=on_off)
    enforce_eager: bool | None = worded(ENFORCE_EAGER, label="CUDA graphs", shown=lambda eager: on_off(not eager))
    calibration: str | NamedPath | OwnStack | None = worded(CALIBRATION)
    dtype: str | None = worded(DTYPE, label="dtype")
    tool_call_parser: str | None = worded(TOOL_CALL_PARSER, label="tool call parser")
    reasoning_parser: str | None = worded(REASONING_PARSER, label="reasoning parser")
    chat_template: str | None = worded(CHAT_TEMPLATE, label="chat template")
    lora: str | None = worded(LORA, label="adapters")
    lora_slowdown: float | None = worded(LORA_SLOWDOWN, label="slower with adapters", shown="{:.0%}".format)
    cpu_offload_gib: float | None = worded(CPU_OFFLOAD, label="weights in host memory", shown="{:g} GiB a GPU".format)
    kv_offload_bytes: float | None = worded(KV_OFFLOAD, label="KV in host memory")
    speculate: str | None = worded(SPECULATE, label="drafts")
    accepted_length: float | None = worded(ACCEPTED_LENGTH, label="accepted length")
    acceptance: float | None = worded(ACCEPTANCE, label="acceptance")
    fractions: bool = flag(
        "Also rent slices of a GPU; each pays for its share of the machine.", RENTED, comes_last=True
    )


@dataclass(frozen=True, kw_only=True, init=False)
class EncoderRequest(PlanRequest):
    """What a question of a model that is not a decoder adds: one input, and what a decoder beside it writes.

    A request is a text of `input_tokens`, an image, or a recording of `audio_s` seconds (Whisper: one window unless
    said); `output_tokens` and `beams` are of models with a decoder (T5, Whisper); None takes the beams that the engine
    keeps.
    """

    model: str | NamedPath | EncoderModel = field(kw_only=False, metadata=said_by(MODEL))
    input_tokens: float | None = worded(IN)
    output_tokens: float | None = worded(OUT)
    audio_s: float | None = optional(
        time_like("'30s' or '60min'"), "Length of a recording (Whisper, wav2vec): 30s, 30min.", LOAD, name="audio"
    )
    beams: int | None = optional(
        WHOLE,
        "Hypotheses that a decoder keeps (T5, Whisper); default: as many as the engine keeps.",
        LOAD,
        what="the number of beams",
    )


@dataclass(frozen=True)
class RequestKind:
    """One class of requests as it was asked for."""

    name: str
    rate: float = field(metadata=said_by(RATE))
    input_tokens: float | TokenCounts = field(metadata=said_by(IN))
    output_tokens: float | TokenCounts = field(metadata=said_by(OUT))
    slo: str | Slo | None = worded(SLO)
    prefix_cache: float | None = worded(PREFIX_CACHE)
    prefix_kv: float | None = worded(PREFIX_KV)


@dataclass(frozen=True)
class ServeRequest(WriterRequest, ServiceRequest):
    """A model that writes, at a rate; `WriterRequest`, `ServiceRequest` and `PlanRequest` say what else may be named.

    Token counts are one number, or counts that differ from request to request. `classes` are kinds of requests of one
    service: then rate, lengths, objectives and prefix cache are theirs. `prefix_kv` (`prefix_cache` where None) is the
    share of prompt tokens whose KV all requests hold together.
    `fleet_today`: the machines that run now, such as '3 aws:p5.48xlarge@98.32/h'; the plan says what to do with them.
    `reason`: why it may run there alone, kept beside it in the answer.
    `replica_rate`: what one copy carried within these limits where its user measured it; it sizes such copies.
    `disagg`: the cheapest copies that prefill and copies that decode beside the plan.
    `played`: how many times their rate copies carried in a replay, by their names ('1x L4 TP1 bf16 vllm').
    """

    rate: float = field(metadata=said_by(RATE))
    input_tokens: float | TokenCounts = field(metadata=said_by(IN))
    output_tokens: float | TokenCounts = field(metadata=said_by(OUT))
    slo: str | Slo | None = worded(SLO)
    _: KW_ONLY
    classes: Sequence[RequestKind] = ()
    prefix_kv: float | None = worded(PREFIX_KV)
    fleet_today: str | None = optional(
        maybe_file("FLEET"),
        "Say what to do with the machines that run now: '3 aws:p5.48xlarge', '2 H100:8@25/h'.",
        BESIDE,
        name="today",
        joined_by=", ",
        is_of_each_model=False,
    )
    reason: str | None = optional(
        text("TEXT"), "Why it may run there alone, such as compliance.", RENTED, label="reason", is_typed=False
    )
    replica_rate: str | None = worded(REPLICA_RATE)
    disagg: bool = flag(
        "Also plan copies that only prefill with copies that only decode.", BESIDE, is_of_each_model=False
    )
    played: Mapping[str, float] | None = None

    @property
    def kinds(self) -> Sequence[RequestKind]:
        """The classes of requests; one without a name where all are of a kind."""
        own = RequestKind(
            "", self.rate, self.input_tokens, self.output_tokens, self.slo, self.prefix_cache, self.prefix_kv
        )
        return self.classes or (own,)


@dataclass(frozen=True)
class EncoderServeRequest(EncoderRequest, ServiceRequest):
    """A model that is not a decoder, at a rate of inputs; `slo` limits latency, from their arrival to the answer.

    `EncoderRequest`, `ServiceRequest` and `PlanRequest` say what else may be named.
    """

    rate: float = field(metadata=said_by(RATE))
    _: KW_ONLY
    slo: str | Slo | None = worded(SLO)


@dataclass(frozen=True)
class BatchRequest(JobRequest, WriterRequest):
    """A number of requests to a model that writes, by a deadline.

    `WriterRequest`, `JobRequest` and `PlanRequest` say what else may be named. Token counts are one number, or
    counts that differ from request to request.
    """

    requests: float = field(metadata=said_by(REQUESTS))
    input_tokens: float | TokenCounts = field(metadata=said_by(IN))
    output_tokens: float | TokenCounts = field(metadata=said_by(OUT))
    deadline_s: float = field(metadata=said_by(DEADLINE))


@dataclass(frozen=True)
class EncoderBatchRequest(JobRequest, EncoderRequest):
    """A number of inputs to a model that is not a decoder, by a deadline.

    `EncoderRequest`, `JobRequest` and `PlanRequest` say what else may be named.
    """

    requests: float = field(metadata=said_by(REQUESTS))
    deadline_s: float = field(metadata=said_by(DEADLINE))


Question = type[PlanRequest]
SERVE: tuple[Question, ...] = (ServeRequest, EncoderServeRequest)
BATCH: tuple[Question, ...] = (BatchRequest, EncoderBatchRequest)


def words_of_kinds() -> list[str]:
    """Words that a class of requests may hold."""
    return [row.name for row in words_of_fields(RequestKind)]
