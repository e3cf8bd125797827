"""Conditions of a measurement that are not the model's: how the client loads the engine, which layout it ran in."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from gpufleet.catalog.engines import find_engine
from gpufleet.domain.engine import EngineProfile, MemoryEra
from gpufleet.errors import UsageError
from gpufleet.inputs.measurements import MeasurementRow


@dataclass(frozen=True)
class ClientConditions:
    """Prompts sent per slot of concurrency (None: not stated) and tokens between two streamed messages."""

    waves: int | None = None
    stream_interval_tokens: int = 1


@dataclass(frozen=True)
class Client:
    """What a benchmark client does with every engine, and the streaming that it sets for some."""

    waves: int | None = None
    stream_interval_tokens: Mapping[str, int] = field(default_factory=dict)


CLIENTS: Mapping[str, Client] = {
    "inferencex": Client(waves=10, stream_interval_tokens={"sglang": 30, "trtllm": 20, "tensorrt-llm": 20}),
}
Key = TypeVar("Key")
Value = TypeVar("Value")
TRTLLM_BENCH = "TensorRT-LLM docs/source/performance/perf-overview.md (version 0.14.0"
# Requests queued at once by input and output tokens: "Preparing a Dataset" of docs/source/performance/perf-overview.md
# in TensorRT-LLM 0.14
QUEUED_REQUESTS: Mapping[str, Mapping[tuple[float, float], int]] = {
    TRTLLM_BENCH: {
        (128, 128): 30000,
        (128, 2048): 3000,
        (128, 4096): 1500,
        (2048, 128): 3000,
        (2048, 2048): 1500,
        (5000, 500): 1500,
        (1000, 1000): 3000,
        (500, 2000): 3000,
        (20000, 2000): 1000,
    },
}


class StepLimits(NamedTuple):
    """Sequences and tokens of a step that an engine was started or built for; None: its default."""

    max_batch: int | None = None
    max_step_tokens: int | None = None


# (max_batch_size, max_num_tokens) that trtllm-bench built Meta-Llama-3-70B with, by TP and, where it makes a
# difference, by input + output tokens: tensorrt_llm/bench/build/benchmark_config.yml of TensorRT-LLM 0.14
BUILT_FOR: Mapping[str, Mapping[tuple[str, int, float | None], StepLimits]] = {
    TRTLLM_BENCH: {
        ("llama-3-70b", 1, None): StepLimits(2048, 2048),
        ("llama-3-70b", 2, None): StepLimits(256, 1024),
        ("llama-3-70b", 2, 4096): StepLimits(2048, 1024),
        ("llama-3-70b", 4, None): StepLimits(2048, 1024),
        ("llama-3-70b", 8, None): StepLimits(8192, 16384),
    },
}
DATE = re.compile(r"\d{4}-\d{2}(?:-\d{2})?")
OLD_GENERATION = "V0"
GENERATION = re.compile(r"\bV[01]\b")
ISSUE = re.compile(r"github\.com/(?P<repository>[^/\s]+/[^/\s]+) (?:issues|pull)/(?P<number>\d+)")
SUMMED_GPUS = re.compile(r"\bsum over (\d+) GPUs\b")
SPLITS_BY_LAYER = ("llama.cpp", "hf-transformers", "transformers", "hf-accelerate", "exllama", "exllamav2", "autoawq")


def client_conditions(client: str, engine: str) -> ClientConditions:
    """Waves and streaming of a client with an engine.

    >>> client_conditions("inferencex", "sglang")
    ClientConditions(waves=10, stream_interval_tokens=30)
    """
    known = CLIENTS.get(client.casefold(), Client())
    return ClientConditions(known.waves, known.stream_interval_tokens.get(engine.casefold(), 1))


def conditions_of(row: MeasurementRow, engine: str) -> ClientConditions:
    """What the row states itself, else what its client is known to do."""
    known = client_conditions(row.text("client"), engine)
    return ClientConditions(
        waves=row.whole("waves") or known.waves,
        stream_interval_tokens=row.whole("stream_interval_tokens") or known.stream_interval_tokens,
    )


def queued_requests(row: MeasurementRow) -> int | None:
    """Requests of an offline queue: what the row states, else what its source says of these lengths."""
    lengths = (row.number("isl") or 0.0, row.number("osl") or 0.0)
    return row.whole("requests") or _of_source(QUEUED_REQUESTS, row).get(lengths)


def step_limits(row: MeasurementRow, tp: int) -> StepLimits:
    """What a row's engine was built for, where its source says so."""
    built, model = _of_source(BUILT_FOR, row), row.text("model_id")
    tokens = (row.number("isl") or 0.0) + (row.number("osl") or 0.0)
    return built.get((model, tp, tokens)) or built.get((model, tp, None)) or StepLimits()


