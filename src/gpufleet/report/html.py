"""A page as HTML: one file without links or scripts that fits a screen and a phone, in the dark and on paper."""

from __future__ import annotations

from collections.abc import Sequence

from gpufleet.records import dataclass
from gpufleet.report.markup import marked_up
from gpufleet.report.page import Column, Fact, Page, Row, Table, is_warning
from gpufleet.report.page_style import STYLE
from gpufleet.report.text import WrittenColumn, cell, columns_that_fit, line_width, listed, written_column

SCREEN_CHARACTERS, PHONE_CHARACTERS = 126, 44
WIDEST_WRAP, SHORT_CELL = 30, 15
MARK, CHOSEN, UNSEEN = "&gt; ", ' class="chosen"', ' class="unseen"'


def page_as_html(page: Page) -> str:
    """A whole document."""
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="color-scheme" content="light dark"><title>{text(page.full_title)}</title>'
    )
    body = f'<body class="gpufleet-page"><main>{page_as_fragment(page)}</main></body>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n{body}</html>\n'


def page_as_fragment(page: Page) -> str:
    """What notebooks show: the page with its own style."""
    parts = [
        f"<style>{STYLE}</style>",
        f"<h1>{text(page.full_title)}</h1>" if page.full_title else "",
        facts_as_html(page.facts),
        *(f'<p class="warning">{text(note)}</p>' for note in page.notes if is_warning(note)),
        *(f"<p>{text(paragraph)}</p>" for paragraph in page.paragraphs),
        f"<p><strong>Next:</strong> {text(page.next_step)}</p>" if page.next_step else "",
        *map(section, page.tables),
        closing_as_html(page.closing),
    ]
    return f'<div class="gpufleet">{"".join(part for part in parts if part)}</div>'


def facts_as_html(facts: Sequence[Fact]) -> str:
    """What is read first, side by side."""
    if not facts:
        return ""
    return f'<dl class="facts">{"".join(map(fact_as_html, facts))}</dl>'


def fact_as_html(fact: Fact) -> str:
    """A name, its value and a line."""
    note = f'<dd class="note">{text(fact.note)}</dd>' if fact.note else ""
    return f'<div class="fact {fact.look}"><dt>{text(fact.label)}</dt><dd>{text(fact.value)}</dd>{note}</div>'


def closing_as_html(notes: Sequence[str]) -> str:
    """Assumptions and sources, last."""
    if not notes:
        return ""
    paragraphs = "".join(f"<p>{text(note.strip())}</p>" for note in notes)
    return f'<footer class="notes"><h2>Notes and sources</h2>{paragraphs}</footer>'


def section(table: Table) -> str:
    """A table under its heading, open or folded; its picture stands above, under the title that is drawn in it."""
    content = "".join(part for part in contents(table) if part)
    heading = f"<h2{UNSEEN if table.is_drawn else ''}>{text(table.title)}</h2>" if table.title else ""
    if table.folded and heading:
        return f"<details><summary>{heading}</summary>{picture_of(table)}{content}</details>\n"
    return f"<section>{picture_of(table)}{heading}{content}</section>\n"


def contents(table: Table) -> list[str]:
    """Commands, rows and notes."""
    rows = rows_as_html(table) if table.rows else f"<p>{text(table.empty)}</p>" if table.empty else ""
    return [
        preformatted("command", listed(table.listing)),
        folded("The same in figures", rows) if table.is_drawn and not table.is_key else rows,
        notes_as_html(table.notes),
    ]


def folded(title: str, content: str) -> str:
    """What opens by its title."""
    return f"<details><summary>{title}</summary>{content}</details>"


def notes_as_html(notes: Sequence[str]) -> str:
    """Lines of words: a list where they are indented, else a paragraph each."""
    if notes and all(note.startswith(" ") for note in notes):
        return f"<ul>{''.join(f'<li>{text(note.strip())}</li>' for note in notes)}</ul>"
    return "".join(f'<p class="remark">{text(note.strip())}</p>' for note in notes)


