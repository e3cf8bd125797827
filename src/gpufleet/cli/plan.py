"""`gpufleet plan`: which machines serve a workload, where, and for how much."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from gpufleet.cli.emit import emit, format_of, page_width, refuse_targets, write_whole
from gpufleet.cli.options import ExplainOption, OutFileOption, OutputFormat, OutputOption, verb_group, words
from gpufleet.cli.output_stream import remark
from gpufleet.errors import Infeasible, UsageError

if TYPE_CHECKING:
    from gpufleet.report.page import Page
    from gpufleet.results.plan import ServePlan

app = verb_group("Machines, layout and price of a workload.")

UNBOUNDED_WIDTH = 1000


class Show(str, Enum):
    """What is shown in full."""

    REJECTED = "rejected"


ModelArgument = Annotated[
    Optional[str],  # noqa: UP045
    typer.Argument(metavar="MODEL", help="A name, a config.json, or the folder of one.", show_default=False),
]
RateOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--rate", metavar="N/TIME", help="Requests: 50/s, 3000/min; Poisson arrivals."),
]
InOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--in", metavar="TOKENS", help="Tokens of a prompt: 1000, 8k."),
]
OutOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--out", metavar="TOKENS", help="Tokens of an answer."),
]
SloOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--slo", metavar="LIMITS", help="Objectives, such as 'ttft.p95<500ms,tpot.p95<40ms'."),
]
WorkloadOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--workload", metavar="FILE.yaml", help="Read these words from a file; a flag replaces its value."),
]
CloudsOption = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option("--clouds", "--cloud", metavar="NAME,...", help="Only these clouds, such as aws,gcp."),
]
RegionsOption = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option("--regions", "--region", metavar="NAME,...", help="Only these regions."),
]
PricingOption = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option("--pricing", metavar="KIND,...", help="on_demand (default), spot, ..."),
]
GpusOption = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option("--gpus", "--gpu", metavar="NAME,...", help="Only these GPUs, without a count: H100,L40S."),
]
PrecisionOption = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option("--precision", metavar="NAME,...", help="Weights: fp8,int4; by default the checkpoint's own."),
]
LowerOption = Annotated[
    bool, typer.Option("--allow-lower-precision", help="Also fp8, nvfp4 and int4 weights; says what they cost.")
]
KvOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--kv-precision", metavar="NAME", help="KV cache: bf16, fp16, fp8, int8."),
]
EngineOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--engine", metavar="NAME", help="vllm (default), sglang, tensorrt-llm, or all of them."),
]
HeadroomOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--headroom", metavar="SHARE", help="Capacity beyond the rate; 20% unless said."),
]
ReplicasOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--min-replicas", metavar="N", help="At least N copies of the model."),
]
RowsOption = Annotated[int, typer.Option("--rows", metavar="N", min=1, max=1000, help="Rows of the ranking.")]
SeedConfigOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--seed-config", metavar="DIR", help="Machines and prices from configs of the migration analyzer."),
]
WhyNotOption = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option("--why-not", metavar="GPU:N,...", help="Why these are not the answer: L40S:4, H100, aws:p5.48xlarge."),
]
FlipsOption = Annotated[
    bool, typer.Option("--flips", help="The nearest price, rate, limit and length at which another row wins (seconds).")
]
ParetoOption = Annotated[bool, typer.Option("--pareto", help="Cost against latency: what none beats in both.")]
PictureOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--picture", metavar="OUT.svg", help="Also draw cost against latency as a picture."),
]
TokenPriceOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--token-price", metavar="IN/OUT", help="Beside an API of this price, USD per 1M tokens: 0.6/1.2."),
]
GridOption = Annotated[
    Optional[float],  # noqa: UP045
    typer.Option("--grid", metavar="G", min=0, max=2000, help="Emissions of your grid in g CO2 per kWh."),
]
ShowOption = Annotated[
    Optional[Show],  # noqa: UP045
    typer.Option("--show", help="All reasons for rejections."),
]


@app.command("serve")
def serve(
    model: ModelArgument = None,
    rate: RateOption = None,
    input_tokens: InOption = None,
    output_tokens: OutOption = None,
    slo: SloOption = None,
    workload: WorkloadOption = None,
    clouds: CloudsOption = None,
    regions: RegionsOption = None,
    pricing: PricingOption = None,
    gpus: GpusOption = None,
    precision: PrecisionOption = None,
    allow_lower_precision: LowerOption = False,
    kv_precision: KvOption = None,
    engine: EngineOption = None,
    headroom: HeadroomOption = None,
    min_replicas: ReplicasOption = None,
    rows: RowsOption = 10,
    seed_config: SeedConfigOption = None,
    show: ShowOption = None,
    why_not: WhyNotOption = None,
    flips: FlipsOption = False,
    pareto: ParetoOption = False,
    picture: PictureOption = None,
    token_price: TokenPriceOption = None,
    grid: GridOption = None,
    explain: ExplainOption = False,
    output: OutputOption = None,
    out_file: OutFileOption = None,
) -> int:
    """The cheapest machines that serve MODEL at a rate within latency objectives; exit code 3 when none does."""
    from gpufleet.cli.plan_answers import FurtherFlags, ServeFlags, serve_answer
    from gpufleet.inputs.workload import WorkloadFile

    typed = WorkloadFile(
        model, engine, rate, input_tokens, output_tokens, slo, listed(precision), listed(clouds), listed(regions),
        listed(gpus), listed(pricing), headroom, min_replicas,
    )  # fmt: skip
    chosen = output or format_of(out_file)
    refuse_picture(picture, out_file)
    draws = pareto or picture is not None or chosen is OutputFormat.HTML
    further = FurtherFlags(listed(why_not) or (), flips, draws, token_price, grid)
    plan = serve_answer(typed, workload, ServeFlags(kv_precision, allow_lower_precision, rows, seed_config), further)
    write_picture(plan, picture)
    page = page_of(plan, chosen, explain or chosen is OutputFormat.HTML, show is Show.REJECTED, flips)
    emit(plan, page, output, out_file)
    return 0 if plan.is_feasible else Infeasible.exit_code


def page_of(plan: ServePlan, chosen: OutputFormat, explain: bool, all_rejections: bool, all_flips: bool) -> Page:
    """What is shown: the ranking alone in CSV."""
    from datetime import date

    from gpufleet.report.plan import plan_page, plan_rows_page

    if chosen is OutputFormat.CSV:
        return plan_rows_page(plan)
    width = page_width() if chosen is OutputFormat.TABLE else UNBOUNDED_WIDTH
    return plan_page(
        plan, explain=explain, all_rejections=all_rejections, all_flips=all_flips, today=date.today(), width=width
    )


def refuse_picture(picture: str | None, out_file: str | None) -> None:
    """A picture is an SVG file that can be written, and not where the answer goes."""
    if picture is None:
        return
    if not picture.lower().endswith(".svg"):
        raise UsageError("--picture draws SVG alone", found=picture, expected="a file name that ends in .svg")
    refuse_targets([picture, None if out_file == "-" else out_file], [])


def write_picture(plan: ServePlan, picture: str | None) -> None:
    """The front as a file of its own."""
    if picture is None or plan.front is None:
        return
    from pathlib import Path

    from gpufleet.report.front import front_picture

    write_whole(Path(picture), front_picture(plan.front, plan.deployments))
    remark(f"wrote {picture}")


def listed(texts: list[str] | None) -> tuple[str, ...] | None:
    """The names of a list, where one was typed."""
    return tuple(words(texts)) if texts else None
