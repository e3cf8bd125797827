"""A word of a question: how it is said, read, bounded and recorded.

A word is the field of a request that it fills, so that its name, its type and the questions that it belongs to are
those of the field:

    headroom: float | None = optional(SHARE, "Capacity beyond the rate; default 20%.", SLACK)
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, field, fields, replace
from enum import Enum
from functools import cache
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

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

S = TypeVar("S", bound="Spoken")
T = TypeVar("T")
Said = str | tuple[str, ...]
"""What was said of a word, unparsed: a text, or the texts of a list."""
LOAD, SLACK, RENTED = "The load", "Slack, failures and hours", "What may be rented"
ENGINE, TABLES, BESIDE = "Engine and precision", "Tables and prices", "Further questions"
WRITTEN = "Output"
TRAINING, REPLICAS = "Training", "The replicas"
HEADINGS = (LOAD, TRAINING, REPLICAS, SLACK, RENTED, ENGINE, TABLES, BESIDE, WRITTEN)
"""Headings of a help page, in their order. A word under `WRITTEN` is no part of the question that an answer states."""
WORD = "word"
SWITCH = {"on": True, "off": False, "yes": True, "no": False, "true": True, "false": False}
PERIODS_S = {"hour": HOUR, "day": DAY, "week": 7 * DAY, "month": HOURS_PER_MONTH * HOUR, "year": HOURS_PER_YEAR * HOUR}


class FileUse(str, Enum):
    """What a word has to do with files: it names one that is read, perhaps one, one to be written, or a place here.

    What is here, a folder of this machine or a file that only its user may write, nobody else may name.
    """

    READ = "read"
    MAYBE_READ = "maybe read"
    WRITTEN = "written"
    HERE = "here"


class KeepsWhatIsSaid(type):
    """Makes questions that know which of their fields somebody filled; a copy knows what its original did."""

    def __call__(cls, *values: Any, **said: Any) -> Any:
        """A question, with the names of the fields that it is made with; None says nothing."""
        if "said" not in said:
            in_order = [f.name for f in fields(cls) if f.init and not f.kw_only]  # type: ignore[arg-type]
            filled = {**dict(zip(in_order, values, strict=False)), **said}
            said["said"] = frozenset(name for name, value in filled.items() if value is not None)
        return super().__call__(*values, **said)


@dataclass(frozen=True)
class Spoken(metaclass=KeepsWhatIsSaid):
    """A question whose fields somebody fills. `said` are those that somebody did, with their default too.

    `preferred` are those that the user's configuration filled. They change nothing but the origin that the answer
    states.
    """

    said: frozenset[str] = field(default=frozenset(), kw_only=True, compare=False, repr=False)
    preferred: frozenset[str] = field(default=frozenset(), kw_only=True, compare=False, repr=False)

    def origin(self, name: str, otherwise: str = "default") -> str:
        """Where the value of a field came from: 'given' where somebody filled it, `otherwise` where nobody did."""
        if name in self.preferred:
            return "preference"
        return "given" if name in self.said else otherwise


def filled(question: S, /, **values: Any) -> S:
    """A question with further fields said; None says nothing.

    >>> filled(Spoken()).said
    frozenset()
    """
    found = {name: value for name, value in values.items() if value is not None}
    return replace(question, **found, said=question.said | frozenset(found))


@dataclass(frozen=True)
class Kind(Generic[T]):
    """What values a word takes: as a help page names them, and their parser, which is told what it reads.

    `unit` is that of the value once it is read.
    """

    metavar: str
    read: Callable[[Any, str], T]
    takes: type = str
    is_money: bool = False
    unit: str = ""
    file: FileUse | None = None


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
    below it. `is_needed`: it must be typed, for nothing else could say it. `is_argument`: it is typed without its
    option. `is_negated`: '--no-' before its name says that it does not hold. `shows_default`: help tells it beside
    what it `says`. `hint` is told where it cannot be read.
    """

    kind: Kind[T]
    says: str
    heading: str = ""
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
    is_needed: bool = False
    is_argument: bool = False
    is_negated: bool = False
    shows_default: bool = False
    hint: str | None = None
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

    def refuse_outside(self, value: object) -> None:
        """Refuse a number out of the range of the word; no limit of money is none."""
        if not self.what or self.bounds is None or (self.kind.is_money and value == math.inf):
            return
        if isinstance(value, (int, float)):
            is_named = self.name.replace("_", " ") in self.what
            self.bounds.refuse_outside(value, self.what if is_named else f"{self.name}: {self.what}", value)


@dataclass(frozen=True)
class Request(Spoken):
    """A question: words fill its fields. Words of no field are typed after those that must be said, or after all."""

    after_needed: ClassVar[tuple[Word[Any], ...]] = ()
    after_all: ClassVar[tuple[Word[Any], ...]] = ()


def said_by(row: Word[T]) -> Mapping[str, Word[T]]:
    """Metadata of a field that a word fills."""
    return {WORD: row}


def worded(row: Word[Any], default: Any = None, **about: Any) -> Any:
    """A field that a word fills which other questions have too, with what is said of it here."""
    return field(default=default, metadata=said_by(replace(row, **about)))


def optional(kind: Kind[T], says: str, heading: str = "", **about: Any) -> T | None:
    """A field that a word fills and that may be left unsaid: None takes the default."""
    made: T | None = worded(Word(kind, says, heading, **about))
    return made


