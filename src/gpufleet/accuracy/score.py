"""Scores measurement files: every row through the api, then the statistics."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from gpufleet.accuracy.clients.read import (
    KIND as RUNS,
)
from gpufleet.accuracy.clients.read import (
    as_measurements,
    doubts_of,
    files_in,
    is_result,
    read_runs,
    read_table,
)
from gpufleet.accuracy.clients.run import Run
from gpufleet.accuracy.figures import Quantity, RowLabels, RowScores, one_line
from gpufleet.accuracy.grouping import all_groups
from gpufleet.accuracy.inference_memory import score_memory
from gpufleet.accuracy.inference_throughput import score_throughput
from gpufleet.accuracy.loaded_rows import replica_row
from gpufleet.accuracy.models import ModelFinder
from gpufleet.accuracy.other_models import score_other_model
from gpufleet.accuracy.param_counts import score_param_counts
from gpufleet.accuracy.pools import replay_disagg_point, score_disagg_point
from gpufleet.accuracy.precisions import weight_precision_of
from gpufleet.accuracy.seen_rows import ROW as ROW_OF_OURS
from gpufleet.accuracy.seen_rows import how_seen
from gpufleet.accuracy.serving import Setup
from gpufleet.accuracy.serving_points import estimate_serving_point, replay_serving_point, score_serving_point
from gpufleet.accuracy.serving_under_load import replay_under_load, score_under_load, steady_under_load
from gpufleet.accuracy.statistics import is_predicted, worst_first
from gpufleet.accuracy.training_memory import score_training_memory
from gpufleet.accuracy.training_throughput import score_training_throughput
from gpufleet.catalog.engines import find_engine
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.query import resolve_gpu
from gpufleet.domain.own_stack import OwnStack, layout_name, model_name
from gpufleet.errors import GpufleetError, UsageError
from gpufleet.inputs.measurements import MeasurementFile, MeasurementRow, read_measurements
from gpufleet.results.accuracy import AccuracyReport, FileAccuracy, ReasonCount, ScoredFigure, ScoredRun, VerdictCounts

Scorer = Callable[[MeasurementRow, str, ModelFinder], RowScores]
SCORERS: Mapping[str, Scorer] = {
    "param_counts": score_param_counts,
    "inference_memory": score_memory,
    "inference_throughput": score_throughput,
    "serving_points": score_serving_point,
    "serving_under_load": score_under_load,
    "serving_points_disagg": score_disagg_point,
    "other_models": score_other_model,
    "training_throughput": score_training_throughput,
    "training_memory": score_training_memory,
    RUNS: score_under_load,
}
REPLAYING: Mapping[str, Scorer] = {
    "serving_points": replay_serving_point,
    "serving_under_load": replay_under_load,
    "serving_points_disagg": replay_disagg_point,
    RUNS: replay_under_load,
}
CLOSED_FORMS: Mapping[str, Scorer] = {
    "serving_points": estimate_serving_point,
    "serving_under_load": steady_under_load,
    RUNS: steady_under_load,
}
REPLAYED_NOTE = (
    "replayed: each row's requests were simulated as they were sent; low and high are the closed form's about its own "
    "figure, applied to the replayed one: what is not known of the hardware and the engine, not how a short run varies"
)
NUM_WORST = 10
NOTHING: Mapping[str, str] = MappingProxyType({})
ROW = Quantity("row", "", "")


def score_files(
    paths: Sequence[str | Path],
    models_folder: str | Path | None = None,
    *,
    simulate: bool = False,
    closed_form: bool = False,
    said: Mapping[str, str] = NOTHING,
    columns: Mapping[str, str] = NOTHING,
    own: OwnStack | None = None,
) -> AccuracyReport:
    """Scores of measurement files and of results of benchmark clients, or of folders of them.

    Models are looked up in `models_folder` before the shipped set. `said` is what results do not say themselves, as
    columns of a row of an engine under load; `columns` names columns of one's own by what they are; `own` is what is
    taken of one's own runs already.

    With `simulate` kinds of files that say how requests came are replayed, with `closed_form` none is: what plans use.
    Without either each row is answered as an estimate of it would be. Other kinds are scored alike.
    """
    if simulate and closed_form:
        raise UsageError("a row is replayed or not", found="both", expected="--simulate or --closed-form")
    models = ModelFinder(None if models_folder is None else Path(models_folder), own)
    scorers = {**SCORERS, **(REPLAYING if simulate else CLOSED_FORMS if closed_form else {})}
    read = [(path, runs_of(path, columns)) for path in files_in(paths)]
    files = [
        (read_measurements(path) if runs is None else as_measurements(path, runs, said), runs) for path, runs in read
    ]
    return AccuracyReport(
        files=[
            with_runs(
                score_file(
                    file,
                    models,
                    scorers[file.kind],
                    is_replayed=simulate and file.kind in REPLAYING,
                    is_closed_form=closed_form and file.kind in CLOSED_FORMS,
                ),
                file,
                runs or [],
                models,
            )
            for file, runs in files
        ]
    )


def runs_of(path: Path, columns: Mapping[str, str]) -> list[Run] | None:
    """The runs of a benchmark in a file; None of a file of measurements."""
    return read_runs(path) if is_result(path) else read_table(path, columns)


def setup_words(row: MeasurementRow, models: ModelFinder) -> dict[str, str]:
    """Where a run was taken, in the words that factors are kept by; nothing where that cannot be read."""
    try:
        setup = Setup.of(replica_row(row), models)
        weights = weight_precision_of(row) or setup.model.weights.name
        gpu = resolve_gpu(load_catalog(), setup.layout.gpu).accelerator.name
        engine = find_engine(setup.engine.name).name
    except GpufleetError:
        return {}
    layout = layout_name(setup.layout.tp, setup.layout.pp, setup.layout.attention_dp)
    model = model_name(setup.model.name, weights)
    return {
        "engine": engine,
        "engine_version": setup.engine.version or "",
        "gpu": gpu,
        "model": model,
        "layout": layout,
    }


def with_runs(scores: FileAccuracy, file: MeasurementFile, runs: Sequence[Run], models: ModelFinder) -> FileAccuracy:
    """The scores of a file with those of each of its runs."""
    of_row: dict[int, list[ScoredFigure]] = {}
    for figure in scores.figures:
        of_row.setdefault(figure.row, []).append(figure)
    told = [
        ScoredRun(
            name=run.name,
            client=run.client,
            figures=of_row.get(row.line, []),
            doubts=doubts_of(run, row),
            lengths=run.lengths,
            clients=run.clients,
            **setup_words(row, models),
        )
        for run, row in zip(runs, file.rows, strict=False)
    ]
    return scores.model_copy(update={"runs": told})


def score_file(
    file: MeasurementFile,
    models: ModelFinder,
    score: Scorer | None = None,
    *,
    is_replayed: bool = False,
    is_closed_form: bool = False,
) -> FileAccuracy:
    """Scores of one file; each row as an estimate of it would be answered, where `score` says nothing else."""
    asked = score or SCORERS[file.kind]
    rows = [marked(score_row(asked, row, file.path, models), file.kind, row) for row in file.rows]
    scored = [row for row in rows if row.left_out is None]
    ran = [figure for row in scored if row.ran is not False for figure in row.figures]
    compared = [figure for row in scored for figure in row.figures if figure.measured is not None]
    covered = [row for row in scored if is_covered(row)]
    return FileAccuracy(
        file=file.path,
        kind=file.kind,
        is_replayed=is_replayed,
        is_closed_form=is_closed_form,
        num_rows=len(rows),
        num_scored_rows=len(scored),
        num_covered_rows=len(covered),
        coverage_ratio=len(covered) / len(scored) if scored else 0.0,
        groups=all_groups(file.kind, compared),
        worst=worst_first(compared, NUM_WORST),
        verdicts=verdict_counts(scored),
        left_out=reason_counts(row.left_out for row in rows),
        without_prediction=reason_counts(map(shared_reason, ran)),
        notes=[*repeated_note(scored), *([REPLAYED_NOTE] if is_replayed else [])],
        figures=[figure for row in rows for figure in row.figures],
    )


def score_row(score: Scorer, row: MeasurementRow, file: str, models: ModelFinder) -> RowScores:
    """Scores of one row; a row that cannot be read has its reason and nothing else."""
    fault = row.fault
    if fault is None:
        try:
            scores = score(row, file, models)
            return replace(scores, left_out=scores.left_out or unreadable(scores))
        except GpufleetError as error:
            fault = one_line(error)
    return RowScores([RowLabels(file, row).figure(ROW, reason=fault)], left_out=fault)


def marked(scores: RowScores, kind: str, row: MeasurementRow) -> RowScores:
    """The figures of a row with what fits have seen of it."""
    seen = how_seen(kind, row)
    return replace(scores, figures=[figure.model_copy(update={"seen": seen}) for figure in scores.figures])


def repeated_note(rows: Sequence[RowScores]) -> list[str]:
    """How many of the rows that were scored are rows that the constants were fitted to, where some are."""
    repeated = sum(any(figure.seen == ROW_OF_OURS for figure in row.figures) for row in rows)
    if not repeated:
        return []
    return [
        f"{repeated:,} of {len(rows):,} scored rows are rows that the constants were fitted to: their errors say less "
        "than those of docs/accuracy.md where whole sources were left out"
    ]


def unreadable(row: RowScores) -> str | None:
    """Why no measurement of a row can be read; None where one can, or where the row says how a run ended."""
    if row.ran is False or not row.figures or any(says_something(figure) for figure in row.figures):
        return None
    return shared_reason(row.figures[0])


def says_something(figure: ScoredFigure) -> bool:
    """Whether a figure is measured, or predicted for a run of which only how it ended is known."""
    return figure.measured is not None or figure.predicted is not None


def is_covered(row: RowScores) -> bool:
    """Whether every figure of a row is predicted; of a run that failed, whether there is a verdict."""
    return row.fits is not None if row.ran is False else all(f.predicted is not None for f in row.figures)


def verdict_counts(rows: Iterable[RowScores]) -> VerdictCounts:
    """Memory verdicts against what happened, over rows with a verdict."""
    counts = Counter((row.ran, row.fits) for row in rows if row.ran is not None and row.fits is not None)
    return VerdictCounts(
        num_ran=counts[True, True] + counts[True, False],
        num_false_does_not_fit=counts[True, False],
        num_failed=counts[False, True] + counts[False, False],
        num_false_fits=counts[False, True],
    )


def reason_counts(reasons: Iterable[str | None]) -> list[ReasonCount]:
    """How often each reason was given, most often first."""
    counts = Counter(reason for reason in reasons if reason is not None)
    return [ReasonCount(reason=reason, count=count) for reason, count in counts.most_common()]


def shared_reason(figure: ScoredFigure) -> str | None:
    """Why a figure has no prediction, without what only this row says: its model's name and what was expected."""
    if is_predicted(figure) or figure.reason is None:
        return None
    general = figure.reason.split(";")[0]
    name = rf"(?<!\w){re.escape(figure.model_id)}(?!\w)"
    return re.sub(name, "the model", general) if figure.model_id else general
