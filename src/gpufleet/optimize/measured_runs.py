"""Runs of training of one's own beside what is predicted for them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gpufleet.domain.architecture import Architecture
from gpufleet.domain.calibration import Calibration
from gpufleet.domain.own_stack import OwnRun, layout_name
from gpufleet.domain.training import Recipe, TrainingMachine
from gpufleet.domain.training_time import TrainingTimeConstants
from gpufleet.errors import UsageError
from gpufleet.layout.training import Cluster, Grid, training_layouts
from gpufleet.optimize.own_steps import name_of
from gpufleet.performance.training import step_terms
from gpufleet.performance.training_kernels import KernelModel
from gpufleet.performance.training_time import TrainingTime, tokens_per_s_per_gpu
from gpufleet.records import dataclass

SLOWEST_RATIO, FASTEST_RATIO, MOST_APART_RATIO = 10.0, 0.2, 2.0
"""Runs of one's own take 0.2 to 10 times as long as predicted, or they were not read as they were meant."""


@dataclass(frozen=True)
class TrainedAs:
    """What is trained, how, on so many sequences a step, and what its steps are timed by."""

    arch: Architecture
    recipe: Recipe
    global_batch: int
    time: TrainingTimeConstants


def own_step(
    trained: TrainedAs, machine: TrainingMachine, num_gpus: int, grid: Grid, measured: float, calibration: Calibration
) -> OwnRun | None:
    """A run's step over that of the fastest layout of the grid; None where the rules allow none.

    `measured`: tokens per second and GPU.
    """
    arch, recipe = trained.arch, trained.recipe
    layouts, _ = training_layouts(arch, recipe, Cluster(0, machine, num_gpus), trained.global_batch, grid)
    if not len(layouts):
        return None
    time = TrainingTime(KernelModel(arch, recipe, (machine,), calibration), layouts, trained.time)
    predicted = tokens_per_s_per_gpu(time, step_terms(time).total)
    best = int(predicted.argmax())
    layout = layout_name(int(layouts.tp[best]), int(layouts.pp[best]), 1)
    sweep = f"{recipe.sequence_tokens:g}"
    return OwnRun(name_of(arch.name, recipe), layout, sweep, math.log(float(predicted[best]) / measured))


def refuse_strange(runs: Sequence[OwnRun], said: str) -> None:
    """Refuse runs that are out of all proportion, or of which not all are about alike."""
    ratios = [math.exp(run.log_ratio) for run in runs]
    hint = "A run says tokens per second of one GPU; --eager, --precision and --method must be as they were."
    if not FASTEST_RATIO <= min(ratios) <= max(ratios) <= SLOWEST_RATIO:
        found = ", ".join(f"{1 / ratio:.2g}x the predicted speed" for ratio in ratios)
        expected = f"from {1 / SLOWEST_RATIO:g}x to {1 / FASTEST_RATIO:g}x"
        raise UsageError("your own runs are not as fast as any such run", found=found, expected=expected, hint=hint)
    if max(ratios) > min(ratios) * MOST_APART_RATIO:
        raise UsageError("your own runs disagree: one stack has one scale", found=said, hint=hint)
