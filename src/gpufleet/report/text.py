"""A page as plain text that never exceeds its width and needs no colour."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from gpufleet.report.page import Column, Page, Row, Table

GAP = "  "
MARK, NO_MARK = "> ", "  "
NARROWEST_CELL = 6
ELLIPSIS = "…"


def page_as_text(page: Page, width: int) -> str:
    """Headline, paragraphs, tables and notes, separated by blank lines."""
    parts = [wrapped(page.headline, width), *(wrapped(p, width) for p in page.paragraphs)]
    parts += [table_as_text(table, width) for table in page.tables]
    parts.append("\n".join(wrapped(note, width) for note in page.notes))
    return "\n\n".join(part for part in parts if part) + "\n"


def table_as_text(table: Table, width: int) -> str:
    """Aligned columns; on a narrow page the least important columns are left out, and that is said."""
    shown, dropped = columns_that_fit(table, width)
    lines = [wrapped(table.title, width)] if table.title else []
    lines += grid(table, shown, width) if table.rows else [wrapped(table.empty, width)]
    if dropped and table.rows:
        lines.append(wrapped("Not shown at this width: " + ", ".join(c.header for c in dropped) + ".", width))
    return "\n".join([*lines, *(wrapped(note, width) for note in table.notes)])


def columns_that_fit(table: Table, width: int) -> tuple[list[Column], list[Column]]:
    """The columns to show and those left out, both in the table's order."""
    shown = [column for column in table.columns if column.where != "data"]
    dropped: list[Column] = []
    while natural_width(table, shown) > width:
        candidates = [column for column in shown if column.priority > 0]
        if not candidates:
            break
        least = max(reversed(candidates), key=lambda column: column.priority)
        shown.remove(least)
        dropped.append(least)
    return shown, [column for column in table.columns if column in dropped]


def natural_width(table: Table, columns: Sequence[Column]) -> int:
    """Characters of a line in which no cell is cut."""
    return margin_width(table) + sum(column_widths(table, columns)) + len(GAP) * (len(columns) - 1)


def margin_width(table: Table) -> int:
    """Room for the mark of the chosen row."""
    return 0 if table.chosen is None else len(MARK)


def column_widths(table: Table, columns: Sequence[Column]) -> list[int]:
    """The widest cell of every column, header included."""
    return [max(len(text) for text in (c.header, *(cell(c, row) for row in table.rows))) for c in columns]


def cell(column: Column, row: Row) -> str:
    """The text of one cell, on one line."""
    return printable(column.show(row[column.key]))


def grid(table: Table, columns: Sequence[Column], width: int) -> list[str]:
    """Header, rule and rows."""
    widths = narrowed(column_widths(table, columns), width - margin_width(table))
    margin = "" if table.chosen is None else NO_MARK
    header = margin + line([c.header for c in columns], columns, widths)
    rule = margin + GAP.join("-" * w for w in widths)
    rows = [
        mark(table, index) + line([cell(c, row) for c in columns], columns, widths)
        for index, row in enumerate(table.rows)
    ]
    return [text.rstrip()[:width] for text in (header, rule, *rows)]


def mark(table: Table, index: int) -> str:
    """'> ' before the chosen row."""
    if table.chosen is None:
        return ""
    return MARK if index == table.chosen else NO_MARK


def line(cells: Sequence[str], columns: Sequence[Column], widths: Sequence[int]) -> str:
    """One line of aligned cells."""
    aligned = [
        cut(text, w).rjust(w) if column.align == "right" else cut(text, w).ljust(w)
        for text, column, w in zip(cells, columns, widths, strict=True)
    ]
    return GAP.join(aligned)


def narrowed(widths: Sequence[int], available: int) -> list[int]:
    """Column widths that fit, taken from the widest column first."""
    result = list(widths)
    room = available - len(GAP) * (len(result) - 1)
    while sum(result) > room and max(result, default=0) > NARROWEST_CELL:
        result[result.index(max(result))] -= 1
    return result


def cut(text: str, width: int) -> str:
    """The text, or its beginning and an ellipsis."""
    return text if len(text) <= width else text[: width - 1] + ELLIPSIS


def printable(text: str) -> str:
    """The text without control characters: a model's name cannot move the cursor or colour the screen."""
    return "".join(c if c.isprintable() else " " if c in "\t\n\r" else "?" for c in text)


def wrapped(text: str, width: int) -> str:
    """Every line broken at spaces."""
    return "\n".join(wrapped_line(part, width) for part in text.splitlines())


def wrapped_line(text: str, width: int) -> str:
    """One line broken at spaces, continuation lines under its first word."""
    indent = " " * (len(text) - len(text.lstrip()))
    return textwrap.fill(printable(text), width, subsequent_indent=indent, break_on_hyphens=False)
