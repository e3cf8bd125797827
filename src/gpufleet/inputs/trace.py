"""Request traces as the public ones are written; the form is told by the columns.

form      file   columns
azure     CSV    TIMESTAMP (date and time), ContextTokens, GeneratedTokens      (Azure LLM inference 2023, 2024)
burstgpt  CSV    Timestamp (s), [Session ID, Elapsed time,] Model, Request tokens, Response tokens, ..., Log Type
plain     CSV    input_tokens, output_tokens, and timestamp_s (_ms, _us, _ns) or arrival_s where it is known
mooncake  JSONL  timestamp (ms), input_length, output_length, hash_ids          (blocks of the prompt's prefix)
bailian   JSONL  chat_id, timestamp (s), input_length, output_length, hash_ids  (Qwen-Bailian)

Any form may be CSV or JSONL, packed by gzip or not, and may have a column request_class or class.
Rows without an answer (0 tokens) are failures and are left out, and counted.
"""

from __future__ import annotations

import csv
import math
from array import array
from collections.abc import Iterator, Mapping
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import TypeAlias

import numpy as np

from gpufleet.domain.arrays import FloatArray, IntArray
from gpufleet.domain.requests import PrefixBlocks, Requests
from gpufleet.domain.token_counts import TokenCounts
from gpufleet.errors import UsageError
from gpufleet.files import read_text_file
from gpufleet.inputs.json_text import parse_json
from gpufleet.performance.token_lengths import of_sample
from gpufleet.records import dataclass
from gpufleet.simulate.arrivals import even_times_s, renewal_times_s
from gpufleet.simulate.reshape import at_rate, selected_blocks
from gpufleet.units import MB, MICROSECOND, MILLISECOND, MINUTE, NANOSECOND

WHAT = "the trace"
MOST_BYTES, MOST_TOKENS, LONGEST_CELL = 200 * MB, 2.0**24, 1000
MOST_REQUESTS, MOST_BLOCKS, MOST_CLASSES, LONGEST_LINE = 10_000_000, 5_000_000, 100, 1_000_000
CLASS_COLUMNS = ("request_class", "class")
LATEST_S, FRACTION_DIGITS = 1e20, 6
Row: TypeAlias = tuple[int, Mapping[str, object]]
USUAL_BLOCK_TOKENS = 512
"""Of Mooncake's traces; smaller where prompts have more blocks than that."""
NONE = array("q")


@dataclass(frozen=True)
class Trace:
    """Requests that were seen, in the order they came: times from the first one on, where known, and tokens.

    `cached_ratio` is the share of prompt tokens in prefix blocks that stood before: what an endless cache would hit.
    `num_out_of_order` rows of the file stood after a later one; all are sorted by time. `first_time_s` is the earliest
    arrival as the file has it, read in its form's unit of `unit_s` seconds; None: a date.
    """

    form: str
    times_s: FloatArray | None
    input_tokens: FloatArray
    output_tokens: FloatArray
    num_failed: int = 0
    cached_ratio: float | None = None
    first_time_s: float = 0.0
    unit_s: float | None = None
    request_class: IntArray | None = None
    class_names: tuple[str, ...] = ("",)
    prefix: PrefixBlocks | None = None
    num_out_of_order: int = 0

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

    def requests(self, rate_requests_per_s: float | None = None, rng: np.random.Generator | None = None) -> Requests:
        """The requests one by one, at their own times or stretched to a rate.

        Those without times come at the rate, one after the other: Poisson with dice, else evenly.
        """
        num = len(self.input_tokens)
        prompts, answers = (np.rint(t).astype(np.int64) for t in (self.input_tokens, self.output_tokens))
        classes = np.zeros(num, dtype=np.int64) if self.request_class is None else self.request_class
        columns = (np.maximum(prompts, 1), np.maximum(answers, 1), classes, self.class_names, self.prefix)
        if self.times_s is None:
            return Requests(times_at(rate_requests_per_s, num, rng), *columns)
        own = Requests(self.times_s, *columns)
        return own if rate_requests_per_s is None else at_rate(own, rate_requests_per_s)


