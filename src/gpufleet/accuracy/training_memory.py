"""Scores the peak memory of training runs, parts of it that papers count, and runs that ran out of memory."""

from __future__ import annotations

import math
from dataclasses import replace

from gpufleet import api
from gpufleet.accuracy.figures import (
    Comparison,
    Prediction,
    Quantity,
    RowLabels,
    RowScores,
    has_failed,
    remark_on,
    stated,
)
from gpufleet.accuracy.models import ModelFinder
from gpufleet.accuracy.serving import REFUSALS
from gpufleet.accuracy.training_cells import group_of, notes_of, why_not_measured
from gpufleet.accuracy.training_rows import conditions_of, device_bytes_of, model_of, says_reserved
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.network import network_of_gpu
from gpufleet.catalog.training_constants import load_training_memory_constants
from gpufleet.domain.training import TrainingMachine
from gpufleet.inputs.measurements import MeasurementRow
from gpufleet.optimize.training_machines import usual_training_machine
from gpufleet.results.training import TrainingEstimate, TrainingMemoryFigures
from gpufleet.units import GB, GIB, MB, MIB

COLUMN = "peak_mem_gb"
UNITS = {"": ("GB", GB), "gb": ("GB", GB), "gib": ("GiB", GIB), "mb": ("MB", MB), "mib": ("MiB", MIB)}
PEAK, STATES, ACTIVATIONS = "peak_memory", "states", "activations"
NEEDED = {"seq_len": "sequence", "micro_batch": "micro-batch"}
OF_STATES = ("weights", "gradients", "optimizer", "adapters")
STAND_IN = "H100-SXM"
"""Memory does not depend on how fast a GPU computes: every row is asked on this one with the memory of its own."""


def score_training_memory(row: MeasurementRow, file: str, models: ModelFinder) -> RowScores:
    """The memory of a row beside the estimate's, or why the row is not scored."""
    quantity = quantity_of(row)
    excluded = why_not_scored(row, quantity)
    if excluded or quantity is None:
        return RowScores(left_out=excluded)
    compare, ran = Comparison(RowLabels(file, row, group=group_of(row))), not has_failed(row)
    try:
        found = estimate_of(row, models)
    except REFUSALS as refusal:
        return RowScores([compare.refused(quantity, refusal, ran=ran, fits=None)], ran=ran)
    is_judged = quantity.name == PEAK and math.isfinite(found.memory.device_bytes)
    fits = found.memory.fits if is_judged else None
    if not ran:
        return RowScores([compare.failed(quantity, fits=found.memory.fits)], ran=False, fits=fits)
    remarked = replace(compare, remark=None if fits is None else remark_on(ran=True, fits=fits))
    return RowScores([remarked.scored(quantity, reading(row, quantity, found))], ran=True, fits=fits)


def quantity_of(row: MeasurementRow) -> Quantity | None:
    """What a row measures, in the unit that it prints; None for a unit or a part that is not known."""
    unit, notes = UNITS.get(row.text("unit").casefold()), notes_of(row)
    if unit is None:
        return None
    if row.text("status").casefold() != "component" and "component:" not in notes:
        return Quantity(PEAK, COLUMN, *unit)
    part = ACTIVATIONS if "activations" in notes else STATES if "optimizer" in notes else None
    return None if part is None else Quantity(part, COLUMN, *unit)


def why_not_scored(row: MeasurementRow, quantity: Quantity | None) -> str | None:
    """Why the memory of a row cannot be compared."""
    if why := why_not_measured(row):
        return why
    if quantity is None:
        return "states another unit or part than those that are compared"
    if not stated(row, [quantity]):
        return "states no memory"
    missing = [name for column, name in NEEDED.items() if not row.text(column)]
    return f"does not state {' and '.join(missing)}" if missing else None


def estimate_of(row: MeasurementRow, models: ModelFinder) -> TrainingEstimate:
    """What the api answers for a row; raises what the row does not say."""
    device_bytes = device_bytes_of(row, load_catalog())
    arch = model_of(row, models)
    way = conditions_of(row, arch, device_bytes, load_training_memory_constants())
    return api.estimate_training(arch, way.recipe, way.layout, machine_with(device_bytes))


def machine_with(device_bytes: float | None) -> TrainingMachine:
    """A machine whose GPUs have so much memory; None: nobody knows how much, so that everything has room."""
    catalog = load_catalog()
    room = math.inf if device_bytes is None else device_bytes
    gpu = replace(catalog.accelerators[STAND_IN], memory_bytes=room)
    return usual_training_machine(gpu, network_of_gpu(gpu, catalog.instances.values()))


def reading(row: MeasurementRow, quantity: Quantity, found: TrainingEstimate) -> Prediction:
    """Where a quantity stands in an estimate: per GPU, or of all GPUs where the row says so."""
    memory = found.memory
    times = found.num_gpus if "total across gpus" in notes_of(row) else 1
    terms = {term.name: term.value for term in memory.terms}
    if quantity.name == STATES:
        return Prediction(sum(terms.get(name, 0.0) for name in OF_STATES) * times)
    if quantity.name == ACTIVATIONS:
        return Prediction(terms.get("activations", 0.0) * times)
    return peak_of(memory, terms.get("fragmentation", 0.0) if says_reserved(row) else 0.0, times)


def peak_of(memory: TrainingMemoryFigures, beside: float, times: int) -> Prediction:
    """The peak, with what lies beside it."""
    peak = memory.peak_bytes
    low, value, high = ((end or 0.0) + beside for end in (peak.low, peak.value, peak.high))
    return Prediction(value * times, low * times, high * times, peak.grade)
