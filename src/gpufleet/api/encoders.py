"""How fast is a model that is not a decoder: sequences, images or audio per second, and latency."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from os import PathLike

from gpufleet.answers.encoder_estimate import encoder_estimate
from gpufleet.api.demands import MOST_TOKENS
from gpufleet.api.envelope import in_full
from gpufleet.api.estimates import MOST_SEQUENCES
from gpufleet.api.launches import checkpoint
from gpufleet.api.spoken import heard
from gpufleet.architecture.encoder_parameters import num_encoder_parameters
from gpufleet.catalog.calibration import calibration_of, load_habits
from gpufleet.catalog.listing import cheapest_on_demand
from gpufleet.catalog.load import Catalog, load_catalog
from gpufleet.catalog.models import shipped_encoder
from gpufleet.catalog.query import resolve_gpu
from gpufleet.catalog.runtimes import chosen_runtime, running_there
from gpufleet.deploy.encoders import EncoderReplica, encoder_launch
from gpufleet.domain.accelerator import Accelerator
from gpufleet.domain.encoder import EncoderModel, Takes, Tower
from gpufleet.domain.precision import BF16, FP16, PRECISIONS, WeightFormat
from gpufleet.domain.precision_labels import LABELS
from gpufleet.domain.runtime import Runtime
from gpufleet.errors import Infeasible, UnknownName, UsageError
from gpufleet.inputs.gpu_request import gpus_said
from gpufleet.inputs.model_config import encoder_asked
from gpufleet.layout.support import runtime_refusal
from gpufleet.memory.encoder import PassSize
from gpufleet.optimize.encoder import EncoderQuestion, solve_encoder
from gpufleet.questions.encode import EncodeRequest
from gpufleet.report.words import sentence
from gpufleet.results.base import Input
from gpufleet.results.catalog import PriceRow
from gpufleet.results.encoder_estimate import EncoderEstimate
from gpufleet.results.launch import Launch
from gpufleet.units import DAY

MOST_BEAMS = 64
LONGEST_AUDIO_S = 30 * DAY


def estimate_encoder(
    model: EncodeRequest | str | PathLike[str] | EncoderModel,
    gpus: str | tuple[str, int] | None = None,
    *,
    input_tokens: float | None = None,
    output_tokens: float | None = None,
    audio_s: float | None = None,
    batch: float | None = None,
    beams: int | None = None,
    precision: str | None = None,
    engine: str | None = None,
    catalog: Catalog | None = None,
) -> EncoderEstimate:
    """Latency, throughput and memory of an encoder (text, image, speech) with ranges, on copies of one GPU.

    `EncodeRequest` (questions.encode) says what each word means, and what stands in for those that are left out.

    >>> e = estimate_encoder("bert-large-uncased", "T4", input_tokens=128, batch=32)
    >>> e.inputs_per_s.low < e.inputs_per_s.value < e.inputs_per_s.high
    True
    """
    asked = heard(
        EncodeRequest,
        model,
        gpus=gpus,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        audio_s=audio_s,
        batch=batch,
        beams=beams,
        precision=precision,
        engine=engine,
    )
    tables, of = load_catalog() if catalog is None else catalog, asked.model
    encoder = encoder_asked(of, shipped_encoder)
    name, number = gpus_said(asked.gpus)
    gpu = resolve_gpu(tables, name)
    profile = runtime_on(encoder, gpu.accelerator, asked.engine, [asked.precision])
    refuse_device(profile, encoder, gpu.accelerator)
    tower = asked_tower(encoder, asked.input_tokens)
    beams = beams_of(encoder, tower, profile, asked.beams)
    question = EncoderQuestion(
        model=encoder,
        tower=tower,
        gpu=gpu.accelerator,
        runtime=profile,
        weights=runnable(encoder, profile, gpu.accelerator, asked.precision),
        size=pass_size(encoder, tower, asked.input_tokens, asked.output_tokens, asked.audio_s, beams),
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


def formats_of(labels: Sequence[str | None]) -> list[str]:
    """Names of the formats that were asked for."""
    return [LABELS.get(label.lower(), label.lower()) for label in labels if label is not None]


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


def runnable(model: EncoderModel, runtime: Runtime, gpu: Accelerator, label: str | None) -> WeightFormat:
    """The asked format where runtime and device run it; the checkpoint's own, with bf16 as fp16 where it must be."""
    name = model.weights.name if label is None else LABELS.get(label.lower(), label.lower())
    if name not in PRECISIONS:
        raise UnknownName("precision", label, runtime.formats, hint=f"Known: {', '.join(runtime.formats)}.")
    if name == BF16.name and label is None and (not gpu.computes("bf16") or BF16.name not in runtime.formats):
        name = FP16.name
    if name not in runtime.formats:
        raise Infeasible(f"{runtime.title} has no kernels for {name}", expected=f"one of {', '.join(runtime.formats)}")
    half = BF16 if gpu.computes("bf16") else FP16
    return WeightFormat.uniform(PRECISIONS[name], half)


def asked_tower(model: EncoderModel, input_tokens: float | None) -> Tower:
    """The tower that the question is about: of two (CLIP), the one for text where tokens are given."""
    text = model.tower_for(Takes.TEXT)
    if input_tokens is None or text is None:
        return model.towers[0]
    return text


