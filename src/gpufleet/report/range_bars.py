"""A range against its limit as a bar: as wide as its cell, in SVG, for a page of HTML."""

from __future__ import annotations

from collections.abc import Sequence

from gpufleet.records import dataclass
from gpufleet.report.markup import marked_up
from gpufleet.report.numbers import duration, ranged_duration
from gpufleet.units import PERCENT

HEIGHT_PX, BAR_TOP_PX, BAR_PX = 22, 6, 10
LEAST_ROOM, AIR = 1.15, 1.05
HEADER = "range (bar), expected (mark), limit (line)"


@dataclass(frozen=True)
class LimitedRange:
    """A figure with its range, and the limit that it should keep."""

    name: str
    expected_s: float
    low_s: float
    high_s: float
    limit_s: float

    @property
    def words(self) -> str:
        """What the bar shows, for those who do not see it."""
        return f"{self.name}: {ranged_duration(self.expected_s, self.low_s, self.high_s)}, limit {self.limit_words}"

    @property
    def limit_words(self) -> str:
        """The limit, and whether the range keeps it."""
        return f"{duration(self.limit_s)}, {'broken at the high end' if self.high_s > self.limit_s else 'kept'}"


def range_bars(ranges: Sequence[LimitedRange | None]) -> list[str]:
    """A bar for each range, all as shares of their limits on one scale; nothing where there is no limit."""
    room = max((r.high_s / r.limit_s for r in ranges if r is not None), default=LEAST_ROOM)
    widest = max(room * AIR, LEAST_ROOM)
    return ["" if r is None else bar_svg(r, widest) for r in ranges]


def bar_svg(r: LimitedRange, widest: float) -> str:
    """Low to high as a bar, its part above the limit in another colour, with a mark where the value is expected."""
    shares = [s / r.limit_s / widest for s in (r.low_s, r.expected_s, r.high_s, r.limit_s)]
    return drawn_bar(r.words, *shares)


def drawn_bar(words: str, low_share: float, expected_share: float, high_share: float, limit_share: float) -> str:
    """A bar between shares of the width, with what it shows in words."""
    low, expected, high, limit = map(at, (low_share, expected_share, high_share, limit_share))
    parts = [
        f'<rect class="room" x="0" y="{BAR_TOP_PX + BAR_PX / 2 - 1:g}" width="100%" height="2"/>',
        piece("kept", low, min(high, limit)),
        piece("over", max(low, limit), high),
        f'<rect class="mark" x="{expected:.2f}%" y="2" width="3" height="{HEIGHT_PX - 4}"/>',
        f'<rect class="limit" x="{limit:.2f}%" y="0" width="2" height="{HEIGHT_PX}"/>',
    ]
    title = f"<title>{marked_up(words)}</title>"
    return f'<svg class="bar" role="img" width="100%" height="{HEIGHT_PX}">{title}{"".join(parts)}</svg>'


def piece(look: str, begin: float, end: float) -> str:
    """A part of the bar; nothing where it would end before it begins."""
    if end <= begin:
        return ""
    at_y = f'y="{BAR_TOP_PX}" height="{BAR_PX}"'
    return f'<rect class="{look}" x="{begin:.2f}%" width="{end - begin:.2f}%" {at_y}/>'


def at(share: float) -> float:
    """A share of the width in percent.

    >>> at(0.5), at(7.0)
    (50.0, 100.0)
    """
    return min(share, 1.0) * PERCENT
