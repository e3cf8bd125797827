"""`gpufleet plan`: which machines serve a workload, where, and for how much."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from gpufleet.cli.emit import emit, format_of, refuse_targets, write_whole
from gpufleet.cli.grouped_help import GroupedCommand
from gpufleet.cli.market import AsOfOption, CatalogOption, FractionsOption, MarketFlags, MaxAgeOption, PricesOption
from gpufleet.cli.money import CurrencyOption
from gpufleet.cli.options import ExplainOption, OutFileOption, OutputFormat, OutputOption, verb_group, words
from gpufleet.errors import Infeasible, UsageError
from gpufleet.report.output_stream import remark

if TYPE_CHECKING:
    from gpufleet.cli.plan_words import FurtherFlags
    from gpufleet.inputs.workload import WorkloadFile
    from gpufleet.results.encoder_service import EncoderServePlan
    from gpufleet.results.fleet import FleetPlan
    from gpufleet.results.plan import ServePlan


app = verb_group("Machines, layout and price of a workload.")


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
    typer.Option("--regions", "--region", metavar="NAME,...", help="Only these regions; eu, us, germany too."),
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
    typer.Option(
        "--engine",
        metavar="NAME",
        help="vllm (default), sglang, tensorrt-llm, or all of them; of encoders one: transformers, ...",
    ),
]
HeadroomOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--headroom", metavar="SHARE", help="Capacity beyond the rate; 20% unless said."),
]
ConfidenceOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--confidence", metavar="SHARE", help="How surely limits hold: 0.5 as expected (default), 0.9."),
]
ReplicasOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--min-replicas", metavar="N", help="At least N copies of the model."),
]
TraceOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--trace", metavar="FILE", help="Lengths and rate from a CSV or JSONL trace of requests."),
]
BudgetOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--budget", metavar="USD/TIME", help="Spend no more: 20/h, 15000/mo; '20 EUR/h' with --currency."),
]
MaxSpotOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--max-spot", metavar="SHARE", help="At most so many of the machines on spot."),
]
RequestsOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--requests", metavar="N", help="How many requests: 10M, 250k."),
]
DeadlineOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--deadline", metavar="TIME", help="Done within 90min, 24h, 3d, 1week of the start."),
]
BatchPricingOption = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option("--pricing", metavar="KIND,...", help="on_demand and spot unless said."),
]
BatchHeadroomOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--headroom", metavar="SHARE", help="Work planned longer than expected; 20% unless said."),
]
BatchConfidenceOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--confidence", metavar="SHARE", help="How surely in time: 0.5 as expected (default), 0.9."),
]
PrefixOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--prefix-cache", metavar="SHARE", help="Prompt tokens that all requests share and a cache holds."),
]
SpareOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--spare-machines", metavar="N", help="So many machines may fail, and the headroom stays."),
]
ZonesOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--zones", metavar="N", help="Spread over N zones, of which any one may fail."),
]
OffPeakOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--off-peak", metavar="N/TIME", help="The rate in quiet hours, beside --peak-hours."),
]
PeakHoursOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--peak-hours", metavar="TIME", help="Hours of a day with the full --rate: 10h."),
]
StartupOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--startup", metavar="TIME", help="Until a machine works: image, weights; 10min unless said."),
]
EveryOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--every", metavar="TIME", help="The job comes again: day, week, 24h; then terms may be bought."),
]
MachinesOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--max-machines", metavar="N", help="Rent at most N machines."),
]
JobBudgetOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--budget", metavar="USD", help="Spend at most so much on the whole job; '500 EUR' with --currency."),
]
AudioOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--audio", metavar="TIME", help="Length of a recording (Whisper, wav2vec): 30s, 30min."),
]
BeamsOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--beams", metavar="N", help="Hypotheses that a decoder keeps (T5, Whisper); the engine's own."),
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
TodayOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        "--today", metavar="FLEET", help="What runs now, and what to do with it: '3 aws:p5.48xlarge', '2 H100:8@25/h'."
    ),
]
ShowOption = Annotated[
    Optional[Show],  # noqa: UP045
    typer.Option("--show", help="All reasons for rejections."),
]


@app.command("serve", cls=GroupedCommand)
def serve(
    context: typer.Context,
    model: ModelArgument = None,
    rate: RateOption = None,
    input_tokens: InOption = None, output_tokens: OutOption = None,
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
    confidence: ConfidenceOption = None,
    min_replicas: ReplicasOption = None,
    trace: TraceOption = None,
    prefix_cache: PrefixOption = None,
    spare_machines: SpareOption = None, zones: ZonesOption = None,
    off_peak: OffPeakOption = None, peak_hours: PeakHoursOption = None,
    budget: BudgetOption = None, max_spot: MaxSpotOption = None,
    audio: AudioOption = None, beams: BeamsOption = None,
    today: TodayOption = None,
    rows: RowsOption = 10,
    seed_config: SeedConfigOption = None,
    fractions: FractionsOption = False, catalog_dir: CatalogOption = None,
    max_age: MaxAgeOption = None, as_of: AsOfOption = None, prices: PricesOption = None,
    show: ShowOption = None,
    why_not: WhyNotOption = None,
    flips: FlipsOption = False,
    pareto: ParetoOption = False, picture: PictureOption = None,
    token_price: TokenPriceOption = None, grid: GridOption = None,
    currency: CurrencyOption = None,
    explain: ExplainOption = False,
    output: OutputOption = None, out_file: OutFileOption = None,
) -> int:  # fmt: skip
    """The cheapest machines that serve MODEL at a rate within latency objectives; exit code 3 when none does.

    MODEL writes tokens, or is an encoder of texts, images or audio (BERT, CLIP, Whisper).
    """
    from gpufleet.cli.plan_answers import serve_answer
    from gpufleet.cli.plan_words import ServeFlags
    from gpufleet.inputs.workload import WorkloadFile

    given = WorkloadFile(model, engine, rate, input_tokens, output_tokens, slo, listed(precision), listed(clouds),
        listed(regions), listed(gpus), listed(pricing), headroom, min_replicas, trace, prefix_cache, None,
        spare_machines, zones, off_peak, peak_hours, budget, max_spot, confidence, today, audio=audio, beams=beams,
        currency=currency)  # fmt: skip
    market = MarketFlags(catalog_dir, fractions, max_age, as_of, prices)
    flags = ServeFlags(kv_precision, allow_lower_precision, rows, seed_config, market)
    further = further_flags(why_not, flips, pareto, picture, draws_front(picture, output, out_file), token_price, grid)
    plan = serve_answer(*typed_and_preferred(given, context), workload, flags, further)
    return show_plan(plan, output, out_file, picture, explain, show is Show.REJECTED, flips)


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
    return FurtherFlags(listed(why_not) or (), flips, pareto or has_front, token_price, grid, asks_front)


def typed_and_preferred(given: WorkloadFile, context: typer.Context) -> tuple[WorkloadFile, WorkloadFile]:
    """What was typed, and what the user's configuration prefers where nothing is said."""
    from gpufleet.cli.plan_words import without
    from gpufleet.cli.preferred import names_preferred

    return without(given, names_preferred(context))


