"""What each client writes: how its files are told from others, and where its figures stand.

Fields are those of the clients' own sources: vLLM 0.33 `benchmarks/serve.py`, SGLang 0.5.23 `benchmark/serving.py`,
guidellm (schema 2), AIPerf and genai-perf's JSON export, llmperf's summary, TensorRT-LLM's `bench` report and
inference-perf's lifecycle reports. Times that count the first token with the others are not taken for TPOT.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from statistics import fmean, pstdev
from typing import Any, NamedTuple

from gpufleet.accuracy.clients.fields import Fields
from gpufleet.accuracy.clients.run import AT_ONCE, CLOSED, CONSTANT, POISSON, Lengths, Run
from gpufleet.errors import UsageError
from gpufleet.units import MILLISECOND

Times = dict[tuple[str, str], float]
FEWER_THAN_ALL = 0.4
"""Of requests that all wait at once, half are in flight in the mean: where fewer were, clients sent them."""
MEASURED_CLIENTS = "clients are those that were in flight in the mean"
SPREAD_UNSAID = "the spread of lengths is not said: taken as users' requests have it"
FIRST_TOKEN_COUNTED = "its time per token counts the first one: TPOT is not compared"
COUNTED_AS_LLAMA = "tokens are counted as one Llama tokenizer does, whatever the model"
STRATEGIES = {"constant": CONSTANT, "poisson": POISSON, "throughput": AT_ONCE}
UNITS_S = {"ms": MILLISECOND, "s": 1.0, "sec": 1.0, "seconds": 1.0, "us": 1e-6, "ns": 1e-9}


class Client(NamedTuple):
    """A client: its name, whether a record is its, and the runs in one."""

    name: str
    wrote: Callable[[Fields], bool]
    runs: Callable[[Fields], Iterator[Run]]


def vllm_runs(said: Fields) -> Iterator[Run]:
    """`vllm bench serve --save-result`."""
    yield of_engines_client(said, "vllm bench serve", "{}_e2el_ms")


def sglang_runs(said: Fields) -> Iterator[Run]:
    """`sglang.bench_serving`, which tells the server's own layout and version."""
    served = Fields(said.value("server_info") or {}, said.where)
    run = of_engines_client(said, "sglang.bench_serving", "{}_e2e_latency_ms")
    layout = {"tp": served.finite("tp_size"), "attention_dp": served.finite("dp_size"), "ep": served.finite("ep_size")}
    told = {name: value for name, value in layout.items() if value}
    ratio, asked = said.finite("random_range_ratio"), said.finite("random_input_len")
    is_alike = ratio == 1.0 and asked is not None
    is_sglang = bool(told) or said.text("backend").startswith("sglang")
    run = replace(run, layout=told, engine="sglang" if is_sglang else "", engine_version=served.text("version"))
    yield replace(run, prompts=alike(run.prompts), answers=alike(run.answers), doubts=()) if is_alike else run


def of_engines_client(said: Fields, client: str, latency: str) -> Run:
    """What the clients of vLLM and of SGLang, of one origin, have in common."""
    answered = said.finite("completed")
    lengths, doubts = [], []
    for which in ("input", "output"):
        each = said.value(f"{which}_lens")
        total = said.finite(f"total_{which}_tokens")
        if isinstance(each, list) and each and all(type(n) in (int, float) and math.isfinite(n) for n in each):
            lengths.append(Lengths(fmean(each), pstdev(each)))
        else:
            lengths.append(Lengths(total / answered if total and answered else None))
            doubts = [SPREAD_UNSAID]
    clients, is_unlimited = said.finite("max_concurrency"), said.is_unlimited("request_rate")
    if said.text("request_rate") == "trace":
        raise UsageError(f"{said.where}: arrivals of a trace are not in this file", found="request_rate: trace")
    shape = said.finite("burstiness") or 1.0
    at_rate = POISSON if shape == 1.0 else f"gamma, burstiness {shape:g}"
    if clients and not is_unlimited and said.has("request_rate"):
        doubts.append(f"at most {clients:g} requests were in flight, which is not replayed")
    return Run(
        where=said.where,
        client=client,
        model=said.text("model_id"),
        prompts=lengths[0],
        answers=lengths[1],
        arrival=(CLOSED if clients else AT_ONCE) if is_unlimited or not said.has("request_rate") else at_rate,
        rate_requests_per_s=said.finite("request_rate"),
        clients=clients,
        requests=answered,
        failed=said.finite("failed") or 0.0,
        duration_s=said.finite("duration"),
        requests_per_s=said.finite("request_throughput"),
        times={
            **named("ttft", said.flat_statistics("{}_ttft_ms", MILLISECOND)),
            **named("tpot", said.flat_statistics("{}_tpot_ms", MILLISECOND)),
            **named("latency", said.flat_statistics(latency, MILLISECOND)),
        },
        doubts=tuple(doubts),
    )


