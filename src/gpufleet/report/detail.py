"""What of an answer is shown in full: one screen holds the rest in a line each."""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias

from gpufleet.errors import UnknownName


class Detail(str, Enum):
    """A part of an answer that is shown in full."""

    REJECTED = "rejected"
    LIMITS = "limits"
    PRICES = "prices"
    ENERGY = "energy"
    ALL = "all"


Details: TypeAlias = frozenset[Detail]
SCREEN: Details = frozenset()
WHOLE: Details = frozenset({Detail.LIMITS, Detail.PRICES})
"""What a file holds: everything but the rarer rejections, and what only --explain says."""
NAMES = tuple(d.value for d in Detail)


def details_of(text: str | None) -> Details:
    """Names with commas between them: 'rejected,prices'; all of them where 'all' is among them.

    >>> sorted(d.value for d in details_of("limits, prices"))
    ['limits', 'prices']
    """
    if text is None:
        return SCREEN
    said = [name.strip().lower() for name in text.split(",")]
    for name in said:
        if name not in NAMES:
            raise UnknownName("part of an answer (--show)", name, NAMES)
    found = frozenset(map(Detail, said))
    return frozenset(Detail) if Detail.ALL in found else found


def is_screen(details: Details) -> bool:
    """Whether an answer keeps to one screen, with what was named in full."""
    return not details >= WHOLE
