"""A run of so many requests on copies of an engine: drawn, replayed, and what each statistic of their latencies is."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, fields, replace

import numpy as np

from gpufleet.api.configured import client_of
from gpufleet.api.demands import workload_of
from gpufleet.api.simulated_copies import copy_of
from gpufleet.catalog.engine_starts import started_for, started_of
from gpufleet.catalog.models import shipped_architecture
from gpufleet.catalog.run_ranges import TAILS, RunRanges, load_run_ranges, range_of
from gpufleet.catalog.tables import Catalog
from gpufleet.domain.arrays import FloatArray
from gpufleet.domain.replay import Replay
from gpufleet.domain.slo import Slo
from gpufleet.errors import UsageError
from gpufleet.inputs.model_config import model_asked
from gpufleet.optimize.request_runs import (
    MEAN,
    MOST_REQUESTS,
    TIMES,
    Experiment,
    Pace,
    draws_for,
    kind_of_run,
    mean_decoding,
    mean_lengths,
    mean_over_draws,
    mean_running,
    results_of,
    times_of,
    together,
)
from gpufleet.optimize.size import QUANTILES
from gpufleet.questions.estimate import CopyQuestion, EstimateRequest
from gpufleet.questions.fields import RequestKind
from gpufleet.records import dataclass
from gpufleet.results.base import Figure, Input
from gpufleet.results.estimate import LatencyPercentile, ServingEstimate
from gpufleet.simulate.arrivals import burst_times_s, renewal_times_s
from gpufleet.simulate.cluster import Copy
from gpufleet.simulate.generated import requests_at
from gpufleet.units import in_full

BEFORE = dict(zip(TAILS, ("p50", *TAILS), strict=False))


@dataclass(frozen=True, eq=False)
class Replayed:
    """Seconds of every counted request by draw, how sure the physics under them is, and what runs make of its range.

    `paces`: the run with steps as short and as long as the range of the physics says; none where queues do not differ.
    """

    draws: Sequence[Mapping[str, FloatArray]]
    physics: ServingEstimate | None
    ranges: RunRanges = field(default_factory=dict)
    paces: tuple[Pace, Pace] | None = None

    @classmethod
    def of(
        cls, results: Sequence[Replay], experiment: Experiment, physics: ServingEstimate | None, copy: Copy
    ) -> Replayed:
        """What comes of an experiment on a copy, with the range of its kind of run."""
        draws = [times_of(result, experiment.uncounted) for result in results]
        kind = kind_of_run(experiment, mean_over_draws(draws, "latency", MEAN))
        return cls(draws, physics, load_run_ranges().get(kind, {}), paces_of(copy, experiment, physics))

    def figure(self, time: str, statistic: str) -> Figure | None:
        """A statistic of one of TIMES, the mean of all draws; None where no request was answered.

        A percentile is no lower than the one before it, and so are the ends of its range.
        """
        found, before = self.figure_alone(time, statistic), BEFORE.get(statistic)
        lower = None if found is None or before is None else self.figure(time, before)
        return found if found is None or lower is None else found.no_lower(lower)

    def figure_alone(self, time: str, statistic: str) -> Figure | None:
        """The same, whatever the other percentiles are.

        The range is the closed form's about its own figure, times what queues add where all steps are as short or as
        long as that says, with what runs of this kind have beside it.
        """
        value = mean_over_draws(self.draws, time, statistic)
        if not math.isfinite(value):
            return None
        own = None if self.physics is None else figure_of(self.physics, time)
        if own is None or not own.value > 0 or not math.isfinite(own.value):
            return Figure(value=value, unit="s", grade="" if own is None else own.grade)
        learnt = range_of(self.ranges, time, statistic)
        queues = [pace.beyond_ratio(time, statistic, value) for pace in self.paces or ()] or [1.0, 1.0]
        if own.low is None or own.high is None:
            return Figure(value=value, unit="s", grade=own.grade)
        ends = (end / own.value * queue for end, queue in zip((own.low, own.high), queues, strict=True))
        low, high = (value * learnt.end(ratio) for ratio in ends)
        return Figure.between(value, "s", low, high, own.grade)


def paces_of(copy: Copy, experiment: Experiment, physics: ServingEstimate | None) -> tuple[Pace, Pace] | None:
    """The run with the shortest and the longest steps of a range; None from clients, who wait for each answer."""
    latency = None if physics is None else physics.latency_s
    if latency is None or experiment.clients is not None or latency.low is None or latency.high is None:
        return None
    fast, slow = (Pace.of(end / latency.value, copy, experiment) for end in (latency.low, latency.high))
    return fast, slow


def figure_of(estimate: ServingEstimate, time: str) -> Figure:
    """An estimate's own figure of one of TIMES."""
    return {"ttft": estimate.ttft_s, "tpot": estimate.tpot_s, "latency": estimate.latency_s}[time]


