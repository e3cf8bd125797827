"""Usual training software that nobody named: whether its verdict differs from that of what is assumed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gpufleet.api.training_changes import FitWords
from gpufleet.domain.training import Recompute
from gpufleet.domain.verdict import DOES_NOT_FIT
from gpufleet.layout.training import Grid
from gpufleet.optimize.training_fit import TrainingFitQuestion, TrainingPlace, best_place
from gpufleet.records import dataclass
from gpufleet.results.training import OtherStack


@dataclass(frozen=True, eq=False)
class Stack:
    """What is assumed, what runs otherwise, the flag that asks it, and its question."""

    assumed: str
    otherwise: str
    flag: str
    question: TrainingFitQuestion
    is_choice: bool = False


def usual_stacks(words: FitWords, place: TrainingPlace, kept: Grid) -> Iterator[Stack]:
    """Software that takes more than what is assumed, from the least difference on; `kept`: nothing is recomputed."""
    q = place.question
    if q.recipe.compiled:
        whole = replace(q.recipe, chunked_loss=False, fused_loss=False)
        loss = "a fused or chunked loss (Liger, Unsloth)"
        yield Stack(loss, "a stock loss: whole logits in fp32", "", replace(q, recipe=whole))
        eager = replace(q.recipe, compiled=False, chunked_loss=False)
        yield Stack("fused kernels", "a stock trainer, no fused kernels or loss", "--eager", replace(q, recipe=eager))
    recomputes = int(place.layouts.recompute[0]) != Recompute.NONE
    if recomputes and "recompute" not in words.layout:
        again = "gradient checkpointing"
        flag = "--layout recompute=none"
        yield Stack(again, "off, as many trainers have it", flag, replace(q, grid=kept), True)


def other_stacks(words: FitWords, place: TrainingPlace, kept: Grid) -> list[OtherStack]:
    """Usual software in which it does not fit, where it fits in what is assumed."""
    if not place.fits:
        return []
    tried = ((stack, best_place(stack.question)) for stack in usual_stacks(words, place, kept))
    return [other_stack(stack, found) for stack, found in tried if found is not None and not found.fits]


def other_stack(stack: Stack, place: TrainingPlace) -> OtherStack:
    """What other software takes in its best layout."""
    memory = place.memory
    return OtherStack(
        assumed=stack.assumed,
        otherwise=stack.otherwise,
        flag=stack.flag,
        verdict=DOES_NOT_FIT,
        total_bytes=float(memory.total.expected[0]),  # type: ignore[index]
        device_bytes=float(memory.device_bytes[0]),
        is_choice=stack.is_choice,
    )
