"""Scores tokens per second and latency of static batches, single streams and queues that never empty."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from gpufleet.accuracy.benchmark_clients import launch_options, queued_requests
from gpufleet.accuracy.conditions import EngineLabel, engine_of, layout_of
from gpufleet.accuracy.figures import Comparison, Prediction, Quantity, RowLabels, RowScores, measured_or_none, stated
from gpufleet.accuracy.models import ModelFinder
from gpufleet.accuracy.serving import (
    IN_TOKENS_PER_S,
    LATENCY,
    OUT_TOKENS_PER_S,
    TPOT,
    TTFT,
    Load,
    Protocol,
    Reading,
    compare_with_estimate,
)
from gpufleet.accuracy.serving_points import why_not_scored
from gpufleet.errors import UsageError
from gpufleet.inputs.measurements import MeasurementRow
from gpufleet.results.estimate import ServingEstimate
from gpufleet.units import MILLISECOND

QUANTITIES = (OUT_TOKENS_PER_S, IN_TOKENS_PER_S, TTFT, TPOT, LATENCY)
STATIC_SCENARIOS, FULL_QUEUE = ("fixed_batch", "single_stream"), "max_throughput"
SHORT_PROMPT_TOKENS, SHORT_ANSWER_TOKENS = 5, 200
SAME_FIGURE_RATIO = 0.02


def score_throughput(row: MeasurementRow, file: str, models: ModelFinder) -> RowScores:
    """Every quantity that a row states, or why it is not scored."""
    wanted = stated(row, QUANTITIES)
    excluded = why_not_scored(row) or (None if wanted else "states no rate and no time")
    if excluded:
        return RowScores(left_out=excluded)
    labels = RowLabels(file, row, engine=engine_of(row.text("engine")).name, group=row.text("source"))
    return compare_with_estimate(Comparison(labels), wanted, models, Protocol(load_of, readings_of))


def readings_of(row: MeasurementRow) -> Mapping[Quantity, Reading]:
    """Where each quantity of a row stands in an estimate."""
    return {
        TTFT: lambda found: Prediction.of(found.ttft_s),
        TPOT: lambda found: Prediction.of(found.tpot_s),
        LATENCY: lambda found: Prediction.of(found.latency_s),
        IN_TOKENS_PER_S: partial(prompt_rate, prompt_tokens=(row.number("isl") or 0.0) * batch_of(row)),
        OUT_TOKENS_PER_S: partial(decode_rate, batch=batch_of(row)) if counts_decode_only(row) else output_rate,
    }


def output_rate(found: ServingEstimate) -> Prediction:
    """Output tokens over the whole time, prefill included."""
    return Prediction.of(found.output_tokens_per_s)


def decode_rate(found: ServingEstimate, batch: float) -> Prediction:
    """Output tokens over the time after the first token."""
    return Prediction.of(found.tpot_s).amount_per(batch)


def prompt_rate(found: ServingEstimate, prompt_tokens: float) -> Prediction:
    """Prompt tokens over the time to the first token."""
    return Prediction.of(found.ttft_s).amount_per(prompt_tokens)


def batch_of(row: MeasurementRow) -> float:
    """Sequences of a static batch; a single stream is a batch of one."""
    is_static = row.text("scenario") in STATIC_SCENARIOS
    return (row.positive("batch_or_concurrency") if is_static else None) or 1.0


def counts_decode_only(row: MeasurementRow) -> bool:
    """Whether a row's rate is batch / TPOT by its own figures: then its time leaves the prefill out."""
    rate, tpot_ms = measured_or_none(row, OUT_TOKENS_PER_S), measured_or_none(row, TPOT)
    if rate is None or tpot_ms is None:
        return False
    return abs(rate * tpot_ms * MILLISECOND / batch_of(row) - 1) < SAME_FIGURE_RATIO


def load_of(row: MeasurementRow, engine: EngineLabel) -> Load:
    """How a row's scenario loads the engine."""
    scenario = row.text("scenario")
    if scenario not in (*STATIC_SCENARIOS, FULL_QUEUE):
        expected = ", ".join((*STATIC_SCENARIOS, FULL_QUEUE))
        raise UsageError("a scenario that is not scored", found=scenario, expected=expected)
    input_tokens, output_tokens = lengths_of(row)
    if scenario == FULL_QUEUE:
        limits = launch_options(row, engine.name, layout_of(row, engine.name).tp).limits
        return Load(
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            full_queue=True,
            requests=queued_requests(row),
            max_batch=limits.max_batch,
            max_step_tokens=limits.max_step_tokens,
            memory_fraction=limits.memory_fraction,
        )
    return Load(input_tokens=input_tokens, output_tokens=output_tokens, batch=batch_of(row))


def lengths_of(row: MeasurementRow) -> tuple[float, float]:
    """Prompt and answer lengths; short ones stand in where a decode rate hardly depends on them."""
    isl, osl = row.positive("isl"), row.positive("osl")
    is_prefill = not (row.text("out_tokens_per_s_total") or row.text("tpot_ms") or row.text("latency_ms"))
    if osl is None and isl is not None and is_prefill:
        osl = 1.0
    is_queue = row.text("scenario") == FULL_QUEUE
    if (osl is None and (is_queue or batch_of(row) > 1)) or (isl is None and is_queue):
        raise UsageError("lengths not stated")
    return isl or SHORT_PROMPT_TOKENS, osl or SHORT_ANSWER_TOKENS
