"""A page as HTML: one file without links or scripts that reads on a screen, in the dark and on paper."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from gpufleet.report.controls import printable
from gpufleet.report.page import Column, Page, Row, Table
from gpufleet.report.text import cell, listed

STYLE = """
:root{color-scheme:light dark}
.gpufleet{font:15px/1.5 system-ui,sans-serif;max-width:76rem;margin:0 auto;padding:1rem;color:CanvasText}
.gpufleet h1{font-size:1.3rem;line-height:1.35}.gpufleet h2{font-size:1.05rem;margin:1.6rem 0 .4rem}
.gpufleet .wide{overflow-x:auto}
.gpufleet table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.9rem}
.gpufleet th,.gpufleet td{padding:.25rem .7rem .25rem 0;text-align:left;vertical-align:top;
border-bottom:1px solid #8884}
.gpufleet th{font-weight:600;white-space:nowrap}
.gpufleet .right{text-align:right}.gpufleet .right,.gpufleet td:first-child{white-space:nowrap}
.gpufleet tr.chosen td{font-weight:600}
.gpufleet p{margin:.2rem 0}.gpufleet .notes{font-size:.85rem;margin-top:1.6rem}
.gpufleet pre{font-size:.8rem;overflow-x:auto}.gpufleet svg{max-width:100%;height:auto}
@page{size:A4 landscape;margin:12mm}
@media print{.gpufleet{max-width:none;padding:0;font-size:10pt;color:#000}.gpufleet table{font-size:7pt}
.gpufleet th,.gpufleet td{padding-right:4pt}.gpufleet th{white-space:normal}
.gpufleet .wide{overflow:visible}
.gpufleet h2{break-after:avoid}.gpufleet tr,.gpufleet svg,.gpufleet pre{break-inside:avoid}
.gpufleet thead{display:table-header-group}}
"""


def page_as_html(page: Page) -> str:
    """A whole document."""
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
    title = f"<title>{text(page.headline)}</title>"
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}{title}</head>\n<body>{page_as_fragment(page)}</body></html>\n'
    )


def page_as_fragment(page: Page) -> str:
    """What notebooks show: the page with its own style."""
    notes = "".join(f"<p>{text(note.strip())}</p>" for note in page.closing)
    parts = [
        f"<style>{STYLE}</style>",
        f"<h1>{text(page.headline)}</h1>" if page.headline else "",
        *(f"<p>{text(paragraph)}</p>" for paragraph in page.leading),
        *map(table_as_html, page.tables),
        f'<div class="notes">{notes}</div>' if notes else "",
    ]
    return f'<div class="gpufleet">{"".join(part for part in parts if part)}</div>'


def table_as_html(table: Table) -> str:
    """Heading, picture, rows and notes."""
    columns = [column for column in table.columns if column.where != "data" and not column.below]
    parts = [f"<h2>{text(table.title)}</h2>" if table.title else "", picture_of(table)]
    parts.append(f"<pre>{text(chr(10).join(listed(table.listing)), keep_lines=True)}</pre>" if table.listing else "")
    parts.append(rows_as_html(table, columns) if table.rows else f"<p>{text(table.empty)}</p>" if table.empty else "")
    parts += [f"<p>{text(note.strip())}</p>" for note in table.notes]
    return f"<section>{''.join(part for part in parts if part)}</section>\n"


def picture_of(table: Table) -> str:
    """The picture, or what stands for it in characters."""
    if table.picture:
        return table.picture
    return f"<pre>{text(chr(10).join(table.drawing), keep_lines=True)}</pre>" if table.drawing else ""


def rows_as_html(table: Table, columns: Sequence[Column]) -> str:
    """Header and rows; the chosen row is bold and marked."""
    header = "".join(f"<th{side(column)}>{text(column.header)}</th>" for column in columns)
    rows = "".join(row_as_html(table, columns, index, row) for index, row in enumerate(table.rows))
    return f'<div class="wide"><table><thead><tr>{header}</tr></thead><tbody>{rows}</tbody></table></div>'


def row_as_html(table: Table, columns: Sequence[Column], index: int, row: Row) -> str:
    """One row, what stands below it in its last cell."""
    chosen = index == table.chosen
    cells = [text(cell(column, row)) for column in columns]
    below = [text(cell(column, row)) for column in table.columns if column.below]
    cells[-1] = "<br>".join([cells[-1], *filter(None, below)])
    cells[0] = f"&gt; {cells[0]}" if chosen else cells[0]
    shown = "".join(f"<td{side(column)}>{content}</td>" for column, content in zip(columns, cells, strict=True))
    return f'<tr class="chosen">{shown}</tr>' if chosen else f"<tr>{shown}</tr>"


def side(column: Column) -> str:
    """Numbers stand to the right."""
    return ' class="right"' if column.align == "right" else ""


def text(content: str, *, keep_lines: bool = False) -> str:
    """Text that is nothing but text."""
    return escape("\n".join(map(printable, content.split("\n"))) if keep_lines else printable(content))
