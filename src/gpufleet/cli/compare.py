"""`gpufleet compare`: two sets of GPUs, machine types or plans, or several models, beside each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Optional

import typer

from gpufleet.ask.side_by_side.words import WORDS, names_model
from gpufleet.cli.asking import Typed, asking
from gpufleet.cli.emit import emit
from gpufleet.cli.grouped_help import GroupedCommand
from gpufleet.cli.market import MarketFlags
from gpufleet.cli.money import write_money_in
from gpufleet.cli.options import EditedOption, OutFileOption, OutputOption, refuse_workload_file, verb
from gpufleet.errors import UsageError
from gpufleet.questions.fields import ServeRequest
from gpufleet.questions.words import FileUse

if TYPE_CHECKING:
    from gpufleet.cli.options import OutputFormat
    from gpufleet.results.comparison import Comparison, FleetComparison

app = verb()

SidesArgument = Annotated[
    list[str],
    typer.Argument(metavar="A B", help="Two of H100:4, L40S, aws:p5.48xlarge; two plans' JSON; or 2 to 8 models."),
    FileUse.MAYBE_READ,
]
ModelOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        "--model",
        metavar="MODEL",
        help="Of two sets of machines: a name, a config.json, or the folder of one.",
        callback=refuse_workload_file,
    ),
    FileUse.MAYBE_READ,
]


@app.command(cls=GroupedCommand)
@asking(ServeRequest, model=ModelOption, only=WORDS)
def compare(
    asked: Typed,
    sides: SidesArgument,
    market: MarketFlags,
    edited: EditedOption = False,
    output: OutputOption = None,
    out_file: OutFileOption = None,
) -> int:
    """Two sets of machines for one model and load, or several models side by side: cost, latency, who is cheaper.

    Exit code 3 where one of them cannot serve.
    """
    from gpufleet.cli.plan_answers import compared, models_compared

    if all(map(is_plan, sides)):
        write_money_in(asked.words.over(asked.preferred).text("currency"))
        return finish(compared_plans(*two(sides), market.catalog_dir, edited=edited), output, out_file)
    if edited:
        raise UsageError("--edited is of plan files alone", found=" and ".join(sides))
    if any(map(is_plan, sides)):
        raise UsageError("a plan is compared with another plan", found=" and ".join(sides))
    if any(map(names_model, sides)):
        from gpufleet.ask.side_by_side.page import models_page

        models = models_compared(asked.words, asked.preferred, asked.workload, sides, market)
        emit(models, models_page(models), output, out_file)
        return models.exit_code
    return finish(compared(asked.words, asked.preferred, asked.workload, two(sides), market), output, out_file)


def two(sides: list[str]) -> tuple[str, str]:
    """The sides of what is compared by twos."""
    if len(sides) != 2:
        expected = "two sets of machines or two plans; models may be up to 8"
        raise UsageError("the number of sides is not two", found=" ".join(sides), expected=expected)
    return sides[0], sides[1]


def is_plan(text: str) -> bool:
    """Whether a side is the file of a plan; the config.json of a model is none."""
    return text.lower().endswith(".json") and not names_model(text)


def compared_plans(first: str, second: str, catalog_dir: str | None, *, edited: bool) -> Comparison | FleetComparison:
    """Two plan files."""
    from gpufleet.api.comparisons import compare_plans
    from gpufleet.catalog.load import load_catalog

    return compare_plans(first, second, load_catalog(catalog_dir), edited=edited)


def finish(result: Comparison | FleetComparison, output: OutputFormat | None, out_file: str | None) -> int:
    """Write the comparison; exit code 3 where a side cannot serve."""
    from gpufleet.report.comparison import comparison_page, fleet_comparison_page
    from gpufleet.results.comparison import Comparison

    page = comparison_page(result) if isinstance(result, Comparison) else fleet_comparison_page(result)
    emit(result, page, output, out_file)
    return result.exit_code
