"""`gpufleet plan`: which machines serve a workload, where, and for how much."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Optional

import typer

from gpufleet.cli.emit import emit, format_of, page_width
from gpufleet.cli.options import ExplainOption, OutFileOption, OutputFormat, OutputOption, verb_group, words
from gpufleet.errors import Infeasible

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
ShowOption = Annotated[
    Optional[Show],  # noqa: UP045
    typer.Option("--show", help="All reasons for rejections."),
]


@app.command("serve")
def serve(
    context: typer.Context,
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
    explain: ExplainOption = False,
    output: OutputOption = None,
    out_file: OutFileOption = None,
) -> int:
    """The cheapest machines that serve MODEL at a rate within latency objectives; exit code 3 when none does."""
    from datetime import date

    from gpufleet.cli.plan_answers import ServeFlags, serve_answer
    from gpufleet.cli.preferred import names_preferred
    from gpufleet.inputs.workload import WorkloadFile
    from gpufleet.report.plan import plan_page, plan_rows_page

    typed = WorkloadFile(
        model, engine, rate, input_tokens, output_tokens, slo, listed(precision), listed(clouds), listed(regions),
        listed(gpus), listed(pricing), headroom, min_replicas,
    )  # fmt: skip
    chosen = output or format_of(out_file)
    flags = ServeFlags(kv_precision, allow_lower_precision, rows, seed_config)
    plan = serve_answer(typed, workload, flags, names_preferred(context))
    if chosen is OutputFormat.CSV:
        page = plan_rows_page(plan)
    else:
        width = page_width() if chosen is OutputFormat.TABLE else UNBOUNDED_WIDTH
        page = plan_page(plan, explain=explain, all_rejections=show is Show.REJECTED, today=date.today(), width=width)
    emit(plan, page, output, out_file)
    return 0 if plan.is_feasible else Infeasible.exit_code


def listed(texts: list[str] | None) -> tuple[str, ...] | None:
    """The names of a list, where one was typed."""
    return tuple(words(texts)) if texts else None
