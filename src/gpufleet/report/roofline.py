"""The roofline of an explained estimate: what is drawn, and the drawing in characters."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.records import dataclass
from gpufleet.report.axes import LogAxis
from gpufleet.report.explanation import formula, share
from gpufleet.report.numbers import amount, percent, significant
from gpufleet.report.page import Columns, Table, column, number
from gpufleet.results.estimate import ExplainedStep, Explanation
from gpufleet.units import TERA

WIDEST, ROWS = 78, 20
MARGIN, EDGE = 6, " |"
AIR, AIR_BELOW = 1.6, 2.5
DECODE_MARKS, PREFILL_MARKS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True)
class Point:
    """One operation in the plane of a roofline; `share_ratio` is of its own step, `roof_ratio` of what is possible."""

    mark: str
    name: str
    step: str
    flop_per_byte: float
    flop_per_s: float
    share_ratio: float
    roof_ratio: float
    formula: str


@dataclass(frozen=True)
class Chart:
    """Points under the ceilings of one GPU; intensity in flop/byte across, flop/s upwards."""

    points: tuple[Point, ...]
    across: LogAxis
    upwards: LogAxis
    bandwidth_bytes_per_s: float
    ceilings: tuple[tuple[str, float], ...]
    undrawn: tuple[str, ...]

    @property
    def peak_flop_per_s(self) -> float:
        """The highest ceiling."""
        return max(peak for _, peak in self.ceilings)

    def roof(self, flop_per_byte: float) -> float:
        """What an operation of this intensity reaches at most, in the fastest arithmetic in use."""
        return min(flop_per_byte * self.bandwidth_bytes_per_s, self.peak_flop_per_s)


def chart_of(explanation: Explanation) -> Chart:
    """The operations of both steps that compute, on axes that hold them and the ceilings."""
    points = (
        *_points(explanation.decode, "decode", DECODE_MARKS),
        *_points(explanation.prefill, "prefill", PREFILL_MARKS),
    )
    ceilings = tuple((c.arithmetic, c.flop_per_s) for c in explanation.ceilings)
    peak = max(rate for _, rate in ceilings)
    intensities = [p.flop_per_byte for p in points] + [peak / explanation.bandwidth_bytes_per_s]
    rates = [p.flop_per_s for p in points] + [peak]
    undrawn = (o for o in explanation.decode.operations if not o.has_arithmetic)
    return Chart(
        points=points,
        across=LogAxis(min(intensities) / AIR, max(intensities) * AIR),
        upwards=LogAxis(min(rates) / AIR_BELOW, max(rates) * AIR),
        bandwidth_bytes_per_s=explanation.bandwidth_bytes_per_s,
        ceilings=ceilings,
        undrawn=tuple(f"{o.name} {share(o.share_ratio)}" for o in undrawn),
    )


def _points(step: ExplainedStep, name: str, marks: str) -> Iterator[Point]:
    drawn = [operation for operation in step.operations if operation.has_arithmetic]
    for mark, operation in zip(marks, drawn, strict=False):
        yield Point(
            mark=mark,
            name=operation.name,
            step=name,
            flop_per_byte=operation.flop / operation.moved_bytes,
            flop_per_s=operation.flop / operation.seconds_each,
            share_ratio=operation.share_ratio,
            roof_ratio=operation.roofline_s / operation.seconds_each,
            formula=formula(operation),
        )


def roofline_table(chart: Chart, width: int) -> Table:
    """The chart in characters, and what each letter in it is."""
    columns: Columns[Point] = [
        column("", lambda p: p.mark),
        column("operation", lambda p: p.name, wraps=True),
        number("flop/byte", lambda p: significant(p.flop_per_byte), priority=1),
        number("Tflop/s", lambda p: significant(p.flop_per_s / TERA), priority=2),
        number("of roof", lambda p: percent(p.roof_ratio), priority=1),
        number("of step", lambda p: share(p.share_ratio)),
    ]
    title = "Roofline of one GPU: Tflop/s over flop per byte of memory traffic (log-log)"
    return Table.of(chart.points, columns, title, _notes(chart), drawing=drawn_lines(chart, width))


def drawn_lines(chart: Chart, width: int) -> list[str]:
    """The chart in characters: '/' the bandwidth, '-' a peak, a letter an operation.

    A letter whose place is taken stands beside it.
    """
    columns = min(width, WIDEST) - MARGIN - len(EDGE)
    cells = [[" "] * columns for _ in range(ROWS)]
    _draw_roof(chart, cells)
    for point in chart.points:
        _place(cells, *_cell(chart, point.flop_per_byte, point.flop_per_s, columns), point.mark)
    lines = [f"{label:>{MARGIN}}{EDGE}{''.join(row)}" for label, row in zip(_labels(chart), cells, strict=True)]
    foot = [" " * MARGIN + " +" + "-" * columns, _ruler(chart, columns)]
    return [text.rstrip() for text in (*lines, *foot)]


def _cell(chart: Chart, flop_per_byte: float, flop_per_s: float, columns: int) -> tuple[int, int]:
    across = round(chart.across.position(flop_per_byte) * (columns - 1))
    upwards = round((1 - chart.upwards.position(flop_per_s)) * (ROWS - 1))
    return upwards, across


def _draw_roof(chart: Chart, cells: list[list[str]]) -> None:
    columns = len(cells[0])
    for across in range(columns):
        intensity = chart.across.value(across / (columns - 1))
        memory = intensity * chart.bandwidth_bytes_per_s
        for _, peak in chart.ceilings:
            if memory >= peak:
                row, _ = _cell(chart, intensity, peak, columns)
                cells[row][across] = "-"
        if chart.upwards.low <= memory <= chart.peak_flop_per_s:
            row, _ = _cell(chart, intensity, memory, columns)
            cells[row][across] = "/"


def _place(cells: list[list[str]], row: int, across: int, mark: str) -> None:
    """A letter in its cell, or in the nearest one of its row that no other letter has."""
    free = [c for c, cell in enumerate(cells[row]) if not cell.isalpha()]
    if free:
        cells[row][min(free, key=lambda c: (abs(c - across), c))] = mark


def _labels(chart: Chart) -> list[str]:
    """Powers of ten beside the rows where they stand."""
    labels = [""] * ROWS
    for rate in chart.upwards.decades():
        labels[round((1 - chart.upwards.position(rate)) * (ROWS - 1))] = amount(rate / TERA)
    return labels


def _ruler(chart: Chart, columns: int) -> str:
    line = [" "] * columns
    for intensity in chart.across.decades():
        label = amount(intensity)
        start = min(round(chart.across.position(intensity) * (columns - 1)), columns - len(label))
        line[start : start + len(label)] = label
    return " " * (MARGIN + len(EDGE)) + "".join(line)


def _notes(chart: Chart) -> list[str]:
    peaks = ", ".join(f"{name} {significant(peak / TERA)} Tflop/s" for name, peak in chart.ceilings)
    roof = f"/ is memory at {significant(chart.bandwidth_bytes_per_s / TERA)} TB/s, - the peak of {peaks}."
    aside = [f"Not drawn, as they do no arithmetic: {', '.join(chart.undrawn)} of the decode step."]
    letters = "Capital letters are operations of the decode step, small ones of the prefill."
    return [letters, roof, *(aside if chart.undrawn else [])]
