"""One configuration under one load: the equations of the plan for a single candidate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from gpufleet.domain.architecture import Architecture
from gpufleet.domain.arrays import FloatArray
from gpufleet.domain.calibration import Calibration
from gpufleet.domain.candidates import Candidates
from gpufleet.errors import DataMissing, Infeasible
from gpufleet.memory.fit import MemoryBudget
from gpufleet.optimize.replicas import MemoryModel
from gpufleet.performance.foreseen import ForeseenSteps
from gpufleet.performance.load_curves import crowded_batch
from gpufleet.performance.serving import (
    HIGHEST_LOAD_RATIO,
    Client,
    Lengths,
    Serving,
    admitted_context_tokens,
    busy_loads,
    closed_loop,
    cycle_s,
    decode_load,
    full_queue,
    idle_ttft_s,
    lone_ttft_s,
    phases_of,
    prompt_service_s,
    prompts_load,
    requests_in_slots_per_s,
    static_batch,
    tpot_s,
    ttft_of_arrivals_s,
)
from gpufleet.performance.step import StepLoad, StepModel
from gpufleet.records import dataclass
from gpufleet.units import GIB

BATCH_SHARES = np.concatenate([[0.0], np.geomspace(1e-6, 1.0, 47)])[:, None]  # of the largest, where roots are sought

QUEUE_SHARES = np.geomspace(1 / 256, 1.0, 32)[:-1, None]  # of the largest, 20 % apart, where the best is sought
WORTH_A_SMALLER_BATCH_RATIO = 1.001
QUANTILES = (0.5, 0.9, 0.95, 0.99)
"""Percentiles over requests that are told of arrivals."""
QUANTILE_COLUMN = np.array(QUANTILES)[:, None]
CLOSER_SHARES = np.linspace(0.0, 1.0, len(BATCH_SHARES))[:, None]  # of the way between two neighbours


@dataclass(frozen=True)
class Load:
    """closed_loop (clients), open_loop (requests per second), static_batch (sequences), full_queue (requests)."""

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


class Settled(NamedTuple):
    """The steady state of a load: on average, as a share of the most that is sustained, and of arrivals by quantile."""

    serving: Serving
    load_ratio: float | None = None
    percentiles: Mapping[float, Serving] = {}


@dataclass(frozen=True)
class EstimateSolution:
    """What the candidate delivers, and the memory that it does it in.

    `budgets` has two rows: with the whole context of a sequence reserved, and with what one holds on average.
    `percentiles`: of Poisson arrivals, TTFT and TPOT that a share of requests stays below, by that share.
    """

    model: StepModel
    budgets: MemoryBudget
    largest_batch: float
    limited_by_engine: bool
    serving: Serving | None
    load_ratio: float | None
    percentiles: Mapping[float, Serving] = field(default_factory=dict)

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
    reserved = q.lengths.input_tokens + q.lengths.output_tokens
    held = admitted_context_tokens(q.candidates, q.lengths)[0] if q.load.scenario == "closed_loop" else reserved
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
        model.foresee([*busy_loads(np.minimum(amount, largest), q.lengths), prompts_load(np.ones(1), q.lengths)])
        return Settled(closed_loop(model, amount, q.lengths, largest, q.client))
    if q.load.scenario == "static_batch":
        model.foresee([decode_load(amount, q.lengths), prompts_load(amount, q.lengths)])
        return Settled(static_batch(model, amount, q.lengths))
    if np.isfinite(amount) and q.load.scenario == "full_queue":
        model.foresee([*busy_loads(np.minimum(largest, amount), q.lengths), prompts_load(np.ones(1), q.lengths)])
        return Settled(full_queue(model, largest, q.lengths, amount), 1.0)
    if q.load.scenario == "open_loop":
        return open_loop(model, amount, q.lengths, largest)
    every = [*busy_loads(whole_batches(largest), q.lengths), decode_load(largest, q.lengths)]
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


@dataclass(frozen=True, eq=False)
class Sustained:
    """What one replica sustains of requests of some lengths, whatever their rate.

    `best_batch` serves most, `most_per_s`; a request occupies a slot for `cycles_s` at each of the rising `batches`.
    """

    best_batch: FloatArray
    most_per_s: FloatArray
    batches: FloatArray
    cycles_s: FloatArray
    lone_ttft_s: FloatArray


@lru_cache(maxsize=256)
def sustained(model: StepModel, lengths: Lengths, largest_batch: float) -> Sustained:
    """The best queue and a grid of batches up to the largest, kept for another rate."""
    steps, largest = ForeseenSteps.of(model), np.array([largest_batch])
    whole, grid = whole_batches(largest), largest * BATCH_SHARES
    together = np.concatenate([whole, grid])
    cycles_s = cycles_at(steps, together, lengths, prompts_load(np.ones(1), lengths))
    carried = requests_in_slots_per_s(whole, cycles_s[: len(whole)])
    best = best_row(carried[:, 0])
    return Sustained(whole[best], carried[best], grid, cycles_s[len(whole) :], lone_ttft_s(steps, lengths))


def open_loop(model: ForeseenSteps, rate: FloatArray, lengths: Lengths, largest: FloatArray) -> Settled:
    """Poisson arrivals: the batch solves B = rate x (prompt + output_tokens TPOT(B)), sought on a grid, then closer."""
    most = sustained(model.asked, lengths, float(largest[0]))
    load_ratio = share_of_most(rate, most.most_per_s)
    low, high, _ = bracket(rate, most.batches, most.cycles_s, most.best_batch)
    closer = low + (high - low) * CLOSER_SHARES
    low, high, share = bracket(rate, closer, cycles_at(model, closer, lengths), most.best_batch)
    batch = low + share * (high - low)
    return arrivals(model, batch, rate, lengths, most)._replace(load_ratio=load_ratio)


def cycles_at(model: ForeseenSteps, batches: FloatArray, lengths: Lengths, *others: StepLoad) -> FloatArray:
    """Seconds that a request occupies a slot at each batch; steps of `others` are found in the same evaluation."""
    decode_s, mixed_s = model.foresee([*busy_loads(batches, lengths), *others])[:2]
    return cycle_s(model, phases_of(model, decode_s, mixed_s, batches, lengths), batches, lengths)


def share_of_most(rate: FloatArray, most_per_s: FloatArray) -> float:
    """The load as a share of what a replica sustains, refused where waits would grow without end."""
    load_ratio = float(rate[0] / most_per_s[0])
    if load_ratio > HIGHEST_LOAD_RATIO:
        raise Infeasible(
            f"the load is {load_ratio:.2f} of what one replica sustains",
            found=f"{rate[0]:,g} requests/s",
            expected=f"at most {HIGHEST_LOAD_RATIO * most_per_s[0]:.3g} requests/s per replica",
        )
    return load_ratio


def bracket(
    rate: FloatArray, batches: FloatArray, cycles_s: FloatArray, best: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The neighbours in a rising column of batches between which B = rate x cycle(B), and the root's share of the way.

    The last neighbours up to the `best` batch that stand on different sides; beyond it the rate falls again.
    """
    missing = rate * cycles_s - batches
    is_short = (missing > 0) & (batches <= best)
    above = min(max(int(np.count_nonzero(is_short)), 1), len(batches) - 1)
    (low,), (high,) = missing[above - 1], missing[above]
    share = min(max(low / (low - high), 0.0), 1.0) if low > high else 1.0
    return batches[above - 1], batches[above], np.array([share])


