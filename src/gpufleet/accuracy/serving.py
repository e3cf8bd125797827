"""Asks the api what a row's engine, GPUs and load deliver, and compares it with what was measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypedDict

from gpufleet import api
from gpufleet.accuracy.benchmark_clients import launch_options
from gpufleet.accuracy.conditions import EngineLabel, StatedLayout, engine_of_row, layout_of
from gpufleet.accuracy.figures import Comparison, Prediction, Quantity, RowScores, has_failed, kv_room_of, remark_on
from gpufleet.accuracy.models import ModelFinder
from gpufleet.accuracy.precisions import kv_precision_of, weight_precision_of
from gpufleet.domain.architecture import Architecture
from gpufleet.domain.own_stack import OwnStack
from gpufleet.domain.token_counts import TokenCounts
from gpufleet.domain.verdict import DOES_NOT_FIT
from gpufleet.errors import GpufleetError, OutOfMemory
from gpufleet.inputs.measurements import MeasurementRow
from gpufleet.records import dataclass
from gpufleet.results.estimate import ServingEstimate
from gpufleet.units import MILLISECOND

TTFT = Quantity("ttft", "ttft_ms", "ms", MILLISECOND)
TPOT = Quantity("tpot", "tpot_ms", "ms", MILLISECOND)
LATENCY = Quantity("latency", "latency_ms", "ms", MILLISECOND)
OUT_TOKENS_PER_S = Quantity("out_tokens_per_s", "out_tokens_per_s_total", "tokens/s")
IN_TOKENS_PER_S = Quantity("in_tokens_per_s", "in_tokens_per_s_total", "tokens/s")

REFUSALS = (GpufleetError, ValueError, ArithmeticError)
Reading = Callable[[ServingEstimate], Prediction | str]


@dataclass(frozen=True)
class Setup:
    """A model on an engine in a layout."""

    model: Architecture
    engine: EngineLabel
    layout: StatedLayout
    own: OwnStack | None = None

    @classmethod
    def of(cls, row: MeasurementRow, models: ModelFinder) -> Setup:
        """What a row ran; raises what it does not say."""
        engine = engine_of_row(row)
        layout = layout_of(row, engine.name)
        contexts = [tokens for name in ("max_model_len", "longest_tokens") if (tokens := row.whole(name)) is not None]
        return cls(reaching(models.of(row), max(contexts, default=None)), engine, layout, models.own)


def reaching(model: Architecture, context_tokens: int | None) -> Architecture:
    """The model with at least the context that an engine was started for; a config may state none."""
    if context_tokens is None or context_tokens <= model.max_context_tokens:
        return model
    return replace(model, max_context_tokens=context_tokens)


class Lengths(TypedDict):
    """Tokens of a request."""

    input_tokens: float | TokenCounts
    output_tokens: float | TokenCounts


class Load(Lengths, total=False):
    """Lengths and how the engine is loaded, in the words of `api.estimate`."""

    concurrency: float
    rate: float
    prefix_cache: float
    batch: float
    full_queue: bool
    requests: float | None
    max_batch: int | None
    max_step_tokens: int | None
    memory_fraction: float | None
    mixes_prompts: bool
    waves: float | None
    poll_interval_steps: float
    gather_steps: float
    batch_wait_steps: float
    batch_wait_ratio: float
    length_spread: float


def ask(row: MeasurementRow, setup: Setup, load: Load) -> ServingEstimate:
    """What the api answers for this row; raises what the api refuses."""
    return api.estimate(setup.model, gpus_of(setup), launch=False, **replica_words(row, setup), **load)


def gpus_of(setup: Setup) -> tuple[str, int]:
    """The GPUs of a row's copy."""
    return setup.layout.gpu, setup.layout.num_gpus


def replica_words(row: MeasurementRow, setup: Setup) -> dict[str, Any]:
    """Layout, formats and engine of a row's copy, in the words of `api.estimate` and of a replayed copy."""
    precision, kv_precision = formats_of(row, setup)
    return {
        **{name: getattr(setup.layout, name) for name in ("tp", "pp", "ep", "attention_dp")},
        "precision": precision,
        "kv_precision": kv_precision,
        "engine": setup.engine.name,
        "engine_version": setup.engine.version,
        "calibration": setup.own,
    }


def formats_of(row: MeasurementRow, setup: Setup) -> tuple[str | None, str | None]:
    """Weights and KV cache as the row or its script has them; None: the checkpoint's, the engine's default."""
    launched = launch_options(row, setup.engine.name, setup.layout.tp)
    return weight_precision_of(row), kv_precision_of(row) or launched.kv_precision


def unchanged(row: MeasurementRow) -> MeasurementRow:
    """A row that is of one replica already."""
    return row


@dataclass(frozen=True)
class Protocol:
    """How a kind of file loads an engine, and where in an estimate its quantities stand; `replica_of` is one's row."""

    load_of: Callable[[MeasurementRow, EngineLabel], Load]
    readings_of: Callable[[MeasurementRow], Mapping[Quantity, Reading]]
    replica_of: Callable[[MeasurementRow], MeasurementRow] = unchanged


def compare_with_estimate(
    compare: Comparison, wanted: Sequence[Quantity], models: ModelFinder, protocol: Protocol
) -> RowScores:
    """Every stated quantity of a row beside the estimate's, or the reason why there is none."""
    ran = not has_failed(compare.labels.row)
    try:
        row = protocol.replica_of(compare.labels.row)
        setup = Setup.of(row, models)
        readings = protocol.readings_of(row)
        found = ask(row, setup, protocol.load_of(row, setup.engine))
    except REFUSALS as refusal:
        fits = False if isinstance(refusal, OutOfMemory) else None
        return RowScores([compare.refused(q, refusal, ran=ran, fits=fits) for q in wanted], ran=ran, fits=fits)
    fits = found.verdict != DOES_NOT_FIT
    roomy = replace(compare, kv_room=kv_room_of(found.largest_batch), remark=remark_on(ran=ran, fits=fits))
    figures = [roomy.scored(q, readings[q](found)) if ran else roomy.failed(q, fits=fits) for q in wanted]
    return RowScores(figures, ran=ran, fits=fits)
