"""Percentiles of the model's latency and the network's together: percentiles do not add, distributions do.

A quantile function is kept as its values at one grid of probabilities, between which the distribution function is
linear. The sum's is F(t) = E[F_model(t - N)]: over each stretch of the network's quantile function, the mean of F_model
is had from its integral, so that a network without spread, and a model without, give the other's own percentile. With
a log-normal model whose 95th percentile is five medians the sum is met within 1.5 %, on the slow side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from gpufleet.domain.arrays import BoolArray, FloatArray, Floats, IntArray
from gpufleet.domain.network_latency import NetworkLatency
from gpufleet.performance.queueing import normal_quantile
from gpufleet.records import dataclass

TAIL_PROBABILITIES = (0.0, 0.002, 0.01, *(0.98 + k / 500 for k in range(1, 10)), 0.9988, 0.9993, 0.9997, 0.9999, 1.0)
BODY_PROBABILITIES = (*(k / 50 for k in range(1, 40)), *(k / 100 for k in range(80, 99)))
LEAST_PROBABILITY, MOST_PROBABILITY = 1e-4, 1 - 1e-6
HALVINGS, ROWS_AT_ONCE = 60, 512
CLOSE_RATIO, CLOSE_SHARE, LEAST_S = 1e-10, 1e-11, 1e-9
Z_OF_P95 = normal_quantile(0.95)


@dataclass(frozen=True, eq=False)
class NetworkDelays:
    """Round trips of users of several places: log-normal at each, mixed by the share of requests from there.

    All arrays are [place]; `share_ratio` sums to one. No place at all is no network.
    """

    median_s: FloatArray
    p95_s: FloatArray
    share_ratio: FloatArray

    def __post_init__(self) -> None:
        if not (len(self.median_s) == len(self.p95_s) == len(self.share_ratio)):
            raise ValueError("median, 95th percentile and share are of the same places")
        if np.any(self.median_s < 0) or np.any(self.p95_s < self.median_s) or np.any(self.share_ratio < 0):
            raise ValueError("a median is not negative, a 95th percentile not below it, a share not negative")
        if len(self.share_ratio) and not np.isclose(self.share_ratio.sum(), 1.0):
            raise ValueError(f"shares of users sum to one, found {self.share_ratio.sum():g}")


NO_NETWORK = NetworkDelays(np.zeros(0), np.zeros(0), np.zeros(0))


def network_delays(latencies: Sequence[NetworkLatency], weights: Sequence[float] | None = None) -> NetworkDelays:
    """Round trips of users of several places, weighted by their requests; equal weights where none are given.

    >>> from gpufleet.provenance import Grade
    >>> near = NetworkLatency(0.01, 0.02, 0.01, 0.01, Grade.MEASURED, "here")
    >>> network_delays([near, near], [30.0, 10.0]).share_ratio.tolist()
    [0.75, 0.25]
    """
    shares = np.ones(len(latencies)) if weights is None else np.asarray(weights, dtype=np.float64)
    total = shares.sum()
    return NetworkDelays(
        np.array([each.median_s for each in latencies], dtype=np.float64),
        np.array([each.p95_s for each in latencies], dtype=np.float64),
        shares / total if total > 0 else shares,
    )


@lru_cache(maxsize=32)
def grid_with(quantile: float) -> tuple[float, ...]:
    """Probabilities at which both distributions are kept, the one asked for among them."""
    return tuple(sorted({*TAIL_PROBABILITIES, *BODY_PROBABILITIES, quantile}))


def network_quantiles_s(probabilities: Sequence[float], network: NetworkDelays) -> FloatArray:
    """Quantiles [probability] of the mixture of log-normals, none above the one-in-a-million end of its slowest place.

    >>> one = NetworkDelays(np.array([0.04]), np.array([0.06]), np.ones(1))
    >>> network_quantiles_s([0.5, 0.95], one).round(6).tolist()
    [0.04, 0.06]
    """
    asked = np.clip(np.asarray(probabilities, dtype=np.float64), LEAST_PROBABILITY, MOST_PROBABILITY)
    if not len(network.median_s):
        return np.zeros(len(asked))
    z = np.array([normal_quantile(p) for p in asked])
    log_spread = log_spread_of(network)
    places_s = network.median_s[:, None] * np.exp(log_spread[:, None] * z)
    if len(network.median_s) == 1:
        return np.asarray(places_s[0])
    return mixed_quantiles_s(asked, places_s.min(axis=0), places_s.max(axis=0), network)


def log_spread_of(network: NetworkDelays) -> FloatArray:
    """s [place] of log-normals whose 95th percentile is p95: ln(p95 / median) / 1.645; zero where the median is."""
    known = network.median_s > 0
    ratio = np.divide(network.p95_s, network.median_s, out=np.ones_like(network.p95_s), where=known)
    return np.asarray(np.log(ratio) / Z_OF_P95)


def mixed_quantiles_s(
    probabilities: FloatArray, low_s: FloatArray, high_s: FloatArray, network: NetworkDelays
) -> FloatArray:
    """Where the mixture's distribution function reaches each probability, between the places' own quantiles."""
    low_s, high_s = low_s.copy(), high_s.copy()
    for _ in range(HALVINGS):
        middle_s = (low_s + high_s) / 2
        is_below = share_within(middle_s, network) < probabilities
        low_s, high_s = np.where(is_below, middle_s, low_s), np.where(is_below, high_s, middle_s)
    return np.asarray(high_s)


def share_within(limit_s: FloatArray, network: NetworkDelays) -> FloatArray:
    """Share of round trips [limit] that take at most so long."""
    log_spread = log_spread_of(network)
    with np.errstate(divide="ignore", invalid="ignore"):
        z = (np.log(limit_s[:, None]) - np.log(network.median_s)) / log_spread
    constant = np.where(limit_s[:, None] >= network.median_s, np.inf, -np.inf)
    return np.asarray(normal_share(np.where(log_spread > 0, z, constant)) @ network.share_ratio)


def normal_share(z: FloatArray) -> FloatArray:
    """Standard normal distribution function, by the standard library's."""
    from statistics import NormalDist

    cdf = np.vectorize(NormalDist().cdf, otypes=[np.float64])
    return np.asarray(cdf(np.clip(z, -40.0, 40.0)))


