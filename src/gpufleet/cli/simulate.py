"""`gpufleet simulate`: requests replayed one by one on copies of a model, or on a plan."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from gpufleet.cli.asking import Typed, asking
from gpufleet.cli.emit import emit, format_of, refuse_targets, write_streamed, write_whole
from gpufleet.cli.grouped_help import GroupedCommand
from gpufleet.cli.interrupts import interrupts_noted
from gpufleet.cli.options import OutFileOption, OutputFormat, OutputOption, model_argument, verb
from gpufleet.cli.progress import progress_bar, telling_of_compiling
from gpufleet.errors import UsageError
from gpufleet.questions.simulation import SimulationRequest
from gpufleet.questions.words import FileUse
from gpufleet.report.output_stream import remark

if TYPE_CHECKING:
    from gpufleet.domain.replay import Replay
    from gpufleet.report.page import Page
    from gpufleet.results.simulation import Simulation

app = verb()

INTERRUPTED = 130

ModelOrPlan = Annotated[
    str,
    model_argument(says="A model as elsewhere; without --gpus the file of a plan (-o json)."),
    FileUse.MAYBE_READ,
]
PerRequestOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        "--per-request",
        metavar="OUT.csv",
        help="Also write every request's times as CSV.",
    ),
    FileUse.WRITTEN,
]
PictureOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        "--picture",
        metavar="OUT.svg",
        help="Also draw the course and the spread of latencies.",
    ),
    FileUse.WRITTEN,
]
ExplainOption = Annotated[bool, typer.Option("--explain", help="Also show every input as it was read.")]


@app.command(cls=GroupedCommand)
@asking(SimulationRequest)
def simulate(
    asked: Typed,
    model: ModelOrPlan,
    per_request: PerRequestOption = None,
    picture: PictureOption = None,
    explain: ExplainOption = False,
    output: OutputOption = None,
    out_file: OutFileOption = None,
) -> int:
    """Replay requests on copies of MODEL, or on a plan: percentiles with ranges, queues, and what bursts do."""
    read = [model, *(asked.words.text(name) for name in ("trace", "rates", "spot_trace"))]
    refuse_files(read, out_file, picture, per_request)
    kept: list[Replay] = []
    result = replayed(asked.request(SimulationRequest, model), kept if per_request is not None else None)
    write_files(result, kept, picture, per_request)
    emit(result, page_of(result, output or format_of(out_file), explain), output, out_file)
    if result.is_partial:
        return INTERRUPTED
    return result.exit_code


def replayed(request: SimulationRequest, kept: list[Replay] | None) -> Simulation:
    """The answer, with a bar while it takes long; Ctrl-C ends the replay, and what is done so far is the answer."""
    from gpufleet.api.simulations import simulate_serving
    from gpufleet.catalog.kept_code import compiles_first

    on_replay = None if kept is None else kept.append
    with interrupts_noted(ends_until_asked=compiles_first()) as should_stop, progress_bar("requests") as on_progress:
        return simulate_serving(
            request, on_progress=telling_of_compiling(on_progress), should_stop=should_stop, on_replay=on_replay
        )


def refuse_files(read: list[str | None], out_file: str | None, picture: str | None, per_request: str | None) -> None:
    """Files that are written must be writable, each another one, and none that is read."""
    if picture is not None and Path(picture).suffix.lower() != ".svg":
        raise UsageError("--picture draws SVG alone", found=picture, expected="a file name that ends in .svg")
    if per_request == "-":
        raise UsageError("--per-request writes a file", found="-", expected="a file name, such as requests.csv")
    targets = [picture, per_request, None if out_file == "-" else out_file]
    refuse_targets(targets, [path for path in read if path is not None])


def write_files(result: Simulation, kept: list[Replay], picture: str | None, per_request: str | None) -> None:
    """The picture and the rows of requests, each whole or not at all."""
    if per_request is not None and kept:
        from gpufleet.report.request_rows import request_rows

        write_streamed(Path(per_request), request_rows(kept[0]))
        remark(f"wrote {per_request}")
    if picture is not None:
        write_picture(result, picture)


def write_picture(result: Simulation, picture: str) -> None:
    """The picture as a file of its own."""
    from gpufleet.report.simulation import simulation_drawing

    drawn = simulation_drawing(result)
    if not drawn:
        remark(f"nothing to draw: {picture} is not written")
        return
    write_whole(Path(picture), drawn)
    remark(f"wrote {picture}")


def page_of(result: Simulation, chosen: OutputFormat, explain: bool) -> Page:
    """What is shown: in CSV the figures alone, in HTML and SVG pictures instead of characters."""
    from gpufleet.report.simulation import simulation_page, simulation_rows_page

    if chosen is OutputFormat.CSV:
        return simulation_rows_page(result)
    is_drawn = chosen in (OutputFormat.HTML, OutputFormat.SVG)
    return simulation_page(result, explain=explain, in_characters=not is_drawn)
