"""What one copy of a model that writes sustains: which hold their requests, how fast they are, what they get done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TypeAlias

import numpy as np

from gpufleet.architecture.parameters import num_parameters
from gpufleet.domain.accelerator import Accelerator
from gpufleet.domain.architecture import Architecture
from gpufleet.domain.arrays import BoolArray, FloatArray, IntArray
from gpufleet.domain.calibration import Calibration
from gpufleet.domain.candidates import Candidates
from gpufleet.domain.estimate import LoadCurves
from gpufleet.domain.instance import Instance
from gpufleet.domain.layout import Layout
from gpufleet.domain.precision import WeightFormat
from gpufleet.domain.reason import Reason, Rejection
from gpufleet.domain.slo import figure_label
from gpufleet.domain.token_counts import TokenCounts
from gpufleet.domain.workload import Workload
from gpufleet.optimize.caution import Caution
from gpufleet.optimize.copies.protocol import WorkRates
from gpufleet.optimize.demand import Demand
from gpufleet.optimize.replicas import (
    NO_CURVE,
    Choices,
    MemoryModel,
    Rejections,
    Room,
    describe,
    drafts_of,
    keep_fitting,
    replicas,
)
from gpufleet.optimize.service import ServeQuestion, ServeSolution
from gpufleet.optimize.size import (
    ADMISSION_QUANTILE,
    LOAD,
    QUANTILES,
    ROOM,
    Capacity,
    as_played,
    capacity_within,
    later,
)
from gpufleet.performance.latencies import latency_s, tpot_s, ttft_s
from gpufleet.performance.load_curves import (
    crowded_batch,
    load_curves_of,
    sustained_requests_per_s,
)
from gpufleet.performance.queueing import normal_quantile
from gpufleet.performance.request_mix import RequestMix, held_by_sequence
from gpufleet.performance.serving import HIGHEST_LOAD_RATIO
from gpufleet.performance.step import StepModel
from gpufleet.performance.uncertainty import Bounds, fastest_token_s, grades, time_bounds
from gpufleet.provenance import Grade
from gpufleet.records import dataclass

FULL_QUANTILE = 0.95
ENGINE_LIMIT = "engine_batch"
LONGEST = Reason("longest_too_long")


@dataclass(frozen=True)
class Decoder:
    """A model that writes, and the formats, engines and sizes that its replicas may combine."""

    arch: Architecture
    choices: Choices

    @property
    def name(self) -> str:
        """The name of the model."""
        return self.arch.name

    @property
    def num_parameters(self) -> int:
        """All parameters, those of idle experts too."""
        return num_parameters(self.arch)

    @property
    def inputs_per_request(self) -> float:
        """A request is one prompt."""
        return 1.0

    def copies(
        self, instances: tuple[Instance, ...], demand: Demand, calibration: Calibration, rejections: Rejections
    ) -> Replicas:
        """Every replica that the rules allow, that holds its requests and whose kernels are known."""
        counted = sum(rejections.counts.values())
        every = replicas(self.arch, self.choices, instances, rejections)
        num_layouts = len(every) + sum(rejections.counts.values()) - counted
        space, kept = keep_runnable(self.arch, demand.mix, every, calibration, rejections)
        candidates = every.take(kept)
        model = StepModel.build(self.arch, candidates, calibration)
        return Replicas(
            demand, candidates, model, space.largest_batch[kept], space.limited_by_engine[kept], num_layouts
        )


WriterQuestion: TypeAlias = ServeQuestion[Decoder]


@dataclass(frozen=True, eq=False)
class Replicas:
    """Replicas that run under a demand: a row is GPUs, a layout, formats and an engine."""

    demand: Demand
    candidates: Candidates
    model: StepModel
    largest_batch: FloatArray
    limited_by_engine: BoolArray
    num_layouts: int

    def __len__(self) -> int:
        return len(self.candidates)

    @property
    def num_devices(self) -> IntArray:
        """GPUs of one replica."""
        return self.candidates.num_devices

    @cached_property
    def grades(self) -> Sequence[Grade]:
        """How each replica's times are known."""
        return [Grade(grade) for grade in grades(self.model)]

    def on(self, instance: Instance) -> IntArray:
        """Rows that one machine of a type holds."""
        return self.candidates.on(instance)

    def label(self, row: int) -> str:
        """A replica in words: 4x L40S TP4 bf16."""
        return describe(self.candidates, row)

    def layout(self, row: int) -> Layout:
        """Over which ranks a replica is spread."""
        c = self.candidates
        return Layout(int(c.tp[row]), int(c.pp[row]), int(c.ep[row]), int(c.attention_dp[row]))

    def engine(self, row: int) -> str:
        """The engine of a replica."""
        return self.candidates.palette.engines[int(self.candidates.engine[row])].name

    def drafts(self, row: int) -> str | None:
        """What drafts tokens for a replica, and how many a step."""
        return drafts_of(self.candidates, row)

    def weights(self, row: int) -> str:
        """The weight format of a replica."""
        return self.weight_format(row).name

    def weight_format(self, row: int) -> WeightFormat:
        """What the weights of a replica are kept in."""
        return self.candidates.palette.weight_formats[int(self.candidates.weight_format[row])]

    def kv_precision(self, row: int) -> str:
        """What the KV cache of a replica is kept in."""
        return self.candidates.palette.kv_precisions[int(self.candidates.kv_precision[row])].name

    def gpu(self, row: int) -> Accelerator:
        """The GPU of a replica."""
        return self.candidates.palette.accelerators[int(self.candidates.accelerator[row])]

    def limit_name(self, row: int, limit: str) -> str:
        """What a limit of a replica is called: room that its engine bounds is not memory."""
        return ENGINE_LIMIT if limit == ROOM and self.limited_by_engine[row] else limit

    def floors_s(self, row: int) -> Mapping[str, float]:
        """The time per token that no replica of this shape beats: what memory takes to read its weights."""
        bandwidth = self.gpu(row).bandwidth_bytes_per_s
        floor_s = fastest_token_s(self.model.arch, self.weight_format(row), self.layout(row), bandwidth)
        return {"tpot": floor_s / float(self.candidates.verified_tokens[row])}

    def load_curves(self) -> LoadCurves:
        """Rates and times of every replica at every batch."""
        return load_curves_of(self.model, self.demand.workload, self.largest_batch)

    def capacity(self) -> Capacity:
        """The highest rate of each replica that keeps every objective, 95 % of its load and the KV room."""
        curves = self.load_curves()
        caution = Caution.at(self.demand.confidence, self.model, curves.batch, self.demand.lengths)
        found = capacity(curves, self.demand, caution)
        return as_played(found, self.played_ratios) if self.demand.played else found

    @property
    def played_ratios(self) -> FloatArray:
        """How many times its rate a replay showed each replica to carry; 1 of those that were not replayed."""
        ratios = dict(self.demand.played)
        return np.array([ratios.get(self.played_name(row), 1.0) for row in range(len(self))], dtype=np.float64)

    def played_name(self, row: int) -> str:
        """What a replay knows a replica by, whoever rents out its machine."""
        return f"{self.label(row)} {self.engine(row)}"

    def work_rates(self) -> WorkRates:
        """What each replica gets done of a job."""
        return generation_rates(self.load_curves(), self.demand.mix.held_squared_variation)

    def time_ratios(self, batch: FloatArray) -> Mapping[str, Bounds]:
        """How far times lie from what is expected at a batch of each replica: whole answers as far as their steps."""
        bounds = time_bounds(self.model, batch, self.demand.lengths)
        return {**bounds, "latency": bounds["tpot"]}


