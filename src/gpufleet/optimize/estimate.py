"""One configuration under one load: the equations of the plan for a single candidate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpufleet.domain.architecture import Architecture
from gpufleet.domain.arrays import FloatArray
from gpufleet.domain.calibration import Calibration
from gpufleet.domain.candidates import Candidates
from gpufleet.errors import DataMissing, Infeasible
from gpufleet.memory.fit import MemoryBudget
from gpufleet.optimize.replicas import room
from gpufleet.performance.serving import (
    HIGHEST_LOAD_RATIO,
    Client,
    Lengths,
    Phases,
    Serving,
    closed_loop,
    cycle_s,
    full_queue,
    idle_ttft_s,
    lone_ttft_s,
    phases,
    prompt_service_s,
    static_batch,
    tpot_s,
    ttft_percentile_s,
)
from gpufleet.performance.step import StepLoad, StepModel
from gpufleet.units import GIB

FIXED_POINT_STEPS = 60


@dataclass(frozen=True)
class Load:
    """closed_loop (clients), open_loop (requests per second), static_batch (sequences) or full_queue."""

    scenario: str
    amount: float


@dataclass(frozen=True)
class EstimateQuestion:
    """A model on one candidate, the lengths of its requests, the load and the client."""

    arch: Architecture
    candidates: Candidates
    lengths: Lengths
    load: Load
    client: Client


@dataclass(frozen=True)
class EstimateSolution:
    """What the candidate delivers, and the memory that it does it in."""

    model: StepModel
    budget: MemoryBudget
    largest_batch: float
    limited_by_engine: bool
    serving: Serving | None
    load_ratio: float | None

    @property
    def fits(self) -> bool:
        """Whether weights and one sequence fit."""
        return bool(np.all(self.budget.fits))

    @property
    def short_by_gib(self) -> float:
        """GiB per GPU that are missing."""
        return float(np.max(np.asarray(self.budget.short_by_bytes))) / GIB

    def decode_terms(self, lengths: Lengths) -> dict[str, FloatArray]:
        """Kernel seconds of a decode step by operator."""
        batch = np.ones(1) if self.serving is None else self.serving.batch
        return self.model.terms(StepLoad(batch, lengths.mean_decode_context_tokens))


def solve_estimate(question: EstimateQuestion, calibration: Calibration) -> EstimateSolution:
    """Memory first; then the load's own equations at the batch that memory and engine admit."""
    q = question
    reserved = q.lengths.input_tokens + q.lengths.output_tokens
    context = q.lengths.mean_decode_context_tokens if q.load.scenario == "closed_loop" else reserved
    least = room(q.arch, q.candidates, q.lengths, reserved)
    space = room(q.arch, q.candidates, q.lengths, context)
    model = StepModel.build(q.arch, q.candidates, calibration)
    largest = np.maximum(space.largest_batch, 1.0)
    solution = EstimateSolution(
        model, least.budget, float(largest[0]), bool(space.limited_by_engine[0]), serving=None, load_ratio=None
    )
    if not solution.fits:
        return solution
    if not model.is_supported.all():
        raise DataMissing("no kernel curve for this format on this device")
    serving, load_ratio = served(model, q, largest)
    return EstimateSolution(model, least.budget, float(largest[0]), solution.limited_by_engine, serving, load_ratio)


def served(model: StepModel, question: EstimateQuestion, largest: FloatArray) -> tuple[Serving, float | None]:
    """The steady state of the load, and the share of the most that the replica sustains."""
    q, amount = question, np.array([question.load.amount])
    if q.load.scenario == "closed_loop":
        return closed_loop(model, amount, q.lengths, largest, q.client), None
    if q.load.scenario == "static_batch":
        return static_batch(model, amount, q.lengths), None
    full = full_queue(model, largest, q.lengths)
    if q.load.scenario == "full_queue":
        return full, 1.0
    return open_loop(model, amount, q.lengths, full)


def open_loop(model: StepModel, rate: FloatArray, lengths: Lengths, full: Serving) -> tuple[Serving, float]:
    """Poisson arrivals: the batch solves B = rate x (prompt + output_tokens TPOT(B)), by bisection."""
    load_ratio = float(rate[0] / full.requests_per_s[0])
    if load_ratio > HIGHEST_LOAD_RATIO:
        raise Infeasible(
            f"the load is {load_ratio:.2f} of what one replica sustains",
            found=f"{rate[0]:.3g} requests/s",
            expected=f"at most {HIGHEST_LOAD_RATIO * full.requests_per_s[0]:.3g} requests/s per replica",
        )
    low, high = np.zeros(1), full.batch
    for _ in range(FIXED_POINT_STEPS):
        middle = (low + high) / 2
        at = phases(model, middle, lengths)
        service_s = prompt_service_s(model, at)
        needed = rate * cycle_s(service_s, tpot_s(model, at, middle, lengths), lengths)
        low, high = np.where(needed > middle, middle, low), np.where(needed > middle, high, middle)
    return _open_loop_at(model, high, rate, lengths), load_ratio


def _open_loop_at(model: StepModel, batch: FloatArray, rate: FloatArray, lengths: Lengths) -> Serving:
    at: Phases = phases(model, batch, lengths)
    groups = model.candidates.attention_dp.astype(np.float64)
    idle_s = idle_ttft_s(model, at, lone_ttft_s(model, lengths))
    carried = np.minimum(rate, HIGHEST_LOAD_RATIO * groups / prompt_service_s(model, at))
    ttft = ttft_percentile_s(idle_s, prompt_service_s(model, at), carried, groups, None)
    return Serving(batch, tpot_s(model, at, batch, lengths), ttft, rate)
