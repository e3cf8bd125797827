"""Measured serving and throughput rows, in batches that the product's own equations predict at once."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

import numpy as np
from tools.calibrate.constants import NEUTRAL

from gpufleet.accuracy.benchmark_clients import conditions_of, launch_options, queued_requests
from gpufleet.accuracy.conditions import engine_of_row, layout_of
from gpufleet.accuracy.precisions import kv_precision_of, weight_precision_of
from gpufleet.accuracy.serving_points import spread_of
from gpufleet.architecture.parse import parse_architecture
from gpufleet.catalog.benchmark_scripts import StartLimits
from gpufleet.catalog.calibration import Loan, load_calibration
from gpufleet.catalog.engine_eras import next_change, remembering
from gpufleet.catalog.engines import find_engine
from gpufleet.catalog.load import Catalog, load_catalog
from gpufleet.catalog.models import load_model_config
from gpufleet.catalog.query import resolve_gpu
from gpufleet.domain.arrays import BoolArray, FloatArray
from gpufleet.domain.calibration import Formulas
from gpufleet.domain.candidates import Candidates, Palette
from gpufleet.domain.engine import EngineProfile
from gpufleet.domain.engine_start import EngineStart
from gpufleet.domain.layout import Layout
from gpufleet.domain.precision import PRECISIONS, WeightFormat
from gpufleet.domain.precision_labels import AWQ, LABELS, kv_precision, weight_format
from gpufleet.errors import GpufleetError
from gpufleet.inputs.measurements import MeasurementRow, read_measurements
from gpufleet.optimize.links import usual_link
from gpufleet.optimize.replicas import room
from gpufleet.performance.serving import (
    Client,
    Lengths,
    Serving,
    admitted_context_tokens,
    closed_loop,
    full_queue,
    phases,
    static_batch,
)
from gpufleet.performance.step import StepLoad, StepModel
from gpufleet.provenance import Sourced
from gpufleet.units import MILLISECOND

CLOSED_LOOP, STATIC, FULL_QUEUE = "closed_loop", "static_batch", "full_queue"
SCENARIOS = {"": CLOSED_LOOP, "fixed_batch": STATIC, "single_stream": STATIC, "max_throughput": FULL_QUEUE}
KV_PRECISIONS = (PRECISIONS["bf16"], PRECISIONS["fp8"])
NO_LIMITS = StartLimits()
NO_LOANS: Mapping[str, Loan] = MappingProxyType({})
QUANTITIES = ("tpot", "ttft", "rate", "latency")
MOST_BUSY_RATIO = 1.5
OF_UNEQUAL_ANSWERS = re.compile(r"\b(?:spread wide|end by themselves)\b")
SHORT_PROMPT_TOKENS, USUAL_OUTPUT_TOKENS = 5.0, 200.0
Given = TypeVar("Given")


@dataclass(frozen=True)
class Point:
    """One measured configuration in base units; NaN where a quantity was not measured."""

    source: str
    model_id: str
    gpu: str
    engine: str
    version: str | None
    scenario: str
    precision: str | None
    kv_precision: str | None
    layout: Layout
    concurrency: float
    lengths: tuple[float, float]
    client: Client
    measured: dict[str, float]
    limits: StartLimits = NO_LIMITS


def read_points(paths: Iterable[Path]) -> list[Point]:
    """Every scored row of the files that names a known model, GPU and engine.

    Not queues whose answers end one by one, at lengths that nobody states: the closed form is of alike ones.
    """
    catalog = load_catalog()
    points = []
    for path in paths:
        for row in read_measurements(path).rows:
            if row.text("why_not") or row.text("speculative_suspect") or OF_UNEQUAL_ANSWERS.search(row.text("notes")):
                continue
            try:
                points.append(_point(row, catalog))
            except (GpufleetError, KeyError, ValueError):
                continue
    return points


def _point(row: MeasurementRow, catalog: Catalog) -> Point:
    engine = engine_of_row(row)
    layout = layout_of(row, engine.name)
    scenario = SCENARIOS[row.text("scenario")]
    ratio = row.number("mean_length_ratio") or 1.0
    count = row.text("concurrency", "batch_or_concurrency")
    launched = launch_options(row, engine.name, layout.tp)
    sent = conditions_of(row, engine.name, launched)
    precision = weight_precision_of(row)
    if not row.text("model_id") or not row.text("gpu_id"):
        raise ValueError("shape or GPU unknown")
    if not set((precision or "bf16").split("+")) <= {*PRECISIONS, AWQ}:
        raise ValueError(f"no such precision: {precision}")
    return Point(
        source=row.text("source") if scenario != CLOSED_LOOP else f"{row.text('client')} {engine.name} {layout.gpu}",
        model_id=row.text("model_id"),
        gpu=resolve_gpu(catalog, layout.gpu).accelerator.name,
        engine=find_engine(engine.name).name,
        version=engine.version,
        scenario=scenario,
        precision=precision,
        kv_precision=kv_precision_of(row) or launched.kv_precision,
        layout=Layout(layout.tp, layout.pp, layout.ep or 1, layout.attention_dp),
        concurrency=queued_requests(row) or np.inf if scenario == FULL_QUEUE else float(count),
        lengths=(
            (row.number("isl") or SHORT_PROMPT_TOKENS) * ratio,
            (row.number("osl") or USUAL_OUTPUT_TOKENS) * ratio,
        ),
        client=Client(
            float(sent.waves), spread_of(ratio), sent.poll_interval_steps, sent.gather_steps, *sent.batch_wait
        ),
        measured=_measured(row),
        limits=launched.limits._replace(
            memory_fraction=row.positive("gpu_memory_fraction") or launched.limits.memory_fraction
        ),
    )


def _measured(row: MeasurementRow) -> dict[str, float]:
    tpot, ttft, rate = row.number("tpot_ms"), row.number("ttft_ms"), row.number("out_tokens_per_s_total")
    latency = row.number("latency_ms")
    found = {
        "tpot": tpot and tpot * MILLISECOND,
        "ttft": ttft and ttft * MILLISECOND,
        "rate": rate,
        "latency": latency and latency * MILLISECOND,
    }
    return {name: value for name, value in found.items() if value}


@dataclass(frozen=True)
class RecordedSteps(StepModel):
    """A step model that remembers: kernel seconds do not depend on the engine constants that a fit varies."""

    recorded: dict[bytes, FloatArray] = field(default_factory=dict)

    def seconds(self, load: StepLoad) -> FloatArray:
        """Seconds of the whole step, computed once for each load."""
        parts = (load.decoding, load.decode_context_tokens, load.prefilling, load.prompt_tokens)
        key = b"|".join(np.asarray(part, dtype=np.float64).tobytes() for part in parts)
        if key not in self.recorded:
            self.recorded[key] = super().seconds(load)
        return self.recorded[key]

    @property
    def num_kernels(self) -> FloatArray:
        """Kernels of a decode step, counted once."""
        if b"kernels" not in self.recorded:
            self.recorded[b"kernels"] = StepModel(self.arch, self.candidates, self.hardware).num_kernels
        return self.recorded[b"kernels"]

    def with_constants(self, constants: Mapping[str, float]) -> RecordedSteps:
        """The same kernels under other engine constants."""
        (engine,) = self.candidates.palette.engines
        palette = replace(self.candidates.palette, engines=(with_constants(engine, constants),))
        return replace(self, candidates=replace(self.candidates, palette=palette))


@dataclass(frozen=True)
class PointBatch:
    """Points of one model, engine and scenario, ready to predict."""

    points: tuple[Point, ...]
    model: RecordedSteps
    lengths: Lengths
    concurrency: FloatArray
    largest_batch: FloatArray
    client: Client

    def predict(self, constants: Mapping[str, float]) -> Serving:
        """What the product says of every point under these engine constants."""
        model, scenario = self.model.with_constants(constants), self.points[0].scenario
        if scenario == CLOSED_LOOP:
            return closed_loop(model, self.concurrency, self.lengths, self.largest_batch, self.client)
        if scenario == STATIC:
            return static_batch(model, self.concurrency, self.lengths)
        return full_queue(model, np.maximum(self.largest_batch, 1.0), self.lengths, self.concurrency)

    @cached_property
    def is_possible(self) -> BoolArray:
        """Points whose prompts our kernel curves can process in the time that was measured, with half as much again.

        rate x t_prompt + t_decode / TPOT is about 1 where the device does one thing at a time; 1.5 leaves room for
        errors of the curves. Why the others lie beyond is not known (cached prefixes, fewer slots than clients); they
        are scored like all rows, but neither fitted nor used for ranges.
        """
        if self.points[0].scenario != CLOSED_LOOP:
            return np.ones(len(self.points), dtype=np.bool_)
        tpot, ttft = self.measured["tpot"], self.measured["ttft"]
        model = self.model.with_constants(NEUTRAL)
        batch = np.minimum(self.concurrency, self.largest_batch)
        at = phases(model, batch, self.lengths, self.client)
        rate = self.concurrency / (ttft + tpot * self.lengths.output_tokens) / model.candidates.attention_dp
        return rate * at.prompt_extra_s + at.decode_step_s / tpot < MOST_BUSY_RATIO

    @cached_property
    def sequences_per_group(self) -> FloatArray:
        """Sequences that decode together in one group of ranks, as `performance.uncertainty` counts them."""
        admitted = np.ones_like(self.concurrency) * np.inf
        if self.points[0].scenario != STATIC:
            admitted = np.maximum(self.largest_batch, 1.0)
        return np.asarray(np.minimum(self.concurrency, admitted) / self.model.candidates.attention_dp)

    @cached_property
    def group_sizes(self) -> FloatArray:
        """How many points share each point's model, GPU and precision."""
        keys = [(p.model_id, p.gpu, LABELS.get(p.precision or "", p.precision)) for p in self.points]
        counts = Counter(keys)
        return np.array([counts[key] for key in keys], dtype=np.float64)

    @cached_property
    def measured(self) -> dict[str, FloatArray]:
        """Every quantity of every point; NaN where it was not measured."""
        return {q: np.array([p.measured.get(q, np.nan) for p in self.points]) for q in QUANTITIES}

    def log_ratios(self, serving: Serving, quantity: str) -> FloatArray:
        """ln(measured / predicted) of one quantity; NaN where it was not measured."""
        predicted = {
            "tpot": serving.tpot_s,
            "ttft": serving.ttft_s,
            "rate": serving.output_tokens_per_s(self.lengths),
            "latency": serving.ttft_s + (self.lengths.output_tokens - 1) * serving.tpot_s,
        }[quantity]
        return np.asarray(np.log(self.measured[quantity] / predicted))