WriterSolution: TypeAlias = ServeSolution[Replicas]
SolvedWriter: TypeAlias = tuple[WriterQuestion, WriterSolution]


def keep_runnable(
    arch: Architecture, mix: RequestMix, every: Candidates, calibration: Calibration, rejections: Rejections
) -> tuple[Room, BoolArray]:
    """The memory of every candidate, and which hold their requests and have kernels."""
    memory = MemoryModel.build(arch, every)
    space = mixed_room(memory, mix)
    kept = keep_fitting(every, space, rejections)
    kept &= keep_holding_longest(memory, mix, kept, rejections)
    kept &= keep_supported(StepModel.build(arch, every, calibration), kept, rejections)
    return space, kept


def mixed_room(memory: MemoryModel, mix: RequestMix) -> Room:
    """Room for sequences of the size that is held on average, less what a shared prefix takes once."""
    held = held_by_sequence(memory.candidates, mix)
    taken = np.asarray(memory.candidates.attention_dp * (mix.shared_tokens / held), dtype=np.float64)
    return memory.room(mix.lengths, held, taken)


def holds_longest(memory: MemoryModel, mix: RequestMix) -> BoolArray:
    """Candidates that hold the longest request too; where requests differ, the mean alone does not say so."""
    if mix.longest_tokens <= mix.held_tokens:
        return np.ones(len(memory.candidates), dtype=np.bool_)
    return np.asarray(memory.room(mix.lengths, mix.longest_tokens).largest_batch >= 1)