def summed_percentile_s(
    quantile: float, probabilities: FloatArray, model_quantiles_s: FloatArray, network: NetworkDelays
) -> FloatArray:
    """Percentile [candidate] of the model's latency and an independent round trip together.

    `model_quantiles_s` [candidate, probability]: the model's latency at each of the probabilities, which rise. Beyond
    the last it has an exponential tail, below the first the first value. Without a bound on it the sum has none.

    A constant round trip adds to every percentile; the 95th percentiles of two spread ones do not add:

    >>> model = np.array([[1.0, 2.0, 3.0]])
    >>> always = NetworkDelays(np.array([0.1]), np.array([0.1]), np.ones(1))
    >>> summed_percentile_s(0.95, np.array([0.5, 0.9, 0.95]), model, always).round(6).tolist()
    [3.1]
    """
    grid, bounded = grid_with(quantile), bounded_rows(model_quantiles_s)
    network_s = network_quantiles_s(grid, network)
    model_s = refined_quantiles_s(grid, probabilities, model_quantiles_s[bounded])
    summed_s = np.full(len(model_quantiles_s), np.inf)
    summed_s[bounded] = in_parts(lambda rows: summed_quantile_s(quantile, grid, rows, network_s), model_s)
    return summed_s


def limit_left_s(
    limit_s: Floats, quantile: float, probabilities: FloatArray, model_quantiles_s: FloatArray, network: NetworkDelays
) -> FloatArray:
    """Limit [candidate] on the model's own percentile at which the sum's percentile meets `limit_s`.

    The model's distribution is scaled as a whole until it does: a candidate's own percentile is at most this limit if
    and only if the sum's is at most `limit_s`. Zero where the network alone is too slow; `limit_s` may be one for each.

    >>> model = np.array([[1.0, 2.0, 3.0]])
    >>> always = NetworkDelays(np.array([0.1]), np.array([0.1]), np.ones(1))
    >>> limit_left_s(2.0, 0.95, np.array([0.5, 0.9, 0.95]), model, always).round(6).tolist()
    [1.9]
    """
    grid, bounded = grid_with(quantile), bounded_rows(model_quantiles_s)
    network_s = network_quantiles_s(grid, network)
    model_s = refined_quantiles_s(grid, probabilities, model_quantiles_s[bounded])
    limits_s = np.broadcast_to(np.asarray(limit_s, dtype=np.float64), bounded.shape)[bounded]
    left_s = np.zeros(len(model_quantiles_s))
    left_s[bounded] = in_parts(
        lambda rows, limits: largest_quantile_s(quantile, grid, rows, network_s, limits), model_s, limits_s
    )
    return left_s


