"""The mean rate of a trace, refused where its times seem to count another unit than they were read in.

A trace that is read a thousand times too slow plans a machine for a fleet: a time since 1970 tells its unit by its
size, any other by the gap between two requests.
"""

from __future__ import annotations

from datetime import datetime, timezone

import numpy as np

from gpufleet.errors import UsageError
from gpufleet.inputs.trace import WHAT, Trace
from gpufleet.units import DAY, HOUR, MICROSECOND, MILLISECOND, MINUTE, NANOSECOND, in_full

UNITS = {"seconds": 1.0, "milliseconds": MILLISECOND, "microseconds": MICROSECOND, "nanoseconds": NANOSECOND}
NAMES = {unit_s: name for name, unit_s in UNITS.items()}
SINCE_1970_S = tuple(datetime(year, 1, 1, tzinfo=timezone.utc).timestamp() for year in (2000, 2100))
USUAL_GAP_S, LONGEST_MEAN_GAP_S = MINUTE, HOUR
HINT = "Columns timestamp_ms, timestamp_us and timestamp_ns are read as named; --rate says the rate without times."


def rate_of(trace: Trace) -> float | None:
    """Requests per second of a trace; None where its times are not known or do not differ.

    >>> rate_of(Trace("plain", np.array([0.0, 1.0, 4.0]), np.ones(3), np.ones(3), unit_s=1.0))
    0.5
    """
    rate = trace.rate_requests_per_s
    if rate is None:
        return None
    unit, slow = unit_since_1970(trace), rate * LONGEST_MEAN_GAP_S < 1
    if not (unit or slow):
        return rate
    seems = f"look like {unit} since 1970" if unit else slow_words(unit_of_gaps(trace))
    read_as = "dates" if trace.unit_s is None else NAMES[trace.unit_s]
    found = f"{len(trace.input_tokens):,} requests in {in_full(last_s(trace) / DAY)} days, read as {read_as}"
    raise UsageError(
        f"the times of {WHAT} {seems}", found=found, expected=f"{read_as}, at least a request an hour", hint=HINT
    )


def last_s(trace: Trace) -> float:
    """Seconds from the first request to the last; zero where times are not known."""
    return 0.0 if trace.times_s is None else float(trace.times_s[-1])


def slow_words(unit: str | None) -> str:
    """What times seem to be that are too far apart."""
    return f"look like {unit}" if unit else "are far apart: one may be wrong"


def unit_since_1970(trace: Trace) -> str | None:
    """The unit in which the times would be dates of this century, where it is not the one that they were read in."""
    if trace.unit_s is None or is_date(trace.first_time_s):
        return None
    counts = (trace.first_time_s / trace.unit_s, (trace.first_time_s + last_s(trace)) / trace.unit_s)
    return next((name for name, unit_s in UNITS.items() if all(is_date(count * unit_s) for count in counts)), None)


def is_date(time_s: float) -> bool:
    """Whether so many seconds since 1970 are a date of this century."""
    return SINCE_1970_S[0] <= time_s <= SINCE_1970_S[1]


def rate_in_other_unit(trace: Trace, rate: float) -> tuple[str, float] | None:
    """The unit that the times seem to count instead, and the rate in it."""
    unit = unit_of_gaps(trace)
    return None if unit is None or trace.unit_s is None else (unit, rate * trace.unit_s / UNITS[unit])


def unit_of_gaps(trace: Trace) -> str | None:
    """The next smaller unit in which half of the requests come within a minute of each other; None where they do."""
    if trace.unit_s is None or trace.times_s is None:
        return None
    gap = float(np.median(np.diff(trace.times_s))) / trace.unit_s
    smaller = [name for name, unit_s in UNITS.items() if unit_s < trace.unit_s and gap * unit_s <= USUAL_GAP_S]
    return smaller[0] if smaller and gap * trace.unit_s > USUAL_GAP_S else None
