"""Ranges as users get them, and back."""

from __future__ import annotations

from gpufleet.domain.interruption import Spread
from gpufleet.results.base import Figure


def spread_figure(spread: Spread, unit: str, grade: str) -> Figure:
    """A spread in its unit."""
    return Figure(value=spread.expected, unit=unit, low=spread.low, high=spread.high, grade=grade)


def spread_of(figure: Figure) -> Spread:
    """A figure's range; where an end is not known, the value."""
    low, high = (figure.value if end is None else end for end in (figure.low, figure.high))
    return Spread(low, figure.value, high)
