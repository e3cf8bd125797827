"""What the suite keeps of a few records: what no calibration and no price moves.

- of JSON, the keys and the type of each value; rows of a list are one, with the keys of all of them. A null, a list
  without rows and an object without keys say nothing, before or now; keys that are no names of fields (`ttft.p95`) are
  one, `*`;
- of a page, its tables' columns: of text those that stand above a rule, of CSV the first row, of HTML the `th`;
- of a picture, that there is one;
- help, whole; messages, each figure in them as N;
- exit codes, and which files are written.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from html import unescape
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.corpus.commands import FOLDER, Command, commands
from tests.corpus.comparing import NOTHING, Difference, differing, parsed
from tests.corpus.recording import Record, Stage

FROZEN = FOLDER / "frozen"
ANY_KEY = "*"
TYPES = {bool: "bool", int: "number", float: "number", str: "text"}
RULE = re.compile(r"[-\s]*--[-\s]*")
FIGURE = re.compile(r"\d[\d,.]*\d|\d")


def structure_of(record: Record, command: Command) -> Record:
    """A record without what calibrations and prices move."""
    texts = {name: structure_of_text(text) for name, text in record.files.items()}
    out = record.out if command.is_help else structure_of_text(record.out)
    return replace(record, out=out, err=FIGURE.sub("N", record.err), files=texts)


def structure_of_text(text: str) -> str:
    """The structure of an answer in any format, as text."""
    content = parsed(text)
    if content is not NOTHING:
        return written(shape_of(content))
    if text.startswith("<svg"):
        return "a picture"
    if text.lstrip().lower().startswith("<!doctype html"):
        cells = re.findall(r"<th[^>]*>(.*?)</th>", text, re.DOTALL)
        return "\n".join(dict.fromkeys(" ".join(unescape(re.sub(r"<[^>]*>", " ", cell)).split()) for cell in cells))
    lines = text.splitlines()
    headers = [above for above, below in pairwise(lines) if above and RULE.fullmatch(below)]
    if not headers and text.startswith("| "):
        headers = [line for line, below in pairwise(lines) if below.startswith("| -")]
    return "\n".join(re.sub(r"\s{2,}", "  ", line.strip()) for line in headers or lines[:1])


def written(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False)


def shape_of(value: Any) -> Any:
    """The types of a value, by key; None where it says nothing.

    >>> shape_of({"a": 1.5, "rows": [{"b": None}, {"b": "x", "c": True}], "none": []})
    {'a': 'number', 'rows': [{'b': 'text', 'c': 'bool'}], 'none': None}
    >>> shape_of({"ttft.p95": 0.5, "latency.p95": None})
    {'*': 'number'}
    """
    if isinstance(value, dict):
        if not all(key.isidentifier() for key in value):
            return {ANY_KEY: merged(map(shape_of, value.values()))}
        return {key: shape_of(each) for key, each in value.items()} or None
    if isinstance(value, list):
        of_rows = merged(shape_of(each) for each in value)
        return None if of_rows is None else [of_rows]
    return TYPES.get(type(value))


def merged(shapes: Iterable[Any]) -> Any:
    """The shape of all rows of a list."""
    found = None
    for each in shapes:
        if isinstance(found, dict) and isinstance(each, dict):
            found = {key: merged((found.get(key), each.get(key))) for key in dict.fromkeys([*found, *each])}
        elif isinstance(found, list) and isinstance(each, list):
            found = [merged((*found, *each))]
        elif found is None or each is None:
            found = each if found is None else found
        elif found != each:
            found = "of several types"
    return found


def known_of(shape: Any, other: Any) -> Any:
    """A shape, with that of another where it says nothing itself.

    >>> known_of({"a": None, "b": "text"}, {"a": "number", "b": None})
    {'a': 'number', 'b': 'text'}
    """
    if shape is None or other is None:
        return other if shape is None else shape
    if isinstance(shape, dict) and isinstance(other, dict):
        return {key: known_of(each, other.get(key)) for key, each in shape.items()}
    if isinstance(shape, list) and isinstance(other, list):
        return [known_of(shape[0], other[0])]
    return shape


def comparable(before: Record, after: Record) -> tuple[Record, Record]:
    """Two structures, each completed by what only the other knows."""
    return completed(before, after), completed(after, before)


def completed(record: Record, other: Record) -> Record:
    texts = {name: completed_text(text, other.files.get(name, "")) for name, text in record.files.items()}
    return replace(record, out=completed_text(record.out, other.out), files=texts)


def completed_text(text: str, other: str) -> str:
    shape, of_other = parsed(text), parsed(other)
    return text if NOTHING in (shape, of_other) else written(known_of(shape, of_other))


def frozen_differences() -> Iterator[Difference]:
    """How what is frozen differs from what is answered now."""
    kept = {path.stem: read_frozen(path) for path in sorted(FROZEN.glob("*.json"))}
    now = structures(kept)
    for name, before in kept.items():
        yield from (Difference(name, line) for line in differing(*comparable(before, now[name])))


def structures(names: Iterable[str]) -> dict[str, Record]:
    """The structures of these commands as they are answered now, in this process."""
    wanted, known = set(names), commands()
    asked = [command for name, command in known.items() if name in wanted]
    if unknown := sorted(wanted - known.keys()):
        raise LookupError(f"no commands: {', '.join(unknown)}")
    with tempfile.TemporaryDirectory() as folder:
        stage = Stage(Path(folder))
        return {command.name: structure_of(stage.record(command), command) for command in asked}


def write_frozen(names: Iterable[str]) -> None:
    """Write the structures of these commands; all are asked, for some read what others write."""
    FROZEN.mkdir(exist_ok=True)
    named = list(names)
    asked = structures({*named, *(path.stem for path in FROZEN.glob("*.json"))})
    for name in named:
        record = asked[name]
        by_line = {**asdict(record), "out": record.out.split("\n")}
        by_line["files"] = {file: text.split("\n") for file, text in record.files.items()}
        (FROZEN / f"{name}.json").write_text(written(by_line) + "\n", encoding="utf-8")


def read_frozen(path: Path) -> Record:
    """One of those, whose texts stand line by line."""
    kept = json.loads(path.read_text(encoding="utf-8"))
    files = {file: "\n".join(lines) for file, lines in kept["files"].items()}
    return Record(**{**kept, "out": "\n".join(kept["out"]), "files": files})
