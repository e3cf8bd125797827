"""A replay as a picture: what ran and waited over time, the KV cache, and how latencies are spread.

Drawn twice: for a page, where it also stands alone, and for a page as narrow as a phone. Lines are told apart by
their names, which stand at them, and by their dashes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from gpufleet.records import dataclass
from gpufleet.report.axes import LinearAxis, LogAxis, round_steps, ticks, time_ticks
from gpufleet.report.markup import marked_up
from gpufleet.report.numbers import amount, duration, percent
from gpufleet.report.page import Picture
from gpufleet.report.palette import themed
from gpufleet.report.svg import svg_document, written
from gpufleet.results.simulation import Simulation
from gpufleet.units import MICROSECOND

METRIC_LOOKS = {"ttft": ("TTFT", "first"), "tpot": ("TPOT", "second"), "latency": ("latency", "third")}
LETTER_PX, HEAD_LETTER_PX, LEAST_S, AIR = 7.2, 9.0, MICROSECOND, 1.15
STYLE = f"""
{themed(".replay", ("page", "ink", "soft", "grid", "line", "over"))}.replay{{font:13px system-ui,sans-serif}}
.replay .page{{fill:var(--page)}}.replay text{{fill:var(--ink)}}.replay .soft{{fill:var(--soft)}}
.replay .head{{font-weight:600;font-size:15px}}.replay .grid{{stroke:var(--grid);fill:none}}
.replay .first,.replay .second,.replay .third{{fill:none;stroke-width:2;stroke-linejoin:round}}
.replay .first{{stroke:var(--line)}}.replay .second{{stroke:var(--over);stroke-dasharray:7 3}}
.replay .third{{stroke:var(--ink);stroke-dasharray:2 3}}
.replay .key{{paint-order:stroke;stroke:var(--page);stroke-width:4px;stroke-linejoin:round}}
.replay .end{{text-anchor:end}}.replay .mid{{text-anchor:middle}}
"""
Line = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Canvas:
    """Sizes in pixels: of the whole width, the margins, and the height of one panel."""

    width: int
    left: int
    right: int
    panel: int
    most_ticks: int

    @property
    def plot_width(self) -> int:
        """Between the margins."""
        return self.width - self.left - self.right


@dataclass(frozen=True)
class Curve:
    """A line on a panel, as shares of both axes, its name and its look."""

    name: str
    look: str
    points: Line
    hint: str


@dataclass(frozen=True)
class Panel:
    """A title, ticks of both axes (share of the axis, words), and curves."""

    title: str
    across: Sequence[tuple[float, str]]
    upwards: Sequence[tuple[float, str]]
    curves: Sequence[Curve]


WIDE, NARROW = Canvas(860, 64, 24, 132, 8), Canvas(360, 46, 14, 110, 4)
HEAD_PX, PANEL_HEAD_PX, AXIS_PX = 36, 26, 34


def simulation_picture(result: Simulation, title: str) -> Picture | None:
    """All panels that have something to show, for a page and for a phone; nothing where there is nothing."""
    drawn = [simulation_svg(result, title, canvas) for canvas in (WIDE, NARROW)]
    return Picture(*drawn) if all(drawn) else None


def simulation_svg(result: Simulation, title: str, canvas: Canvas = WIDE) -> str:
    """One picture that also stands alone, its title as long as it has room; empty where there is nothing to draw."""
    panels = [*over_time(result, canvas), *spread(result, canvas)]
    if not panels:
        return ""
    room, panel_px = int(canvas.plot_width / HEAD_LETTER_PX), PANEL_HEAD_PX + canvas.panel + AXIS_PX
    parts = [written(canvas.left, 22, title if len(title) <= room else f"{title[: room - 1]}…", "head")]
    for index, panel in enumerate(panels):
        parts += panel_parts(panel, canvas, HEAD_PX + index * panel_px + PANEL_HEAD_PX)
    return svg_document("replay", canvas.width, HEAD_PX + len(panels) * panel_px, title, STYLE, parts)


def over_time(result: Simulation, canvas: Canvas) -> Iterator[Panel]:
    """Requests that run and wait, and the KV cache in use."""
    t = result.timeline
    if len(t.time_s) < 2 or not t.time_s[-1] > 0:
        return
    moments, show = time_ticks(t.time_s[-1], canvas.most_ticks)
    axis = LinearAxis(t.time_s[-1])
    across = [(axis.position(tick), show(tick)) for tick in moments]
    counts = LinearAxis(max(1, *t.running, *t.waiting))
    levels = [(counts.position(tick), amount(tick)) for tick in round_steps(counts.high, 4)]
    curves = [
        Curve("running", "first", points(axis, t.time_s, counts, t.running), f"at most {max(t.running):,}"),
        Curve("waiting", "second", points(axis, t.time_s, counts, t.waiting), f"at most {max(t.waiting):,}"),
    ]
    yield Panel("Requests that run and wait", across, levels, curves)
    whole = LinearAxis(1.0)
    kv = Curve(
        "KV", "first", points(axis, t.time_s, whole, t.kv_used_ratio), f"at most {percent(max(t.kv_used_ratio))}"
    )
    yield Panel("KV cache in use", across, [(share, percent(share)) for share in (0.0, 0.5, 1.0)], [kv])


def points(across: LinearAxis, xs: Sequence[float], upwards: LinearAxis, ys: Sequence[float]) -> Line:
    """A line as shares of both axes."""
    return [(across.position(x), upwards.position(y)) for x, y in zip(xs, ys, strict=True)]


def spread(result: Simulation, canvas: Canvas) -> Iterator[Panel]:
    """The share of requests below each time, for every metric; times are on a logarithmic axis."""
    known = [(d, [max(s, LEAST_S) for s in d.seconds]) for d in result.distributions if d.metric in METRIC_LOOKS]
    if not known:
        return
    axis = LogAxis(min(s[0] for _, s in known) / AIR, max(s[-1] for _, s in known) * AIR)
    across = [(axis.position(tick), duration(tick)) for tick in ticks(axis, canvas.most_ticks)]
    curves = []
    for found, seconds in known:
        name, look = METRIC_LOOKS[found.metric]
        line = [(axis.position(s), share) for s, share in zip(seconds, found.shares, strict=True)]
        curves.append(Curve(name, look, line, f"half below {duration(seconds[len(seconds) // 2 - 1])}"))
    yield Panel("Share of requests below a time (log)", across, [(s, percent(s)) for s in (0.0, 0.5, 1.0)], curves)


def panel_parts(panel: Panel, canvas: Canvas, top: float) -> Iterator[str]:
    """Title with the names of its curves, grid and curves."""
    yield written(canvas.left, top - 8, panel.title)
    yield from grid(panel, canvas, top)
    for curve in panel.curves:
        path = "L".join(
            f"{canvas.left + x * canvas.plot_width:.1f} {bottom_of(canvas, top, y):.1f}" for x, y in curve.points
        )
        hint = marked_up(f"{curve.name}: {curve.hint}")
        yield f'<path class="{curve.look}" d="M{path}"><title>{hint}</title></path>'
    if len(panel.curves) > 1:
        yield from key(panel, canvas, top)


def bottom_of(canvas: Canvas, top: float, share: float) -> float:
    """Pixels from the top of a share of the height."""
    return top + (1 - share) * canvas.panel


def key(panel: Panel, canvas: Canvas, top: float) -> Iterator[str]:
    """A piece of each line and its name: on the title's line, or in the panel of a phone."""
    is_wide = canvas is WIDE
    at = canvas.left + canvas.plot_width - sum(key_width(c) for c in panel.curves) if is_wide else canvas.left + 6.0
    y = top - 8 if is_wide else top + 14
    for curve in panel.curves:
        yield f'<path class="{curve.look}" d="M{at:.1f} {y - 4:.1f}h24"/>'
        yield written(at + 30, y, curve.name, "soft key")
        at += key_width(curve)


def key_width(curve: Curve) -> float:
    """Pixels of a name with its piece of line."""
    return 30 + len(curve.name) * LETTER_PX + 16


def grid(panel: Panel, canvas: Canvas, top: float) -> Iterator[str]:
    """Ticks of both axes; words below that would touch are left out."""
    bottom, free_from = top + canvas.panel, -math.inf
    for share, words in panel.across:
        x, half = canvas.left + share * canvas.plot_width, len(words) * LETTER_PX / 2
        yield f'<path class="grid" d="M{x:.1f} {top:.1f}V{bottom:.1f}"/>'
        if x - half >= free_from and x + half <= canvas.width:
            yield written(x, bottom + 17, words, "soft mid")
            free_from = x + half + 6
    for share, words in panel.upwards:
        y = bottom_of(canvas, top, share)
        yield f'<path class="grid" d="M{canvas.left} {y:.1f}h{canvas.plot_width}"/>'
        yield written(canvas.left - 7, y + 4, words, "soft end")
