"""Latency percentiles of every candidate at every load, over one shared grid of batches."""

from __future__ import annotations

import numpy as np

from gpufleet.domain.architecture import Architecture
from gpufleet.domain.arrays import FloatArray, Floats
from gpufleet.domain.calibration import Calibration
from gpufleet.domain.candidates import Candidates
from gpufleet.domain.estimate import LoadCurves
from gpufleet.performance.queueing import poisson_percentile
from gpufleet.performance.serving import (
    Lengths,
    carried_requests_per_s,
    idle_ttft_s,
    lone_ttft_s,
    phases,
    prompt_service_s,
    tpot_s,
    ttft_percentile_s,
)
from gpufleet.performance.step import StepModel

SMALLEST_BATCH, LARGEST_BATCH, GRID_RATIO = 0.1, 2048.0, 1.2


def batch_grid() -> FloatArray:
    """Mean batches from one sequence a tenth of the time to 2,048, 20 % apart."""
    steps = int(np.ceil(np.log(LARGEST_BATCH / SMALLEST_BATCH) / np.log(GRID_RATIO)))
    return np.asarray(np.geomspace(SMALLEST_BATCH, LARGEST_BATCH, steps + 1))


def load_curves(
    arch: Architecture, candidates: Candidates, calibration: Calibration, lengths: Lengths, largest_batch: FloatArray
) -> LoadCurves:
    """Every candidate at every batch of the grid: `len(candidates)` x `len(batch_grid())` configurations."""
    grid = batch_grid()
    batch = np.repeat(grid[:, None], len(candidates), axis=1)
    model = StepModel.build(arch, candidates, calibration)
    at = phases(model, batch, lengths)
    per_token = tpot_s(model, at, batch, lengths)
    service_s = prompt_service_s(model, at)
    rate = carried_requests_per_s(model, batch, service_s, per_token, lengths)
    return LoadCurves(
        batch=grid,
        idle_ttft_s=by_candidate(idle_ttft_s(model, at, lone_ttft_s(model, lengths))),
        prompt_service_s=by_candidate(service_s),
        tpot_s=np.maximum.accumulate(by_candidate(per_token), axis=1),
        requests_per_s=by_candidate(rate),
        largest_batch=largest_batch,
    )


def by_candidate(figure: FloatArray) -> FloatArray:
    """[batch, candidate] turned into [candidate, batch]."""
    return np.ascontiguousarray(figure.T)


def crowded_batch(batch: FloatArray, quantile: float) -> FloatArray:
    """The batch that a share `quantile` of arrivals finds at most, when `batch` decode on average."""
    return np.maximum(poisson_percentile(quantile, batch), batch)


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


def ttft_percentiles_s(curves: LoadCurves, groups: Floats, quantile: float | None) -> FloatArray:
    """TTFT at the percentile over requests, at every batch of the grid; None means the mean."""
    return ttft_percentile_s(curves.idle_ttft_s, curves.prompt_service_s, curves.requests_per_s, groups, quantile)


def latency_percentile_s(curves: LoadCurves, groups: Floats, lengths: Lengths, quantile: float | None) -> FloatArray:
    """End-to-end latency: TTFT and TPOT at the same percentile, which is an upper bound for requests of one length."""
    decode_s = (lengths.output_tokens - 1) * tpot_percentile_s(curves, quantile)
    return np.asarray(ttft_percentiles_s(curves, groups, quantile) + decode_s)


def sustained_requests_per_s(curves: LoadCurves) -> FloatArray:
    """The most requests per second that any admissible batch sustains, per candidate."""
    admissible = curves.batch[None, :] <= curves.largest_batch[:, None]
    return np.asarray(np.max(np.where(admissible, curves.requests_per_s, 0.0), axis=1))