def times_at(rate_requests_per_s: float | None, num: int, rng: np.random.Generator | None) -> FloatArray:
    """Times of requests that have none."""
    if rate_requests_per_s is None:
        raise UsageError(f"{WHAT} has no times", expected="a time in every row, or a rate such as --rate 5/s")
    return even_times_s(rate_requests_per_s, num) if rng is None else renewal_times_s(rng, rate_requests_per_s, num)


@dataclass(frozen=True)
class Form:
    """A way of writing a trace: the columns of time, prompt and answer, and seconds that a time counts; None: dates.

    `marker` is a column by which it is told from another with the same ones.
    """

    name: str
    time: str
    prompt: str
    answer: str
    unit_s: float | None
    marker: str = ""

    @property
    def columns(self) -> set[str]:
        """What a row has, beside its time."""
        return {self.prompt, self.answer, self.marker or self.prompt}

    def seconds(self, text: str) -> float:
        """Seconds of one arrival."""
        return clock_time_s(text) if self.unit_s is None else float(text) * self.unit_s


def read_trace(path: str | Path, where: Mapping[str, str] | None = None) -> Trace:
    """The trace in a file of any known form; `where` names columns and what rows that are wanted have there."""
    return parse_trace(read_text_file(path, WHAT, MOST_BYTES, may_be_packed=True), where)


def parse_trace(text: str, where: Mapping[str, str] | None = None) -> Trace:
    """The trace in a text: JSON lines where it begins with a brace, else CSV.

    >>> trace = parse_trace("TIMESTAMP,ContextTokens,GeneratedTokens\\n2023-11-16 18:17:03.9799600,100,10\\n")
    >>> trace.form, trace.input_counts.mean
    ('azure', 100.0)
    """
    rows = wanted(json_rows(text) if text[:LONGEST_CELL].lstrip()[:1] == "{" else csv_rows(text), where or {})
    first = next(rows, None)
    if first is None:
        such = "".join(f" with {name} {value!r}" for name, value in (where or {}).items())
        raise UsageError(f"{WHAT} has no rows{such}", expected="a header and one line for each request")
    form = form_of(first[1])
    return collected(form, chain([first], rows))


def wanted(rows: Iterator[Row], where: Mapping[str, str]) -> Iterator[Row]:
    """Rows that have these cells."""
    return (row for row in rows if all(str(row[1].get(name)) == cell for name, cell in where.items()))


def csv_rows(text: str, what: str = WHAT) -> Iterator[Row]:
    """Line number and cells of each row, columns by their names in small letters."""
    reader = csv.reader(lines_of(text, what))
    try:
        header = [name.strip().lower() for name in next(reader, [])]
        for cells in reader:
            if cells:
                yield reader.line_num, dict(zip(header, cells, strict=False))
    except csv.Error as error:
        raise UsageError(f"{what}: line {reader.line_num} is not CSV", found=str(error)) from error


def lines_of(text: str, what: str = WHAT) -> Iterator[str]:
    """The lines of a text one by one, each of a length that somebody could have meant."""
    start, number = 0, 1
    while start < len(text):
        end = text.find("\n", start) + 1 or len(text)
        if end - start > LONGEST_LINE:
            raise UsageError(f"{what}: line {number} is too long", expected=f"at most {LONGEST_LINE:,} characters")
        yield text[start:end]
        start, number = end, number + 1


def json_rows(text: str) -> Iterator[Row]:
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
    fitting = [form for form in FORMS if form.columns <= row.keys()]
    found = next((form for form in fitting if form.time in row), fitting[0] if fitting else None)
    if found is None:
        known = "; ".join(dict.fromkeys(f"{form.prompt}, {form.answer} ({form.name})" for form in FORMS))
        raise UsageError(f"{WHAT} has columns of an unknown form", found=", ".join(map(str, row)), expected=known)
    return found


