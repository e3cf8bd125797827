"""What choices cost as bars from zero: the answer in the parts that it is made of, others whole, in light, dark, print.

Drawn twice: for a page, where it also stands alone, and for a page as narrow as a phone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpufleet.records import dataclass
from gpufleet.report.numbers import usd_per_hour
from gpufleet.report.page import Picture
from gpufleet.report.palette import themed
from gpufleet.report.svg import svg_document, written

LETTER_PX, ROW_PX, BAR_PX, TOP_PX, GAP_PX, AIR_PX = 7.2, 44, 18, 34, 2, 8
STYLE = f"""
{themed(".costs", ("page", "ink", "soft", "grid", "line"))}.costs{{font:13px system-ui,sans-serif}}
.costs .page{{fill:var(--page)}}.costs text{{fill:var(--ink)}}.costs .soft{{fill:var(--soft)}}
.costs .head{{font-weight:600;font-size:15px}}.costs .own{{fill:var(--line)}}.costs .other{{fill:var(--grid)}}
.costs .mark{{fill:var(--page);text-anchor:middle;font-weight:600}}
"""


@dataclass(frozen=True)
class CostBar:
    """A choice and what it costs an hour; `parts` are those of the answer, each with its mark."""

    name: str
    usd_per_hour: float
    parts: Sequence[tuple[str, float]] = ()


def cost_bars(title: str, bars: Sequence[CostBar]) -> Picture:
    """The bars for a page and for a phone, the cheapest first as they are given."""
    return Picture(*(svg_of(title, bars, width) for width in (860, 360)))


def svg_of(title: str, bars: Sequence[CostBar], width: int) -> str:
    """One picture that also stands alone."""
    room = width - 2 * AIR_PX - LETTER_PX * max(len(usd_per_hour(bar.usd_per_hour)) + 1 for bar in bars)
    scale = room / max(bar.usd_per_hour for bar in bars)
    drawn = [part for at, bar in enumerate(bars) for part in bar_of(bar, TOP_PX + at * ROW_PX, scale)]
    height = TOP_PX + len(bars) * ROW_PX + AIR_PX
    return svg_document("costs", width, height, title, STYLE, [written(AIR_PX, 20, title, "head"), *drawn])


def bar_of(bar: CostBar, top: float, scale: float) -> Iterator[str]:
    """The name above, the bar in its parts, its cost at its end."""
    yield written(AIR_PX, top + 14, bar.name, "soft")
    left, y = float(AIR_PX), top + 20
    for mark, usd_hourly in bar.parts or (("", bar.usd_per_hour),):
        width = max(usd_hourly * scale - GAP_PX * bool(mark), 1.0)
        look = "own" if bar.parts else "other"
        yield f'<rect class="{look}" x="{left:.1f}" y="{y:.1f}" width="{width:.1f}" height="{BAR_PX}" rx="2"/>'
        if len(mark) * LETTER_PX + GAP_PX < width:
            yield written(left + width / 2, y + 14, mark, "mark") if mark else ""
        left += usd_hourly * scale
    yield written(left + 5, y + 14, usd_per_hour(bar.usd_per_hour))
