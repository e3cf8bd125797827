"""How benchmark clients load an engine, and the options that they start it with, as their scripts say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

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