class Columns:
    """What rows of one form say, column by column, a few numbers for each."""

    def __init__(self, form: Form, class_column: str | None) -> None:
        self.form, self.class_column = form, class_column
        self.times, self.prompts, self.answers, self.classes = array("d"), array("d"), array("d"), array("q")
        self.names: dict[str, int] = {}
        self.blocks, self.num_failed = SeenBlocks(), 0

    def add(self, number: int, row: Mapping[str, object]) -> None:
        """One row; without an answer it counts as failed, though its prompt is in the cache from then on."""
        form = self.form
        prompt, answer = (whole(row.get(name), name, number) for name in (form.prompt, form.answer))
        refuse_more("prefix blocks", len(self.blocks.known), MOST_BLOCKS)
        blocks = self.blocks.numbered(row.get("hash_ids"), prompt)
        if prompt < 1 or answer < 1:
            self.num_failed += 1
            return
        refuse_more("requests", len(self.prompts), MOST_REQUESTS)
        self.blocks.keep(len(self.prompts), blocks, prompt)
        self.prompts.append(prompt)
        self.answers.append(answer)
        if form.time in row:
            self.times.append(time_of(form, row[form.time], number))
        if self.class_column is not None:
            self.classes.append(self.class_of(row.get(self.class_column)))

    def class_of(self, cell: object) -> int:
        """The number of a class, in the order they are met."""
        name = "" if cell is None else str(cell).strip()[:LONGEST_CELL]
        refuse_more("classes", len(self.names) - (name in self.names), MOST_CLASSES)
        return self.names.setdefault(name, len(self.names))

    def trace(self) -> Trace:
        """All rows by their times."""
        times, num = np.frombuffer(self.times), len(self.prompts)
        has_times = len(times) == num
        num_late = int(np.count_nonzero(times < np.maximum.accumulate(times))) if has_times else 0
        order = np.argsort(times, kind="stable") if num_late else slice(None)
        prefix, first_s = self.blocks.prefix(num), float(times.min()) if has_times else 0.0
        return Trace(
            self.form.name,
            times[order] - first_s if has_times else None,
            np.frombuffer(self.prompts)[order],
            np.frombuffer(self.answers)[order],
            self.num_failed,
            self.blocks.hit_ratio,
            first_s,
            self.form.unit_s,
            None if self.class_column is None else np.frombuffer(self.classes, dtype=np.int64)[order],
            tuple(self.names) or ("",),
            selected_blocks(prefix, order) if prefix is not None and isinstance(order, np.ndarray) else prefix,
            num_late,
        )


def collected(form: Form, rows: Iterator[Row]) -> Trace:
    """Times and tokens of all rows that were answered."""
    first = next(rows)
    columns = Columns(form, next((name for name in CLASS_COLUMNS if name in first[1]), None))
    for number, row in chain([first], rows):
        columns.add(number, row)
    if not columns.prompts:
        raise UsageError(f"{WHAT} has no request that was answered", found=f"{columns.num_failed} rows without tokens")
    if columns.blocks.blocks and not columns.blocks.block_tokens:
        found = f"{len(columns.blocks.blocks):,} for {columns.blocks.kept_tokens:,.0f} tokens of prompts"
        raise UsageError(f"{WHAT} has more hash_ids than tokens", found=found, expected="one for each block of tokens")
    return columns.trace()


def refuse_more(what: str, so_far: int, most: int) -> None:
    """Refuse what no longer fits a memory that is bounded."""
    if so_far >= most:
        raise UsageError(f"{WHAT} has too many {what}", expected=f"at most {most:,}", hint="Take some hours of it.")


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


