"""What one copy of a model that is not a decoder sustains: one GPU a copy, a batch a pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TypeAlias

import numpy as np

from gpufleet.architecture.encoder_parameters import num_encoder_parameters
from gpufleet.domain.arrays import FloatArray, IntArray
from gpufleet.domain.calibration import Calibration
from gpufleet.domain.instance import Instance
from gpufleet.domain.reason import Reason, Rejection
from gpufleet.domain.slo import Slo
from gpufleet.errors import DataMissing
from gpufleet.layout.support import runtime_refusal
from gpufleet.memory.encoder import EncoderMemory, encoder_memory
from gpufleet.optimize.caution import Caution
from gpufleet.optimize.copies.protocol import WorkRates
from gpufleet.optimize.demand import Demand
from gpufleet.optimize.encoder import (
    MOST_TRIED,
    EncoderQuestion,
    batches_in,
    curves_of,
    enough_of,
    grade_of,
    log_bounds,
    pass_times,
)
from gpufleet.optimize.replicas import NO_CURVE, TOO_LARGE, Rejections
from gpufleet.optimize.service import ServeQuestion, ServeSolution
from gpufleet.optimize.size import LOAD, QUANTILES, Capacity, capacity_within, later
from gpufleet.performance.passes import (
    arrivals_grid,
    mean_pass_requests,
    own_pass_requests,
    rest_of_pass_s,
    wait_for_others_s,
)
from gpufleet.performance.serving import HIGHEST_LOAD_RATIO
from gpufleet.performance.uncertainty import Bounds
from gpufleet.provenance import Grade
from gpufleet.records import dataclass

LATENCY = "latency"


@dataclass(frozen=True, eq=False)
class Copy:
    """One model on one GPU: the passes that have room, and factors that bound their time."""

    question: EncoderQuestion
    largest_batch: float
    batches: FloatArray
    seconds: FloatArray
    low_ratio: float
    high_ratio: float
    grade: Grade

    @property
    def name(self) -> str:
        """The copy in words: L4 bf16."""
        return f"{self.question.gpu.name} {self.question.weights.name}"

    @cached_property
    def full_batch(self) -> float:
        """Inputs of a full pass: the smallest power of two that reaches 97 % of the best throughput."""
        return enough_of(self.batches, self.seconds)

    @cached_property
    def full_per_s(self) -> float:
        """Inputs per second in full passes."""
        return self.full_batch / float(self.seconds[self.batches == self.full_batch][0])

    def seconds_of(self, inputs: FloatArray) -> FloatArray:
        """Seconds of so many inputs together; beyond a full pass, their share of full passes."""
        inside = np.interp(inputs, self.batches, self.seconds)
        return np.asarray(np.where(inputs <= self.full_batch, inside, inputs / self.full_per_s))


@dataclass(frozen=True)
class Encoder:
    """A model that is not a decoder, on each GPU that may be rented."""

    questions: tuple[EncoderQuestion, ...]

    @property
    def asked(self) -> EncoderQuestion:
        """The model, its input and its engine, which are the same on every GPU."""
        return self.questions[0]

    @property
    def name(self) -> str:
        """The name of the model."""
        return self.asked.model.name

    @property
    def num_parameters(self) -> int:
        """All parameters, of every tower."""
        return num_encoder_parameters(self.asked.model)

    @property
    def inputs_per_request(self) -> float:
        """Windows of a recording; 1 where it has none."""
        return self.asked.num_windows

    def copies(
        self, instances: tuple[Instance, ...], demand: Demand, calibration: Calibration, rejections: Rejections
    ) -> EncoderCopies:
        """A copy for each GPU whose runtime, kernels and memory allow it."""
        found = (copy_of(question, calibration, rejections) for question in self.questions)
        running = tuple(copy for copy in found if copy is not None)
        return EncoderCopies(self.asked, demand, running, len(self.questions))


EncoderServeQuestion: TypeAlias = ServeQuestion[Encoder]


@dataclass(frozen=True, eq=False)
class EncoderCopies:
    """Every copy that runs, one a GPU type and format; `asked`: the model and its input, which are the same of all."""

    asked: EncoderQuestion
    demand: Demand
    all: tuple[Copy, ...]
    num_layouts: int

    def __len__(self) -> int:
        return len(self.all)

    @property
    def num_devices(self) -> IntArray:
        """A copy has one GPU."""
        return np.ones(len(self.all), dtype=np.int64)

    @property
    def largest_batch(self) -> FloatArray:
        """Inputs that have room together."""
        return self.figures("largest_batch")

    @property
    def grades(self) -> Sequence[Grade]:
        """How the times of each copy are known."""
        return [copy.grade for copy in self.all]

    def figures(self, name: str) -> FloatArray:
        """A figure of every copy."""
        return np.array([getattr(copy, name) for copy in self.all], dtype=np.float64)

    def on(self, instance: Instance) -> IntArray:
        """Copies that a machine type hosts: those for its GPU."""
        return np.flatnonzero([copy.question.gpu.name == instance.accelerator for copy in self.all])

    def label(self, row: int) -> str:
        """A copy in words: L4 bf16."""
        return self.all[row].name

    def engine(self, row: int) -> str:
        """The runtime of a copy."""
        return self.all[row].question.runtime.name

    def weights(self, row: int) -> str:
        """The format of a copy."""
        return self.all[row].question.weights.name

    def limit_name(self, row: int, limit: str) -> str:
        """A limit is called as it is."""
        return limit

    def floors_s(self, row: int) -> Mapping[str, float]:
        """No floor is known."""
        return {}

    def capacity(self) -> Capacity:
        """The highest rate of each copy that keeps every latency and 95 % of its load."""
        loads = PassLoads(self, self.asked.num_windows)
        caution = Caution.of_passes(self.demand.confidence, self.figures("high_ratio"), len(loads.batch))
        return pass_capacity(loads, self.demand, caution)

    def work_rates(self) -> WorkRates:
        """Inputs per second in passes up to the full one, 0 beyond."""
        grid = batches_in(MOST_TRIED)
        rates = [np.where(grid <= copy.full_batch, grid / copy.seconds_of(grid), 0.0) for copy in self.all]
        num_configurations = sum(len(copy.batches) for copy in self.all)
        return WorkRates(grid, np.array(rates).reshape(len(self.all), len(grid)), num_configurations)

    def time_ratios(self, batch: FloatArray) -> Mapping[str, Bounds]:
        """How far the time of a pass lies from what is expected, at any batch."""
        return {LATENCY: Bounds(self.figures("low_ratio"), self.figures("high_ratio"))}


EncoderServeSolution: TypeAlias = ServeSolution[EncoderCopies]


def copy_of(q: EncoderQuestion, calibration: Calibration, rejections: Rejections) -> Copy | None:
    """The copy that a question describes; None where the runtime, the kernels or the memory do not allow it."""
    what = f"{q.gpu.name} in {q.weights.name}"
    refusal = runtime_refusal(q.runtime, q.gpu)
    if refusal is not None:
        rejections.add(Rejection(refusal, what))
        return None
    try:
        curves = curves_of(calibration, q.gpu, q.weights)
    except DataMissing:
        rejections.add(Rejection(NO_CURVE, what))
        return None
    memory = encoder_memory(q.model, q.tower, q.runtime, q.weights, q.size, q.gpu.memory_bytes)
    if memory.largest_batch < 1:
        missing = missing_bytes(memory)
        rejections.add(Rejection(TOO_LARGE, what, Reason.of("input_short_by", missing_bytes=missing), missing))
        return None
    largest = min(memory.largest_batch, q.most_inputs)
    batches = batches_in(largest)
    low, high = (float(np.exp(bound)) for bound in log_bounds(q, curves))
    seconds = np.maximum.accumulate(pass_times(q, curves, batches).seconds)
    return Copy(q, largest, batches, seconds, low, high, grade_of(q, curves))


def missing_bytes(memory: EncoderMemory) -> float:
    """What one input lacks."""
    return float(memory.total_bytes(1).expected) - memory.device_bytes


@dataclass(frozen=True, eq=False)
class PassLoads:
    """Copies under rising load: rows are copies, columns the mean requests of a pass, over a shared grid.

    A request is `inputs_per_request` inputs of a pass.
    """

    copies: EncoderCopies
    inputs_per_request: float

    @cached_property
    def arrivals(self) -> FloatArray:
        """Mean arrivals during a pass."""
        return arrivals_grid()

    @cached_property
    def batch(self) -> FloatArray:
        """Mean requests of a pass."""
        return mean_pass_requests(self.arrivals)

    @cached_property
    def pass_s(self) -> FloatArray:
        """Seconds of the mean pass."""
        return self.seconds_of(self.batch)

    @cached_property
    def requests_per_s(self) -> FloatArray:
        """The rate at which so many requests come during a pass."""
        return np.asarray(np.maximum.accumulate(self.arrivals / self.pass_s, axis=1))

    @cached_property
    def sustained_requests_per_s(self) -> FloatArray:
        """Requests per second in full passes."""
        return self.copies.figures("full_per_s") / self.inputs_per_request

    @cached_property
    def growth(self) -> FloatArray:
        """Seconds that a further request adds to a pass, times the rate."""
        slope = np.gradient(self.pass_s, self.batch, axis=1) if len(self.pass_s) else self.pass_s
        return np.asarray(self.requests_per_s * slope)

    @property
    def largest_batch(self) -> FloatArray:
        """Unlimited: what a pass does not hold is cut into several."""
        return np.full(len(self.copies.all), np.inf)

    def seconds_of(self, requests: FloatArray) -> FloatArray:
        """Seconds of passes over so many requests each: [copy, column], or [column] for every copy."""
        each = np.broadcast_to(requests, (len(self.copies.all), len(self.batch)))
        rows = [c.seconds_of(n * self.inputs_per_request) for c, n in zip(self.copies.all, each, strict=True)]
        return np.array(rows, dtype=np.float64).reshape(each.shape)

    def latency_s(self, quantile: float | None) -> FloatArray:
        """From arrival to answer at a quantile of requests, or the mean; never less under more load.

        The rest of the running pass, others' work where a copy is nearly full, and the own pass   [s]
        """
        load = self.requests_per_s / self.sustained_requests_per_s[:, None]
        own = self.seconds_of(own_pass_requests(quantile, self.arrivals, self.growth))
        others = wait_for_others_s(quantile, load, 1 / self.sustained_requests_per_s[:, None])
        found = rest_of_pass_s(quantile, self.arrivals, self.pass_s) + others + own
        return np.asarray(np.maximum.accumulate(found, axis=1))


def pass_capacity(loads: PassLoads, demand: Demand, caution: Caution | None) -> Capacity:
    """The highest rate of each copy that keeps every latency and 95 % of its load."""
    slo = demand.workload.slo
    objectives = {label: loads.latency_s(QUANTILES[statistic]) for label, statistic in latency_figures(slo).items()}
    strains = {x.label: later(objectives[x.label], x.metric, caution) / x.limit_s for x in slo.limits}
    sustained = loads.sustained_requests_per_s
    strains[LOAD] = loads.requests_per_s / (HIGHEST_LOAD_RATIO * sustained[:, None])
    return capacity_within(loads, objectives, strains, sustained, caution, demand.headroom_ratio)


def latency_figures(slo: Slo) -> dict[str, str]:
    """Statistic of every limit by its label, and of the 95th percentile where there is none.

    >>> latency_figures(Slo())
    {'latency.p95': 'p95'}
    """
    return {limit.label: limit.statistic for limit in slo.limits} or {f"{LATENCY}.p95": "p95"}
