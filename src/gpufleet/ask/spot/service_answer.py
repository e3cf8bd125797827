"""From played policies of a service on spot to what is said of them."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from gpufleet.answers.played_on_spot import drawn_figure
from gpufleet.ask.spot.service_shape import ReadyShare, SpotServicePlay, SpotServicePolicy
from gpufleet.domain.spot_services import ServicePolicy
from gpufleet.optimize.spot_services import PlayedPolicies, SpotAndOnDemand
from gpufleet.units import DAY, HOUR

HARDLY_ANY = 1e-6
InTime = Callable[[int], float]
"""The share of requests that keep their limits while so many machines are ready."""


def policy_result(policy: ServicePolicy) -> SpotServicePolicy:
    """A policy as it is written."""
    return SpotServicePolicy(
        floor=policy.floor,
        spares=policy.spares,
        young_s=None if math.isinf(policy.young_s) else policy.young_s,
        fallback=policy.fallback,
        hold_s=policy.hold_s,
        calm_s=policy.calm_s,
    )


def service_play(
    played: PlayedPolicies, row: int, prices: SpotAndOnDemand, grade: str, in_time: InTime | None
) -> SpotServicePlay:
    """What one policy came to, over all pieces."""
    runs = played.runs
    usd, attained, served, spot, on_demand, losses = (
        played.by_policy(values)[row]
        for values in (
            runs.usd_per_hour(*prices),
            runs.attained_ratio,
            runs.served_ratio,
            runs.spot_machines,
            runs.on_demand_machines,
            runs.losses_per_hour,
        )
    )
    return SpotServicePlay(
        policy=policy_result(played.policies[row]),
        usd_per_hour=drawn_figure(usd, "USD/h", grade),
        attained=drawn_figure(attained, "1", grade),
        served_ratio=float(served.mean()),
        spot_machines=float(spot.mean()),
        on_demand_machines=float(on_demand.mean()),
        losses_per_day=float(losses.mean()) * DAY / HOUR,
        in_time_ratio=in_time_of(ready_shares(played, row, in_time)),
    )


def ready_shares(played: PlayedPolicies, row: int, in_time: InTime | None) -> list[ReadyShare]:
    """How long so many machines were ready, the fewest first."""
    pieces = slice(row * played.num_pieces, (row + 1) * played.num_pieces)
    ratios = np.asarray(played.runs.ready_ratio[pieces].mean(axis=0))
    return [
        ReadyShare(machines=k, time_ratio=float(ratio), in_time_ratio=None if in_time is None else in_time(k))
        for k, ratio in enumerate(ratios)
        if ratio > HARDLY_ANY
    ]


def in_time_of(shares: list[ReadyShare]) -> float | None:
    """The share of all requests that keep their limits; None where that is not known.

    sum over k of time with k machines ready * share of requests in time then   [1]

    >>> ready = [ReadyShare(machines=1, time_ratio=0.1, in_time_ratio=0.5)]
    >>> round(in_time_of([*ready, ReadyShare(machines=2, time_ratio=0.9, in_time_ratio=1.0)]), 3)
    0.95
    """
    known = [share.time_ratio * share.in_time_ratio for share in shares if share.in_time_ratio is not None]
    return sum(known) if known and len(known) == len(shares) else None