def arrivals(model: ForeseenSteps, batch: FloatArray, rate: FloatArray, lengths: Lengths, most: Sustained) -> Settled:
    """Where `batch` sequences decode on average: means, and percentiles at the batch that arrivals find at each.

    As in a plan: TPOT at the percentile of the batch, TTFT at that of the wait for others' prompts.
    """
    largest = most.batches[-1]
    batches = np.array([batch, *(np.minimum(crowded_batch(batch, quantile), largest) for quantile in QUANTILES)])
    decode_s, mixed_s, _ = model.foresee([*busy_loads(batches, lengths), decode_load(batch, lengths)])
    at = phases_of(model, decode_s, mixed_s, batches, lengths)
    groups = model.candidates.attention_dp.astype(np.float64)
    idle_s = idle_ttft_s(model, at, most.lone_ttft_s, batches / groups)[0]
    service_s = prompt_service_s(model, at, batches, lengths)[0]
    carried = np.minimum(rate, HIGHEST_LOAD_RATIO * groups / service_s)
    mean_first_s, first_s = ttft_of_arrivals_s(idle_s, service_s, carried, groups, QUANTILE_COLUMN)
    rising_s = np.maximum.accumulate(tpot_s(model, at, batches, lengths), axis=0)
    of_quantile = {q: Serving(batches[i + 1], rising_s[i + 1], first_s[i], rate) for i, q in enumerate(QUANTILES)}
    return Settled(Serving(batch, rising_s[0], mean_first_s, rate), percentiles=of_quantile)
