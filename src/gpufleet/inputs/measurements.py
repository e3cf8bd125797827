"""CSV files of measurements: what each cell says, and what is wrong with a row without giving up on the file."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from gpufleet.errors import UsageError
from gpufleet.files import read_text_file
from gpufleet.records import dataclass
from gpufleet.units import MB, TABLE_NUMBERS

LARGEST_FILE_BYTES = 64 * MB
MOST_ROWS = 500_000
MOST_COLUMNS = 400


@dataclass(frozen=True)
class MeasurementKind:
    """A kind of file: the columns that tell it, those of which it needs one, and those that it never has."""

    name: str
    columns: frozenset[str]
    any_of: frozenset[str]
    never: frozenset[str] = frozenset()

    def is_told_by(self, header: frozenset[str]) -> bool:
        """Whether this header is of this kind."""
        return self.columns <= header and bool(self.any_of & header) and not self.never & header

    @property
    def expected(self) -> str:
        """The kind and its columns as an error names them."""
        one_of = " or ".join(sorted(self.any_of))
        return f"{self.name} ({', '.join([*sorted(self.columns), one_of])})"


KINDS: tuple[MeasurementKind, ...] = (
    MeasurementKind("param_counts", frozenset({"model"}), frozenset({"params_exact"})),
    MeasurementKind(
        "serving_points",
        frozenset({"isl", "osl", "concurrency"}),
        frozenset({"ttft_ms", "tpot_ms"}),
        never=frozenset({"scenario"}),
    ),
    MeasurementKind(
        "inference_throughput",
        frozenset({"scenario", "isl", "osl"}),
        frozenset({"out_tokens_per_s_total", "in_tokens_per_s_total", "ttft_ms", "tpot_ms", "latency_ms"}),
    ),
    MeasurementKind(
        "inference_memory",
        frozenset(),
        frozenset({"weights_gb", "kv_cache_tokens", "kv_cache_gb", "total_gb"}),
    ),
    MeasurementKind(
        "serving_points_disagg",
        frozenset({"isl", "osl", "concurrency", "prefill_num_workers", "decode_num_workers"}),
        frozenset({"silicon_ttft_ms", "silicon_tpot_ms"}),
    ),
    MeasurementKind(
        "serving_under_load",
        frozenset({"arrival", "input_mean", "output_mean"}),
        frozenset(f"{time}_{at}_ms" for time in ("ttft", "tpot", "e2e") for at in ("mean", "p50", "p90", "p95", "p99")),
    ),
    MeasurementKind("training_throughput", frozenset({"seq_len"}), frozenset({"tokens_per_s_per_gpu"})),
    MeasurementKind("training_memory", frozenset({"seq_len"}), frozenset({"peak_mem_gb"})),
    MeasurementKind("other_models", frozenset({"task", "metric", "unit"}), frozenset({"value"})),
)


@dataclass(frozen=True)
class MeasurementRow:
    """One record: `line` is where it begins in the file (the header is line 1); `fault` is why it cannot be read."""

    line: int
    cells: Mapping[str, str]
    fault: str | None = None

    def text(self, *columns: str) -> str:
        """The first of these cells that says something, else an empty text."""
        return next((self.cells[column] for column in columns if self.cells.get(column)), "")

    def number(self, column: str) -> float | None:
        """The number in a cell; None where it says nothing."""
        cell = self.cells.get(column, "")
        if not cell:
            return None
        value = as_number(cell)
        if value is None:
            raise UsageError(f"{column} is not a number", found=cell)
        if value != 0:
            TABLE_NUMBERS.refuse_outside(abs(value), column, cell)
        return value

    def positive(self, column: str) -> float | None:
        """A number above zero; None where the cell says nothing."""
        value = self.number(column)
        if value is not None and value <= 0:
            raise UsageError(f"{column} must be positive", found=value)
        return value

    def whole(self, column: str) -> int | None:
        """A whole number above zero; None where the cell says nothing."""
        value = self.positive(column)
        if value is not None and not value.is_integer():
            raise UsageError(f"{column} must be a whole number", found=value)
        return None if value is None else int(value)


@dataclass(frozen=True)
class MeasurementFile:
    """The rows of one file and its kind."""

    path: str
    kind: str
    columns: tuple[str, ...]
    rows: tuple[MeasurementRow, ...]


def as_number(cell: str) -> float | None:
    """The finite number that a cell holds, or None; '1_000' and 'nan' are no numbers here."""
    try:
        value = math.nan if "_" in cell else float(cell)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def read_measurements(path: str | Path) -> MeasurementFile:
    """A CSV file whose header tells one of the kinds; rows that are cut off carry a fault."""
    text = read_text_file(path, "a measurement file", LARGEST_FILE_BYTES)
    records = _records(text, str(path))
    _, header = next(records, (0, []))
    columns = _columns(header, str(path))
    kind = kind_of(columns, str(path))
    return MeasurementFile(str(path), kind, columns, tuple(_rows(columns, records, str(path))))


def _records(text: str, path: str) -> Iterator[tuple[int, Sequence[str]]]:
    """Non-empty records, each with the line on which it begins."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    begins = 1
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                yield begins, cells
            begins = reader.line_num + 1
    except csv.Error as error:
        raise UsageError(
            f"{path} is not CSV, line {begins}: {error}", expected="comma-separated text, every quote closed"
        ) from error


def _columns(header: Sequence[str], path: str) -> tuple[str, ...]:
    """The names in the first line; every name once."""
    if not header:
        raise UsageError(f"{path} is empty", expected=_expected_kinds())
    if len(header) > MOST_COLUMNS:
        raise UsageError(f"{path} has too many columns", found=len(header), expected=f"at most {MOST_COLUMNS}")
    columns = tuple(name.strip() for name in header)
    twice = [name for name in columns if name and columns.count(name) > 1]
    if twice:
        raise UsageError(f"{path} has a column twice", found=twice[0])
    return columns


def kind_of(columns: Sequence[str], path: str) -> str:
    """The kind that a header tells.

    >>> kind_of(["model", "config_json", "params_exact"], "mine.csv")
    'param_counts'
    """
    kinds = [kind.name for kind in KINDS if kind.is_told_by(frozenset(columns))]
    if len(kinds) == 1:
        return kinds[0]
    hint = "Separate columns by commas." if len(columns) == 1 and any(c in columns[0] for c in ";\t|") else None
    problem = f"{path} is of no kind that can be scored" if not kinds else f"{path} could be {' or '.join(kinds)}"
    raise UsageError(problem, found=", ".join(columns), expected=_expected_kinds(), hint=hint)


def _expected_kinds() -> str:
    return "the columns of " + "; ".join(kind.expected for kind in KINDS)


def _rows(columns: Sequence[str], records: Iterator[tuple[int, Sequence[str]]], path: str) -> Iterator[MeasurementRow]:
    for count, (line, cells) in enumerate(records, start=1):
        if count > MOST_ROWS:
            raise UsageError(f"{path} has too many rows", expected=f"at most {MOST_ROWS:,}")
        named = {name: cell.strip() for name, cell in zip(columns, cells, strict=False)}
        yield MeasurementRow(line, named, _fault(len(columns), cells))


def _fault(num_columns: int, cells: Sequence[str]) -> str | None:
    if len(cells) == num_columns:
        return None
    what = "cut off" if len(cells) < num_columns else "too long"
    return f"the row is {what}: {len(cells)} cells under {num_columns} columns"
