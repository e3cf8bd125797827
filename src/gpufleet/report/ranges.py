"""Figures with their ranges, in words."""

from __future__ import annotations

from collections.abc import Callable

from gpufleet.report.numbers import duration, ranged, ranged_duration
from gpufleet.report.page import Column, Row
from gpufleet.results.base import Figure


def ranged_time(figure: Figure) -> str:
    """Seconds with their range, in one unit; to three digits where the ends do not differ."""
    if figure.low is None or figure.low == figure.high:
        return duration(figure.value)
    return ranged_duration(figure.value, figure.low, figure.high)


def ranged_figure(figure: Figure, unit: str = "") -> str:
    """A number with its range, to three digits."""
    return ranged(figure.value, figure.low, figure.high, unit, digits=3)


FIGURE_COLUMNS = (
    Column("figure", "figure"),
    Column("shown", "expected (80% range)", align="right", where="text"),
    *(Column(key, key, where="data") for key in ("value", "low", "high", "unit")),
    Column("grade", "grade"),
)


def figure_row(name: str, figure: Figure, shown: str) -> Row:
    """The cells of one figure in these columns."""
    return {"figure": name, "shown": shown, **figure.model_dump()}


def ranged_by(figure: Figure, write: Callable[[float], str], between: str = " to ") -> str:
    """A number with its range, each end written as the number is; alone where they do not differ.

    >>> ranged_by(Figure(value=3.0, unit="USD", low=2.0, high=5.0), lambda usd: f"${usd:.0f}")
    '$3 ($2 to $5)'
    """
    if figure.low is None or figure.high is None or figure.low == figure.high:
        return write(figure.value)
    return f"{write(figure.value)} ({write(figure.low)}{between}{write(figure.high)})"
