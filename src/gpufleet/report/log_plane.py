"""A plane with two logarithmic axes, and points in it drawn with characters."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from gpufleet.records import dataclass
from gpufleet.report.roofline import LogAxis

WIDEST, ROWS, MARGIN, EDGE = 78, 14, 9, " |"
AIR = 1.15
STEPS = (
    tuple(n / 10 for n in range(10, 100)),
    (1.0, 1.2, 1.4, 1.6, 1.8, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0),
    (1.0, 1.5, 2.0, 3.0, 5.0, 7.0),
    (1.0, 2.0, 5.0),
)


@dataclass(frozen=True)
class LogPlane:
    """Two axes that hold every point, with some air."""

    across: LogAxis
    upwards: LogAxis

    @classmethod
    def around(cls, points: Sequence[tuple[float, float]]) -> LogPlane:
        """The plane of these points."""
        xs, ys = [x for x, _ in points], [y for _, y in points]
        return cls(LogAxis(min(xs) / AIR, max(xs) * AIR), LogAxis(min(ys) / AIR, max(ys) * AIR))


def ticks(axis: LogAxis, most: int = 6) -> list[float]:
    """Round values on an axis: the finest steps that are no more than `most`, else the decades.

    >>> ticks(LogAxis(90.0, 400.0))
    [100.0, 150.0, 200.0, 300.0]
    """
    decades = range(math.floor(math.log10(axis.low)), math.ceil(math.log10(axis.high)) + 1)
    for steps in STEPS:
        found = [s * 10.0**d for d in decades for s in steps if axis.low <= s * 10.0**d <= axis.high]
        if len(found) <= most:
            return found
    return axis.decades()


def drawn_lines(
    plane: LogPlane,
    marks: Sequence[tuple[float, float, str]],
    width: int,
    show_across: Callable[[float], str],
    show_upwards: Callable[[float], str],
) -> list[str]:
    """Each mark in its cell, later ones over earlier ones, with the ticks of both axes."""
    columns = min(width, WIDEST) - MARGIN - len(EDGE)
    cells = [[" "] * columns for _ in range(ROWS)]
    for x, y, mark in marks:
        across = round(plane.across.position(x) * (columns - 1))
        cells[row_of(plane, y)][across] = mark
    labels = [""] * ROWS
    for tick in ticks(plane.upwards):
        labels[row_of(plane, tick)] = show_upwards(tick)
    lines = [f"{label:>{MARGIN}}{EDGE}{''.join(row)}" for label, row in zip(labels, cells, strict=True)]
    foot = [" " * MARGIN + " +" + "-" * columns, ruler(plane.across, columns, show_across)]
    return [line.rstrip() for line in (*lines, *foot)]


def row_of(plane: LogPlane, y: float) -> int:
    """The line of a height; the first is on top."""
    return round((1 - plane.upwards.position(y)) * (ROWS - 1))


def ruler(axis: LogAxis, columns: int, show: Callable[[float], str]) -> str:
    """The ticks below the drawing; one that would touch its neighbour is left out."""
    line, free_from = [" "] * columns, 0
    for tick in ticks(axis):
        label = show(tick)
        start = min(round(axis.position(tick) * (columns - 1)), columns - len(label))
        if start >= free_from:
            line[start : start + len(label)] = label
            free_from = start + len(label) + 2
    return " " * (MARGIN + len(EDGE)) + "".join(line)
