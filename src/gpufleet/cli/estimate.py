"""`gpufleet estimate`: how fast a model is on given GPUs, in one layout, under one load."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from gpufleet.cli.emit import emit, format_of, page_width, refuse_targets, write_whole
from gpufleet.cli.options import (
    EngineOption,
    ExplainOption,
    ImagesOption,
    ModelArgument,
    OutFileOption,
    OutputFormat,
    OutputOption,
    VersionOption,
    answer_counts,
    verb,
)
from gpufleet.errors import Infeasible, UsageError
from gpufleet.report.output_stream import remark

if TYPE_CHECKING:
    from gpufleet.report.page import Page
    from gpufleet.results.estimate import ServingEstimate

app = verb()

GpusOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--gpus", metavar="NAME:N", help="GPU and how many, such as H100:8."),
]
PrefillOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        "--prefill",
        metavar="POOL",
        help="In place of --gpus, with --decode: copies that only prefill, such as '2x H100:4 TP4'.",
    ),
]
DecodeOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--decode", metavar="POOL", help="Copies that only decode, such as 'H200:8 DP8 EP8'."),
]
InOption = Annotated[str, typer.Option("--in", metavar="TOKENS", help="Tokens of a prompt: 1000, 8k.")]
OutOption = Annotated[str, typer.Option("--out", metavar="TOKENS", help="Tokens of an answer.")]
ConcurrencyOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--concurrency", metavar="N", help="Load: N clients, each of which sends again once it is answered."),
]
RateOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--rate", metavar="N/TIME", help="Load: Poisson arrivals, such as 2/s."),
]
BatchOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--batch", metavar="N", help="Load: one batch of N, prefilled together."),
]
FullQueueOption = Annotated[bool, typer.Option("--full-queue", help="Load: the queue never empties.")]
RequestsOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        "--requests", metavar="N", help="With --full-queue: N requests wait at once; the last ones leave slots empty."
    ),
]
TpOption = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option("--tp", metavar="N", help="Tensor-parallel size; default: all GPUs that the other options leave."),
]
PpOption = Annotated[int, typer.Option("--pp", metavar="N", help="Pipeline stages.")]
EpOption = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option("--ep", metavar="N", help="GPUs over which whole experts are spread."),
]
AttentionDpOption = Annotated[
    int, typer.Option("--attention-dp", metavar="N", help="Groups of GPUs, each of which attends to its own requests.")
]
PrecisionOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        "--precision", metavar="NAME", help="Format of weights: bf16, fp8, int4; default: the checkpoint's own."
    ),
]
KvOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--kv-precision", metavar="NAME", help="KV cache: bf16, fp16, fp8 or int8."),
]
InstanceOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--instance", metavar="NAME", help="Use the link of this machine, such as g6e.12xlarge."),
]
RooflineOption = Annotated[bool, typer.Option("--roofline", help="Draw both steps under the peaks of a GPU, as text.")]
PictureOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--picture", metavar="OUT.svg", help="Also draw the roofline as a picture."),
]


@app.command()
def estimate(
    model: ModelArgument,
    input_tokens: InOption,
    output_tokens: OutOption,
    gpus: GpusOption = None,
    prefill: PrefillOption = None,
    decode: DecodeOption = None,
    concurrency: ConcurrencyOption = None,
    rate: RateOption = None,
    batch: BatchOption = None,
    full_queue: FullQueueOption = False,
    requests: RequestsOption = None,
    tp: TpOption = None,
    pp: PpOption = 1,
    ep: EpOption = None,
    attention_dp: AttentionDpOption = 1,
    precision: PrecisionOption = None,
    kv_precision: KvOption = None,
    images: ImagesOption = None,
    engine: EngineOption = None,
    engine_version: VersionOption = None,
    instance: InstanceOption = None,
    explain: ExplainOption = False,
    roofline: RooflineOption = False,
    picture: PictureOption = None,
    output: OutputOption = None,
    out_file: OutFileOption = None,
) -> int:
    """TTFT, TPOT and tokens per second of one copy of MODEL under exactly one load, with ranges and a grade."""
    from gpufleet.api.estimates import estimate as estimate_serving
    from gpufleet.inputs.token_counts import parse_token_counts
    from gpufleet.units import parse_count, parse_rate

    chosen = output or format_of(out_file)
    refuse_picture(picture, out_file, model)
    refuse_unclear_load(concurrency, rate, batch, full_queue or None)
    is_drawn = chosen is OutputFormat.SVG
    result = estimate_serving(
        model,
        gpus,
        prefill=prefill,
        decode=decode,
        input_tokens=parse_token_counts(input_tokens),
        output_tokens=answer_counts(output_tokens),
        concurrency=None if concurrency is None else parse_count(concurrency),
        rate=None if rate is None else parse_rate(rate),
        batch=None if batch is None else parse_count(batch),
        full_queue=full_queue,
        requests=None if requests is None else parse_count(requests),
        tp=tp,
        pp=pp,
        ep=ep,
        attention_dp=attention_dp,
        precision=precision,
        kv_precision=kv_precision,
        images=images,
        engine=engine,
        engine_version=engine_version,
        instance=instance,
        explain=explain or roofline or is_drawn or picture is not None,
        launch=gpus is not None,
    )
    write_picture(result, picture)
    emit(result, page_of(result, chosen, explain, roofline or is_drawn), output, out_file)
    return 0 if result.is_held else Infeasible.exit_code


def refuse_unclear_load(*stated: object) -> None:
    """A figure belongs to one kind of load."""
    if sum(load is not None for load in stated) != 1:
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
