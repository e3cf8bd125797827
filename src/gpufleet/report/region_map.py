"""Regions and users on a map: an equirectangular one, with lines from users to the regions that serve them.

Drawn twice: for a page, where it also stands alone, and for a page as narrow as a phone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from gpufleet.records import dataclass
from gpufleet.report.markup import marked_up
from gpufleet.report.page import Picture
from gpufleet.report.svg import Box
from gpufleet.results.regions import RegionPlan, RegionRow, UserPlace

MARGIN, TOP = 18, 44
SOUTH, NORTH = -50.0, 72.0
GRID_DEGREES, HALF_TURN = 30, 180
CHOSEN, RING, LETTER, LINE, STEPS, PIECES = 6.0, 3.5, 6.8, 14.0, 16, 100
WAY = 'class="way" stroke="#b3541e" stroke-width="1.5" stroke-opacity="0.7"'
RING_KEY, USERS_KEY = "ring: could serve, grey: cannot", "square: users"
Point = tuple[float, float]


@dataclass(frozen=True)
class Frame:
    """A map of a size in pixels."""

    width: int
    height: int

    def x(self, longitude_degrees: float) -> float:
        """Where a longitude lies."""
        return MARGIN + (longitude_degrees + HALF_TURN) / (2 * HALF_TURN) * (self.width - 2 * MARGIN)

    def y(self, latitude_degrees: float) -> float:
        """Where a latitude lies; what is farther south or north is at the edge."""
        bounded = min(max(latitude_degrees, SOUTH), NORTH)
        return TOP + (NORTH - bounded) / (NORTH - SOUTH) * (self.height - TOP - MARGIN)


WIDE, NARROW = Frame(720, 400), Frame(360, 260)
Way = tuple[Point, Point]


def region_map(plan: RegionPlan) -> Picture | None:
    """Regions of services, and their users; nothing where no place is known."""
    who = "users and the regions that serve them" if plan.users else "the regions that serve"
    return drawn_map(plan.regions, f"Where it runs: {who}", plan.users, ways_of(plan))


def drawn_map(
    regions: Sequence[RegionRow], title: str, users: Sequence[UserPlace] = (), ways: Sequence[Way] = ()
) -> Picture | None:
    """Regions on a map, with users and the ways between both; nothing where no place is known."""
    places = [r for r in regions if r.latitude_degrees is not None and r.longitude_degrees is not None]
    if not places:
        return None
    order = sorted(places, key=lambda r: r.is_chosen)
    return Picture(*(svg_of(frame, order, title, users, ways) for frame in (WIDE, NARROW)))


def svg_of(
    frame: Frame, regions: Sequence[RegionRow], title: str, users: Sequence[UserPlace], ways: Sequence[Way]
) -> str:
    """One picture that also stands alone."""
    key = "; ".join([RING_KEY, *([USERS_KEY] if users else [])])
    heads = [
        f'<text x="{MARGIN}" y="16" fill="currentColor" class="head" font-size="13" font-weight="600">'
        f"{marked_up(title if frame is WIDE else title.partition(':')[0])}</text>",
        f'<text x="{MARGIN}" y="32" fill="currentColor" fill-opacity="0.7">{key}</text>',
    ]
    drawn = [straight(frame, here, there, WAY) for here, there in ways]
    dots, persons = [dot(frame, r) for r in regions], [person(frame, user) for user in users]
    parts = [*heads, *graticule(frame), *drawn, *dots, *persons, *labels(frame, users, regions, ways)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {frame.width} {frame.height}" role="img" '
        f'aria-label="{marked_up(title)}" class="region-map" font-family="system-ui,sans-serif" font-size="11">'
        f"{''.join(parts)}</svg>"
    )


def graticule(frame: Frame) -> list[str]:
    """Lines of 30 degrees, with their numbers."""
    style, (west, east) = 'stroke="currentColor" stroke-opacity="0.15"', (-HALF_TURN, HALF_TURN)
    upright = [straight(frame, (d, NORTH), (d, SOUTH), style) for d in range(west, east + 1, GRID_DEGREES)]
    level = [
        f"{straight(frame, (west, d), (east, d), style)}"
        f'<text x="{frame.x(west):.1f}" y="{frame.y(d) - 2:.1f}" fill="currentColor" fill-opacity="0.45">{d}</text>'
        for d in range(-GRID_DEGREES, 2 * GRID_DEGREES + 1, GRID_DEGREES)
    ]
    return [*upright, *level]


def straight(frame: Frame, here: Point, there: Point, style: str) -> str:
    """One line between two places, each a longitude and a latitude."""
    ends = f'x1="{frame.x(here[0]):.1f}" y1="{frame.y(here[1]):.1f}" x2="{frame.x(there[0]):.1f}"'
    return f'<line {ends} y2="{frame.y(there[1]):.1f}" {style}/>'


def dot(frame: Frame, r: RegionRow) -> str:
    """A region: filled where it is chosen, a ring where it could serve, a faint point where not."""
    x, y = frame.x(r.longitude_degrees or 0.0), frame.y(r.latitude_degrees or 0.0)
    told = f"<title>{marked_up(f'{r.cloud} {r.region}, {r.place}')}</title>"
    if r.is_chosen:
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{CHOSEN}" fill="#0a7d4f">{told}</circle>'
    if r.why_not is None:
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{RING}" fill="none" stroke="#0a7d4f">{told}</circle>'
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2" fill="currentColor" fill-opacity="0.35">{told}</circle>'


def ways_of(plan: RegionPlan) -> list[Way]:
    """From users to the regions that serve them."""
    where = {(r.cloud, r.region): r for r in plan.regions}
    ends = {(a.users, (c.cloud, c.region)) for a in plan.at_users for c in [plan.copies[a.copies].deployment]}
    found = []
    for users, key in sorted(ends):
        user, region = plan.users[users], where[key]
        if region.latitude_degrees is not None and region.longitude_degrees is not None:
            here = (user.longitude_degrees, user.latitude_degrees)
            found.extend(shortest(here, (region.longitude_degrees, region.latitude_degrees)))
    return found


def shortest(here: Point, there: Point) -> list[Way]:
    """A line the shorter way round, each a longitude and a latitude: over the edge it is drawn from both sides."""
    turn = there[0] - here[0]
    if abs(turn) <= HALF_TURN:
        return [(here, there)]
    whole = math.copysign(2 * HALF_TURN, turn)
    return [(here, (there[0] - whole, there[1])), ((here[0] + whole, here[1]), there)]


def person(frame: Frame, user: UserPlace) -> str:
    """Users: a square as large as their share."""
    x, y, half = frame.x(user.longitude_degrees), frame.y(user.latitude_degrees), half_of(user)
    return (
        f'<rect x="{x - half:.1f}" y="{y - half:.1f}" width="{2 * half:.1f}" height="{2 * half:.1f}" '
        'fill="#b3541e" fill-opacity="0.75"/>'
    )


def half_of(user: UserPlace) -> float:
    """Half the side of the square of users."""
    return 4 + 6 * user.share_ratio


def labels(frame: Frame, users: Sequence[UserPlace], regions: Sequence[RegionRow], ways: Sequence[Way]) -> list[str]:
    """Names of users and of chosen regions, each beside its mark where no other name is yet."""
    marks = [
        (frame.x(u.longitude_degrees), frame.y(u.latitude_degrees), half_of(u), f"{u.name} {u.share_ratio:.0%}")
        for u in users
    ]
    marks += [
        (frame.x(r.longitude_degrees or 0.0), frame.y(r.latitude_degrees or 0.0), CHOSEN, f"{r.cloud} {r.region}")
        for r in regions
        if r.is_chosen
    ]
    rings = [(frame.x(r.longitude_degrees or 0.0), frame.y(r.latitude_degrees or 0.0)) for r in regions]
    taken = [Box.around(x, y, size) for x, y, size, _ in marks]
    crowded = [*taken, *(Box.around(x, y, RING) for x, y in rings)]
    crowded += [box for way in ways for box in along(frame, way)]
    drawn = []
    for x, y, size, words in marks:
        width = LETTER * len(words)
        box = free_box(frame, x, y, size, width, crowded, taken)
        taken.append(box)
        crowded.append(box)
        drawn.append(label(box, words))
    return drawn


def along(frame: Frame, way: Way) -> list[Box]:
    """What a line covers, piece by piece."""
    (x, y), (end_x, end_y) = ((frame.x(at[0]), frame.y(at[1])) for at in way)
    shares = [piece / PIECES for piece in range(PIECES + 1)]
    places = [(x + share * (end_x - x), y + share * (end_y - y)) for share in shares]
    return [Box.around(left, top, 2) for left, top in places]


def free_box(
    frame: Frame, x: float, y: float, size: float, width: float, taken: Sequence[Box], at_least: Sequence[Box] = ()
) -> Box:
    """Room for a name beside a mark: right, left, above or below, ever farther, where nothing is.

    Where all is taken it lies on what is taken, but not on what is to be kept free `at_least`.
    """
    near = (x + size + 3, x - size - 3 - width, x - width / 2)
    far = (x + size + 6 + width, x - size - 6 - 2 * width)
    places = [
        Box(left, top, left + width, top + LINE)
        for lefts in (near, far)
        for step in range(STEPS)
        for top in (y - LINE / 2 + step * LINE, y - LINE / 2 - step * LINE)
        for left in lefts
    ]
    inside = [b for b in places if b.left >= 0 and b.right <= frame.width and b.top >= TOP and b.bottom <= frame.height]
    free = (b for kept in (taken, at_least) for b in inside if not any(b.meets(other) for other in kept))
    return next(free, (inside or places)[0])


def label(box: Box, words: str) -> str:
    """A name in its room, with a rim that parts it from lines."""
    return (
        f'<text x="{box.left:.1f}" y="{box.bottom - 3:.1f}" fill="currentColor" stroke="Canvas" stroke-width="3" '
        f'paint-order="stroke">{marked_up(words)}</text>'
    )
