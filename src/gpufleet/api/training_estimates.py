"""What training is planned for: models, the usual tokens of a step, and one step in one layout on given machines."""

from __future__ import annotations

from gpufleet.answers.training_estimate import training_estimate
from gpufleet.api.envelope import in_full
from gpufleet.architecture.parameters import num_parameters
from gpufleet.catalog.calibration import calibration_of, load_habits
from gpufleet.catalog.load import Catalog, load_catalog
from gpufleet.catalog.models import is_shipped_encoder, shipped_architecture
from gpufleet.catalog.training_constants import load_training_memory_constants
from gpufleet.catalog.training_time import load_training_time
from gpufleet.domain.architecture import Architecture
from gpufleet.domain.training import Recipe, TrainingLayouts, TrainingMachine
from gpufleet.errors import UsageError
from gpufleet.inputs.model_config import is_encoder, read_model
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
    catalog: Catalog | None = None,
) -> TrainingEstimate:
    """The step and the memory of the first of these layouts on so many machines.

    `software_year` dates the software (2024.5), None is not known.
    """
    tables = load_catalog() if catalog is None else catalog
    model = KernelModel(arch, recipe, (machine,), calibration_of(tables))
    time = TrainingTime(model, layouts, load_training_time(), software_year)
    found = training_estimate(time, load_training_memory_constants(), [])
    words = {"model": arch.name, "gpu": machine.accelerator.name, "software_year": software_year}
    return in_full(found, tables, words)


USUAL_PRETRAINED_PARAMETERS, MOST_TIMES_BATCH = 70e9, 4
"""Up to 70B models take the habitual tokens a step (Llama 2, 4M); Llama 3 405B took four times as many at last."""


def trained_model(model: object) -> Architecture:
    """A model that training is planned for: a decoder, by name or path, or as it is."""
    if isinstance(model, Architecture):
        return model
    if is_encoder(str(model), is_shipped_encoder):
        hint = "Encoders, T5, Whisper and image models are planned by 'plan serve' and 'plan batch'."
        raise UsageError(f"{model} is not a decoder: its training is not planned", expected="a decoder", hint=hint)
    return read_model(str(model), shipped_architecture)


def model_notes(arch: Architecture) -> list[str]:
    """What of a model is trained otherwise than most, or is known less of."""
    notes = []
    if arch.vision is not None:
        notes.append("The vision tower is counted in memory as part of the first stage; its own passes are not timed")
    if arch.is_moe:
        notes.append("Mixtures of experts: one framework was measured, its releases differ by up to 77%")
    return [*notes, *arch.notes]


def usual_step_tokens(arch: Architecture, *, is_from_nothing: bool) -> float:
    """Tokens of a step: pre-training takes more for models of more than 70B, up to four times as many."""
    habits = load_habits()
    if not is_from_nothing:
        return habits.fine_tuning_batch_tokens.value
    larger = num_parameters(arch) / USUAL_PRETRAINED_PARAMETERS
    return habits.pretraining_batch_tokens.value * min(max(larger, 1.0), MOST_TIMES_BATCH)
