"""Cost against time as a picture: what may be rented as points with their ranges, in light, dark and print.

Drawn twice: for a page, where it also stands alone, and for a page as narrow as a phone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from gpufleet.records import dataclass
from gpufleet.report.axes import LogAxis, LogPlane, ticks
from gpufleet.report.markup import marked_up
from gpufleet.report.numbers import duration, duration_unit, shown_amount, shown_code, usd
from gpufleet.report.page import Picture
from gpufleet.report.palette import themed
from gpufleet.report.svg import Box, svg_document, written

LETTER_PX, LINE_PX, DOT_PX, SMALL_DOT_PX, CAP_PX, AWAY_PX = 7.2, 15.0, 6, 4, 3, 9
LIMIT_INDENT_PX, RIM_PX = 6, 3
FARTHER = (-2.0, 1.2, -3.0, 2.2)
Ends = tuple[float, float]
STYLE = f"""
{themed(".front", ("page", "ink", "soft", "grid", "line", "over"))}.front{{font:13px system-ui,sans-serif}}
.front .page{{fill:var(--page)}}.front text{{fill:var(--ink)}}.front .soft{{fill:var(--soft)}}
.front .label{{paint-order:stroke;stroke:var(--page);stroke-width:4px;stroke-linejoin:round}}
.front .head{{font-weight:600;font-size:15px}}.front .grid{{stroke:var(--grid);fill:none}}
.front .steps{{stroke:var(--line);stroke-width:2;fill:none}}.front .best{{fill:var(--line)}}
.front .other{{fill:var(--page);stroke:var(--soft);stroke-width:1.5}}
.front .range{{stroke:var(--soft);stroke-opacity:.6;fill:none}}
.front .range.best{{stroke:var(--line);stroke-width:1.5;stroke-opacity:1}}
.front .limit{{stroke:var(--over);stroke-width:1.5;stroke-dasharray:6 4;fill:none}}
.front .end{{text-anchor:end}}.front .mid{{text-anchor:middle}}
"""


@dataclass(frozen=True)
class CostPoint:
    """What may be rented: its cost and its time, each with its range, and what it is called in the picture."""

    cost_usd: float
    time_s: float
    cost_ends_usd: Ends | None = None
    time_ends_s: Ends | None = None
    mark: str = ""
    name: str = ""
    is_best: bool = False

    @property
    def place(self) -> Ends:
        """Where it stands."""
        return self.cost_usd, self.time_s

    @property
    def corners(self) -> list[Ends]:
        """The place, and the ends of both ranges."""
        costs, times = self.cost_ends_usd or (), self.time_ends_s or ()
        return [self.place, *((x, self.time_s) for x in costs), *((self.cost_usd, y) for y in times)]


@dataclass(frozen=True)
class CostPlot:
    """Points, what both axes are, and the limit on the time. `has_steps`: no other candidate beats the best ones."""

    cost: str
    time: str
    points: Sequence[CostPoint]
    key: Sequence[str]
    limit_s: float | None = None
    has_steps: bool = True

    @property
    def title(self) -> str:
        """What it shows."""
        return f"Cost against {self.time}: lower and to the left is better"


@dataclass(frozen=True)
class Canvas:
    """Sizes of a picture in pixels, and how much is written on it."""

    width: int
    height: int
    left: int
    right: int
    most_ticks: int
    is_named: bool
    top: int = 76
    bottom: int = 56

    @property
    def room(self) -> Box:
        """Where names may stand."""
        return Box(self.left, self.top, self.width, self.height - self.bottom)

    @property
    def plot_width(self) -> int:
        """Between the axes."""
        return self.width - self.left - self.right

    @property
    def plot_height(self) -> int:
        """Between the axes."""
        return self.height - self.top - self.bottom


WIDE = Canvas(860, 400, 104, 24, 6, True)
NARROW = Canvas(360, 340, 76, 14, 4, False)


@dataclass(frozen=True)
class Drawn:
    """A plot on a canvas."""

    plot: CostPlot
    canvas: Canvas
    plane: LogPlane

    def x(self, cost_usd: float) -> float:
        """Pixels from the left."""
        return self.canvas.left + self.plane.across.position(cost_usd) * self.canvas.plot_width

    def y(self, time_s: float) -> float:
        """Pixels from the top."""
        return self.canvas.top + (1 - self.plane.upwards.position(time_s)) * self.canvas.plot_height


def cost_picture(plot: CostPlot) -> Picture | None:
    """The plot for a page and for a phone; nothing where nothing has both a cost and a time."""
    points = [p for p in map(drawable, plot.points) if p is not None]
    if not points:
        return None
    limits = [(points[0].cost_usd, plot.limit_s)] if plot.limit_s else []
    plane = LogPlane.around([*(corner for p in points for corner in p.corners), *limits])
    drawn = replace(plot, points=points)
    return Picture(*(svg_of(Drawn(drawn, canvas, plane)) for canvas in (WIDE, NARROW)))


def drawable(p: CostPoint) -> CostPoint | None:
    """A point that a logarithmic plane holds, with those of its ranges that it holds too."""
    if not all(map(is_drawable, p.place)):
        return None
    costs, times = (e if e is not None and all(map(is_drawable, e)) else None for e in (p.cost_ends_usd, p.time_ends_s))
    return replace(p, cost_ends_usd=costs, time_ends_s=times)


def is_drawable(value: float) -> bool:
    """Whether a logarithmic axis has a place for it."""
    return 0 < value < math.inf


def svg_of(d: Drawn) -> str:
    """One picture that also stands alone."""
    others_first = sorted(d.plot.points, key=lambda p: p.is_best)
    parts = [
        *heads(d),
        *grid(d),
        *(part for p in others_first for part in ranges(d, p)),
        *steps(d),
        *limit_line(d),
        *(dot(d, p) for p in others_first),
        *labels(d),
    ]
    return svg_document("front", d.canvas.width, d.canvas.height, d.plot.title, STYLE, parts)


def heads(d: Drawn) -> Iterator[str]:
    """The title and the key; on a phone each in its own words a line."""
    left = d.canvas.left if d.canvas.is_named else 8
    title, _, rest = d.plot.title.partition(": ")
    yield written(left, 22, d.plot.title if d.canvas.is_named else title, "head")
    lines = ["; ".join(d.plot.key)] if d.canvas.is_named else [rest, *d.plot.key][:2]
    for index, line in enumerate(lines):
        yield written(left, 42 + index * LINE_PX, line, "soft")


def grid(d: Drawn) -> Iterator[str]:
    """Ticks of both axes and what they are."""
    c, bottom = d.canvas, d.canvas.top + d.canvas.plot_height
    free_from = 0.0
    for tick in round_values(d.plane.across, 1 / shown_amount(1.0), c.most_ticks):
        yield f'<path class="grid" d="M{d.x(tick):.1f} {c.top}V{bottom}"/>'
        label, half = usd(tick), LETTER_PX / 2 * len(usd(tick))
        x = min(d.x(tick), c.width - AWAY_PX - half)
        if x - half >= free_from:
            yield written(x, bottom + 18, label, "soft mid")
            free_from = x + half + RIM_PX
    for tick in round_values(d.plane.upwards, duration_unit(d.plane.upwards.high)[1], c.most_ticks):
        yield f'<path class="grid" d="M{c.left} {d.y(tick):.1f}h{c.plot_width}"/>'
        yield written(c.left - 8, d.y(tick) + 4, duration(tick), "soft end")
    yield written(c.left + c.plot_width / 2, bottom + 42, f"{shown_code()} {d.plot.cost} (log)", "mid")
    if c.is_named:
        middle = c.top + c.plot_height / 2
        upright = f'transform="translate(20 {middle:.0f}) rotate(-90)"'
        yield f"<g {upright}>{written(0, 0, f'{d.plot.time} (log)', 'mid')}</g>"


def round_values(axis: LogAxis, unit: float, most: int) -> list[float]:
    """Values on an axis that are round in this unit.

    >>> round_values(LogAxis(3_000.0, 40_000.0), 3_600.0, 4)
    [3600.0, 7200.0, 18000.0, 36000.0]
    """
    return [value * unit for value in ticks(LogAxis(axis.low / unit, axis.high / unit), most)]


def limit_line(d: Drawn) -> Iterator[str]:
    """What the time must not exceed."""
    if d.plot.limit_s is None:
        return
    y = d.y(d.plot.limit_s)
    yield f'<path class="limit" d="M{d.canvas.left} {y:.1f}h{d.canvas.plot_width}"/>'
    yield written(limit_label(d, d.plot.limit_s)[0], y - 5, limit_words(d.plot.limit_s), "label")


def limit_label(d: Drawn, limit_s: float) -> Box:
    """Where the words of the limit stand on it: the first place from the left that no point or range covers."""
    y, width = d.y(limit_s), LETTER_PX * len(limit_words(limit_s))
    left, right = d.canvas.left + LIMIT_INDENT_PX, d.canvas.left + d.canvas.plot_width - width
    taken = [box for p in d.plot.points for box in covered(d, p)]
    starts = range(round(left), max(round(right), round(left) + 1), 4)
    places = [Box(float(x), y - LINE_PX, x + width, y) for x in starts]
    return next((box for box in places if box.is_free(d.canvas.room, taken)), places[0])


def limit_words(limit_s: float) -> str:
    """What stands on the line of the limit."""
    return f"limit {duration(limit_s)}"


def ranges(d: Drawn, p: CostPoint) -> Iterator[str]:
    """The range of the time upwards, that of the cost across, each with a cap at its ends."""
    look, (x, y) = "range best" if p.is_best else "range", (d.x(p.cost_usd), d.y(p.time_s))
    if p.time_ends_s is not None:
        low, high = (d.y(end) for end in p.time_ends_s)
        caps = "".join(f"M{x - CAP_PX:.1f} {end:.1f}h{2 * CAP_PX}" for end in (low, high))
        yield f'<path class="{look}" d="M{x:.1f} {low:.1f}V{high:.1f}{caps}"/>'
    if p.cost_ends_usd is not None:
        low, high = (d.x(end) for end in p.cost_ends_usd)
        caps = "".join(f"M{end:.1f} {y - CAP_PX:.1f}v{2 * CAP_PX}" for end in (low, high))
        yield f'<path class="{look}" d="M{low:.1f} {y:.1f}H{high:.1f}{caps}"/>'


def steps(d: Drawn) -> Iterator[str]:
    """The border of what is possible: level until the next point is paid for."""
    best = sorted(p.place for p in d.plot.points if p.is_best)
    if not d.plot.has_steps or not best:
        return
    (x, y), *others = best
    path = f"M{d.x(x):.1f} {d.y(y):.1f}" + "".join(f"H{d.x(x):.1f}V{d.y(y):.1f}" for x, y in others)
    yield f'<path class="steps" d="{path}"/>'


def dot(d: Drawn, p: CostPoint) -> str:
    """A point, with its name and figures for the pointer."""
    hint = f"{p.mark}: {p.name}, {usd(p.cost_usd)} {d.plot.cost}, {duration(p.time_s)}"
    look, radius = ("best", DOT_PX) if p.is_best else ("other", SMALL_DOT_PX)
    at = f'cx="{d.x(p.cost_usd):.1f}" cy="{d.y(p.time_s):.1f}" r="{radius}"'
    return f'<circle class="{look}" {at}><title>{marked_up(hint)}</title></circle>'


def labels(d: Drawn) -> Iterator[str]:
    """Marks beside their points, with names for the best where there is room; what finds no room is left out."""
    taken = [*limit_boxes(d), *step_boxes(d), *(box for p in d.plot.points for box in covered(d, p))]
    for p in sorted(d.plot.points, key=lambda p: not p.is_best):
        long = f"{p.mark}: {p.name}" if p.is_best and d.canvas.is_named and p.name else p.mark
        for text in dict.fromkeys((long, p.mark)):
            box = next((b for b in boxes(d, p, text) if b.is_free(d.canvas.room, taken)), None) if text else None
            if box is not None:
                taken.append(Box(box.left - RIM_PX, box.top, box.right + RIM_PX, box.bottom))
                yield written(box.left, box.bottom - 3, text, "label" if p.is_best else "label soft")
                break


def limit_boxes(d: Drawn) -> Iterator[Box]:
    """What the limit and its words cover."""
    if d.plot.limit_s is not None:
        y = d.y(d.plot.limit_s)
        yield Box(d.canvas.left, y - 1, d.canvas.left + d.canvas.plot_width, y + 1)
        yield limit_label(d, d.plot.limit_s)


def covered(d: Drawn, p: CostPoint) -> Iterator[Box]:
    """What a dot and its ranges cover, caps included."""
    x, y = d.x(p.cost_usd), d.y(p.time_s)
    yield Box.around(x, y, DOT_PX)
    if p.time_ends_s is not None:
        low, high = (d.y(end) for end in p.time_ends_s)
        yield Box(x - 1, high, x + 1, low)
        yield from (Box(x - CAP_PX, end - 1, x + CAP_PX, end + 1) for end in (low, high))
    if p.cost_ends_usd is not None:
        low, high = (d.x(end) for end in p.cost_ends_usd)
        yield Box(low, y - RIM_PX, high, y + RIM_PX)
        yield from (Box(end - 1, y - CAP_PX, end + 1, y + CAP_PX) for end in (low, high))


def step_boxes(d: Drawn) -> Iterator[Box]:
    """What the border of the possible covers."""
    best = sorted(p.place for p in d.plot.points if p.is_best) if d.plot.has_steps else []
    for (x, y), (next_x, next_y) in pairwise((d.x(x), d.y(y)) for x, y in best):
        yield Box(x, y - RIM_PX, next_x, y + RIM_PX)
        yield Box(next_x - 1, min(y, next_y), next_x + 1, max(y, next_y))


def boxes(d: Drawn, p: CostPoint, text: str) -> Iterator[Box]:
    """Places of a text by its point: right and left of it, above and below its range, or ending there, then farther."""
    x, y, width = d.x(p.cost_usd), d.y(p.time_s), len(text) * LETTER_PX
    low, high = (d.y(end) for end in p.time_ends_s or (p.time_s, p.time_s))
    sides, heights = (x + AWAY_PX, x - AWAY_PX - width), (-LINE_PX - 1, 1.0, -LINE_PX / 2)
    beside = [(left, y + height) for left in sides for height in heights]
    starts = (max(x - share * width, d.canvas.left + 2.0) for share in (0.5, 1.0))
    around = [(left, top) for left in starts for top in (high - LINE_PX - 2, low + 2)]
    farther = [(left, y + step * LINE_PX) for step in FARTHER for left in (*sides, x - width / 2)]
    for left, top in (*beside, *around, *farther):
        yield Box(left, top, left + width, top + LINE_PX)


def undominated(points: Sequence[Ends]) -> list[bool]:
    """Which points no other one beats in both cost and time.

    >>> undominated([(1.0, 9.0), (2.0, 9.5), (3.0, 4.0)])
    [True, False, True]
    """
    return [not any(o != point and o[0] <= point[0] and o[1] <= point[1] for o in points) for point in points]
