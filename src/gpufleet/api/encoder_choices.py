"""What plans of models that are not decoders have in common: the model, its input, and the GPUs it may run on."""

from __future__ import annotations

from gpufleet.api.demands import refuse_rows
from gpufleet.api.encoders import Model, copy_launch, runtime_on
from gpufleet.api.input_rows import InputRow
from gpufleet.api.market import Market, market_of
from gpufleet.catalog.calibration import load_habits
from gpufleet.catalog.load import Catalog
from gpufleet.catalog.models import shipped_encoder
from gpufleet.catalog.runtimes import chosen_runtime
from gpufleet.domain.encoder import EncoderModel, Takes, Tower
from gpufleet.domain.runtime import Runtime
from gpufleet.inputs.model_config import encoder_asked
from gpufleet.memory.encoder import PassSize
from gpufleet.optimize.copies.encoder import Encoder, EncoderCopies, EncoderServeSolution
from gpufleet.optimize.encoder import EncoderQuestion
from gpufleet.optimize.encoder_inputs import asked_tower, beams_of, beyond_training, formats_of, pass_size, runnable
from gpufleet.optimize.job import BatchQuestion, BatchSolution
from gpufleet.questions.fields import EncoderRequest
from gpufleet.records import dataclass
from gpufleet.results.base import Launch

OF_CPU = "on the CPU is not in these figures"
NOT_TIMED = {
    Takes.IMAGE: f"Decoding and scaling images {OF_CPU}",
    Takes.WINDOW: f"Reading audio and making mel frames {OF_CPU}",
    Takes.AUDIO: f"Reading audio {OF_CPU}",
}


@dataclass(frozen=True, eq=False)
class EncoderChoices:
    """The model on each GPU that may be rented, where it may be rented, and notes on how things were read."""

    model: Encoder
    market: Market
    notes: tuple[str, ...]


def encoder_choices(request: EncoderRequest, tables: Catalog) -> EncoderChoices:
    """Names resolved, input checked, and the copies that may be tried on each GPU."""
    refuse_rows(request.rows)
    model = encoder_asked(request.model, shipped_encoder)
    runtime = chosen_runtime(request.engine, model, formats=formats_of(request.precision or ()))
    tower = asked_tower(model, request.input_tokens)
    beams = beams_of(model, tower, runtime, request.beams)
    spoken = load_habits().spoken_tokens_per_s.value
    size = pass_size(model, tower, request.input_tokens, request.output_tokens, request.audio_s, beams, spoken)
    market = market_of(request, tables)
    encoders = on_every_gpu(model, tower, runtime, size, request, market, tables)
    said = filter(None, [beyond_training(model, tower, size), not_timed(tower, runtime)])
    return EncoderChoices(Encoder(encoders), market, (*market.notes, *said, *model.notes))


def not_timed(tower: Tower, runtime: Runtime) -> str | None:
    """What the CPU does with an input and no time is counted for; recordings are read in time where it was fitted."""
    is_timed = tower.takes is Takes.WINDOW and runtime.speech is not None
    return None if is_timed else NOT_TIMED.get(tower.takes)


def on_every_gpu(
    model: EncoderModel,
    tower: Tower,
    runtime: Runtime,
    size: PassSize,
    request: EncoderRequest,
    market: Market,
    tables: Catalog,
) -> tuple[EncoderQuestion, ...]:
    """The model in every allowed format on every GPU that a machine type has, each pair once.

    Unless one is named, each GPU has its usual runtime; all have one where an answer is written, as beams differ.
    """
    found: dict[tuple[str, str], EncoderQuestion] = {}
    for name in dict.fromkeys(instance.accelerator for instance in market.instances):
        for label in request.precision or (None,):
            gpu = tables.accelerators[name]
            own = (
                runtime.running(model.family, gpu) if model.decoder else runtime_on(model, gpu, request.engine, [label])
            )
            weights = runnable(model, own, gpu, label)
            question = EncoderQuestion(model, tower, gpu, own, weights, size, batch=None, audio_s=request.audio_s)
            found.setdefault((name, weights.name), question)
    return tuple(found.values())


def encoder_rows(request: EncoderRequest, choices: EncoderChoices) -> list[InputRow]:
    """The model, its input and what runs it."""
    q, r = choices.model.asked, request
    formats = ", ".join(dict.fromkeys(encoder.weights.name for encoder in choices.model.questions))
    rows: list[InputRow] = [("model", "model", q.model.name, True)]
    if q.tower.takes is Takes.TEXT:
        rows.append(("input tokens", "input_tokens", f"{q.size.tokens:g}", True))
    if r.audio_s is not None:
        rows.append(("audio", "audio_s", f"{r.audio_s:g} s", True))
    if q.model.decoder is not None:
        rows.append(("output tokens", "output_tokens", f"{q.size.output_tokens:g}", r.output_tokens is not None))
        rows.append(("beams", "beams", f"{q.size.beams}", r.beams is not None))
    engines = ", ".join(dict.fromkeys(encoder.runtime.name for encoder in choices.model.questions))
    return [*rows, ("engine", "engine", engines, r.engine), ("weights", "precision", formats, r.precision)]


def service_launches(model: Model, solution: EncoderServeSolution, count: int) -> list[Launch | None]:
    """How a copy of each of the first `count` deployments of a service is started."""
    copies, placements = solution.copies.all, [p.placement for p in solution.ranked[:count]]
    return [
        copy_launch(
            model,
            copies[p.row].question,
            copies[p.row].full_batch,
            per_machine=round(p.replicas / p.instance_count),
            is_service=True,
        )
        for p in placements
    ]


def job_launches(
    model: Model, _: BatchQuestion[Encoder], solution: BatchSolution[EncoderCopies], count: int
) -> list[Launch | None]:
    """How a copy of each of the first `count` deployments of a job is started."""
    copies, batches = solution.copies.all, solution.rates.best_batch
    return [
        copy_launch(model, copies[p.row].question, float(batches[p.row]), per_machine=round(p.replicas / p.machines))
        for p in solution.ranked[:count]
    ]
