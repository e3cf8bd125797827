"""`gpufleet estimate`: how fast a model is on given GPUs, in one layout, under one load."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from gpufleet.cli.asking import Typed, asking
from gpufleet.cli.emit import emit, format_of, page_width, refuse_targets, write_whole
from gpufleet.cli.options import (
    ExplainOption,
    ModelArgument,
    OutFileOption,
    OutputFormat,
    OutputOption,
    verb,
)
from gpufleet.cli.progress import replaying
from gpufleet.errors import UsageError
from gpufleet.questions.estimate import TYPED, EstimateRequest
from gpufleet.questions.words import FileUse
from gpufleet.report.output_stream import remark

if TYPE_CHECKING:
    from gpufleet.report.page import Page
    from gpufleet.results.estimate import ServingEstimate

app = verb()

LOADS = ("concurrency", "rate", "batch", "full_queue")

RooflineOption = Annotated[bool, typer.Option("--roofline", help="Draw both steps under the peaks of a GPU, as text.")]
PictureOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--picture", metavar="OUT.svg", help="Also draw the roofline as a picture."),
    FileUse.WRITTEN,
]


@app.command()
@asking(EstimateRequest, only=TYPED)
def estimate(
    asked: Typed,
    model: ModelArgument,
    explain: ExplainOption = False,
    roofline: RooflineOption = False,
    picture: PictureOption = None,
    output: OutputOption = None,
    out_file: OutFileOption = None,
) -> int:
    """TTFT, TPOT and tokens per second of one copy of MODEL under exactly one load, with ranges and a grade."""
    from gpufleet.api.estimates import estimate as estimate_serving

    chosen = output or format_of(out_file)
    refuse_picture(picture, out_file, model)
    refuse_unclear_load(asked)
    is_drawn = chosen is OutputFormat.SVG
    request = asked.request(EstimateRequest, model)
    is_explained = explain or roofline or is_drawn or picture is not None
    with replaying(request.requests is not None):
        result = estimate_serving(request, explain=is_explained)
    write_picture(result, picture)
    emit(result, page_of(result, chosen, explain, roofline or is_drawn), output, out_file)
    return result.exit_code


def refuse_unclear_load(asked: Typed) -> None:
    """A figure belongs to one kind of load."""
    if sum(asked.words.text(load) is not None for load in LOADS) != 1:
        expected = "exactly one of --concurrency N, --rate N/TIME, --batch N and --full-queue"
        raise UsageError("state one load", expected=expected)


def refuse_picture(picture: str | None, out_file: str | None, model: str) -> None:
    """A picture is an SVG file that can be written, and not where the answer goes or the model is read."""
    if picture is None:
        return
    if Path(picture).suffix.lower() != ".svg":
        raise UsageError("--picture draws SVG alone", found=picture, expected="a file name that ends in .svg")
    refuse_targets([picture, None if out_file == "-" else out_file], [model])


def write_picture(result: ServingEstimate, picture: str | None) -> None:
    """The roofline as a file of its own."""
    if picture is None:
        return
    from gpufleet.report.estimate import estimate_roofline_svg

    write_whole(Path(picture), estimate_roofline_svg(result))
    remark(f"wrote {picture}")


def page_of(result: ServingEstimate, chosen: OutputFormat, explain: bool, roofline: bool) -> Page:
    """What is shown: in CSV the figures alone, or the operations where they are asked for."""
    from gpufleet.report.estimate import estimate_page, estimate_rows_page

    if chosen is OutputFormat.CSV:
        return estimate_rows_page(result, explain=explain)
    return estimate_page(result, explain=explain, roofline=roofline, width=page_width())
