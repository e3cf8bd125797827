"""The command that starts one running copy of a model as an answer assumes it, for the engines that serve."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from gpufleet.deploy.beside import adapter_notes, sglang_flags, tensorrt_llm_lines, vllm_flags
from gpufleet.deploy.drafts import draft_notes, sglang_drafts, tensorrt_llm_drafts, vllm_drafts
from gpufleet.domain.engine import EngineProfile, ServedAs
from gpufleet.domain.engine_flags import EngineFlags
from gpufleet.domain.engine_images import EngineImages
from gpufleet.domain.engine_start import EngineStart
from gpufleet.domain.layout import Layout
from gpufleet.domain.precision import BF16, FP16, Precision, WeightFormat
from gpufleet.domain.precision_labels import kv_precision
from gpufleet.errors import UnknownName, UsageError
from gpufleet.languages import shell_command
from gpufleet.records import dataclass
from gpufleet.results.base import Launch

SIXTEEN_BITS = (BF16.name, FP16.name)
UNCHUNKED = -1
NO_CHECKPOINT = "path/to"
USUAL_HOST = "x86_64"
FRACTION_DIGITS, ROUNDING = 4, 1e-6
VISIBLE_DEVICES = {"nvidia": "CUDA_VISIBLE_DEVICES", "amd": "HIP_VISIBLE_DEVICES"}
SHARING = "replicas share a machine, each with a --port and GPUs of its own"
OPTIONS_FILE = "extra-llm-api-options.yaml"
CACHE_OF_VLLM = {"fp8": "fp8", "bf16": "bfloat16", "fp16": "float16"}
CACHE_OF_SGLANG = {"fp8": "fp8_e4m3", "bf16": "bf16"}
CACHE_OF_TENSORRT_LLM = ("fp8", "int8")

WITH_DASHES = {
    "tool_call_parser": "--tool-call-parser",
    "reasoning_parser": "--reasoning-parser",
    "chat_template": "--chat-template",
}
TOLD_FLAGS: Mapping[str, Mapping[str, str]] = {
    "vllm": WITH_DASHES,
    "sglang": WITH_DASHES,
    "tensorrt-llm": {
        "tool_call_parser": "--tool_parser",
        "reasoning_parser": "--reasoning_parser",
        "chat_template": "--chat_template",
    },
}


@dataclass(frozen=True)
class Replica:
    """What an answer assumes: formats, layout, limits and memory of one copy.

    `checkpoint`: a hub id or a folder, None where none is known; `stands_for_shape` where the question named a shape
    that several have. `stored` is its own format, `weights` what runs.
    `sequences` decode together at most, over all attention-DP groups; None leaves that to the engine.
    `memory_fraction` is of the device, for TensorRT-LLM of what is free once weights and buffers are taken.
    `flags` are those of the engine's version, to which the command is held; None where no table has them. `images` are
    those of the engine. `draft_checkpoint`: what a draft is loaded from, where it is not the model's own or the text.
    """

    model: str
    checkpoint: str | None
    engine: EngineProfile
    layout: Layout
    stored: WeightFormat
    weights: WeightFormat
    kv: Precision
    longest_request_tokens: int
    step_tokens: int
    memory_fraction: float
    stands_for_shape: bool = False
    vendor: str = "nvidia"
    generation: str = ""
    host_architecture: str = "x86_64"
    sequences: int | None = None
    replicas_per_machine: int | None = None
    flags: EngineFlags | None = None
    images: EngineImages = EngineImages()
    draft_checkpoint: str | None = None

    @property
    def image(self) -> str | None:
        """The container image of the engine's version for such a machine, where one is known."""
        return self.images.image(self.engine.version, self.vendor, self.host_architecture, self.generation)

    @property
    def start(self) -> EngineStart:
        """What somebody said of how the engine is started."""
        return self.engine.start

    @property
    def sequences_per_group(self) -> int | None:
        """The most that decode together in one attention-DP group."""
        return None if self.sequences is None else max(self.sequences // self.layout.attention_dp, 1)

    @property
    def is_widened_to_fp16(self) -> bool:
        """Whether parts stored in bf16 run in fp16, as on cards without bf16 arithmetic."""
        return self.stored.base.name == BF16.name and self.weights.base.name == FP16.name

    @property
    def named_dtype(self) -> str | None:
        """The 16 or 32 bits that must be said: what the engine takes of itself is not sure, or not what is planned."""
        if self.engine.told.dtype not in (None, "auto"):
            return self.engine.told.dtype
        if self.stored.is_narrowed:
            return {"fp32": "float32", FP16.name: "float16"}.get(self.weights.base.name, "bfloat16")
        return "float16" if self.is_widened_to_fp16 else self.engine.told.dtype

    @property
    def is_requantised(self) -> bool:
        """Whether the weights run in another format than they are stored in, fp16 for bf16 apart."""
        if self.stored.is_narrowed and self.weights.name == "fp32":
            return False
        parts = ("attention", "mlp", "experts", "head")
        stored, runs = (tuple(_folded(getattr(w, part)) for part in parts) for w in (self.stored, self.weights))
        return stored != runs

    @property
    def is_quantised_by_loading(self) -> bool:
        """Whether an engine can make the format from the stored one while it loads: fp8 from 16 bits."""
        return self.is_requantised and self.weights.mlp.name == "fp8" and self.stored.mlp.name in SIXTEEN_BITS

    @property
    def names_cache_format(self) -> bool:
        """Whether the KV format must be said: it is not what the engine takes from the checkpoint, or not 16 bits."""
        usual = kv_precision(self.weights, self.engine)
        return self.kv.name not in SIXTEEN_BITS or usual.name not in SIXTEEN_BITS

    def loaded_from(self, quantises: bool) -> str:
        """The checkpoint; a name to be replaced where none is known, or where the engine needs another than the stored.

        `quantises`: whether the engine makes fp8 weights while it loads.
        """
        if self.is_requantised and not (quantises and self.is_quantised_by_loading):
            return f"{NO_CHECKPOINT}/{self.model}-{self.weights.name.partition(' ')[0]}"
        return self.checkpoint or f"{NO_CHECKPOINT}/{self.model}"


def _folded(precision: Precision) -> str:
    return BF16.name if precision.name == FP16.name else precision.name


def command(start: list[str], flags: Mapping[str, object]) -> list[list[str]]:
    """The words of a command in groups, a flag with its values: True stands alone, None and False are not said.

    >>> command(["serve"], {"--tp": 2, "--mixed": True, "--seqs": None})
    [['serve'], ['--tp', '2'], ['--mixed']]
    """
    said = {flag: value for flag, value in flags.items() if value is not None and value is not False}
    return [start, *([flag, *words_of(value)] for flag, value in said.items())]


def words_of(value: object) -> list[str]:
    """The words after a flag."""
    if value is True:
        return []
    return [str(each) for each in value] if isinstance(value, tuple) else [str(value)]


def if_several(ranks: int) -> int | None:
    """Ranks that have to be said: of one nothing is."""
    return ranks if ranks > 1 else None


def format_flags(r: Replica, cache: Mapping[str, str]) -> dict[str, str | None]:
    """Formats in the words that vLLM and SGLang share, those of the cache apart."""
    return {
        "--kv-cache-dtype": cache_word(r, cache),
        "--quantization": "fp8" if r.is_quantised_by_loading else None,
        "--dtype": r.named_dtype,
    }


def told_flags(engine: EngineProfile) -> dict[str, object]:
    """What is said beyond layout, limits and formats; vLLM calls tools by itself only where it is told to."""
    flags: dict[str, object] = {flag: getattr(engine.told, word) for word, flag in TOLD_FLAGS[engine.name].items()}
    is_to_choose = engine.name == "vllm" and engine.told.tool_call_parser is not None
    return {**flags, "--enable-auto-tool-choice": is_to_choose} if engine.name == "vllm" else flags


def refuse_untaken(engine: EngineProfile, told: ServedAs, known: EngineFlags | None) -> None:
    """Refuse a word that the engine's version has no flag for, or a parser that it does not list."""
    for word, value in ((word, getattr(told, word)) for word in WITH_DASHES if getattr(told, word) is not None):
        flag = TOLD_FLAGS.get(engine.name, {}).get(word)
        found = known.flag_of(flag) if known is not None and flag is not None else None
        title = engine.title if known is None else f"{engine.title} {known.version}"
        if found is None:
            raise UsageError(f"{title} takes no {word.replace('_', ' ')}", found=value, expected="an engine that does")
        if found.choices and value not in found.choices:
            listed = f"{title} has: {', '.join(found.choices)}."
            raise UnknownName(f"{word.replace('_', ' ')} of {title}", value, found.choices, hint=listed)


def cache_word(r: Replica, cache: Mapping[str, str]) -> str | None:
    """The KV format in an engine's word, where it must be said and the version has it."""
    word = cache.get(r.kv.name) if r.names_cache_format else None
    flag = r.flags.flag_of("--kv-cache-dtype") if r.flags else None
    return None if flag is not None and flag.choices and word not in flag.choices else word


def cache_notes(r: Replica, title: str, cache: Mapping[str, str]) -> list[str]:
    """That no flag asks for the KV format."""
    is_said = not r.names_cache_format or r.kv.name in SIXTEEN_BITS or cache_word(r, cache) is not None
    return [] if is_said else [f"No flag of {title} asks for a KV cache in {r.kv.name}"]


def vllm_words(r: Replica) -> list[list[str]]:
    """The words of `vllm serve`.

    --gpu-memory-utilization is said though 0.9 was the default for long: releases of 2026 take 0.92. --max-num-seqs is
    of one data-parallel rank. Experts are spread over all ranks of TP x DP (--enable-expert-parallel), or cut.
    """
    flags = {
        "--tensor-parallel-size": r.layout.tp,
        "--pipeline-parallel-size": if_several(r.layout.pp),
        "--data-parallel-size": if_several(r.layout.attention_dp),
        "--enable-expert-parallel": r.layout.ep > 1,
        "--max-model-len": r.longest_request_tokens,
        "--max-num-seqs": r.sequences_per_group,
        "--max-num-batched-tokens": r.step_tokens,
        "--gpu-memory-utilization": f"{r.memory_fraction:g}",
        "--block-size": r.start.block_tokens,
        "--enable-chunked-prefill": r.start.chunks_prompts,
        "--no-enable-chunked-prefill": r.start.chunks_prompts is False,
        "--enforce-eager": r.start.enforce_eager,
        **vllm_drafts(r.engine.drafts, r.draft_checkpoint),
    }
    further = {**format_flags(r, CACHE_OF_VLLM), **vllm_flags(r.engine), **told_flags(r.engine)}
    return command(["vllm", "serve", r.loaded_from(quantises=True)], {**flags, **further})


def vllm_notes(r: Replica) -> list[str]:
    """What the flags cannot say, or what must hold for them to work."""
    notes = []
    if r.is_quantised_by_loading:
        notes.append(
            "vLLM may load the stored weights before it makes fp8 of them: where those do not fit, serve a checkpoint "
            "that is stored in fp8, without --quantization"
        )
    if r.layout.ep not in (1, r.layout.devices_per_stage):
        gpus = r.layout.devices_per_stage
        notes.append(f"vLLM spreads experts over all {gpus} GPUs of a stage, not over EP {r.layout.ep}")
    return [*notes, *cache_notes(r, "vLLM", CACHE_OF_VLLM)]


def sglang_words(r: Replica) -> list[list[str]]:
    """The words of `python -m sglang.launch_server`.

    --tp-size counts the GPUs of a stage: with --enable-dp-attention, --dp-size groups share them.
    --max-running-requests is of all groups together.
    """
    start = ["python", "-m", "sglang.launch_server", "--model-path", r.loaded_from(quantises=True)]
    flags = {
        "--tp-size": r.layout.devices_per_stage,
        "--pp-size": if_several(r.layout.pp),
        "--dp-size": if_several(r.layout.attention_dp),
        "--enable-dp-attention": r.layout.attention_dp > 1,
        "--ep-size": if_several(r.layout.ep),
        "--context-length": r.longest_request_tokens,
        "--max-running-requests": r.sequences,
        "--chunked-prefill-size": UNCHUNKED if r.start.chunks_prompts is False else r.step_tokens,
        "--max-prefill-tokens": r.start.max_step_tokens if r.start.chunks_prompts is False else None,
        "--page-size": r.start.block_tokens,
        "--disable-cuda-graph": r.start.enforce_eager,
        "--enable-mixed-chunk": bool(r.engine.figure("mixes_prompts", 0.0)),
        "--mem-fraction-static": f"{r.memory_fraction:g}",
        **sglang_drafts(r.engine.drafts, r.draft_checkpoint),
    }
    further = {**sglang_flags(r.engine, r.layout.num_devices), **told_flags(r.engine)}
    return command(start, {**flags, **format_flags(r, CACHE_OF_SGLANG), **further})


def sglang_notes(r: Replica) -> list[str]:
    """What the flags cannot say, or what must hold for them to work."""
    notes = []
    if r.is_quantised_by_loading:
        notes.append(
            "SGLang needs more memory while it makes fp8 of the stored weights: where that fails, serve a checkpoint "
            "that is stored in fp8, without --quantization"
        )
    return [*notes, *cache_notes(r, "SGLang", CACHE_OF_SGLANG)]


def tensorrt_llm_words(r: Replica) -> list[list[str]]:
    """The words of `trtllm-serve`.

    --tp_size counts the GPUs of a stage; --max_batch_size and --max_num_tokens are of one attention-DP rank.
    """
    flags = {
        "--tp_size": r.layout.devices_per_stage,
        "--pp_size": if_several(r.layout.pp),
        "--ep_size": if_several(r.layout.ep),
        "--max_batch_size": r.sequences_per_group,
        "--max_num_tokens": r.step_tokens,
        "--max_seq_len": r.longest_request_tokens,
        "--kv_cache_free_gpu_memory_fraction": f"{r.memory_fraction:g}",
        "--extra_llm_api_options": OPTIONS_FILE if tensorrt_llm_options(r) else None,
        **told_flags(r.engine),
    }
    return command(["trtllm-serve", r.loaded_from(quantises=False)], flags)


def tensorrt_llm_options(r: Replica) -> str:
    """What only the options file takes; empty where nothing is said there.

    A KV section of its own repeats the fraction.
    """
    lines = ["enable_attention_dp: true"] if r.layout.attention_dp > 1 else []
    is_cut = r.longest_request_tokens > r.step_tokens and r.start.chunks_prompts is not False
    lines += ["enable_chunked_prefill: true"] if is_cut or r.start.chunks_prompts else []
    lines += ["cuda_graph_config: null"] if r.start.enforce_eager else []
    lines += [f"dtype: {r.named_dtype}"] if r.named_dtype else []
    lines += tensorrt_llm_drafts(r.engine.drafts, r.draft_checkpoint)
    lines += tensorrt_llm_lines(r.engine)
    host_bytes = r.engine.beside.kv_bytes
    cache = [f"  dtype: {r.kv.name}"] if r.names_cache_format and r.kv.name in CACHE_OF_TENSORRT_LLM else []
    cache += [f"  tokens_per_block: {r.start.block_tokens}"] if r.start.block_tokens else []
    if cache or host_bytes:
        lines += ["kv_cache_config:", *cache, f"  free_gpu_memory_fraction: {r.memory_fraction:g}"]
        lines += [f"  host_cache_size: {math.ceil(host_bytes / r.layout.num_devices)}"] if host_bytes else []
    return "".join(f"{line}\n" for line in lines)


def tensorrt_llm_notes(r: Replica) -> list[str]:
    """What the flags cannot say, or what must hold for them to work."""
    if r.layout.attention_dp == 1 or r.layout.tp == 1:
        return []
    return [f"With attention-DP TensorRT-LLM gives every GPU requests of its own: it has no {r.layout.label}"]


@dataclass(frozen=True)
class Dialect:
    """How one engine is told: words in groups, what goes into a file, what flags cannot say; what measures it running.

    `benchmark`: docs.vllm.ai/en/latest/cli (bench), docs.sglang.ai (bench_serving), nvidia.github.io/TensorRT-LLM ("Run
    benchmarking with trtllm-serve"); read 2026-11-29.
    """

    documented: str
    benchmark: str
    words: Callable[[Replica], list[list[str]]]
    notes: Callable[[Replica], list[str]]
    options: Callable[[Replica], str] = lambda _: ""


DIALECTS = {
    "vllm": Dialect("vLLM 0.10 and later (docs.vllm.ai)", "vllm bench serve", vllm_words, vllm_notes),
    "sglang": Dialect("SGLang 0.5 (docs.sglang.io)", "python -m sglang.bench_serving", sglang_words, sglang_notes),
    "tensorrt-llm": Dialect(
        "TensorRT-LLM 1.0 and later (nvidia.github.io/TensorRT-LLM)",
        "python -m tensorrt_llm.serve.scripts.benchmark_serving",
        tensorrt_llm_words,
        tensorrt_llm_notes,
        tensorrt_llm_options,
    ),
}


def launch(replica: Replica) -> Launch | None:
    """What starts the replica; None for engines that serve no requests as they come."""
    dialect = DIALECTS.get(replica.engine.name)
    if dialect is None:
        return None
    groups = dialect.words(replica)
    if replica.flags is not None:
        replica.flags.held(groups)
    options = dialect.options(replica)
    return Launch(
        engine=f"{replica.engine.title} ({replica.engine.version_era})",
        documented=dialect.documented,
        benchmark=dialect.benchmark,
        image=replica.image,
        command=shell_command(word for group in groups for word in group),
        arguments=[word for group in groups for word in group],
        groups=[len(group) for group in groups],
        options_file=OPTIONS_FILE if options else None,
        options=options or None,
        replicas_per_machine=replica.replicas_per_machine,
        notes=[
            *checkpoint_notes(replica, groups[0][-1]),
            *host_notes(replica),
            *dialect.notes(replica),
            *adapter_notes(replica.engine),
            *draft_notes(replica.engine.drafts, replica.engine.name, replica.draft_checkpoint),
            *version_notes(replica.engine.title, replica.flags),
            *neighbour_notes(replica),
        ],
    )


def version_notes(title: str, flags: EngineFlags | None) -> list[str]:
    """That the flags are those of another version than the one that was asked for."""
    if flags is None or flags.is_exact:
        return []
    return [f"Flags are those of {title} {flags.version}, the nearest version that is known"]


def checkpoint_notes(replica: Replica, loaded_from: str) -> list[str]:
    """What must stand in the place of a checkpoint that nobody named."""
    if loaded_from == replica.checkpoint:
        stands = f"{loaded_from} stands for {replica.model}: name your own"
        return [stands] if replica.stands_for_shape else []
    needs = f", stored in {replica.weights.name}," if replica.is_requantised else ""
    return [f"Put the hub id or folder of your checkpoint{needs} in place of {loaded_from}"]


def host_notes(replica: Replica) -> list[str]:
    """The image for machines whose CPU is none of x86, and the version that it begins with."""
    host = replica.host_architecture
    built = None if host == USUAL_HOST else replica.images.first(replica.vendor, host)
    return [f"The machine's CPU is {host}: {built[0]} has a build for it from {built[1]} on"] if built else []


def neighbour_notes(replica: Replica) -> list[str]:
    """What tells replicas on one machine apart."""
    if replica.replicas_per_machine is None or replica.replicas_per_machine == 1:
        return []
    size, variable = replica.layout.num_devices, VISIBLE_DEVICES.get(replica.vendor)
    first, second = (",".join(str(n) for n in range(k * size, (k + 1) * size)) for k in (0, 1))
    by = f": {variable}={first} before the first, {second} before the next" if variable else ""
    return [f"{replica.replicas_per_machine} {SHARING}{by}"]


def written_fraction(fraction: float) -> float:
    """A memory fraction as it is typed: rounded up, so that no sequence loses its room.

    >>> written_fraction(0.8742310), written_fraction(0.9000000000001)
    (0.8743, 0.9)
    """
    scale = 10.0**FRACTION_DIGITS
    return math.ceil(fraction * scale - ROUNDING) / scale
