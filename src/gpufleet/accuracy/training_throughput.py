"""Scores tokens per second and GPU of training runs."""

from __future__ import annotations

from gpufleet import api
from gpufleet.accuracy.figures import Comparison, Prediction, Quantity, RowLabels, RowScores, has_failed, stated
from gpufleet.accuracy.models import ModelFinder
from gpufleet.accuracy.serving import REFUSALS
from gpufleet.accuracy.training_cells import group_of, why_not_measured
from gpufleet.accuracy.training_rows import StatedRun, run_of
from gpufleet.errors import UsageError
from gpufleet.inputs.measurements import MeasurementRow
from gpufleet.results.training import TrainingEstimate

TOKENS_PER_S = Quantity("tokens_per_s_per_gpu", "tokens_per_s_per_gpu", "tokens/s")


def score_training_throughput(row: MeasurementRow, file: str, models: ModelFinder) -> RowScores:
    """The rate of a row beside the estimate's, or why the row is not scored."""
    excluded = why_not_scored(row)
    if excluded:
        return RowScores(left_out=excluded)
    compare, ran = Comparison(RowLabels(file, row, group=group_of(row))), not has_failed(row)
    try:
        found = estimate_of(run_of(row, models))
    except REFUSALS as refusal:
        return RowScores([compare.refused(TOKENS_PER_S, refusal, ran=ran, fits=None)], ran=ran)
    if not ran:
        return RowScores([compare.failed(TOKENS_PER_S, fits=found.memory.fits)], ran=False, fits=found.memory.fits)
    return RowScores([compare.scored(TOKENS_PER_S, Prediction.of(found.speed.tokens_per_s_per_gpu))], ran=True)


def why_not_scored(row: MeasurementRow) -> str | None:
    """Why the rate of a row cannot be compared."""
    if not stated(row, [TOKENS_PER_S]):
        return "states no rate"
    return why_not_measured(row) or (None if row.text("seq_len") else "does not state the sequence length")


def estimate_of(run: StatedRun) -> TrainingEstimate:
    """What the api answers for a run; raises what the GPU cannot compute."""
    gpu, formats = run.machine.accelerator, run.recipe.formats
    if not gpu.computes(formats.peak):
        raise UsageError(f"{gpu.name} does not compute in {formats.arithmetic}")
    return api.estimate_training(run.arch, run.recipe, run.layouts, run.machine, software_year=run.software_year)