def as_in(question: type[Request], name: str, **about: Any) -> Any:
    """The same of a word of another question."""
    return worded(words_of(question)[name], **about)


def usual(value: T, kind: Kind[T], says: str, heading: str = "", **about: Any) -> T:
    """A field that a word fills, with the value that it has where nobody says it."""
    made: T = worded(Word(kind, says, heading, **about), value)
    return made


def words_of(*questions: type[Request]) -> dict[str, Word[Any]]:
    """Words of questions by name, as a page lists them; what several of them have is listed once."""
    return listed_once(questions)


@cache
def listed_once(questions: tuple[type[Request], ...]) -> dict[str, Word[Any]]:
    """The same, gathered once: those that must be said, those of no field, the rest."""
    first, further = ([row for q in questions for row in words_of_fields(q, is_named)] for is_named in (False, True))
    after_needed = [row for q in questions for row in q.after_needed]
    after_all = [row for q in questions for row in q.after_all]
    found: dict[str, Word[Any]] = {}
    for row in sorted([*first, *after_needed, *further, *after_all], key=lambda row: row.comes_last):
        found.setdefault(row.name, row)
    return found


def refuse_out_of_range(request: Request) -> None:
    """Refuse what is said and out of the range of its word."""
    for row in words_of(type(request)).values():
        row.refuse_outside(getattr(request, row.field, None))


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


def integer(text: str, what: str) -> int:
    """A whole number, below zero too, with every digit of it; '10k' as elsewhere.

    >>> integer("9,007,199,254,740,993", "the seed"), integer("10k", "the seed")
    (9007199254740993, 10000)
    """
    digits = text.strip().replace("_", "")
    if re.fullmatch(r"[+-]?([0-9]{1,20}|[0-9]{1,3}(,[0-9]{3}){1,6})", digits):
        return int(digits.replace(",", ""))
    try:
        return whole(text, what)
    except UsageError as error:
        raise UsageError("cannot read a whole number", found=text, expected="one such as 2 or 10k") from error


def number(text: str, _: str) -> float:
    """A number without a unit."""
    try:
        return float(text)
    except ValueError:
        raise UsageError("cannot read a number", found=text, expected="one such as 2 or 0.5") from None


def on_or_off(text: str, _: str) -> bool:
    """Whether something is done."""
    said = text.strip().lower()
    if said not in SWITCH:
        raise UsageError("cannot read a switch", found=text, expected="on or off")
    return SWITCH[said]


def on_off(is_done: bool) -> str:
    """A switch as it is said."""
    return "on" if is_done else "off"


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
    return Kind("TIME", lambda text, _: parse_duration(text, example), unit="s")


def text(metavar: str) -> Kind[str]:
    """A text that is read where its question is."""
    return Kind(metavar, plain(str), unit=metavar.lower() if metavar == "TOKENS" else "")


def file(metavar: str = "FILE") -> Kind[str]:
    """The name of a file that is read."""
    return Kind(metavar, plain(str), file=FileUse.READ)


def maybe_file(metavar: str) -> Kind[str]:
    """A name, or that of a file in its place."""
    return Kind(metavar, plain(str), file=FileUse.MAYBE_READ)


def names(metavar: str) -> Kind[Sequence[str]]:
    """A list of names."""
    return Kind(metavar, listed, takes=list)


def listed(said: Said, _: str) -> Sequence[str]:
    """The texts of a list."""
    return (said,) if isinstance(said, str) else said


def flag_word(says: str, heading: str = "", **about: Any) -> Word[bool]:
    """A word that stands where its option is typed."""
    return Word(Kind("", plain(bool), takes=bool), says, heading, is_in_files=False, **about)


def flag_of(row: Word[bool]) -> bool:
    """A field that such a word fills."""
    stands: bool = worded(row, False)
    return stands


def flag(says: str, heading: str = "", **about: Any) -> bool:
    """The same of a word that no other question has."""
    return flag_of(flag_word(says, heading, **about))


EDITED = flag_word("Of a plan file that was edited: plan its question again, and use none of its figures.", BESIDE)


SHARE = Kind("SHARE", plain(parse_ratio), unit="ratio")
WHOLE = Kind("N", whole)
INTEGER = Kind("N", integer)
NUMBER = Kind("N", number)
ON_OFF = Kind("on|off", on_or_off)
STANDS_OR_NOT = Kind("", on_or_off, takes=bool)
COUNT = Kind("N", lambda text, what: parse_count(text, what or "a count"))
PEER_TO_PEER = Word(
    ON_OFF,
    "GPUs reach each other over PCIe without the host; default: as the card's drivers let them.",
    REPLICAS,
    label="peer to peer",
    shown=on_off,
)
ROW_COUNT = Kind("N", whole, takes=int)
PLAIN_NUMBER = Kind("N", number, takes=float)
RATE_TEXT = Kind("N/TIME", plain(parse_rate), unit="requests/s")
USD_PER_TIME = Kind("USD/TIME", plain(parse_usd_per_hour), is_money=True, unit="USD/h")
USD_AT_ALL = Kind("USD", plain(parse_usd), is_money=True, unit="USD")
HOURS_OF_DAY = Kind("TIME", hours, unit="h")
PERIOD = Kind("TIME", time_or_word, unit="s")
