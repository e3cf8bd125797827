"""How our model trains what the seeds mean: its recipe on a GPU, and rows of GPUs, memory and time."""

from __future__ import annotations

from dataclasses import replace

from gpufleet.answers.training_estimate import recipe_words
from gpufleet.catalog.load import Catalog
from gpufleet.compat.rules_today.answer import RuleRow
from gpufleet.compat.rules_today.training_counts import TrainingCounts, seconds_for
from gpufleet.domain.accelerator import Accelerator
from gpufleet.domain.architecture import Architecture
from gpufleet.domain.training import Method, NumberFormats
from gpufleet.domain.training_recipes import recipe_of_words
from gpufleet.records import dataclass
from gpufleet.report.numbers import count, gib, ranged
from gpufleet.results.base import Figure
from gpufleet.results.training import TrainingEstimate
from gpufleet.units import GIB

FULL_FORMATS = {"fp32": "fp32", "bf16": "bf16-mixed", "fp8": "fp8-mixed"}
METHOD_NAMES = {Method.FULL: "all weights", Method.LORA: "LoRA", Method.QLORA: "QLoRA"}
USUAL_SEQUENCE_TOKENS = 4096
RECOMPUTED = {"none": "", "selective": ", attention computed again", "full": ", layers computed again"}
GPUS = "GPUs"
NO_STACK, HELD_BY_NONE = "no training stack runs on", "no number of these GPUs holds it"


@dataclass(frozen=True)
class Trained:
    """A training as a rule asks for it: the model, the precision in the seeds' word, the GPU, the sequence.

    `batch` are the sequences that a GPU works on at once, at most; None leaves that to the search.
    `is_from_nothing`: pre-training on Megatron's rules; else all weights are tuned on PyTorch's, as adapters are.
    """

    tables: Catalog
    arch: Architecture
    gpu: Accelerator
    precision: str = "fp16"
    sequence_tokens: int = USUAL_SEQUENCE_TOKENS
    batch: int | None = None
    is_from_nothing: bool = True

    @property
    def read_tokens(self) -> float:
        """Tokens of a sequence, no more than the model reads."""
        return float(min(self.sequence_tokens, self.arch.max_context_tokens))

    def counts(self, method: Method = Method.FULL) -> TrainingCounts:
        """The search over numbers of these GPUs."""
        starts = self.is_from_nothing and method is Method.FULL
        recipe = recipe_of_words(
            self.arch,
            method,
            sequence_tokens=self.read_tokens,
            rank=None,
            modules=None,
            precision=formats_on(self.gpu, self.precision, method),
            optimizer=None,
            offload=None,
            eager=False,
            is_from_nothing=starts,
        )
        recipe = replace(recipe, formats=computed_on(self.gpu, recipe.formats))
        return TrainingCounts(self.arch, recipe, self.gpu, self.tables, starts, self.batch)

    def words(self, method: Method = Method.FULL) -> str:
        """What is trained, in which formats."""
        return recipe_words(self.counts(method).recipe)


def formats_on(gpu: Accelerator, precision: str, method: Method) -> str:
    """Number formats of a training in a precision of the seeds: mixed where it has 16 bits or fewer.

    Adapters stand beside weights of 16 bits. What a GPU does not compute is trained in 16 bits, which it does.
    """
    half = "bf16" if gpu.computes("bf16") and precision != "fp16" else "fp16"
    if method is not Method.FULL:
        return half
    if precision == "fp8" and not gpu.computes("fp8"):
        return f"{half}-mixed"
    return FULL_FORMATS.get(precision, f"{half}-mixed") if gpu.computes("bf16") or precision == "fp32" else "fp16-mixed"


def computed_on(gpu: Accelerator, formats: NumberFormats) -> NumberFormats:
    """Formats in the arithmetic that a GPU has: where it has no TF32, fp32 is multiplied as such."""
    return replace(formats, arithmetic="fp32") if formats.arithmetic == "tf32" and not gpu.computes("tf32") else formats


def gpus_rows(trained: Trained, seed: float | None = None, before: str = "") -> list[RuleRow]:
    """The fewest GPUs that train all weights, and adapters beside them; the seeds know the first alone."""
    return [
        gpus_row(trained, method, seed if method is Method.FULL else None, f"{before}{name}")
        for method, name in METHOD_NAMES.items()
    ]


def gpus_row(trained: Trained, method: Method, seed: float | None, name: str) -> RuleRow:
    """The fewest GPUs that hold one way to train, with the layout and the memory of each."""
    counts = trained.counts(method)
    found, figure = counts.fewest(), counts.fewest_figure()
    return RuleRow(name=name, unit=GPUS, seed=seed, ours=figure, ours_text=placed_or_not(counts, found))


def placed_or_not(counts: TrainingCounts, found: TrainingEstimate | None, otherwise: str = HELD_BY_NONE) -> str:
    """How GPUs hold a training, or why none do."""
    if not counts.runs:
        return f"{NO_STACK} {counts.accelerator.name} in {counts.recipe.formats.arithmetic}"
    return otherwise if found is None else held(found)


def held(found: TrainingEstimate) -> str:
    """The layout, and the memory of a GPU that it takes."""
    return f"as {layout_words(found)}, {memory_of_each(found)}"


def layout_words(found: TrainingEstimate) -> str:
    """The layout, and what is computed again in it."""
    return found.layout.label + RECOMPUTED[found.layout.recompute]


def memory_of_each(found: TrainingEstimate) -> str:
    """The memory that a step takes of a GPU, with its range."""
    size = found.memory.total_bytes
    return f"{ranged(size.value, size.low, size.high, 'GiB', GIB, digits=3)} of {gib(found.memory.device_bytes)} each"


def gpus_words(found: TrainingEstimate) -> str:
    """So many GPUs in a layout."""
    return f"{count(found.num_gpus)}x {found.gpu} as {layout_words(found)}"


def rate_of(found: TrainingEstimate) -> Figure:
    """Tokens per second of all GPUs together."""
    return times(found.speed.tokens_per_s_per_gpu, found.num_gpus)


def times(figure: Figure, number: float) -> Figure:
    """So many times a figure."""
    low, high = (None if end is None else number * end for end in (figure.low, figure.high))
    return Figure(value=number * figure.value, unit=figure.unit, low=low, high=high, grade=figure.grade)


def time_of(found: TrainingEstimate, tokens: float, unit: str, unit_s: float) -> Figure:
    """The time that so many tokens take, with its range."""
    rate = found.speed.tokens_per_s_per_gpu
    value = seconds_for(found, tokens) / unit_s
    low, high = (None if end is None else value * rate.value / end for end in (rate.high, rate.low))
    return Figure(value=value, unit=unit, low=low, high=high, grade=rate.grade)


def training_notes(trained: Trained) -> list[str]:
    """Where our figures are for other sequences, or other formats, than was asked."""
    notes, formats = [], trained.counts().recipe.formats.name
    if trained.read_tokens != trained.sequence_tokens:
        reads = f"{trained.arch.name} reads {trained.read_tokens:,.0f} tokens at most"
        notes.append(f"{reads}: our figures are for such sequences.")
    if not formats.startswith(trained.precision):
        notes.append(f"{trained.gpu.name} does not train in {trained.precision}: our figures are for {formats}.")
    return notes
