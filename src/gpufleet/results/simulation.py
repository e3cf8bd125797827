"""What came of requests that were replayed one by one."""

from __future__ import annotations

from datetime import date

from gpufleet.results.answer import Answer
from gpufleet.results.base import Figure, Ranks, Result
from gpufleet.results.verification import SimulatedObjective


class SimulatedClass(Result):
    """One class of requests: how many were measured, and 'ttft.p95' -> figure of those that were answered."""

    name: str
    num_requests: int
    latency: dict[str, Figure]


class QueueGrowth(Result):
    """How fast the queue grew over the second half of the arrivals, and the standard error of that.

    `is_growing`: it is far from chance. Percentiles then tell how long the replay was, and nothing else.
    """

    growth_requests_per_s: float
    error_requests_per_s: float
    is_growing: bool


class SampledTimeline(Result):
    """The cluster at a few hundred moments, `time_s` from the first arrival on.

    `running`, `waiting` and `kv_used_ratio` are the highest since the moment before; `replicas` are paid for, `ready`
    of them serve.
    """

    time_s: list[float]
    running: list[int]
    waiting: list[int]
    kv_used_ratio: list[float]
    replicas: list[int]
    ready: list[int]


class Distribution(Result):
    """Seconds below which a share of the answered requests stayed."""

    metric: str
    shares: list[float]
    seconds: list[float]


class SimulatedCost(Result):
    """What the replicas cost while they were replayed, at a price of their machines.

    `usd_per_million_output_tokens` is None where nothing was written.
    """

    usd_per_replica_hour: float
    usd_per_hour: float
    usd: float
    usd_per_million_output_tokens: float | None
    machine: str
    price_kind: str
    price_source: str
    price_as_of: date | None = None


class TimeLevel(Result):
    """A quantity over time: its mean and its highest value."""

    mean: float
    highest: float


class Simulation(Answer):
    """Requests replayed on replicas: latencies, objectives, throughput, what the engine did, and what it cost.

    `latency` maps 'ttft.p95' to its figure over all measured requests, `classes` has the same by class where there are
    several. Ranges are the 80 % intervals of this replay against endless ones: how far the model of a step is from
    measurements is not in them. Of `num_arrived` requests the first `warm_up_s` seconds are left out of `num_measured`;
    `fates` count all that arrived. Rates are over `measured_s`. `load` says what arrived, in words, and `load_ratio`
    how much of the capacity that is, where it is known. `closed_form` has the figures that `estimate` gives for the
    same load, by the same names as `latency`. `is_partial`: it was stopped before its end.
    """

    model: str
    gpu: str
    num_gpus: int
    replicas: int
    layout: str
    ranks: Ranks | None = None
    engine: str
    weight_format: str
    kv_precision: str
    accepted_tokens: Figure | None = None
    load: str
    num_requests: int
    num_arrived: int
    num_measured: int
    simulated_s: float
    warm_up_s: float
    measured_s: float
    is_settled: bool
    is_partial: bool
    load_ratio: float | None = None
    queue: QueueGrowth
    latency: dict[str, Figure]
    classes: list[SimulatedClass] = []
    objectives: list[SimulatedObjective] = []
    requests_per_s: float
    goodput_requests_per_s: float | None = None
    output_tokens_per_s: float
    input_tokens_per_s: float
    utilisation_ratio: float | None
    running: TimeLevel
    waiting: TimeLevel
    kv_used_ratio: TimeLevel
    paid_replicas: TimeLevel
    prefix_hit_ratio: float | None
    preemptions: int
    num_preempted: int
    retries: int
    fates: dict[str, int]
    cost: SimulatedCost | None = None
    closed_form: dict[str, Figure] = {}
    timeline: SampledTimeline
    distributions: list[Distribution] = []

    @property
    def is_stable(self) -> bool:
        """Whether the queue stays as long as it is."""
        return not self.queue.is_growing

    @property
    def is_kept(self) -> bool:
        """Whether every objective is kept."""
        return all(objective.is_kept for objective in self.objectives)