def estimated_run(
    asked: EstimateRequest, tables: Catalog, steady: Callable[[EstimateRequest], ServingEstimate]
) -> ServingEstimate:
    """The answer for a run of `requests` at a rate or from clients: they are replayed, so that no load is too high.

    `steady` answers a question of clients in a closed loop, from which memory, grades and ranges come.
    """
    question = CopyQuestion(**{f.name: getattr(asked, f.name) for f in fields(CopyQuestion)})
    experiment = drawn_run(asked, question)
    copy = copy_of(question, together(experiment.draws), experiment.client, tables).copy
    results = results_of(copy, experiment)
    prompts, answers = mean_lengths(experiment.draws)
    clients = max(round(max(map(mean_running, results))), 1)
    physics = steady(
        replace(
            asked, rate=None, requests=None, prefix_cache=None, concurrency=clients, input_tokens=prompts,
            output_tokens=answers,
        )
    )  # fmt: skip
    return answered_run(asked, Replayed.of(results, experiment, physics, copy), physics, results)


def drawn_run(asked: EstimateRequest, question: CopyQuestion) -> Experiment:
    """The requests of a question, drawn as often as it takes to know their percentiles."""
    number = checked_number(asked)
    arch = started_for(model_asked(question.model, shipped_architecture), started_of(question))
    kind = RequestKind("", asked.rate or 1.0, asked.input_tokens, asked.output_tokens, Slo(), asked.prefix_cache)
    workload = workload_of([kind], arch)
    draws = []
    for draw in range(draws_for(number)):
        rng = generator_of(draw)
        times_s = burst_times_s(number) if asked.rate is None else renewal_times_s(rng, asked.rate, number)
        draws.append(requests_at(times_s, workload, rng))
    client = client_of(asked)
    clients = None if asked.concurrency is None else round(asked.concurrency)
    window_s = 0.0 if asked.rate is None else number / asked.rate
    return Experiment(draws, generator_of, clients, client=client, window_s=window_s)


def checked_number(asked: EstimateRequest) -> int:
    """How many requests a run has."""
    number = asked.requests or 0.0
    if asked.batch is not None or (asked.rate is None) == (asked.concurrency is None):
        raise UsageError("a run has one load", expected="--requests with --rate, --concurrency or --full-queue")
    if not 1 <= number <= MOST_REQUESTS or number != int(number):
        expected = f"a whole number from 1 to {MOST_REQUESTS:,}"
        raise UsageError("the number of requests is out of range", found=f"{number:g}", expected=expected)
    return int(number)


def answered_run(
    asked: EstimateRequest, found: Replayed, physics: ServingEstimate, results: Sequence[Replay]
) -> ServingEstimate:
    """What the run comes to, in the words of an estimate."""
    means = {f"{time}_s": found.figure(time, MEAN) or getattr(physics, f"{time}_s") for time in TIMES}
    seconds = float(np.mean([result.end_s for result in results]))
    answered = float(np.mean([np.count_nonzero(result.is_answered) for result in results]))
    tokens = float(np.mean([result.requests.output_tokens[result.is_answered].sum() for result in results]))
    return physics.model_copy(
        update={
            **means,
            "scenario": "closed_loop" if asked.rate is None else "open_loop",
            "num_requests": int(asked.requests or 0),
            "inputs": [i for i in physics.inputs if i.name != "closed loop"] + run_inputs(asked),
            "load_ratio": None,
            "requests_per_s": Figure(value=answered / seconds, unit="1/s", grade=physics.grade),
            "output_tokens_per_s": Figure(value=tokens / seconds, unit="1/s", grade=physics.grade),
            "percentiles": run_percentiles(found),
            "batch": float(np.mean([mean_decoding(result) for result in results])),
        }
    )


def run_inputs(asked: EstimateRequest) -> list[Input]:
    """The load of a run as it was asked."""
    load = ("closed loop", asked.concurrency) if asked.rate is None else ("open loop", asked.rate)
    rows = [load, ("requests", asked.requests)]
    return [Input(name=name, value=in_full(value), origin="given") for name, value in rows if value is not None]


def run_percentiles(found: Replayed) -> list[LatencyPercentile]:
    """Latencies at each quantile; none where answers have one token, after which nothing comes."""
    rows = []
    for name, quantile in QUANTILES.items():
        first, later, whole = (found.figure(time, name) for time in TIMES)
        if quantile is not None and first is not None and later is not None and whole is not None:
            rows.append(LatencyPercentile(quantile=quantile, ttft_s=first, tpot_s=later, latency_s=whole))
    return rows


SEED = 17


def generator_of(draw: int) -> np.random.Generator:
    """The dice of one draw: the same for every run."""
    return np.random.default_rng([SEED, draw])
