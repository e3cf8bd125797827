"""`gpufleet plan`: which machines serve a workload, where, and for how much."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from gpufleet.cli.asking import Typed, asking
from gpufleet.cli.emit import emit, format_of, refuse_targets, write_whole
from gpufleet.cli.grouped_help import GroupedCommand
from gpufleet.cli.market import MarketFlags
from gpufleet.cli.options import (
    ExplainOption,
    MaybeModelArgument,
    OutFileOption,
    OutputFormat,
    OutputOption,
    verb_group,
    words,
)
from gpufleet.cli.progress import replaying
from gpufleet.errors import UsageError
from gpufleet.questions.fields import BATCH, SERVE
from gpufleet.questions.training import FinetuneRequest, TrainRequest, words_of_training
from gpufleet.questions.words import FileUse
from gpufleet.report.output_stream import remark

if TYPE_CHECKING:
    from gpufleet.cli.plan_words import FurtherFlags
    from gpufleet.report.detail import Details
    from gpufleet.results.encoders import EncoderServePlan
    from gpufleet.results.fleet import FleetPlan
    from gpufleet.results.plan import ServePlan


app = verb_group("Machines, layout and price of a workload.")


DRAWN = (OutputFormat.HTML, OutputFormat.SVG)
SeedConfigOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        "--seed-config", metavar="DIR", help="Take machines and prices from configs of the migration analyzer."
    ),
    FileUse.HERE,
]
WhyNotOption = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option(
        "--why-not", metavar="GPU:N,...", help="Explain why these are not the answer: L40S:4, H100, aws:p5.48xlarge."
    ),
]
FlipsOption = Annotated[
    bool,
    typer.Option(
        "--flips", help="Show the nearest price, rate, limit and length at which another row wins; takes seconds."
    ),
]
ParetoOption = Annotated[
    bool, typer.Option("--pareto", help="Show the rows that no other row beats in both cost and latency.")
]
PictureOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--picture", metavar="OUT.svg", help="Also draw cost against latency as a picture."),
    FileUse.WRITTEN,
]
TokenPriceOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        "--token-price",
        metavar="IN/OUT|HOST",
        help="Compare with an API: USD per 1M tokens in and out (0.6/1.2), or a host (together, openrouter).",
    ),
]
GridOption = Annotated[
    Optional[float],  # noqa: UP045
    typer.Option("--grid", metavar="G", min=0, max=2000, help="Emissions of your grid in g CO2 per kWh."),
]
VerifyOption = Annotated[
    bool,
    typer.Option("--verify", help="Replay the requests; size the plan by it, up where a limit breaks and down."),
]
ShowOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        "--show", metavar="PART,...", help="Show these in full: rejected, limits, prices, energy, or all of the answer."
    ),
]


@app.command("serve", cls=GroupedCommand)
@asking(*SERVE, model=MaybeModelArgument)
def serve(
    asked: Typed,
    *,
    seed_config: SeedConfigOption = None,
    market: MarketFlags,
    show: ShowOption = None,
    why_not: WhyNotOption = None,
    flips: FlipsOption = False,
    pareto: ParetoOption = False,
    picture: PictureOption = None,
    token_price: TokenPriceOption = None,
    grid: GridOption = None,
    verify: VerifyOption = False,
    explain: ExplainOption = False,
    output: OutputOption = None,
    out_file: OutFileOption = None,
) -> int:
    """The cheapest machines that serve MODEL at a rate within latency objectives; exit code 3 when none does.

    MODEL writes tokens, or is an encoder of texts, images or audio (BERT, CLIP, Whisper).
    """
    from gpufleet.cli.plan_answers import serve_answer
    from gpufleet.cli.plan_words import ServeFlags
    from gpufleet.report.detail import details_of

    shown = details_of(show)
    flags = ServeFlags(seed_config, market)
    has_front = draws_front(picture, output, out_file)
    asked_beside = further_flags(why_not, flips, pareto, picture, has_front, token_price, grid)
    further = replace(asked_beside, is_verified=verify)
    with replaying(verify):
        plan = serve_answer(asked.words, asked.preferred, asked.workload, flags, further)
    return show_plan(plan, output, out_file, picture, explain, shown, flips, asked.num_rows)


def further_flags(
    why_not: list[str] | None,
    flips: bool,
    pareto: bool,
    picture: str | None,
    has_front: bool,
    token_price: str | None,
    grid: float | None,
) -> FurtherFlags:
    """What is asked beside the answer; a page of HTML has a front that nobody typed."""
    from gpufleet.cli.plan_words import FurtherFlags

    asks_front = pareto or picture is not None
    return FurtherFlags(tuple(words(why_not or ())), flips, pareto or has_front, token_price, grid, asks_front)


def draws_front(picture: str | None, output: OutputFormat | None, out_file: str | None) -> bool:
    """Whether the answer holds a picture of cost against latency: one of its own, or in a page of HTML."""
    refuse_picture(picture, out_file)
    return picture is not None or (output or format_of(out_file)) in DRAWN


def show_plan(
    plan: ServePlan | EncoderServePlan | FleetPlan,
    output: OutputFormat | None,
    out_file: str | None,
    picture: str | None,
    explain: bool,
    shown: Details,
    all_flips: bool,
    num_rows: int | None,
) -> int:
    """The page of a plan where it was asked for; its exit code. A page of HTML explains itself."""
    from gpufleet.cli.plan_pages import serve_page

    write_picture(plan, picture)
    chosen = output or format_of(out_file)
    explained = explain or chosen in DRAWN
    page = serve_page(plan, chosen, explain=explained, details=shown, all_flips=all_flips, num_rows=num_rows)
    emit(plan, page, output, out_file)
    return plan.exit_code


@app.command("batch", cls=GroupedCommand)
@asking(*BATCH, model=MaybeModelArgument)
def batch(
    asked: Typed,
    market: MarketFlags,
    show: ShowOption = None,
    explain: ExplainOption = False,
    output: OutputOption = None,
    out_file: OutFileOption = None,
) -> int:
    """The cheapest machines that get N requests of MODEL done by a deadline; exit code 3 when none does.

    MODEL writes tokens, or is an encoder of texts, images or audio (BERT, CLIP, Whisper).
    """
    from gpufleet.cli.batch_answers import batch_answer
    from gpufleet.cli.plan_pages import batch_page
    from gpufleet.report.detail import details_of

    shown = details_of(show)
    plan = batch_answer(asked.words, asked.preferred, asked.workload, market)
    chosen = output or format_of(out_file)
    explained = explain or chosen in DRAWN
    page = batch_page(plan, chosen, explain=explained, details=shown, num_rows=asked.num_rows)
    emit(plan, page, output, out_file)
    return plan.exit_code


def training(kind: type[TrainRequest] | type[FinetuneRequest], name: str, purpose: str) -> None:
    """Adds the verb that plans one kind of training."""

    def planned(
        asked: Typed,
        market: MarketFlags,
        show: ShowOption = None,
        explain: ExplainOption = False,
        output: OutputOption = None,
        out_file: OutFileOption = None,
    ) -> int:
        from gpufleet.cli.plan_pages import training_page
        from gpufleet.cli.training_answers import training_answer
        from gpufleet.report.detail import details_of

        shown = details_of(show)
        plan = training_answer(kind, asked.words, asked.preferred, asked.workload, market)
        chosen = output or format_of(out_file)
        explained = explain or chosen in DRAWN
        page = training_page(plan, chosen, explain=explained, details=shown, num_rows=asked.num_rows)
        emit(plan, page, output, out_file)
        return plan.exit_code

    planned.__doc__ = purpose
    verb = asking(kind, model=MaybeModelArgument, only=words_of_training(kind))(planned)
    app.command(name, cls=GroupedCommand)(verb)


training(
    TrainRequest,
    "train",
    "The cheapest machines that train all weights of MODEL from nothing; exit code 3 when none does.",
)
training(
    FinetuneRequest,
    "finetune",
    "The cheapest machines that train MODEL further: all weights, LoRA or QLoRA; exit code 3 when none does.",
)


def refuse_picture(picture: str | None, out_file: str | None) -> None:
    """A picture is an SVG file that can be written, and not where the answer goes."""
    if picture is None:
        return
    if not picture.lower().endswith(".svg"):
        raise UsageError("--picture draws SVG alone", found=picture, expected="a file name that ends in .svg")
    refuse_targets([picture, None if out_file == "-" else out_file], [])


def write_picture(plan: ServePlan | EncoderServePlan | FleetPlan, picture: str | None) -> None:
    """The front as a file of its own; plans of several models have none."""
    from gpufleet.results.plan import ServePlan

    if picture is None or not isinstance(plan, ServePlan) or plan.front is None:
        return
    from pathlib import Path

    from gpufleet.report.front import front_picture

    drawn = front_picture(plan, plan.front)
    if drawn is None:
        return
    write_whole(Path(picture), drawn.wide)
    remark(f"wrote {picture}")
