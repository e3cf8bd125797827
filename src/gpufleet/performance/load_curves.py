"""Latency percentiles of every candidate at every load, over one shared grid of batches."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gpufleet.domain.architecture import Architecture
from gpufleet.domain.arrays import FloatArray, Floats
from gpufleet.domain.calibration import Calibration
from gpufleet.domain.candidates import Candidates
from gpufleet.domain.estimate import LoadCurves, PromptTimes
from gpufleet.domain.token_counts import TokenCounts
from gpufleet.domain.workload import Workload
from gpufleet.performance.arrivals import finds_others, met_by_arrivals
from gpufleet.performance.queueing import normal_quantile, poisson_percentile, wait_tail_s
from gpufleet.performance.request_mix import (
    loads_of_mix,
    mix_of,
    mixed_prefills_s,
    prompt_times,
    statistic_tokens,
    work_ratio_of,
)
from gpufleet.performance.serving import (
    busy_loads,
    carried_requests_per_s,
    lone_ttft_s,
    phases,
    prompts_load,
    request_host_s,
)
from gpufleet.performance.spread import Spread, constant, log_normal, normal, summed
from gpufleet.performance.step import StepLoad, StepModel

LEAST_BATCH, SMALLEST_BATCH, LARGEST_BATCH, GRID_RATIO = 0.001, 0.1, 2048.0, 1.2
MOST_GROWTH, LEAST_SHARE = 0.8, 1e-12
VARIES_BY = "p95"
"""The prompt by whose time those of a class vary."""


def batch_grid() -> FloatArray:
    """Mean batches from next to none, then from one sequence a tenth of the time to 2,048, 20 % apart."""
    steps = int(np.ceil(np.log(LARGEST_BATCH / SMALLEST_BATCH) / np.log(GRID_RATIO)))
    return np.concatenate([[LEAST_BATCH], np.geomspace(SMALLEST_BATCH, LARGEST_BATCH, steps + 1)])


def load_curves(
    arch: Architecture, candidates: Candidates, calibration: Calibration, workload: Workload, largest_batch: FloatArray
) -> LoadCurves:
    """Every candidate at every batch of the grid: `len(candidates)` x `len(batch_grid())` configurations."""
    return load_curves_of(StepModel.build(arch, candidates, calibration), workload, largest_batch)


def load_curves_of(
    model: StepModel, workload: Workload, largest_batch: FloatArray, grid: FloatArray | None = None
) -> LoadCurves:
    """The same of candidates whose kernels are gathered already, over another grid if one is given."""
    grid, mix, candidates = batch_grid() if grid is None else grid, mix_of(workload), model.candidates
    lengths, variation = mix.lengths, mix.prompt_squared_variation
    batch = np.repeat(grid[:, None], len(candidates), axis=1)
    at, prompts = phases(model, batch, lengths), dict[tuple[str, str], PromptTimes]()
    if mix.prompts is not None:
        prefills_s = mixed_prefills_s(model, mix, mix.prompts)
        at = replace(at, prompt_extra_s=at.prompt_extra_s * work_ratio_of(mix.prompts, prefills_s))
        prompts = prompt_times(model, mix, workload.classes, statistics_of(workload), prefills_s)
    rate = carried_requests_per_s(model, at, batch, lengths)
    step_s = np.maximum.accumulate(between_columns(at.decode_step_s.T, grid, grid + 1), axis=1)
    met = met_by_arrivals(model, at, step_s.T, grid[:, None], rate, lengths, variation)
    host_s = request_host_s(model, lengths)
    return LoadCurves(
        batch=grid,
        requests_per_s=by_candidate(rate),
        largest_batch=largest_batch,
        step_s=step_s,
        prompt_service_s=by_candidate(met.service_s),
        own_step_s=by_candidate(met.own_step_s),
        prompt_load_ratio=by_candidate(met.prompt_load_ratio),
        queue_s=by_candidate(met.queue_s),
        queue_ratio=by_candidate(met.queue_ratio),
        late_s=by_candidate(met.late_s),
        late_variance=met.late_variance[:, 0],
        prompt=PromptTimes(lone_ttft_s(model, lengths), host_s, 1.0),
        prompt_squared_variation=variation,
        prompts=prompts,
    )


def statistics_of(workload: Workload) -> list[list[str]]:
    """Percentiles of each class's figures for which its prompts are looked at, and the one that says how they vary."""
    wanted = {(name, statistic) for name, metric, statistic in workload.figures if metric != "tpot"}
    wanted = {each for each in wanted if each[1] != "mean"}
    wanted |= {(name, VARIES_BY) for name, _ in wanted}
    return [sorted(statistic for name, statistic in wanted if name == c.name) for c in workload.classes]


