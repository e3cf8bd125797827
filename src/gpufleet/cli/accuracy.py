"""`gpufleet accuracy`: how far the predictions are from measurements, published or your own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from gpufleet.cli.asking import Typed, asking
from gpufleet.cli.grouped_help import GroupedCommand
from gpufleet.cli.options import OutFileOption, OutputFormat, OutputOption, refuse_workload_file, verb, words
from gpufleet.cli.progress import replaying
from gpufleet.errors import DataMissing, UsageError
from gpufleet.questions.copies import CopyQuestion
from gpufleet.questions.words import FileUse

app = verb()
PICTURE_TITLE = "Measured against predicted"
COLUMN_OF = {
    "gpus": "gpu_id",
    "tp": "tp",
    "pp": "pp",
    "ep": "ep",
    "attention_dp": "attention_dp",
    "precision": "precision",
    "kv_precision": "kv_precision",
    "engine": "engine",
    "engine_version": "engine_version",
    "max_batch": "max_num_seqs",
    "max_step_tokens": "max_num_batched_tokens",
    "memory_fraction": "gpu_memory_fraction",
}
"""Words that say of a run what its file does not, and the column of a measured row that each is."""

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


ColumnsOption = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option(
        "--columns", metavar="IS=NAME,...", help="Columns of your own CSV by what they are: ttft_ms=first_token."
    ),
]
ModelOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        "--model",
        metavar="MODEL",
        help="Model of results that do not say it: a name, a config.json, or the folder of one.",
        callback=refuse_workload_file,
    ),
    FileUse.MAYBE_READ,
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


def said_of(asked: Typed) -> dict[str, str]:
    """What was typed of runs, as the columns of a measured row."""
    from gpufleet.inputs.gpu_request import parse_gpus

    model = asked.words.text("model")
    typed = Typed(asked.words.without("model"), asked.preferred, asked.unsaid).request(CopyQuestion, model or "")
    values = {name: getattr(typed, name) for name in COLUMN_OF if name in typed.said | typed.preferred}
    gpus = values.pop("gpus", None)
    found = {COLUMN_OF[name]: str(value) for name, value in values.items() if value is not None}
    if gpus is not None:
        request = parse_gpus(gpus)
        found |= {"gpu_id": request.name, "num_gpus": str(request.number)}
    return found | ({"model_id": model} if model else {})


def named_columns(texts: list[str]) -> dict[str, str]:
    """Columns of one's own by what they are: 'ttft_ms=first token'."""
    parts = [[part.strip() for part in text.partition("=")] for text in words(texts)]
    unreadable = next(("".join(part) for part in parts if not all(part)), None)
    if unreadable is not None:
        raise UsageError("--columns cannot be read", found=unreadable, expected="IS=NAME, such as ttft_ms=first_token")
    return {ours: theirs for ours, _, theirs in parts}
