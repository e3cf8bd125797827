"""Axes of pictures with their ticks, from zero or logarithmic, and a logarithmic plane drawn with characters."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from gpufleet import units
from gpufleet.records import dataclass
from gpufleet.report.numbers import amount

WIDEST, ROWS, MARGIN, EDGE = 78, 14, 9, " |"
AIR = 1.15
STEPS = (
    tuple(n / 10 for n in range(10, 100)),
    (1.0, 1.2, 1.4, 1.6, 1.8, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0),
    (1.0, 1.5, 2.0, 3.0, 5.0, 7.0),
    (1.0, 2.0, 5.0),
)
LINEAR_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
CLOCK_S = (15.0, 30.0, units.MINUTE, 5 * units.MINUTE, 15 * units.MINUTE, units.HOUR, 2 * units.HOUR,
           6 * units.HOUR, 12 * units.HOUR, units.DAY)  # fmt: skip


@dataclass(frozen=True)
class LogAxis:
    """A logarithmic axis from `low` to `high`."""

    low: float
    high: float

    def position(self, value: float) -> float:
        """Where a value stands: 0 at the low end, 1 at the high end.

        >>> LogAxis(1.0, 100.0).position(10.0)
        0.5
        """
        return math.log(value / self.low) / math.log(self.high / self.low)

    def value(self, position: float) -> float:
        """The value at a position: the inverse of `position`."""
        return self.low * math.exp(position * math.log(self.high / self.low))

    def decades(self) -> list[float]:
        """Powers of ten on the axis."""
        first, last = math.ceil(math.log10(self.low)), math.floor(math.log10(self.high))
        return [10.0**power for power in range(first, last + 1)]


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


@dataclass(frozen=True)
class LinearAxis:
    """From zero to `high`, which is above zero."""

    high: float

    def position(self, value: float) -> float:
        """Where a value stands, 0 to 1."""
        return min(max(value / self.high, 0.0), 1.0)


def round_steps(high: float, most: int, rounded: Sequence[float] = LINEAR_STEPS) -> list[float]:
    """Zero and round values up to `high`, at most so many steps, each `rounded` within its power of ten.

    >>> round_steps(23.0, 4), round_steps(1.0, 2), round_steps(90.0, 8, (1.0, 2.0, 5.0, 10.0))
    ([0.0, 10.0, 20.0], [0.0, 0.5, 1.0], [0.0, 20.0, 40.0, 60.0, 80.0])
    """
    least = high / most
    decade = 10.0 ** math.floor(math.log10(least))
    return multiples(next(step * decade for step in rounded if step * decade >= least * (1 - 1e-9)), high)


def multiples(step: float, high: float) -> list[float]:
    """Zero and the multiples of a step."""
    return [n * step for n in range(math.floor(high / step * (1 + 1e-9)) + 1)]


def time_ticks(high_s: float, most: int) -> tuple[list[float], Callable[[float], str]]:
    """Moments that are round on a clock, and how each of them is written: all in one unit.

    >>> ticks, show = time_ticks(7200.0, 6)
    >>> [show(tick) for tick in ticks]
    ['0 min', '60 min', '120 min']
    """
    step_s = next((step for step in CLOCK_S if step >= high_s / most and high_s >= units.MINUTE), None)
    ticks = round_steps(high_s, most) if step_s is None or high_s > most * units.DAY else multiples(step_s, high_s)
    unit, scale = clock_unit(high_s)
    return ticks, lambda tick: f"{amount(tick / scale)} {unit}"


def clock_unit(high_s: float) -> tuple[str, float]:
    """The unit of all ticks on an axis of time.

    >>> clock_unit(90.0), clock_unit(3600.0)[0], clock_unit(90_000.0)[0]
    (('s', 1.0), 'min', 'h')
    """
    named = (("days", 10 * units.DAY, units.DAY), ("h", 6 * units.HOUR, units.HOUR))
    found = next(((name, scale) for name, least_s, scale in named if high_s >= least_s), None)
    return found or (("min", units.MINUTE) if high_s >= 5 * units.MINUTE else ("s", 1.0))
