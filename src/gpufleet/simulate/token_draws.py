"""Tokens of requests, drawn one by one: alike, by percentiles, log-normal, between bounds, or as a trace had them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import NormalDist
from typing import Protocol

import numpy as np

from gpufleet.domain.arrays import FloatArray, IntArray
from gpufleet.domain.requests import Requests
from gpufleet.domain.token_counts import AssumedCounts, TokenCounts
from gpufleet.errors import UsageError
from gpufleet.performance.token_lengths import NUM_PARTS, QUANTILES
from gpufleet.records import dataclass
from gpufleet.simulate.arrivals import checked_number, chunks
from gpufleet.units import TOKENS

POINTS_OF_A_PIECE, NUM_BENDS, HALVINGS = 256, 49, 60
MEDIAN_PART = NUM_PARTS // 2
LONGEST_STRETCH, FURTHEST = 1e6, 8.0
LEAST_BEND = 0.02
"""Of the longest eighth: how little, and how much, of the way to the next percentile its mean may have gone."""


@dataclass(frozen=True, eq=False)
class QuantileCurve:
    """Tokens over the share of requests that have fewer: straight between its points."""

    share: FloatArray
    tokens: FloatArray

    @property
    def mean(self) -> float:
        """Mean tokens   [tokens]."""
        return float(np.diff(self.share) @ (self.tokens[1:] + self.tokens[:-1])) / 2

    @property
    def squared_variation(self) -> float:
        """Variance over the square of the mean   [1]."""
        low, high = self.tokens[:-1], self.tokens[1:]
        second = float(np.diff(self.share) @ (low * low + low * high + high * high)) / 3
        return second / self.mean**2 - 1

    def followed_by(self, other: QuantileCurve) -> QuantileCurve:
        """This curve and one that begins where it ends; it never falls."""
        tokens = np.concatenate([self.tokens, other.tokens])
        return QuantileCurve(np.concatenate([self.share, other.share]), np.maximum.accumulate(tokens))

    def at(self, share: FloatArray) -> FloatArray:
        """Tokens that these shares of the requests stay below."""
        return np.asarray(np.interp(share, self.share, self.tokens), dtype=np.float64)

    def within(self, most: float) -> QuantileCurve:
        """The same curve between one token and `most`."""
        return QuantileCurve(self.share, np.clip(self.tokens, 1.0, most))

    def times(self, ratio: float) -> QuantileCurve:
        """Every request so many times as long."""
        return QuantileCurve(self.share, self.tokens * ratio)


def drawn_tokens(rng: np.random.Generator, counts: TokenCounts, num: float) -> IntArray:
    """Tokens of so many requests, spread as the counts say; their mean is the counts' mean.

    A share of a token is one more in that share of the requests.
    """
    if isinstance(counts, AssumedCounts) and not counts.is_alike:
        return log_normal_tokens(rng, counts, num)
    if counts.is_alike:
        return whole_tokens(rng, lambda size: np.full(size, max(counts.mean, 1.0)), num)
    curve = quantile_curve(counts)
    return whole_tokens(rng, lambda size: curve.at(np.asarray(rng.random(size))), num)


def spread_tokens(rng: np.random.Generator, counts: TokenCounts, num: int) -> IntArray:
    """Tokens of the very requests that the counts were taken of: one from each of `num` equal shares, in any order.

    Their mean is that of the counts in every run, not only on average: 300 drawn apart are often 4 % longer or shorter.
    """
    if counts.is_alike:
        return drawn_tokens(rng, counts, num)
    curve = quantile_curve(counts)

    def of_all_shares(size: int) -> FloatArray:
        return curve.at(rng.permutation((np.arange(size) + rng.random(size)) / size))

    return whole_tokens(rng, of_all_shares, num)


def log_normal_tokens(rng: np.random.Generator, counts: AssumedCounts, num: float) -> IntArray:
    """Tokens of which only the mean was said, as `token_lengths.log_normal` spreads them, up to the longest."""
    most = counts.most - counts.beside_tokens
    middle = middle_of_cut(counts.mean - counts.beside_tokens, counts.log_spread, most)

    def drawn(size: int) -> FloatArray:
        own = middle * np.exp(counts.log_spread * rng.standard_normal(size))
        return np.asarray(np.clip(own, 1.0, most) + counts.beside_tokens)

    return whole_tokens(rng, drawn, num)


def middle_of_cut(mean: float, log_spread: float, most: float) -> float:
    """The median m of log-normal tokens whose mean is `mean` though none is above `most`, by halving its interval.

    mean = m exp(s^2 / 2) P(z < d - s) + most P(z > d),   d = ln(most / m) / s

    >>> round(middle_of_cut(1000.0, 0.9, 1700.0), 1)
    933.6
    """
    normal = NormalDist()
    low, high = math.log(mean) - log_spread**2 / 2, math.log(most) + log_spread * FURTHEST
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        cut = (math.log(most) - middle) / log_spread
        below = math.exp(middle + log_spread**2 / 2) * normal.cdf(cut - log_spread)
        low, high = (middle, high) if below + most * normal.cdf(-cut) < mean else (low, middle)
    return math.exp(high)


def fixed_tokens(tokens: float, num: float) -> IntArray:
    """The same tokens in every request.

    >>> fixed_tokens(100, 2).tolist()
    [100, 100]
    """
    TOKENS.refuse_outside(tokens, "a number of tokens", tokens)
    return np.full(checked_number(num), round(tokens), dtype=np.int64)


def uniform_tokens(rng: np.random.Generator, least: int, most: int, num: float) -> IntArray:
    """Every number of tokens from the least to the most as often as any other."""
    refuse_bounds(least, most)
    return rng.integers(least, most, checked_number(num), endpoint=True)


def clipped_normal_tokens(
    rng: np.random.Generator, mean: float, spread: float, least: int, most: int, num: float
) -> IntArray:
    """Normal tokens; those beyond a bound are at it, as the workloads of BLIS have them (256 +- 100 within 2-800)."""
    refuse_bounds(least, most)
    TOKENS.refuse_outside(mean, "a mean of tokens", mean)
    if not 0 <= spread <= TOKENS.most:
        raise UsageError("the spread of tokens is out of range", found=spread, expected=f"from 0 to {TOKENS.most:,.0f}")
    drawn = np.empty(checked_number(num), dtype=np.int64)
    for part in chunks(len(drawn)):
        drawn[part] = np.clip(np.rint(rng.normal(mean, spread, part.stop - part.start)), least, most)
    return drawn


def resampled_tokens(rng: np.random.Generator, seen: Requests, num: float) -> tuple[IntArray, IntArray]:
    """Prompts and answers of requests that were seen, drawn with replacement; those of one request stay together."""
    if not len(seen):
        raise UsageError("there are no requests to draw lengths from", expected="a trace of at least one")
    drawn = rng.integers(0, len(seen), checked_number(num))
    return seen.input_tokens[drawn], seen.output_tokens[drawn]


def refuse_bounds(least: int, most: int) -> None:
    """Refuse bounds that no request lies between."""
    if not 1 <= least <= most <= TOKENS.most:
        raise UsageError(
            "the bounds of tokens are out of order or range",
            found=f"{least} to {most}",
            expected=f"1 <= least <= most <= {TOKENS.most:,.0f}",
        )


class Drawing(Protocol):
    """Draws so many numbers of tokens, which need not be whole."""

    def __call__(self, size: int, /) -> FloatArray:
        """So many of them."""


def whole_tokens(rng: np.random.Generator, draw: Drawing, num: float) -> IntArray:
    """Whole tokens of the same mean: 1.3 is 2 in three requests of ten."""
    tokens = np.empty(checked_number(num), dtype=np.int64)
    for part in chunks(len(tokens)):
        size = part.stop - part.start
        drawn = draw(size)
        below = np.floor(drawn)
        tokens[part] = below + (rng.random(size) < drawn - below)
    return tokens


def quantile_curve(counts: TokenCounts) -> QuantileCurve:
    """The tokens of every share of the requests, from what is known: eighths, percentiles, the longest, the mean.

    Between two known points x_0 and x_1 stands x_0 + (x_1 - x_0) v^a, v from 0 to 1, whose mean is that of the piece:
    a = (x_1 - x_0) / (mean - x_0) - 1. Of the ways that the longest eighth may bend, the one whose variation is
    nearest counts. Where percentiles and means do not agree, the means count; the whole is stretched to the mean.
    None is longer than the longest where that is known; elsewhere the last percentile ends it, as in a plan.
    """
    ends = eighth_ends(counts)
    pieces = [power_piece(ends[i], ends[i + 1], counts.octiles[i]) for i in range(NUM_PARTS - 1)]
    shares = [(np.arange(POINTS_OF_A_PIECE) / POINTS_OF_A_PIECE + i) / NUM_PARTS for i in range(NUM_PARTS - 1)]
    lower = QuantileCurve(np.concatenate(shares), np.concatenate(pieces))
    curves = [lower.followed_by(top) for top in top_eighths(counts, ends[-1])]
    nearest = min(curves, key=lambda curve: abs(curve.squared_variation - counts.squared_variation))
    most = counts.longest if counts.longest and not counts.beyond_ratio else math.inf
    return with_mean(nearest, counts.mean, max(most, counts.mean))


def eighth_ends(counts: TokenCounts) -> list[float]:
    """Where each eighth but the last begins and ends: between the means on both sides, at the median in the middle."""
    means = counts.octiles
    between = [(low + high) / 2 for low, high in pairwise(means)]
    between[MEDIAN_PART - 1] = min(max(counts.percentiles[0], means[MEDIAN_PART - 1]), means[MEDIAN_PART])
    last = min(between[-1], max(counts.percentiles[1], means[-2]))
    return [min(max(2 * means[0] - between[0], 1.0), means[0]), *between[:-1], last]


def power_piece(low: float, high: float, mean: float) -> FloatArray:
    """Tokens from `low` on towards `high`, whose mean is `mean`."""
    at = np.arange(POINTS_OF_A_PIECE) / POINTS_OF_A_PIECE
    above = max(mean - low, (high - low) / LONGEST_STRETCH)
    return np.asarray(low + (high - low) * at ** max((high - low) / above - 1, 0.0)) if high > low else low + 0 * at


def top_eighths(counts: TokenCounts, low: float) -> list[QuantileCurve]:
    """The longest eighth through the upper percentiles, bent in all ways that have its mean."""
    knots = [low, *(max(tokens, low) for tokens in counts.percentiles[1:]), max(counts.most, low)]
    shares = [(NUM_PARTS - 1) / NUM_PARTS, *QUANTILES[1:], 1.0]
    weights = np.diff(shares) * NUM_PARTS
    bends = bends_of_top(weights * np.diff(knots), counts.octiles[-1] - float(weights @ knots[:-1]))
    steps = np.arange(POINTS_OF_A_PIECE) / POINTS_OF_A_PIECE
    at = np.concatenate([*(a + (b - a) * steps for a, b in pairwise(shares)), [1.0]])
    return [QuantileCurve(at, bent_through(knots, each)) for each in bends]


def bent_through(knots: Sequence[float], bends: Sequence[float]) -> FloatArray:
    """Tokens through all knots, the mean of each piece so far on the way to its end."""
    pieces = [power_piece(a, b, a + (b - a) * bend) for (a, b), bend in zip(pairwise(knots), bends, strict=True)]
    return np.concatenate([*pieces, knots[-1:]])


def bends_of_top(rises: FloatArray, mean_rise: float) -> list[list[float]]:
    """How far the mean of each piece has gone towards its end: one share for all, or one for the last piece alone."""
    inner, last = float(rises[:-1].sum()), float(rises[-1])
    most = 1 - LEAST_BEND
    alike = min(max(mean_rise / (inner + last), LEAST_BEND), most) if inner + last > 0 else LEAST_BEND
    tried = np.linspace(LEAST_BEND, most, NUM_BENDS).tolist() if inner > 0 else []
    pairs = [((mean_rise - last * bend) / inner, bend) for bend in tried]
    apart = [[other] * (len(rises) - 1) + [bend] for other, bend in pairs if LEAST_BEND <= other <= most]
    return [[alike] * len(rises), *apart]


def with_mean(curve: QuantileCurve, mean: float, most: float) -> QuantileCurve:
    """A curve stretched so that its mean is `mean`, though it stays between one token and `most`."""
    low, high = 0.0, LONGEST_STRETCH
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if curve.times(middle).within(most).mean < mean else (low, middle)
    return curve.times(high).within(most)
