"""Scores TTFT and TPOT of an engine at a fixed concurrency (closed loop)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from gpufleet.accuracy.benchmark_clients import client_of, conditions_of, first_tokens_of, launch_options
from gpufleet.accuracy.conditions import EngineLabel, engine_of, layout_of
from gpufleet.accuracy.figures import Comparison, Prediction, Quantity, RowLabels, RowScores, stated
from gpufleet.accuracy.loaded_rows import mean_of
from gpufleet.accuracy.models import ModelFinder
from gpufleet.accuracy.replays import compare_with_replay
from gpufleet.accuracy.serving import TPOT, TTFT, Load, Protocol, Setup, compare_with_estimate
from gpufleet.api.request_runs import generator_of
from gpufleet.catalog.calibration import load_habits
from gpufleet.catalog.engine_eras import load_engine
from gpufleet.domain.arrays import IntArray
from gpufleet.domain.requests import Requests
from gpufleet.errors import UsageError
from gpufleet.inputs.measurements import MeasurementRow
from gpufleet.optimize.request_runs import MEAN, Experiment, draws_for
from gpufleet.performance.serving import Client
from gpufleet.simulate.arrivals import burst_times_s
from gpufleet.simulate.generated import requests_of

READINGS = {TTFT: lambda found: Prediction.of(found.ttft_s), TPOT: lambda found: Prediction.of(found.tpot_s)}
SCORED_MODES = ("", "agg")
REPLAYED = {TTFT: ("ttft", MEAN), TPOT: ("tpot", MEAN)}
MOST_REQUESTS = 20_000


def score_serving_point(row: MeasurementRow, file: str, models: ModelFinder) -> RowScores:
    """TTFT and TPOT of one row, or why it is not scored; requests that are alike to the token are replayed."""
    if client_of(row).is_alike:
        return replay_serving_point(row, file, models)
    return estimate_serving_point(row, file, models)


def estimate_serving_point(row: MeasurementRow, file: str, models: ModelFinder) -> RowScores:
    """The same of the closed form alone."""
    return scored(row, file, lambda compare, wanted: compare_with_estimate(compare, wanted, models, PROTOCOL))


def replay_serving_point(row: MeasurementRow, file: str, models: ModelFinder) -> RowScores:
    """The same of a replay of the closed loop: clients that start together, each sending its prompts in turn."""

    def compare(found: Comparison, wanted: Sequence[Quantity]) -> RowScores:
        return compare_with_replay(found, {q: REPLAYED[q] for q in wanted}, models, PROTOCOL, experiment_of)

    return scored(row, file, compare)


def scored(row: MeasurementRow, file: str, compare: Callable[[Comparison, Sequence[Quantity]], RowScores]) -> RowScores:
    """One row beside its predictions, or why it is not scored."""
    wanted = stated(row, (TTFT, TPOT))
    excluded = why_not_scored(row) or (None if wanted else "states neither TTFT nor TPOT")
    if excluded:
        return RowScores(left_out=excluded)
    group = " x ".join(filter(None, (row.text("client"), row.text("engine"), row.text("gpu_id", "gpu"))))
    labels = RowLabels(file, row, engine=engine_of(row.text("engine")).name, group=group)
    return compare(Comparison(labels), wanted)


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
        batch_wait_steps=client.batch_wait[0],
        batch_wait_ratio=client.batch_wait[1],
        max_batch=limits.max_batch,
        max_step_tokens=limits.max_step_tokens,
        memory_fraction=row.positive("gpu_memory_fraction") or limits.memory_fraction,
        mixes_prompts=limits.mixes_prompts,
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


PROTOCOL = Protocol(load_of, lambda _: READINGS)


def experiment_of(row: MeasurementRow, setup: Setup, load: Load) -> Experiment:
    """The closed loop of a row, drawn: its clients start in a burst and send as many prompts each as their script."""
    clients = max(round(load["concurrency"]), 1)
    num = min(clients * max(round(load.get("waves") or 1), 1), MOST_REQUESTS)
    is_alike = client_of(row).is_alike
    spreads = (0.0, 0.0) if is_alike else length_spreads(load, setup.engine)
    means = mean_of(load["input_tokens"]), mean_of(load["output_tokens"])
    draws = [drawn(means, spreads, num, generator_of(i)) for i in range(draws_for(num))]
    return Experiment(
        draws, generator_of, clients, client=starting(load) if is_alike else among_others(load, setup.engine)
    )


def starting(load: Load) -> Client:
    """How the engine was started."""
    return Client(
        poll_interval_steps=load["poll_interval_steps"],
        gather_steps=load["gather_steps"],
        batch_wait_steps=load["batch_wait_steps"],
        batch_wait_ratio=load["batch_wait_ratio"],
    )


def among_others(load: Load, engine: EngineLabel) -> Client:
    """The same, and how late clients of a server see its first tokens."""
    late = first_tokens_of(engine.name, engine.version)
    return starting(load) if late is None else replace(starting(load), late_steps=late.late_steps, late_s=late.late_s)


def length_spreads(load: Load, engine: EngineLabel) -> tuple[float, float]:
    """How far prompts and answers reach below the longest.

    Where the client states no spread prompts are alike; so are answers, where the engine keeps its clients in step.
    Elsewhere answers differ a little, since alike ones would stay in step in a replay.
    """
    stated = load.get("length_spread")
    if stated:
        return stated, stated
    is_in_step = bool(load_engine(engine.name, engine.version).constants["synchrony_ratio"].value)
    return 0.0, 0.0 if is_in_step else load_habits().unstated_length_spread.value


def drawn(means: tuple[float, float], spreads: tuple[float, float], num: int, rng: np.random.Generator) -> Requests:
    """Requests all at once, of these mean tokens of prompts and answers."""
    prompts, answers = (evenly_drawn(rng, mean, spread, num) for mean, spread in zip(means, spreads, strict=True))
    return requests_of(burst_times_s(num), prompts, answers)


def evenly_drawn(rng: np.random.Generator, mean: float, spread: float, num: int) -> IntArray:
    """Tokens drawn evenly from [1 - spread, 1] of the longest, whose mean is this   [tokens]."""
    longest = mean / (1 - spread / 2)
    return np.asarray(np.maximum(np.rint(rng.uniform(1 - spread, 1, num) * longest), 1).astype(np.int64))
