"""What an answer looks like before it is written: a headline, tables, notes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from operator import attrgetter
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from gpufleet.provenance import SUPPOSED
from gpufleet.records import dataclass

T = TypeVar("T")
Row = Mapping[str, object]
Command: TypeAlias = Sequence[Sequence[str]]  # groups of words that stand on one line where there is room

WARNING = "Warning: "
MARKS_OF_PRICES = {
    "~": (
        re.compile(r"~(\$[0-9]|[0-9][0-9.,]* [A-Z]{3})"),
        "rests on an estimated price, or on a GPU that nobody measured.",
    ),
    "?": (re.compile(r"(\$[0-9][0-9.,]*|[0-9] [A-Z]{3})(/h)?\?"), "of an undated copy of a price list."),
}
"""Before an amount and after it: where they are marks, and what they mean."""


def plain(value: object) -> str:
    """A value as people read it: unknown is said, never blank and never zero."""
    return "unknown" if value is None else str(value)


@dataclass(frozen=True)
class Column:
    """One column: `key` finds the value in a row and heads the CSV, `header` is read by people.

    `show` turns the value into text. The higher the `priority` number, the sooner a narrow page leaves the
    column out; 0 always stays. `where` keeps a column to text and markdown, or to CSV. A cell that `wraps` goes on
    below itself where others are cut; one that stands `below` has lines of its own under its row, without a header.
    One that `is_drawing` draws in characters: the bars of a table take its place in HTML. One that `qualifies` says
    what a price is (how machines are bought, that it is undated): it is on every page, and none of its cells is cut.
    """

    key: str
    header: str
    show: Callable[[Any], str] = plain
    align: Literal["left", "right"] = "left"
    priority: int = 0
    where: Literal["everywhere", "text", "data"] = "everywhere"
    wraps: bool = False
    below: bool = False
    is_drawing: bool = False
    qualifies: bool = False

    @property
    def may_go(self) -> bool:
        """Whether a narrow page may leave it out."""
        return self.priority > 0 and not self.qualifies


@dataclass(frozen=True)
class ColumnOf(Column, Generic[T]):
    """A column that takes its cells itself `of` the things that rows are about."""

    of: Callable[[T], object] = field(kw_only=True)


Columns: TypeAlias = list[ColumnOf[T]]


def column(header: str, of: Callable[[T], object], *, key: str = "", **how: Any) -> ColumnOf[T]:
    """A column of things; it needs a key of its own only where a CSV is made of it."""
    return ColumnOf(key or header, header, of=of, **how)


def number(header: str, of: Callable[[T], object], **how: Any) -> ColumnOf[T]:
    """The same, set to the right."""
    return column(header, of, align="right", **how)


def data(*keys: str) -> list[ColumnOf[Any]]:
    """Columns that only files have: attributes of things under their own names."""
    return [ColumnOf(key, key, of=attrgetter(key), where="data") for key in keys]


@dataclass(frozen=True)
class Picture:
    """An SVG element, and the same for a page as narrow as a phone where it has been drawn for one."""

    wide: str
    narrow: str = ""


@dataclass(frozen=True)
class Drawn:
    """A picture of an answer for a notebook."""

    svg: str

    def _repr_svg_(self) -> str:
        return self.svg


@dataclass(frozen=True)
class Fact:
    """What is read first on a page of HTML: its name, the value in large letters, and a line below it."""

    label: str
    value: str
    note: str = ""
    look: Literal["", "good", "tight", "bad"] = ""


@dataclass(frozen=True)
class Table:
    """Rows under columns. The row at index `chosen` is marked with '>' in text and markdown.

    The lines of `drawing` stand above the rows as they are; in HTML `picture` takes their place, each row ends with
    one of `bars`, SVG elements under `bars_header`, and a table that is `folded` opens by its title. Rows that are the
    key of the picture, as it calls its parts by their first cells, stay open below it where others fold.
    The commands of `listing` are to be copied: they go on in the next line after a backslash, and no word is cut.
    """

    columns: Sequence[Column]
    rows: Sequence[Row]
    title: str = ""
    notes: Sequence[str] = ()
    chosen: int | None = None
    empty: str = "none"
    drawing: Sequence[str] = ()
    picture: Picture | None = None
    listing: Sequence[Command] = ()
    bars: Sequence[str] = ()
    bars_header: str = ""
    folded: bool = False
    is_key: bool = False

    @classmethod
    def of(
        cls, things: Iterable[T], columns: Sequence[ColumnOf[T]], title: str = "", notes: Sequence[str] = (), **how: Any
    ) -> Table:
        """A row for each thing."""
        return cls(columns, [{each.key: each.of(thing) for each in columns} for thing in things], title, notes, **how)

    @classmethod
    def of_cells(cls, columns: Sequence[Column], rows: Iterable[Sequence[object]], *words: Any, **how: Any) -> Table:
        """A row for each sequence of cells, which stand in the order of the columns."""
        keys = [each.key for each in columns]
        return cls(columns, [dict(zip(keys, row, strict=True)) for row in rows], *words, **how)

    @property
    def is_drawn(self) -> bool:
        """Whether the picture shows what the table does: it stands for a drawing in characters."""
        return self.picture is not None and (bool(self.drawing) or any(c.is_drawing for c in self.columns))


@dataclass(frozen=True)
class Page:
    """Headline first, tables next, notes last; warnings among the notes follow the headline. CSV: the first table.

    What a whole answer supposes (a note with `SUPPOSED`) is said in its first sentence.

    In HTML the `title` takes the place of the headline, in words without codes; the `facts` below it say what it does
    not, and `next_step` what to do now.
    """

    headline: str = ""
    tables: Sequence[Table] = field(default_factory=tuple)
    notes: Sequence[str] = ()
    paragraphs: Sequence[str] = ()
    facts: Sequence[Fact] = ()
    title: str = ""
    next_step: str = ""

    @property
    def first_sentence(self) -> str:
        """The headline, after what all of it supposes."""
        return self.supposed(self.headline)

    @property
    def full_title(self) -> str:
        """The title, or the headline where it has none, after what all of it supposes."""
        return self.supposed(self.title or self.headline)

    def supposed(self, sentence: str) -> str:
        """A sentence after what the whole answer supposes."""
        supposed = [note.removesuffix(".") for note in self.notes if note.startswith(SUPPOSED)]
        return ": ".join(dict.fromkeys([*supposed, sentence])) if sentence else ""

    @property
    def pictures(self) -> list[Picture]:
        """All that is drawn."""
        return [table.picture for table in self.tables if table.picture is not None]

    @property
    def leading(self) -> list[str]:
        """What stands right below the headline: warnings, then paragraphs."""
        return [*(note for note in self.notes if is_warning(note)), *self.paragraphs]

    @property
    def closing(self) -> list[str]:
        """Notes at the foot, with the meaning of marks that nothing else explains."""
        return [*(note for note in self.notes if not note.startswith((WARNING, SUPPOSED))), *self.legend]

    @property
    def legend(self) -> list[str]:
        """What the marks of prices mean, where a page prints one and does not say so."""
        texts = [*self.texts]
        return [
            f"{mark}: {meaning}"
            for mark, (where, meaning) in MARKS_OF_PRICES.items()
            if any(where.search(text) for text in texts)
            and not any(f"{mark}: " in text or f"'{mark}'" in text for text in texts)
        ]

    @property
    def texts(self) -> Iterator[str]:
        """Everything that people read on it."""
        yield from (self.headline, *self.notes, *self.paragraphs)
        for table in self.tables:
            yield from (table.title, *table.notes)
            shown = [column for column in table.columns if column.where != "data"]
            yield from (column.show(row[column.key]) for row in table.rows for column in shown)


def lines_table(title: str, lines: Sequence[str]) -> Table:
    """Lines of words under a title."""
    return Table([], [], title, [f"  {line}" for line in lines], empty="")


def formulas_table(formulas: Sequence[tuple[str, str]]) -> Table:
    """How the figures are computed, in words."""
    columns = [Column("name", "figure"), Column("formula", "is", wraps=True)]
    return Table.of_cells(columns, formulas, "How it is computed", folded=True)


def is_warning(note: str) -> bool:
    """Whether a note puts the answer in doubt."""
    return note.startswith(WARNING)