def loads_of_curves(model: StepModel, workload: Workload) -> list[StepLoad]:
    """The steps that `load_curves_of` asks for, where no prefix is cached."""
    mix, ones = mix_of(workload), np.ones(len(model.candidates))
    batch = np.repeat(batch_grid()[:, None], len(ones), axis=1)
    tokens = statistic_tokens(workload.classes, statistics_of(workload))
    return [*busy_loads(model, batch, mix.lengths), prompts_load(ones, mix.lengths), *loads_of_mix(model, mix, tokens)]


def by_candidate(figure: FloatArray) -> FloatArray:
    """[batch, candidate] turned into [candidate, batch]."""
    return np.ascontiguousarray(figure.T)


def crowded_batch(batch: FloatArray, quantile: float, squared_variation: float = 0.0) -> FloatArray:
    """The batch that a share `quantile` of arrivals finds at most, when `batch` decode on average.

    B + z sqrt(B (1 + c^2))   [sequences of mean size]   c^2: of what a sequence holds (a compound Poisson sum).
    """
    crowd = poisson_percentile(quantile, batch)
    return np.asarray(np.maximum(batch + (crowd - batch) * np.sqrt(1 + squared_variation), batch))


def between_columns(values: FloatArray, batch: FloatArray, at_batch: FloatArray) -> FloatArray:
    """Values [candidate, batch] at other batches, interpolated over the grid's logarithm; its ends hold beyond it."""
    position = np.interp(np.log(at_batch), np.log(batch), np.arange(len(batch)))
    below = np.minimum(position.astype(np.int64), max(len(batch) - 2, 0))
    share = position - below
    above = np.minimum(below + 1, len(batch) - 1)
    return np.asarray(values[:, below] * (1 - share) + values[:, above] * share)


def step_spread(curves: LoadCurves, quantile: float) -> Spread:
    """A decode step over requests: the batch that each finds is a Poisson count, and more.

    Slower steps keep requests longer: where t grows by e with B, in logarithms, the count varies by B / (1 - e).
    """
    batch, step_s = curves.batch, curves.step_s
    deviation_s = between_columns(step_s, batch, batch + 1 + np.sqrt(batch)) - step_s
    growth = np.minimum(deviation_s * np.sqrt(batch) / step_s, MOST_GROWTH)
    wider = 1 / np.sqrt(1 - growth)
    crowd = np.maximum(batch + 1 + normal_quantile(quantile) * np.sqrt(batch), 1.0)
    beyond_s = between_columns(step_s, batch, crowd) - step_s
    return Spread(step_s, (wider * deviation_s) ** 2, step_s + wider * beyond_s)


def mean_first_token_s(curves: LoadCurves, prompt: PromptTimes) -> FloatArray:
    """TTFT of a prompt at every batch, on average over what it meets   [s]."""
    return np.asarray(own_prompt_s(curves, prompt) + others_first_s(curves) + curves.late_s)


def own_prompt_s(curves: LoadCurves, prompt: PromptTimes) -> FloatArray:
    """A prompt's own time: alone where nothing runs, else in a step of the busy engine   [s]."""
    running = finds_others(curves.batch)
    busy_s = prompt.host_s[:, None] + curves.own_step_s + curves.prompt_service_s * column(prompt.service_ratio)
    return np.asarray(prompt.lone_s[:, None] * (1 - running) + busy_s * running)


def others_first_s(curves: LoadCurves) -> FloatArray:
    """Mean time until a request's own step begins: the rest of the one under way, and prompts   [s]."""
    return np.asarray(finds_others(curves.batch) / 2 * curves.step_s + curves.queue_s)


