"""Requests that nobody has seen yet: arrival times and lengths put together, and those that a workload describes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from gpufleet.domain.arrays import FloatArray, IntArray
from gpufleet.domain.rate_curve import RateCurve
from gpufleet.domain.requests import PrefixBlocks, Requests
from gpufleet.domain.token_counts import AssumedCounts, TokenCounts
from gpufleet.domain.workload import RequestClass, Workload
from gpufleet.errors import UsageError
from gpufleet.simulate.arrivals import POISSON, burst_times_s, chunks, curve_times_s, renewal_times_s
from gpufleet.simulate.token_draws import drawn_tokens

MOST_PREFIX_BLOCKS = 16_000_000
BLOCK_TOKENS = 16


def requests_of(times_s: FloatArray, input_tokens: IntArray, output_tokens: IntArray, name: str = "") -> Requests:
    """Requests of one class from their times and lengths."""
    return Requests(times_s, input_tokens, output_tokens, np.zeros(len(times_s), dtype=np.int64), (name,))


def requests_of_workload(
    workload: Workload,
    rng: np.random.Generator,
    num: float,
    burstiness: float = POISSON,
    block_tokens: int = BLOCK_TOKENS,
    num_sessions: int = 1,
) -> Requests:
    """So many requests of a workload at its own rate; all at once where it has none.

    One stream, of which each request is of a class by its share. Where a class has a cache, its prompts begin alike:
    `prefix_of_classes` says how.
    """
    is_batch = not math.isfinite(workload.rate_requests_per_s)
    rate = workload.rate_requests_per_s
    times = burst_times_s(num) if is_batch else renewal_times_s(rng, rate, num, burstiness)
    return requests_at(times, workload, rng, block_tokens, num_sessions)


def requests_of_curve(
    workload: Workload,
    curve: RateCurve,
    rng: np.random.Generator,
    burstiness: float | None = None,
    block_tokens: int = BLOCK_TOKENS,
    num_sessions: int = 1,
) -> Requests:
    """Requests of a workload whose rate follows a curve in place of its own."""
    return requests_at(curve_times_s(rng, curve, burstiness), workload, rng, block_tokens, num_sessions)


def requests_at(
    times_s: FloatArray,
    workload: Workload,
    rng: np.random.Generator,
    block_tokens: int = BLOCK_TOKENS,
    num_sessions: int = 1,
) -> Requests:
    """Requests of a workload at given times."""
    if not workload.output_tokens > 0:
        raise UsageError("an encoder's requests are not replayed: they write no tokens", expected="a model that writes")
    classes = workload.classes or (class_of(workload),)
    of_class = class_draws(rng, [c.rate_requests_per_s for c in classes], len(times_s))
    prompts, answers = np.empty_like(of_class), np.empty_like(of_class)
    for i, c in enumerate(classes):
        own = of_class == i
        prompts[own], answers[own] = lengths_of_class(rng, c, int(np.count_nonzero(own)))
    prefix = prefix_of_classes(rng, classes, of_class, prompts, block_tokens, num_sessions)
    return Requests(times_s, prompts, answers, of_class, tuple(c.name for c in classes), prefix)


def class_of(workload: Workload) -> RequestClass:
    """The one class of a workload whose requests are alike."""
    counts = TokenCounts(workload.input_tokens), TokenCounts(workload.output_tokens)
    rate = workload.rate_requests_per_s if math.isfinite(workload.rate_requests_per_s) else 1.0
    return RequestClass("", rate, *counts, workload.slo)


def lengths_of_class(rng: np.random.Generator, c: RequestClass, num: int) -> tuple[IntArray, IntArray]:
    """Prompts and answers of one class; where the model's context is known, both together stay within it."""
    prompts, answers = (drawn_tokens(rng, counts, num) for counts in (c.input_tokens, c.output_tokens))
    contexts = [t.context_tokens for t in (c.input_tokens, c.output_tokens) if isinstance(t, AssumedCounts)]
    context = min(contexts, default=math.inf)
    if math.isfinite(context) and num:
        np.minimum(answers, np.maximum(math.floor(context) - prompts, 1), out=answers)
    return prompts, answers


def class_draws(rng: np.random.Generator, weights: Sequence[float], num: int) -> IntArray:
    """Which of several classes each request is of, by their shares."""
    drawn = np.zeros(num, dtype=np.int64)
    if len(weights) == 1:
        return drawn
    bounds = np.cumsum(np.asarray(weights, dtype=np.float64))
    for part in chunks(num):
        drawn[part] = np.searchsorted(bounds[:-1], rng.random(part.stop - part.start) * bounds[-1], side="right")
    return drawn


def prefix_of_classes(
    rng: np.random.Generator,
    classes: Sequence[RequestClass],
    of_class: IntArray,
    prompts: IntArray,
    block_tokens: int = BLOCK_TOKENS,
    num_sessions: int = 1,
) -> PrefixBlocks | None:
    """The blocks with which prompts begin that a cache may hold; None where no class has a cache.

    `shared_ratio` of a prompt are blocks of its class, those between that and `cached_ratio` are blocks of one of
    `num_sessions` sessions of the class, drawn for each request: as many as run at once make each hold its own.
    What is not cached has no blocks. Blocks are larger than asked where there would be more than MOST_PREFIX_BLOCKS.
    """
    if block_tokens < 1 or num_sessions < 1:
        raise UsageError("blocks of a prefix and its sessions are positive numbers", found=(block_tokens, num_sessions))
    if not any(c.cached_ratio for c in classes):
        return None
    cached, shared = (np.array([getattr(c, name) for c in classes]) for name in ("cached_ratio", "shared_ratio"))
    cached_tokens = float(np.bincount(of_class, prompts, len(classes)) @ cached)
    while cached_tokens / block_tokens > MOST_PREFIX_BLOCKS:
        block_tokens *= 2
    counts = np.empty_like(prompts)
    for part in chunks(len(prompts)):
        counts[part] = whole_blocks(prompts[part], cached[of_class[part]], block_tokens)
    first = np.concatenate([[0], np.cumsum(counts)])
    deepest, block = int(counts.max(initial=0)), np.empty(first[-1], dtype=np.int64)
    for part in chunks(len(prompts)):
        num_shared = whole_blocks(prompts[part], shared[of_class[part]], block_tokens)
        sessions = rng.integers(0, num_sessions, len(num_shared)) + of_class[part] * num_sessions + len(classes)
        block[first[part.start] : first[part.stop]] = chained(
            counts[part], num_shared, of_class[part] * deepest, sessions * deepest
        )
    return PrefixBlocks(block_tokens, first, block)


def whole_blocks(prompts: IntArray, ratios: FloatArray, block_tokens: int) -> IntArray:
    """How many whole blocks of each prompt are nearest to this share of it."""
    return np.minimum(np.rint(prompts * ratios / block_tokens).astype(np.int64), prompts // block_tokens)


def chained(counts: IntArray, num_shared: IntArray, class_chain: IntArray, session_chain: IntArray) -> IntArray:
    """The blocks of each request: up to `num_shared` those of its class's chain, from there those of its session's.

    >>> chained(np.array([2, 3]), np.array([1, 2]), np.array([0, 0]), np.array([10, 20])).tolist()
    [0, 11, 0, 1, 22]
    """
    ends = np.cumsum(counts)
    depth = np.arange(counts.sum()) - np.repeat(ends - counts, counts)
    is_shared = depth < np.repeat(num_shared, counts)
    return depth + np.where(is_shared, np.repeat(class_chain, counts), np.repeat(session_chain, counts))
