"""Latencies over requests that come by chance: means and percentiles of every candidate at every batch.

TTFT is a prompt's own time, the rest of the step under way, the wait for other prompts and what is seen late. What
follows is the answer's steps, and the prompts that others bring in between. Times add; their percentiles do not: a sum
is known by the mean, the variance and the skewness of its parts (`spread.summed`). Times per token never fall with the
batch; first tokens may: a step of decoding hides launches that a lone prompt waits for.
"""

from __future__ import annotations

import numpy as np

from gpufleet.domain.arrays import FloatArray
from gpufleet.domain.estimate import LoadCurves, PromptTimes
from gpufleet.domain.token_counts import TokenCounts
from gpufleet.performance.queueing import normal_quantile, wait_tail_s
from gpufleet.performance.serving import of_length
from gpufleet.performance.spread import Spread, after_wait, known_at, log_normal, summed

MOST_GROWTH, LEAST_SHARE = 0.8, 1e-12
VARIES_BY = "p95"
"""The prompt by whose time those of a class vary."""


def ttft_s(curves: LoadCurves, quantile: float | None, request_class: str, statistic: str) -> FloatArray:
    """TTFT over the requests of a class at every batch of the grid; no quantile means the mean."""
    if quantile is None:
        return curves.once(mean_first_token_s, request_class)
    return curves.once(first_token_spread, quantile, request_class, statistic).at_s(quantile)


def tpot_s(curves: LoadCurves, quantile: float | None, answers: TokenCounts) -> FloatArray:
    """TPOT over requests, each the mean of its own answer, at every batch; no quantile means the mean."""
    if quantile is None:
        return rising(curves.once(mean_token_s, answers))
    parts = [curves.once(step_spread, quantile), prompts_met_spread(curves, quantile, answers)]
    return rising(np.minimum(summed(parts).at_s(quantile), curves.full_step_s))


def latency_s(
    curves: LoadCurves, quantile: float | None, request_class: str, statistic: str, answers: TokenCounts
) -> FloatArray:
    """From arrival to the last token over the requests of a class, at every batch; no quantile means the mean."""
    if quantile is None:
        first_s = curves.once(mean_first_token_s, request_class)
        return np.asarray(first_s + curves.once(mean_later_s, answers))
    first = curves.once(first_token_spread, quantile, request_class, statistic)
    later = [answer_spread(curves, quantile, statistic, answers), chance_spread(curves, quantile, answers)]
    return summed([first, *later]).at_s(quantile)


def rising(seconds: FloatArray) -> FloatArray:
    """Times that no larger batch makes shorter."""
    return np.maximum.accumulate(seconds, axis=1)


def mean_first_token_s(curves: LoadCurves, request_class: str) -> FloatArray:
    """TTFT of a class on average: its prompt, what it waits for, what is seen late   [s]."""
    waits_s = curves.once(others_first_s) + curves.late_s + curves.room_s
    return np.asarray(curves.once(mean_prompt_s, request_class) + waits_s)


def mean_prompt_s(curves: LoadCurves, request_class: str) -> FloatArray:
    """A class's mean prompt alone and on a busy engine, as often as it finds either   [s]."""
    return own_prompt_s(curves, curves.prompts.get((request_class, "mean"), curves.prompt))


def own_prompt_s(curves: LoadCurves, prompt: PromptTimes) -> FloatArray:
    """A prompt's own time: alone where nothing runs, else in a step of the busy engine   [s]."""
    ratio, running = np.asarray(prompt.service_ratio).reshape(-1, 1), curves.running_ratio
    busy_s = curves.own_step_s + of_length(curves.prompt_service_s, curves.prompt_launch_s, ratio)
    lone_s = np.outer(prompt.lone_s, 1 - running) + np.outer(prompt.host_s, running)
    return np.asarray(lone_s + busy_s * running)


def others_first_s(curves: LoadCurves) -> FloatArray:
    """Mean time until a request's own step begins: what is left of the step under way, and the queue   [s]."""
    return np.asarray(curves.running_ratio * curves.gate_steps * curves.gate_s + curves.queue_s)


