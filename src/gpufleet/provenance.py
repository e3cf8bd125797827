"""Where a number comes from and how far to trust it."""

from __future__ import annotations

from datetime import date
from enum import IntEnum

from gpufleet.records import dataclass

SUPPOSED = "By its name alone "
"""How a note begins that all of an answer rests on: a page says it in its first sentence."""


WIDEST_RATIO = 10.0
"""Beyond so many times a figure, or below such a part of it, nothing is known of it."""


class Grade(IntEnum):
    """How a figure was obtained, best first; a result takes the worst grade of its inputs."""

    MEASURED = 0
    TRANSFERRED = 1
    ROOFLINE = 2
    SEED_RULE = 3

    @property
    def label(self) -> str:
        """The word that users read."""
        return ("measured", "transferred", "roofline", "seed rule")[self]


@dataclass(frozen=True)
class Source:
    """A document, dataset or measurement that a figure was taken from.

    `first_seen` marks an undated copy: `as_of` then is the earliest day that it can be of.
    """

    id: str
    title: str
    as_of: date | None = None
    url: str | None = None
    licence: str | None = None
    first_seen: date | None = None


def day_in_words(as_of: date | None, first_seen: date | None = None) -> str:
    """The day of a figure; of an undated copy, when it was first seen.

    >>> day_in_words(date(2026, 7, 20)), day_in_words(date(2026, 1, 1), date(2026, 11, 21))
    ('2026-07-20', 'undated copy, first seen 2026-11-21')
    """
    if first_seen is not None:
        return f"undated copy, first seen {first_seen}"
    return "undated" if as_of is None else as_of.isoformat()


@dataclass(frozen=True)
class Sourced:
    """One value with unit, source and, where known, its 10th and 90th percentile.

    `points` counts the measurements behind it; 0 is a judgement.
    """

    value: float
    unit: str
    source: str
    low: float | None = None
    high: float | None = None
    points: int | None = None


@dataclass(frozen=True)
class Term:
    """One part of a total, as `--explain` shows it: the formula, the numbers put in, and the trust in it."""

    name: str
    value: float
    unit: str
    formula: str
    inputs: str = ""
    source: str = ""
    grade: Grade = Grade.MEASURED
    low: float | None = None
    high: float | None = None
