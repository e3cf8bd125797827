"""Whether the GPUs of a classic setup hold a training, how fast they are, and how many of them would hold it."""

from __future__ import annotations

from functools import lru_cache

from gpufleet.catalog.load import load_catalog
from gpufleet.compat.classic.arithmetic import Setup
from gpufleet.compat.classic.lines import plural
from gpufleet.compat.classic.names import WorkloadType
from gpufleet.compat.classic.options import GPU_COUNTS, Question
from gpufleet.compat.classic.verdicts import Finding
from gpufleet.compat.rules_today.trained import (
    METHOD_NAMES,
    USUAL_SEQUENCE_TOKENS,
    Trained,
    held,
    layout_words,
    memory_of_each,
    rate_of,
)
from gpufleet.domain.accelerator import Accelerator
from gpufleet.domain.architecture import Architecture
from gpufleet.domain.training import Method
from gpufleet.domain.verdict import TIGHT
from gpufleet.records import dataclass
from gpufleet.results.training import TrainingEstimate


@dataclass(frozen=True)
class TrainedModel:
    """A model that is trained from nothing or tuned, in a precision of the configs."""

    arch: Architecture
    precision: str
    is_from_nothing: bool

    @classmethod
    def of(cls, question: Question, arch: Architecture) -> TrainedModel:
        """What a question trains: all weights, as the analyzer's own rule has it for fine-tuning too."""
        return cls(arch, question.precision.key.casefold(), question.work is WorkloadType.TRAINING)

    def on(self, gpu: Accelerator) -> Trained:
        """This training on GPUs of a kind."""
        return Trained(load_catalog(), self.arch, gpu, self.precision, is_from_nothing=self.is_from_nothing)


def trained(question: Question, arch: Architecture, setup: Setup, gpu: Accelerator) -> Finding:
    """What a setup's GPUs do in a training; where they do not hold it, how many would."""
    model, work = TrainedModel.of(question, arch), question.work.title
    found = fastest_on(model, gpu.name, setup.gpu_count)
    if found is None:
        refused = f"does not fit: {work} of all weights takes {fewest_words(model, gpu)}"
        return Finding(f"{refused}{adapters_words(model, gpu, setup.gpu_count)}.", fails=(refused,))
    rate = rate_of(found)
    speed = f"{rate.value:,.0f} tokens/s ({rate.low:,.0f} to {rate.high:,.0f}, {rate.grade})"
    line = f"{work} fits as {layout_words(found)}: {memory_of_each(found)}, {speed}."
    tight = ": tight, its high end does not fit" if found.memory.verdict == TIGHT else ""
    room = f"holds {work} as {found.layout.label} at {rate.value:,.0f} tokens/s, {memory_of_each(found)}{tight}"
    return Finding(line, tokens_per_s=rate.value, room=room)


def fewest_line(question: Question, arch: Architecture, gpu: Accelerator | None) -> str:
    """The fewest of today's GPUs that train all weights, and adapters."""
    if gpu is None:
        return "How many of today's GPUs would hold it is unknown: the catalog does not have them."
    model = TrainedModel.of(question, arch)
    found = {name: fewest_on(model, gpu.name, method) for method, name in METHOD_NAMES.items()}
    parts = [f"{name} on {each.num_gpus}x {gpu.name} {held(each)}" for name, each in found.items() if each]
    return f"Fewest of today's GPUs that hold it: {'; '.join(parts) or 'no number of them does'}."


def training_assumed(question: Question, arch: Architecture) -> str:
    """What of a training the configs do not say."""
    kind = "pre-training" if question.work is WorkloadType.TRAINING else "fine-tuning"
    length = min(USUAL_SEQUENCE_TOKENS, arch.max_context_tokens)
    formats = "fp32" if question.precision.key.casefold() == "fp32" else "mixed precision"
    return f"{kind} of all weights in {formats}, AdamW, sequences of {length:,} tokens"


def fewest_words(model: TrainedModel, gpu: Accelerator) -> str:
    """The fewest GPUs that hold a training of all weights."""
    found = fewest_on(model, gpu.name, Method.FULL)
    return f"{found.num_gpus}x {gpu.name}" if found else f"more {gpu.name} than any run has"


def adapters_words(model: TrainedModel, gpu: Accelerator, gpu_count: int) -> str:
    """What the GPUs of a setup hold instead."""
    fewest = {method: fewest_on(model, gpu.name, method) for method in (Method.LORA, Method.QLORA)}
    holding = [METHOD_NAMES[method] for method, each in fewest.items() if each and each.num_gpus <= gpu_count]
    return f"; {plural(gpu_count, 'GPU')} hold{'s' * (gpu_count == 1)} {holding[0]}" if holding else ""


@lru_cache(maxsize=4096)
def fastest_on(model: TrainedModel, gpu: str, gpu_count: int) -> TrainingEstimate | None:
    """The fastest layout that so many GPUs hold, of all weights; the last of them stay idle where no layout takes all.

    Fewer GPUs than half of the fewest that hold it are not searched.
    """
    least = fewest_on(model, gpu, Method.FULL)
    if least is None or 2 * gpu_count < least.num_gpus:
        return None
    counts = model.on(load_catalog().accelerators[gpu]).counts()
    some = max((power for power in (1 << n for n in range(14)) if power < gpu_count), default=gpu_count)
    return counts.fastest(gpu_count) or counts.fastest(some)


@lru_cache(maxsize=1024)
def fewest_on(model: TrainedModel, gpu: str, method: Method) -> TrainingEstimate | None:
    """The fewest GPUs that hold one way to train: of the counts that options have, beyond them doubling."""
    counts = model.on(load_catalog().accelerators[gpu]).counts(method)
    found = counts.fewest()
    if found is None:
        return None
    between = (count for count in GPU_COUNTS if found.num_gpus / 2 < count < found.num_gpus)
    return next((fewer for count in between if (fewer := counts.fastest(count))), found)
