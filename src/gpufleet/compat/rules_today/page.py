"""A rule's answer as a page: the seed's figure and ours side by side, then why they differ."""

from __future__ import annotations

from typing import Any

from gpufleet.compat.rules_today.answer import RuleAnswer, RuleRow, RuleTable
from gpufleet.report.numbers import amount, count, ranged, significant, usd
from gpufleet.report.page import Column, Page, Table
from gpufleet.results.base import Figure

NOTHING = "-"
USD, GPUS = "USD", "GPUs"
CENTS_FROM, ROUNDED_FROM = 0.01, 0.001
COLUMNS = (
    Column("name", "name"),
    Column("unit", "unit", where="data"),
    Column("seed_text", "the seed's rule", str, "right", where="text"),
    Column("seed", "seed", where="data"),
    Column("ours_text", "our model", str, wraps=True, where="text"),
    Column("ours", "ours", where="data"),
    Column("ours_low", "ours low", where="data"),
    Column("ours_high", "ours high", where="data"),
    Column("grade", "grade", where="data"),
    Column("ours_said", "ours said", where="data"),
)


def rule_page(answer: RuleAnswer) -> Page:
    """Headline, the tables, why they differ, notes."""
    differences = [f"  {line}" for line in answer.differences]
    paragraphs = [f"Rule: {answer.source}.", *inputs_said(answer)]
    why = ["Why they differ:", *differences] if differences else []
    notes = [*why, *([""] if why and answer.notes else []), *answer.notes]
    return Page(answer.question, [rule_table(table) for table in answer.tables], notes, paragraphs)


def inputs_said(answer: RuleAnswer) -> list[str]:
    """What was asked, and what was taken where nothing was said."""
    asked = {"Asked": [i for i in answer.inputs if i.origin == "given"]}
    groups = {**asked, "Not asked": [i for i in answer.inputs if i.origin != "given"]}
    lines = {word: ", ".join(f"{i.name} {i.value}" for i in inputs) for word, inputs in groups.items()}
    return [f"{word}: {line}." for word, line in lines.items() if line]


def rule_rows_page(answer: RuleAnswer) -> Page:
    """All rows of all tables in one: CSV holds no more than one table."""
    rows = [{"table": table.title, **row_of(row)} for table in answer.tables for row in table.rows]
    return Page(tables=[Table([Column("table", "table"), *COLUMNS], rows)])


def rule_table(table: RuleTable) -> Table:
    """One figure a line."""
    return Table([Column("name", table.title), *COLUMNS[1:]], [row_of(row) for row in table.rows])


def row_of(row: RuleRow) -> dict[str, Any]:
    """The cells of one row, for people and for CSV."""
    ours = row.ours
    return {
        "name": row.name,
        "unit": row.unit,
        "seed": row.seed,
        "seed_text": seed_text(row),
        "ours_text": ours_text(row),
        "ours": ours and ours.value,
        "ours_low": ours and ours.low,
        "ours_high": ours and ours.high,
        "grade": ours and ours.grade,
        "ours_said": row.ours_text or None,
    }


def seed_text(row: RuleRow) -> str:
    """The rule's figure with the digits that the rule keeps."""
    if row.seed is None or isinstance(row.seed, str):
        return row.seed or NOTHING
    if row.unit == USD:
        return usd(row.seed) if 0 < row.seed < CENTS_FROM else f"${row.seed:,.2f}"
    shown = significant(row.seed) if 0 < abs(row.seed) < ROUNDED_FROM else f"{row.seed:,.3f}".rstrip("0").rstrip(".")
    return f"{shown} {row.unit}".strip()


def ours_text(row: RuleRow) -> str:
    """Our figure with its range, then what is said of it."""
    parts = [figure_text(row.ours), row.ours_text]
    return "; ".join(part for part in parts if part) or NOTHING


def figure_text(figure: Figure | None) -> str:
    """A figure with its range where it has one."""
    if figure is None:
        return ""
    if figure.unit == USD:
        return usd(figure.value)
    if figure.unit == GPUS:
        return gpus_text(figure)
    if figure.low == figure.high:
        return f"{amount(figure.value)} {figure.unit}".strip()
    return ranged(figure.value, figure.low, figure.high, figure.unit, digits=3)


def gpus_text(figure: Figure) -> str:
    """Whole GPUs, with the fewest and the most that it may be.

    >>> gpus_text(Figure(value=8, unit="GPUs", low=8, high=16))
    '8 (8-16) GPUs'
    """
    ends = "" if figure.low == figure.high else f" ({count(figure.low)}-{count(figure.high)})"
    return f"{count(figure.value)}{ends} GPU{'s' * (figure.value != 1 or bool(ends))}"
