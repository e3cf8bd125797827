"""Runs of one's own beside what is predicted for them: how many times as long their steps took."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gpufleet.domain.calibration import Calibration
from gpufleet.domain.training import TrainingMachine
from gpufleet.errors import UsageError
from gpufleet.layout.training import Cluster, Grid, training_layouts
from gpufleet.optimize.training_search import TrainingQuestion
from gpufleet.performance.training import step_terms
from gpufleet.performance.training_kernels import KernelModel
from gpufleet.performance.training_time import TrainingTime, tokens_per_s_per_gpu

SLOWEST_RATIO, FASTEST_RATIO, MOST_APART_RATIO = 10.0, 0.2, 2.0
"""Runs of one's own take 0.2 to 10 times as long as predicted, or they were not read as they were meant."""


def fastest_tokens_per_s_per_gpu(
    question: TrainingQuestion, machine: TrainingMachine, num_gpus: int, grid: Grid, calibration: Calibration
) -> float | None:
    """What the fastest layout of the grid trains on so many GPUs; None where the rules allow none   [tokens/s]."""
    cluster, batch = Cluster(0, machine, num_gpus), question.goal.global_batch
    layouts, _ = training_layouts(question.arch, question.recipe, cluster, batch, grid)
    if not len(layouts):
        return None
    model = KernelModel(question.arch, question.recipe, (machine,), calibration)
    time = TrainingTime(model, layouts, question.time, question.software_year)
    return float(tokens_per_s_per_gpu(time, step_terms(time).total).max())


def common_ratio(ratios: Sequence[float], said: str) -> float:
    """The geometric mean of ratios, of which none is out of all proportion and all are about alike."""
    hint = "A run says tokens per second of one GPU; --eager, --precision and --method must be as they were."
    if not FASTEST_RATIO <= min(ratios) <= max(ratios) <= SLOWEST_RATIO:
        found = ", ".join(f"{1 / ratio:.2g}x the predicted speed" for ratio in ratios)
        expected = f"from {1 / SLOWEST_RATIO:g}x to {1 / FASTEST_RATIO:g}x"
        raise UsageError("your own runs are not as fast as any such run", found=found, expected=expected, hint=hint)
    if max(ratios) > min(ratios) * MOST_APART_RATIO:
        raise UsageError("your own runs disagree: one stack has one scale", found=said, hint=hint)
    return math.exp(sum(map(math.log, ratios)) / len(ratios))
