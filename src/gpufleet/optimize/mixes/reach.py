"""Objectives as users meet them: the network between their place and a region comes on top of the model's latency."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from gpufleet.domain.arrays import FloatArray, IntArray
from gpufleet.domain.network_latency import NetworkLatency
from gpufleet.domain.place import Place
from gpufleet.domain.slo import Limit, figure_label
from gpufleet.domain.token_counts import PERCENTILES
from gpufleet.domain.workload import RequestClass
from gpufleet.optimize.caution import slow_ratio
from gpufleet.optimize.size import QUANTILES, Capacity, capacity_within
from gpufleet.performance.summed_latency import (
    NetworkDelays,
    limit_left_s,
    log_spread_of,
    network_delays,
    summed_percentile_s,
)
from gpufleet.records import dataclass

OVER_NETWORK = ("ttft", "latency")
PROBE_S = 1e9
"""A limit that is always kept: it makes a percentile known."""
ROUNDS = 2
RegionKey = tuple[str, str]


@dataclass(frozen=True)
class UserGroup:
    """Users of a place, their share of all requests, and the regions where their requests may be served (None: any)."""

    place: Place
    share_ratio: float
    stays_in: frozenset[RegionKey] | None = None


@dataclass(frozen=True, eq=False)
class Reach:
    """Users, and the network between each of them and each region; regions whose place is not known have none."""

    users: tuple[UserGroup, ...]
    network: Mapping[tuple[int, RegionKey], NetworkLatency]

    def between(self, users: int, region: RegionKey) -> NetworkLatency | None:
        """The network between users and a region; None where they may not be served there, or it is not known."""
        stays_in = self.users[users].stays_in
        return None if stays_in is not None and region not in stays_in else self.network.get((users, region))


def probing(c: RequestClass) -> RequestClass:
    """The class with every percentile of what the network adds to known."""
    have = {(limit.metric, limit.statistic) for limit in c.slo.limits}
    metrics = {limit.metric for limit in c.slo.limits if limit.metric in OVER_NETWORK}
    probes = [(m, s) for m in OVER_NETWORK if m in metrics for s in PERCENTILES if (m, s) not in have]
    limits = (*c.slo.limits, *(Limit(metric, statistic, PROBE_S, c.name) for metric, statistic in probes))
    return replace(c, slo=replace(c.slo, limits=limits))


def as_planned(network: NetworkLatency, confidence: float) -> NetworkLatency:
    """The network where its median may be as late as the confidence asks: the model's times are planned so too.

    >>> from gpufleet.provenance import Grade
    >>> as_planned(NetworkLatency(0.1, 0.15, 0.09, 0.12, Grade.MEASURED, "here"), 0.9).median_s
    0.12
    """
    if network.median_s <= 0:
        return network
    ratio = float(slow_ratio(confidence, np.array(network.high_s / network.median_s)))
    median_s, jitter_s = network.median_s * ratio, network.p95_s - network.median_s
    return NetworkLatency(
        median_s, median_s + jitter_s, min(network.low_s, median_s), max(network.high_s, median_s), network.grade,
        network.source,
    )  # fmt: skip


def rates_over(found: Capacity, rows: IntArray, limits: Sequence[Limit], network: NetworkLatency) -> FloatArray:
    """What replicas of some rows sustain where limits hold at users behind a network   [1/s], [row of `rows`].

    `found` knows every percentile (`probing`). The limit that is left to the model is that at which the percentile of
    the sum of both, which are independent, meets the users' limit; it depends on the load, and is found twice.
    """
    delays, some = network_delays([network]), taken(found, rows)
    over = [limit for limit in limits if limit.metric in OVER_NETWORK]
    best = some
    for _ in range(ROUNDS if over else 0):
        strains = dict(some.strains)
        for limit in over:
            left_s = limit_of_model_s(some, best.best, limit, delays)
            with np.errstate(divide="ignore"):
                strains[limit.label] = some.planned_s(limit.label) / left_s[:, None]
        best = capacity_within(
            some.curves, some.objectives_s, strains, some.sustained_requests_per_s, some.caution, some.headroom_ratio
        )
    return best.requests_per_s


def limit_of_model_s(found: Capacity, column: IntArray, limit: Limit, network: NetworkDelays) -> FloatArray:
    """The limit that the network leaves to the model, of each row at a column of the grid   [s]."""
    quantile = QUANTILES[limit.statistic]
    if quantile is None:
        mean_s = float(network.share_ratio @ mean_of_log_normal_s(network))
        return np.full(len(column), max(limit.limit_s - mean_s, 0.0))
    at = quantiles_s(found, column, limit)
    return limit_left_s(limit.limit_s, quantile, PROBABILITIES, at, network)


PROBABILITIES = np.array([QUANTILES[statistic] for statistic in PERCENTILES], dtype=np.float64)


def quantiles_s(found: Capacity, column: IntArray, limit: Limit) -> FloatArray:
    """The model's latency at all PERCENTILES as it is planned, [row, percentile]; they never fall."""
    rows = np.arange(len(column))
    labels = [figure_label(limit.request_class, limit.metric, statistic) for statistic in PERCENTILES]
    return np.maximum.accumulate(np.stack([found.planned_s(label)[rows, column] for label in labels], axis=1), axis=1)


def mean_of_log_normal_s(network: NetworkDelays) -> FloatArray:
    """Mean of the round trip of each place: m exp(s^2 / 2)   [s]."""
    return np.asarray(network.median_s * np.exp(log_spread_of(network) ** 2 / 2))


def percentile_at_users_s(
    objectives_s: Mapping[str, float], limit: Limit, ratio: float, network: NetworkDelays
) -> float:
    """What users behind a network meet of a limit's figure, the model `ratio` times as slow   [s].

    `objectives_s`: every percentile of the model at its load, by label. Steps after the first token pass the network
    without a wait.
    """
    own_s, quantile = objectives_s[limit.label] * ratio, QUANTILES[limit.statistic]
    if limit.metric not in OVER_NETWORK:
        return own_s
    if quantile is None:
        return own_s + float(network.share_ratio @ mean_of_log_normal_s(network))
    labels = [figure_label(limit.request_class, limit.metric, statistic) for statistic in PERCENTILES]
    at = np.maximum.accumulate(np.array([[objectives_s[label] * ratio for label in labels]]), axis=1)
    return float(summed_percentile_s(quantile, PROBABILITIES, at, network)[0])


def taken(found: Capacity, rows: IntArray) -> Capacity:
    """Some rows of a capacity."""
    caution = found.caution
    some = (
        None
        if caution is None
        else replace(caution, ttft_ratio=caution.ttft_ratio[rows], tpot_ratio=caution.tpot_ratio[rows])
    )
    return replace(
        found,
        curves=Rates(found.curves.batch, found.curves.requests_per_s[rows], found.curves.largest_batch[rows]),
        objectives_s={name: values[rows] for name, values in found.objectives_s.items()},
        breaks={name: values[rows] for name, values in found.breaks.items()},
        best=found.best[rows],
        beyond=found.beyond[rows],
        requests_per_s=found.requests_per_s[rows],
        sustained_requests_per_s=found.sustained_requests_per_s[rows],
        caution=some,
        strains={name: values[rows] for name, values in found.strains.items()},
    )


@dataclass(frozen=True, eq=False)
class Rates:
    """Rates of some candidates over the grid of batches."""

    batch: FloatArray
    requests_per_s: FloatArray
    largest_batch: FloatArray
