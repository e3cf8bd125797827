"""`gpufleet compare`: two sets of GPUs, machine types or plans beside each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Optional

import typer

from gpufleet.cli.asking import Typed, asking
from gpufleet.cli.emit import emit
from gpufleet.cli.grouped_help import GroupedCommand
from gpufleet.cli.market import MarketFlags
from gpufleet.cli.money import write_money_in
from gpufleet.cli.options import EditedOption, OutFileOption, OutputOption, refuse_workload_file, verb
from gpufleet.errors import UsageError
from gpufleet.questions.fields import ServeRequest

if TYPE_CHECKING:
    from gpufleet.cli.options import OutputFormat
    from gpufleet.results.comparison import Comparison, FleetComparison

app = verb()

FirstArgument = Annotated[str, typer.Argument(metavar="A", help="H100:4, L40S, aws:p5.48xlarge, or a plan's JSON.")]
SecondArgument = Annotated[str, typer.Argument(metavar="B", help="The same for the other side.")]
ModelOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        "--model", metavar="MODEL", help="A name, a config.json, or the folder of one.", callback=refuse_workload_file
    ),
]
COMPARED = (
    "rate", "in", "out", "slo", "workload", "clouds", "providers", "regions", "pricing", "precision", "engine",
    "headroom", "fractions", "currency",
)  # fmt: skip


@app.command(cls=GroupedCommand)
@asking(ServeRequest, model=ModelOption, only=COMPARED)
def compare(
    asked: Typed,
    first: FirstArgument,
    second: SecondArgument,
    market: MarketFlags,
    edited: EditedOption = False,
    output: OutputOption = None,
    out_file: OutFileOption = None,
) -> int:
    """Two setups for a model and load: cost, latency, throughput, memory slack, and which is cheaper at which rate."""
    from gpufleet.cli.plan_answers import compared

    if is_plan(first) and is_plan(second):
        write_money_in(asked.words.over(asked.preferred).text("currency"))
        return finish(compared_plans(first, second, market.catalog_dir, edited=edited), output, out_file)
    if edited:
        raise UsageError("--edited is of plan files alone", found=f"{first} and {second}")
    if is_plan(first) or is_plan(second):
        raise UsageError("a plan is compared with another plan", found=f"{first} and {second}")
    result = compared(asked.words, asked.preferred, asked.workload, (first, second), market)
    return finish(result, output, out_file)


def is_plan(text: str) -> bool:
    """Whether a side is the file of a plan."""
    return text.lower().endswith(".json")


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
