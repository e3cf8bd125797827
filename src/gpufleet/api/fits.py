"""Does a model fit these GPUs."""

from __future__ import annotations

import math
from dataclasses import replace
from os import PathLike
from typing import Any

from gpufleet.answers.beside import notes_on_adapters, with_beside
from gpufleet.answers.fit import fit_result
from gpufleet.api.configured import told_engine
from gpufleet.api.demands import refuse_beyond_start
from gpufleet.api.envelope import in_full
from gpufleet.api.launches import fit_launch
from gpufleet.api.remarks import beyond_context, image_notes
from gpufleet.api.speculating import drafting, with_draft
from gpufleet.api.spoken import heard
from gpufleet.architecture.vision import with_images
from gpufleet.catalog.calibration import load_formulas
from gpufleet.catalog.engine_eras import engine_of_version, version_notes, with_memory_era
from gpufleet.catalog.engine_models import family_notes
from gpufleet.catalog.engine_starts import checked_start, started_for, started_of
from gpufleet.catalog.engines import engines_that_implement, load_engines, named_version, usual_engine
from gpufleet.catalog.listing import machines_of
from gpufleet.catalog.load import Catalog, load_catalog
from gpufleet.catalog.models import shipped_architecture
from gpufleet.catalog.query import resolve_gpu
from gpufleet.domain.beside import NOTHING_BESIDE
from gpufleet.domain.precision import BF16
from gpufleet.domain.precision_labels import dtype_named, half_of, kv_format, weight_format
from gpufleet.inputs.gpu_request import gpus_asked
from gpufleet.inputs.model_config import read_model
from gpufleet.layout.support import architecture_refusal
from gpufleet.memory.fit import ROUNDING
from gpufleet.memory.overhead import batch_limits, memory_fractions
from gpufleet.optimize.beside import beside_copies
from gpufleet.optimize.fit import (
    FitQuestion,
    FitReport,
    best_placement,
    caches_to_compare,
    candidate_of,
    fit_report,
    formats_to_compare,
    unsupported,
)
from gpufleet.optimize.links import largest_machine
from gpufleet.optimize.replicas import in_dtype
from gpufleet.questions.fields import STARTED
from gpufleet.questions.fit import FitRequest
from gpufleet.questions.words import on_off, refuse_out_of_range
from gpufleet.results.base import Input
from gpufleet.results.fit import FitResult
from gpufleet.units import GIB


def fit(
    model: FitRequest | str | PathLike[str],
    gpus: str | None = None,
    context: str | float | None = None,
    *,
    catalog: Catalog | None = None,
    **said: Any,
) -> FitResult:
    """Whether one copy of a model fits these GPUs, for how many users of that context, and what would make it fit.

    `context` is 8k tokens unless said. Without `engine` vLLM is meant, llama.cpp for its own files.
    Without `engine_version` today's engine is meant, and a note says where older versions would not hold it.

    >>> fit("llama-3.3-70b", "L40S:4", "8k").verdict
    'fits'
    """
    asked = heard(FitRequest, model, gpus=gpus, context=context, **said)
    tables = load_catalog() if catalog is None else catalog
    refuse_out_of_range(asked)
    start = started_of(asked)
    read = with_images(read_model(str(asked.model), shipped_architecture), asked.images)
    arch = with_draft(started_for(read, start), asked)
    named, version = named_version(asked.engine, asked.engine_version)
    engine = usual_engine(arch) if named is None else named
    usual = asked.context if "context" in asked.said else min(asked.context, arch.max_model_len or math.inf)
    context_tokens = float(round(usual)) + (arch.images.tokens if arch.images else 0)
    refuse_beyond_start(arch, context_tokens)
    versioned = engine_of_version(engine, version)
    request = gpus_asked(asked.gpus)
    gpu = resolve_gpu(tables, request.name)
    question = FitQuestion(
        arch=arch,
        accelerator=gpu.accelerator,
        num_gpus=request.number,
        engine=drafting(told_engine(versioned.started_with(checked_start(versioned, start)), asked), arch, asked),
        weights=in_dtype([weight_format(arch, asked.precision)], half_of(dtype_named(asked.dtype)))[0],
        kv=kv_format(asked.kv_precision or BF16.name),
        context_tokens=context_tokens,
        batch=asked.batch,
        gpus_per_machine=largest_machine(tables.instances.values(), gpu.accelerator),
    )
    report = fit_report(
        question, formats_to_compare(question), caches_to_compare(question), machines_of(tables, gpu.accelerator)
    )
    notes = [
        *filter(None, [gpu.note, *version_notes(engine, version), *family_notes(question.engine, arch)]),
        *image_notes(arch),
        *arch.notes,
        *([] if report.refusal else notes_on_adapters(arch, [question.engine])),
        *fit_notes(question),
        *engine_notes(report),
        *(older_version_notes(report) if version is None else []),
    ]
    launch = fit_launch(asked.model, report, asked.max_batch)
    answer = fit_result(report, fit_inputs(question, asked), notes).model_copy(update={"launch": launch})
    if report.chosen is not None and question.engine.beside != NOTHING_BESIDE:
        copy = candidate_of(question, report.chosen.layout)
        answer = with_beside(answer, beside_copies(arch, copy, question.context_tokens, load_formulas())[0])
    return in_full(answer, tables, asked)


