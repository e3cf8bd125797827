"""Parts that every result shares."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import date
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ConfigDict, field_serializer, model_validator

from gpufleet.provenance import WIDEST_RATIO, day_in_words

SCHEMA_VERSION = "1"
R = TypeVar("R", bound="Result")
MISSING = object()


def value_of(parts: Sequence[object], name: str) -> object:
    """The attribute of the first part that has it, of an enumeration its value; MISSING where none has."""
    found = next((value for part in parts if (value := getattr(part, name, MISSING)) is not MISSING), MISSING)
    return found.value if isinstance(found, Enum) else found


class Result(BaseModel):
    """Base of everything that users get; frozen, and refuses fields it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True, ser_json_inf_nan="strings")

    @classmethod
    def model_rebuild(cls, **how: Any) -> bool | None:
        """Complete a deferred class by the names of its module alone.

        Python 3.13.0 crashes where the names of whoever calls are read too, and that is a comprehension.
        """
        return super().model_rebuild(**{"_types_namespace": {}, **how})

    @classmethod
    def made_of(cls: type[R], *parts: object, **said: Any) -> R:
        """A result whose fields are attributes of parts, of the first that has one of the name; or what is said apart.

        >>> Input.made_of(Figure(value=1.0, unit="s"), name="work", origin="given", value="1 s").origin
        'given'
        """
        found = {name: value_of(parts, name) for name in cls.model_fields if name not in said}
        return cls(**said, **{name: value for name, value in found.items() if value is not MISSING})


class Judged(Result):
    """A result whose file also says what follows from it, such as whether it holds; that is not read back."""

    @model_validator(mode="before")
    @classmethod
    def _without_what_follows(cls, written: Any) -> Any:
        if not isinstance(written, dict):
            return written
        return {name: value for name, value in written.items() if name not in cls.model_computed_fields}


class Figure(Result):
    """A number with its unit, its 10th and 90th percentile and how it was obtained."""

    value: float
    unit: str
    low: float | None = None
    high: float | None = None
    grade: str = "measured"

    @classmethod
    def between(cls, value: float, unit: str, low: float, high: float, grade: str) -> Figure:
        """A figure whose range holds its value; more than ten times above it nothing is known, nor a tenth below.

        >>> Figure.between(2.0, "s", 2.5, 21.0, "measured").high, Figure.between(2.0, "s", 0.1, 3.0, "measured").low
        (inf, 0.2)
        """
        known_high = math.inf if high > WIDEST_RATIO * value else max(high, value)
        return cls(value=value, unit=unit, low=min(max(low, value / WIDEST_RATIO), value), high=known_high, grade=grade)

    def changed(self, how: Callable[[float], float], unit: str | None = None) -> Figure:
        """This figure with its value and what ends are known changed alike, such as from seconds to dollars.

        >>> Figure(value=2.0, unit="s", low=1.0).changed(lambda s: 3 * s, "USD").low
        3.0
        """
        ends = {end: None if (at := getattr(self, end)) is None else how(at) for end in ("low", "high")}
        return self.model_copy(update={"value": how(self.value), "unit": unit or self.unit, **ends})

    def no_lower(self, lower: Figure) -> Figure:
        """This figure with a range that begins and ends no lower than that of another, such as of a lower percentile.

        >>> Figure(value=3.0, unit="s", low=1.0, high=9.0).no_lower(Figure(value=2.5, unit="s", low=2.0, high=4.0)).low
        2.0
        """
        ends = {
            end: max(mine, least)
            for end in ("low", "high")
            if (mine := getattr(self, end)) is not None and (least := getattr(lower, end)) is not None
        }
        return self.model_copy(update=ends)

    @model_validator(mode="after")
    def _in_order(self) -> Figure:
        if self.low is not None and self.high is not None and self.low <= self.value <= self.high:
            return self
        bounds = [b for b in (self.low, self.value, self.high) if b is not None and not math.isnan(b)]
        if bounds != sorted(bounds):
            raise ValueError(f"low {self.low}, value {self.value} and high {self.high} are out of order")
        return self


class Input(Result):
    """One input of a question as it was understood, and where it came from (given, file, default, measured)."""

    name: str
    value: str
    origin: str


class Dated(Result):
    """Something that is of a day: of an undated copy `as_of` is the earliest that it can be of, null in a file."""

    if TYPE_CHECKING:
        as_of: date | None
        first_seen: date | None

    @property
    def day(self) -> str:
        """Of which day it is, as far as is known."""
        return day_in_words(self.as_of, self.first_seen)


class StatedDay(Dated):
    """The same, whose file says null of an undated copy."""

    @field_serializer("as_of", when_used="json", check_fields=False)
    def _stated_day(self, day: date | None) -> date | None:
        return day if self.first_seen is None else None


class Ranks(Result):
    """Over how many ranks one replica is spread: tensor, pipeline, expert and attention-data parallel."""

    tp: int = 1
    pp: int = 1
    ep: int = 1
    attention_dp: int = 1


class ExplainedTerm(Result):
    """One part of a total with its formula and the numbers put in."""

    name: str
    value: float
    unit: str
    formula: str
    inputs: str = ""
    source: str = ""
    grade: str = "measured"
    low: float | None = None
    high: float | None = None


class Launch(Result):
    """The command that starts one replica as the answer assumes it, quoted for a shell.

    `arguments` are its words, `groups` how many words stand together (a flag with its value). Where `options_file` is
    named, a file with `options` must lie beside it first. `documented` names the documentation of the flags,
    `benchmark` the command that measures the replica while it runs, where the engine has one. `image` is the container
    image of the engine's version for the machine, where one is known.
    `replicas_per_machine`: so many are started on each machine; None where the answer knows of no machine.
    """

    engine: str
    documented: str
    benchmark: str | None = None
    image: str | None = None
    command: str
    arguments: list[str]
    groups: list[int]
    options_file: str | None = None
    options: str | None = None
    replicas_per_machine: int | None = None
    notes: list[str] = []


class Refused(Result):
    """One candidate that was asked about and rejected: `candidate` is a replica, or what else the reason is about.

    `code` names the rule, `figures` what it compared and `missed_by` what this lacks, in base units; `reason` and
    `detail` say both in words.

    `shortfall`: bytes that are missing per GPU, or how many times over its limit an objective is; 0 where the reason
    has no size. `count`: layouts that it stands for.
    """

    candidate: str
    code: str = ""
    figures: dict[str, float | str | None] = {}
    missed_by: dict[str, float | str | None] = {}
    reason: str
    detail: str
    shortfall: float
    count: int

    @property
    def rule(self) -> tuple[object, ...]:
        """The rule with its figures: equal where the same rule rejected."""
        return (self.code, *self.figures.items())
