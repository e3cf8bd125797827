"""One training step in one layout on given machines."""

from __future__ import annotations

from gpufleet.answers.training_estimate import training_estimate
from gpufleet.api.envelope import in_full
from gpufleet.catalog.calibration import calibration_of
from gpufleet.catalog.load import Catalog, load_catalog
from gpufleet.catalog.training_constants import load_training_memory_constants
from gpufleet.catalog.training_time import load_training_time
from gpufleet.domain.architecture import Architecture
from gpufleet.domain.training import Recipe, TrainingLayouts, TrainingMachine
from gpufleet.performance.training_kernels import KernelModel
from gpufleet.performance.training_time import TrainingTime
from gpufleet.results.training import TrainingEstimate


def estimate_training(
    arch: Architecture,
    recipe: Recipe,
    layouts: TrainingLayouts,
    machine: TrainingMachine,
    *,
    software_year: float | None = None,
    measured_ratio: float = 1.0,
    catalog: Catalog | None = None,
) -> TrainingEstimate:
    """The step and the memory of the first of these layouts on so many machines.

    `software_year` dates the software (2024.5), None is not known; `measured_ratio`: how many times as long steps of
    one's own took as is predicted for them.
    """
    tables = load_catalog() if catalog is None else catalog
    model = KernelModel(arch, recipe, (machine,), calibration_of(tables))
    time = TrainingTime(model, layouts, load_training_time(), software_year, measured_ratio)
    found = training_estimate(time, load_training_memory_constants(), [])
    words = {"model": arch.name, "gpu": machine.accelerator.name, "software_year": software_year}
    return in_full(found, tables, words)