def bounded_rows(quantiles_s: FloatArray) -> BoolArray:
    """Candidates [candidate] whose latency is finite at every probability."""
    return np.asarray(np.isfinite(quantiles_s).all(axis=-1))


def in_parts(reckon: Callable[..., FloatArray], *rows: FloatArray) -> FloatArray:
    """What is reckoned for all rows, a part of them at once: they take a lot of memory together."""
    starts = range(0, len(rows[0]), ROWS_AT_ONCE)
    parts = [reckon(*(each[start : start + ROWS_AT_ONCE] for each in rows)) for start in starts]
    return np.concatenate(parts) if parts else np.zeros(0)


def refined_quantiles_s(grid: Sequence[float], probabilities: FloatArray, quantiles_s: FloatArray) -> FloatArray:
    """Quantiles [candidate, grid] from those at a few probabilities: linear in -ln(1 - p), the tail going on so.

    A tail of that kind is exponential, as waits are. Below the first probability the first value holds.
    """
    known, asked = np.asarray(probabilities, dtype=np.float64), np.clip(np.asarray(grid), 0.0, MOST_PROBABILITY)
    if quantiles_s.ndim != 2 or quantiles_s.shape[1] != len(known):
        raise ValueError(f"quantiles are [candidate, probability] of {len(known)}, found {quantiles_s.shape}")
    if not (np.all(np.diff(known) > 0) and known[0] >= 0 and known[-1] < 1):
        raise ValueError(f"probabilities rise from 0 to below 1, found {probabilities!r}")
    if len(known) == 1:
        return np.repeat(quantiles_s, len(asked), axis=1)
    depth, asked_depth = -np.log1p(-known), -np.log1p(-asked)
    below = np.clip(np.searchsorted(depth, asked_depth, side="right") - 1, 0, len(known) - 2)
    share = np.maximum((asked_depth - depth[below]) / (depth[below + 1] - depth[below]), 0.0)
    refined = quantiles_s[:, below] + share * (quantiles_s[:, below + 1] - quantiles_s[:, below])
    return np.asarray(np.maximum.accumulate(refined, axis=1))


def summed_quantile_s(quantile: float, grid: Sequence[float], model_s: FloatArray, network_s: FloatArray) -> FloatArray:
    """Where the sum's distribution function reaches the quantile [candidate]."""
    at = grid.index(quantile)
    low_s = np.maximum(model_s[:, at] + network_s[0], model_s[:, 0] + network_s[at])
    high_s = np.minimum(model_s[:, at] + network_s[-1], model_s[:, -1] + network_s[at])
    return crossing(lambda limit_s: summed_share(limit_s, grid, model_s, network_s), quantile, low_s, high_s)


