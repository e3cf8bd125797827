"""How the benchmark behind a measured row loaded its engine: what the row states, else what its scripts say."""

from __future__ import annotations

from gpufleet.accuracy.precisions import precision_of
from gpufleet.catalog.benchmark_scripts import (
    USUAL_WAVES,
    BenchmarkClient,
    FirstTokens,
    Launched,
    LaunchOptions,
    Polling,
    load_benchmark_scripts,
)
from gpufleet.catalog.engines import find_engine
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.query import resolve_gpu
from gpufleet.inputs.measurements import MeasurementRow
from gpufleet.records import dataclass

AT_ITS_DEFAULTS = LaunchOptions()


@dataclass(frozen=True)
class ClientConditions:
    """Prompts sent per client, and the waits that an engine was started with (see `performance.serving.Client`).

    `batch_wait`: the most steps, and the share of a step's budget that ends it.
    """

    waves: int = USUAL_WAVES
    poll_interval_steps: float = 1.0
    gather_steps: float = 0.0
    batch_wait: tuple[float, float] = (0.0, 0.0)


def conditions_of(row: MeasurementRow, engine: str, launched: LaunchOptions = AT_ITS_DEFAULTS) -> ClientConditions:
    """What the row states itself, else what its script asked of the engine, else what its client is known to do.

    >>> row = MeasurementRow(2, {"client": "inferencex", "gpu_id": "B200", "concurrency": "64"})
    >>> conditions_of(row, "sglang")
    ClientConditions(waves=10, poll_interval_steps=30, gather_steps=0.0, batch_wait=(0.0, 0.0))
    """
    known = client_of(row)
    name = find_engine(engine).name
    polling = known.polling.get(name)
    stated = {column: row.positive(column) for column in ("poll_interval_steps", "gather_steps")}
    usual = poll_interval_steps(polling, row) if polling else 1.0
    return ClientConditions(
        waves=row.whole("waves") or waves_of_requests(row) or known.waves,
        poll_interval_steps=stated["poll_interval_steps"] or launched.poll_interval_steps or usual,
        gather_steps=stated["gather_steps"] or known.gather_steps.get(name, 0.0),
        batch_wait=stated_batch_wait(row) or launched.batch_wait,
    )


def waves_of_requests(row: MeasurementRow) -> int | None:
    """Prompts of each client of a closed loop, where a row says how many were sent, at least one.

    >>> waves_of_requests(MeasurementRow(2, {"concurrency": "1024", "requests": "2048"}))
    2
    """
    sent, clients = row.positive("requests"), row.positive("concurrency")
    return None if sent is None or clients is None else max(round(sent / clients), 1)


def stated_batch_wait(row: MeasurementRow) -> tuple[float, float] | None:
    """How long prompts waited for others of their group, where a row says it; a wait without a share ends by steps."""
    steps = row.positive("batch_wait_steps")
    return None if steps is None else (steps, row.positive("batch_wait_ratio") or 1.0)


def first_tokens_of(engine: str, version: str | None) -> FirstTokens | None:
    """How late clients of a closed loop see first tokens of an engine; None where nothing was fitted.

    >>> first_tokens_of("transformers", "4.45") is None
    True
    """
    name = find_engine(engine).name
    return next((late for late in load_benchmark_scripts().first_tokens if late.holds(name, version)), None)


def client_of(row: MeasurementRow) -> BenchmarkClient:
    """What is known of a row's client: how often it repeats itself, and what it asks of engines."""
    return load_benchmark_scripts().clients.get(row.text("client").casefold(), BenchmarkClient())


def prompts_in_turn(row: MeasurementRow) -> int | None:
    """How many prompts, all of one length, a row's client sent again and again; None where none recur so."""
    known, source = client_of(row), row.text("source")
    return known.prompts_in_turn if any(mark in source for mark in known.published_in) else None


def poll_interval_steps(polling: Polling, row: MeasurementRow) -> float:
    """The interval that a row ran with; 1 on GPUs of other generations."""
    gpu = row.text("gpu_id", "gpu")
    if not gpu or resolve_gpu(load_catalog(), gpu).accelerator.generation not in polling.generations:
        return 1.0
    return polling.crowd_steps if (row.number("concurrency") or 0) >= polling.crowd else polling.few_steps


def queued_requests(row: MeasurementRow) -> int | None:
    """Requests of an offline queue: what the row states, else what its source says of these lengths."""
    lengths, source = lengths_of(row), row.text("source")
    queues = (q for q in load_benchmark_scripts().queues if q.published_in in source)
    known = (q.requests for q in queues if (q.input_tokens, q.output_tokens) == lengths)
    return row.whole("requests") or next(known, None)


def launch_options(row: MeasurementRow, engine: str, tp: int) -> LaunchOptions:
    """What a row's engine was started with, where its client or source is known: the row of most conditions counts."""
    run = {
        "engine": find_engine(engine).name,
        "model_id": row.text("model_id"),
        "gpu": row.text("gpu_id"),
        "precision": precision_of(row.text("gemm_precision", "precision_weights", "precision")),
        "tp": str(tp),
        "input_tokens": f"{lengths_of(row)[0]:g}",
        "total_tokens": f"{sum(lengths_of(row)):g}",
    }
    version = row.text("engine_version") or None
    known = [k for k in load_benchmark_scripts().launches if is_of(row, k) and k.holds(run, version)]
    return max(known, key=lambda k: k.num_conditions).options if known else AT_ITS_DEFAULTS


def is_of(row: MeasurementRow, launched: Launched) -> bool:
    """Whether a row is of that client, or was published in that document."""
    return launched.published_in == row.text("client").casefold() or launched.published_in in row.text("source")


def lengths_of(row: MeasurementRow) -> tuple[float, float]:
    """Tokens of a prompt and of an answer; 0 where the row says none."""
    return row.number("isl") or 0.0, row.number("osl") or 0.0
