"""What is to be said about a trace that a plan rests on."""

from __future__ import annotations

from gpufleet.inputs.trace import Trace
from gpufleet.units import PERCENT

BURSTY_RATIO = 1.5


def length_notes(trace: Trace) -> list[str]:
    """Where lengths come from, failures left out, and prefixes that repeat."""
    answered = f"{len(trace.input_tokens):,} answered requests of a trace ({trace.form})"
    left_out = f"; {trace.num_failed:,} without an answer left out" if trace.num_failed else ""
    return [f"Lengths from {answered}{left_out}", *cache_notes(trace)]


def burst_notes(trace: Trace) -> list[str]:
    """The rate of a trace, and its busiest minute where it is far above the mean that the plan is for."""
    rate, busiest = trace.rate_requests_per_s, trace.busiest_minute_ratio
    if rate is None:
        return []
    mean = f"The rate is the trace's mean, {rate:.3g}/s"
    if busiest is None or busiest < BURSTY_RATIO:
        return [mean]
    return [f"{mean}; its busiest minute has {busiest:.1f} times that: --rate {rate * busiest:.3g}/s plans for it"]


def cache_notes(trace: Trace) -> list[str]:
    """How much a prefix cache could save at most; it is not counted unless it is stated."""
    if not trace.cached_ratio:
        return []
    share = f"{trace.cached_ratio * PERCENT:.0f}%"
    return [f"{share} of the trace's prompt tokens repeat a prefix: an endless cache would hit them; "
            "'prefix_cache' states what yours does"]  # fmt: skip
