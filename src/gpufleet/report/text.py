"""A page as plain text that never exceeds its width and needs no colour."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from unicodedata import east_asian_width

from gpufleet.records import dataclass
from gpufleet.report.controls import printable
from gpufleet.report.page import Column, Command, Page, Row, Table

GAP = "  "
MARK, NO_MARK, BELOW = "> ", "  ", "  "
NARROWEST_CELL, NARROWEST_WRAP = 6, 16
ELLIPSIS, SECOND_HALF = "…", "\ue000"
TWO_PLACES = ("W", "F")
CONTINUED, LISTING_WIDTH = " \\", 80


def page_as_text(page: Page, width: int) -> str:
    """Headline, paragraphs, tables and notes, separated by blank lines."""
    parts = [wrapped(page.first_sentence, width), *(wrapped(p, width) for p in page.leading)]
    parts += [table_as_text(table, width) for table in page.tables]
    parts.append("\n".join(wrapped(note, width) for note in page.closing))
    return "\n\n".join(part for part in parts if part) + "\n"


@dataclass(frozen=True)
class WrittenColumn:
    """A column with the text of its cells, and the width of the widest."""

    column: Column
    cells: Sequence[str]
    width: int


def table_as_text(table: Table, width: int) -> str:
    """Aligned columns; on a narrow page the least important columns are left out, and that is said."""
    if not table.rows:
        parts = [wrapped(part, width) for part in (table.title, table.empty) if part]
        parts += listed(table.listing, width)
        return "\n".join([*parts, *(wrapped(note, width) for note in table.notes if note)])
    written = [written_column(c, table) for c in table.columns if c.where != "data" and not c.below]
    fitting = columns_that_fit(written, width - margin_width(table))
    dropped = [w.column.header for w in written if w not in fitting]
    shown = (
        fitting if have_room(fitting, width - margin_width(table)) else [w for w in fitting if not w.column.qualifies]
    )
    parts = [wrapped(table.title, width)] if table.title else []
    parts += [printable(text)[:width] for text in table.drawing]
    parts += grid(table, shown, width, [w for w in fitting if w not in shown])
    if dropped:
        parts.append(wrapped(f"Not shown at this width: {', '.join(dropped)}.", width))
    return "\n".join([*parts, *(wrapped(note, width) for note in table.notes)])


def listed(listing: Iterable[Command], width: int = LISTING_WIDTH) -> list[str]:
    """Commands as lines that a shell reads: broken between groups of words, else between words, never within one."""
    return [printable(text) for command in listing for text in command_lines(command, width)]


def command_lines(command: Command, width: int) -> list[str]:
    """One command."""
    room = width - len(CONTINUED) - len(BELOW)
    parts = [part for group in command for part in ([" ".join(group)] if len(" ".join(group)) <= room else group)]
    lines = [parts[0]]
    for part in parts[1:]:
        if len(lines[-1]) + 1 + len(part) + len(CONTINUED) <= width:
            lines[-1] += f" {part}"
        else:
            lines[-1] += CONTINUED
            lines.append(BELOW + part)
    return lines


def written_column(column: Column, table: Table) -> WrittenColumn:
    """Every cell written once."""
    cells = [wide(cell(column, row)) for row in table.rows]
    return WrittenColumn(column, cells, max(map(len, (wide(column.header), *cells))))


def cell(column: Column, row: Row) -> str:
    """The text of one cell, on one line."""
    return printable(column.show(row[column.key]))


def columns_that_fit(written: Sequence[WrittenColumn], room: int) -> list[WrittenColumn]:
    """The columns that stay when the least important ones give way, in the table's order."""
    shown = list(written)
    while line_width(w.width for w in shown) > room:
        candidates = [w for w in shown if w.column.may_go]
        if not candidates:
            break
        shown.remove(max(reversed(candidates), key=lambda w: w.column.priority))
    return shown


def have_room(shown: Sequence[WrittenColumn], room: int) -> bool:
    """Whether cells that qualify a price stay whole beside the others; else they go below their row."""
    least = (w.width if w.column.qualifies or is_amount(w) else min(w.width, NARROWEST_CELL) for w in shown)
    return line_width(least) <= room


def is_amount(written: WrittenColumn) -> bool:
    """Figures are set to the right: one that is cut is another figure."""
    return written.column.align == "right"


def line_width(widths: Iterable[int]) -> int:
    """Characters of a line with cells of these widths."""
    sizes = list(widths)
    return sum(sizes) + len(GAP) * (len(sizes) - 1)


def margin_width(table: Table) -> int:
    """Room for the mark of the chosen row."""
    return 0 if table.chosen is None else len(MARK)


