"""A word of a question: how it is said, read, bounded and recorded.

A word is the field of a request that it fills, so that its name, its type and the questions that it belongs to are
those of the field:

    headroom: float | None = optional(SHARE, "Capacity beyond the rate; default 20%.", SLACK)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, field, fields, replace
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar

from gpufleet.errors import UsageError
from gpufleet.records import dataclass
from gpufleet.units import (
    DAY,
    HOUR,
    HOURS_PER_MONTH,
    HOURS_PER_YEAR,
    Bounds,
    parse_count,
    parse_duration,
    parse_rate,
    parse_ratio,
    parse_usd,
    parse_usd_per_hour,
)

P = ParamSpec("P")
T = TypeVar("T")
Said = str | tuple[str, ...]
"""What was said of a word, unparsed: a text, or the texts of a list."""

LOAD, SLACK, RENTED = "The load", "Slack, failures and hours", "What may be rented"
ENGINE, TABLES, BESIDE = "Engine and precision", "Tables and prices", "Further questions"
WRITTEN = "Output"
TRAINING, REPLICAS = "Training", "The replicas"
HEADINGS = (LOAD, TRAINING, REPLICAS, SLACK, RENTED, ENGINE, TABLES, BESIDE, WRITTEN)
"""Headings of a help page, in their order."""

WORD = "word"
PERIODS_S = {"hour": HOUR, "day": DAY, "week": 7 * DAY, "month": HOURS_PER_MONTH * HOUR, "year": HOURS_PER_YEAR * HOUR}


@dataclass(frozen=True)
class Kind(Generic[T]):
    """What values a word takes: as a help page names them, and their parser, which is told what it reads."""

    metavar: str
    read: Callable[[Any, str], T]
    takes: type = str
    is_money: bool = False


class Preferred(NamedTuple):
    """A word that may be preferred: what it says, what holds without it, and its place among such words."""

    says: str
    default: str
    place: int


@dataclass(frozen=True)
class Word(Generic[T]):
    """One word of a question.

    `what` names its value in errors, `bounds` are its range. `label` and `shown` record it among the inputs of an
    answer. `fills` is the limit of the solver that it sets. `beyond_today` names it where today's fleet is not judged
    with it, unless it is `plain`. `joined_by` joins a list of a file to one text, `has_parts` lets a file say 'mean: 5'
    below it.
    """

    kind: Kind[T]
    says: str
    heading: str
    name: str = ""
    singular: str | None = None
    what: str = ""
    bounds: Bounds | None = None
    label: str = ""
    shown: Callable[[T], str] = str
    fills: str = ""
    beyond_today: str = ""
    plain: T | None = None
    preferred: Preferred | None = None
    joined_by: str | None = None
    has_parts: bool = False
    is_typed: bool = True
    is_in_files: bool = True
    is_of_each_model: bool = True
    comes_last: bool = False
    field: str = ""
    default: object = None

    @property
    def flag(self) -> str:
        """The option that says it."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def as_asked(self) -> str:
        """The word as its user knows it: an option, or the key of a file alone."""
        return self.flag if self.is_typed else self.name

    def value_of(self, said: Said) -> T:
        """What was said, read."""
        return self.kind.read(said, self.what)


def said_by(row: Word[T]) -> Mapping[str, Word[T]]:
    """Metadata of a field that a word fills."""
    return {WORD: row}


def as_field(make: Callable[P, Word[T]]) -> Callable[P, T | None]:
    """From what makes a word to what makes a field that may be left unsaid: None takes the default."""

    def optional(*about: P.args, **further: P.kwargs) -> T | None:
        made: T | None = field(default=None, metadata=said_by(make(*about, **further)))
        return made

    return optional


optional = as_field(Word)


def words_of_fields(request: type, kw_only: bool | None = None) -> list[Word[Any]]:
    """Words of the fields of a request, all of them or those that are its keywords or not."""
    held: tuple[Field[object], ...] = fields(request)
    rows = [(f, f.metadata[WORD]) for f in held if WORD in f.metadata and kw_only in (None, f.kw_only)]
    return [replace(row, field=f.name, name=row.name or f.name, default=default_of(f)) for f, row in rows]


def default_of(held: Field[object]) -> object:
    """The value of a field where nobody says it; None where somebody has to."""
    return None if held.default is MISSING else held.default


def whole(text: str, what: str) -> int:
    """A whole number, zero too."""
    number = 0.0 if text.strip() == "0" else parse_count(text)
    if number != int(number):
        raise UsageError(f"{what} is not whole", found=text, expected="a whole number such as 2")
    return int(number)


def hours(text: str, _: str) -> float:
    """Hours of a day: '10', or '10h'."""
    bare = text.strip()
    return parse_count(bare) if bare[-1:].isdigit() else parse_duration(bare) / HOUR


def time_or_word(text: str, _: str) -> float:
    """Seconds of a time, or of a word for one: '36h', '1week', 'week'."""
    said = text.strip().lower()
    return PERIODS_S[said] if said in PERIODS_S else parse_duration(text, "'24h' or '1week'")


def plain(read: Callable[[str], T]) -> Callable[[str, str], T]:
    """A parser that needs not be told what it reads."""
    return lambda text, _: read(text)


def time_like(example: str) -> Kind[float]:
    """A time; an error shows the example."""
    return Kind("TIME", lambda text, _: parse_duration(text, example))


def text(metavar: str) -> Kind[str]:
    """A text that is read where its question is."""
    return Kind(metavar, plain(str))


def names(metavar: str) -> Kind[Sequence[str]]:
    """A list of names."""
    return Kind(metavar, listed, takes=list)


def listed(said: Said, _: str) -> Sequence[str]:
    """The texts of a list."""
    return (said,) if isinstance(said, str) else said


def flag(says: str, heading: str, comes_last: bool = False) -> bool:
    """A field that stands where its option is typed."""
    row = Word(Kind("", plain(bool), takes=bool), says, heading, is_in_files=False, comes_last=comes_last)
    stands: bool = field(default=False, metadata=said_by(row))
    return stands


SHARE = Kind("SHARE", plain(parse_ratio))
WHOLE = Kind("N", whole)
COUNT = Kind("N", parse_count)
ROW_COUNT = Kind("N", whole, takes=int)
RATE_TEXT = Kind("N/TIME", plain(parse_rate))
USD_PER_TIME = Kind("USD/TIME", plain(parse_usd_per_hour), is_money=True)
USD_AT_ALL = Kind("USD", plain(parse_usd), is_money=True)
HOURS_OF_DAY = Kind("TIME", hours)
PERIOD = Kind("TIME", time_or_word)
