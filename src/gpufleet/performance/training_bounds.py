"""How far a predicted training step may lie from a measured one, and how it is known."""

from __future__ import annotations

import numpy as np

from gpufleet.domain.arrays import FloatArray
from gpufleet.performance.training_kernels import WIDE, KernelModel
from gpufleet.performance.training_time import TrainingTime, kernel_generation
from gpufleet.performance.uncertainty import Bounds
from gpufleet.provenance import Grade


def time_bounds(time: TrainingTime) -> Bounds:
    """How far the step of each layout may lie from what is expected: 10th and 90th percentile of measured / predicted.

    ln factor = +- sqrt(runs^2 + kernels^2 + lent^2): runs whose source was left out of the fit; curves that another
    GPU lends; constants of generations without runs. Of steps of one's own `range_ratio` of all is left.   [1]
    """
    c = time.constants
    kind = "experts" if time.arch.is_moe else "adapters" if time.recipe.is_frozen_base else "dense"
    spread = c.spreads[kind]
    ends = np.array([[spread.low or 1.0], [spread.high or 1.0]])
    lent = np.array([lent_log_ratios(time.model, machine) for machine in range(len(time.model.machines))]).T
    squared = np.log(ends) ** 2 + lent**2 + unmeasured_squared(time)
    logs = np.array([[-1.0], [1.0]]) * np.sqrt(squared)
    low, high = np.exp(logs[:, time.layouts.device] * time.range_ratio)
    return Bounds(low, high)


def lent_log_ratios(model: KernelModel, machine: int) -> tuple[float, float]:
    """ln of the ends of measured / predicted of products that another GPU lends; 0 where they were measured."""
    arithmetic = WIDE.get(model.recipe.formats.arithmetic, model.recipe.formats.arithmetic)
    curves = model.curves(np.array([machine]), arithmetic)
    if int(curves.grade[0]) == Grade.MEASURED:
        return 0.0, 0.0
    return -float(np.log(curves.low_ratio[0])), float(np.log(curves.high_ratio[0]))


def unmeasured_squared(time: TrainingTime) -> FloatArray:
    """Squared ln factors of generations on which no run was measured, by end and machine."""
    spread = time.constants.spreads["unmeasured_generation"]
    ends = np.log([[spread.low or 1.0], [spread.high or 1.0]]) ** 2
    unknown = [
        not time.constants.is_measured("sustained", kernel_generation(m.accelerator)) for m in time.model.machines
    ]
    return np.asarray(ends * np.array(unknown))


def grade_of(time: TrainingTime, machine: int) -> Grade:
    """How the time on a machine is known: runs on its generation, else lent; the worst of that and its kernels."""
    of_runs = time.constants.is_measured("sustained", kernel_generation(time.model.machines[machine].accelerator))
    arithmetic = WIDE.get(time.recipe.formats.arithmetic, time.recipe.formats.arithmetic)
    of_kernels = Grade(int(time.model.curves(np.array([machine]), arithmetic).grade[0]))
    return max(of_kernels, Grade.MEASURED if of_runs and not time.arch.is_moe else Grade.TRANSFERRED)
