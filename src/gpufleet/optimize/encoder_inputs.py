"""What a question to a model that is not a decoder works on: its tower, an input, beams, batch and format, checked."""

from __future__ import annotations

from collections.abc import Sequence

from gpufleet.domain.accelerator import Accelerator
from gpufleet.domain.encoder import EncoderModel, Takes, Tower
from gpufleet.domain.precision import BF16, FP16, PRECISIONS, WeightFormat
from gpufleet.domain.precision_labels import LABELS
from gpufleet.domain.runtime import Runtime
from gpufleet.domain.token_counts import MOST_TOKENS
from gpufleet.errors import Infeasible, UnknownName, UsageError
from gpufleet.memory.encoder import PassSize
from gpufleet.optimize.estimate import MOST_SEQUENCES
from gpufleet.units import DAY

MOST_BEAMS = 64
LONGEST_AUDIO_S = 30 * DAY


def formats_of(labels: Sequence[str | None]) -> list[str]:
    """Names of the formats that were asked for."""
    return [LABELS.get(label.lower(), label.lower()) for label in labels if label is not None]


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
    spoken_tokens_per_s: float,
) -> PassSize:
    """Tokens of one input and what is written for it, each stated where it has to be and refused where it has none."""
    if tower.takes in (Takes.TEXT, Takes.IMAGE) and audio_s is not None:
        raise UsageError(f"{model.name} takes no audio", found=f"{audio_s:g} s", hint="State --in for a text.")
    if tower.takes is not Takes.TEXT and input_tokens is not None:
        raise UsageError(f"{model.name} takes no text", found=f"{input_tokens:g} tokens")
    answer, beams = checked_answer(model, tower, output_tokens, beams, spoken_tokens_per_s)
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


def checked_answer(
    model: EncoderModel, tower: Tower, output_tokens: float | None, beams: int, spoken_tokens_per_s: float
) -> tuple[float, int]:
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
        output_tokens = spoken_tokens_per_s * tower.window_s
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
