"""Latency percentiles of every candidate at every load, over one shared grid of batches."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gpufleet.domain.architecture import Architecture
from gpufleet.domain.arrays import FloatArray, Floats
from gpufleet.domain.calibration import Calibration
from gpufleet.domain.candidates import Candidates
from gpufleet.domain.estimate import LoadCurves
from gpufleet.domain.workload import RequestClass, Workload
from gpufleet.performance.queueing import mean_wait_s, poisson_percentile, wait_percentile_s
from gpufleet.performance.request_mix import (
    RequestMix,
    first_tokens_beyond_mean_s,
    loads_of_mix,
    mix_of,
    prompt_work_ratio,
)
from gpufleet.performance.serving import (
    busy_loads,
    carried_requests_per_s,
    idle_ttft_s,
    lone_ttft_s,
    phases,
    prompt_service_s,
    prompts_load,
    tpot_s,
)
from gpufleet.performance.step import StepLoad, StepModel

LEAST_BATCH, SMALLEST_BATCH, LARGEST_BATCH, GRID_RATIO = 0.001, 0.1, 2048.0, 1.2


def batch_grid() -> FloatArray:
    """Mean batches from next to none, then from one sequence a tenth of the time to 2,048, 20 % apart."""
    steps = int(np.ceil(np.log(LARGEST_BATCH / SMALLEST_BATCH) / np.log(GRID_RATIO)))
    return np.concatenate([[LEAST_BATCH], np.geomspace(SMALLEST_BATCH, LARGEST_BATCH, steps + 1)])


def load_curves(
    arch: Architecture, candidates: Candidates, calibration: Calibration, workload: Workload, largest_batch: FloatArray
) -> LoadCurves:
    """Every candidate at every batch of the grid: `len(candidates)` x `len(batch_grid())` configurations."""
    return load_curves_of(StepModel.build(arch, candidates, calibration), workload, largest_batch)


def load_curves_of(model: StepModel, workload: Workload, largest_batch: FloatArray) -> LoadCurves:
    """The same of candidates whose kernels are gathered already."""
    grid, mix, candidates = batch_grid(), mix_of(workload), model.candidates
    lengths = mix.lengths
    batch = np.repeat(grid[:, None], len(candidates), axis=1)
    at = phases(model, batch, lengths)
    if mix.prompts is not None:
        at = replace(at, prompt_extra_s=at.prompt_extra_s * prompt_work_ratio(model, mix))
    per_token = tpot_s(model, at, batch, lengths)
    rate = carried_requests_per_s(model, at, batch, lengths)
    return LoadCurves(
        batch=grid,
        idle_ttft_s=by_candidate(idle_ttft_s(model, at, lone_ttft_s(model, lengths), batch / candidates.attention_dp)),
        prompt_service_s=by_candidate(prompt_service_s(model, at)),
        tpot_s=np.maximum.accumulate(by_candidate(per_token), axis=1),
        requests_per_s=by_candidate(rate),
        largest_batch=largest_batch,
        prompt_squared_variation=mix.prompt_squared_variation,
        beyond_mean_s=beyond_mean_s(model, mix, workload),
    )


def beyond_mean_s(model: StepModel, mix: RequestMix, workload: Workload) -> dict[tuple[str, str], FloatArray]:
    """How much later than the mean prompt's first token that of each figure's class and percentile comes   [s]."""
    found: dict[tuple[str, str], FloatArray] = {}
    for c, statistics, tokens in percentile_prompts(mix, workload):
        rows = first_tokens_beyond_mean_s(model, mix, tokens, c.cached_ratio)
        found.update(zip(((c.name, statistic) for statistic in statistics), rows, strict=True))
    return found


def percentile_prompts(mix: RequestMix, workload: Workload) -> list[tuple[RequestClass, list[str], FloatArray]]:
    """Prompts of each class at the statistics of its figures, where prompts differ."""
    if mix.prompts is None:
        return []
    wanted = {(name, statistic) for name, metric, statistic in workload.figures if metric != "tpot"}
    asked = [(c, sorted(statistic for name, statistic in wanted if name == c.name)) for c in workload.classes]
    return [(c, names, np.array([c.input_tokens.at(name) for name in names])) for c, names in asked]


def loads_of_curves(model: StepModel, workload: Workload) -> list[StepLoad]:
    """The steps that `load_curves_of` asks for, where no prefix is cached."""
    mix, ones = mix_of(workload), np.ones(len(model.candidates))
    batch = np.repeat(batch_grid()[:, None], len(ones), axis=1)
    tokens = [tokens for _, _, tokens in percentile_prompts(mix, workload)]
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


def tpot_percentile_s(curves: LoadCurves, quantile: float | None) -> FloatArray:
    """TPOT at the percentile of the batch, interpolated over the grid; None means the mean."""
    if quantile is None:
        return curves.tpot_s
    position = np.interp(
        np.log(crowded_batch(curves.batch, quantile)), np.log(curves.batch), np.arange(len(curves.batch))
    )
    below = np.minimum(position.astype(np.int64), len(curves.batch) - 2)
    share = position - below
    return np.asarray(curves.tpot_s[:, below] * (1 - share) + curves.tpot_s[:, below + 1] * share)


def ttft_percentiles_s(
    curves: LoadCurves, groups: Floats, quantile: float | None, beyond_s: FloatArray | None = None
) -> FloatArray:
    """TTFT at the percentile over requests, at every batch of the grid; None means the mean.

    the class's prompt at that percentile, alone + M/G/1 wait for others' prompts at it   [s]
    An upper bound from p90 on. Medians do not add up: where prompts differ, the wait is never below its mean.
    """
    load = curves.requests_per_s / groups * curves.prompt_service_s
    service_s, variation = curves.prompt_service_s, curves.prompt_squared_variation
    wait_s = mean_wait_s(load, service_s, variation)
    if quantile is not None:
        least_s = wait_s if variation else 0.0
        wait_s = np.maximum(wait_percentile_s(quantile, load, service_s, variation), least_s)
    alone_s = curves.idle_ttft_s if beyond_s is None else curves.idle_ttft_s + beyond_s[:, None]
    return np.asarray(alone_s + wait_s)


def latency_percentile_s(ttft_s: FloatArray, tpot_s: FloatArray, output_tokens: float) -> FloatArray:
    """End-to-end latency: TTFT, TPOT and the answer at the same percentile, which is an upper bound.

    TTFT + max(output_tokens - 1, 0) TPOT   [s]
    """
    return np.asarray(ttft_s + max(output_tokens - 1, 0.0) * tpot_s)


def sustained_requests_per_s(curves: LoadCurves) -> FloatArray:
    """The most requests per second that any admissible batch sustains, per candidate."""
    admissible = curves.batch[None, :] <= curves.largest_batch[:, None]
    return np.asarray(np.max(np.where(admissible, curves.requests_per_s, 0.0), axis=1))
