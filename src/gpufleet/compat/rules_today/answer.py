"""A rule's figures beside our own, as a result."""

from __future__ import annotations

from gpufleet.results.base import SCHEMA_VERSION, Figure, Input, Result

COUNTED = "counted"


class RuleRow(Result):
    """One figure by the seed's rule and by our model, in one unit; None where one of them has no such figure.

    `ours_text` says in words what is no number, or why there is none.
    """

    name: str
    unit: str = ""
    seed: float | str | None = None
    ours: Figure | None = None
    ours_text: str = ""


class RuleTable(Result):
    """Rows under one question."""

    title: str
    rows: list[RuleRow]


class RuleAnswer(Result):
    """The answer of `gpufleet rules`: the seed's arithmetic, our model's own answer, and why they differ."""

    schema_version: str = SCHEMA_VERSION
    rule: str
    question: str
    source: str
    inputs: list[Input]
    tables: list[RuleTable]
    differences: list[str]
    notes: list[str]


def exact(value: float, unit: str) -> Figure:
    """A figure that was counted, not judged."""
    return Figure(value=value, unit=unit, low=value, high=value, grade=COUNTED)


def bound(value: float, unit: str) -> Figure:
    """A figure that nothing can beat: what a datasheet's peak allows."""
    return Figure(value=value, unit=unit, grade="roofline")


def scaled(figure: Figure, scale: float, unit: str) -> Figure:
    """A figure in another unit."""
    low, high = (None if end is None else end / scale for end in (figure.low, figure.high))
    return Figure(value=figure.value / scale, unit=unit, low=low, high=high, grade=figure.grade)


def given(name: str, value: object, is_given: bool) -> Input:
    """An input as it was understood."""
    return Input(name=name, value=str(value), origin="given" if is_given else "default")