def pass_size(
    model: EncoderModel,
    tower: Tower,
    input_tokens: float | None,
    output_tokens: float | None,
    audio_s: float | None,
    beams: int,
) -> PassSize:
    """Tokens of one input and what is written for it, each stated where it has to be and refused where it has none."""
    if tower.takes in (Takes.TEXT, Takes.IMAGE) and audio_s is not None:
        raise UsageError(f"{model.name} takes no audio", found=f"{audio_s:g} s", hint="State --in for a text.")
    if tower.takes is not Takes.TEXT and input_tokens is not None:
        raise UsageError(f"{model.name} takes no text", found=f"{input_tokens:g} tokens")
    answer, beams = checked_answer(model, tower, output_tokens, beams)
    if tower.takes is Takes.TEXT:
        return PassSize(text_tokens(model, tower, input_tokens), 0.0, answer, beams)
    if tower.input_positions is not None:
        checked_audio(audio_s)
        return PassSize(float(tower.fixed_tokens or 0), tower.input_positions, answer, beams)
    if audio_s is None:
        raise UsageError(f"{model.name} takes audio", expected="--audio with its length, such as 10s")
    positions = checked_audio(audio_s) * (tower.positions_per_s or 0.0)
    tokens = tower.tokens_of(positions)
    if not 1 <= tokens <= tower.max_tokens:
        raise UsageError("audio of this length cannot be encoded at once", found=f"{audio_s:g} s")
    return PassSize(tokens, positions, answer, beams)


def text_tokens(model: EncoderModel, tower: Tower, input_tokens: float | None) -> float:
    """Tokens of a text, which no encoder takes beyond its positions."""
    if input_tokens is None:
        raise UsageError(f"{model.name} takes text", expected="--in with the tokens of a sequence, such as 128")
    if not 1 <= input_tokens <= MOST_TOKENS:
        raise UsageError(f"input tokens must be from 1 to {MOST_TOKENS:,}", found=input_tokens)
    if input_tokens > tower.max_tokens and not tower.is_stretchable:
        raise Infeasible(
            f"{model.name} has positions for {tower.max_tokens:,} tokens",
            found=f"{input_tokens:g}",
            hint="Longer texts are cut into pieces of at most that.",
        )
    return float(input_tokens)


def beyond_training(model: EncoderModel, tower: Tower, size: PassSize) -> str | None:
    """A warning where a text is longer than those that the model was trained on."""
    if size.tokens <= tower.max_tokens:
        return None
    return f"{size.tokens:,.0f} tokens are more than the {tower.max_tokens:,} that {model.name} was trained on."


def checked_answer(model: EncoderModel, tower: Tower, output_tokens: float | None, beams: int) -> tuple[float, int]:
    """Tokens that a decoder writes for each input: stated, or those of ordinary speech; nothing without a decoder."""
    if not 1 <= beams <= MOST_BEAMS:
        raise UsageError(f"beams must be from 1 to {MOST_BEAMS}", found=beams)
    if model.decoder is None:
        if output_tokens is not None or beams != 1:
            raise UsageError(f"{model.name} writes no answer", hint="Leave out --out and --beams.")
        return 0.0, 1
    if output_tokens is None:
        if tower.window_s is None:
            raise UsageError(f"{model.name} writes an answer", expected="--out with its tokens")
        output_tokens = load_habits().spoken_tokens_per_s.value * tower.window_s
    longest = MOST_TOKENS if model.decoder.is_stretchable else model.decoder.max_tokens
    if not 1 <= output_tokens <= longest:
        raise UsageError(f"an answer of {model.name} has 1 to {longest:,} tokens", found=output_tokens)
    return float(output_tokens), beams


def checked_audio(audio_s: float | None) -> float:
    """A length of audio: above nothing, and not absurd."""
    if audio_s is None:
        return 0.0
    if not 0 < audio_s <= LONGEST_AUDIO_S:
        raise UsageError("audio must be longer than nothing and shorter than 30 days", found=f"{audio_s:g} s")
    return audio_s


def beams_of(model: EncoderModel, tower: Tower, runtime: Runtime, asked: int | None) -> int:
    """Hypotheses that are kept: as many as were asked for, else those of the runtime where it writes speech."""
    if asked is not None:
        return asked
    writes_speech = model.decoder is not None and tower.window_s is not None
    return runtime.speech.beams if runtime.speech and writes_speech else 1


def checked_batch(batch: float | None, tower: Tower, runtime: Runtime) -> float | None:
    """Inputs of a batch: a whole number that is not absurd, and windows no more than the runtime takes together."""
    most = runtime.speech.most_windows if runtime.speech and tower.window_s is not None else None
    if batch is not None and most is not None and batch > most:
        raise Infeasible(
            f"{runtime.title} takes {most} window of audio at a time",
            found=f"a batch of {batch:g}",
            hint="faster-whisper and transformers take several.",
        )
    if batch is not None and not (1 <= batch <= MOST_SEQUENCES and float(batch).is_integer()):
        raise UsageError(f"the batch must be a whole number from 1 to {MOST_SEQUENCES:,}", found=batch)
    return batch


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


Model = str | PathLike[str] | EncoderModel


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
        is_service=is_service,
        replicas_per_machine=per_machine,
    )
    return encoder_launch(replica)
