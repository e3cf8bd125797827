"""Request traces as the public ones are written; the form is told by the columns.

form      file   columns
azure     CSV    TIMESTAMP (date and time), ContextTokens, GeneratedTokens      (Azure LLM inference 2023, 2024)
burstgpt  CSV    Timestamp (s), [Session ID, Elapsed time,] Model, Request tokens, Response tokens, ..., Log Type
plain     CSV    input_tokens, output_tokens, and timestamp_s (_ms, _us, _ns) where it is known
mooncake  JSONL  timestamp (ms), input_length, output_length, hash_ids          (blocks of the prompt's prefix)

Rows without an answer (0 tokens) are failures and are left out, and counted.
"""

from __future__ import annotations

import csv
import math
from array import array
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path

import numpy as np

from gpufleet.domain.arrays import FloatArray
from gpufleet.domain.token_counts import TokenCounts
from gpufleet.errors import UsageError
from gpufleet.files import read_text_file
from gpufleet.inputs.json_text import parse_json
from gpufleet.performance.token_lengths import of_sample
from gpufleet.records import dataclass
from gpufleet.units import MB, MICROSECOND, MILLISECOND, MINUTE, NANOSECOND

WHAT = "the trace"
MOST_BYTES, MOST_TOKENS, LONGEST_CELL = 200 * MB, 2.0**24, 1000
MOST_REQUESTS, MOST_BLOCKS, LONGEST_LINE = 10_000_000, 5_000_000, 1_000_000
LATEST_S, FRACTION_DIGITS = 1e20, 6


@dataclass(frozen=True)
class Trace:
    """Requests that were seen: arrival times from the first one on, where known, and tokens.

    `cached_ratio` is the share of prompt tokens in prefix blocks that came before: what an endless cache would hit.
    `first_time_s` is the earliest arrival as the file has it, read in its form's unit of `unit_s` seconds; None: a
    date.
    """

    form: str
    times_s: FloatArray | None
    input_tokens: FloatArray
    output_tokens: FloatArray
    num_failed: int = 0
    cached_ratio: float | None = None
    first_time_s: float = 0.0
    unit_s: float | None = None

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
        minutes, whole = self.times_s // MINUTE, self.times_s[-1] // MINUTE
        counts = np.unique(minutes[minutes < whole], return_counts=True)[1]
        return float(counts.max() / (counts.sum() / whole))


@dataclass(frozen=True)
class Form:
    """A way of writing a trace: the columns of time, prompt and answer, and seconds that a time counts; None: dates."""

    name: str
    time: str
    prompt: str
    answer: str
    unit_s: float | None

    def seconds(self, text: str) -> float:
        """Seconds of one arrival."""
        return clock_time_s(text) if self.unit_s is None else float(text) * self.unit_s


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
    reader = csv.reader(lines_of(text))
    try:
        header = [name.strip().lower() for name in next(reader, [])]
        for cells in reader:
            if cells:
                yield reader.line_num, dict(zip(header, cells, strict=False))
    except csv.Error as error:
        raise UsageError(f"{WHAT}: line {reader.line_num} is not CSV", found=str(error)) from error


def lines_of(text: str) -> Iterator[str]:
    """The lines of a text one by one, each of a length that somebody could have meant."""
    start, number = 0, 1
    while start < len(text):
        end = text.find("\n", start) + 1 or len(text)
        if end - start > LONGEST_LINE:
            raise UsageError(f"{WHAT}: line {number} is too long", expected=f"at most {LONGEST_LINE:,} characters")
        yield text[start:end]
        start, number = end, number + 1


def json_rows(text: str) -> Iterator[tuple[int, Mapping[str, object]]]:
    """Line number and object of each line."""
    for number, line in enumerate(lines_of(text), 1):
        if not line.strip():
            continue
        row = parse_json(line, f"{WHAT}: line {number}")
        if not isinstance(row, dict):
            raise UsageError(f"{WHAT}: line {number} is not a JSON object", found=line[:LONGEST_CELL])
        yield number, row


def form_of(row: Mapping[str, object]) -> Form:
    """The form that has these columns; without a time, the first whose tokens it has."""
    fitting = [form for form in FORMS if form.prompt in row and form.answer in row]
    found = next((form for form in fitting if form.time in row), fitting[0] if fitting else None)
    if found is None:
        known = "; ".join(dict.fromkeys(f"{form.prompt}, {form.answer} ({form.name})" for form in FORMS))
        raise UsageError(f"{WHAT} has columns of an unknown form", found=", ".join(map(str, row)), expected=known)
    return found


def collected(form: Form, rows: Iterable[tuple[int, Mapping[str, object]]]) -> Trace:
    """Times and tokens of all rows that were answered."""
    times, prompts, answers = array("d"), array("d"), array("d")
    failed, seen = 0, PrefixBlocks()
    for number, row in rows:
        prompt, answer = (whole(row.get(name), name, number) for name in (form.prompt, form.answer))
        seen.add(row.get("hash_ids"), prompt)
        if prompt < 1 or answer < 1:
            failed += 1
            continue
        refuse_more("requests", len(prompts), MOST_REQUESTS)
        prompts.append(prompt)
        answers.append(answer)
        if form.time in row:
            times.append(time_of(form, row[form.time], number))
    if not prompts:
        raise UsageError(f"{WHAT} has no request that was answered", found=f"{failed} rows without tokens")
    arrivals = np.sort(np.frombuffer(times)) if len(times) == len(prompts) else None
    first_s = 0.0 if arrivals is None else float(arrivals[0])
    from_first = None if arrivals is None else arrivals - first_s
    tokens = np.frombuffer(prompts), np.frombuffer(answers)
    return Trace(form.name, from_first, *tokens, failed, seen.hit_ratio, first_s, form.unit_s)


def refuse_more(what: str, so_far: int, most: int) -> None:
    """Refuse what no longer fits a memory that is bounded."""
    if so_far >= most:
        raise UsageError(f"{WHAT} has too many {what}", expected=f"at most {most:,}", hint="Take some hours of it.")


class PrefixBlocks:
    """Counts how much of each prompt stands in leading blocks that an earlier prompt began with too."""

    def __init__(self) -> None:
        self.known: set[object] = set()
        self.hit_tokens, self.all_tokens = 0.0, 0.0

    def add(self, hashes: object, prompt_tokens: float) -> None:
        """One prompt with the hashes of its blocks, in order."""
        if not isinstance(hashes, list) or not hashes or not all(isinstance(h, int) for h in hashes):
            return
        refuse_more("prefix blocks", len(self.known), MOST_BLOCKS)
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
    if not abs(seconds) <= LATEST_S:
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


FORMS = (
    Form("azure", "timestamp", "contexttokens", "generatedtokens", None),
    Form("mooncake", "timestamp", "input_length", "output_length", MILLISECOND),
    Form("burstgpt", "timestamp", "request tokens", "response tokens", 1.0),
    Form("plain", "timestamp_s", "input_tokens", "output_tokens", 1.0),
    Form("plain", "timestamp_ms", "input_tokens", "output_tokens", MILLISECOND),
    Form("plain", "timestamp_us", "input_tokens", "output_tokens", MICROSECOND),
    Form("plain", "timestamp_ns", "input_tokens", "output_tokens", NANOSECOND),
)