def guidellm_runs(said: Fields) -> Iterator[Run]:
    """guidellm: a sweep has many runs in one file; latency is in seconds beside milliseconds."""
    benchmarks = said.value("benchmarks")
    for number, record in enumerate(benchmarks, 1):
        where = said.where if len(benchmarks) == 1 else f"{said.where}, run {number}"
        if not isinstance(record, Mapping):
            raise UsageError(f"{where} is no run", found=record, expected="a record of guidellm")
        one = Fields(record, where)
        strategy = one.text("config.strategy.type_")
        streams = 1.0 if strategy == "synchronous" else one.finite("config.strategy.streams")
        arrival = CLOSED if strategy in ("synchronous", "concurrent") else STRATEGIES.get(strategy)
        if arrival is None:
            expected = f"synchronous, concurrent, {', '.join(STRATEGIES)}"
            raise UsageError(f"{where}: a strategy that is not known", found=strategy or None, expected=expected)
        begun, ended = (one.finite(f"scheduler_metrics.measure_{at}_time") for at in ("start", "end"))
        of = "metrics.{}.successful".format
        yield Run(
            where=where,
            client="guidellm",
            model=said.text("config.backend.model"),
            prompts=lengths_in(one, of("prompt_token_count"), "std_dev"),
            answers=lengths_in(one, of("output_token_count"), "std_dev"),
            arrival=arrival,
            rate_requests_per_s=one.finite("config.strategy.rate") if arrival in (CONSTANT, POISSON) else None,
            clients=streams if arrival == CLOSED else None,
            requests=one.finite("metrics.request_totals.successful"),
            failed=one.finite("metrics.request_totals.errored") or 0.0,
            duration_s=ended - begun if ended and begun and ended > begun else None,
            requests_per_s=one.finite(f"{of('requests_per_second')}.mean"),
            times={
                **percentiled(one, "ttft", of("time_to_first_token_ms"), MILLISECOND),
                **percentiled(one, "tpot", of("inter_token_latency_ms"), MILLISECOND),
                **percentiled(one, "latency", of("request_latency"), 1.0),
            },
        )


def percentiled(said: Fields, name: str, path: str, scale: float) -> Times:
    """Statistics of guidellm: percentiles lie one level below the mean."""
    return named(name, {**said.statistics(f"{path}.percentiles", scale), **said.statistics(path, scale)})


def aiperf_runs(said: Fields) -> Iterator[Run]:
    """AIPerf and genai-perf: every metric says its unit."""
    if said.value("was_cancelled") is True:
        raise UsageError(f"{said.where}: the run was cancelled", expected="a run that came to its end")
    loaded = "input_config.loadgen"
    rate, clients = said.finite(f"{loaded}.request_rate"), said.finite(f"{loaded}.concurrency")
    at_rate = CONSTANT if said.text(f"{loaded}.request_rate_mode") == "constant" else POISSON
    names = said.value("input_config.endpoint.model_names")
    yield Run(
        where=said.where,
        client="aiperf",
        model=str(names[0]) if isinstance(names, list) and names else "",
        prompts=lengths_in(said, "input_sequence_length", "std"),
        answers=lengths_in(said, "output_sequence_length", "std"),
        arrival=CLOSED if rate is None else at_rate,
        rate_requests_per_s=rate,
        clients=None if rate is not None else clients,
        requests=said.finite("request_count.avg"),
        failed=said.finite("error_request_count.avg") or 0.0,
        duration_s=said.finite("benchmark_duration.avg"),
        requests_per_s=said.finite("request_throughput.avg"),
        times={
            **stated_unit(said, "ttft", "time_to_first_token"),
            **stated_unit(said, "tpot", "inter_token_latency"),
            **stated_unit(said, "latency", "request_latency"),
        },
    )


def stated_unit(said: Fields, name: str, path: str) -> Times:
    """Times of a metric in the unit that stands beside them."""
    unit = said.text(f"{path}.unit")
    if said.has(path) and unit not in UNITS_S:
        raise UsageError(f"{said.where}: {path} has no known unit", found=unit or None, expected=", ".join(UNITS_S))
    return named(name, said.statistics(path, UNITS_S.get(unit, 1.0)))


def llmperf_runs(said: Fields) -> Iterator[Run]:
    """llmperf's summary: times in seconds, and no TPOT."""
    of = "results_{}_s_quantiles_{}".format
    times: Times = {}
    for name, theirs in (("ttft", "ttft"), ("latency", "end_to_end_latency")):
        found = {statistic: said.finite(of(theirs, statistic)) for statistic in ("p50", "p90", "p95", "p99")}
        found["mean"] = said.finite(f"results_{theirs}_s_mean")
        times |= named(name, {statistic: value for statistic, value in found.items() if value})
    yield Run(
        where=said.where,
        client="llmperf",
        model=said.text("model"),
        prompts=Lengths(said.finite("results_number_input_tokens_mean"), said.finite("stddev_input_tokens")),
        answers=Lengths(said.finite("results_number_output_tokens_mean"), said.finite("stddev_output_tokens")),
        arrival=CLOSED,
        clients=said.finite("num_concurrent_requests"),
        requests=said.finite("results_num_completed_requests"),
        failed=said.finite("results_number_errors") or 0.0,
        requests_per_s=(said.finite("results_num_completed_requests_per_min") or 0.0) / 60 or None,
        times=times,
        doubts=(FIRST_TOKEN_COUNTED, COUNTED_AS_LLAMA),
    )


