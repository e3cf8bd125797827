"""What plans of models that are not decoders have in common: the model, its input, and the GPUs it may run on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Protocol

from gpufleet.api.demands import Said
from gpufleet.api.encoders import (
    DEFAULT_ENGINE,
    asked_tower,
    beams_of,
    beyond_training,
    pass_size,
    runnable,
)
from gpufleet.api.market import Market, Wishes, market_of
from gpufleet.api.plans import refuse_rows
from gpufleet.catalog.load import Catalog
from gpufleet.catalog.models import shipped_encoder
from gpufleet.catalog.runtimes import find_runtime
from gpufleet.domain.encoder import EncoderModel, Takes, Tower
from gpufleet.domain.runtime import Runtime
from gpufleet.inputs.model_config import read_encoder
from gpufleet.memory.encoder import PassSize
from gpufleet.optimize.encoder import EncoderQuestion

OF_CPU = "on the CPU is not in these figures"
NOT_TIMED = {
    Takes.IMAGE: f"Decoding and scaling images {OF_CPU}",
    Takes.WINDOW: f"Reading audio and making mel frames {OF_CPU}",
    Takes.AUDIO: f"Reading audio {OF_CPU}",
}


class EncoderWishes(Wishes, Said, Protocol):
    """What a request says of an encoder, of one input and of what runs it; None takes the default."""

    @property
    def model(self) -> str | PathLike[str] | EncoderModel:
        """The model, or what names it."""

    @property
    def input_tokens(self) -> float | None:
        """Tokens of a text."""

    @property
    def output_tokens(self) -> float | None:
        """Tokens that a decoder writes for each input."""

    @property
    def audio_s(self) -> float | None:
        """Seconds of a recording."""

    @property
    def beams(self) -> int | None:
        """Hypotheses that a decoder keeps; those of the engine unless said."""

    @property
    def precision(self) -> Sequence[str] | None:
        """Formats that are allowed; the checkpoint's own unless said."""

    @property
    def engine(self) -> str | None:
        """What runs the model."""

    @property
    def rows(self) -> int:
        """Rows of the ranking."""


@dataclass(frozen=True, eq=False)
class EncoderChoices:
    """The model on each GPU that may be rented, where it may be rented, and notes on how things were read."""

    encoders: tuple[EncoderQuestion, ...]
    market: Market
    notes: tuple[str, ...]

    @property
    def any_encoder(self) -> EncoderQuestion:
        """The model, its input and its engine, which are the same on every GPU."""
        return self.encoders[0]


def encoder_choices(wishes: EncoderWishes, tables: Catalog) -> EncoderChoices:
    """Names resolved, input checked, and the copies that may be tried on each GPU."""
    refuse_rows(wishes.rows)
    model = encoder_of(wishes.model)
    runtime = find_runtime(DEFAULT_ENGINE if wishes.engine is None else wishes.engine)
    tower = asked_tower(model, wishes.input_tokens)
    beams = beams_of(model, tower, runtime, wishes.beams)
    size = pass_size(model, tower, wishes.input_tokens, wishes.output_tokens, wishes.audio_s, beams)
    market = market_of(wishes, tables)
    encoders = on_every_gpu(model, tower, runtime, size, wishes, market, tables)
    said = filter(None, [beyond_training(model, tower, size), not_timed(tower, runtime)])
    return EncoderChoices(encoders, market, (*market.notes, *said, *model.notes))


def not_timed(tower: Tower, runtime: Runtime) -> str | None:
    """What the CPU does with an input and no time is counted for; recordings are read in time where it was fitted."""
    is_timed = tower.takes is Takes.WINDOW and runtime.speech is not None
    return None if is_timed else NOT_TIMED.get(tower.takes)


def encoder_of(model: str | PathLike[str] | EncoderModel) -> EncoderModel:
    """The model of a request, read where it is a name or a path."""
    return model if isinstance(model, EncoderModel) else read_encoder(str(model), shipped_encoder)


def on_every_gpu(
    model: EncoderModel,
    tower: Tower,
    runtime: Runtime,
    size: PassSize,
    wishes: EncoderWishes,
    market: Market,
    tables: Catalog,
) -> tuple[EncoderQuestion, ...]:
    """The model in every allowed format on every GPU that a machine type has, each pair once."""
    found: dict[tuple[str, str], EncoderQuestion] = {}
    for name in dict.fromkeys(instance.accelerator for instance in market.instances):
        for label in wishes.precision or (None,):
            gpu = tables.accelerators[name]
            weights = runnable(model, runtime, gpu, label)
            question = EncoderQuestion(model, tower, gpu, runtime, weights, size, batch=None, audio_s=wishes.audio_s)
            found.setdefault((name, weights.name), question)
    return tuple(found.values())


def encoder_rows(wishes: EncoderWishes, choices: EncoderChoices) -> list[tuple[str, str, str, object]]:
    """(name, field, value, whether it was stated) of the model, its input and what runs it."""
    q, w = choices.any_encoder, wishes
    formats = ", ".join(dict.fromkeys(encoder.weights.name for encoder in choices.encoders))
    rows: list[tuple[str, str, str, object]] = [("model", "model", q.model.name, True)]
    if q.tower.takes is Takes.TEXT:
        rows.append(("input tokens", "input_tokens", f"{q.size.tokens:g}", True))
    if w.audio_s is not None:
        rows.append(("audio", "audio", f"{w.audio_s:g} s", True))
    if q.model.decoder is not None:
        rows.append(("output tokens", "output_tokens", f"{q.size.output_tokens:g}", w.output_tokens is not None))
        rows.append(("beams", "beams", f"{q.size.beams}", w.beams is not None))
    return [*rows, ("engine", "engine", q.runtime.name, w.engine), ("weights", "precision", formats, w.precision)]
