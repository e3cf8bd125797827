"""Cost against the worst day as a picture: each law a point, those that none beats joined, in light, dark and print."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpufleet.records import dataclass
from gpufleet.report.axes import round_steps
from gpufleet.report.markup import marked_up
from gpufleet.report.numbers import percent, usd
from gpufleet.report.page import Picture
from gpufleet.report.palette import themed
from gpufleet.report.svg import Box, svg_document, written

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 860, 400, 70, 150, 60, 56
NICE, MOST_STEPS, ROWS = (1.0, 2.0, 5.0, 10.0), 8, 5
LETTER_PX, LINE_PX, DOT_PX, AWAY_PX = 7.0, 15.0, 6, 9
ROOM = Box(LEFT, TOP - LINE_PX / 2, WIDTH, HEIGHT - BOTTOM)
TITLE = "Cost against the worst day: higher and to the left is better"
STYLE = f"""
{themed(".scaling", ("page", "ink", "soft", "grid", "line", "over"))}.scaling{{font:13px system-ui,sans-serif}}
.scaling .page{{fill:var(--page)}}.scaling text{{fill:var(--ink)}}.scaling .soft{{fill:var(--soft)}}
.scaling .label{{paint-order:stroke;stroke:var(--page);stroke-width:4px;stroke-linejoin:round}}
.scaling .head{{font-weight:600;font-size:15px}}.scaling .grid{{stroke:var(--grid);fill:none}}
.scaling .steps{{stroke:var(--line);stroke-width:2;fill:none}}.scaling .best{{fill:var(--line)}}
.scaling .other{{fill:var(--page);stroke:var(--soft);stroke-width:1.5}}
.scaling .limit{{stroke:var(--over);stroke-width:1.5;stroke-dasharray:6 4;fill:none}}
.scaling .end{{text-anchor:end}}.scaling .mid{{text-anchor:middle}}
"""


@dataclass(frozen=True)
class ScalingPoint:
    """A law: what it costs, the share that kept its limits on the worst day, and whether none beats it in both."""

    name: str
    usd: float
    kept_ratio: float
    is_best: bool


@dataclass(frozen=True)
class Axes:
    """Where costs and shares stand; both begin at zero."""

    most_usd: float

    def x(self, cost_usd: float) -> float:
        """Pixels from the left."""
        return LEFT + cost_usd / self.most_usd * (WIDTH - LEFT - RIGHT)

    def y(self, kept_ratio: float) -> float:
        """Pixels from the top."""
        return TOP + (1 - kept_ratio) * (HEIGHT - TOP - BOTTOM)


def scaling_picture(points: Sequence[ScalingPoint], target_ratio: float, span: str) -> Picture | None:
    """The picture; nothing where nothing costs anything."""
    most = max((point.usd for point in points), default=0.0)
    if most <= 0:
        return None
    axes = Axes(most * 1.02)
    parts = [
        written(LEFT, 22, TITLE, "head"),
        *grid(axes, most),
        written((LEFT + WIDTH - RIGHT) / 2, HEIGHT - BOTTOM + 42, f"cost of {span}", "mid"),
        written(LEFT, TOP - 12, "requests that keep their limits on the worst day", "soft"),
        f'<path class="limit" d="M{LEFT} {axes.y(target_ratio):.1f}H{WIDTH - RIGHT}"/>',
        steps(axes, points),
        *dots(axes, points),
    ]
    return Picture(svg_document("scaling", WIDTH, HEIGHT, TITLE, STYLE, parts))


def grid(axes: Axes, most: float) -> Iterator[str]:
    """Round costs below, shares at the left."""
    for value in round_steps(most, MOST_STEPS, NICE):
        yield f'<path class="grid" d="M{axes.x(value):.1f} {TOP}V{HEIGHT - BOTTOM}"/>'
        yield written(axes.x(value), HEIGHT - BOTTOM + 18, usd(value) if value else "$0", "soft mid")
    for row in range(ROWS + 1):
        share = row / ROWS
        yield f'<path class="grid" d="M{LEFT} {axes.y(share):.1f}H{WIDTH - RIGHT}"/>'
        yield written(LEFT - 8, axes.y(share) + 4, percent(share), "soft end")


def steps(axes: Axes, points: Sequence[ScalingPoint]) -> str:
    """What can be had for a cost: level until the next better law is paid for."""
    best = sorted((p.usd, p.kept_ratio) for p in points if p.is_best)
    if not best:
        return ""
    path = "".join(f"H{axes.x(x):.1f}V{axes.y(y):.1f}" for x, y in best[1:])
    return f'<path class="steps" d="M{axes.x(best[0][0]):.1f} {axes.y(best[0][1]):.1f}{path}"/>'


def dots(axes: Axes, points: Sequence[ScalingPoint]) -> Iterator[str]:
    """Each law, with its name where there is room beside it; the pointer tells the others."""
    ranked = sorted(points, key=lambda p: (not p.is_best, p.usd))
    places = [(axes.x(p.usd), axes.y(p.kept_ratio)) for p in ranked]
    taken = [Box.around(x, y, DOT_PX) for x, y in places]
    for p, (x, y) in zip(ranked, places, strict=True):
        hint = marked_up(f"{p.name}: {usd(p.usd)}, {percent(p.kept_ratio)}")
        look, radius = ("best", DOT_PX) if p.is_best else ("other", DOT_PX - 2)
        yield f'<circle class="{look}" cx="{x:.1f}" cy="{y:.1f}" r="{radius}"><title>{hint}</title></circle>'
        box = next((b for b in boxes(x, y, len(p.name) * LETTER_PX) if b.is_free(ROOM, taken)), None)
        if box is not None:
            taken.append(box)
            yield written(box.left, box.bottom - 3, p.name, "label" if p.is_best else "label soft")


def boxes(x: float, y: float, width: float) -> Iterator[Box]:
    """Places of a name: right of its dot, then left, each beside, below and above; then farther away."""
    for away in (1, 2):
        for left in (x + AWAY_PX, x - AWAY_PX - width):
            for down in (0.0, LINE_PX * away, -LINE_PX * away):
                top = y + down - LINE_PX / 2
                yield Box(left, top, left + width, top + LINE_PX)
