"""Usual training software that nobody named: whether it fits where what is assumed does, in a fit and in a plan."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gpufleet.domain.calibration import Calibration
from gpufleet.domain.training import Recompute
from gpufleet.domain.verdict import DOES_NOT_FIT
from gpufleet.layout.training import Grid
from gpufleet.optimize.training import TrainingPlacement
from gpufleet.optimize.training_fit import TrainingFitQuestion, TrainingPlace, best_place
from gpufleet.optimize.training_search import TrainingQuestion
from gpufleet.records import dataclass
from gpufleet.results.training import OtherStack
from gpufleet.units import GIB


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


def other_stacks(q: TrainingFitQuestion, recompute: int, kept: Grid | None) -> list[OtherStack]:
    """Usual software in which no layout fits, of a question that fits in what is assumed."""
    tried = ((stack, best_place(stack.question)) for stack in usual_stacks(q, recompute, kept))
    return [other_stack(stack, found) for stack, found in tried if found is not None and not found.fits]


def other_stacks_of_plan(
    q: TrainingQuestion, best: TrainingPlacement, calibration: Calibration, kept: Grid | None
) -> list[OtherStack]:
    """The same for the machines that a plan chose."""
    rated, goal = best.rated, q.goal
    cluster, layouts = rated.cluster, rated.time.layouts
    asked = TrainingFitQuestion(
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
    return other_stacks(asked, int(layouts.recompute[rated.row]), kept)


def stack_notes(otherwise: list[OtherStack]) -> list[str]:
    """That a plan is tight, and what it rests on; a choice of the layout holds as it stands."""
    parts = [
        f"{stack.assumed}, else ({stack.otherwise}{f', {stack.flag}' if stack.flag else ''}) a GPU needs "
        f"{stack.total_bytes / GIB:.1f} of its {stack.device_bytes / GIB:.1f} GiB"
        for stack in otherwise
        if not stack.is_choice
    ]
    return [f"Warning: tight: it rests on {'; on '.join(parts)}"] if parts else []


def other_stack(stack: Alternative, place: TrainingPlace) -> OtherStack:
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
