"""Replays a measured run: its requests on copies of its engine, and the statistics that the row states."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace as changed

import numpy as np

from gpufleet.accuracy.figures import Comparison, Prediction, Quantity, RowScores, kv_room_of
from gpufleet.accuracy.models import ModelFinder
from gpufleet.accuracy.serving import REFUSALS, Load, Protocol, Setup, ask, gpus_of, replica_words
from gpufleet.api.simulated_copies import CopyQuestion, copy_of
from gpufleet.domain.arrays import FloatArray
from gpufleet.domain.replay import Replay
from gpufleet.domain.requests import Requests
from gpufleet.errors import GpufleetError
from gpufleet.inputs.measurements import MeasurementRow
from gpufleet.performance.serving import Client
from gpufleet.records import dataclass
from gpufleet.results.base import Figure
from gpufleet.results.estimate import ServingEstimate
from gpufleet.simulate.cluster import Cluster, Copy, Member, replay
from gpufleet.units import PERCENT

SEED = 17
LEAST_BUSY_S = 1e-9
ENOUGH_REQUESTS, MOST_DRAWS = 2000, 5
TIMES = ("ttft", "tpot", "latency")
MEAN, QUANTILES = "mean", {"p50": 0.50, "p90": 0.90, "p95": 0.95, "p99": 0.99}
BALANCED_BY_CONNECTION = "random"


@dataclass(frozen=True, eq=False)
class Experiment:
    """What a row ran: its requests, drawn several times, on replicas behind a service that balances connections.

    `clients`: they send one request after another. The first `uncounted` requests of a draw are not measured.
    """

    draws: Sequence[Requests]
    clients: int | None = None
    replicas: int = 1
    uncounted: int = 0
    client: Client = Client()


@dataclass(frozen=True, eq=False)
class Replayed:
    """Seconds of every counted request by draw, and how sure the physics under them is."""

    draws: Sequence[Mapping[str, FloatArray]]
    physics: ServingEstimate | None

    def prediction(self, time: str, statistic: str) -> Prediction | str:
        """A statistic of one of TIMES, the mean of all draws; the range is the estimate's about its own figure."""
        values = [statistic_of(draw[time], statistic) for draw in self.draws]
        known = [value for value in values if math.isfinite(value)]
        if not known:
            return "no request of the replay was answered"
        value = float(np.mean(known))
        figure = None if self.physics is None else figure_of(self.physics, time)
        if figure is None or not figure.value > 0 or not math.isfinite(figure.value):
            return Prediction(value)
        low, high = (None if end is None else value * end / figure.value for end in (figure.low, figure.high))
        return Prediction(value, low, high, figure.grade)


def figure_of(estimate: ServingEstimate, time: str) -> Figure:
    """An estimate's own figure of one of TIMES."""
    return {"ttft": estimate.ttft_s, "tpot": estimate.tpot_s, "latency": estimate.latency_s}[time]


def statistic_of(seconds: FloatArray, statistic: str) -> float:
    """A mean or a percentile of what is there.

    >>> statistic_of(np.array([1.0, 3.0, np.nan]), "mean"), statistic_of(np.array([1.0, 3.0]), "p50")
    (2.0, 2.0)
    """
    there = seconds[np.isfinite(seconds)]
    if not len(there):
        return math.nan
    return float(there.mean() if statistic == MEAN else np.quantile(there, QUANTILES[statistic]))


def draws_for(num_requests: int) -> int:
    """How often a run of so many requests is drawn anew.

    >>> draws_for(40), draws_for(900), draws_for(20_000)
    (5, 3, 1)
    """
    return min(max(-(-ENOUGH_REQUESTS // max(num_requests, 1)), 1), MOST_DRAWS)


def generator_of(draw: int) -> np.random.Generator:
    """The dice of one draw: the same for every row."""
    return np.random.default_rng([SEED, draw])


def replayed(row: MeasurementRow, setup: Setup, experiment: Experiment, limits: Load) -> Replayed:
    """Every draw of an experiment, replayed; raises where the copy cannot run."""
    results = results_of(copy_under(row, setup, experiment, limits), experiment)
    running = max(map(mean_running, results))
    return Replayed(
        [times_of(result, experiment.uncounted) for result in results],
        physics_of(row, setup, experiment, limits, running),
    )


def results_of(copy: Copy, experiment: Experiment) -> list[Replay]:
    """What comes of every draw on this copy."""
    members = (Member(),) * experiment.replicas
    cluster = Cluster((copy,), members, BALANCED_BY_CONNECTION, clients=experiment.clients)
    return [replay(cluster, requests, generator_of(i)) for i, requests in enumerate(experiment.draws)]


def times_of(result: Replay, uncounted: int) -> Mapping[str, FloatArray]:
    """Seconds of all requests but the first `uncounted`, by TIMES."""
    seconds = (result.ttft_s, result.tpot_s, result.latency_s)
    return {name: each[uncounted:] for name, each in zip(TIMES, seconds, strict=True)}


def mean_running(result: Replay) -> float:
    """Requests that a busy replica holds on average: seconds from arrival to answer over seconds of work   [1]."""
    return float(np.nansum(result.latency_s)) / max(float(np.sum(result.busy_s)), LEAST_BUSY_S)


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
        return RowScores([compare.refused(quantity, refusal, ran=True, fits=None) for quantity in wanted])
    roomy = compare if found.physics is None else changed(compare, kv_room=kv_room_of(found.physics.largest_batch))
    return RowScores([roomy.scored(quantity, found.prediction(*parts)) for quantity, parts in wanted.items()])


def physics_of(
    row: MeasurementRow, setup: Setup, experiment: Experiment, limits: Load, running: float
) -> ServingEstimate | None:
    """The closed form with as many sequences at once as the replay had; None where it refuses them."""
    asked = limits.copy()
    asked.pop("rate", None)
    asked.pop("full_queue", None)
    asked.pop("requests", None)
    asked["input_tokens"], asked["output_tokens"] = mean_lengths(experiment.draws)
    asked["concurrency"] = max(round(running), 1)
    try:
        return ask(row, setup, asked)
    except GpufleetError:
        return None


def mean_lengths(draws: Sequence[Requests]) -> tuple[float, float]:
    """Mean tokens of a prompt and of an answer."""
    means = [(draw.input_tokens.mean(), draw.output_tokens.mean()) for draw in draws]
    prompts, answers = np.mean(means, axis=0)
    return float(prompts), float(answers)


def copy_under(row: MeasurementRow, setup: Setup, experiment: Experiment, limits: Load) -> Copy:
    """The copy of a row, whose tables reach as far as the requests of all draws."""
    names = ("max_batch", "max_step_tokens", "memory_fraction")
    started = {name: limits.get(name) for name in names}
    question = CopyQuestion(setup.model, gpus_of(setup), **replica_words(row, setup), **started)  # type: ignore[arg-type]
    return copy_of(question, together(experiment.draws), experiment.client).copy


def together(draws: Sequence[Requests]) -> Requests:
    """The lengths of all draws, at one moment."""
    prompts, answers = (np.concatenate([getattr(d, name) for d in draws]) for name in ("input_tokens", "output_tokens"))
    return Requests(np.zeros(len(prompts)), prompts, answers, np.zeros(len(prompts), dtype=np.int64))


def quantile_name(quantile: float) -> str:
    """The statistic of a quantile.

    >>> quantile_name(0.95)
    'p95'
    """
    return f"p{quantile * PERCENT:.0f}"
