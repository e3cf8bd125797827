"""What requests that differ mean for an engine: the work, the memory and the prompts of their mixture.

Lengths of prompt and answer are taken as independent of each other within a class.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from gpufleet.domain.arrays import FloatArray
from gpufleet.domain.candidates import Candidates
from gpufleet.domain.estimate import PromptTimes
from gpufleet.domain.token_counts import AssumedCounts, TokenCounts
from gpufleet.domain.workload import RequestClass, Workload
from gpufleet.performance.serving import Lengths, lone_ttft_s, prefill_run_s, prompts_load, request_host_s
from gpufleet.performance.shared_steps import kernels_in_pieces_s, kernels_of_prompts_s
from gpufleet.performance.spread import normal_share
from gpufleet.performance.step import StepLoad, StepModel
from gpufleet.records import dataclass

BESIDE = 16.0
"""Sequences that decode where prompts of several lengths are compared in a busy step."""
LEAST_DEVIATIONS = 0.1


@dataclass(frozen=True)
class MixedLengths(Lengths):
    """Mean tokens to prefill and to generate, with the context that the mean decode step meets."""

    decode_context_tokens: float = 0.0

    @property
    def mean_decode_context_tokens(self) -> float:
        """Long answers are decoded longer: the context of their steps counts more often."""
        return self.decode_context_tokens


@dataclass(frozen=True)
class Prompts:
    """Prompts that stand for `weight` of all: `tokens` of them, of which the cache holds `cached` already."""

    weight: FloatArray
    tokens: FloatArray
    cached: FloatArray


@dataclass(frozen=True)
class RequestMix:
    """A mixture of requests as an engine meets it.

    `held_tokens` is the context that a running sequence is given room for, with its squared variation; engines that set
    answers aside give `set_aside_tokens`, since the longest answers run longest;
    `shared_tokens` stand once in memory for all; `longest_tokens` must fit at all; about
    `beyond_longest_ratio` of the requests may be longer. `prompts` is None where all are
    alike and nothing is cached.
    """

    lengths: Lengths
    held_tokens: float
    set_aside_tokens: float
    held_squared_variation: float = 0.0
    shared_tokens: float = 0.0
    longest_tokens: float = 0.0
    beyond_longest_ratio: float = 0.0
    prompt_squared_variation: float = 0.0
    answer_variation: float = 0.0
    prompts: Prompts | None = None


@lru_cache(maxsize=64)
def mix_of(workload: Workload) -> RequestMix:
    """The mixture that a workload describes."""
    if not workload.classes:
        held = workload.input_tokens + workload.output_tokens
        return RequestMix(Lengths(workload.input_tokens, workload.output_tokens), held, held, longest_tokens=held)
    classes = workload.classes
    rates = np.array([c.rate_requests_per_s for c in classes])
    prefilled = moments(rates, [c.input_tokens.mean * (1 - c.cached_ratio) for c in classes], variations(classes))
    answered = moments(
        rates, [c.output_tokens.mean for c in classes], [c.output_tokens.squared_variation for c in classes]
    )
    each_holds, running = held_tokens(classes), running_weights(classes)
    return RequestMix(
        lengths=MixedLengths(
            prefilled[0], workload.output_tokens, float(np.average(decode_contexts(classes), weights=running))
        ),
        held_tokens=float(np.average(each_holds, weights=running)),
        set_aside_tokens=float(np.average(set_aside_tokens(classes), weights=running)),
        held_squared_variation=moments(running, each_holds, held_variations(classes, each_holds))[1],
        shared_tokens=max(c.input_tokens.mean * c.shared_ratio for c in classes),
        longest_tokens=max(map(longest_tokens, classes)),
        beyond_longest_ratio=beyond_longest_ratio(classes),
        prompt_squared_variation=prefilled[1],
        answer_variation=answered[1],
        prompts=prompts_of(classes),
    )


def longest_tokens(c: RequestClass) -> float:
    """What requests of a class are given at most: the longest prompt and answer, where the context holds both."""
    counts = (c.input_tokens, c.output_tokens)
    whole = sum(t.most for t in counts)
    contexts = [t.context_tokens for t in counts if isinstance(t, AssumedCounts)]
    longest = min([whole, *(max(tokens, *(t.most for t in counts)) for tokens in contexts)])
    return longest if c.most_tokens is None else min(longest, c.most_tokens)


def beyond_longest_ratio(classes: Sequence[RequestClass]) -> float:
    """About which share of all requests is longer than that of the class that reaches furthest   [1].

    Where prompts and answers both differ, those of which both are at their longest are as rare as one of them.
    """
    longest, total = max(map(longest_tokens, classes)), sum(c.rate_requests_per_s for c in classes)
    return sum(
        c.rate_requests_per_s / total * max(beyond_ratio(c, c.input_tokens), beyond_ratio(c, c.output_tokens))
        for c in classes
        if longest_tokens(c) == longest
    )


def beyond_ratio(c: RequestClass, counts: TokenCounts) -> float:
    """Share of the prompts, or answers, of a class that are longer than what is planned, or is taken   [1].

    1 - Phi((ln(most - the other's mean) - ln(median)) / s)   of log-normal ones
    """
    if c.most_tokens is None or not isinstance(counts, AssumedCounts) or counts.is_alike:
        return counts.beyond_ratio
    other = c.output_tokens if counts is c.input_tokens else c.input_tokens
    most = max(c.most_tokens - other.mean - counts.beside_tokens, 1.0)
    median = counts.at("p50") - counts.beside_tokens
    return max(1.0 - float(normal_share(np.asarray(math.log(most / median) / counts.log_spread))), counts.beyond_ratio)


def moments(weights: FloatArray, means: Sequence[float], squared_variations: Sequence[float]) -> tuple[float, float]:
    """Mean and squared variation of a mixture.

    c^2 = sum w m^2 (1 + c_i^2) / (sum w m)^2 - 1   [1]

    >>> moments(np.array([1.0, 1.0]), [1.0, 3.0], [0.0, 0.0])
    (2.0, 0.25)
    """
    share, m = weights / weights.sum(), np.asarray(means, dtype=np.float64)
    mean = float(share @ m)
    return mean, max(float(share @ (m**2 * (1 + np.asarray(squared_variations)))) / mean**2 - 1, 0.0)


def variations(classes: Sequence[RequestClass]) -> list[float]:
    """Squared variation of each class's prompts."""
    return [c.input_tokens.squared_variation for c in classes]


def running_weights(classes: Sequence[RequestClass]) -> FloatArray:
    """A class is among the running sequences as often as its answers take steps: rate x mean answer."""
    return np.array([c.rate_requests_per_s * c.output_tokens.mean for c in classes])


def decode_contexts(classes: Sequence[RequestClass]) -> list[float]:
    """Context of the mean decode step of each class.

    prompt + E[out^2] / (2 E[out]) = prompt + out (1 + c^2) / 2   [tokens]
    """
    return [c.input_tokens.mean + residual(c) for c in classes]


def residual(c: RequestClass) -> float:
    """Tokens that a running sequence of a class has generated on average: long answers run longer   [tokens]."""
    return c.output_tokens.mean * (1 + c.output_tokens.squared_variation) / 2


def held_tokens(classes: Sequence[RequestClass]) -> list[float]:
    """Context that each class is given room for: its own prompt and the mean answer, or what is generated if more."""
    return [c.input_tokens.mean * (1 - c.shared_ratio) + max(c.output_tokens.mean, residual(c)) for c in classes]


def set_aside_tokens(classes: Sequence[RequestClass]) -> list[float]:
    """Own prompts and whole answers of running sequences, class by class: prompt + E[out^2] / E[out]   [tokens]."""
    return [c.input_tokens.mean * (1 - c.shared_ratio) + 2 * residual(c) for c in classes]


def held_by_sequence(candidates: Candidates, mix: RequestMix) -> FloatArray:
    """Tokens of the KV pool that each running sequence of a mixture counts for, per candidate."""
    sets_aside = candidates.engine_figure("reserved_output_ratio", 0.5) >= 1
    return np.where(sets_aside, mix.set_aside_tokens, mix.held_tokens)


def held_variations(classes: Sequence[RequestClass], held: Sequence[float]) -> list[float]:
    """Squared variation of what sequences hold, class by class."""
    return [
        (
            (c.input_tokens.mean * (1 - c.shared_ratio)) ** 2 * c.input_tokens.squared_variation
            + c.output_tokens.mean**2 * c.output_tokens.squared_variation
        )
        / tokens**2
        for c, tokens in zip(classes, held, strict=True)
    ]


def prompts_of(classes: Sequence[RequestClass]) -> Prompts | None:
    """Prompts of equal shares of every class."""
    if len(classes) == 1 and classes[0].input_tokens.is_alike and not classes[0].cached_ratio:
        return None
    rows = [
        (c.rate_requests_per_s / len(c.input_tokens.equal_parts), tokens, tokens * c.cached_ratio)
        for c in classes
        for tokens in c.input_tokens.equal_parts
    ]
    weight, tokens, cached = (np.array(column) for column in zip(*rows, strict=True))
    return Prompts(weight / weight.sum(), tokens, cached)


def prompt_work_ratio(model: StepModel, mix: RequestMix) -> FloatArray:
    """Work of the mixture's prompts over that of one prompt of mean length, per candidate.

    sum w t(n | cached) / t(mean)   [1]   Attention is quadratic: long prompts weigh more than their mean says.
    """
    if mix.prompts is None:
        return np.ones(len(model.candidates))
    return work_ratio_of(mix.prompts, mixed_prefills_s(model, mix, mix.prompts))


def work_ratio_of(prompts: Prompts, prefills_s: FloatArray) -> FloatArray:
    """The same of the prompts' kernels and, last, those of the mean one."""
    return np.asarray((prompts.weight @ prefills_s[:-1]) / prefills_s[-1])


def mixed_prefills_s(model: StepModel, mix: RequestMix, prompts: Prompts) -> FloatArray:
    """Kernels of the mixture's prompts and, last, of one of mean length   [s], [prompt, candidate]."""
    return prefill_s(model, *with_mean_prompt(mix, prompts))


def with_mean_prompt(mix: RequestMix, prompts: Prompts) -> tuple[FloatArray, FloatArray]:
    """Tokens of the prompts and what is cached of them; the last is one of mean length of which nothing is."""
    return np.append(prompts.tokens, mix.lengths.input_tokens), np.append(prompts.cached, 0.0)


def prefill_s(model: StepModel, tokens: FloatArray, cached: FloatArray) -> FloatArray:
    """Kernels of prompts of which a prefix is cached: what the whole takes more than its prefix   [s].

    Rows are prompts, columns candidates.   t(n | h) = max(t(n) - t(h), t(n - h))   The rest attends to the prefix too.
    """
    rest_s = kernels_in_pieces_s(model, each_alone(model, tokens - cached))
    if not cached.any():
        return rest_s
    whole_s, held_s = (kernels_in_pieces_s(model, each_alone(model, n)) for n in (tokens, np.maximum(cached, 1.0)))
    return np.maximum(whole_s - held_s, rest_s)


def each_alone(model: StepModel, tokens: FloatArray) -> StepLoad:
    """Steps of one prompt each, [prompt, candidate]."""
    return prompts_load(np.ones((len(tokens), len(model.candidates))), Lengths(tokens[:, None], 1.0))


def prompt_times(
    model: StepModel, mix: RequestMix, classes: Sequence[RequestClass], statistics: Sequence[Sequence[str]],
    prefills_s: FloatArray,
) -> dict[tuple[str, str], PromptTimes]:  # fmt: skip
    """Each class's prompts at their mean and at some statistics; `prefills_s`: `mixed_prefills_s`."""
    assert mix.prompts is not None, "prompts that are all alike have no statistics"
    tokens = statistic_tokens(classes, statistics)
    beside_s = [beside_decoding_s(model, mix, n, c.cached_ratio) for n, c in zip(tokens, classes, strict=True)]
    shares = np.array([c.rate_requests_per_s for c in classes])
    mean_s = (shares / shares.sum()) @ np.array([rows[0] for rows in beside_s])
    work = work_ratio_of(mix.prompts, prefills_s)
    found, start = dict[tuple[str, str], PromptTimes](), 0
    for c, names, n, rows in zip(classes, statistics, tokens, beside_s, strict=True):
        end = start + len(c.input_tokens.equal_parts)
        lone_s = first_tokens_s(model, n, c.cached_ratio)
        host_s = np.array([request_host_s(model, Lengths(own, 1.0)) for own in n * (1 - c.cached_ratio)])
        own = (mix.prompts.tokens - mix.prompts.cached)[start:end, None]
        mean_lone_s = host_s[0] + prefill_run_s(model, prefills_s[start:end], own).mean(axis=0)
        found[c.name, "mean"] = PromptTimes(mean_lone_s, host_s[0], rows[0] / mean_s)
        for i, name in enumerate(names, 1):
            found[c.name, name] = PromptTimes(
                lone_s[i], host_s[i], rows[i] / (mean_s * work), deviations(c.input_tokens, float(n[i]))
            )
        start = end
    return found


def statistic_tokens(classes: Sequence[RequestClass], statistics: Sequence[Sequence[str]]) -> list[FloatArray]:
    """Tokens of each class's prompts: their mean, and at each of its statistics."""
    return [
        np.array([c.input_tokens.at(name) for name in ("mean", *names)])
        for c, names in zip(classes, statistics, strict=True)
    ]


def deviations(counts: TokenCounts, tokens: float) -> float:
    """How many standard deviations a number of tokens lies from the mean, either way; 0 where all are alike   [1].

    >>> deviations(TokenCounts(100.0, 0.25, (90.0, 150.0, 200.0, 300.0)), 200.0)
    2.0
    """
    spread = counts.mean * np.sqrt(counts.squared_variation)
    return float(max(abs(tokens - counts.mean) / spread, LEAST_DEVIATIONS)) if spread > 0 else 0.0


def beside_decoding_s(model: StepModel, mix: RequestMix, tokens: FloatArray, cached_ratio: float) -> FloatArray:
    """What prompts add to a step in which BESIDE sequences decode   [s], [prompt, candidate]."""
    rest = tokens * (1 - cached_ratio)
    decoding, beside = beside_loads(model, mix, rest)
    added_s = np.maximum(kernels_of_prompts_s(model, beside, model.seconds(decoding)), 0.0)
    return np.asarray(added_s + of_prefix_s(model, tokens, cached_ratio))


def beside_loads(model: StepModel, mix: RequestMix, tokens: FloatArray) -> tuple[StepLoad, StepLoad]:
    """A step that decodes BESIDE sequences, and the same with each of some prompts."""
    num, context = len(model.candidates), mix.lengths.mean_decode_context_tokens
    decoding, ones = np.full(num, BESIDE), np.ones((len(tokens), num))
    return StepLoad(decoding, context), StepLoad(decoding, context, ones, tokens[:, None])


def of_prefix_s(model: StepModel, tokens: FloatArray, cached_ratio: float) -> FloatArray | float:
    """What kernels take longer where the rest of a prompt attends to a cached prefix   [s], [prompt, candidate]."""
    if not cached_ratio:
        return 0.0
    rest = tokens * (1 - cached_ratio)
    return prefill_s(model, tokens, tokens * cached_ratio) - prefill_s(model, rest, np.zeros(len(rest)))


def first_tokens_s(model: StepModel, tokens: FloatArray, cached_ratio: float) -> FloatArray:
    """First tokens of prompts that each find the engine idle, a share of them cached   [s], [prompt, candidate]."""
    prefix_s = of_prefix_s(model, tokens, cached_ratio)
    scale = model.candidates.engine_constant("prefill_scale_ratio")
    return np.asarray(lone_ttfts_s(model, tokens * (1 - cached_ratio)) + scale * prefix_s)


def first_tokens_beyond_mean_s(
    model: StepModel, mix: RequestMix, tokens: FloatArray, cached_ratio: float
) -> FloatArray:
    """What prompts take longer to a first token than the mixture's mean, alone   [s], [prompt, candidate]."""
    return np.asarray(first_tokens_s(model, tokens, cached_ratio) - lone_ttft_s(model, mix.lengths))


def lone_ttfts_s(model: StepModel, tokens: FloatArray) -> FloatArray:
    """TTFT of prompts that each find the engine idle, [prompt, candidate]."""
    return lone_ttft_s(model, Lengths(tokens[:, None], 1.0), np.ones((len(tokens), len(model.candidates))))


def loads_of_mix(model: StepModel, mix: RequestMix, statistics: Sequence[FloatArray]) -> list[StepLoad]:
    """Steps that the mixture asks for beside those of its mean request, where nothing is cached."""
    if mix.prompts is None:
        return []
    beside = [load for tokens in statistics for load in beside_loads(model, mix, tokens)]
    return [*(each_alone(model, n) for n in (with_mean_prompt(mix, mix.prompts)[0], *statistics)), *beside]
