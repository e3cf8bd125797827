"""Replays a measured run: its requests on copies of its engine, and the statistics that the row states."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace as changed

from gpufleet.accuracy.figures import Comparison, Prediction, Quantity, RowScores, kv_room_of
from gpufleet.accuracy.models import ModelFinder
from gpufleet.accuracy.serving import REFUSALS, Load, Protocol, Setup, ask, gpus_of, replica_words
from gpufleet.api.request_runs import Replayed
from gpufleet.api.simulated_copies import CopyQuestion, copy_of
from gpufleet.errors import GpufleetError, OutOfMemory
from gpufleet.inputs.measurements import MeasurementRow
from gpufleet.optimize.request_runs import Experiment, mean_lengths, mean_running, results_of, together
from gpufleet.results.estimate import ServingEstimate
from gpufleet.simulate.cluster import Copy
from gpufleet.units import PERCENT


def replayed(row: MeasurementRow, setup: Setup, experiment: Experiment, limits: Load) -> Replayed:
    """Every draw of an experiment, replayed; raises where the copy cannot run."""
    copy = copy_under(row, setup, experiment, limits)
    results = results_of(copy, experiment)
    running = max(map(mean_running, results))
    return Replayed.of(results, experiment, physics_of(row, setup, experiment, limits, running), copy)


def compare_with_replay(
    compare: Comparison,
    wanted: Mapping[Quantity, tuple[str, str]],
    models: ModelFinder,
    protocol: Protocol,
    experiment_of: Callable[[MeasurementRow, Setup, Load], Experiment],
) -> RowScores:
    """Every wanted quantity, a statistic of one of TIMES, beside the replay's, or the reason why there is none."""
    try:
        row = protocol.replica_of(compare.labels.row)
        setup = Setup.of(row, models)
        load = protocol.load_of(row, setup.engine)
        found = replayed(row, setup, experiment_of(row, setup, load), load)
    except REFUSALS as refusal:
        fits = False if isinstance(refusal, OutOfMemory) else None
        return RowScores([compare.refused(q, refusal, ran=True, fits=fits) for q in wanted], ran=True, fits=fits)
    roomy = compare if found.physics is None else changed(compare, kv_room=kv_room_of(found.physics.largest_batch))
    return RowScores([roomy.scored(q, prediction(found, *parts)) for q, parts in wanted.items()], ran=True, fits=True)


def prediction(found: Replayed, time: str, statistic: str) -> Prediction | str:
    """A statistic of a replay, or why there is none."""
    figure = found.figure(time, statistic)
    return "no request of the replay was answered" if figure is None else Prediction.of(figure)


def physics_of(
    row: MeasurementRow, setup: Setup, experiment: Experiment, limits: Load, running: float
) -> ServingEstimate | None:
    """The closed form with as many sequences at once as the replay had; None where it refuses them."""
    asked = limits.copy()
    for word in ("rate", "prefix_cache", "full_queue", "requests"):
        asked.pop(word, None)  # type: ignore[misc]
    asked["input_tokens"], asked["output_tokens"] = mean_lengths(experiment.draws)
    asked["concurrency"] = max(round(running), 1)
    try:
        return ask(row, setup, asked)
    except GpufleetError:
        return None


def copy_under(row: MeasurementRow, setup: Setup, experiment: Experiment, limits: Load) -> Copy:
    """The copy of a row, whose tables reach as far as the requests of all draws."""
    question = CopyQuestion(
        setup.model,
        gpus_of(setup),
        max_batch=limits.get("max_batch"),
        max_step_tokens=limits.get("max_step_tokens"),
        memory_fraction=limits.get("memory_fraction"),
        mixes_prompts=limits.get("mixes_prompts", False),
        **replica_words(row, setup),
    )
    return copy_of(question, together(experiment.draws), experiment.client).copy


def quantile_name(quantile: float) -> str:
    """The statistic of a quantile.

    >>> quantile_name(0.95)
    'p95'
    """
    return f"p{quantile * PERCENT:.0f}"
