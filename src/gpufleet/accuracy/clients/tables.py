"""Runs in a CSV of one's own, under the names that people give such columns."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from gpufleet.accuracy.clients.fields import Fields
from gpufleet.accuracy.clients.readers import SPREAD_UNSAID, Times
from gpufleet.accuracy.clients.run import AT_ONCE, CLOSED, POISSON, Lengths, Run
from gpufleet.errors import UsageError
from gpufleet.units import MILLISECOND

BY_LITTLES_LAW = "latency is clients x tokens of an answer / tokens per second (Little's law)"
NAMES: Mapping[str, tuple[str, ...]] = {
    "model": ("model", "model_id", "model_name"),
    "engine": ("engine", "backend", "framework"),
    "engine_version": ("engine_version", "version"),
    "gpu": ("gpu", "gpu_id", "gpu_type", "accelerator"),
    "num_gpus": ("num_gpus", "gpus", "gpu_count"),
    "tp": ("tp", "tp_size", "tensor_parallel_size", "tensor_parallel"),
    "precision": ("precision", "dtype", "quantization"),
    "isl": ("input_tokens", "isl", "input_len", "prompt_tokens", "prompt_len", "mean_input_tokens", "input_length"),
    "osl": ("output_tokens", "osl", "output_len", "gen_len", "mean_output_tokens", "output_length", "generated_tokens"),
    "isl_sd": ("input_std", "input_sd", "stddev_input_tokens"),
    "osl_sd": ("output_std", "output_sd", "stddev_output_tokens"),
    "clients": ("concurrency", "clients", "max_concurrency", "num_concurrent_requests", "users", "concurrent_requests"),
    "rate": ("rps", "rate", "qps", "request_rate", "rate_per_s", "requests_per_second"),
    "requests": ("requests", "num_requests", "num_prompts", "completed"),
    "duration": ("duration_s", "duration", "benchmark_duration_s"),
    "tokens_per_s": ("output_tokens_per_s", "tokens_per_s", "output_throughput", "out_tokens_per_s", "tok_s", "tps"),
}
"""What a column is, by the names that it has among people."""
NEEDED = ("isl", "osl")
QUANTITIES = {"ttft": "ttft", "tpot": "tpot", "latency": "latency", "e2e": "latency", "e2el": "latency"}
TIME = re.compile(
    r"(?:(?P<before>mean|avg|median|p50|p90|p95|p99)_)?(?P<name>ttft|tpot|latency|e2e|e2el)"
    r"(?:_(?P<after>mean|avg|median|p50|p90|p95|p99))?_(?P<unit>ms|s)"
)
STATISTIC = {"avg": "mean", "median": "p50"}
EXPECTED = (
    "input_tokens, output_tokens, concurrency or rps, and ttft_ms, tpot_p95_ms, latency_s or output_tokens_per_s; "
    "other names by --columns ttft_ms=NAME,..."
)


def as_known(header: Sequence[str], stated: Mapping[str, str]) -> dict[str, str]:
    """What each column is, where it is known; `stated` are names that somebody gave, by what they are.

    >>> as_known(["prompt_tokens", "TTFT p95 (ms)"], {"ttft_p95_ms": "TTFT p95 (ms)"})
    {'prompt_tokens': 'isl', 'TTFT p95 (ms)': 'ttft_p95_ms'}
    """
    usual = {name: ours for ours, names in NAMES.items() for name in names}
    said = {theirs: usual.get(ours, ours) for ours, theirs in stated.items()}
    missing = [theirs for theirs in said if theirs not in header]
    if missing:
        raise UsageError("--columns names a column that is not there", found=missing[0], expected=", ".join(header))
    unknown = [ours for ours in said.values() if ours not in NAMES and not TIME.fullmatch(ours)]
    if unknown:
        raise UsageError("--columns gives a name that means nothing here", found=unknown[0], expected=EXPECTED)
    found = {name: said.get(name) or plain(name, usual) for name in header}
    return {name: ours for name, ours in found.items() if ours}


def plain(name: str, usual: Mapping[str, str]) -> str:
    """What a column of a usual name is; empty where it is something else."""
    lowered = name.strip().casefold()
    return usual.get(lowered) or (lowered if TIME.fullmatch(lowered) else "")


def is_of_runs(header: Sequence[str], stated: Mapping[str, str]) -> bool:
    """Whether a header has what a run has: lengths, a load, and something measured."""
    known = set(as_known(header, stated).values())
    is_measured = "tokens_per_s" in known or any(TIME.fullmatch(name) for name in known)
    return set(NEEDED) <= known and bool({"clients", "rate", "requests"} & known) and is_measured


def run_of_row(cells: Mapping[str, str], known: Mapping[str, str], where: str) -> Run:
    """A row as a run."""
    said = Fields({ours: cells[theirs] for theirs, ours in known.items() if cells.get(theirs)}, where)
    clients, rate, requests = (said.finite(name) for name in ("clients", "rate", "requests"))
    is_closed = clients is not None and (rate is None or said.is_unlimited("rate"))
    spreads = said.finite("isl_sd"), said.finite("osl_sd")
    unsaid = f"{SPREAD_UNSAID}; columns input_std and output_std say it"
    times, doubts = times_of(said), [unsaid] if None in spreads else []
    tokens_per_s, answers = said.finite("tokens_per_s"), said.finite("osl")
    if not times and is_closed and tokens_per_s and answers and clients:
        times, doubts = {("latency", "mean"): clients * answers / tokens_per_s}, [*doubts, BY_LITTLES_LAW]
    layout = {name: said.finite(name) for name in ("num_gpus", "tp")}
    return Run(
        where=where,
        client="your own",
        model=said.text("model"),
        engine=said.text("engine"),
        engine_version=said.text("engine_version"),
        gpu=said.text("gpu"),
        layout={name: value for name, value in layout.items() if value},
        formats={"precision": said.text("precision").casefold()} if said.text("precision") else {},
        prompts=Lengths(said.finite("isl"), spreads[0]),
        answers=Lengths(answers, spreads[1]),
        arrival=CLOSED if is_closed else POISSON if rate is not None else AT_ONCE,
        rate_requests_per_s=None if is_closed else rate,
        clients=clients if is_closed else None,
        requests=requests,
        duration_s=said.finite("duration"),
        requests_per_s=tokens_per_s / answers if tokens_per_s and answers else None,
        times=times,
        doubts=tuple(doubts),
    )


def times_of(said: Fields) -> Times:
    """Times of a row in seconds; without a statistic in its name a column is a mean."""
    times: Times = {}
    for name in said.record:
        parts = TIME.fullmatch(name)
        value = said.finite(name) if parts else None
        if parts is not None and value:
            statistic = parts["before"] or parts["after"] or "mean"
            scale = MILLISECOND if parts["unit"] == "ms" else 1.0
            times[QUANTITIES[parts["name"]], STATISTIC.get(statistic, statistic)] = value * scale
    return times
