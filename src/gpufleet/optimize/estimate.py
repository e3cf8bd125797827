"""One configuration under one load: the equations of the plan for a single candidate."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from gpufleet.domain.architecture import Architecture
from gpufleet.domain.arrays import FloatArray
from gpufleet.domain.calibration import Calibration
from gpufleet.domain.candidates import Candidates
from gpufleet.domain.layout import Layout
from gpufleet.domain.slo import METRICS, STATISTICS, Limit, Slo
from gpufleet.domain.workload import Workload
from gpufleet.errors import DataMissing, Infeasible
from gpufleet.memory.fit import MemoryBudget
from gpufleet.optimize.copies.decoder import capacity
from gpufleet.optimize.demand import Demand
from gpufleet.optimize.replicas import MemoryModel
from gpufleet.optimize.size import Capacity, Operation, operate_beyond
from gpufleet.performance.foreseen import ForeseenSteps
from gpufleet.performance.load_curves import load_curves_of, loads_of_curves
from gpufleet.performance.request_mix import RequestMix, held_by_sequence, mix_of
from gpufleet.performance.serving import (
    HIGHEST_LOAD_RATIO,
    Client,
    Lengths,
    Serving,
    admitted_context_tokens,
    busy_loads,
    closed_loop,
    decode_load,
    full_queue,
    loop_batch,
    most_beside_prompts,
    prompts_load,
    static_batch,
)
from gpufleet.performance.step import StepModel
from gpufleet.performance.uncertainty import fastest_token_s
from gpufleet.records import dataclass
from gpufleet.units import GIB

QUEUE_SHARES = np.geomspace(1 / 256, 1.0, 32)[:-1, None]  # of the largest, 20 % apart, where the best is sought
WORTH_A_SMALLER_BATCH_RATIO = 1.001
MOST_SEQUENCES = 10**6
UNREACHED_S = 1e9
EVERY_FIGURE = Slo(tuple(Limit(metric, statistic, UNREACHED_S) for metric in METRICS for statistic in STATISTICS))
"""Limits that nothing breaks: an estimate tells every figure."""


@dataclass(frozen=True)
class Load:
    """closed_loop (clients), open_loop (requests per second), static_batch (sequences), full_queue (requests)."""

    scenario: str
    amount: float


@dataclass(frozen=True)
class EstimateQuestion:
    """A model on one candidate, its requests, the load and the client.

    Requests that differ are those of an open loop, whose `workload` asks for `EVERY_FIGURE`.
    """

    arch: Architecture
    candidates: Candidates
    workload: Workload
    load: Load
    client: Client

    @cached_property
    def mix(self) -> RequestMix:
        """The requests as an engine meets them."""
        return mix_of(self.workload)

    @property
    def lengths(self) -> Lengths:
        """Mean tokens of a request."""
        return self.mix.lengths


class Settled(NamedTuple):
    """The steady state of a load: on average, as a share of what is sustained, and of arrivals every figure."""

    serving: Serving
    load_ratio: float | None = None
    capacity: Capacity | None = None
    running: Operation | None = None


@dataclass(frozen=True)
class EstimateSolution:
    """What the candidate delivers, and the memory that it does it in.

    `budgets` has two rows: with the whole context of a sequence reserved, and with what one holds on average.
    Of Poisson arrivals `capacity` has every figure at every batch, `running` at the rate that was asked for.
    """

    model: StepModel
    budgets: MemoryBudget
    largest_batch: float
    limited_by_engine: bool
    serving: Serving | None
    load_ratio: float | None
    capacity: Capacity | None = None
    running: Operation | None = None

    @property
    def fits(self) -> bool:
        """Whether weights and one whole sequence fit."""
        return bool(self.budgets.fits[0])

    @property
    def verdict(self) -> str:
        """'fits', 'tight' or 'does not fit', for one whole sequence."""
        return str(self.budgets.verdict[0])

    @property
    def short_by_gib(self) -> float:
        """GiB per GPU that are missing."""
        return float(np.max(np.asarray(self.budgets.short_by_bytes))) / GIB

    def decode_terms(self, lengths: Lengths) -> dict[str, FloatArray]:
        """Kernel seconds of a decode step by operator."""
        batch = np.ones(1) if self.serving is None else self.serving.batch
        return self.model.terms(decode_load(batch, lengths))


@lru_cache(maxsize=256)
def gathered(arch: Architecture, candidates: Candidates, calibration: Calibration) -> tuple[StepModel, MemoryModel]:
    """What does not depend on lengths and load, kept for the next question; memory of two rows for two contexts."""
    twice = candidates.take(np.zeros(2, dtype=np.int64))
    return StepModel.build(arch, candidates, calibration), MemoryModel.build(arch, twice)


def solve_estimate(question: EstimateQuestion, calibration: Calibration) -> EstimateSolution:
    """Memory first; then the load's own equations at the batch that memory and engine admit."""
    q = question
    model, memory = gathered(q.arch, q.candidates, calibration)
    reserved, held = q.mix.longest_tokens, float(held_by_sequence(q.candidates, q.mix)[0])
    if q.load.scenario == "closed_loop":
        held = float(admitted_context_tokens(q.candidates, q.lengths)[0])
    rooms = memory.room(q.lengths, np.array([reserved, held], dtype=np.float64))
    steps, largest = ForeseenSteps.of(model), np.maximum(rooms.largest_batch[1:], 1.0)
    solution = EstimateSolution(
        steps, rooms.budget, float(largest[0]), bool(rooms.limited_by_engine[1]), serving=None, load_ratio=None
    )
    if not solution.fits:
        return solution
    if not model.is_supported.all():
        raise DataMissing(
            "no kernel curve for this format on this device",
            hint="Another --precision or --kv-precision may have one: 'gpufleet catalog gpus' lists them.",
        )
    return replace(solution, **served(steps, q, largest)._asdict())


