"""Curves of rates from tables, a row for each bin: requests per second, or how many there were.

column  names
time    t_s, time_s, timestamp_s, timestamp, time, date, datetime: seconds, or dates and times
rate    rate_rps, rate_per_s, rate_requests_per_s (a second); value, requests, count (of the bin)
cv      cv, rate_weighted_cv: of the gaps between arrivals; nothing stands for 1
model   model: whose row it is

Bins are made equally long: the usual distance of two rows. Rows at other times share their requests out over them;
bins without a row get what lies between their neighbours, and are counted. A trace of requests is counted by minutes.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from gpufleet.domain.arrays import FloatArray
from gpufleet.domain.rate_curve import RateCurve
from gpufleet.errors import FEW_NAMES, UnknownName, UsageError
from gpufleet.files import read_text_file
from gpufleet.inputs.trace import FORMS, LONGEST_CELL, Row, Trace, csv_rows, moment_s, parse_trace
from gpufleet.inputs.trace import MOST_BYTES as MOST_BYTES_OF_TRACE
from gpufleet.records import dataclass
from gpufleet.units import DAY, MB, MINUTE, REQUESTS_PER_S, Bounds, in_full

WHAT = "the rate curve"
MOST_BYTES, MOST_BINS, MOST_AMOUNT, MOST_CV = 50 * MB, 1_000_000, 1e15, 1e6
TIMES = ("t_s", "time_s", "timestamp_s", "timestamp", "time", "date", "datetime")
RATES = ("rate_rps", "rate_per_s", "rate_requests_per_s")
COUNTS = ("value", "requests", "count")
CVS, MODEL = ("cv", "rate_weighted_cv"), "model"
LENGTHS = Bounds(1e-3, 1e9, "seconds")
LONGEST_GAP_RATIO, SAME_TIME_RATIO, LEAST_COVERED_RATIO = 1.5, 1e-3, 0.5
"""Of the usual distance of rows: a row stands for no longer gap than the first; what counts as on time, and as seen."""
LONGEST_DAYS = 400


@dataclass(frozen=True)
class Heading:
    """The columns of a table that are read."""

    time: str
    amount: str
    cv: str | None
    is_count: bool


@dataclass(frozen=True, eq=False)
class Bins:
    """Rows as they stand: when each begins, how much it says, how bursty it is."""

    starts_s: FloatArray
    amounts: FloatArray
    cv: FloatArray | None


def read_rate_curve(path: str | Path, model: str | None = None) -> RateCurve:
    """The curve in a file, of one model where it has several."""
    return parse_rate_curve(read_text_file(path, WHAT, MOST_BYTES, may_be_packed=True), model)


def parse_rate_curve(text: str, model: str | None = None) -> RateCurve:
    """The curve in a text.

    >>> curve = parse_rate_curve("timestamp,value\\n2014-04-10 00:04:00,94\\n2014-04-10 00:09:00,56\\n")
    >>> curve.bin_s, round(curve.num_expected)
    (300.0, 150)
    """
    rows = csv_rows(text, WHAT)
    first = next(rows, None)
    if first is None:
        raise UsageError(f"{WHAT} has no rows", expected="a header and one line for each bin")
    heading = heading_of(first[1])
    bins = bins_of(heading, of_model([first, *rows], model))
    if len(bins.starts_s) < 2:
        raise UsageError(f"{WHAT} has one row", expected="two at least: their distance is the length of a bin")
    return even_curve(bins, heading.is_count)


def heading_of(row: Mapping[str, object]) -> Heading:
    """The columns by their names."""
    time, rate, count, cv = (next((n for n in names if n in row), None) for names in (TIMES, RATES, COUNTS, CVS))
    amount = rate or count
    if time is None or amount is None:
        expected = f"a time ({', '.join(TIMES)}) and a rate ({', '.join(RATES)}) or a number ({', '.join(COUNTS)})"
        raise UsageError(f"{WHAT} has columns of an unknown form", found=", ".join(map(str, row)), expected=expected)
    return Heading(time, amount, cv, rate is None)


def of_model(rows: list[Row], model: str | None) -> list[Row]:
    """The rows of one model; of the only one where none is named."""
    names = list(dict.fromkeys(str(row[MODEL]).strip()[:LONGEST_CELL] for _, row in rows if MODEL in row))
    if not names:
        if model is not None:
            raise UsageError(f"{WHAT} has no column {MODEL!r}", expected="a table without it, or no model named")
        return rows
    if model is None and len(names) > 1:
        known = ", ".join(names[:FEW_NAMES])
        raise UsageError(f"{WHAT} is of {len(names)} models", expected=f"one of them named: {known}")
    if model is not None and model not in names:
        raise UnknownName("model of the rate curve", model, names)
    return [row for row in rows if model is None or str(row[1].get(MODEL)).strip() == model]


def bins_of(heading: Heading, rows: Iterable[Row]) -> Bins:
    """Numbers of all rows, in the order of their times."""
    starts, amounts, cvs = array("d"), array("d"), array("d")
    for line, row in rows:
        start = moment_s(row.get(heading.time), heading.time, line, WHAT)
        if starts and start <= starts[-1]:
            raise UsageError(
                f"{WHAT}: line {line} is not later than the row before it",
                found=row.get(heading.time),
                expected="rows in the order of their times, each time once",
            )
        starts.append(start)
        amounts.append(number_of(row.get(heading.amount), heading.amount, line, MOST_AMOUNT))
        if heading.cv is not None:
            cvs.append(number_of(row.get(heading.cv) or "1", heading.cv, line, MOST_CV))
        if len(starts) > MOST_BINS:
            raise UsageError(f"{WHAT} has too many rows", expected=f"at most {MOST_BINS:,}")
    return Bins(np.frombuffer(starts), np.frombuffer(amounts), np.frombuffer(cvs) if heading.cv else None)


def number_of(cell: object, column: str, line: int, most: float) -> float:
    """A rate, a number or a cv: not negative."""
    try:
        value = float(str(cell)[:LONGEST_CELL])
    except ValueError:
        value = math.nan
    if not 0 <= value <= most:
        raise UsageError(
            f"{WHAT}: line {line}: cannot read {column}", found=cell, expected=f"from 0 to {in_full(most)}"
        )
    return value


def even_curve(bins: Bins, is_count: bool) -> RateCurve:
    """Bins of one length: the middle one of the distances between rows."""
    gaps = np.diff(bins.starts_s)
    bin_s = float(np.median(gaps))
    LENGTHS.refuse_outside(bin_s, f"the bins of {WHAT} have a length that", bin_s)
    at = (bins.starts_s - bins.starts_s[0]) / bin_s
    if not at[-1] < MOST_BINS:
        found = f"bins of {in_full(bin_s)} s over {in_full(float(at[-1] * bin_s))} s"
        raise UsageError(f"{WHAT} has too many bins", found=found, expected=f"at most {MOST_BINS:,}")
    if np.all(np.abs(at - np.rint(at)) <= SAME_TIME_RATIO) and np.all(np.diff(np.rint(at)) > 0):
        rates = standing_alone(at, bins.amounts / bin_s if is_count else bins.amounts)
    else:
        lasting = np.append(np.where(gaps > LONGEST_GAP_RATIO * bin_s, bin_s, gaps), bin_s)
        rates = shared_out(at, lasting / bin_s, bins.amounts if is_count else bins.amounts * lasting) / bin_s
    seen = np.flatnonzero(~np.isnan(rates))
    whole = np.interp(np.arange(len(rates)), seen, rates[seen])
    highest = float(whole.max())
    REQUESTS_PER_S.refuse_outside(max(highest, REQUESTS_PER_S.least), f"the highest rate of {WHAT}", highest)
    cv = None if bins.cv is None else np.interp(np.arange(len(rates)), at, bins.cv)
    return RateCurve(float(bins.starts_s[0]), whole, bin_s, cv, len(rates) - len(seen))


def standing_alone(at: FloatArray, rates: FloatArray) -> FloatArray:
    """Rates of rows that begin where a bin does; nan where none begins.

    >>> standing_alone(np.array([0.0, 2.0]), np.array([5.0, 7.0])).tolist()
    [5.0, nan, 7.0]
    """
    starts = np.rint(at).astype(np.int64)
    even = np.full(int(starts[-1]) + 1, np.nan)
    even[starts] = rates
    return even


def shared_out(at: FloatArray, lasting: FloatArray, requests: FloatArray) -> FloatArray:
    """Requests of every bin, of rows from `at` for `lasting` bins; nan where rows stand for less than half of a bin.

    >>> shared_out(np.array([0.0, 1.5, 2.5]), np.array([1.5, 1.0, 1.0]), np.array([3.0, 2.0, 8.0])).tolist()
    [2.0, 2.0, 5.0]
    """
    edges = np.stack([at, np.maximum(at + lasting, at)], axis=1).ravel()
    edges = np.maximum.accumulate(edges)
    grid = np.arange(math.floor(at[-1]) + 2)
    held, covered = (
        np.diff(np.interp(grid, edges, np.repeat(np.concatenate([[0.0], np.cumsum(amounts)]), 2)[1:-1]))
        for amounts in (requests, lasting)
    )
    is_seen = covered >= LEAST_COVERED_RATIO
    return np.where(is_seen, held / np.where(is_seen, covered, 1.0), np.nan)


def read_traffic(path: str | Path, model: str | None = None) -> RateCurve:
    """The rates of a file: as it says them, or requests counted by the minute."""
    text = read_text_file(path, WHAT, MOST_BYTES_OF_TRACE, may_be_packed=True)
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