def _of_source(tables: Mapping[str, Mapping[Key, Value]], row: MeasurementRow) -> Mapping[Key, Value]:
    return next((table for name, table in tables.items() if name in row.text("source")), {})


@dataclass(frozen=True)
class EngineLabel:
    """An engine as a file names it: 'vLLM 0.11.0' is vllm in version 0.11.0."""

    name: str
    version: str | None = None


def engine_of(label: str) -> EngineLabel:
    """Name and version in a label, in the spelling of the engine tables.

    >>> engine_of("vLLM 0.11.0"), engine_of("vLLM (main, 2024-12-14)").name, engine_of("HF transformers").name
    (EngineLabel(name='vllm', version='0.11.0'), 'vllm', 'hf-transformers')
    """
    bare = re.sub(r"\([^)]*\)", "", label).strip()
    name, _, version = bare.rpartition(" ")
    if not re.fullmatch(r"v?\d+(\.\w+)+", version):
        name, version = bare, ""
    return EngineLabel(re.sub(r"\s+", "-", name.casefold()), version or None)


def engine_of_row(row: MeasurementRow) -> EngineLabel:
    """The engine that a row names; a column of its own for the version counts first."""
    if not row.text("engine"):
        raise UsageError("engine not stated")
    found = engine_of(row.text("engine"))
    return EngineLabel(found.name, row.text("engine_version") or found.version)


def memory_version_of(row: MeasurementRow, engine: EngineLabel) -> str | None:
    """The engine version whose memory rules a row ran under; None is today's engine.

    The version that the row states. Else the newest of the era that its date falls into (a date in the engine's label,
    or the number of the issue in the engine's own repository that the row was taken from).
    """
    if engine.version is not None:
        return engine.version
    label = row.text("engine")
    eras = eras_of_generation(find_engine(engine.name), label)
    date, issue = DATE.search(label), ISSUE.search(row.text("source"))
    if date is not None:
        found = next((era for era in eras if date.group() < era.until_date), None)
    elif issue is not None and issue.group("repository") == find_engine(engine.name).repository:
        found = next((era for era in eras if int(issue.group("number")) < era.until_issue), None)
    else:
        found = None
    generation = GENERATION.search(label)
    if found is None and generation is not None and generation.group() == OLD_GENERATION:
        found = eras[-1]
    return None if found is None else found.newest


def eras_of_generation(profile: EngineProfile, label: str) -> Sequence[MemoryEra]:
    """The memory eras of the engine generation that a label names ('vLLM (V0, 2025-04-02)'), else all of them."""
    generation = GENERATION.search(label)
    if generation is None:
        return profile.memory_eras
    return [era for era in profile.memory_eras if era.name.startswith(generation.group())]


@dataclass(frozen=True)
class StatedLayout:
    """TP, PP, EP and attention-DP of a row, and the GPU that it ran on."""

    gpu: str
    tp: int
    pp: int
    ep: int | None
    attention_dp: int

    @property
    def num_gpus(self) -> int:
        """GPUs of one replica."""
        return self.tp * self.pp * self.attention_dp


def layout_of(row: MeasurementRow, engine: str) -> StatedLayout:
    """The layout that a row states; GPUs without TP are a split by layer in engines that split so, else TP."""
    gpu = row.text("gpu_id", "gpu")
    if not gpu:
        raise UsageError("GPU not stated")
    summed = SUMMED_GPUS.search(row.text("notes"))
    num_gpus = int(summed.group(1)) if summed else row.whole("num_gpus") or 1
    tp, pp, attention_dp = row.whole("tp"), row.whole("pp") or 1, row.whole("attention_dp") or 1
    if tp is None:
        by_layer = engine in SPLITS_BY_LAYER
        tp = 1 if by_layer else max(num_gpus // (pp * attention_dp), 1)
        pp = num_gpus if by_layer else pp
    layout = StatedLayout(gpu, tp, pp, row.whole("ep"), attention_dp)
    if row.text("num_gpus") and not summed and layout.num_gpus != num_gpus:
        raise UsageError("the layout does not use the GPUs", found=f"{layout.num_gpus} of {num_gpus}")
    return layout