def served(model: ForeseenSteps, question: EstimateQuestion, largest: FloatArray) -> Settled:
    """The steady state of the load, by the equations of its scenario."""
    q, amount = question, np.array([question.load.amount])
    if q.load.scenario == "closed_loop":
        batch = loop_batch(model, amount, q.lengths, largest)
        busy = busy_loads(model, batch, q.lengths, q.client)
        model.foresee([*busy, prompts_load(np.ones(1), q.lengths)])
        return Settled(closed_loop(model, amount, q.lengths, largest, q.client))
    if q.load.scenario == "static_batch":
        model.foresee([decode_load(amount, q.lengths), prompts_load(amount, q.lengths)])
        return Settled(static_batch(model, amount, q.lengths))
    if q.load.scenario == "open_loop":
        return open_loop(model, q, largest)
    largest = np.minimum(largest, most_beside_prompts(model, q.lengths))
    if np.isfinite(amount):
        model.foresee([*busy_loads(model, np.minimum(largest, amount), q.lengths), prompts_load(np.ones(1), q.lengths)])
        return Settled(full_queue(model, largest, q.lengths, amount), 1.0)
    every = [*busy_loads(model, whole_batches(largest), q.lengths), decode_load(largest, q.lengths)]
    model.foresee([*every, prompts_load(np.ones(1), q.lengths)])
    return Settled(best_queue(model, largest, q.lengths), 1.0)


def whole_batches(largest: FloatArray) -> FloatArray:
    """Smaller batches of whole sequences and the largest, as a rising column."""
    return np.concatenate([np.maximum(np.floor(largest * QUEUE_SHARES), 1.0), largest[None]])


def best_queue(model: StepModel, largest: FloatArray, lengths: Lengths) -> Serving:
    """A queue that never empties, at the batch that serves most requests; a smaller one only where it serves more."""
    every = full_queue(model, whole_batches(largest), lengths)
    row = best_row(every.requests_per_s[:, 0])
    return Serving(every.batch[row], every.tpot_s[row], every.ttft_s, every.requests_per_s[row])


def best_row(requests_per_s: FloatArray) -> int:
    """Which of rising batches serves most: the largest, or a smaller one where that is worth it."""
    best = int(np.argmax(requests_per_s[:-1]))
    return best if requests_per_s[best] > WORTH_A_SMALLER_BATCH_RATIO * requests_per_s[-1] else -1


def open_loop(model: ForeseenSteps, question: EstimateQuestion, largest: FloatArray) -> Settled:
    """Poisson arrivals, by the equations of a plan: between the columns of its grid of batches."""
    rate, most = question.load.amount, sustained(model.asked, question.workload, float(largest[0]))
    load_ratio = share_of_most(rate, float(most.sustained_requests_per_s[0]))
    running = operate_beyond(most, 0, rate)
    assert running is not None, "a load below the most that is sustained has its place"
    first, later = (np.array([running.objectives_s[f"{metric}.mean"]]) for metric in ("ttft", "tpot"))
    return Settled(Serving(np.array([running.batch]), later, first, np.array([rate])), load_ratio, most, running)


@lru_cache(maxsize=256)
def sustained(model: StepModel, workload: Workload, largest_batch: float) -> Capacity:
    """What one replica sustains of requests and every figure on the way, kept for another rate."""
    steps = ForeseenSteps.of(model)
    steps.foresee(loads_of_curves(steps, workload))
    curves = load_curves_of(steps, workload, np.array([largest_batch]))
    return capacity(curves, Demand(workload))


def share_of_most(rate: float, most_per_s: float) -> float:
    """The load as a share of what a replica sustains, refused where waits would grow without end."""
    load_ratio = rate / most_per_s
    if load_ratio > HIGHEST_LOAD_RATIO:
        raise Infeasible(
            f"the load is {load_ratio:.2f} of what one replica sustains",
            found=f"{rate:,g} requests/s",
            expected=f"at most {HIGHEST_LOAD_RATIO * most_per_s:.3g} requests/s per replica",
        )
    return load_ratio


def layout_of(c: Candidates) -> Layout:
    """The layout of the one candidate."""
    return Layout(int(c.tp[0]), int(c.pp[0]), int(c.ep[0]), int(c.attention_dp[0]))


def least_token_s(model: StepModel) -> float:
    """Seconds that no token of the one candidate beats: a decode step's, which may yield all that are drafted."""
    c, palette = model.candidates, model.candidates.palette
    bandwidth_bytes_per_s = palette.accelerators[c.accelerator[0]].bandwidth_bytes_per_s
    floor_s = fastest_token_s(model.arch, palette.weight_formats[0], layout_of(c), bandwidth_bytes_per_s)
    return floor_s / float(c.verified_tokens[0])