def whole_step_s(curves: LoadCurves) -> FloatArray:
    """A step of a busy engine, with the prompts that come in as long a time: t / (1 - rho)   [s]."""
    return np.asarray(curves.step_s * curves.once(between_prompts))


def first_token_spread(curves: LoadCurves, quantile: float, request_class: str, statistic: str) -> Spread:
    """TTFT over the requests of a class."""
    own = own_prompt_spread(curves, quantile, request_class, statistic)
    waits = [curves.once(under_way_spread, quantile), curves.once(queue_spread, quantile)]
    once_in = summed([own, *waits, Spread(curves.late_s, curves.late_variance)])
    return after_wait(once_in, curves.room_s, curves.room_ratio, quantile)


def own_prompt_spread(curves: LoadCurves, quantile: float, request_class: str, statistic: str) -> Spread:
    """A prompt's own time over those of a class: it varies as the time of a long one says."""
    mean_s = curves.once(mean_prompt_s, request_class)
    long = curves.prompts.get((request_class, VARIES_BY))
    if long is None or not long.deviations:
        return Spread(mean_s, 0.0)
    long_s = curves.once(own_prompt_s, long)
    at_s = long_s if statistic == VARIES_BY else own_prompt_s(curves, curves.prompts[request_class, statistic])
    return known_at(at_s, mean_s, np.abs(long_s - mean_s) / long.deviations, quantile)


def under_way_spread(curves: LoadCurves, quantile: float) -> Spread:
    """The rest of the step under way, uniform where one is, and the prompts that come in it: `others_first_s`."""
    running, whole_s = curves.running_ratio, curves.gate_s
    at, deviation = np.maximum(1 - (1 - quantile) / running, 0.0), np.sqrt(running / 3 - running**2 / 4)
    rest = known_at(at, running / 2, deviation, quantile)
    mean_s = curves.once(others_first_s) - curves.queue_s
    return Spread(mean_s, rest.variance * whole_s**2, rest.beyond_s * whole_s)


def queue_spread(curves: LoadCurves, quantile: float) -> Spread:
    """The wait for prompts, with an exponential tail: variance W^2 (2 / p - 1), p: share that waits."""
    wait_s, share = curves.queue_s, np.maximum(curves.queue_ratio, LEAST_SHARE)
    return known_at(wait_tail_s(quantile, wait_s, share), wait_s, wait_s * np.sqrt(2 / share - 1), quantile)


def since_arrival_s(curves: LoadCurves) -> FloatArray:
    """Mean time that a request is in the engine before its first token; others' prompts come meanwhile   [s]."""
    return np.asarray(curves.once(others_first_s) + curves.own_step_s + curves.prompt_service_s)


def between_prompts(curves: LoadCurves) -> FloatArray:
    """How many times as long decoding takes for the prompts that come meanwhile: 1 / (1 - rho)   [1].

    They let others come in turn: a delay busy period. Source: kleinrock-1975
    """
    return np.asarray(1 / (1 - curves.prompt_load_ratio))


def mean_token_s(curves: LoadCurves, answers: TokenCounts) -> FloatArray:
    """Time per token over requests: decode steps, prompts that came before the first token and those since   [s].

    (t + rho G E[1 / (output - 1)]) / (1 - rho)   G: `since_arrival_s`, rho: `prompt_load_ratio`
    """
    before_s = curves.prompt_load_ratio * curves.once(since_arrival_s)
    token_s = (curves.step_s + steps_ratio(answers, 1) * before_s) * curves.once(between_prompts)
    return np.minimum(token_s, curves.full_step_s)


def steps_ratio(answers: TokenCounts, power: int) -> float:
    """Mean of 1 / (output - 1)^power over answers: short ones have few tokens over which a delay is spread   [1].

    >>> steps_ratio(TokenCounts(101.0), 1)
    0.01
    """
    steps = [max(tokens - 1, 1.0) for tokens in answers.equal_parts]
    return sum(n**-power for n in steps) / len(steps)


