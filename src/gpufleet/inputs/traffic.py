"""How fast requests come, from a table of rates or from a trace of requests, told apart by their columns."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gpufleet.domain.rate_curve import RateCurve
from gpufleet.errors import UsageError
from gpufleet.files import read_text_file
from gpufleet.inputs.rate_curve import WHAT, parse_rate_curve
from gpufleet.inputs.trace import FORMS, MOST_BYTES, Trace, parse_trace
from gpufleet.units import DAY, MINUTE

LONGEST_DAYS = 400


def read_traffic(path: str | Path, model: str | None = None) -> RateCurve:
    """The rates of a file: as it says them, or requests counted by the minute."""
    text = read_text_file(path, WHAT, MOST_BYTES, may_be_packed=True)
    return curve_of_requests(parse_trace(text)) if holds_requests(text) else parse_rate_curve(text, model)


def holds_requests(text: str) -> bool:
    """Whether rows are single requests.

    >>> holds_requests("timestamp_s,input_tokens,output_tokens\\n"), holds_requests("t_s,rate_rps\\n")
    (True, False)
    """
    if text.lstrip()[:1] == "{":
        return True
    header = [name.strip().strip('"').lower() for name in text[:10_000].split("\n", 1)[0].split(",")]
    return any(form.prompt in header for form in FORMS)


def curve_of_requests(trace: Trace) -> RateCurve:
    """Requests of a trace counted by the minute, from the minute of the first one on."""
    if trace.times_s is None:
        raise UsageError("the trace says no times", expected="a column of times: rates follow from them")
    if trace.times_s[-1] > LONGEST_DAYS * DAY:
        raise UsageError("the trace is too long", found=f"{trace.times_s[-1] / DAY:,.0f} days", expected="some weeks")
    start = trace.first_time_s // MINUTE * MINUTE
    minutes = ((trace.times_s + trace.first_time_s - start) // MINUTE).astype(np.int64)
    return RateCurve(start, np.bincount(minutes) / MINUTE, MINUTE)


def at_mean_rate(curve: RateCurve, mean_rate_per_s: float) -> RateCurve:
    """The same curve, so many times higher or lower at every moment that its mean is this."""
    if not curve.mean_rate_per_s > 0:
        raise UsageError(f"{WHAT} holds no requests", expected="at least one rate above zero")
    return curve.scaled(mean_rate_per_s / curve.mean_rate_per_s)
