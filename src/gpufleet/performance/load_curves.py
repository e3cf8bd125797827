"""How every candidate behaves at every load, over one shared grid of batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from gpufleet.domain.architecture import Architecture
from gpufleet.domain.arrays import FloatArray, Floats
from gpufleet.domain.calibration import Calibration
from gpufleet.domain.candidates import Candidates
from gpufleet.domain.estimate import LoadCurves, PromptTimes
from gpufleet.domain.workload import RequestClass, Workload
from gpufleet.performance.arrivals import Met, met_by_arrivals
from gpufleet.performance.latencies import VARIES_BY, between_columns
from gpufleet.performance.queueing import poisson_percentile
from gpufleet.performance.request_mix import (
    loads_of_mix,
    mix_of,
    mixed_prefills_s,
    prompt_times,
    statistic_tokens,
    work_ratio_of,
)
from gpufleet.performance.room import room_wait
from gpufleet.performance.serving import (
    Lengths,
    busy_loads,
    carried_requests_per_s,
    lone_ttft_s,
    most_beside_prompts,
    phases,
    prompts_load,
    request_host_s,
)
from gpufleet.performance.shared_steps import piece_tokens
from gpufleet.performance.step import StepLoad, StepModel

NOT_AT_ALL: Floats = 0.0
LEAST_BATCH, SMALLEST_BATCH, LARGEST_BATCH, GRID_RATIO = 1e-5, 0.1, 2048.0, 1.2


def batch_grid() -> FloatArray:
    """Mean batches from none to speak of, then from one sequence a tenth of the time to 2,048, 20 % apart."""
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
    grid, mix = batch_grid() if grid is None else grid, mix_of(workload)
    batch = np.repeat(grid[:, None], len(model.candidates), axis=1)
    at = phases(model, batch, mix.lengths, by_chance=True)
    prompts, variation = dict[tuple[str, str], PromptTimes](), NOT_AT_ALL
    if mix.prompts is not None:
        prefills_s = mixed_prefills_s(model, mix, mix.prompts)
        at = replace(at, prompt_extra_s=at.prompt_extra_s * work_ratio_of(mix.prompts, prefills_s))
        prompts = prompt_times(model, mix, workload.classes, statistics_of(workload), prefills_s)
        variation = service_variation(workload.classes, prompts)
    rate = within_budget_per_s(model, carried_requests_per_s(model, at, batch, mix.lengths), batch, mix.lengths)
    step_s = np.maximum.accumulate(between_columns(at.decode_step_s.T, grid, grid + 1), axis=1)
    met = met_by_arrivals(model, at, step_s.T, grid[:, None], rate, mix.lengths, variation)
    waits = room_wait(grid, by_candidate(rate), largest_batch, mix.held_squared_variation, mix.answer_variation)
    alone = PromptTimes(lone_ttft_s(model, mix.lengths), request_host_s(model, mix.lengths), 1.0)
    return LoadCurves(
        batch=grid,
        requests_per_s=by_candidate(rate),
        largest_batch=largest_batch,
        step_s=step_s / model.candidates.tokens_per_step[:, None],
        **columns_of(met),
        room_s=waits.wait_s,
        room_ratio=waits.waiting_ratio,
        prompt=alone,
        prompts=prompts,
    )


def within_budget_per_s(model: StepModel, rate: FloatArray, batch: FloatArray, lengths: Lengths) -> FloatArray:
    """What batches carry where steps are cut into pieces: no more than as many as prompts leave room for   [1/s].

    Rows are batches, columns candidates.
    """
    budget = model.once(piece_tokens)
    if budget is None:
        return rate
    most = np.where(np.isfinite(budget), most_beside_prompts(model, lengths), np.inf)
    return np.asarray(np.minimum(rate, np.max(np.where(batch <= most, rate, 0.0), axis=0)))


def columns_of(met: Met) -> dict[str, FloatArray]:
    """What arrivals meet as curves hold it: [candidate, batch], or [batch] where it depends on the batch alone."""
    return {
        "prompt_service_s": by_candidate(met.service_s),
        "prompt_launch_s": by_candidate(met.launch_s),
        "prompt_squared_variation": by_candidate(met.squared_variation),
        "gate_s": by_candidate(met.gate_s),
        "gate_steps": by_candidate(met.gate_steps),
        "own_step_s": by_candidate(met.own_step_s),
        "prompt_load_ratio": by_candidate(met.prompt_load_ratio),
        "queue_s": by_candidate(met.queue_s),
        "queue_ratio": by_candidate(met.queue_ratio),
        "running_ratio": met.running_ratio[:, 0],
        "full_step_s": by_candidate(met.full_step_s),
        "late_s": by_candidate(met.late_s),
        "late_variance": met.late_variance[:, 0],
    }


def statistics_of(workload: Workload) -> list[list[str]]:
    """Percentiles of each class's figures for which its prompts are looked at, and the one that says how they vary."""
    wanted = {(name, statistic) for name, metric, statistic in workload.figures if metric != "tpot"}
    named = [{statistic for name, statistic in wanted if name == c.name} for c in workload.classes]
    return [sorted((names | {VARIES_BY}) - {"mean"}) for names in named]


def service_variation(classes: Sequence[RequestClass], prompts: Mapping[tuple[str, str], PromptTimes]) -> Floats:
    """Squared variation of the time that prompts of all classes take on a busy engine, per candidate   [1].

    sum w m^2 (1 + c^2) - 1   m: a class's mean over that of all, c: what a long prompt of it takes more, over how many
    deviations its length lies beyond the mean. Attention is quadratic; experts are read for few tokens as for many.
    """
    rates = np.array([c.rate_requests_per_s for c in classes])
    squared: Floats = -1.0
    for c, share in zip(classes, rates / rates.sum(), strict=True):
        mean, long = (prompts[c.name, statistic] for statistic in ("mean", VARIES_BY))
        spread = (long.service_ratio - mean.service_ratio) / long.deviations if long.deviations else 0.0
        squared = squared + share * (mean.service_ratio**2 + spread**2)
    return np.maximum(squared, 0.0)


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


def sustained_requests_per_s(curves: LoadCurves) -> FloatArray:
    """The most requests per second that any admissible batch sustains, per candidate."""
    admissible = curves.batch[None, :] <= curves.largest_batch[:, None]
    return np.asarray(np.max(np.where(admissible, curves.requests_per_s, 0.0), axis=1))
