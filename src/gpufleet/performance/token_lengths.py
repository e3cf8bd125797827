"""Token counts that differ from request to request, from percentiles or from a sample."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from gpufleet.domain.arrays import FloatArray
from gpufleet.domain.token_counts import AssumedCounts, TokenCounts
from gpufleet.performance.queueing import normal_quantile

QUANTILES = (0.50, 0.90, 0.95, 0.99)
NUM_POINTS, NUM_PARTS = 800, 8
LONGEST_QUANTILE = 0.999
"""Of assumed lengths: those beyond it are not planned for."""
CUT_HALVINGS = 60


def of_sample(tokens: FloatArray) -> TokenCounts:
    """The counts of requests that were seen.

    >>> of_sample(np.array([100.0, 100.0, 400.0])).mean
    200.0
    """
    ordered = np.sort(np.asarray(tokens, dtype=np.float64))
    mean = float(ordered.mean())
    if ordered[0] == ordered[-1]:
        return TokenCounts(mean)
    return TokenCounts(
        mean,
        float(ordered.var()) / mean**2,
        tuple(float(x) for x in np.quantile(ordered, QUANTILES)),
        float(ordered[-1]),
        octiles(ordered),
    )


def octiles(ordered: FloatArray) -> tuple[float, ...]:
    """The mean of each eighth of a sample; their mean is the sample's."""
    middles = (np.arange(NUM_POINTS) + 0.5) * (len(ordered) / NUM_POINTS)
    points = ordered[middles.astype(np.int64)]
    parts = points.reshape(NUM_PARTS, -1).mean(axis=1)
    return tuple(float(x) for x in parts * (ordered.mean() / parts.mean()))


def of_percentiles(given: Mapping[float, float], mean: float | None, longest: float | None = None) -> TokenCounts:
    """Counts whose logarithm runs straight between the given percentiles, over the normal quantile.

    Two percentiles are a log-normal distribution, more are pieces of several; one needs the mean beside it:
    ln(x_q / mean) = z_q s - s^2 / 2, the smaller s   [1]   Where both are given, the mean counts as stated.
    No request is above `longest`; where that is not known, what must fit is the last of QUANTILES.

    >>> counts = of_percentiles({0.5: 1000.0, 0.95: 4000.0}, None)
    >>> round(counts.mean), round(counts.at("p95"))
    (1424, 4000)
    """
    z = [normal_quantile(q) for q in sorted(given)]
    logs = [math.log(given[q]) for q in sorted(given)]
    if len(given) == 1 and mean is not None:
        spread = spread_of(z[0], logs[0] - math.log(mean))
        z, logs = [z[0], z[0] + 1.0], [logs[0], logs[0] + spread]
    points = np.exp(straight(np.array(z), np.array(logs), middle_quantiles()))
    at = np.exp(straight(np.array(z), np.array(logs), np.array([normal_quantile(q) for q in QUANTILES])))
    points, at = (np.minimum(tokens, math.inf if longest is None else longest) for tokens in (points, at))
    most, beyond_ratio = (float(at[-1]), 1 - QUANTILES[-1]) if longest is None else (longest, 0.0)
    return of_points(points, at, float(points.mean()) if mean is None else mean, most, beyond_ratio)


def of_points(points: FloatArray, at: FloatArray, mean: float, longest: float, beyond_ratio: float) -> TokenCounts:
    """Counts of which `points` stand for equal shares and `at` are QUANTILES."""
    if points[0] == points[-1]:
        return TokenCounts(mean)
    parts = points.reshape(NUM_PARTS, -1).mean(axis=1) * (mean / points.mean())
    variation = float(points.var() / points.mean() ** 2)
    return TokenCounts(mean, variation, tuple(map(float, at)), longest, tuple(map(float, parts)), beyond_ratio)