def trtllm_runs(said: Fields) -> Iterator[Run]:
    """`trtllm-bench --report_json`: it tells its GPU, layout and limits, and not how many clients sent requests."""
    sent, in_flight = (said.finite(f"request_info.{name}") for name in ("num_requests", "avg_num_concurrent_requests"))
    is_closed = bool(sent and in_flight and in_flight < FEWER_THAN_ALL * sent)
    layout = {name: said.finite(f"world_info.{name}_size") for name in ("tp", "pp", "ep")}
    limits = {"max_num_seqs": "max_batch_size", "max_num_batched_tokens": "max_num_tokens"}
    found = {ours: said.finite(f"world_info.{theirs}") for ours, theirs in limits.items()}
    formats = {"precision": "engine.quantization", "kv_precision": "engine.kv_cache_dtype"}
    yield Run(
        where=said.where,
        client="trtllm-bench",
        model=said.text("engine.model"),
        engine="tensorrt-llm",
        engine_version=said.text("engine.version"),
        gpu=said.text("machine.name"),
        layout={name: value for name, value in layout.items() if value},
        limits={name: value for name, value in found.items() if value},
        formats={ours: said.text(theirs).casefold() for ours, theirs in formats.items() if said.text(theirs)},
        prompts=lengths_in(said, "dataset.isl_stats", ""),
        answers=lengths_in(said, "dataset.osl_stats", ""),
        arrival=CLOSED if is_closed else AT_ONCE,
        clients=max(round(in_flight or 0.0), 1) if is_closed else None,
        requests=sent,
        doubts=(MEASURED_CLIENTS,) if is_closed else (),
        duration_s=(said.finite("performance.total_latency_ms") or 0.0) * MILLISECOND or None,
        requests_per_s=said.finite("performance.request_throughput_req_s"),
        times={
            **named("ttft", said.statistics("streaming_metrics.ttft_percentiles", MILLISECOND)),
            **named("tpot", said.statistics("streaming_metrics.tpot_percentiles", MILLISECOND)),
            **named("latency", said.statistics("performance.request_latency_percentiles_ms", MILLISECOND)),
        },
    )


def inference_perf_runs(said: Fields) -> Iterator[Run]:
    """A stage of inference-perf, at its rate or from so many clients; times are in seconds."""
    clients = said.finite("load_summary.concurrency")
    taken = "successes.latency"
    yield Run(
        where=said.where,
        client="inference-perf",
        prompts=either(said, "successes.prompt_tokens", "successes.prompt_len"),
        answers=either(said, "successes.output_tokens", "successes.output_len"),
        arrival=CLOSED if clients else CONSTANT,
        rate_requests_per_s=None if clients else said.finite("load_summary.requested_rate"),
        clients=clients,
        requests=said.finite("successes.count"),
        failed=said.finite("failures.count") or 0.0,
        duration_s=said.finite("load_summary.send_duration"),
        requests_per_s=said.finite("successes.throughput.requests_per_sec"),
        times={
            **named("ttft", said.statistics(f"{taken}.time_to_first_token", 1.0)),
            **named("tpot", said.statistics(f"{taken}.time_per_output_token", 1.0)),
            **named("latency", said.statistics(f"{taken}.request_latency", 1.0)),
        },
    )


def either(said: Fields, newer: str, older: str) -> Lengths:
    """Lengths under either name."""
    return lengths_in(said, newer if said.has(f"{newer}.mean") else older, "")


def lengths_in(said: Fields, path: str, deviation: str) -> Lengths:
    """Lengths whose mean, spread and percentiles stand in a record of their own."""
    found = {**said.statistics(f"{path}.percentiles", 1.0), **said.statistics(path, 1.0)}
    spread = said.finite(f"{path}.{deviation}") if deviation else None
    return Lengths(found.get("mean"), spread, found.get("p50"), found.get("p95"))


def alike(lengths: Lengths) -> Lengths:
    """Lengths without a spread."""
    return Lengths(lengths.mean, 0.0)


def named(name: str, statistics: Mapping[str, float]) -> Times:
    """Statistics of a quantity under its name."""
    return {(name, statistic): value for statistic, value in statistics.items()}


def is_list(value: Any) -> bool:
    """Whether a value is a list that holds something."""
    return isinstance(value, list) and bool(value)


CLIENTS = (
    Client("guidellm", lambda said: is_list(said.value("benchmarks")), guidellm_runs),
    Client("trtllm-bench", lambda said: said.has("world_info", "performance"), trtllm_runs),
    Client("inference-perf", lambda said: said.has("load_summary", "successes"), inference_perf_runs),
    Client("aiperf", lambda said: said.has("request_latency.unit", "request_count"), aiperf_runs),
    Client("llmperf", lambda said: said.has("results_ttft_s_mean", "num_concurrent_requests"), llmperf_runs),
    Client("sglang.bench_serving", lambda said: said.has("dataset_name", "total_output_tokens"), sglang_runs),
    Client("vllm bench serve", lambda said: said.has("model_id", "total_output_tokens"), vllm_runs),
)