def first_token_spread(curves: LoadCurves, key: tuple[str, str], quantile: float) -> Spread:
    """TTFT over the requests of a class, of (class, statistic), at every batch."""
    parts = [own_prompt_spread(curves, key), under_way_spread(curves, quantile), queue_spread(curves, quantile)]
    return summed([*parts, normal(curves.late_s, curves.late_variance, quantile)], quantile)


def own_prompt_spread(curves: LoadCurves, key: tuple[str, str]) -> Spread:
    """A prompt's own time over those of a class: it varies as the time of a long one says."""
    mean_s = own_prompt_s(curves, curves.prompts.get((key[0], "mean"), curves.prompt))
    long = curves.prompts.get((key[0], VARIES_BY))
    if long is None or not long.deviations:
        return constant(mean_s)
    long_s = own_prompt_s(curves, long)
    at_s = long_s if key[1] == VARIES_BY else own_prompt_s(curves, curves.prompts[key])
    return Spread(mean_s, ((long_s - mean_s) / long.deviations) ** 2, at_s)


def under_way_spread(curves: LoadCurves, quantile: float) -> Spread:
    """The rest of the step under way: none where nothing runs, else uniform."""
    running = finds_others(curves.batch)
    at = np.maximum(1 - (1 - quantile) / running, 0.0)
    variance = running / 3 - running**2 / 4
    return Spread(running / 2 * curves.step_s, variance * curves.step_s**2, at * curves.step_s)


def queue_spread(curves: LoadCurves, quantile: float) -> Spread:
    """The wait for prompts, with an exponential tail: variance W^2 (2 / p - 1), p: share that waits."""
    wait_s, share = curves.queue_s, np.maximum(curves.queue_ratio, LEAST_SHARE)
    return Spread(wait_s, wait_s**2 * (2 / share - 1), wait_tail_s(quantile, wait_s, share))


def ttft_percentiles_s(curves: LoadCurves, quantile: float | None, key: tuple[str, str] = ("", "")) -> FloatArray:
    """TTFT over requests at every batch of the grid, of (class, statistic); None means the mean."""
    if quantile is None:
        prompt = curves.prompts.get((key[0], "mean"), curves.prompt)
        return np.maximum.accumulate(mean_first_token_s(curves, prompt), axis=1)
    return np.maximum.accumulate(first_token_spread(curves, key, quantile).at_s, axis=1)


def since_arrival_s(curves: LoadCurves) -> FloatArray:
    """Mean time that a request is in the engine before its first token: others' prompts come meanwhile   [s]."""
    return np.asarray(others_first_s(curves) + curves.own_step_s + curves.prompt_service_s)


def mean_tpot_s(curves: LoadCurves, answers: TokenCounts) -> FloatArray:
    """Time per token over requests: decode steps, prompts that came before the first token and those since   [s].

    (t + rho G E[1 / (output - 1)]) / (1 - rho)   G: `since_arrival_s`, rho: `prompt_load_ratio`
    Whatever delays decoding lets rho as much of prompts come in. Source: kleinrock-1975, delay busy period
    """
    load, once = curves.prompt_load_ratio, steps_ratio(answers, 1)
    return np.asarray((curves.step_s + load * once * since_arrival_s(curves)) / (1 - load))


def steps_ratio(answers: TokenCounts, power: int) -> float:
    """Mean of 1 / (output - 1)^power over answers: short ones have few tokens over which a delay is spread   [1].

    >>> steps_ratio(TokenCounts(101.0), 1)
    0.01
    """
    steps = np.maximum(np.array(answers.equal_parts) - 1, 1.0)
    return float(np.mean(steps**-power))


