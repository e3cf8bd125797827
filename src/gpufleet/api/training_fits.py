"""Does training a model fit these GPUs, how much of it, and what would make it fit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from os import PathLike
from typing import Any

from gpufleet.answers.training_estimate import training_fit
from gpufleet.api.envelope import in_full
from gpufleet.api.spoken import heard
from gpufleet.api.training_estimates import model_notes, trained_model, usual_step_tokens
from gpufleet.catalog.calibration import calibration_of
from gpufleet.catalog.load import Catalog, load_catalog
from gpufleet.catalog.network import network_of_gpu
from gpufleet.catalog.query import resolve_gpu
from gpufleet.catalog.training_constants import load_training_memory_constants
from gpufleet.catalog.training_time import load_training_time
from gpufleet.domain.accelerator import Accelerator
from gpufleet.domain.architecture import Architecture
from gpufleet.domain.training import Method, Recipe, Recompute
from gpufleet.domain.training_recipes import formats_named, method_named, offloads_named, sequence_of, usual_batch
from gpufleet.errors import Infeasible, UsageError
from gpufleet.inputs.gpu_request import gpus_asked
from gpufleet.inputs.training_layout import parse_layout
from gpufleet.layout.training import Drop, grid_of
from gpufleet.optimize.links import usual_machine
from gpufleet.optimize.training_changes import FitWords, changes_that_fit
from gpufleet.optimize.training_fit import TrainingFitQuestion, allowed_layouts, best_place
from gpufleet.optimize.training_machines import hosts_of, trains_on, usual_training_machine
from gpufleet.optimize.training_stacks import stacks_too_large
from gpufleet.questions.fit import TrainingFitRequest
from gpufleet.questions.words import refuse_out_of_range
from gpufleet.report.words import sentence
from gpufleet.results.training import TrainingFit

CONFIDENCE = 0.8


def fit_training(
    model: TrainingFitRequest | str | PathLike[str] | Architecture,
    gpus: str | None = None,
    method: str | None = None,
    *,
    catalog: Catalog | None = None,
    **said: Any,
) -> TrainingFit:
    """Whether a step of training (LoRA unless said) fits these GPUs, in the fastest layout that does.

    >>> fit_training("llama-3.1-8b", "RTX-4090", "qlora").fits
    True
    """
    asked = heard(TrainingFitRequest, model, gpus=gpus, method=method, **said)
    tables = load_catalog() if catalog is None else catalog
    arch, named, request = trained_model(asked.model), method_named(asked.method), gpus_asked(asked.gpus)
    gpu = resolve_gpu(tables, request.name)
    words = FitWords(
        arch,
        gpu.accelerator,
        request.number,
        named,
        sequence_of(asked.sequence_tokens, arch),
        layout_of(asked),
        offloads_named(asked.offload),
        asked.rank,
        asked.modules,
        asked.precision,
        asked.optimizer,
        asked.eager,
        asked.stack,
    )
    refuse_gpu(words.gpu, words)
    place = best_place(question_of(words, tables))
    if place is None:
        raise without_layout(words, tables)
    changes = [] if place.fits else changes_that_fit(words, lambda changed: best_place(question_of(changed, tables)))
    kept = grid_of({**words.layout, "recompute": int(Recompute.NONE)}, place.question.global_batch)
    free = None if "recompute" in words.layout else kept
    otherwise = stacks_too_large(place.question, int(place.layouts.recompute[0]), free) if place.fits else []
    found = training_fit(place, changes, otherwise, [*filter(None, [gpu.note]), *model_notes(arch)])
    return in_full(found, tables, asked)


def layout_of(asked: TrainingFitRequest) -> dict[str, int]:
    """Parts of the layout that are fixed; the micro-batch is one of them."""
    refuse_out_of_range(asked)
    said, micro_batch = ",".join(asked.layout or ()), asked.micro_batch
    parts = parse_layout(said) if said else {}
    if micro_batch is None:
        return parts
    if parts.get("micro-batch", micro_batch) != micro_batch:
        raise UsageError("two micro-batches", found=f"{micro_batch} and {said}", expected="one of them")
    return {**parts, "micro-batch": micro_batch}


def refuse_gpu(gpu: Accelerator, words: FitWords) -> None:
    """GPUs that no training stack runs on, or not in the arithmetic that was asked for."""
    formats = formats_named(words.precision, words.method)
    if trains_on(gpu, formats.peak):
        return
    if not any(trains_on(gpu, name) for name in ("bf16", "fp16", "fp32")):
        expected = "a whole GPU of NVIDIA or AMD"
        raise UsageError(f"training on {gpu.name} is not modelled", expected=expected)
    pure = "fp16-mixed" if words.method is Method.FULL else "fp16"
    usual = pure if not gpu.computes("bf16") else "bf16-mixed" if words.method is Method.FULL else "bf16"
    found = f"precision {formats.name}"
    raise UsageError(
        f"{gpu.name} has no {formats.arithmetic} arithmetic", found=found, hint=f"Try --precision {usual}."
    )


def question_of(words: FitWords, tables: Catalog) -> TrainingFitQuestion:
    """The question that words ask, on usual machines of the GPU."""
    recipe = words.recipe
    batch, instances = batch_of(words, recipe), tables.instances.values()
    on_machine = min(words.num_gpus, usual_machine(words.gpu))
    return TrainingFitQuestion(
        words.arch,
        recipe,
        usual_training_machine(words.gpu, network_of_gpu(words.gpu, instances)),
        words.num_gpus,
        batch,
        grid_of(words.layout, batch),
        load_training_time(),
        load_training_memory_constants(),
        calibration_of(tables),
        CONFIDENCE,
        tuple(hosts_of(words.gpu, instances, on_machine)),
    )


def batch_of(words: FitWords, recipe: Recipe) -> int:
    """Sequences of a step: as many as is usual, and as all GPUs share evenly."""
    shared = words.num_gpus * words.layout.get("micro-batch", 1)
    tokens = usual_step_tokens(words.arch, is_from_nothing=False)
    usual = 1 if recipe.optimizer.in_backward else usual_batch(recipe, tokens)
    return shared * max(math.ceil(usual / shared), 1)


def without_layout(words: FitWords, tables: Catalog) -> Infeasible:
    """That no layout of the GPUs is as asked, with the rule that forbids the last of them."""
    _, drops = allowed_layouts(question_of(words, tables))
    gpus = f"{words.num_gpus}x {words.gpu.name}"
    hint = "Leave out parts of --layout, or take another number of GPUs."
    return Infeasible(f"no layout of {gpus} trains {words.arch.name} as asked: {last_reason(drops)}", hint=hint)


def last_reason(drops: Sequence[Drop]) -> str:
    """The rule that dropped the last layouts that other rules allowed."""
    return sentence(drops[-1].reason) if drops else "its parts do not deal out so many GPUs"