def draws_front(picture: str | None, output: OutputFormat | None, out_file: str | None) -> bool:
    """Whether the answer holds a picture of cost against latency: one of its own, or in a page of HTML."""
    refuse_picture(picture, out_file)
    return picture is not None or (output or format_of(out_file)) is OutputFormat.HTML


def show_plan(
    plan: ServePlan | EncoderServePlan | FleetPlan,
    output: OutputFormat | None,
    out_file: str | None,
    picture: str | None,
    explain: bool,
    all_rejections: bool,
    all_flips: bool,
) -> int:
    """The page of a plan where it was asked for; its exit code. A page of HTML explains itself."""
    from gpufleet.cli.plan_pages import serve_page

    write_picture(plan, picture)
    chosen = output or format_of(out_file)
    explained = explain or chosen is OutputFormat.HTML
    page = serve_page(plan, chosen, explain=explained, all_rejections=all_rejections, all_flips=all_flips)
    emit(plan, page, output, out_file)
    return 0 if plan.is_feasible else Infeasible.exit_code


@app.command("batch", cls=GroupedCommand)
def batch(
    context: typer.Context,
    model: ModelArgument = None,
    requests: RequestsOption = None,
    input_tokens: InOption = None,
    output_tokens: OutOption = None,
    deadline: DeadlineOption = None,
    workload: WorkloadOption = None,
    trace: TraceOption = None,
    clouds: CloudsOption = None,
    regions: RegionsOption = None,
    pricing: BatchPricingOption = None,
    gpus: GpusOption = None,
    precision: PrecisionOption = None,
    allow_lower_precision: LowerOption = False,
    kv_precision: KvOption = None,
    engine: EngineOption = None,
    headroom: BatchHeadroomOption = None, confidence: BatchConfidenceOption = None,
    prefix_cache: PrefixOption = None,
    startup: StartupOption = None, every: EveryOption = None,
    max_machines: MachinesOption = None,
    budget: JobBudgetOption = None,
    audio: AudioOption = None, beams: BeamsOption = None,
    rows: RowsOption = 10,
    fractions: FractionsOption = False, catalog_dir: CatalogOption = None,
    max_age: MaxAgeOption = None, as_of: AsOfOption = None, prices: PricesOption = None,
    currency: CurrencyOption = None,
    show: ShowOption = None,
    explain: ExplainOption = False,
    output: OutputOption = None,
    out_file: OutFileOption = None,
) -> int:  # fmt: skip
    """The cheapest machines that get N requests of MODEL done by a deadline; exit code 3 when none does.

    MODEL writes tokens, or is an encoder of texts, images or audio (BERT, CLIP, Whisper).
    """
    from gpufleet.cli.batch_answers import BatchFlags, batch_answer
    from gpufleet.cli.plan_pages import job_page
    from gpufleet.inputs.workload import WorkloadFile

    given = WorkloadFile(
        model, engine, None, input_tokens, output_tokens, None, listed(precision), listed(clouds), listed(regions),
        listed(gpus), listed(pricing), headroom, None, trace, prefix_cache, budget=budget, requests=requests,
        deadline=deadline, startup=startup, every=every, audio=audio, beams=beams, currency=currency,
        confidence=confidence,
    )  # fmt: skip
    typed, preferred = typed_and_preferred(given, context)
    market = MarketFlags(catalog_dir, fractions, max_age, as_of, prices)
    flags = BatchFlags(allow_lower_precision, kv_precision, max_machines, rows, market)
    plan = batch_answer(typed, workload, flags, preferred)
    page = job_page(plan, output or format_of(out_file), explain=explain, all_rejections=show is Show.REJECTED)
    emit(plan, page, output, out_file)
    return 0 if plan.is_feasible else Infeasible.exit_code


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

    write_whole(Path(picture), front_picture(plan.front, plan.deployments))
    remark(f"wrote {picture}")


def listed(texts: list[str] | None) -> tuple[str, ...] | None:
    """The names of a list, where one was typed."""
    return tuple(words(texts)) if texts else None
