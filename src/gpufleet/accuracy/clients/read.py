"""Files of benchmark clients as measurements: which client wrote one, and what nobody has said of its runs yet."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from gpufleet.accuracy.clients.fields import Fields
from gpufleet.accuracy.clients.readers import CLIENTS
from gpufleet.accuracy.clients.run import Run
from gpufleet.accuracy.clients.tables import as_known, is_of_runs, run_of_row
from gpufleet.errors import UsageError
from gpufleet.files import entries_of, is_folder, named_path, read_text_file
from gpufleet.inputs.json_text import parse_json
from gpufleet.inputs.measurements import KINDS, MeasurementFile, MeasurementRow
from gpufleet.units import MB

KIND = "benchmark_runs"
LARGEST_FILE_BYTES = 64 * MB
SUFFIXES = (".json", ".jsonl", ".csv")
NEEDED = {"gpu_id": "--gpus H100:1", "engine": "--engine vllm", "model_id": "--model llama-3.1-8b"}
SAID_AS = {"gpu_id": "its GPU", "engine": "its engine", "model_id": "its model"}
VERSION_UNSAID = "the engine's version is not said: taken as today's; --engine-version says it"
OF_ONE_ORIGIN = {"sglang.bench_serving", "vllm bench serve"}
"""Clients whose fields mean the same."""
KNOWN = ", ".join(client.name for client in reversed(CLIENTS))


def files_in(paths: Sequence[str | Path]) -> list[Path]:
    """Files as they are named, and those of folders that are named, by name."""
    found: list[Path] = []
    for path in paths:
        if not is_folder(path):
            found.append(named_path(path))
            continue
        inside = sorted(each for each in entries_of(Path(path)) if each.suffix.lower() in SUFFIXES)
        if not inside:
            raise UsageError(f"{path} holds no result", expected=f"files that end in {', '.join(SUFFIXES)}")
        found.extend(inside)
    return found


def is_result(path: str | Path) -> bool:
    """Whether a file is JSON, by its name."""
    return Path(path).suffix.lower() in SUFFIXES[:2]


def read_runs(path: str | Path) -> list[Run]:
    """The runs in a JSON file of a client: one object, or one a line."""
    text = read_text_file(path, "a benchmark result", LARGEST_FILE_BYTES)
    records = list(records_in(text, str(path)))
    if not records:
        raise UsageError(f"{path} is empty", expected=f"what one of these writes: {KNOWN}")
    return [run.checked() for fields in records for run in runs_in(fields)]


def records_in(text: str, path: str) -> Iterator[Fields]:
    """Records of a file: the whole of it, or, where every line is one, each line."""
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    if len(lines) > 1 and all(line.lstrip().startswith("{") and line.rstrip().endswith("}") for _, line in lines):
        for number, line in lines:
            yield as_fields(parse_json(line, f"{path}, line {number}"), f"{path}, line {number}")
    elif lines:
        yield as_fields(parse_json(text, path), path)


def as_fields(value: object, where: str) -> Fields:
    """A record of a client."""
    if not isinstance(value, Mapping):
        raise UsageError(f"{where} is no result of a benchmark", found=type(value).__name__, expected=f"of {KNOWN}")
    return Fields(value, where)


def runs_in(said: Fields) -> Iterator[Run]:
    """The runs of a record, by the client that wrote it."""
    wrote = [client for client in CLIENTS if client.wrote(said)]
    names = {client.name for client in wrote}
    if len(names) > 1 and not names <= OF_ONE_ORIGIN:
        raise UsageError(f"{said.where} could be of several clients", found=", ".join(sorted(names)), expected="one")
    if not wrote:
        found = ", ".join(list(said.record)[:8])
        raise UsageError(f"{said.where} is of no client that is known", found=found, expected=f"a result of {KNOWN}")
    return wrote[0].runs(said)


def read_table(path: str | Path, stated: Mapping[str, str]) -> list[Run] | None:
    """The runs of a CSV whose columns have usual or stated names; None where its header is of no run."""
    text = read_text_file(path, "a benchmark result", LARGEST_FILE_BYTES)
    rows = csv.DictReader(io.StringIO(text, newline=""))
    header = [name.strip() for name in rows.fieldnames or [] if name]
    if says_where_it_ran(header) or not is_of_runs(header, stated):
        return None
    known = as_known(header, stated)
    told = ({(name or "").strip(): cell for name, cell in row.items() if isinstance(cell, str)} for row in rows)
    return [run_of_row(cells, known, f"{path}, row {number}").checked() for number, cells in enumerate(told, 1)]


def says_where_it_ran(header: Sequence[str]) -> bool:
    """Whether a header is of a kind of measurements, whose rows say on which GPU and engine they were taken."""
    is_known = any(kind.is_told_by(frozenset(header)) for kind in KINDS)
    return is_known and "engine" in header and bool({"gpu", "gpu_id"} & set(header))


def as_measurements(path: str | Path, runs: Sequence[Run], said: Mapping[str, str]) -> MeasurementFile:
    """Runs as rows, with what was said beside the file where it does not say it itself."""
    rows = [MeasurementRow(number, {**said, **run.cells()}) for number, run in enumerate(runs, 1)]
    missing = [column for column in NEEDED if any(not row.text(column) for row in rows)]
    if missing:
        raise UsageError(
            f"{path} does not say {' and '.join(SAID_AS[column] for column in missing)}",
            expected=" ".join(NEEDED[column] for column in missing),
            hint="--engine-version, --tp, --precision and --max-num-seqs say what else may differ from the defaults.",
        )
    columns = sorted({column for row in rows for column in row.cells})
    return MeasurementFile(str(path), KIND, tuple(columns), tuple(rows))


def doubts_of(run: Run, row: MeasurementRow) -> list[str]:
    """What a reader of a run's figures should know."""
    failed = [f"{run.failed:g} requests failed and are in no figure"] if run.failed else []
    unsaid = [] if row.text("engine_version") else [VERSION_UNSAID]
    return [*run.doubts, *failed, *unsaid]