def keep_holding_longest(memory: MemoryModel, mix: RequestMix, fits: BoolArray, rejections: Rejections) -> BoolArray:
    """The same; of those that fit, the others are counted."""
    holds = holds_longest(memory, mix)
    for row in np.flatnonzero(fits & ~holds):
        miss = Reason.of("needs_tokens", longest_tokens=mix.longest_tokens)
        rejections.add(Rejection(LONGEST, describe(memory.candidates, int(row)), miss))
    return holds


def keep_supported(model: StepModel, fits: BoolArray, rejections: Rejections) -> BoolArray:
    """Candidates whose kernels are known; of those that fit, the others are counted."""
    supported = model.is_supported
    for row in np.flatnonzero(fits & ~supported):
        rejections.add(Rejection(NO_CURVE, describe(model.candidates, int(row))))
    return supported


def generation_rates(curves: LoadCurves, held_squared_variation: float) -> WorkRates:
    """What a full queue gets done at each batch that memory holds; one sequence at least.

    A batch fits where B + z sqrt(B c^2) <= largest: sequences differ by c^2 in what they hold, z at 95 %.
    """
    spread = normal_quantile(FULL_QUANTILE) * np.sqrt(curves.batch * held_squared_variation)
    fits = (curves.batch + spread)[None, :] <= curves.largest_batch[:, None]
    rates = np.where(fits, curves.requests_per_s, 0.0)
    return WorkRates(curves.batch, rates, rates.size)


def figure_s(curves: LoadCurves, workload: Workload, figure: tuple[str, str, str]) -> FloatArray:
    """Seconds of one latency figure (class, metric, statistic) for every candidate at every batch."""
    request_class, metric, statistic = figure
    quantile, answer = QUANTILES[statistic], answers(workload, request_class)
    if metric == "ttft":
        return ttft_s(curves, quantile, request_class, statistic)
    if metric == "tpot":
        return tpot_s(curves, quantile, answer)
    return latency_s(curves, quantile, request_class, statistic, answer)


def answers(workload: Workload, request_class: str) -> TokenCounts:
    """Tokens of the answers to requests of a class."""
    own = (c.output_tokens for c in workload.classes if c.name == request_class)
    return next(own, TokenCounts(workload.output_tokens))


def capacity(curves: LoadCurves, demand: Demand, caution: Caution | None = None) -> Capacity:
    """The highest rate of each candidate that keeps every objective, 95 % of its load and the KV room."""
    slo, workload = demand.workload.slo, demand.workload
    objectives = {figure_label(*f): figure_s(curves, workload, f) for f in workload.figures}
    sustained = sustained_requests_per_s(curves)
    strains = {x.label: later(objectives[x.label], x.metric, caution) / x.limit_s for x in slo.limits}
    with np.errstate(divide="ignore"):
        crowd = crowded_batch(curves.batch, ADMISSION_QUANTILE, demand.mix.held_squared_variation)
        strains[ROOM] = crowd[None, :] / curves.largest_batch[:, None]
        strains[LOAD] = curves.requests_per_s / (HIGHEST_LOAD_RATIO * sustained[:, None])
    return capacity_within(curves, objectives, strains, sustained, caution, demand.headroom_ratio)
