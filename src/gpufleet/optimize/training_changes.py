"""Questions of fitting a training step in words, and what may be asked instead, from the least change on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from gpufleet.domain.accelerator import Accelerator
from gpufleet.domain.architecture import Architecture
from gpufleet.domain.training import Method, Recipe, Recompute
from gpufleet.domain.training_recipes import RECOMPUTES, SHARDINGS, recipe_of_words
from gpufleet.optimize.training_fit import TrainingPlace
from gpufleet.records import dataclass

PURE = {"bf16-mixed": "bf16", "bf16-autocast": "bf16", "fp8-mixed": "bf16", "fp16-mixed": "fp16"}


SHORTEST_SEQUENCE_TOKENS, MULTIPLES = 256, (2, 4, 8)
MOST_CHANGES = 3


CHEAPER_METHODS = {Method.FULL: ("lora", "qlora"), Method.LORA: ("qlora",), Method.QLORA: ()}


RECOMPUTE_NAMES = {int(number): name for name, number in RECOMPUTES.items()}


SHARDING_NAMES = {int(number): name for name, number in SHARDINGS.items() if name not in ("none", "fsdp", "hsdp")}


METHOD_NAMES = {"lora": "LoRA", "qlora": "QLoRA"}


@dataclass(frozen=True, eq=False)
class FitWords:
    """What is trained on which GPUs, in words where words choose a recipe; `None` is what is usual."""

    arch: Architecture
    gpu: Accelerator
    num_gpus: int
    method: Method
    sequence_tokens: float
    layout: Mapping[str, int]
    offload: tuple[str, ...]
    rank: int | None = None
    modules: Sequence[str] | None = None
    precision: str | None = None
    optimizer: str | None = None
    eager: bool = False
    stack: str | None = None

    @property
    def recipe(self) -> Recipe:
        """The recipe of a model that is trained further."""
        return recipe_of_words(
            self.arch,
            self.method,
            sequence_tokens=self.sequence_tokens,
            rank=self.rank,
            modules=self.modules,
            precision=self.precision,
            optimizer=self.optimizer,
            offload=self.offload,
            eager=self.eager,
            is_from_nothing=False,
            stack=self.stack,
        )


@dataclass(frozen=True, eq=False)
class Change:
    """Another question: what differs, the flags that ask it, and its words."""

    change: str
    flag: str
    words: FitWords

    def then(self, other: Change) -> Change:
        """Both changes; the other one starts from the words of this."""
        return Change(f"{self.change}, {other.change}", f"{self.flag} {other.flag}", other.words)


Ladder = list[Change]
"""The same change in steps, of which the first that fits is enough."""


def changes_that_fit(
    words: FitWords, place_of: Callable[[FitWords], TrainingPlace | None]
) -> list[tuple[Change, TrainingPlace]]:
    """Up to three single changes with which it fits; two together where none does alone."""
    return fitting(ladders(words), place_of) or fitting(pairs(words), place_of)


def fitting(
    tried: Iterable[Ladder], place_of: Callable[[FitWords], TrainingPlace | None]
) -> list[tuple[Change, TrainingPlace]]:
    """The first step of each change with which it fits, up to three."""
    found = (first_that_fits(ladder, place_of) for ladder in tried)
    return list(islice(filter(None, found), MOST_CHANGES))


def first_that_fits(
    ladder: Ladder, place_of: Callable[[FitWords], TrainingPlace | None]
) -> tuple[Change, TrainingPlace] | None:
    """The first of these changes with which it fits, where one is."""
    for change in ladder:
        place = place_of(change.words) if has_sense(change.words) else None
        if place is not None and place.fits:
            return change, place
    return None


def has_sense(words: FitWords) -> bool:
    """Whether words mean something together: a rank is that of adapters."""
    return words.method is not Method.FULL or words.rank is None


def ladders(words: FitWords) -> Iterator[Ladder]:
    """Changes from those that change the result least."""
    recipe = words.recipe
    yield from (recomputed(words), smaller_micro_batches(words), lighter_optimizer(words, recipe))
    yield from (pure_precision(words, recipe), shorter_sequences(words), offloaded_optimizer(words), more_gpus(words))
    yield cheaper_methods(words)


def pairs(words: FitWords) -> Iterator[Ladder]:
    """Two changes together: a cheaper method on more GPUs."""
    for method in cheaper_methods(words):
        yield [method.then(more) for more in more_gpus(method.words)]


def recomputed(words: FitWords) -> Ladder:
    """Whole layers are computed again, where the layout said otherwise."""
    if words.layout.get("recompute", Recompute.FULL) == Recompute.FULL:
        return []
    return [relaid(words, "recompute all layers", {"recompute": int(Recompute.FULL)})]


def smaller_micro_batches(words: FitWords) -> Ladder:
    """Halves of a micro-batch that was said; more of them make up for it."""
    size, found = words.layout.get("micro-batch", 1), []
    while size > 1:
        size //= 2
        found.append(relaid(words, f"micro-batch of {size}", {"micro-batch": size}))
    return found


def relaid(words: FitWords, change: str, parts: Mapping[str, int]) -> Change:
    """The same with other parts of the layout."""
    layout = {**words.layout, **parts}
    return Change(change, f"--layout {layout_text(layout)}", replace(words, layout=layout))


def layout_text(layout: Mapping[str, int]) -> str:
    """Parts of a layout as they are typed.

    >>> layout_text({"tp": 2, "recompute": 2, "sharding": 3})
    'tp=2,recompute=full,sharding=zero-3'
    """
    names = {"recompute": RECOMPUTE_NAMES, "sharding": SHARDING_NAMES}
    return ",".join(f"{name}={names[name][v] if name in names else v}" for name, v in layout.items())


def lighter_optimizer(words: FitWords, recipe: Recipe) -> Ladder:
    """States of 8 bits."""
    if recipe.optimizer.name != "adamw":
        return []
    name = "adamw-8bit"
    return [Change("8-bit AdamW", f"--optimizer {name}", replace(words, optimizer=name))]


def pure_precision(words: FitWords, recipe: Recipe) -> Ladder:
    """16 bits alone, without a second copy of the weights."""
    pure = PURE.get(recipe.formats.name)
    if pure is None or not words.gpu.computes(pure):
        return []
    return [Change(f"{pure} alone, no fp32 copy", f"--precision {pure}", replace(words, precision=pure))]


def shorter_sequences(words: FitWords) -> Ladder:
    """Halves of the sequence."""
    tokens, found = int(words.sequence_tokens), []
    while tokens // 2 >= SHORTEST_SEQUENCE_TOKENS:
        tokens //= 2
        found.append(Change(f"sequences of {tokens:,}", f"--seq {tokens}", replace(words, sequence_tokens=tokens)))
    return found


def offloaded_optimizer(words: FitWords) -> Ladder:
    """Optimizer states in host memory."""
    if "optimizer" in words.offload:
        return []
    kept = (*words.offload, "optimizer")
    return [Change("optimizer in host memory", f"--offload {','.join(kept)}", replace(words, offload=kept))]


def more_gpus(words: FitWords) -> Ladder:
    """Twice, four and eight times the GPUs."""
    counts = [words.num_gpus * each for each in MULTIPLES]
    name = words.gpu.name
    return [Change(f"{n}x {name}", f"--gpus {name}:{n}", replace(words, num_gpus=n)) for n in counts]


def cheaper_methods(words: FitWords) -> Ladder:
    """Adapters in place of all weights, then beside weights of 4 bits."""
    return [
        Change(METHOD_NAMES[name], f"--method {name}", replace(words, method=Method(name)))
        for name in CHEAPER_METHODS[words.method]
    ]
