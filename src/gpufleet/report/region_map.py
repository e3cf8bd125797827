"""Regions and users on a map: an equirectangular one, with lines from users to the regions that serve them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from gpufleet.report.markup import marked_up
from gpufleet.results.regions import RegionPlan, RegionRow, UserPlace

WIDTH, HEIGHT, MARGIN = 720, 380, 18
SOUTH, NORTH = -50.0, 72.0
GRID_DEGREES, HALF_TURN = 30, 180
CHOSEN, LETTER, LINE, STEPS = 6.0, 6.4, 14.0, 8
Point = tuple[float, float]


class Box(NamedTuple):
    """A rectangle of the map."""

    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: Box) -> bool:
        """Whether two have a point in common."""
        across = self.left < other.right and other.left < self.right
        return across and self.top < other.bottom and other.top < self.bottom


def region_map(plan: RegionPlan) -> str:
    """Regions of services, and their users: an SVG element; empty where no place is known."""
    return drawn_map(plan.regions, "Regions that were looked at, those chosen, and users", plan.users, lines(plan))


def drawn_map(
    regions: Sequence[RegionRow], title: str, users: Sequence[UserPlace] = (), ways: Sequence[str] = ()
) -> str:
    """Regions on a map, with users and the ways between both; empty where no place is known."""
    places = [r for r in regions if r.latitude_degrees is not None and r.longitude_degrees is not None]
    if not places:
        return ""
    order = sorted(places, key=lambda r: r.is_chosen)
    parts = [*graticule(), *ways, *map(dot, order), *map(person, users), *labels(users, order)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{title}" class="region-map" font-size="11">{"".join(parts)}</svg>'
    )


def x_of(longitude_degrees: float) -> float:
    """Where a longitude lies."""
    return MARGIN + (longitude_degrees + HALF_TURN) / (2 * HALF_TURN) * (WIDTH - 2 * MARGIN)


def y_of(latitude_degrees: float) -> float:
    """Where a latitude lies; what is farther south or north is at the edge."""
    bounded = min(max(latitude_degrees, SOUTH), NORTH)
    return MARGIN + (NORTH - bounded) / (NORTH - SOUTH) * (HEIGHT - 2 * MARGIN)


def graticule() -> list[str]:
    """Lines of 30 degrees, with their numbers."""
    style = 'stroke="currentColor" stroke-opacity="0.15"'
    upright = [
        f'<line x1="{x_of(d):.1f}" y1="{y_of(NORTH):.1f}" x2="{x_of(d):.1f}" y2="{y_of(SOUTH):.1f}" {style}/>'
        for d in range(-HALF_TURN, HALF_TURN + 1, GRID_DEGREES)
    ]
    level = [
        f'<line x1="{x_of(-HALF_TURN):.1f}" y1="{y_of(d):.1f}" x2="{x_of(HALF_TURN):.1f}" y2="{y_of(d):.1f}" {style}/>'
        f'<text x="{x_of(-HALF_TURN):.1f}" y="{y_of(d) - 2:.1f}" fill="currentColor" fill-opacity="0.45">{d}</text>'
        for d in range(-GRID_DEGREES, 2 * GRID_DEGREES + 1, GRID_DEGREES)
    ]
    return [*upright, *level]


def dot(r: RegionRow) -> str:
    """A region: filled where it is chosen, a ring where it could serve, a faint point where not."""
    x, y = x_of(r.longitude_degrees or 0.0), y_of(r.latitude_degrees or 0.0)
    told = f"<title>{marked_up(f'{r.cloud} {r.region}, {r.place}')}</title>"
    if r.is_chosen:
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{CHOSEN}" fill="#0a7d4f">{told}</circle>'
    if r.why_not is None:
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="none" stroke="#0a7d4f">{told}</circle>'
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2" fill="currentColor" fill-opacity="0.35">{told}</circle>'


def lines(plan: RegionPlan) -> list[str]:
    """From users to the regions that serve them."""
    where = {(r.cloud, r.region): r for r in plan.regions}
    ends = {(a.users, (c.cloud, c.region)) for a in plan.at_users for c in [plan.copies[a.copies].deployment]}
    drawn = []
    for users, key in sorted(ends):
        user, region = plan.users[users], where[key]
        if region.latitude_degrees is not None and region.longitude_degrees is not None:
            here = (user.longitude_degrees, user.latitude_degrees)
            drawn.extend(shortest(here, (region.longitude_degrees, region.latitude_degrees)))
    return drawn


def shortest(here: Point, there: Point) -> list[str]:
    """A line the shorter way round, each a longitude and a latitude: over the edge it is drawn from both sides."""
    turn = there[0] - here[0]
    if abs(turn) <= HALF_TURN:
        return [line(here, there)]
    whole = math.copysign(2 * HALF_TURN, turn)
    return [line(here, (there[0] - whole, there[1])), line((here[0] + whole, here[1]), there)]


def line(here: Point, there: Point) -> str:
    """One line between two places."""
    return (
        f'<line x1="{x_of(here[0]):.1f}" y1="{y_of(here[1]):.1f}" x2="{x_of(there[0]):.1f}" y2="{y_of(there[1]):.1f}" '
        'stroke="#b3541e" stroke-width="1.5" stroke-opacity="0.7"/>'
    )


def person(user: UserPlace) -> str:
    """Users: a square as large as their share."""
    x, y, half = x_of(user.longitude_degrees), y_of(user.latitude_degrees), half_of(user)
    return (
        f'<rect x="{x - half:.1f}" y="{y - half:.1f}" width="{2 * half:.1f}" height="{2 * half:.1f}" '
        'fill="#b3541e" fill-opacity="0.75"/>'
    )


def half_of(user: UserPlace) -> float:
    """Half the side of the square of users."""
    return 4 + 6 * user.share_ratio


def labels(users: Sequence[UserPlace], regions: Sequence[RegionRow]) -> list[str]:
    """Names of users and of chosen regions, each beside its mark where no other name is yet."""
    marks = [
        (x_of(u.longitude_degrees), y_of(u.latitude_degrees), half_of(u), f"{u.name} {u.share_ratio:.0%}")
        for u in users
    ]
    marks += [
        (x_of(r.longitude_degrees or 0.0), y_of(r.latitude_degrees or 0.0), CHOSEN, f"{r.cloud} {r.region}")
        for r in regions
        if r.is_chosen
    ]
    taken = [Box(x - size, y - size, x + size, y + size) for x, y, size, _ in marks]
    drawn = []
    for x, y, size, words in marks:
        box = free_box(x, y, size, LETTER * len(words), taken)
        taken.append(box)
        drawn.append(label(box, words))
    return drawn


def free_box(x: float, y: float, size: float, width: float, taken: Sequence[Box]) -> Box:
    """Room for a name beside a mark: right, left, above or below, ever farther, where nothing is."""
    places = [
        Box(left, top, left + width, top + LINE)
        for step in range(STEPS)
        for top in (y - LINE / 2 + step * LINE, y - LINE / 2 - step * LINE)
        for left in (x + size + 3, x - size - 3 - width, x - width / 2)
    ]
    inside = [b for b in places if b.left >= 0 and b.right <= WIDTH and b.top >= 0 and b.bottom <= HEIGHT]
    return next((b for b in inside if not any(b.meets(other) for other in taken)), (inside or places)[0])


def label(box: Box, words: str) -> str:
    """A name in its room, with a rim that parts it from lines."""
    return (
        f'<text x="{box.left:.1f}" y="{box.bottom - 3:.1f}" fill="currentColor" stroke="Canvas" stroke-width="3" '
        f'paint-order="stroke">{marked_up(words)}</text>'
    )
