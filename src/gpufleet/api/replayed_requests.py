"""The requests of a replay: drawn from lengths and a rate, taken from a trace, or those that a plan is for."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from gpufleet.api.demands import workload_of
from gpufleet.domain.architecture import Architecture
from gpufleet.domain.arrays import FloatArray
from gpufleet.domain.rate_curve import RateCurve
from gpufleet.domain.requests import Requests
from gpufleet.domain.slo import Slo
from gpufleet.domain.token_counts import TokenCounts
from gpufleet.domain.workload import Workload
from gpufleet.errors import UsageError
from gpufleet.inputs.rate_curve import read_rate_curve
from gpufleet.inputs.trace import Trace, read_trace
from gpufleet.inputs.trace_rate import rate_of
from gpufleet.questions.fields import NamedPath, RequestKind
from gpufleet.questions.simulation import BURST, DEFAULT_REQUESTS, FIXED, Traffic
from gpufleet.records import dataclass
from gpufleet.simulate.arrivals import (
    POISSON,
    burst_times_s,
    curve_times_s,
    even_times_s,
    renewal_times_s,
    renewal_times_within_s,
)
from gpufleet.simulate.generated import requests_at
from gpufleet.simulate.reshape import repeated, stretched, thinned, window
from gpufleet.units import in_full

NAMES = {BURST: "a burst", FIXED: "fixed spacing", "gamma": "Gamma", "poisson": "Poisson"}


@dataclass(frozen=True, eq=False)
class Arriving:
    """Requests, what they are in words, and what the closed form takes them for.

    `workload`: means or classes at their mean rate; None where nothing says the rate. `is_whole`: they start and end
    with nothing to do by design.
    """

    requests: Requests
    load: str
    workload: Workload | None
    is_whole: bool = False
    notes: tuple[str, ...] = ()


def arriving_requests(asked: Traffic, planned: Workload | None, arch: Architecture, seed: int) -> Arriving:
    """What a question lets arrive; `planned` is the workload of a plan, which its words replace."""
    generator = np.random.default_rng(seed)
    if asked.trace is not None:
        return of_trace(asked, arch, generator)
    curve = None if asked.rates is None else rates_over_time(str(asked.rates), asked)
    asked = asked if curve is None else replace(asked, rate=curve.mean_rate_per_s)
    workload = drawn_workload(asked, planned, arch)
    times_s = (
        arrival_times_s(asked, workload.rate_requests_per_s, generator)
        if curve is None
        else (curve_times_s(generator, curve, asked.burstiness))
    )
    requests = requests_at(times_s, workload, generator)
    return Arriving(requests, load_words(asked, requests, workload), workload, is_whole=asked.arrival == BURST)


def rates_over_time(path: str, asked: Traffic) -> RateCurve:
    """The curve of a file, scaled to a mean rate and cut where that is said; its times begin at 0."""
    curve = read_rate_curve(path, asked.rates_model)
    if asked.duration_s is not None:
        bins = max(math.ceil(asked.duration_s / curve.bin_s), 1)
        own_cv = None if curve.cv is None else curve.cv[:bins]
        curve = replace(curve, rate_per_s=curve.rate_per_s[:bins], cv=own_cv)
    return curve if asked.rate is None else curve.scaled(asked.rate / curve.mean_rate_per_s)


def drawn_workload(asked: Traffic, planned: Workload | None, arch: Architecture) -> Workload:
    """The workload that requests are drawn from."""
    rate = asked.rate or (planned.rate_requests_per_s if planned is not None else 1.0)
    if planned is not None and asked.input_tokens is None and asked.output_tokens is None:
        return planned.at_rate(rate)
    if asked.input_tokens is None or asked.output_tokens is None:
        raise UsageError("prompts and answers are said together", expected="both --in and --out")
    return workload_of([RequestKind("", rate, asked.input_tokens, asked.output_tokens, Slo(()))], arch)


def arrival_times_s(asked: Traffic, rate: float, generator: np.random.Generator) -> FloatArray:
    """When the requests come."""
    if asked.arrival == BURST:
        return burst_times_s(asked.requests or DEFAULT_REQUESTS)
    burstiness = POISSON if asked.burstiness is None else asked.burstiness
    if asked.requests is None and asked.duration_s is not None:
        if asked.arrival == FIXED:
            return even_times_s(rate, math.floor(rate * asked.duration_s))
        return renewal_times_within_s(generator, rate, asked.duration_s, burstiness)
    number = asked.requests or DEFAULT_REQUESTS
    times_s = (
        even_times_s(rate, number) if asked.arrival == FIXED else renewal_times_s(generator, rate, number, burstiness)
    )
    return times_s if asked.duration_s is None else times_s[times_s < asked.duration_s]


def load_words(asked: Traffic, requests: Requests, workload: Workload) -> str:
    """What arrives: 'Poisson, 5/s'."""
    if asked.rates is not None:
        name = file_name(asked.rates)
        return f"rates of {name}, {in_full(float(f'{workload.rate_requests_per_s:.3g}'))}/s on average"
    name = NAMES[asked.arrival or "poisson"]
    if asked.arrival == BURST:
        return f"{name} of {len(requests):,} requests"
    bursts = "" if asked.burstiness is None else f" of burstiness {asked.burstiness:g}"
    return f"{name}{bursts}, {in_full(workload.rate_requests_per_s)}/s"


def of_trace(asked: Traffic, arch: Architecture, generator: np.random.Generator) -> Arriving:
    """A trace at its own times, stretched, thinned, cut and repeated as asked."""
    assert asked.trace is not None
    trace = read_trace(str(asked.trace))
    if trace.times_s is None:
        raise UsageError(
            "the trace has no arrival times", found=str(asked.trace), expected="a column of times to replay"
        )
    rate_of(trace)
    requests = reshaped(trace.requests(), asked, generator)
    if not len(requests):
        raise UsageError("no request of the trace is left to replay", hint="--thin or --duration leaves out too much.")
    name = file_name(asked.trace)
    rate = mean_rate(requests)
    load = f"{name}, {in_full(float(f'{rate:.3g}'))}/s" if rate else f"{name}, all at once"
    notes = unordered_note(trace)
    return Arriving(requests, load, workload_of_trace(trace, rate, arch), is_whole=not rate, notes=notes)


def file_name(path: str | NamedPath) -> str:
    """The name of a file without its folders."""
    return str(path).replace("\\", "/").rpartition("/")[2]


def reshaped(requests: Requests, asked: Traffic, generator: np.random.Generator) -> Requests:
    """The same, changed as the question says."""
    if asked.stretch != 1:
        requests = stretched(requests, asked.stretch)
    if asked.thin != 1:
        requests = thinned(requests, generator, asked.thin)
    if asked.requests is not None and len(requests):
        requests = repeated(requests, asked.requests)
    return requests if asked.duration_s is None else window(requests, 0.0, asked.duration_s)


def unordered_note(trace: Trace) -> tuple[str, ...]:
    """What was put in order, and what was left out."""
    said = []
    if trace.num_out_of_order:
        said.append(f"{trace.num_out_of_order:,} rows of the trace stood after a later one: sorted by time")
    if trace.num_failed:
        said.append(f"{trace.num_failed:,} rows of the trace without tokens are left out")
    return tuple(said)


def mean_rate(requests: Requests) -> float:
    """Requests per second from the first to the last; 0 where they come at once."""
    return (len(requests) - 1) / requests.span_s if requests.span_s > 0 else 0.0


def workload_of_trace(trace: Trace, rate: float, arch: Architecture) -> Workload | None:
    """What the closed form is asked of a trace: its mean rate and how its lengths are spread."""
    if not rate or trace_mean_tokens(trace) > arch.max_context_tokens:
        return None
    counts: tuple[TokenCounts, TokenCounts] = trace.input_counts, trace.output_counts
    return workload_of([RequestKind("", rate, *counts, Slo(()), prefix_cache=None)], arch)


def trace_mean_tokens(trace: Trace) -> float:
    """Tokens of the mean prompt and answer."""
    return float(trace.input_tokens.mean() + trace.output_tokens.mean())
