"""One replica as it is asked for: names read, its engine as it was started, formats, layout and link checked."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from os import PathLike
from typing import TYPE_CHECKING

import numpy as np

from gpufleet.answers.beside import notes_on_adapters
from gpufleet.api.beside import kept_beside
from gpufleet.api.demands import length_rows
from gpufleet.api.remarks import across_machines, remarks_on_replica, stages_take_turns, widened_formats
from gpufleet.architecture.parameters import num_parameters
from gpufleet.catalog.engine_eras import load_engine
from gpufleet.catalog.engine_flags import engine_flags
from gpufleet.catalog.engine_starts import checked_start
from gpufleet.catalog.engines import engines_that_implement, find_engine
from gpufleet.catalog.load import Catalog
from gpufleet.catalog.machine_links import gpus_of_machine, is_through_host, link_of
from gpufleet.catalog.query import resolve_gpu
from gpufleet.deploy.launch import refuse_untaken
from gpufleet.domain.accelerator import Accelerator
from gpufleet.domain.architecture import Architecture
from gpufleet.domain.candidates import Candidates, Palette
from gpufleet.domain.engine import EngineProfile, ServedAs
from gpufleet.domain.engine_start import EngineStart
from gpufleet.domain.layout import Layout
from gpufleet.domain.own_stack import OwnStack
from gpufleet.domain.precision import BF16, FP16, Precision, WeightFormat
from gpufleet.domain.precision_labels import dtype_named, half_of, kv_format, weight_format
from gpufleet.domain.precision_labels import kv_precision as usual_kv_precision
from gpufleet.domain.speculation import EAGLE3
from gpufleet.domain.token_counts import TokenCounts
from gpufleet.domain.workload import Workload
from gpufleet.errors import Infeasible, UsageError
from gpufleet.inputs.own_stack import read_own_stack
from gpufleet.layout.feasible import refusal
from gpufleet.layout.stated import stated_layout
from gpufleet.layout.support import (
    architecture_refusal,
    beside_refusal,
    drafts_refusal,
    kv_refusal,
    weight_refusal,
    weights_that_run,
)
from gpufleet.optimize.estimate import Load
from gpufleet.optimize.links import link_of_instance, usual_instance
from gpufleet.optimize.own_pace import own_runs_note, with_own_pace
from gpufleet.optimize.replicas import in_dtype, with_fp16_twins
from gpufleet.performance.serving import Client
from gpufleet.questions.estimate import CopyQuestion, EstimateRequest
from gpufleet.records import dataclass
from gpufleet.report.words import sentence
from gpufleet.results.base import Input
from gpufleet.units import GB, GIGA, in_full

if TYPE_CHECKING:
    from gpufleet.questions.fields import WriterRequest
    from gpufleet.questions.fit import FitRequest

LISTED = "'gpufleet catalog gpus' lists the formats of each device."


@dataclass(frozen=True, eq=False)
class Configured:
    """One replica as candidates of one row, and what is to be said about how its names were read."""

    candidates: Candidates
    inputs: tuple[Input, ...]
    notes: tuple[str, ...]


@lru_cache(maxsize=256, typed=True)
def configured(
    tables: Catalog,
    arch: Architecture,
    gpu_name: str,
    engine: EngineProfile,
    parts: tuple[int, int | None, int, int | None, int],
    precision: str | None,
    kv_precision: str | None,
    instance: str | None,
) -> Configured:
    """A replica of GPUs in `parts` (number, tp, pp, ep, attention_dp), read and checked once for many loads."""
    gpu = resolve_gpu(tables, gpu_name)
    refuse_architecture(arch, engine)
    weights = runnable_format(arch, engine, gpu.accelerator, precision)
    kv = runnable_kv(engine, gpu.accelerator, weights, kv_precision, arch)
    machine = gpus_of_machine(tables, gpu.accelerator, instance)
    layout = stated_layout(*parts, machine, by_layer=engine.splits_by_layer)
    reason = refusal(arch, layout, weights) or beside_refusal(engine, arch, layout)
    if reason:
        raise Infeasible(f"{arch.name} cannot run as {layout.label}: {sentence(reason)}")
    alone = one_candidate(tables, gpu.accelerator, engine, weights, kv, layout, instance)
    unable = drafts_refusal(engine, layout)
    if unable:
        raise Infeasible(sentence(unable), found=layout.label)
    candidates = with_own_pace(alone, arch.name)
    said = [
        gpu.note,
        stages_take_turns(engine, layout),
        *widened_formats(engine, gpu.accelerator, weights, kv),
        across_machines(layout, machine),
        link_note(tables, gpu.accelerator, layout, instance),
        own_runs_note(engine, arch.name, [(gpu.accelerator.name, weights.name, layout)]),
        *notes_on_adapters(arch, [engine]),
        *remarks_on_drafts(engine, arch),
    ]
    inputs = (
        Input(name="model", value=arch.name, origin="given"),
        Input(name="gpus", value=f"{gpu.accelerator.name}:{layout.num_devices}", origin="given"),
        Input(name="engine", value=f"{engine.name} ({engine.version_era})", origin="default"),
        Input(name="weights", value=weights.name, origin="given" if precision else "checkpoint"),
        Input(name="KV cache", value=kv.name, origin="given" if kv_precision else "default"),
        *drafted_rows(engine),
        *link_rows(tables, gpu.accelerator, layout, instance),
    )
    return Configured(candidates, inputs, (*filter(None, said), *remarks_on_replica(arch, candidates)))


def drafted_rows(engine: EngineProfile) -> list[Input]:
    """What the engine drafts, and what a step of it yields."""
    if engine.drafts is None:
        return []
    found = engine.constants["accepted_length"]
    ends = "" if found.low == found.high else f" ({found.low:.2f} to {found.high:.2f})"
    value = f"{engine.drafts.label}, {found.value:.2f}{ends} tokens a step: {found.source}"
    return [Input(name="drafts", value=value, origin="given")]


def remarks_on_drafts(engine: EngineProfile, arch: Architecture) -> list[str]:
    """What was assumed of a draft whose shape nobody stated."""
    if engine.drafts is None or engine.drafts.method != EAGLE3 or arch.draft is None or arch.draft.model is None:
        return []
    head = arch.draft.model
    return [
        f"The EAGLE-3 head is taken as one layer of {num_parameters(head) / GIGA:.2g}B parameters in 16 bits; it has "
        "to be trained for this model"
    ]


def as_said(inputs: Iterable[Input], asked: CopyQuestion) -> list[Input]:
    """The same inputs, the engine as given where somebody named it or its version."""
    origin = asked.origin("engine", asked.origin("engine_version"))
    return [row.model_copy(update={"origin": origin}) if row.name == "engine" else row for row in inputs]


def refuse_architecture(arch: Architecture, engine: EngineProfile) -> None:
    """Refuse a model that the engine does not implement, naming the engines that do."""
    reason = architecture_refusal(engine, arch)
    if reason is None:
        return
    has = engine.architectures.has
    expected = f"one of {', '.join(has)}" if has else None
    others = ", ".join(engines_that_implement(arch)) or "none"
    raise Infeasible(sentence(reason), found=arch.name, expected=expected, hint=f"Engines that do: {others}.")


def runnable_format(arch: Architecture, engine: EngineProfile, gpu: Accelerator, precision: str | None) -> WeightFormat:
    """The asked format where engine and device run it; its 16-bit parts become fp16 on devices without bf16."""
    formats = in_dtype(with_fp16_twins([weight_format(arch, precision)], FP16), half_of(engine.told.dtype))
    if precision is not None and formats[0].name == BF16.name:
        formats = formats[:1]
    reasons = [weight_refusal(engine, gpu, weights, allow_fp16_twin=False) for weights in formats]
    if all(reasons) and reasons[-1] is not None:
        raise Infeasible(sentence(reasons[-1]), hint=other_formats(engine, gpu))
    return formats[reasons.index(None)]


def other_formats(engine: EngineProfile, gpu: Accelerator) -> str:
    """What to ask instead of a format that does not run."""
    if any(d.generation == gpu.generation for d in engine.dropped):
        return "--engine-version names an older one."
    names = weights_that_run(engine, gpu)
    return f"{engine.title} on {gpu.name} runs --precision {', '.join(names)}." if names else LISTED


def runnable_kv(
    engine: EngineProfile, gpu: Accelerator, weights: WeightFormat, kv_precision: str | None, arch: Architecture
) -> Precision:
    """The asked KV format, or the one that the engine chooses for this checkpoint on this device."""
    if kv_precision is None:
        usual = usual_kv_precision(weights, engine)
        return usual if kv_refusal(engine, gpu, usual, arch) is None else weights.base
    asked = kv_format(kv_precision)
    reason = kv_refusal(engine, gpu, asked, arch)
    if reason:
        raise Infeasible(sentence(reason))
    return asked


def one_candidate(
    tables: Catalog,
    gpu: Accelerator,
    engine: EngineProfile,
    weights: WeightFormat,
    kv: Precision,
    layout: Layout,
    instance: str | None,
) -> Candidates:
    """One configuration as arrays of one element, on the link of the named instance or of the device."""
    is_pcie, link = link_of(tables, gpu, layout, instance)
    accelerators = tuple(tables.accelerators.values())
    zero = np.zeros(1, dtype=np.int64)
    return Candidates(
        Palette(accelerators, (weights,), (kv,), (engine,)),
        accelerator=zero + list(tables.accelerators).index(gpu.name),
        weight_format=zero,
        kv_precision=zero,
        engine=zero,
        tp=zero + layout.tp,
        pp=zero + layout.pp,
        ep=zero + layout.ep,
        attention_dp=zero + layout.attention_dp,
        link_is_pcie=np.array([is_pcie]),
        through_host=np.array([is_pcie and is_through_host(tables, instance)]),
        link_bytes_per_s=np.array([link]),
    )


def understood(workload: Workload, load: Load) -> list[Input]:
    """Lengths and load as they were read."""
    rows = [
        *length_rows(workload),
        (load.scenario.replace("_", " "), load.scenario, in_full(load.amount), True),
    ]
    return [Input(name=name, value=value, origin="given" if said else "default") for name, _, value, said in rows]


def link_rows(tables: Catalog, gpu: Accelerator, layout: Layout, instance: str | None) -> list[Input]:
    """The link between the GPUs of a copy, where there are several, and whose it is."""
    if layout.num_devices == 1:
        return []
    is_pcie, bytes_per_s = link_of(tables, gpu, layout, instance)
    machine = gpus_of_machine(tables, gpu, instance)
    if layout.devices_per_stage > machine:
        machines = math.ceil(layout.devices_per_stage / machine)
        value = f"{machines} machines of {machine} GPUs, their network at {bytes_per_s / GB:g} GB/s"
    else:
        value = f"{instance or 'any machine'}, {link_words(is_pcie, bytes_per_s)}"
    return [Input(name="link", value=value, origin="given" if instance else "default")]


def link_note(tables: Catalog, gpu: Accelerator, layout: Layout, instance: str | None) -> str | None:
    """That the usual machine has another link than the one that was taken where no machine was named."""
    taken, usual = link_of(tables, gpu, layout, instance), usual_instance(tables.instances.values(), gpu, layout)
    if instance is not None or usual is None or link_of_instance(usual, gpu, layout) == taken:
        return None
    words = link_words(*link_of_instance(usual, gpu, layout))
    return (
        f"The link is taken as {link_words(*taken)}; {usual.cloud} {usual.name} and its like have {words}: "
        f"--instance {usual.name}"
    )


def link_words(is_pcie: bool, bytes_per_s: float) -> str:
    """A link as people call it.

    >>> link_words(True, 32e9)
    'PCIe at 32 GB/s'
    """
    return f"{'PCIe' if is_pcie else 'NVLink or the like'} at {bytes_per_s / GB:g} GB/s"


def client_of(asked: EstimateRequest) -> Client:
    """The client of an estimate, and how it had the engine started to look for requests."""
    return Client(
        asked.waves or math.inf,
        0.0 if is_of_one_length(asked) else asked.length_spread,
        asked.poll_interval_steps,
        asked.gather_steps,
        asked.batch_wait_steps,
        asked.batch_wait_ratio,
    )


def is_of_one_length(asked: EstimateRequest) -> bool:
    """Whether all requests were said to have the same numbers of tokens.

    >>> is_of_one_length(EstimateRequest("llama-3.1-8b", "H100", input_tokens=1000, output_tokens=200, concurrency=8))
    False
    """
    both = (asked.input_tokens, asked.output_tokens)
    return all(isinstance(tokens, TokenCounts) and tokens.is_alike for tokens in both)


def started_engine(name: str, version: str | None, start: EngineStart) -> EngineProfile:
    """The engine as its version behaves, started as stated."""
    return _engine(find_engine(name), name, version, start)


@lru_cache(maxsize=64)
def _engine(read: EngineProfile, name: str, version: str | None, start: EngineStart) -> EngineProfile:
    """The engine as its version behaves and as it was started, one object for one question: replicas are kept by it.

    Another overlay is another `read` profile, and is not answered from memory.
    """
    engine = load_engine(name, version)
    return engine.started_with(checked_start(engine, start))


def told_engine(engine: EngineProfile, asked: CopyQuestion | WriterRequest | FitRequest) -> EngineProfile:
    """The engine with all that a question says of how it serves: formats and parsers, what lies beside, own runs."""
    told = kept_beside(as_told(engine, asked), asked)
    return measured_engine(told, getattr(asked, "calibration", None))


def measured_engine(engine: EngineProfile, calibration: str | PathLike[str] | OwnStack | None) -> EngineProfile:
    """The engine with what its user measured of it, or with what a file says of that; another engine is as it was."""
    if calibration is None:
        return engine
    own = calibration if isinstance(calibration, OwnStack) else read_own_stack(calibration)
    return _measured(engine, own) if own.engine == engine.name else engine


@lru_cache(maxsize=16)
def _measured(engine: EngineProfile, own: OwnStack) -> EngineProfile:
    """The same, one object for one file's text: replicas are kept by it."""
    return replace(engine, own=own)


def as_told(engine: EngineProfile, asked: CopyQuestion | WriterRequest | FitRequest) -> EngineProfile:
    """The engine with the dtype, the parsers and the template that it is started with, which its version must have."""
    told = ServedAs(dtype_named(asked.dtype), asked.tool_call_parser, asked.reasoning_parser, asked.chat_template)
    half, said = half_of(told.dtype), asked.precision
    labels = [said] if isinstance(said, str) else said or []
    if half is not None and {BF16.name, FP16.name} - {half.name} & set(labels):
        raise UsageError("two kinds of 16 bits", found=f"{', '.join(labels)} and dtype {asked.dtype}", expected="one")
    if told == ServedAs():
        return engine
    refuse_untaken(engine, told, engine_flags(engine.name, engine.version))
    return _told(engine, told)


@lru_cache(maxsize=16)
def _told(engine: EngineProfile, told: ServedAs) -> EngineProfile:
    """The same, one object for what it is told: replicas are kept by it."""
    return replace(engine, told=told)
