"""A `Simulation` from a replay, what was measured of it, and what was replayed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date

from gpufleet.answers.serving_estimate import Replica
from gpufleet.domain.replay import Replay
from gpufleet.domain.slo import figure_label
from gpufleet.pricing.unit_cost import usd_per_million_tokens
from gpufleet.records import dataclass
from gpufleet.results.base import Figure, Input
from gpufleet.results.simulation import (
    Distribution,
    QueueGrowth,
    SampledTimeline,
    SimulatedClass,
    SimulatedCost,
    Simulation,
    TimeLevel,
)
from gpufleet.results.verification import SimulatedObjective
from gpufleet.simulate.intervals import Estimated
from gpufleet.simulate.metrics import Latencies, LimitMeasured, Measured, sampled
from gpufleet.units import HOUR

SECONDS, RATIO = "s", "ratio"


@dataclass(frozen=True)
class ReplicaPrice:
    """What one replica costs by the hour: its share of its machines, at a price of them."""

    usd_per_hour: float
    machine: str
    price_kind: str
    price_source: str
    price_as_of: date | None = None


@dataclass(frozen=True)
class Replayed:
    """What was replayed: a number of replicas, the load in words, and what is known of both beside the replay.

    `replica` is what every answer says of a copy (`answers.serving_estimate.replica_of`). `closed_form` has the figures
    of `estimate` for the same load by their names ('ttft.p95').
    """

    replica: Replica
    replicas: int
    load: str
    inputs: Sequence[Input] = ()
    notes: Sequence[str] = ()
    load_ratio: float | None = None
    price: ReplicaPrice | None = None
    closed_form: Mapping[str, Figure] | None = None


def simulation_of(replay: Replay, found: Measured, told: Replayed) -> Simulation:
    """The answer of a replay; where the queue grows there is no figure of an endless one to be near, and no range."""
    grade, counted, has_ranges = told.replica["grade"], found.counted, not found.queue.is_growing
    begin_s = float(replay.requests.arrival_s[0]) if len(replay.requests) else 0.0
    return Simulation.made_of(
        told,
        found,
        counted,
        **told.replica,
        closed_form=dict(told.closed_form or {}),
        num_requests=len(replay.requests),
        num_measured=found.num_counted,
        simulated_s=max(replay.end_s - begin_s, 0.0),
        warm_up_s=counted.start_s - begin_s if found.num_arrived else 0.0,
        measured_s=counted.window_s,
        is_partial=replay.is_partial,
        latency=latency_figures(found.latency, grade, has_ranges),
        classes=[
            SimulatedClass.made_of(one, latency=latency_figures(one.latency, grade, has_ranges))
            for one in found.classes
        ],
        objectives=[objective_of(one, grade, has_ranges) for one in found.limits],
        goodput_requests_per_s=found.goodput_requests_per_s if found.limits else None,
        running=TimeLevel.made_of(found.running),
        waiting=TimeLevel.made_of(found.waiting),
        kv_used_ratio=TimeLevel.made_of(found.kv_used),
        paid_replicas=TimeLevel.made_of(found.replicas),
        fates=dict(found.fates),
        queue=QueueGrowth.made_of(found.queue),
        cost=None if told.price is None else cost_of(told.price, replay, found),
        timeline=timeline_of(replay, begin_s),
        distributions=distributions_of(found),
    )


def latency_figures(latency: Latencies, grade: str, has_ranges: bool) -> dict[str, Figure]:
    """Every statistic by its name."""
    return {
        figure_label("", metric, statistic): figure_of(estimated, SECONDS, grade, has_ranges)
        for metric, statistics in latency.items()
        for statistic, estimated in statistics.items()
    }


def figure_of(estimated: Estimated, unit: str, grade: str, has_ranges: bool) -> Figure:
    """A statistic as users get it."""
    low, high = (estimated.low, estimated.high) if has_ranges else (None, None)
    return Figure(value=estimated.value, unit=unit, low=low, high=high, grade=grade)


def objective_of(one: LimitMeasured, grade: str, has_ranges: bool) -> SimulatedObjective:
    """A limit and how it is kept."""
    return SimulatedObjective.made_of(
        one,
        one.limit,
        figure=None if one.value is None else figure_of(one.value, SECONDS, grade, has_ranges),
        within_ratio=figure_of(one.within_ratio, RATIO, grade, has_ranges),
    )


def cost_of(price: ReplicaPrice, replay: Replay, found: Measured) -> SimulatedCost:
    """Every paid second at the price of a replica; tokens at the rate and with the replicas of the measured time.

    The whole replay costs what it was paid for, also while it warmed up and drained.
    """
    usd = float(replay.paid_s.sum()) / HOUR * price.usd_per_hour
    usd_per_hour = found.replicas.mean * price.usd_per_hour
    writes = found.output_tokens_per_s > 0
    each = float(usd_per_million_tokens(usd_per_hour, found.output_tokens_per_s)) if writes else None
    return SimulatedCost.made_of(
        price,
        usd_per_replica_hour=price.usd_per_hour,
        usd_per_hour=usd_per_hour,
        usd=usd,
        usd_per_million_output_tokens=each,
    )


def timeline_of(replay: Replay, begin_s: float) -> SampledTimeline:
    """A few hundred moments."""
    t = sampled(replay.timeline)
    return SampledTimeline(
        time_s=(t.time_s - begin_s).tolist(),
        running=t.running.tolist(),
        waiting=t.waiting.tolist(),
        kv_used_ratio=t.kv_used_ratio.tolist(),
        replicas=t.replicas.tolist(),
        ready=t.ready.tolist(),
    )


def distributions_of(found: Measured) -> list[Distribution]:
    """How each metric is spread."""
    return [
        Distribution(metric=metric, shares=shares.tolist(), seconds=seconds.tolist())
        for metric, (shares, seconds) in found.distributions.items()
    ]
