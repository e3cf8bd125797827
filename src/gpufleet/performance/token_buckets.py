"""Requests of a class in buckets of like lengths: what can be sent to machines of different kinds."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, product
from typing import NamedTuple

import numpy as np

from gpufleet.domain.arrays import FloatArray
from gpufleet.domain.token_counts import TokenCounts
from gpufleet.performance.queueing import normal_quantile
from gpufleet.performance.token_lengths import LONGEST_QUANTILE, NUM_PARTS, QUANTILES, of_sample, straight

NUM_POINTS = 400
PROMPT_SHARES = (0.0, 0.25, 0.5, 0.75, 0.9, 0.97, 1.0)
ANSWER_SHARES = (0.0, 0.5, 0.85, 1.0)
WHOLE = (0.0, 1.0)


class Lengths(NamedTuple):
    """Requests of a bucket: their share of the class, the shortest and longest of them, and their counts.

    Points are tokens that stand for equal shares of the bucket.
    """

    share_ratio: float
    prompt_points: FloatArray
    answer_points: FloatArray

    @property
    def ends(self) -> tuple[float, float, float, float]:
        """The shortest and longest prompt and answer."""
        return tuple(float(points[end]) for points in (self.prompt_points, self.answer_points) for end in (0, -1))  # type: ignore[return-value]

    @property
    def prompts(self) -> TokenCounts:
        """Tokens of the prompts."""
        return of_sample(self.prompt_points)

    @property
    def answers(self) -> TokenCounts:
        """Tokens of the answers."""
        return of_sample(self.answer_points)


def points_of(counts: TokenCounts) -> FloatArray:
    """Tokens that stand for equal shares of the requests, ascending; they keep the mean of each eighth.

    >>> points_of(TokenCounts(100.0))[:2]
    array([100., 100.])
    """
    if counts.is_alike:
        return np.full(NUM_POINTS, counts.mean)
    at = [(i + 0.5) / NUM_PARTS for i in range(NUM_PARTS - 1)] + list(QUANTILES[1:]) + [LONGEST_QUANTILE]
    tokens = [*counts.octiles[:-1], *counts.percentiles[1:], counts.most]
    quantiles = (np.arange(NUM_POINTS) + 0.5) / NUM_POINTS
    z = np.array([normal_quantile(float(q)) for q in quantiles])
    logs = np.maximum.accumulate(np.log(tokens))
    drawn = np.exp(straight(np.array([normal_quantile(q) for q in at]), logs, z))
    parts = np.minimum(drawn, counts.most).reshape(NUM_PARTS, -1)
    scaled = parts * (np.array(counts.octiles) / parts.mean(axis=1))[:, None]
    return np.sort(scaled.ravel())


def buckets_of(prompts: TokenCounts, answers: TokenCounts, by_answer: bool) -> list[Lengths]:
    """Buckets by the length of the prompt, and of the answer where a router foretells it; one where all are alike.

    >>> [round(b.share_ratio, 2) for b in buckets_of(TokenCounts(100.0), TokenCounts(10.0), True)]
    [1.0]
    """
    cut_prompts = parts_of(points_of(prompts), WHOLE if prompts.is_alike else PROMPT_SHARES)
    cut_answers = parts_of(points_of(answers), ANSWER_SHARES if by_answer and not answers.is_alike else WHOLE)
    whole = NUM_POINTS * NUM_POINTS
    return [Lengths(len(p) * len(a) / whole, p, a) for p, a in product(cut_prompts, cut_answers)]


def parts_of(points: FloatArray, shares: Sequence[float]) -> list[FloatArray]:
    """Points cut at shares of their number."""
    ends = [round(share * len(points)) for share in shares]
    return [points[start:end] for start, end in pairwise(ends)]


def joined(parts: Sequence[tuple[float, FloatArray]]) -> TokenCounts:
    """Counts of requests of several buckets, by the weights of each.

    >>> joined([(1.0, np.array([100.0])), (3.0, np.array([200.0]))]).mean
    175.0
    """
    tokens = np.concatenate([points for _, points in parts])
    weight = np.concatenate([np.full(len(points), w / len(points)) for w, points in parts])
    order = np.argsort(tokens, kind="stable")
    tokens, below = tokens[order], np.cumsum(weight[order])
    mean = float(np.average(tokens, weights=weight[order]))
    middles = (np.arange(NUM_POINTS) + 0.5) / NUM_POINTS * below[-1]
    sampled = of_sample(tokens[np.minimum(np.searchsorted(below, middles), len(tokens) - 1)])
    return sampled.scaled(mean / sampled.mean)
