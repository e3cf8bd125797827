"""`gpufleet simulate`: requests replayed one by one on copies of a model, or on a plan."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from gpufleet.cli.emit import emit, format_of, refuse_targets, write_streamed, write_whole
from gpufleet.cli.grouped_help import GroupedCommand
from gpufleet.cli.interrupts import interrupts_noted
from gpufleet.cli.options import (
    EngineOption,
    OutFileOption,
    OutputFormat,
    OutputOption,
    VersionOption,
    answer_counts,
    verb,
)
from gpufleet.cli.progress import progress_bar, telling_of_compiling
from gpufleet.errors import PolicyViolation, UsageError
from gpufleet.questions.words import BESIDE, ENGINE, LOAD, REPLICAS
from gpufleet.report.output_stream import remark
from gpufleet.units import parse_count, parse_duration, parse_rate, parse_ratio

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpufleet.domain.replay import Replay
    from gpufleet.report.page import Page
    from gpufleet.results.simulation import Simulation

app = verb()

INTERRUPTED = 130
AUTO = "auto"
NO_TIME = ("0", "0s", "none", "off")
SWITCH = {"on": True, "off": False}

ModelOrPlan = Annotated[
    str, typer.Argument(metavar="MODEL", help="A model as elsewhere; without --gpus the file of a plan (-o json).")
]


def text_option(flag: str, metavar: str, says: str, heading: str) -> object:
    """An option that is read later."""
    return typer.Option(flag, metavar=metavar, help=says, rich_help_panel=heading)


GpusOption = Annotated[
    Optional[str],  # noqa: UP045
    text_option("--gpus", "NAME:N", "GPU and how many each copy has, such as H100:8.", REPLICAS),
]
ReplicasOption = Annotated[
    Optional[int],  # noqa: UP045
    text_option("--replicas", "N", "Copies of the model; default 1, or those of the plan.", REPLICAS),
]
RouteOption = Annotated[
    Optional[str],  # noqa: UP045
    text_option(
        "--route", "NAME", "How requests are dealt out: least_requests (default), round_robin, ...",
        REPLICAS,
    ),
]  # fmt: skip
TpOption = Annotated[
    Optional[int],  # noqa: UP045
    text_option("--tp", "N", "Tensor-parallel size; default: all GPUs that the other options leave.", ENGINE),
]
PpOption = Annotated[int, text_option("--pp", "N", "Pipeline stages.", ENGINE)]
EpOption = Annotated[
    Optional[int],  # noqa: UP045
    text_option("--ep", "N", "GPUs over which whole experts are spread.", ENGINE),
]
AttentionDpOption = Annotated[
    int, text_option("--attention-dp", "N", "Groups of GPUs, each of which attends to its own requests.", ENGINE)
]
PrecisionOption = Annotated[
    Optional[str],  # noqa: UP045
    text_option("--precision", "NAME", "Format of weights: bf16, fp8, int4; default: the checkpoint's own.", ENGINE),
]
KvOption = Annotated[
    Optional[str],  # noqa: UP045
    text_option("--kv-precision", "NAME", "KV cache: bf16, fp16, fp8 or int8.", ENGINE),
]
InstanceOption = Annotated[
    Optional[str],  # noqa: UP045
    text_option("--instance", "NAME", "Use the link and the price of this machine, such as g6e.12xlarge.", REPLICAS),
]
MaxBatchOption = Annotated[
    Optional[int],  # noqa: UP045
    text_option("--max-batch", "N", "Sequences that the engine runs at once (vLLM: --max-num-seqs).", ENGINE),
]
MaxStepTokensOption = Annotated[
    Optional[int],  # noqa: UP045
    text_option("--max-step-tokens", "N", "Tokens of one step (vLLM: --max-num-batched-tokens).", ENGINE),
]
MemoryFractionOption = Annotated[
    Optional[str],  # noqa: UP045
    text_option("--memory-fraction", "SHARE", "Memory that the engine keeps to: 0.9.", ENGINE),
]
PrefixCacheOption = Annotated[
    str, text_option("--prefix-cache", "on|off", "Keep blocks of prompts that requests share.", ENGINE)
]
TraceOption = Annotated[
    Optional[str],  # noqa: UP045
    text_option("--trace", "FILE", "Take arrivals and lengths from a CSV or JSONL trace of requests.", LOAD),
]
RatesOption = Annotated[
    Optional[str],  # noqa: UP045
    text_option("--rates", "FILE", "Rates over time as CSV (t_s, rate_rps; timestamp, value); --rate scales.", LOAD),
]
RatesModelOption = Annotated[
    Optional[str],  # noqa: UP045
    text_option("--rates-model", "NAME", "Whose rows of the rates, where they are of several models.", LOAD),
]
RateOption = Annotated[
    Optional[str],  # noqa: UP045
    text_option("--rate", "N/TIME", "Requests per time: 50/s, 3000/min.", LOAD),
]
ArrivalOption = Annotated[
    Optional[str],  # noqa: UP045
    text_option("--arrival", "NAME", "poisson (default), gamma (--burstiness), fixed, or burst (all at once).", LOAD),
]
BurstinessOption = Annotated[
    Optional[float],  # noqa: UP045
    text_option("--burstiness", "N", "Of gamma arrivals, as vLLM has it: 1 is Poisson, less is burstier.", LOAD),
]
InOption = Annotated[
    Optional[str],  # noqa: UP045
    text_option("--in", "TOKENS", "Tokens of a prompt: 1000, 8k, mean=900,p95=3000.", LOAD),
]
OutOption = Annotated[
    Optional[str],  # noqa: UP045
    text_option("--out", "TOKENS", "Tokens of an answer.", LOAD),
]
RequestsOption = Annotated[
    Optional[str],  # noqa: UP045
    text_option("--requests", "N", "How many: 500, 100k; default 10k, or the whole trace.", LOAD),
]
DurationOption = Annotated[
    Optional[str],  # noqa: UP045
    text_option("--duration", "TIME", "Arrivals end after 10min, 24h.", LOAD),
]
StretchOption = Annotated[
    float, text_option("--stretch", "N", "Times of a trace, so much further apart: 2 is half the rate.", LOAD)
]
ThinOption = Annotated[str, text_option("--thin", "SHARE", "Keep this share of a trace's requests: 10%.", LOAD)]
SeedOption = Annotated[int, text_option("--seed", "N", "Of all that is drawn: the same seed, the same answer.", LOAD)]
SloOption = Annotated[
    Optional[str],  # noqa: UP045
    text_option("--slo", "LIMITS", "Objectives, such as 'ttft.p95<500ms,tpot.p95<40ms'; exit 4 where broken.", LOAD),
]
TimeoutOption = Annotated[
    Optional[str],  # noqa: UP045
    text_option("--timeout", "TIME", "Requests that have not begun by then are given up.", REPLICAS),
]
MaxWaitingOption = Annotated[
    Optional[int],  # noqa: UP045
    text_option("--max-waiting", "N", "A replica with so many that wait refuses more.", REPLICAS),
]
RetriesOption = Annotated[
    int, text_option("--retries", "N", "How often a request that was refused or given up comes again.", REPLICAS)
]
PrefillOption = Annotated[
    Optional[str],  # noqa: UP045
    text_option("--prefill", "POOL", "Copies that only prefill, in place of --gpus: '2x H100:4 TP4'.", REPLICAS),
]
DecodeOption = Annotated[
    Optional[str],  # noqa: UP045
    text_option("--decode", "POOL", "Copies that only decode, beside --prefill: 'H200:8'.", REPLICAS),
]
ColdStartOption = Annotated[
    Optional[str],  # noqa: UP045
    text_option("--cold-start", "TIME", "All replicas start cold and take this long: 5min, or auto.", REPLICAS),
]
MtbfOption = Annotated[
    Optional[str],  # noqa: UP045
    text_option("--mtbf", "TIME", "Mean time between failures of a replica: 30d, or auto; each comes back.", REPLICAS),
]
CacheHitsOption = Annotated[
    Optional[str],  # noqa: UP045
    text_option("--cache-hits", "SHARE", "Share of requests that a response cache answers.", LOAD),
]
SmallModelOption = Annotated[
    Optional[str],  # noqa: UP045
    text_option("--small-model", "MODEL", "A small model that gets a share of the requests.", REPLICAS),
]
SmallGpusOption = Annotated[
    Optional[str],  # noqa: UP045
    text_option("--small-gpus", "NAME:N", "GPUs of each copy of the small model.", REPLICAS),
]
SmallReplicasOption = Annotated[int, text_option("--small-replicas", "N", "Copies of the small model.", REPLICAS)]
SmallShareOption = Annotated[
    Optional[str],  # noqa: UP045
    text_option("--small-share", "SHARE", "Share of the requests that the small model gets: 60%.", REPLICAS),
]
WarmUpOption = Annotated[
    Optional[str],  # noqa: UP045
    text_option("--warm-up", "TIME", "Leave out what arrives first: 5min, 0; default: until TTFT has settled.", BESIDE),
]
PerRequestOption = Annotated[
    Optional[str],  # noqa: UP045
    text_option("--per-request", "FILE", "Also write every request's times as CSV.", BESIDE),
]
PictureOption = Annotated[
    Optional[str],  # noqa: UP045
    text_option("--picture", "OUT.svg", "Also draw the course and the spread of latencies.", BESIDE),
]

ExplainOption = Annotated[
    bool, typer.Option("--explain", help="Also show every input as it was read.", rich_help_panel=BESIDE)
]


@app.command(cls=GroupedCommand)
def simulate(
    model: ModelOrPlan,
    gpus: GpusOption = None,
    rate: RateOption = None,
    trace: TraceOption = None,
    rates: RatesOption = None,
    rates_model: RatesModelOption = None,
    input_tokens: InOption = None,
    output_tokens: OutOption = None,
    arrival: ArrivalOption = None,
    burstiness: BurstinessOption = None,
    requests: RequestsOption = None,
    duration: DurationOption = None,
    stretch: StretchOption = 1.0,
    thin: ThinOption = "1",
    seed: SeedOption = 0,
    slo: SloOption = None,
    replicas: ReplicasOption = None,
    route: RouteOption = None,
    timeout: TimeoutOption = None,
    max_waiting: MaxWaitingOption = None,
    retries: RetriesOption = 0,
    instance: InstanceOption = None,
    tp: TpOption = None,
    pp: PpOption = 1,
    ep: EpOption = None,
    attention_dp: AttentionDpOption = 1,
    precision: PrecisionOption = None,
    kv_precision: KvOption = None,
    engine: EngineOption = None,
    engine_version: VersionOption = None,
    max_batch: MaxBatchOption = None,
    max_step_tokens: MaxStepTokensOption = None,
    memory_fraction: MemoryFractionOption = None,
    prefix_cache: PrefixCacheOption = "on",
    prefill: PrefillOption = None,
    decode: DecodeOption = None,
    cache_hits: CacheHitsOption = None,
    small_model: SmallModelOption = None,
    small_gpus: SmallGpusOption = None,
    small_replicas: SmallReplicasOption = 1,
    small_share: SmallShareOption = None,
    cold_start: ColdStartOption = None,
    mtbf: MtbfOption = None,
    warm_up: WarmUpOption = None,
    per_request: PerRequestOption = None,
    picture: PictureOption = None,
    explain: ExplainOption = False,
    output: OutputOption = None,
    out_file: OutFileOption = None,
) -> int:
    """Replay requests on copies of MODEL, or on a plan: percentiles with ranges, queues, and what bursts do."""
    chosen = output or format_of(out_file)
    refuse_files(model, trace or rates, out_file, picture, per_request)
    words = {
        **arriving(rate, trace, input_tokens, output_tokens, arrival, requests, duration, thin),
        **dealt(route, timeout, max_waiting, retries, prefix_cache, warm_up, memory_fraction),
        **beside_replicas(cache_hits, small_share, cold_start, mtbf),
        "rates": rates,
        "rates_model": rates_model,
        "prefill": prefill,
        "decode": decode,
        "small_model": small_model,
        "small_gpus": small_gpus,
        "small_replicas": small_replicas,
        "burstiness": burstiness,
        "stretch": stretch,
        "seed": seed,
        "slo": slo,
        "replicas": replicas,
        "tp": tp,
        "pp": pp,
        "ep": ep,
        "attention_dp": attention_dp,
        "precision": precision,
        "kv_precision": kv_precision,
        "engine": engine,
        "engine_version": engine_version,
        "instance": instance,
        "max_batch": max_batch,
        "max_step_tokens": max_step_tokens,
    }
    kept: list[Replay] = []
    result = replayed(model, gpus, words, kept if per_request is not None else None)
    write_files(result, kept, picture, per_request)
    emit(result, page_of(result, chosen, explain), output, out_file)
    if result.is_partial:
        return INTERRUPTED
    return 0 if result.is_kept else PolicyViolation.exit_code


def replayed(model: str, gpus: str | None, words: Mapping[str, object], kept: list[Replay] | None) -> Simulation:
    """The answer, with a bar while it takes long; Ctrl-C ends the replay, and what is done so far is the answer."""
    from gpufleet.api.simulations import simulate_serving

    on_replay = None if kept is None else kept.append
    with interrupts_noted() as should_stop, progress_bar("requests") as on_progress:
        return simulate_serving(
            model,
            gpus,
            on_progress=telling_of_compiling(on_progress),
            should_stop=should_stop,
            on_replay=on_replay,
            **words,  # type: ignore[arg-type]
        )


def arriving(
    rate: str | None,
    trace: str | None,
    input_tokens: str | None,
    output_tokens: str | None,
    arrival: str | None,
    requests: str | None,
    duration: str | None,
    thin: str,
) -> dict[str, object]:
    """What arrives, read."""
    from gpufleet.inputs.token_counts import parse_token_counts

    return {
        "trace": trace,
        "rate": None if rate is None else parse_rate(rate),
        "arrival": arrival,
        "input_tokens": None if input_tokens is None else parse_token_counts(input_tokens),
        "output_tokens": None if output_tokens is None else answer_counts(output_tokens),
        "requests": None if requests is None else parse_count(requests, "the number of requests"),
        "duration_s": None if duration is None else parse_duration(duration, "'10min' or '24h'"),
        "thin": parse_ratio(thin),
    }


def dealt(
    route: str | None,
    timeout: str | None,
    max_waiting: int | None,
    retries: int,
    prefix_cache: str,
    warm_up: str | None,
    memory_fraction: str | None,
) -> dict[str, object]:
    """How requests are dealt out, read."""
    if prefix_cache.lower() not in SWITCH:
        hint = "Which share of prompts it holds follows from the requests; of a plan it is stated."
        raise UsageError("--prefix-cache is on or off", found=prefix_cache, expected="on or off", hint=hint)
    return {
        **({} if route is None else {"route": route.lower().replace("-", "_")}),
        "timeout_s": None if timeout is None else parse_duration(timeout, "'30s' or '10min'"),
        "max_waiting": max_waiting,
        "retries": retries,
        "prefix_cache": SWITCH[prefix_cache.lower()],
        "warm_up_s": warm_up_s(warm_up),
        "memory_fraction": None if memory_fraction is None else parse_ratio(memory_fraction),
    }


def beside_replicas(
    cache_hits: str | None, small_share: str | None, cold_start: str | None, mtbf: str | None
) -> dict[str, object]:
    """What stands in front of the replicas and what befalls them, read."""
    return {
        "cache_hits": 0.0 if cache_hits is None else parse_ratio(cache_hits),
        "small_share": None if small_share is None else parse_ratio(small_share),
        "cold_start_s": seconds_or_auto(cold_start),
        "mtbf_s": seconds_or_auto(mtbf),
    }


def seconds_or_auto(text: str | None) -> float | str | None:
    """A time, or that the tables say it."""
    if text is None or text.strip().casefold() == AUTO:
        return text and AUTO
    return parse_duration(text, "'5min' or 'auto'")


def warm_up_s(text: str | None) -> float | None:
    """Seconds that are left out; None finds them.

    >>> warm_up_s("5min"), warm_up_s("0"), warm_up_s(None)
    (300.0, 0.0, None)
    """
    if text is None:
        return None
    return 0.0 if text.strip().lower() in NO_TIME else parse_duration(text, "'5min' or '0'")


def refuse_files(
    model: str, trace: str | None, out_file: str | None, picture: str | None, per_request: str | None
) -> None:
    """Files that are written must be writable, each another one, and none that is read."""
    if picture is not None and Path(picture).suffix.lower() != ".svg":
        raise UsageError("--picture draws SVG alone", found=picture, expected="a file name that ends in .svg")
    if per_request == "-":
        raise UsageError("--per-request writes a file", found="-", expected="a file name, such as requests.csv")
    targets = [picture, per_request, None if out_file == "-" else out_file]
    refuse_targets(targets, [model, *([] if trace is None else [trace])])


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
