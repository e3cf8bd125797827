"""Scores TTFT and TPOT of an engine at a fixed concurrency (closed loop)."""

from __future__ import annotations

from gpufleet.accuracy.benchmark_clients import conditions_of, launch_options
from gpufleet.accuracy.conditions import EngineLabel, engine_of, layout_of
from gpufleet.accuracy.figures import Comparison, Prediction, RowLabels, RowScores, stated
from gpufleet.accuracy.models import ModelFinder
from gpufleet.accuracy.serving import TPOT, TTFT, Load, Protocol, compare_with_estimate
from gpufleet.errors import UsageError
from gpufleet.inputs.measurements import MeasurementRow

READINGS = {TTFT: lambda found: Prediction.of(found.ttft_s), TPOT: lambda found: Prediction.of(found.tpot_s)}
SCORED_MODES = ("", "agg")


def score_serving_point(row: MeasurementRow, file: str, models: ModelFinder) -> RowScores:
    """TTFT and TPOT of one row, or why it is not scored."""
    wanted = stated(row, (TTFT, TPOT))
    excluded = why_not_scored(row) or (None if wanted else "states neither TTFT nor TPOT")
    if excluded:
        return RowScores(left_out=excluded)
    group = " x ".join(filter(None, (row.text("client"), row.text("engine"), row.text("gpu_id", "gpu"))))
    labels = RowLabels(file, row, engine=engine_of(row.text("engine")).name, group=group)
    return compare_with_estimate(Comparison(labels), wanted, models, Protocol(load_of, lambda _: READINGS))


def why_not_scored(row: MeasurementRow) -> str | None:
    """Rows that the file itself marks as unusable, or as suspected of speculative decoding, are left out."""
    if row.text("mode").casefold() not in SCORED_MODES:
        return "prefill and decode on separate GPUs"
    if "usable" in row.cells and row.text("usable").casefold() != "yes":
        return f"not usable: {row.text('why_not') or 'no reason given'}"
    if row.text("speculative_suspect").casefold() == "yes":
        return "suspected of speculative decoding"
    return None


def load_of(row: MeasurementRow, engine: EngineLabel) -> Load:
    """The closed loop of a row: its lengths as sent, its clients, and how they had the engine started."""
    isl, osl, concurrency = row.positive("isl"), row.positive("osl"), row.positive("concurrency")
    if isl is None or osl is None or concurrency is None:
        raise UsageError("lengths or concurrency not stated")
    stated_ratio = row.positive("mean_length_ratio")
    sent_ratio = stated_ratio or 1.0
    launched = launch_options(row, engine.name, layout_of(row, engine.name).tp)
    client, limits = conditions_of(row, engine.name, launched), launched.limits
    load = Load(
        input_tokens=isl * sent_ratio,
        output_tokens=osl * sent_ratio,
        concurrency=concurrency,
        waves=client.waves,
        poll_interval_steps=client.poll_interval_steps,
        gather_steps=client.gather_steps,
        max_batch=limits.max_batch,
        max_step_tokens=limits.max_step_tokens,
        memory_fraction=limits.memory_fraction,
    )
    if stated_ratio is not None:
        load["length_spread"] = spread_of(stated_ratio)
    return load


def spread_of(mean_ratio: float) -> float:
    """How far lengths reach below the longest when they are drawn evenly and their mean is this share of it.

    >>> round(spread_of(0.9), 3), spread_of(1.0)
    (0.2, 0.0)
    """
    return min(max(2 * (1 - mean_ratio), 0.0), 1.0)