def prompts_met_spread(curves: LoadCurves, quantile: float, answers: TokenCounts) -> Spread:
    """What others' prompts add to each token of an answer, as a log-normal time.

    variance: rho v (t h_1 / (1 - rho)^3 + (rho E[G^2] / v + G) h_2 / (1 - rho)^2) - (rho G h_1 / (1 - rho))^2   [s^2]
    v = S (1 + c^2); h_k: `steps_ratio`; E[G^2] = G^2 + W^2 + S (v - S), W waits. A delay busy period over t seconds of
    decoding varies by rate E[S^2] t / (1 - rho)^3. Source: kleinrock-1975
    """
    load, service_s, longer = curves.prompt_load_ratio, curves.prompt_service_s, curves.once(between_prompts)
    varied_s = service_s * (1 + curves.prompt_squared_variation)
    since_s, once, twice = curves.once(since_arrival_s), steps_ratio(answers, 1), steps_ratio(answers, 2)
    squared = since_s**2 + curves.queue_s**2 + service_s * (varied_s - service_s)
    met = load * longer
    variance = met * longer * (once * varied_s * curves.step_s * longer + twice * (load * squared + since_s * varied_s))
    variance -= (met * once * since_s) ** 2
    mean_s = curves.once(mean_token_s, answers) - curves.step_s
    return log_normal(mean_s, np.maximum(variance, 0.0), quantile)


def step_spread(curves: LoadCurves, quantile: float) -> Spread:
    """A decode step over requests: the batch that each finds is a Poisson count, and more.

    Slower steps keep requests longer: where t grows by e with B, in logarithms, the count varies by B / (1 - e).
    """
    batch, step_s, sequences = curves.batch, curves.step_s, np.sqrt(curves.batch)
    deviation_s = between_columns(step_s, batch, batch + sequences) - step_s
    wider = 1 / np.sqrt(1 - np.minimum(deviation_s * sequences / step_s, MOST_GROWTH))
    crowd = np.maximum(batch + normal_quantile(quantile) * sequences, batch[0])
    at_s = step_s + wider * (between_columns(step_s, batch, crowd) - step_s)
    return known_at(at_s, step_s, wider * deviation_s, quantile)


def mean_later_s(curves: LoadCurves, answers: TokenCounts) -> FloatArray:
    """From the first token to the last, on average over answers: (t (output - 1) + rho G) / (1 - rho)   [s]."""
    steps = max(answers.mean - 1, 0.0)
    before_s = min(steps, 1.0) * curves.prompt_load_ratio * curves.once(since_arrival_s)
    later_s = (steps * curves.step_s + before_s) * curves.once(between_prompts)
    return np.minimum(later_s, steps * curves.full_step_s) if steps else later_s


def answer_spread(curves: LoadCurves, quantile: float, statistic: str, answers: TokenCounts) -> Spread:
    """The time of answers of several lengths, where all steps are as on average."""
    per_token_s = curves.once(whole_step_s)
    tokens = known_at(answers.at(statistic), answers.mean, answers.mean * answers.squared_variation**0.5, quantile)
    later_s, beyond_s = curves.once(mean_later_s, answers), tokens.beyond_s * per_token_s
    return Spread(later_s, tokens.variance * per_token_s**2, beyond_s)


def chance_spread(curves: LoadCurves, quantile: float, answers: TokenCounts) -> Spread:
    """What the steps of one answer of mean length take more or less than on average: crowds and prompts."""
    steps, longer = max(answers.mean - 1, 0.0), curves.once(between_prompts)
    varied_s = steps * (1 + curves.prompt_squared_variation) * curves.prompt_service_s
    prompts = curves.prompt_load_ratio * varied_s * curves.step_s * longer
    return Spread(0.0, longer**2 * (prompts + curves.once(step_spread, quantile).variance * steps**2))


def between_columns(values: FloatArray, batch: FloatArray, at_batch: FloatArray) -> FloatArray:
    """Values [candidate, batch] at other batches, straight between columns; the ends hold beyond them."""
    position = np.interp(at_batch, batch, np.arange(len(batch)))
    below = np.minimum(position.astype(np.int64), max(len(batch) - 2, 0))
    above, share = np.minimum(below + 1, len(batch) - 1), position - below
    return np.asarray(values[:, below] * (1 - share) + values[:, above] * share)
