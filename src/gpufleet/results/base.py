"""Parts that every result shares."""

from __future__ import annotations

import math
from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator

from gpufleet.provenance import WIDEST_RATIO

SCHEMA_VERSION = "1"


class Result(BaseModel):
    """Base of everything that users get; frozen, and refuses fields it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True, ser_json_inf_nan="strings")

    @classmethod
    def model_rebuild(cls, **how: Any) -> bool | None:
        """Complete a deferred class by the names of its module alone.

        Python 3.13.0 crashes where the names of whoever calls are read too, and that is a comprehension.
        """
        return super().model_rebuild(**{"_types_namespace": {}, **how})


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
