"""The roofline of an explained estimate as an SVG document, with its own light and dark colours.

Decode operations are discs, those of the prefill squares; their area is their share of the step. Labels avoid marks,
roof and each other; a thin line leads to a label that stands apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from gpufleet.records import dataclass
from gpufleet.report.axes import LogAxis
from gpufleet.report.explanation import share
from gpufleet.report.markup import marked_up
from gpufleet.report.numbers import amount, significant
from gpufleet.report.roofline import Chart, Point
from gpufleet.report.svg import Box, svg_document, written
from gpufleet.units import TERA

WIDTH_PX, HEIGHT_PX = 1000, 680
LEFT_PX, TOP_PX, RIGHT_PX, BOTTOM_PX = 80, 88, 130, 110
PLOT_WIDTH_PX, PLOT_HEIGHT_PX = WIDTH_PX - LEFT_PX - RIGHT_PX, HEIGHT_PX - TOP_PX - BOTTOM_PX
FONT_PX, LETTER_PX, LINE_PX, AIR_PX = 13, 7.2, 18, 3
SMALLEST_PX, LARGEST_PX = 3.5, 26.0
LEAST_LABELLED_RATIO = 0.02
ROOF_PIECES, ROOF_LABEL_PX = 200, 150
LINE_PIECES, LEAST_LINE_PX, STEEP = 24, 8, 0.6
DISTANCES_PX, ANGLES = (4, 14, 26, 40, 56, 76, 100, 130), 24
LONGEST_TITLE = 92
STYLE = """
.roofline{font:13px system-ui,sans-serif;--page:#fff;--ink:#1b1f24;--soft:#59636e;--grid:#e4e8ec;--frame:#9aa4ae;
--decode:#0072b2;--prefill:#d55e00;--decode-text:#00598c;--prefill-text:#a34700}
@media (prefers-color-scheme:dark){.roofline{--page:#0d1117;--ink:#e6edf3;--soft:#a3adb8;--grid:#262c34;--frame:#59636e;
--decode:#3a9be0;--prefill:#ff7f3f;--decode-text:#7cc0f0;--prefill-text:#ffa477}}
@media print{.roofline{--page:#fff;--ink:#000;--soft:#444;--grid:#ddd;--frame:#888;--decode:#0072b2;--prefill:#d55e00;
--decode-text:#00598c;--prefill-text:#a34700}}
.roofline .page{fill:var(--page)}.roofline text{fill:var(--ink)}.roofline .soft{fill:var(--soft)}
.roofline .head{font-weight:600;font-size:17px}.roofline .grid{stroke:var(--grid);fill:none}
.roofline .frame{stroke:var(--frame);fill:none}.roofline .roof{stroke:var(--ink);stroke-width:2;fill:none}
.roofline .lead{stroke:var(--soft);stroke-width:.8;fill:none}
.roofline .end{text-anchor:end}.roofline .mid{text-anchor:middle}
.roofline .decode{fill:var(--decode);fill-opacity:.55;stroke:var(--decode)}
.roofline .prefill{fill:var(--prefill);fill-opacity:.45;stroke:var(--prefill)}
.roofline .of-decode{fill:var(--decode-text)}.roofline .of-prefill{fill:var(--prefill-text)}
"""


PLOT = Box(LEFT_PX, TOP_PX, WIDTH_PX - RIGHT_PX, HEIGHT_PX - BOTTOM_PX)


@dataclass(frozen=True)
class Mark:
    """An operation on the page."""

    point: Point
    x: float
    y: float
    radius: float

    @property
    def box(self) -> Box:
        """What it covers."""
        r = self.radius
        return Box(self.x - r, self.y - r, self.x + r, self.y + r)

    @property
    def label(self) -> str:
        """Name and share of its step."""
        return f"{self.point.name}, {share(self.point.share_ratio)}"


def roofline_svg(chart: Chart, title: str) -> str:
    """The whole document; `title` says whose roofline it is."""
    marks = [_mark(chart, point) for point in chart.points]
    shown = title if len(title) <= LONGEST_TITLE else title[: LONGEST_TITLE - 1] + "…"
    parts = [
        written(LEFT_PX, 32, shown, "head"),
        *_key(),
        *_grid(chart),
        *_roof(chart),
        *_memory_line(chart, marks),
        *(_mark_svg(mark) for mark in sorted(marks, key=lambda mark: -mark.radius)),
        *_labels_svg(chart, marks),
        *_foot(chart),
    ]
    return svg_document("roofline", WIDTH_PX, HEIGHT_PX, shown, STYLE, parts)


def _x(axis: LogAxis, value: float) -> float:
    return LEFT_PX + axis.position(value) * PLOT_WIDTH_PX


def _y(axis: LogAxis, value: float) -> float:
    return TOP_PX + (1 - axis.position(value)) * PLOT_HEIGHT_PX


def _mark(chart: Chart, point: Point) -> Mark:
    """Area in proportion to the share, but never too small to see."""
    radius = max(LARGEST_PX * math.sqrt(point.share_ratio), SMALLEST_PX)
    return Mark(point, _x(chart.across, point.flop_per_byte), _y(chart.upwards, point.flop_per_s), radius)


def _mark_svg(mark: Mark) -> str:
    """A disc or a square of the same area, with its formula as what a pointer shows."""
    hint = f"<title>{marked_up(f'{mark.point.step}: {mark.label}. {mark.point.formula}')}</title>"
    x, y, r = mark.x, mark.y, mark.radius
    if mark.point.step == "decode":
        return f'<circle class="decode" cx="{x:.1f}" cy="{y:.1f}" r="{r:.1f}">{hint}</circle>'
    side = r * math.sqrt(math.pi)
    corner = f'x="{x - side / 2:.1f}" y="{y - side / 2:.1f}" width="{side:.1f}" height="{side:.1f}"'
    return f'<rect class="prefill" {corner}>{hint}</rect>'


def _key() -> Iterator[str]:
    """What discs, squares and areas are."""
    yield f'<circle class="decode" cx="{LEFT_PX + 7}" cy="58" r="7"/>'
    yield written(LEFT_PX + 20, 63, "decode step")
    yield f'<rect class="prefill" x="{LEFT_PX + 112}" y="52" width="13" height="13"/>'
    yield written(LEFT_PX + 132, 63, "prefill")
    note = "area and %: share of its step, small ones without a name; line: what one GPU can reach"
    yield written(LEFT_PX + 190, 63, note, "soft")


def _grid(chart: Chart) -> Iterator[str]:
    """Decades, frame and the names of the axes."""
    for value in chart.across.decades():
        x = _x(chart.across, value)
        yield f'<path class="grid" d="M{x:.1f} {PLOT.top}V{PLOT.bottom}"/>'
        yield written(x, PLOT.bottom + LINE_PX, amount(value), "soft mid")
    for value in chart.upwards.decades():
        y = _y(chart.upwards, value)
        yield f'<path class="grid" d="M{PLOT.left} {y:.1f}H{PLOT.right}"/>'
        yield written(PLOT.left - 8, y + 4, amount(value / TERA), "soft end")
    yield f'<rect class="frame" x="{PLOT.left}" y="{PLOT.top}" width="{PLOT_WIDTH_PX}" height="{PLOT_HEIGHT_PX}"/>'
    yield written(LEFT_PX + PLOT_WIDTH_PX / 2, PLOT.bottom + 40, "flop per byte of memory traffic", "mid")
    middle = TOP_PX + PLOT_HEIGHT_PX / 2
    yield f'<g transform="translate(24 {middle:.0f}) rotate(-90)">{written(0, 0, "Tflop/s of one GPU", "mid")}</g>'


def _roof(chart: Chart) -> Iterator[str]:
    """Every peak from where it binds, named beside the plot."""
    for name, peak in chart.ceilings:
        x, y = _x(chart.across, peak / chart.bandwidth_bytes_per_s), _y(chart.upwards, peak)
        yield f'<path class="roof" d="M{x:.1f} {y:.1f}H{PLOT.right}"/>'
        yield written(PLOT.right + 8, y - 2, name)
        yield written(PLOT.right + 8, y + 13, f"{significant(peak / TERA)} Tflop/s", "soft")


def _slope(chart: Chart) -> list[tuple[float, float]]:
    """Places along the line that the memory bandwidth draws, from its lower to its upper end."""
    places = []
    for step in range(ROOF_PIECES + 1):
        intensity = chart.across.value(step / ROOF_PIECES)
        rate = intensity * chart.bandwidth_bytes_per_s
        if chart.upwards.low <= rate <= chart.peak_flop_per_s:
            places.append((_x(chart.across, intensity), _y(chart.upwards, rate)))
    return places


def _memory_line(chart: Chart, marks: Sequence[Mark]) -> Iterator[str]:
    """The line of the memory bandwidth, its name where the marks are farthest."""
    bandwidth, slope = chart.bandwidth_bytes_per_s, _slope(chart)
    x1, y1 = slope[0]
    x2, y2 = _x(chart.across, chart.peak_flop_per_s / bandwidth), _y(chart.upwards, chart.peak_flop_per_s)
    yield f'<path class="roof" d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}"/>'
    x, y = _memory_label_place(slope, marks)
    label = f"memory {significant(bandwidth / TERA)} TB/s"
    angle = math.degrees(math.atan2(y2 - y1, x2 - x1))
    yield f'<g transform="translate({x:.1f} {y:.1f}) rotate({angle:.1f})">{written(0, -9, label, "mid")}</g>'


def _memory_label_place(slope: Sequence[tuple[float, float]], marks: Sequence[Mark]) -> tuple[float, float]:
    """Inside of the line, as far as can be from every mark."""
    ends = (slope[0], slope[-1])
    inner = [place for place in slope if all(math.dist(place, end) > ROOF_LABEL_PX / 2 for end in ends)] or slope
    return max(inner, key=lambda place: min(math.hypot(place[0] - m.x, place[1] - m.y) - m.radius for m in marks))


def _labels_svg(chart: Chart, marks: Sequence[Mark]) -> Iterator[str]:
    """A label for every operation that counts, largest first, where nothing stands yet."""
    taken = [mark.box for mark in marks] + list(_roof_boxes(chart, marks))
    labelled: list[Box] = []
    for mark in sorted(marks, key=lambda mark: -mark.point.share_ratio):
        place = _free_place(mark, taken, labelled) if mark.point.share_ratio >= LEAST_LABELLED_RATIO else None
        if place is not None:
            taken.append(place)
            labelled.append(place)
            yield from _label_svg(mark, place)


def _roof_boxes(chart: Chart, marks: Sequence[Mark]) -> Iterator[Box]:
    """What lines and the name on them cover, in small pieces."""
    for _, peak in chart.ceilings:
        y = _y(chart.upwards, peak)
        yield Box(_x(chart.across, peak / chart.bandwidth_bytes_per_s), y - 2, PLOT.right, y + 2)
    slope = _slope(chart)
    named_x, named_y = _memory_label_place(slope, marks)
    for x, y in slope:
        is_named = math.hypot(x - named_x, y - named_y) < ROOF_LABEL_PX / 2
        yield Box(x - (24 if is_named else 3), y - (24 if is_named else 4), x + 3, y + 4)


def _free_place(mark: Mark, taken: Sequence[Box], labelled: Sequence[Box]) -> Box | None:
    """The nearest place where a label meets nothing, and if there is one, where its line crosses no other label."""
    width = LETTER_PX * len(mark.label)
    places = [box for distance in DISTANCES_PX for box in _places(mark, distance, width)]
    inside = [box for box in places if PLOT.holds(box.left, box.top) and PLOT.holds(box.right, box.bottom)]
    free = [box for box in inside if not any(map(box.touches, taken))]
    return next((box for box in free if not _crosses(mark, box, labelled)), free[0] if free else None)


def _crosses(mark: Mark, label: Box, labelled: Sequence[Box]) -> bool:
    """Whether the line from a mark to its label runs over other labels."""
    x, y = _end_of_line(mark, label)
    steps = [step / LINE_PIECES for step in range(LINE_PIECES)]
    places = [(mark.x + step * (x - mark.x), mark.y + step * (y - mark.y)) for step in steps]
    return any(box.holds(*place) for box in labelled for place in places)


def _end_of_line(mark: Mark, label: Box) -> tuple[float, float]:
    """The place of a label that is nearest to its mark."""
    return min(max(mark.x, label.left), label.right), min(max(mark.y, label.top + 2), label.bottom - 2)


def _places(mark: Mark, distance: float, width: float) -> Iterator[Box]:
    """Boxes around a mark at a distance from its edge, the one on its right first."""
    for step in range(ANGLES):
        turn = (step + 1) // 2 * (1 if step % 2 else -1) * 2 * math.pi / ANGLES
        across = math.cos(turn)
        reach = mark.radius + distance
        x, y = mark.x + reach * across, mark.y + reach * math.sin(turn)
        lefts = ([x] if across > -STEEP else []) + ([x - width] if across < STEEP else [])
        for left in lefts:
            yield Box(left, y - FONT_PX / 2 - AIR_PX, left + width, y + FONT_PX / 2 + AIR_PX)


def _label_svg(mark: Mark, box: Box) -> Iterator[str]:
    """The label, ending at its mark where it stands on the left, and a line to it from afar."""
    x, y = _end_of_line(mark, box)
    if math.hypot(x - mark.x, y - mark.y) > mark.radius + LEAST_LINE_PX:
        yield f'<path class="lead" d="M{mark.x:.1f} {mark.y:.1f}L{x:.1f} {y:.1f}"/>'
    is_left = box.right < mark.x + mark.radius
    look = f"of-{mark.point.step}{' end' if is_left else ''}"
    yield written(box.right if is_left else box.left, box.bottom - AIR_PX - 2, mark.label, look)


def _foot(chart: Chart) -> Iterator[str]:
    """What has no place in the plane."""
    if not chart.undrawn:
        return
    lines = _lines([f"Not drawn (no arithmetic), share of the decode step: {chart.undrawn[0]}", *chart.undrawn[1:]])
    for index, line in enumerate(lines):
        yield written(LEFT_PX, HEIGHT_PX - 44 + index * LINE_PX, line, "soft")


def _lines(words: Sequence[str]) -> list[str]:
    """Words joined by semicolons, as many to a line as fit."""
    lines = [words[0]]
    for word in words[1:]:
        joined = f"{lines[-1]}; {word}"
        if LETTER_PX * len(joined) <= PLOT_WIDTH_PX:
            lines[-1] = joined
        else:
            lines.append(word)
    return lines
