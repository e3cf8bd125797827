"""What is to be said about a trace that a plan rests on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpufleet.units import PERCENT

if TYPE_CHECKING:
    from gpufleet.inputs.trace import Trace

BURSTY_RATIO = 1.5
LATE_RATIO = {"mean": 0.05, "p50": 0.5, "p90": 0.1, "p95": 0.05, "p99": 0.01}
"""The share of requests that a limit allows to be late; of a mean, a share whose waits would move it."""


def length_notes(trace: Trace) -> list[str]:
    """Where lengths come from, failures left out, rows that were sorted, and prefixes that repeat."""
    answered = f"{len(trace.input_tokens):,} answered requests of a trace ({trace.form})"
    left_out = f"; {trace.num_failed:,} without an answer left out" if trace.num_failed else ""
    return [f"Lengths from {answered}{left_out}", *order_notes(trace), *cache_notes(trace)]


def order_notes(trace: Trace) -> list[str]:
    """That the file was not in the order of its times."""
    if not trace.num_out_of_order:
        return []
    return [f"{trace.num_out_of_order:,} requests of the trace stood after later ones: all are sorted by time"]


def burst_notes(trace: Trace, request_class: str = "", carried: float | None = None) -> list[str]:
    """The rate of a trace, and its busiest minute where it is far above the mean that the plan is for.

    A class of requests has its rate in the file; a rate on the command line is that of all classes together. The rate
    of the busiest stretch that is `carried` needs no other.
    """
    from gpufleet.inputs.trace_rate import rate_of

    rate, busiest = rate_of(trace), trace.busiest_minute_ratio
    if rate is None:
        return []
    whose = f"of class {request_class!r} " if request_class else ""
    mean = f"The rate {whose}is the trace's mean, {rate:.3g}/s{unit_doubt(trace, rate)}"
    if carried is not None:
        also = f"its busiest stretch has {carried:.3g}/s, which is carried as expected"
        return [f"{mean}; {also} (--busiest says another rate)"]
    if busiest is None or busiest < BURSTY_RATIO:
        return [mean]
    peak = f"{rate * busiest:.3g}/s"
    typed = f"'rate: {peak}' in that class" if request_class else f"--rate {peak}"
    return [f"{mean}; its busiest minute has {busiest:.1f} times that rate; plan for it with {typed}"]


def busiest_of(trace: Trace, slo: str | None) -> float | None:
    """The rate of the busiest stretch of a trace whose requests would be more than limits allow to be late."""
    from gpufleet.inputs.slo import parse_slo
    from gpufleet.simulate.bursts import busiest_rate

    limits = parse_slo(slo).limits if slo else ()
    if trace.times_s is None or not limits:
        return None
    return busiest_rate(trace.times_s, min(LATE_RATIO[limit.statistic] for limit in limits))


def unit_doubt(trace: Trace, rate: float) -> str:
    """That the times of a trace may count a smaller unit."""
    from gpufleet.inputs.trace_rate import rate_in_other_unit

    other = rate_in_other_unit(trace, rate)
    return "" if other is None else f"; if its times are {other[0]}, it is {other[1]:.3g}/s"


def cache_notes(trace: Trace) -> list[str]:
    """How much a prefix cache could save at most; it is not counted unless it is stated."""
    if not trace.cached_ratio:
        return []
    share = f"{trace.cached_ratio * PERCENT:.0f}%"
    return [
        f"{share} of the trace's prompt tokens repeat a prefix: an unlimited cache would hit them; "
        "'prefix_cache' states what yours does"
    ]