@lru_cache(maxsize=4096)
def log_normal(mean: float, log_spread: float, most: float = math.inf) -> TokenCounts:
    """Counts whose logarithms are normal, cut at `most`; their mean stays what it is.

    x_q = m exp(z_q s), at least one token and at most `most`   [tokens]
    m = mean exp(-s^2 / 2), more where some are cut
    Those beyond the 99.9th percentile are not planned for.   Source: the spread, in habits.toml

    >>> counts = log_normal(1000.0, 0.9)
    >>> round(counts.at("p50")), round(counts.at("p95")), round(counts.longest)
    (667, 2931, 10764)
    >>> round(log_normal(1000.0, 0.9, 3000.0).at("p50"), 1), log_normal(1000.0, 0.9, 3000.0).mean
    (735.4, 1000.0)
    """
    points, mean_shape = np.exp(log_spread * middle_quantiles()), math.exp(log_spread**2 / 2)
    middle = mean / mean_shape
    longest = middle * math.exp(log_spread * normal_quantile(LONGEST_QUANTILE))
    is_cut = longest > most
    if is_cut:
        middle, longest = middle_of_cut(points, mean, most), most
    at = np.clip(middle * np.exp([log_spread * normal_quantile(q) for q in QUANTILES]), 1.0, most)
    return of_points(np.clip(middle * points, 1.0, most), at, mean, longest, 0.0 if is_cut else 1 - LONGEST_QUANTILE)


def middle_of_cut(shape: FloatArray, mean: float, most: float) -> float:
    """The median with which min(median x shape, most) has this mean, by halving its logarithm's interval."""
    low, high = math.log(mean / shape[-1]), math.log(most / shape[0])
    for _ in range(CUT_HALVINGS):
        middle = (low + high) / 2
        is_short = np.minimum(math.exp(middle) * shape, most).mean() < mean
        low, high = (middle, high) if is_short else (low, middle)
    return math.exp(high)


def assumed(
    mean: float, log_spread: float, other_mean: float, context_tokens: float, beside_tokens: float = 0.0
) -> AssumedCounts:
    """Counts of which only the mean is known, cut where the model's context leaves no room beside the other mean.

    The mean holds `beside_tokens`, which all requests have.

    >>> assumed(1000.0, 0.9, 300.0, 1300.0).is_alike, assumed(1.0, 0.9, 300.0, 8192.0).is_alike
    (True, True)
    """
    own, most = mean - beside_tokens, context_tokens - other_mean - beside_tokens
    counts = log_normal(own, log_spread, most).plus(beside_tokens) if 1 < own < most else TokenCounts(mean)
    return AssumedCounts(
        **vars(counts), log_spread=log_spread, context_tokens=context_tokens, beside_tokens=beside_tokens
    )


def at_means(prompts: TokenCounts, answers: TokenCounts, means: tuple[float, float]) -> tuple[TokenCounts, TokenCounts]:
    """The same prompts and answers made longer or shorter, to other means: assumed ones are cut anew."""
    prompt, answer = means
    return moved(prompts, prompt, answer), moved(answers, answer, prompt)


def moved(counts: TokenCounts, mean: float, other_mean: float) -> TokenCounts:
    """The same counts at another mean."""
    if isinstance(counts, AssumedCounts):
        return assumed(mean, counts.log_spread, other_mean, counts.context_tokens, counts.beside_tokens)
    return counts.scaled(mean / counts.mean)


def spread_of(z: float, log_ratio: float) -> float:
    """The spread s of a log-normal whose quantile z lies `log_ratio` over its mean; the widest where none does.

    >>> round(spread_of(1.6449, math.log(2.0)), 3)
    0.496
    """
    return z - math.sqrt(max(z * z - 2 * log_ratio, 0.0)) if z > 0 else z + math.sqrt(z * z - 2 * min(log_ratio, 0.0))


def straight(z: FloatArray, logs: FloatArray, at: FloatArray) -> FloatArray:
    """Straight pieces through (z, logs), the outer ones continued."""
    slopes = np.diff(logs) / np.diff(z)
    inside = np.interp(at, z, logs)
    below = logs[0] + slopes[0] * np.minimum(at - z[0], 0.0)
    above = logs[-1] + slopes[-1] * np.maximum(at - z[-1], 0.0)
    return np.asarray(np.where(at < z[0], below, np.where(at > z[-1], above, inside)))


@lru_cache(maxsize=1)
def middle_quantiles() -> FloatArray:
    """Normal quantiles in the middle of NUM_POINTS equal shares."""
    return np.array([normal_quantile((i + 0.5) / NUM_POINTS) for i in range(NUM_POINTS)])
