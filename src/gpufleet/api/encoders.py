"""How fast is a model that is not a decoder: sequences, images or audio per second, and latency."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from os import PathLike
from typing import Any

from gpufleet.answers.encoder_estimate import encoder_estimate
from gpufleet.api.envelope import in_full
from gpufleet.api.launches import checkpoint
from gpufleet.api.spoken import heard
from gpufleet.architecture.encoder_parameters import num_encoder_parameters
from gpufleet.catalog.calibration import calibration_of, load_habits
from gpufleet.catalog.engine_flags import engine_flags
from gpufleet.catalog.listing import cheapest_on_demand
from gpufleet.catalog.load import Catalog, load_catalog
from gpufleet.catalog.models import shipped_encoder
from gpufleet.catalog.query import resolve_gpu
from gpufleet.catalog.runtimes import chosen_runtime, running_there
from gpufleet.deploy.encoders import EncoderReplica, encoder_launch
from gpufleet.domain.accelerator import Accelerator
from gpufleet.domain.encoder import EncoderModel, Takes
from gpufleet.domain.runtime import Runtime
from gpufleet.errors import Infeasible
from gpufleet.inputs.gpu_request import gpus_said
from gpufleet.inputs.model_config import encoder_asked
from gpufleet.layout.support import runtime_refusal
from gpufleet.optimize.encoder import EncoderQuestion, solve_encoder
from gpufleet.optimize.encoder_inputs import (
    asked_tower,
    beams_of,
    beyond_training,
    checked_batch,
    formats_of,
    pass_size,
    runnable,
)
from gpufleet.questions.encode import EncodeRequest
from gpufleet.report.words import sentence
from gpufleet.results.base import Input, Launch
from gpufleet.results.catalog import PriceRow
from gpufleet.results.encoders import EncoderEstimate

Model = str | PathLike[str] | EncoderModel


def estimate_encoder(
    model: EncodeRequest | str | PathLike[str] | EncoderModel,
    gpus: str | tuple[str, int] | None = None,
    *,
    catalog: Catalog | None = None,
    **said: Any,
) -> EncoderEstimate:
    """Latency, throughput and memory of an encoder (text, image, speech) with ranges, on copies of one GPU.

    `EncodeRequest` (questions.encode) says what each word means, and what stands in for those that are left out.

    >>> e = estimate_encoder("bert-large-uncased", "T4", input_tokens=128, batch=32)
    >>> e.inputs_per_s.low < e.inputs_per_s.value < e.inputs_per_s.high
    True
    """
    asked = heard(EncodeRequest, model, gpus=gpus, **said)
    tables, of = load_catalog() if catalog is None else catalog, asked.model
    encoder = encoder_asked(of, shipped_encoder)
    name, number = gpus_said(asked.gpus)
    gpu = resolve_gpu(tables, name)
    profile = runtime_on(encoder, gpu.accelerator, asked.engine, [asked.precision])
    refuse_device(profile, encoder, gpu.accelerator)
    tower = asked_tower(encoder, asked.input_tokens)
    beams = beams_of(encoder, tower, profile, asked.beams)
    spoken = load_habits().spoken_tokens_per_s.value
    question = EncoderQuestion(
        model=encoder,
        tower=tower,
        gpu=gpu.accelerator,
        runtime=profile,
        weights=runnable(encoder, profile, gpu.accelerator, asked.precision),
        size=pass_size(encoder, tower, asked.input_tokens, asked.output_tokens, asked.audio_s, beams, spoken),
        batch=checked_batch(asked.batch, tower, profile),
        num_gpus=number,
        audio_s=asked.audio_s,
    )
    calibration = calibration_of(tables)
    solution = solve_encoder(question, calibration)
    inputs = understood(question, solution.batch, asked)
    notes = [*filter(None, [gpu.note, beyond_training(encoder, tower, question.size)]), *encoder.notes]
    price = cheapest_of_whole_gpus(tables).get((gpu.accelerator.name, True))
    parameters, streams = num_encoder_parameters(encoder), calibration.formulas.streams
    answer = encoder_estimate(question, solution, streams, parameters, price, inputs, notes)
    return in_full(answer.model_copy(update={"launch": copy_launch(of, question, solution.batch)}), tables, asked)


@lru_cache(maxsize=4)
def cheapest_of_whole_gpus(tables: Catalog) -> Mapping[tuple[str, bool], PriceRow]:
    """The lowest on-demand price per GPU, by name and whether it is of whole ones; read once for a catalog."""
    return cheapest_on_demand(tables, lambda row: (row.gpu, row.gpu_count >= 1))


def runtime_on(model: EncoderModel, gpu: Accelerator, engine: str | None, labels: Sequence[str | None]) -> Runtime:
    """The named engine, or the usual one for these formats, as it runs such a model on this device."""
    return chosen_runtime(engine, model, gpu, formats_of(labels)).running(model.family, gpu)


def refuse_device(runtime: Runtime, model: EncoderModel, gpu: Accelerator) -> None:
    """Refuse a device that the engine does not run on, and name the engines that do."""
    reason = runtime_refusal(runtime, gpu)
    if reason is not None:
        able = ", ".join(running_there(model, gpu))
        raise Infeasible(
            sentence(reason),
            found=gpu.name,
            hint=f"What runs it there: --engine {able}." if able else "No engine runs it there.",
        )


def understood(question: EncoderQuestion, batch: float, asked: EncodeRequest) -> list[Input]:
    """The question as it was read, each part with its origin."""
    q = question
    rows = [
        ("model", q.model.name, "given"),
        ("gpus", f"{q.gpu.name}:{q.num_gpus}", "given"),
        ("engine", q.runtime.name, asked.origin("engine")),
        ("weights", q.weights.name, asked.origin("precision", "checkpoint")),
        ("tower", q.tower.name, "given"),
        ("tokens of one input", f"{q.size.tokens:g}", "given" if q.tower.takes is Takes.TEXT else "counted"),
        ("batch", f"{batch:g}", asked.origin("batch", "chosen: 97 % of the best throughput")),
    ]
    if q.audio_s is not None:
        rows.append(("audio", f"{q.audio_s:g} s", "given"))
    if q.model.decoder is not None:
        spoken = f"default: {load_habits().spoken_tokens_per_s.value:g} tokens for a second of speech"
        rows += [
            ("output tokens", f"{q.size.output_tokens:g}", asked.origin("output_tokens", spoken)),
            ("beams", f"{q.size.beams}", asked.origin("beams", "default of the engine")),
        ]
    return [Input(name=name, value=value, origin=origin) for name, value, origin in rows]


def copy_launch(
    model: Model, q: EncoderQuestion, batch: float, *, per_machine: int | None = None, is_service: bool = False
) -> Launch | None:
    """How a copy is started that takes so many inputs a pass."""
    known = None if isinstance(model, EncoderModel) else checkpoint(os.fspath(model))
    replica = EncoderReplica(
        model=q.model,
        tower=q.tower,
        checkpoint=known and known["checkpoint"],
        stands_for_shape=known is not None and known["stands_for_shape"],
        runtime=q.runtime,
        gpu=q.gpu,
        weights=q.weights.name,
        batch=batch,
        tokens=q.size.tokens,
        beams=q.size.beams,
        flags=engine_flags(q.runtime.name, q.runtime.version),
        is_service=is_service,
        replicas_per_machine=per_machine,
    )
    return encoder_launch(replica)