def prompts_met_spread(curves: LoadCurves, answers: TokenCounts, quantile: float) -> Spread:
    """What prompts of others add to each token of an answer: a delay busy period over its steps, log-normal.

    variance: rho v (t h_1 / (1 - rho)^3 + (rho E[G^2] / v + G) h_2 / (1 - rho)^2) - (rho G h_1 / (1 - rho))^2   [s^2]
    v = S (1 + c^2); h_k: `steps_ratio`. Of prompts that a decode time t lets come, the time has the variance
    rate E[S^2] t / (1 - rho)^3. Source: kleinrock-1975
    """
    load, service_s = curves.prompt_load_ratio, curves.prompt_service_s
    spare, varied_s = 1 - load, service_s * (1 + curves.prompt_squared_variation)
    since_s, once, twice = since_arrival_s(curves), steps_ratio(answers, 1), steps_ratio(answers, 2)
    squared = since_s**2 + curves.queue_s**2 + service_s * (varied_s - service_s)
    before_s = load * once / spare * since_s
    met = load / spare**2 * (varied_s * curves.step_s * once / spare + (load * squared + since_s * varied_s) * twice)
    mean_s = mean_tpot_s(curves, answers) - curves.step_s
    return log_normal(mean_s, np.maximum(met - before_s**2, 0.0), quantile)


def tpot_percentile_s(curves: LoadCurves, quantile: float | None, answers: TokenCounts) -> FloatArray:
    """TPOT over requests, each the mean of its own answer, at every batch of the grid; None means the mean."""
    if quantile is None:
        return np.maximum.accumulate(mean_tpot_s(curves, answers), axis=1)
    parts = [step_spread(curves, quantile), prompts_met_spread(curves, answers, quantile)]
    return np.maximum.accumulate(summed(parts, quantile).at_s, axis=1)


def mean_later_s(curves: LoadCurves, answers: TokenCounts) -> FloatArray:
    """From the first token to the last, on average over answers: (t (output - 1) + rho G) / (1 - rho)   [s]."""
    load, steps = curves.prompt_load_ratio, max(answers.mean - 1, 0.0)
    before_s = load * min(steps, 1.0) * since_arrival_s(curves)
    return np.asarray((steps * curves.step_s + before_s) / (1 - load))


def latency_percentile_s(
    curves: LoadCurves, quantile: float | None, key: tuple[str, str], answers: TokenCounts
) -> FloatArray:
    """From arrival to the last token over requests, at every batch of the grid; None means the mean.

    The sum of the first token, the answer's own length and what its steps meet: percentiles do not add, times do.
    """
    if quantile is None:
        return np.maximum.accumulate(ttft_percentiles_s(curves, None, key) + mean_later_s(curves, answers), axis=1)
    parts = [first_token_spread(curves, key, quantile), answer_spread(curves, answers, key[1])]
    return np.maximum.accumulate(summed([*parts, chance_spread(curves, answers, quantile)], quantile).at_s, axis=1)


def answer_spread(curves: LoadCurves, answers: TokenCounts, statistic: str) -> Spread:
    """The time of answers of several lengths, where all steps are as on average."""
    per_token_s = curves.step_s / (1 - curves.prompt_load_ratio)
    deviation_s = per_token_s * (answers.mean * np.sqrt(answers.squared_variation))
    later_s = mean_later_s(curves, answers)
    return Spread(later_s, deviation_s**2, later_s + (answers.at(statistic) - answers.mean) * per_token_s)


def chance_spread(curves: LoadCurves, answers: TokenCounts, quantile: float) -> Spread:
    """What the steps of one answer of mean length take more or less than on average: crowds and prompts."""
    load, steps = curves.prompt_load_ratio, max(answers.mean - 1, 0.0)
    spare, varied_s = 1 - load, curves.prompt_service_s * (1 + curves.prompt_squared_variation)
    prompts = steps * load * varied_s * curves.step_s / spare**3
    crowds = step_spread(curves, quantile).variance * (steps / spare) ** 2
    return normal(0.0, prompts + crowds, quantile)


def column(values: Floats) -> Floats:
    """A figure of each candidate as a column; one of all as it is."""
    return values[:, None] if isinstance(values, np.ndarray) else values


def sustained_requests_per_s(curves: LoadCurves) -> FloatArray:
    """The most requests per second that any admissible batch sustains, per candidate."""
    admissible = curves.batch[None, :] <= curves.largest_batch[:, None]
    return np.asarray(np.max(np.where(admissible, curves.requests_per_s, 0.0), axis=1))