def moment_s(cell: object, column: str, line: int, what: str) -> float:
    """Seconds of a cell that says a number, or a date and time; `what` names the file in errors."""
    text = str(cell)[:LONGEST_CELL].strip()
    for read in (float, clock_time_s):
        try:
            seconds = read(text)
        except (ValueError, OverflowError):
            continue
        if abs(seconds) <= LATEST_S:
            return seconds
    raise UsageError(f"{what}: line {line}: cannot read {column}", found=cell, expected="seconds, or a date")


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
    Form("bailian", "timestamp", "input_length", "output_length", 1.0, "chat_id"),
    Form("mooncake", "timestamp", "input_length", "output_length", MILLISECOND),
    Form("burstgpt", "timestamp", "request tokens", "response tokens", 1.0),
    Form("plain", "timestamp_s", "input_tokens", "output_tokens", 1.0),
    Form("plain", "timestamp_ms", "input_tokens", "output_tokens", MILLISECOND),
    Form("plain", "timestamp_us", "input_tokens", "output_tokens", MICROSECOND),
    Form("plain", "timestamp_ns", "input_tokens", "output_tokens", NANOSECOND),
    Form("plain", "arrival_s", "input_tokens", "output_tokens", 1.0),
)


class SeenBlocks:
    """Numbers blocks in the order they are met, and counts how much of prompts stands in blocks that were met before.

    Those are the leading blocks that an earlier prompt began with too.
    """

    def __init__(self) -> None:
        self.known: dict[int, int] = {}
        self.hit_tokens, self.all_tokens, self.kept_tokens = 0.0, 0.0, 0.0
        self.counts, self.blocks, self.num_followed = array("q"), array("q"), 0

    def numbered(self, hashes: object, prompt_tokens: float) -> array[int]:
        """The numbers of one prompt's blocks, by their hashes in order; none where they are no list of numbers."""
        if not isinstance(hashes, list) or not hashes or not all(isinstance(h, int) for h in hashes):
            return NONE
        known, before = self.known, len(self.known)
        numbers = array("q", [known.setdefault(h, len(known)) for h in hashes])
        hits = next((i for i, number in enumerate(numbers) if number >= before), len(hashes))
        self.hit_tokens += prompt_tokens * hits / len(hashes)
        self.all_tokens += prompt_tokens
        return numbers

    def keep(self, row: int, numbers: array[int], prompt_tokens: float) -> None:
        """Blocks of a request that is replayed, the `row`-th; rows without any are filled in."""
        if numbers:
            self.fill(row)
            self.num_followed += len(numbers) - 1
            self.kept_tokens += prompt_tokens
            self.counts.append(len(numbers))
            self.blocks.extend(numbers)

    def fill(self, num_rows: int) -> None:
        """No blocks for rows that were not kept, up to so many."""
        self.counts.frombytes(bytes(self.counts.itemsize * (num_rows - len(self.counts))))

    def prefix(self, num_rows: int) -> PrefixBlocks | None:
        """The blocks of so many requests; None where no request has any."""
        if not self.blocks:
            return None
        self.fill(num_rows)
        first = np.zeros(num_rows + 1, dtype=np.int64)
        np.cumsum(np.frombuffer(self.counts, dtype=np.int64), out=first[1:])
        return PrefixBlocks(self.block_tokens, first, np.frombuffer(self.blocks, dtype=np.int64))

    @property
    def block_tokens(self) -> int:
        """Tokens of a block, a power of two: a block that another one follows is full; 0 where there are more blocks.

        The largest b with b x (blocks - 1) <= tokens over all prompts, at most USUAL_BLOCK_TOKENS.
        """
        most = self.kept_tokens / self.num_followed if self.num_followed else math.inf
        return USUAL_BLOCK_TOKENS if most >= USUAL_BLOCK_TOKENS else (1 << int(most).bit_length()) >> 1

    @property
    def hit_ratio(self) -> float | None:
        """The share of prompt tokens that were hits; None where no prompt has blocks."""
        return self.hit_tokens / self.all_tokens if self.all_tokens else None