def fit_notes(question: FitQuestion) -> list[str]:
    """What a reader should know about how the question was taken."""
    q, notes = question, beyond_context(question.arch, question.context_tokens)
    if q.weights.name == "bf16" and not q.accelerator.computes("bf16"):
        notes.append(f"{q.accelerator.name} has no bf16 arithmetic: run as fp16, which takes the same memory.")
    if q.engine.constant("whole_prompt"):
        return notes
    if q.batch is None:
        notes.append("Activations are those of the engine's default limits; fewer sequences per step need less.")
    else:
        default = batch_limits(q.engine, q.accelerator)[0]
        notes.append(
            f"Activations and room are those of an engine started for {q.batch:,.0f} sequences at a time (--batch); "
            f"with its default of {default:,} it reserves more for each step and has less room"
        )
    return notes


def engine_notes(report: FitReport) -> list[str]:
    """A setting that the answer rests on, or the engines that would run what this one refuses."""
    q, chosen = report.question, report.chosen
    default, _ = memory_fractions(q.engine, q.accelerator)
    if architecture_refusal(q.engine, q.arch):
        return [
            f"Engines that implement {q.arch.family} models: {', '.join(engines_that_implement(q.arch)) or 'none'}."
        ]
    if report.refusal:
        known = (engine_of_version(e).keeping_beside(q.engine.beside) for e in load_engines() if e != q.engine.name)
        others = [engine.title for engine in known if not unsupported(replace(q, engine=engine))]
        what = f"{q.weights.name} with a KV cache in {q.kv.name}"
        return [f"Engines that run {what} on {q.accelerator.name}: {', '.join(others) or 'none'}."]
    if chosen is None or not chosen.fits:
        return []
    fraction = float(chosen.budget.memory_fraction)
    if fraction > default + ROUNDING:
        return [f"Fits with the memory fraction of {q.engine.title} raised from {default:.2f} to {fraction:.3f}."]
    if fraction > default - ROUNDING or "static_bytes_per_device" in q.engine.constants:
        return []
    after = float(chosen.budget.after_pool_bytes.expected) / GIB
    return [
        f"Fits with the memory fraction of {q.engine.title} lowered from {default:.2f} to {fraction:.3f}: graphs and "
        f"context take {after:.1f} GiB beside the KV pool."
    ]


def older_version_notes(report: FitReport) -> list[str]:
    """Which earlier versions of the engine would not hold what today's does: they kept more for a profiled step."""
    q, eras = report.question, report.question.engine.memory_eras
    if report.refusal or report.chosen is None or not report.chosen.fits:
        return []
    short = [era for era in eras if not _holds(replace(q, engine=with_memory_era(q.engine, era)))]
    return [f"It does not fit {q.engine.title} before {short[-1].until}, which reserved more memory."] if short else []


def _holds(question: FitQuestion) -> bool:
    best = best_placement(question)
    return best is not None and best.fits


def as_said(limit: float) -> str:
    """A limit of an engine as it is said.

    >>> as_said(0.9), as_said(4096), as_said(True)
    ('0.9', '4096', 'on')
    """
    return on_off(limit) if isinstance(limit, bool) else str(limit) if isinstance(limit, int) else f"{limit:g}"


def fit_inputs(question: FitQuestion, asked: FitRequest) -> list[Input]:
    """The question as it was understood."""
    q, version = question, question.engine.version
    limits = [name for name in STARTED if isinstance(getattr(asked, name, None), (int, float))]
    drafts = [] if q.engine.drafts is None else [("drafts", q.engine.drafts.label, "given")]
    rows = [
        ("model", q.arch.name, "given"),
        ("gpus", f"{q.accelerator.name}:{q.num_gpus}", "given"),
        ("context_tokens", f"{q.context_tokens:.0f}", asked.origin("context")),
        ("engine", q.engine.name, asked.origin("engine")),
        ("weights", q.weights.name, asked.origin("precision", "checkpoint")),
        ("kv_precision", q.kv.name, asked.origin("kv_precision")),
        ("batch", str(asked.batch or "as many as fit"), asked.origin("batch")),
        *([] if asked.lora is None else [("lora", asked.lora, asked.origin("lora"))]),
        *([] if version is None else [("engine_version", version, asked.origin("engine_version", "given"))]),
        *drafts,
        *((name, as_said(getattr(asked, name)), asked.origin(name)) for name in limits),
    ]
    return [Input(name=name, value=value, origin=origin) for name, value, origin in rows]
