"""The front of cost against latency as an SVG element that also stands alone: light, dark and printed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from gpufleet.report.controls import printable
from gpufleet.report.log_plane import LogPlane, ticks
from gpufleet.report.numbers import duration, usd, usd_per_hour
from gpufleet.report.shown_currency import shown_code

WIDTH_PX, HEIGHT_PX = 860, 420
LEFT_PX, TOP_PX, RIGHT_PX, BOTTOM_PX = 84, 44, 24, 62
PLOT_WIDTH_PX, PLOT_HEIGHT_PX = WIDTH_PX - LEFT_PX - RIGHT_PX, HEIGHT_PX - TOP_PX - BOTTOM_PX
LETTER_PX, LINE_PX, DOT_PX, SMALL_DOT_PX = 7.0, 16.0, 6, 3
Place = tuple[float, float]
STYLE = """
.front{font:13px system-ui,sans-serif;--page:#fff;--ink:#1b1f24;--soft:#59636e;--grid:#e4e8ec;--line:#0072b2}
@media (prefers-color-scheme:dark){.front{--page:#0d1117;--ink:#e6edf3;--soft:#a3adb8;--grid:#262c34;--line:#3a9be0}}
@media print{.front{--page:#fff;--ink:#000;--soft:#444;--grid:#ddd;--line:#0072b2}}
.front .page{fill:var(--page)}.front text{fill:var(--ink)}.front .soft{fill:var(--soft)}
.front .head{font-weight:600;font-size:16px}.front .grid{stroke:var(--grid);fill:none}
.front .steps{stroke:var(--line);stroke-width:2;fill:none}.front .best{fill:var(--line)}
.front .other{fill:none;stroke:var(--soft)}.front .end{text-anchor:end}.front .mid{text-anchor:middle}
"""


def front_svg(
    figure: str, front: Sequence[Place], labels: Sequence[str], others: Sequence[Place], plane: LogPlane
) -> str:
    """Filled discs on a line of steps are the front, open ones other rows; cost across, latency upwards."""
    title = f"Cost against {figure}: lower and to the left is better"
    parts = [
        f'<svg class="front" xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {WIDTH_PX} {HEIGHT_PX}" '
        f'width="{WIDTH_PX}" height="{HEIGHT_PX}">',
        f"<title>{escape(title)}</title><style>{STYLE}</style>",
        f'<rect class="page" width="{WIDTH_PX}" height="{HEIGHT_PX}"/>',
        _text(LEFT_PX, 26, title, "head"),
        *_grid(plane, figure),
        *(_dot(plane, place, "other", SMALL_DOT_PX, "") for place in others),
        _steps(plane, front),
        *(_dot(plane, place, "best", DOT_PX, label) for place, label in zip(front, labels, strict=True)),
        *_labels(plane, front, labels),
    ]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _x(plane: LogPlane, usd_each_hour: float) -> float:
    return LEFT_PX + plane.across.position(usd_each_hour) * PLOT_WIDTH_PX


def _y(plane: LogPlane, seconds: float) -> float:
    return TOP_PX + (1 - plane.upwards.position(seconds)) * PLOT_HEIGHT_PX


def _text(x: float, y: float, text: str, look: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{look}">{escape(printable(text))}</text>'


def _grid(plane: LogPlane, figure: str) -> Iterator[str]:
    bottom = TOP_PX + PLOT_HEIGHT_PX
    for tick in ticks(plane.across):
        yield f'<path class="grid" d="M{_x(plane, tick):.1f} {TOP_PX}V{bottom}"/>'
        yield _text(_x(plane, tick), bottom + 18, usd(tick), "soft mid")
    for tick in ticks(plane.upwards):
        yield f'<path class="grid" d="M{LEFT_PX} {_y(plane, tick):.1f}h{PLOT_WIDTH_PX}"/>'
        yield _text(LEFT_PX - 8, _y(plane, tick) + 4, duration(tick), "soft end")
    yield _text(LEFT_PX + PLOT_WIDTH_PX / 2, bottom + 44, f"{shown_code()} per hour, all machines (log)", "mid")
    middle = TOP_PX + PLOT_HEIGHT_PX / 2
    yield f'<g transform="translate(20 {middle:.0f}) rotate(-90)">{_text(0, 0, f"{figure} (log)", "mid")}</g>'


def _steps(plane: LogPlane, front: Sequence[Place]) -> str:
    """The border of what is possible: level until the next point is paid for."""
    path = ""
    for x, y in front:
        path += f"H{_x(plane, x):.1f}V{_y(plane, y):.1f}" if path else f"M{_x(plane, x):.1f} {_y(plane, y):.1f}"
    return f'<path class="steps" d="{path}"/>'


def _dot(plane: LogPlane, place: Place, look: str, radius_px: int, label: str) -> str:
    x, y = place
    hint = f"{label} {usd_per_hour(x)}, {duration(y)}".strip()
    at = f'cx="{_x(plane, x):.1f}" cy="{_y(plane, y):.1f}" r="{radius_px}"'
    return f'<circle class="{look}" {at}><title>{escape(printable(hint))}</title></circle>'


def _labels(plane: LogPlane, front: Sequence[Place], labels: Sequence[str]) -> Iterator[str]:
    """Names beside their points, on the side with room; one that would cover another is left to the pointer."""
    taken: list[tuple[float, float, float]] = []
    for (x, y), label in zip(front, labels, strict=True):
        width, is_left = len(label) * LETTER_PX, _x(plane, x) < LEFT_PX + PLOT_WIDTH_PX / 2
        left = _x(plane, x) + 10 if is_left else _x(plane, x) - 10 - width
        height = _y(plane, y) - 8
        if not any(abs(height - h) < LINE_PX and left < r and left + width > b for b, r, h in taken):
            taken.append((left, left + width, height))
            yield _text(_x(plane, x) + (10 if is_left else -10), height, label, "" if is_left else "end")
