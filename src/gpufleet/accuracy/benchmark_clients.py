"""How benchmark clients load an engine, and the options that they start it with, as their scripts say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from gpufleet.catalog.engines import find_engine
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.query import resolve_gpu
from gpufleet.inputs.measurements import MeasurementRow

USUAL_WAVES = 10
"""Prompts per client where nobody says: a benchmark of few waves would be mostly its start burst."""


@dataclass(frozen=True)
class ClientConditions:
    """Prompts sent per client, and two waits that an engine was started with (see `performance.serving.Client`)."""

    waves: int = USUAL_WAVES
    poll_interval_steps: float = 1.0
    gather_steps: float = 0.0


@dataclass(frozen=True)
class Polling:
    """Decode steps between two looks for new requests on GPUs of one generation: others from `crowd` clients on."""

    generation: str
    few_steps: float
    crowd: int
    crowd_steps: float

    def steps(self, row: MeasurementRow) -> float:
        """The interval that a row ran with; 1 on other GPUs."""
        gpu = row.text("gpu_id", "gpu")
        if not gpu or resolve_gpu(load_catalog(), gpu).accelerator.generation != self.generation:
            return 1.0
        return self.crowd_steps if (row.number("concurrency") or 0) >= self.crowd else self.few_steps


@dataclass(frozen=True)
class BenchmarkClient:
    """What one client does with every engine, and what it asks of some."""

    waves: int = USUAL_WAVES
    polling: Mapping[str, Polling] = field(default_factory=dict)
    gather_steps: Mapping[str, float] = field(default_factory=dict)


CLIENTS: Mapping[str, BenchmarkClient] = {
    "inferencex": BenchmarkClient(
        waves=10,
        polling={"sglang": Polling("Blackwell", few_steps=10, crowd=16, crowd_steps=30)},
        gather_steps={"tensorrt-llm": 60},
    ),
}
"""github.com/SemiAnalysisAI/InferenceX, benchmarks/*.sh: 10 prompts x concurrency; SGLang on B200 starts with
--scheduler-recv-interval 10, or 30 from 16 clients on; TensorRT-LLM with attention_dp_config.timeout_iters 60, or 50
and 10 iterations of batching."""

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


def conditions_of(row: MeasurementRow, engine: str) -> ClientConditions:
    """What the row states itself, else what its client is known to do.

    >>> row = MeasurementRow(2, {"client": "inferencex", "gpu_id": "B200", "concurrency": "64"})
    >>> conditions_of(row, "sglang")
    ClientConditions(waves=10, poll_interval_steps=30, gather_steps=0.0)
    """
    known = CLIENTS.get(row.text("client").casefold(), BenchmarkClient())
    name = find_engine(engine).name
    polling = known.polling.get(name)
    stated = {column: row.positive(column) for column in ("poll_interval_steps", "gather_steps")}
    return ClientConditions(
        waves=row.whole("waves") or known.waves,
        poll_interval_steps=stated["poll_interval_steps"] or (polling.steps(row) if polling else 1.0),
        gather_steps=stated["gather_steps"] or known.gather_steps.get(name, 0.0),
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
