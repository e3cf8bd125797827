"""Runs of so many requests on copies of an engine: drawn, replayed, and what each statistic of their latencies is."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from gpufleet.domain.arrays import FloatArray
from gpufleet.domain.replay import Replay
from gpufleet.domain.requests import Requests
from gpufleet.optimize.size import QUANTILES
from gpufleet.performance.serving import Client
from gpufleet.records import dataclass
from gpufleet.simulate.cluster import Cluster, Copy, Member, replay

LEAST_BUSY_S = 1e-9
ENOUGH_REQUESTS, MOST_DRAWS, MOST_REQUESTS = 2000, 5, 100_000
TIMES = ("ttft", "tpot", "latency")
MEAN = "mean"
STEADY_LATENCIES = 3
BALANCED_BY_CONNECTION = "random"


@dataclass(frozen=True, eq=False)
class Experiment:
    """Requests, drawn several times, on replicas behind a service that balances connections.

    `dice`: those of each draw. `clients`: they send one request after another. The first `uncounted` requests of a draw
    are not measured. Those of one run come within `window_s`.
    """

    draws: Sequence[Requests]
    dice: Callable[[int], np.random.Generator]
    clients: int | None = None
    replicas: int = 1
    uncounted: int = 0
    client: Client = Client()
    window_s: float = 0.0


@dataclass(frozen=True, eq=False)
class Pace:
    """A run whose steps take `step_ratio` times as long as expected: seconds of its requests by draw."""

    step_ratio: float
    draws: Sequence[Mapping[str, FloatArray]]

    @classmethod
    def of(cls, step_ratio: float, copy: Copy, experiment: Experiment) -> Pace:
        """Steps f times as long serve requests as the expected ones serve those f times as close, f times later."""
        closer = [replace(draw, arrival_s=draw.arrival_s / step_ratio) for draw in experiment.draws]
        results = results_of(copy, replace(experiment, draws=closer))
        times = [times_of(result, experiment.uncounted) for result in results]
        return cls(step_ratio, [{name: step_ratio * seconds for name, seconds in each.items()} for each in times])

    def beyond_ratio(self, time: str, statistic: str, expected_s: float) -> float:
        """How many times more than its steps a statistic grows, or shrinks, as queues do   [1]."""
        there_s = mean_over_draws(self.draws, time, statistic)
        if not there_s > 0:
            return 1.0
        ratio = there_s / (self.step_ratio * expected_s)
        return max(ratio, 1.0) if self.step_ratio > 1 else min(ratio, 1.0)


def mean_over_draws(draws: Sequence[Mapping[str, FloatArray]], time: str, statistic: str) -> float:
    """A statistic of one of TIMES, the mean of the draws that have it; not a number where none has."""
    known = [value for draw in draws if math.isfinite(value := statistic_of(draw[time], statistic))]
    return float(np.mean(known)) if known else math.nan


def kind_of_run(experiment: Experiment, latency_s: float) -> str:
    """Whether requests come from clients, in a burst shorter than three latencies, or as in a steady state."""
    if experiment.clients is not None:
        return "clients"
    return "steady" if experiment.window_s >= STEADY_LATENCIES * latency_s else "burst"


def statistic_of(seconds: FloatArray, statistic: str) -> float:
    """A mean or a percentile of what is there.

    >>> statistic_of(np.array([1.0, 3.0, np.nan]), "mean"), statistic_of(np.array([1.0, 3.0]), "p50")
    (2.0, 2.0)
    """
    there, quantile = seconds[np.isfinite(seconds)], QUANTILES[statistic]
    if not len(there):
        return math.nan
    return float(there.mean() if quantile is None else np.quantile(there, quantile))


def draws_for(num_requests: int) -> int:
    """How often a run of so many requests is drawn anew.

    >>> draws_for(40), draws_for(900), draws_for(20_000)
    (5, 3, 1)
    """
    return min(max(-(-ENOUGH_REQUESTS // max(num_requests, 1)), 1), MOST_DRAWS)


def results_of(copy: Copy, experiment: Experiment) -> list[Replay]:
    """What comes of every draw on this copy."""
    members = (Member(),) * experiment.replicas
    cluster = Cluster((copy,), members, BALANCED_BY_CONNECTION, clients=experiment.clients)
    return [replay(cluster, requests, experiment.dice(i)) for i, requests in enumerate(experiment.draws)]


def times_of(result: Replay, uncounted: int) -> Mapping[str, FloatArray]:
    """Seconds of all requests but the first `uncounted`, by TIMES."""
    seconds = (result.ttft_s, result.tpot_s, result.latency_s)
    return {name: each[uncounted:] for name, each in zip(TIMES, seconds, strict=True)}


def mean_running(result: Replay) -> float:
    """Requests that a busy replica holds on average: seconds from arrival to answer over seconds of work   [1]."""
    return float(np.nansum(result.latency_s)) / max(float(np.sum(result.busy_s)), LEAST_BUSY_S)


def mean_decoding(result: Replay) -> float:
    """Sequences that a busy replica decodes on average, one at least: those that wait are none of them   [1]."""
    decoding_s = float(np.nansum(result.latency_s - result.ttft_s))
    return max(decoding_s / max(float(np.sum(result.busy_s)), LEAST_BUSY_S), 1.0)


def mean_lengths(draws: Sequence[Requests]) -> tuple[float, float]:
    """Mean tokens of a prompt and of an answer."""
    means = [(draw.input_tokens.mean(), draw.output_tokens.mean()) for draw in draws]
    prompts, answers = np.mean(means, axis=0)
    return float(prompts), float(answers)


def together(draws: Sequence[Requests]) -> Requests:
    """The lengths of all draws, at one moment."""
    prompts, answers = (np.concatenate([getattr(d, name) for d in draws]) for name in ("input_tokens", "output_tokens"))
    return Requests(np.zeros(len(prompts)), prompts, answers, np.zeros(len(prompts), dtype=np.int64))