def unchanged(given: Given) -> Given:
    """What ships."""
    return given


@dataclass(frozen=True)
class Substitutes:
    """What rows are predicted with in place of what ships: engines, and formulas beside the kernel curves.

    Constants that are `held` are not fitted.
    """

    engine: Callable[[EngineProfile], EngineProfile] = unchanged
    formulas: Callable[[Formulas], Formulas] = unchanged
    held: tuple[str, ...] = ()


AS_SHIPPED = Substitutes()


def batches(
    points: Sequence[Point], loans: Mapping[str, Loan] = NO_LOANS, instead: Substitutes = AS_SHIPPED
) -> list[PointBatch]:
    """The points grouped by model, engine and scenario."""
    groups: dict[tuple[object, ...], list[Point]] = defaultdict(list)
    for p in points:
        groups[p.model_id, p.engine, p.scenario, next_change(find_engine(p.engine), p.version), p.limits].append(p)
    return [_batch(tuple(group), loans, instead) for group in groups.values()]


def engine_of_point(point: Point) -> EngineProfile:
    """The engine as the version of a point had it, started or built as the point's source says."""
    return remembering(find_engine(point.engine), point.version).started_with(EngineStart(*point.limits))


def _batch(points: tuple[Point, ...], loans: Mapping[str, Loan], instead: Substitutes) -> PointBatch:
    model_id, engine = points[0].model_id, instead.engine(engine_of_point(points[0]))
    arch = parse_architecture(load_model_config(model_id), model_id)
    accelerators = tuple(load_catalog().accelerators.values())
    formats = {p.precision: weight_format(arch, p.precision) for p in points}
    palette = Palette(accelerators, tuple(formats.values()), KV_PRECISIONS, (neutral(engine),))
    candidates = _candidates(points, palette, list(formats))
    lengths = Lengths(*np.array([p.lengths for p in points]).T)
    concurrency = np.array([p.concurrency for p in points])
    space = room(arch, candidates, lengths, reserved_tokens(candidates, lengths, points[0].scenario))
    shipped = load_calibration(accelerators, loans)
    calibration = replace(shipped, formulas=instead.formulas(shipped.formulas))
    model = StepModel.build(arch, candidates, calibration)
    client = Client(
        **{f.name: np.array([getattr(p.client, f.name) for p in points]) for f in fields(Client)},
    )
    return PointBatch(
        points,
        RecordedSteps(model.arch, model.candidates, model.hardware),
        lengths,
        concurrency,
        np.maximum(space.largest_batch, 1.0),
        client,
    )


