"""What an answer looks like before it is written: a headline, tables, notes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, Literal, TypeAlias

from gpufleet.records import dataclass

Row = Mapping[str, object]
Command: TypeAlias = Sequence[Sequence[str]]  # groups of words that stand on one line where there is room

WARNING = "Warning: "


def plain(value: object) -> str:
    """A value as people read it: unknown is said, never blank and never zero."""
    return "unknown" if value is None else str(value)


@dataclass(frozen=True)
class Column:
    """One column: `key` finds the value in a row and heads the CSV, `header` is read by people.

    `show` turns the value into text. The higher the `priority` number, the sooner a narrow page leaves the
    column out; 0 always stays. `where` keeps a column to text and markdown, or to CSV. A cell that `wraps` goes on
    below itself where others are cut; one that stands `below` has lines of its own under its row, without a header.
    """

    key: str
    header: str
    show: Callable[[Any], str] = plain
    align: Literal["left", "right"] = "left"
    priority: int = 0
    where: Literal["everywhere", "text", "data"] = "everywhere"
    wraps: bool = False
    below: bool = False


@dataclass(frozen=True)
class Table:
    """Rows under columns. The row at index `chosen` is marked with '>' in text and markdown.

    The lines of `drawing` stand above the rows as they are; in HTML `picture`, an SVG element, takes their place.
    The commands of `listing` are to be copied: they go on in the next line after a backslash, and no word is cut.
    """

    columns: Sequence[Column]
    rows: Sequence[Row]
    title: str = ""
    notes: Sequence[str] = ()
    chosen: int | None = None
    empty: str = "none"
    drawing: Sequence[str] = ()
    picture: str = ""
    listing: Sequence[Command] = ()


@dataclass(frozen=True)
class Page:
    """Headline first, tables next, notes last; warnings among the notes follow the headline. CSV: the first table."""

    headline: str = ""
    tables: Sequence[Table] = field(default_factory=tuple)
    notes: Sequence[str] = ()
    paragraphs: Sequence[str] = ()

    @property
    def leading(self) -> list[str]:
        """What stands right below the headline: warnings, then paragraphs."""
        return [*(note for note in self.notes if is_warning(note)), *self.paragraphs]

    @property
    def closing(self) -> list[str]:
        """Notes at the foot."""
        return [note for note in self.notes if not is_warning(note)]


def lines_table(title: str, lines: Sequence[str]) -> Table:
    """Lines of words under a title."""
    return Table([], [], title, [f"  {line}" for line in lines], empty="")


def formulas_table(formulas: Sequence[tuple[str, str]]) -> Table:
    """How the figures are computed, in words."""
    columns = [Column("name", "figure"), Column("formula", "is", wraps=True)]
    return Table(columns, [{"name": name, "formula": formula} for name, formula in formulas], "How it is computed")


def is_warning(note: str) -> bool:
    """Whether a note puts the answer in doubt."""
    return note.startswith(WARNING)
