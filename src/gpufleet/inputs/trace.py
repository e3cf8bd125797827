"""Request traces as the public ones are written; the form is told by the columns.

form      file   columns
azure     CSV    TIMESTAMP (date and time), ContextTokens, GeneratedTokens      (Azure LLM inference 2023, 2024)
burstgpt  CSV    Timestamp (s), [Session ID, Elapsed time,] Model, Request tokens, Response tokens, ..., Log Type
plain     CSV    input_tokens, output_tokens, and timestamp_s where it is known
mooncake  JSONL  timestamp (ms), input_length, output_length, hash_ids          (blocks of the prompt's prefix)

Rows without an answer (0 tokens) are failures and are left out, and counted.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np

from gpufleet.domain.arrays import FloatArray
from gpufleet.domain.token_counts import TokenCounts
from gpufleet.errors import UsageError
from gpufleet.files import read_text_file
from gpufleet.performance.token_lengths import of_sample
from gpufleet.units import MB, MILLISECOND, MINUTE

WHAT = "the trace"
MOST_BYTES, MOST_TOKENS, LONGEST_CELL = 200 * MB, 2.0**24, 1000
FRACTION_DIGITS = 6


@dataclass(frozen=True)
class Trace:
    """Requests that were seen: arrival times from the first one on, where known, and tokens.

    `cached_ratio` is the share of prompt tokens in prefix blocks that came before: what an endless cache would hit.
    """

    form: str
    times_s: FloatArray | None
    input_tokens: FloatArray
    output_tokens: FloatArray
    num_failed: int = 0
    cached_ratio: float | None = None

    @property
    def input_counts(self) -> TokenCounts:
        """How prompts are spread."""
        return of_sample(self.input_tokens)

    @property
    def output_counts(self) -> TokenCounts:
        """How answers are spread."""
        return of_sample(self.output_tokens)

    @property
    def rate_requests_per_s(self) -> float | None:
        """Mean rate from the first to the last arrival; None where times are not known or do not differ."""
        if self.times_s is None or len(self.times_s) < 2 or not self.times_s[-1] > 0:
            return None
        return (len(self.times_s) - 1) / float(self.times_s[-1])

    @property
    def busiest_minute_ratio(self) -> float | None:
        """Requests of the busiest minute over those of the mean one; None for less than two minutes."""
        if self.times_s is None or self.times_s[-1] < 2 * MINUTE:
            return None
        whole = int(self.times_s[-1] // MINUTE)
        counts = np.bincount((self.times_s // MINUTE).astype(np.int64))[:whole]
        return float(counts.max() / counts.mean())


@dataclass(frozen=True)
class Form:
    """A way of writing a trace: the columns of time, prompt and answer, and how a time is read."""

    name: str
    time: str | None
    prompt: str
    answer: str
    seconds: Callable[[str], float]


def read_trace(path: str | Path) -> Trace:
    """The trace in a file of any known form."""
    return parse_trace(read_text_file(path, WHAT, MOST_BYTES))


def parse_trace(text: str) -> Trace:
    """The trace in a text: JSON lines where it begins with a brace, else CSV.

    >>> trace = parse_trace("TIMESTAMP,ContextTokens,GeneratedTokens\\n2023-11-16 18:17:03.9799600,100,10\\n")
    >>> trace.form, trace.input_counts.mean
    ('azure', 100.0)
    """
    rows = json_rows(text) if text.lstrip()[:1] == "{" else csv_rows(text)
    first = next(rows, None)
    if first is None:
        raise UsageError(f"{WHAT} has no rows", expected="a header and one line for each request")
    form = form_of(first[1])
    return collected(form, chained(first, rows))


def chained(first: tuple[int, Mapping[str, object]], rows: Iterator[tuple[int, Mapping[str, object]]]) -> Iterator[
    tuple[int, Mapping[str, object]]
]:  # fmt: skip
    """All rows again."""
    yield first
    yield from rows


def csv_rows(text: str) -> Iterator[tuple[int, Mapping[str, object]]]:
    """Line number and cells of each row, columns by their names in small letters."""
    reader = csv.reader(io.StringIO(text))
    try:
        header = [name.strip().lower() for name in next(reader, [])]
        for cells in reader:
            if cells:
                yield reader.line_num, dict(zip(header, cells, strict=False))
    except csv.Error as error:
        raise UsageError(f"{WHAT}: line {reader.line_num} is not CSV", found=str(error)) from error


def json_rows(text: str) -> Iterator[tuple[int, Mapping[str, object]]]:
    """Line number and object of each line."""
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"{WHAT}: line {number} is not JSON", found=line[:LONGEST_CELL]) from error
        if not isinstance(row, dict):
            raise UsageError(f"{WHAT}: line {number} is no JSON object", found=line[:LONGEST_CELL])
        yield number, row


def form_of(row: Mapping[str, object]) -> Form:
    """The form that has these columns."""
    found = next((form for form in FORMS if form.prompt in row and form.answer in row), None)
    if found is None:
        known = "; ".join(f"{form.prompt}, {form.answer} ({form.name})" for form in FORMS)
        raise UsageError(f"{WHAT} has columns of no known form", found=", ".join(map(str, row)), expected=known)
    return found


def collected(form: Form, rows: Iterable[tuple[int, Mapping[str, object]]]) -> Trace:
    """Times and tokens of all rows that were answered."""
    times: list[float] = []
    tokens: list[tuple[float, float]] = []
    failed, seen = 0, PrefixBlocks()
    for number, row in rows:
        prompt, answer = (whole(row.get(name), name, number) for name in (form.prompt, form.answer))
        seen.add(row.get("hash_ids"), prompt)
        if prompt < 1 or answer < 1:
            failed += 1
            continue
        tokens.append((prompt, answer))
        if form.time is not None and form.time in row:
            times.append(time_of(form, row[form.time], number))
    if not tokens:
        raise UsageError(f"{WHAT} has no request that was answered", found=f"{failed} rows without tokens")
    prompts, answers = np.array(tokens, dtype=np.float64).T
    arrivals = np.sort(np.array(times)) if len(times) == len(tokens) else None
    from_first = None if arrivals is None else arrivals - arrivals[0]
    return Trace(form.name, from_first, prompts, answers, failed, seen.hit_ratio)


class PrefixBlocks:
    """Counts how much of each prompt stands in leading blocks that an earlier prompt began with too."""

    def __init__(self) -> None:
        self.known: set[object] = set()
        self.hit_tokens, self.all_tokens = 0.0, 0.0

    def add(self, hashes: object, prompt_tokens: float) -> None:
        """One prompt with the hashes of its blocks, in order."""
        if not isinstance(hashes, list) or not hashes or not all(isinstance(h, int) for h in hashes):
            return
        hits = next((i for i, block in enumerate(hashes) if block not in self.known), len(hashes))
        self.known.update(hashes)
        self.hit_tokens += prompt_tokens * hits / len(hashes)
        self.all_tokens += prompt_tokens

    @property
    def hit_ratio(self) -> float | None:
        """The share of prompt tokens that were hits; None where no prompt has blocks."""
        return self.hit_tokens / self.all_tokens if self.all_tokens else None


def whole(cell: object, column: str, number: int) -> float:
    """Tokens of one cell."""
    try:
        value = float(cell) if isinstance(cell, (int, float, str)) and not isinstance(cell, bool) else math.nan
    except (ValueError, OverflowError):
        value = math.nan
    if not 0 <= value <= MOST_TOKENS:
        raise UsageError(
            f"{WHAT}: line {number}: cannot read {column}", found=cell, expected=f"0 to {MOST_TOKENS:,.0f} tokens"
        )
    return value


def time_of(form: Form, cell: object, number: int) -> float:
    """Seconds of one arrival, from whatever the form counts."""
    try:
        seconds = form.seconds(str(cell)[:LONGEST_CELL])
    except (ValueError, OverflowError):
        seconds = math.nan
    if not math.isfinite(seconds):
        raise UsageError(f"{WHAT}: line {number}: cannot read {form.time}", found=cell, expected="a time")
    return seconds


def clock_time_s(text: str) -> float:
    """Seconds of a date and time; digits beyond the microsecond are cut.

    >>> clock_time_s("1970-01-01 00:00:01.5000009")
    1.5
    """
    main, dot, rest = text.strip().partition(".")
    digits = rest[: len(rest) - len(rest.lstrip("0123456789"))]
    zone = rest[len(digits) :] if dot else ""
    moment = datetime.fromisoformat(main + (f".{digits[:FRACTION_DIGITS]:0<6}" if digits else "") + zone)
    origin = datetime(1970, 1, 1, tzinfo=moment.tzinfo)
    offset = moment.utcoffset()
    return (moment - origin).total_seconds() - (offset.total_seconds() if offset else 0.0)


def milliseconds(text: str) -> float:
    """Seconds of a count of milliseconds."""
    return float(text) * MILLISECOND


FORMS = (
    Form("azure", "timestamp", "contexttokens", "generatedtokens", clock_time_s),
    Form("mooncake", "timestamp", "input_length", "output_length", milliseconds),
    Form("burstgpt", "timestamp", "request tokens", "response tokens", float),
    Form("plain", "timestamp_s", "input_tokens", "output_tokens", float),
)