def reserved_tokens(candidates: Candidates, lengths: Lengths, scenario: str) -> FloatArray:
    """KV tokens that the product sets aside for a request: by the engine's rule where clients come and go, and all that
    it will ever need where the queue is full.
    """
    if scenario == CLOSED_LOOP:
        return admitted_context_tokens(candidates, lengths)
    return np.asarray(lengths.input_tokens + lengths.output_tokens)


def kv_index(point: Point, weights: WeightFormat) -> int:
    """The position of the KV format that a point states, else of the engine's choice; fp16 counts as bf16."""
    usual = kv_precision(weights, find_engine(point.engine)).name
    return int((point.kv_precision or usual) == "fp8")


def _candidates(points: Sequence[Point], palette: Palette, formats: list[str | None]) -> Candidates:
    names = [a.name for a in palette.accelerators]
    gpus = [palette.accelerators[names.index(p.gpu)] for p in points]
    zeros = np.zeros(len(points), dtype=np.int64)
    links = [usual_link(gpu, p.layout.devices_per_stage) for gpu, p in zip(gpus, points, strict=True)]
    return Candidates(
        palette,
        accelerator=np.array([names.index(p.gpu) for p in points]),
        weight_format=np.array([formats.index(p.precision) for p in points]),
        kv_precision=np.array([kv_index(p, palette.weight_formats[formats.index(p.precision)]) for p in points]),
        engine=zeros,
        tp=np.array([p.layout.tp for p in points]),
        pp=np.array([p.layout.pp for p in points]),
        ep=np.array([p.layout.ep for p in points]),
        attention_dp=np.array([p.layout.attention_dp for p in points]),
        link_is_pcie=np.array([is_pcie for is_pcie, _ in links]),
        link_bytes_per_s=np.array([rate for _, rate in links]),
        through_host=zeros > 0,
    )


def neutral(engine: EngineProfile) -> EngineProfile:
    """An engine that adds nothing to its kernels."""
    return with_constants(engine, NEUTRAL)


def with_constants(engine: EngineProfile, values: Mapping[str, float]) -> EngineProfile:
    """The engine with these step constants."""
    constants = {name: Sourced(value, "", "") for name, value in values.items()}
    return replace(engine, constants={**engine.constants, **constants})


def models_of(points: Iterable[Point]) -> Iterator[str]:
    """Each model id once."""
    yield from sorted({p.model_id for p in points})