def largest_quantile_s(
    quantile: float, grid: Sequence[float], model_s: FloatArray, network_s: FloatArray, limit_s: FloatArray
) -> FloatArray:
    """The model's own quantile [candidate] when its latency is scaled until the sum's quantile is the limit."""
    own_s = np.maximum(model_s[:, grid.index(quantile)], np.finfo(np.float64).tiny)

    def missing_share(own_limit_s: FloatArray) -> FloatArray:
        scaled_s = (own_limit_s / own_s)[:, None] * model_s
        return 1 - summed_share(limit_s, grid, scaled_s, network_s)

    low_s, high_s = np.maximum(limit_s - network_s[-1], 0.0), np.maximum(limit_s - network_s[0], 0.0)
    return crossing(missing_share, 1 - quantile, low_s, high_s)


def crossing(
    share_of: Callable[[FloatArray], FloatArray], share: float, low: FloatArray, high: FloatArray
) -> FloatArray:
    """Where a share that rises with its argument reaches a value: halvings and false positions by turns."""
    low_off, high_off = share_of(low) - share, share_of(high) - share
    for step in range(HALVINGS):
        middle = (low + high) / 2
        if step % 2 == 0:
            rise = high_off - low_off
            part = np.divide(-low_off, rise, out=np.full_like(rise, 0.5), where=rise > 0)
            middle = low + np.clip(part, 0.0, 1.0) * (high - low)
        off = share_of(middle) - share
        is_low, is_high = off < CLOSE_SHARE, off > -CLOSE_SHARE
        low, low_off = np.where(is_low, middle, low), np.where(is_low, off, low_off)
        high, high_off = np.where(is_high, middle, high), np.where(is_high, off, high_off)
        if np.all(high - low <= CLOSE_RATIO * np.abs(high)):
            break
    return np.asarray(high)


def summed_share(limit_s: FloatArray, grid: Sequence[float], model_s: FloatArray, network_s: FloatArray) -> FloatArray:
    """Share [candidate] of sums that take at most so long: the network's stretches, the model's share within each."""
    integral, share = integrated_share(limit_s[:, None] - network_s, np.asarray(grid), model_s)
    width_s = np.diff(network_s)
    wide = width_s > CLOSE_RATIO * max(float(network_s[-1]), LEAST_S)
    mean = (integral[:, :-1] - integral[:, 1:]) / np.where(wide, width_s, 1.0)
    middle = (share[:, :-1] + share[:, 1:]) / 2
    return np.asarray(np.where(wide, mean, middle) @ np.diff(grid))


def integrated_share(limit_s: FloatArray, grid: FloatArray, model_s: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The integral up to a limit of the model's distribution function, in seconds, and its value [candidate, limit]."""
    none, steps_s = np.zeros((len(model_s), 1)), np.diff(model_s, axis=1)
    areas_s = np.concatenate([none, np.cumsum(steps_s * (grid[1:] + grid[:-1]) / 2, axis=1)], axis=1)
    slopes = np.divide(np.diff(grid), steps_s, out=np.zeros_like(steps_s), where=steps_s > 0)
    slopes = np.concatenate([slopes, none], axis=1)
    knot = knots_below(limit_s, model_s)
    at, is_reached = np.maximum(knot, 0), knot >= 0
    beyond_s = np.where(is_reached, limit_s - np.take_along_axis(model_s, at, axis=1), 0.0)
    slope, reached = np.take_along_axis(slopes, at, axis=1), np.where(is_reached, grid[at], 0.0)
    integral_s = np.where(is_reached, np.take_along_axis(areas_s, at, axis=1), 0.0)
    return integral_s + (reached + slope * beyond_s / 2) * beyond_s, reached + slope * beyond_s


def knots_below(limit_s: FloatArray, model_s: FloatArray) -> IntArray:
    """The last value of its row [candidate, limit] that is not above the limit; -1 where all are.

    All rows are searched at once, each moved beyond the one before.
    """
    least, most = min(limit_s.min(), model_s.min()), max(limit_s.max(), model_s.max())
    moved = np.arange(len(model_s))[:, None] * ((most - least) * 2 + LEAST_S)
    found = np.searchsorted((model_s + moved).ravel(), (limit_s + moved).ravel(), side="right")
    return np.asarray(found.reshape(limit_s.shape) - 1 - np.arange(len(model_s))[:, None] * model_s.shape[1])
