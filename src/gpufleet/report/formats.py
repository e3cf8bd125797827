"""Markdown, CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any

from gpufleet.errors import UsageError
from gpufleet.report.controls import printable, visible, visible_lines
from gpufleet.report.numbers import significant
from gpufleet.report.page import Column, Command, Page, Table
from gpufleet.report.text import cell, listed, mark

FORMULA_SIGNS = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
SPECIAL = re.compile(r"[\\|<>*_`~\[\]&]|#(?=#*$)")
BLOCK_STARTS = re.compile(r"^([0-9]{1,9})?((?(1)[.)](?=\s|$)|(?:[-+](?=[\s-]|$)|#)))")
NUMBER = re.compile(r"[+-]([0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?)?")


def page_as_markdown(page: Page) -> str:
    """Headline, tables and notes as GitHub-flavoured markdown."""
    parts = [f"**{escaped(page.first_sentence)}**" if page.headline else "", *map(escaped, page.leading)]
    parts += [table_as_markdown(table) for table in page.tables]
    parts.append("\n".join(f"- {escaped(note.strip())}" for note in page.closing))
    return "\n\n".join(part for part in parts if part) + "\n"


def table_as_markdown(table: Table) -> str:
    """A pipe table with every column that people read."""
    columns = [column for column in table.columns if column.where != "data"]
    parts = [f"### {escaped(table.title)}" if table.title else "", fenced(table.drawing), fenced_listing(table.listing)]
    parts.append("\n".join(pipe_lines(table, columns)) if table.rows else escaped(table.empty))
    parts.append("\n".join(f"- {escaped(note.strip())}" for note in table.notes))
    return "\n\n".join(part for part in parts if part)


def fenced(drawing: Sequence[str]) -> str:
    """Lines that keep their columns, and that nothing in them can end early."""
    return "\n".join(["```text", *(printable(text).replace("`", "'") for text in drawing), "```"]) if drawing else ""


def fenced_listing(listing: Sequence[Command]) -> str:
    """Commands to copy, each character kept, between fences longer than any run of backticks in them."""
    lines = listed(listing)
    fence = "`" * max([3, *(len(run) + 1 for line in lines for run in re.findall("`+", line))])
    return "\n".join([f"{fence}sh", *lines, fence]) if lines else ""


def pipe_lines(table: Table, columns: Sequence[Column]) -> list[str]:
    """Header, alignment and rows; the chosen row begins with an escaped '>'."""
    lines = [[inline(c.header) for c in columns], ["---:" if c.align == "right" else "---" for c in columns]]
    for index, row in enumerate(table.rows):
        first, *others = [inline(cell(c, row)) for c in columns]
        lines.append([inline(mark(table, index).strip()) + " " + first, *others])
    return ["| " + " | ".join(text.strip() for text in cells) + " |" for cells in lines]


def inline(text: str) -> str:
    """Text of a cell that markdown leaves as it is: no emphasis, link, entity or tag in it."""
    return SPECIAL.sub(r"\\\g<0>", printable(text).strip(" "))


def escaped(text: str) -> str:
    r"""The same of a line, with which no block begins either.

    >>> print(escaped("# [a](b) 5 * 4 &lt;"), escaped("1. a"), escaped("- 2"))
    \# \[a\](b) 5 \* 4 \&lt; 1\. a \- 2
    """
    return BLOCK_STARTS.sub(lambda start: f"{start[1] or ''}\\{start[2]}", inline(text))


def page_as_csv(page: Page) -> str:
    """The data columns of the first table as RFC 4180, full precision, unknown as an empty cell."""
    return as_csv(*table_as_data(page.tables[0])) if page.tables else ""


def page_as_frame(page: Page) -> Any:
    """The first table as a pandas DataFrame, which is not installed with gpufleet."""
    try:
        pandas = import_module("pandas")
    except ModuleNotFoundError:
        raise UsageError("pandas is not installed", hint="'pip install pandas', or to_json().") from None
    columns, rows = table_as_data(page.tables[0]) if page.tables else ([], [])
    return pandas.DataFrame(rows, columns=columns)


def table_as_data(table: Table) -> tuple[list[str], list[list[object]]]:
    """The data columns of a table, and its rows."""
    columns = [column for column in table.columns if column.where != "text"]
    return [column.key for column in columns], [[row[c.key] for c in columns] for row in table.rows]


def as_csv(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Cells as RFC 4180; a text can neither be a formula nor move a cursor."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\r\n")
    writer.writerow(header)
    writer.writerows(map(csv_cell, cells) for cells in rows)
    return stream.getvalue()


def csv_cell(value: object) -> object:
    """A value that a spreadsheet shows as it is: controls by their number, what begins like a formula after a quote.

    Nothing stands where a value is unknown, the word of the pages where there is no limit.

    >>> csv_cell("=1+1"), csv_cell("-3.5"), csv_cell(-3.5), csv_cell(None), csv_cell(math.inf)
    ("'=1+1", '-3.5', -3.5, '', 'unlimited')
    """
    if isinstance(value, float) and math.isinf(value):
        return significant(value)
    if not isinstance(value, str):
        return "" if value is None else value
    text = visible(value)
    return f"'{text}" if text.startswith(FORMULA_SIGNS) and not NUMBER.fullmatch(text) else text


def as_json(result: object) -> str:
    """A result model, or a sequence of them, as indented JSON."""
    return visible_lines(json.dumps(jsonable(result), indent=2, ensure_ascii=False, allow_nan=False)) + "\n"


def jsonable(value: Any) -> Any:
    """Plain JSON values: a model dumps itself, unlimited is "Infinity", nan is our bug and raises later."""
    if hasattr(value, "model_dump"):
        return jsonable(value.model_dump(mode="json"))
    if isinstance(value, Mapping):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [jsonable(item) for item in value]
    if isinstance(value, float) and math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value
