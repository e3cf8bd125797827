"""`gpufleet accuracy`: how far the predictions are from measurements, published or your own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from gpufleet.cli.asking import Typed, asking
from gpufleet.cli.grouped_help import GroupedCommand
from gpufleet.cli.options import OutFileOption, OutputFormat, OutputOption, verb
from gpufleet.cli.own_runs import COLUMN_OF, ColumnsOption, ModelOption, named_columns, said_of
from gpufleet.cli.progress import replaying
from gpufleet.errors import DataMissing
from gpufleet.questions.estimate import CopyQuestion
from gpufleet.questions.words import FileUse

app = verb()
PICTURE_TITLE = "Measured against predicted"
FilesArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE",
        help="Results of vllm bench serve, sglang.bench_serving, guidellm, aiperf, llmperf, trtllm-bench or "
        "inference-perf, a CSV of your own runs, a folder of them; or measurements by the header, such as "
        "serving_points or param_counts.",
    ),
    FileUse.READ,
]
ModelsOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--models", metavar="DIR", help="Look a model_id up as DIR/<id>.json before the shipped models."),
    FileUse.HERE,
]
RowsOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--rows", metavar="OUT.csv", help="Also write one line per scored figure."),
    FileUse.WRITTEN,
]
PictureOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--picture", metavar="OUT.svg", help="Also draw measured against predicted."),
    FileUse.WRITTEN,
]
SimulateOption = Annotated[
    bool,
    typer.Option("--simulate", help="Replay rows of serving as they were measured in place of the closed form."),
]
ClosedFormOption = Annotated[
    bool,
    typer.Option("--closed-form", help="Replay no row: score what plans use, a steady state in closed form."),
]


@app.command(cls=GroupedCommand)
@asking(CopyQuestion, model=ModelOption, only=tuple(COLUMN_OF))
def accuracy(
    asked: Typed,
    *,
    file: FilesArgument,
    columns: ColumnsOption = None,
    models: ModelsOption = None,
    rows: RowsOption = None,
    picture: PictureOption = None,
    simulate: SimulateOption = False,
    closed_form: ClosedFormOption = False,
    output: OutputOption = None,
    out_file: OutFileOption = None,
) -> int:
    """Compare predictions with measurements: coverage, errors, bias, and how often the ranges hold; misses first.

    Of results of a benchmark of your own: each run beside what is predicted, whether its range holds, and the side that
    predictions err on.
    """
    from gpufleet.accuracy.panels import accuracy_panels
    from gpufleet.accuracy.score import score_files
    from gpufleet.cli.emit import emit, format_of, refuse_targets, write_whole
    from gpufleet.report.accuracy import (
        accuracy_groups_page,
        accuracy_in_full_page,
        accuracy_page,
        nothing_compared,
        rows_as_csv,
    )
    from gpufleet.report.measured_plot import plot_as_svg
    from gpufleet.report.output_stream import remark
    from gpufleet.report.own_runs import runs_page

    chosen = output or format_of(out_file)
    refuse_targets([rows, picture, None if out_file == "-" else out_file], file)
    with replaying(simulate):
        report = score_files(
            file,
            models,
            simulate=simulate,
            closed_form=closed_form,
            said=said_of(asked),
            columns=named_columns(columns or []),
        )
    if rows is not None:
        write_whole(Path(rows), rows_as_csv(report))
        remark(f"wrote {rows}")
    if picture is not None:
        write_whole(Path(picture), plot_as_svg(accuracy_panels(report), PICTURE_TITLE))
        remark(f"wrote {picture}")
    pages = {OutputFormat.CSV: accuracy_groups_page, OutputFormat.MD: accuracy_in_full_page}
    is_of_runs = all(each.runs for each in report.files)
    emit(report, runs_page(report) if is_of_runs else pages.get(chosen, accuracy_page)(report), chosen, out_file)
    fruitless = nothing_compared(report)
    if fruitless:
        raise DataMissing("; ".join(fruitless))
    return 0
