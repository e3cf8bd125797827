"""Measured against predicted as a picture: panels with two log axes, one colour per series, as SVG.

Dots of a series are one path of zero-length strokes, so that thousands of them stay a small file. Colours are those of
Okabe and Ito, told apart with any colour vision; squares and discs part series of one colour.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from gpufleet.records import dataclass
from gpufleet.report.markup import marked_up

PLOT_PX, LEFT_PX, TOP_PX, GAP_PX = 380, 84, 84, 104
AXIS_PX, LEGEND_LINE_PX, MARGIN_PX = 72, 24, 30
DOT_PX, LEGEND_DOT_PX, LEGEND_INDENT_PX = 4, 12, 18
NEAR_RATIOS, NEAR_LABEL = (0.75, 1.25), "dashed: ±25%"
ROOM_DECADES, SHORT_DECADES = 0.05, 2.2
PANELS_A_LINE = 3
DISC, SQUARE = "disc", "square"
INKS = ("blue", "vermilion", "green", "purple", "orange", "sky", "yellow", "grey")
STYLE = """
svg{font:17px system-ui,sans-serif;--page:#fff;--ink:#1b1f24;--soft:#59636e;--grid:#e4e8ec;--frame:#9aa4ae;
--blue:#0072b2;--vermilion:#d55e00;--green:#009e73;--purple:#b5548a;--orange:#e69f00;--sky:#56b4e9;--yellow:#a99a00;
--grey:#555}
@media (prefers-color-scheme:dark){svg{--page:#0d1117;--ink:#e6edf3;--soft:#a3adb8;--grid:#262c34;--frame:#59636e;
--blue:#3a9be0;--vermilion:#ff7f3f;--green:#2ec79a;--purple:#e29cc4;--orange:#f2b632;--sky:#8fd0f7;--yellow:#f0e442;
--grey:#b8c0c8}}
.page{fill:var(--page)}text{fill:var(--ink)}.soft{fill:var(--soft);font-size:15px}.head{font-weight:600;font-size:20px}
.grid{stroke:var(--grid);fill:none}.frame{stroke:var(--frame);fill:none}.same{stroke:var(--ink);stroke-width:1.5}
.near{stroke:var(--ink);stroke-dasharray:6 5;opacity:.7}.end{text-anchor:end}.mid{text-anchor:middle}
.dots{fill:none;stroke-opacity:.6}.disc{stroke-linecap:round}.square{stroke-linecap:square}
"""


@dataclass(frozen=True)
class Series:
    """Points (measured, predicted) of one colour and mark, and what the legend says of them."""

    label: str
    ink: str
    mark: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Panel:
    """One quantity: its headline, a line below it, its series, and how a value on an axis is written."""

    title: str
    subtitle: str
    series: Sequence[Series]
    show: Callable[[float], str]


@dataclass(frozen=True)
class LogScale:
    """A logarithmic axis, alike in both directions, from pixel 0 to PLOT_PX."""

    low: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float]) -> LogScale:
        """The axis that holds these values with a little room."""
        exponents = [math.log10(value) for value in values]
        return cls(min(exponents) - ROOM_DECADES, max(exponents) + ROOM_DECADES)

    def pixel(self, value: float) -> float:
        """Where a value stands.

        >>> LogScale(0.0, 2.0).pixel(10.0)
        190.0
        """
        return PLOT_PX * (math.log10(value) - self.low) / (self.high - self.low)

    @property
    def ticks(self) -> list[float]:
        """Powers of ten on the axis; on a short axis their threefold too.

        >>> LogScale(-0.2, 2.9).ticks, LogScale(0.9, 2.1).ticks
        ([1.0, 10.0, 100.0], [10.0, 30.0, 100.0])
        """
        steps = (1, 3) if self.high - self.low < SHORT_DECADES else (1,)
        powers = (10.0**exponent for exponent in range(math.floor(self.low), math.floor(self.high) + 1))
        candidates = [power * step for power in powers for step in steps]
        return [tick for tick in candidates if self.low <= math.log10(tick) <= self.high]


def plot_as_svg(panels: Sequence[Panel], title: str) -> str:
    """Panels in lines of three, their legends below; an SVG document with its own light and dark colours."""
    lines = [panels[at : at + PANELS_A_LINE] for at in range(0, len(panels), PANELS_A_LINE)] or [panels]
    width = LEFT_PX + max(map(len, lines)) * (PLOT_PX + GAP_PX) - GAP_PX + MARGIN_PX
    height = sum(map(line_px, lines))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {width} {height}">',
        f"<title>{marked_up(title)}</title><style>{STYLE}</style>",
        f'<rect class="page" width="{width}" height="{height}"/>',
    ]
    for number, line in enumerate(lines):
        top = TOP_PX + sum(map(line_px, lines[:number]))
        parts += [panel_svg(panel, LEFT_PX + index * (PLOT_PX + GAP_PX), top) for index, panel in enumerate(line)]
    return "\n".join([*parts, "</svg>"]) + "\n"


def line_px(panels: Sequence[Panel]) -> int:
    """Height of a line of panels with the longest of their legends."""
    most = max((len(panel.series) for panel in panels), default=0)
    return TOP_PX + PLOT_PX + AXIS_PX + most * LEGEND_LINE_PX + MARGIN_PX


def panel_svg(panel: Panel, x_px: int, y_px: int) -> str:
    """One panel: headline, grid, the lines of equality and of 25 % around it, the dots, the legend."""
    points = [point for series in panel.series for point in series.points]
    parts = [f'<g transform="translate({x_px} {y_px})">', written(0, -46, panel.title, "head")]
    parts.append(written(0, -24, panel.subtitle, "soft"))
    if points:
        scale = LogScale.of(value for point in points for value in point)
        largest_first = sorted(panel.series, key=lambda series: -len(series.points))
        parts += [grid_svg(scale, panel.show), *(dots_svg(series, scale) for series in largest_first)]
        parts += [line_svg(scale, 1.0, "same"), *(line_svg(scale, ratio, "near") for ratio in NEAR_RATIOS)]
        parts.append(written(PLOT_PX, -6, NEAR_LABEL, "soft end"))
    parts += [legend_svg(series, index) for index, series in enumerate(panel.series)]
    return "\n".join([*parts, "</g>"])


def grid_svg(scale: LogScale, show: Callable[[float], str]) -> str:
    """Lines and labels of the ticks, and what the axes are."""
    lines = "".join(f"M{_(scale.pixel(d))} 0v{PLOT_PX}M0 {_(PLOT_PX - scale.pixel(d))}h{PLOT_PX}" for d in scale.ticks)
    parts = [f'<path class="grid" d="{lines}"/><rect class="frame" width="{PLOT_PX}" height="{PLOT_PX}"/>']
    for tick in scale.ticks:
        at = scale.pixel(tick)
        parts.append(written(at, PLOT_PX + 20, show(tick), "soft mid"))
        parts.append(written(-8, PLOT_PX - at + 5, show(tick), "soft end"))
    parts.append(written(PLOT_PX / 2, PLOT_PX + 42, "measured", "mid"))
    parts.append(f'<g transform="translate(-64 {PLOT_PX / 2:.0f}) rotate(-90)">{written(0, 0, "predicted", "mid")}</g>')
    return "".join(parts)


def line_svg(scale: LogScale, ratio: float, look: str) -> str:
    """The line predicted = ratio x measured, as far as it is inside the frame."""
    shift = math.log10(ratio)
    begin, end = max(scale.low, scale.low - shift), min(scale.high, scale.high - shift)
    (x1, y1), (x2, y2) = ((scale.pixel(10**x), PLOT_PX - scale.pixel(10 ** (x + shift))) for x in (begin, end))
    return f'<path class="{look}" d="M{_(x1)} {_(y1)}L{_(x2)} {_(y2)}"/>'


def dots_svg(series: Series, scale: LogScale) -> str:
    """All dots of a series; those that fall on one tenth of a pixel are drawn once."""
    places = {(_(scale.pixel(x)), _(PLOT_PX - scale.pixel(y))): None for x, y in series.points}
    return mark_svg(series, "".join(f"M{x} {y}h0" for x, y in places), DOT_PX)


def mark_svg(series: Series, path: str, size_px: int) -> str:
    """Zero-length strokes with the cap and colour of a series."""
    look = f'class="dots {series.mark}" style="stroke:var(--{series.ink})" stroke-width="{size_px}"'
    return f'<path {look} d="{path}"/>'


def legend_svg(series: Series, index: int) -> str:
    """The mark of a series and its label."""
    y_px = PLOT_PX + AXIS_PX + index * LEGEND_LINE_PX
    mark = mark_svg(series, f"M{LEGEND_DOT_PX / 2:.0f} {y_px - 5}h0", LEGEND_DOT_PX)
    return mark + written(LEGEND_INDENT_PX, y_px, series.label, "soft")


def written(x_px: float, y_px: float, text: str, look: str) -> str:
    """A line of text."""
    return f'<text class="{look}" x="{_(x_px)}" y="{_(y_px)}">{marked_up(text)}</text>'


def _(pixel: float) -> str:
    """A coordinate to a tenth of a pixel, without a useless zero."""
    return f"{pixel:.1f}".removesuffix(".0")