def picture_of(table: Table) -> str:
    """The picture, for a page and for a phone, or what stands for it in characters."""
    if table.picture is None:
        return preformatted("drawing", table.drawing)
    if not table.picture.narrow:
        return f"<figure>{table.picture.wide}</figure>"
    drawn = (("on-screens", table.picture.wide), ("on-phones", table.picture.narrow))
    return "".join(f'<figure class="{where}">{svg}</figure>' for where, svg in drawn)


def preformatted(look: str, lines: Sequence[str]) -> str:
    """Lines that keep their blanks."""
    return f'<pre class="{look}">{text(chr(10).join(lines), keep_lines=True)}</pre>' if lines else ""


@dataclass(frozen=True)
class ShownColumn:
    """A column on a page, and whether its cells stay on one line."""

    column: Column
    is_short: bool

    @property
    def look(self) -> str:
        """The classes of its cells."""
        classes = [*(["right"] if self.column.align == "right" else []), *(["short"] if self.is_short else [])]
        return f' class="{" ".join(classes)}"' if classes else ""


def rows_as_html(table: Table) -> str:
    """The columns that a screen has room for; all of them in a fold where there are more."""
    read = [c for c in table.columns if c.where != "data" and not c.below]
    is_drawn = bool(table.bars) or table.picture is not None
    written = [written_column(c, table) for c in read if not (is_drawn and c.is_drawing)]
    narrowed = [narrow(w, WIDEST_WRAP) for w in written]
    fitting = columns_that_fit(narrowed, SCREEN_CHARACTERS if not table.bars else SCREEN_CHARACTERS // 2)
    shown = [w for w, n in zip(written, narrowed, strict=True) if n in fitting]
    main = table_as_html(table, shown, is_main=True)
    if len(shown) == len(written):
        return main
    label = f"All {len(written)} columns"
    every = table_as_html(table, written, is_main=False)
    return main + folded(label, f'<div class="wide" role="region" tabindex="0" aria-label="{label}">{every}</div>')


def narrow(written: WrittenColumn, widest: int) -> WrittenColumn:
    """A column whose long cells go on below themselves."""
    return WrittenColumn(written.column, written.cells, min(written.width, widest))


def table_as_html(table: Table, written: Sequence[WrittenColumn], *, is_main: bool) -> str:
    """Caption, header and rows; a row of a table that is too wide for a phone stands as a card there."""
    shown = [ShownColumn(w.column, max(map(len, w.cells)) <= SHORT_CELL) for w in written]
    is_wide = bool(table.bars) or line_width(min(w.width, SHORT_CELL) for w in written) > PHONE_CHARACTERS
    header = "".join(f'<th scope="col"{s.look}>{text(s.column.header)}</th>' for s in shown)
    bars = table.bars if is_main else ()
    header += f'<th scope="col">{text(table.bars_header)}</th>' if bars else ""
    rows = "".join(row_as_html(table, shown, index, row, bars) for index, row in enumerate(table.rows))
    numbered = " numbered" if not shown[0].column.header else ""
    look = f' class="cards{numbered}"' if is_wide and is_main else ""
    caption = f'<caption class="unseen">{text(table.title)}</caption>' if table.title else ""
    return f"<table{look}>{caption}<thead><tr>{header}</tr></thead><tbody>{rows}</tbody></table>"


def row_as_html(table: Table, shown: Sequence[ShownColumn], index: int, row: Row, bars: Sequence[str]) -> str:
    """One row, what stands below it in its last cell; the chosen one is marked."""
    chosen = index == table.chosen
    cells = [text(cell(s.column, row)) for s in shown]
    below = [text(cell(column, row)) for column in table.columns if column.below]
    cells[-1] = "<br>".join([cells[-1], *filter(None, below)])
    cells[0] = MARK + cells[0] if chosen else cells[0]
    parts = [
        f'<td{s.look} data-label="{text(s.column.header)}">{content}</td>'
        for s, content in zip(shown, cells, strict=True)
    ]
    parts += [f'<td class="range">{bars[index]}</td>'] if bars else []
    return f"<tr{CHOSEN if chosen else ''}>{''.join(parts)}</tr>"


def text(content: str, *, keep_lines: bool = False) -> str:
    """Text that is nothing but text."""
    return "\n".join(map(marked_up, content.split("\n"))) if keep_lines else marked_up(content)