def grid(table: Table, shown: Sequence[WrittenColumn], width: int, moved: Sequence[WrittenColumn] = ()) -> list[str]:
    """Header, rule and rows; cells of columns that were `moved` stand below their row."""
    widths = fitted(shown, width - margin_width(table))
    margin = "" if table.chosen is None else NO_MARK
    columns = [w.column for w in shown]
    header = margin + line([wide(printable(c.header)) for c in columns], columns, widths)
    rule = margin + GAP.join("-" * w for w in widths)
    rows = [text for index in range(len(table.rows)) for text in row_lines(table, index, shown, widths, width, moved)]
    return [narrow(text.rstrip()[:width]) for text in (header, rule, *rows)]


def row_lines(
    table: Table,
    index: int,
    shown: Sequence[WrittenColumn],
    widths: Sequence[int],
    page_width: int,
    moved: Sequence[WrittenColumn],
) -> list[str]:
    """One row: a line, or as many as its longest wrapping cell needs."""
    columns = [w.column for w in shown]
    cells = [cell_lines(w.cells[index], w.column, room) for w, room in zip(shown, widths, strict=True)]
    lines = [line(part, columns, widths) for part in zip_longest(*cells, fillvalue="")]
    margins = [mark(table, index), *(" " * margin_width(table) for _ in lines[1:])]
    own_lines = [margin + text for margin, text in zip(margins, lines, strict=True)]
    below = [f"{w.column.header}: {w.cells[index]}" for w in moved if w.cells[index]]
    return own_lines + lines_below(table, index, page_width, below)


def lines_below(table: Table, index: int, width: int, moved: Sequence[str] = ()) -> list[str]:
    """The cells that stand under their row, indented."""
    cells = [*moved, *(cell(column, table.rows[index]) for column in table.columns if column.below)]
    return [text for shown in cells if shown for text in wrapped(BELOW + shown, width).splitlines()]


def cell_lines(text: str, column: Column, width: int) -> list[str]:
    """The lines of one cell."""
    return (textwrap.wrap(*wrap_room(text, width), break_on_hyphens=False) if column.wraps else []) or [text]


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


def fitted(shown: Sequence[WrittenColumn], available: int) -> list[int]:
    """Widths that fit: wrapping columns give way first, as nothing of theirs is lost."""
    kept_width = line_width(NARROWEST_WRAP if w.column.wraps else w.width for w in shown)
    if kept_width > available:
        may_give = [not w.column.qualifies and not is_amount(w) for w in shown]
        return narrowed(narrowed([w.width for w in shown], available, may_give), available)
    wrapping = [i for i, w in enumerate(shown) if w.column.wraps]
    widths = [w.width for w in shown]
    while line_width(widths) > available:
        widths[max(wrapping, key=lambda i: widths[i])] -= 1
    return widths


def narrowed(widths: Sequence[int], available: int, may_give: Sequence[bool] | None = None) -> list[int]:
    """Column widths that fit, taken from the widest column first, of those that may give way."""
    result, giving = list(widths), [may_give is None or may_give[i] for i in range(len(widths))]
    while line_width(result) > available:
        widest = max((i for i, gives in enumerate(giving) if gives), key=lambda i: result[i], default=None)
        if widest is None or result[widest] <= NARROWEST_CELL:
            break
        result[widest] -= 1
    return result


def cut(text: str, width: int) -> str:
    """The text, or its beginning and an ellipsis."""
    if len(text) <= width:
        return text
    kept = text[: width - 1]
    return (kept[:-1] if text[width - 1] == SECOND_HALF else kept) + ELLIPSIS


def wide(text: str) -> str:
    """A text in which characters that take two places of a screen, such as those of Chinese, have a second half.

    >>> len(wide("中 GPU")), narrow(wide("中 GPU"))
    (6, '中 GPU')
    """
    if text.isascii():
        return text
    return "".join(letter + SECOND_HALF * (east_asian_width(letter) in TWO_PLACES) for letter in text)


def narrow(text: str) -> str:
    """The same without second halves."""
    return text.replace(SECOND_HALF, "")


def wrapped(text: str, width: int) -> str:
    """Every line broken at spaces."""
    return "\n".join(wrapped_line(part, width) for part in text.splitlines())


def wrapped_line(text: str, width: int) -> str:
    """One line broken at spaces, continuation lines under its first word."""
    indent = " " * (len(text) - len(text.lstrip()))
    filled = textwrap.fill(*wrap_room(wide(printable(text)), width), subsequent_indent=indent, break_on_hyphens=False)
    return narrow(filled)


def wrap_room(text: str, width: int) -> tuple[str, int]:
    """A text to be broken and its room: one place less where a break may part a letter from its second half."""
    return text, width - (SECOND_HALF in text)
