"""Usual training software that nobody named: whether it fits where what is assumed does, in a fit and in a plan."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gpufleet.domain.calibration import Calibration
from gpufleet.domain.training import Recompute
from gpufleet.layout.training import Grid
from gpufleet.optimize.training import TrainingPlacement
from gpufleet.optimize.training_fit import TrainingFitQuestion, TrainingPlace, best_place
from gpufleet.optimize.training_search import TrainingQuestion
from gpufleet.records import dataclass


@dataclass(frozen=True, eq=False)
class Alternative:
    """What is assumed, what runs otherwise, the flag that asks it, and its question."""

    assumed: str
    otherwise: str
    flag: str
    question: TrainingFitQuestion
    is_choice: bool = False


def usual_stacks(q: TrainingFitQuestion, recompute: int, kept: Grid | None) -> Iterator[Alternative]:
    """Software that takes more than what is assumed, from the least difference on.

    `recompute` is what the chosen layout computes again; `kept` lets it compute nothing, None: somebody said what.
    """
    if q.recipe.compiled:
        whole = replace(q.recipe, chunked_loss=False, fused_loss=False)
        loss = "a fused or chunked loss (Liger, Unsloth)"
        yield Alternative(loss, "a stock loss: whole logits in fp32", "", replace(q, recipe=whole))
        eager = replace(q.recipe, compiled=False, chunked_loss=False)
        yield Alternative(
            "fused kernels", "a stock trainer, no fused kernels or loss", "--eager", replace(q, recipe=eager)
        )
    if recompute != Recompute.NONE and kept is not None:
        again = "gradient checkpointing"
        flag = "--layout recompute=none"
        yield Alternative(again, "off, as many trainers have it", flag, replace(q, grid=kept), True)


def stacks_too_large(
    q: TrainingFitQuestion, recompute: int, kept: Grid | None
) -> list[tuple[Alternative, TrainingPlace]]:
    """Usual software in whose best layout a question does not fit that fits in what is assumed."""
    tried = ((stack, best_place(stack.question)) for stack in usual_stacks(q, recompute, kept))
    return [(stack, place) for stack, place in tried if place is not None and not place.fits]


def as_fit(q: TrainingQuestion, best: TrainingPlacement, calibration: Calibration) -> TrainingFitQuestion:
    """Whether a plan fits the machines that it chose, as a question of its own."""
    cluster, goal = best.rated.cluster, q.goal
    return TrainingFitQuestion(
        q.arch,
        q.recipe,
        cluster.machine,
        cluster.num_gpus,
        goal.global_batch,
        q.grid,
        q.time,
        q.memory,
        calibration,
        goal.confidence,
    )
