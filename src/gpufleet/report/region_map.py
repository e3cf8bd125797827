"""Regions and users on a map: an equirectangular one, with lines from users to the regions that serve them."""

from __future__ import annotations

from html import escape

from gpufleet.results.regions import RegionChoiceRow, RegionPlan

WIDTH, HEIGHT, MARGIN = 720, 380, 18
SOUTH, NORTH = -50.0, 72.0
GRID_DEGREES, HALF_TURN = 30, 180


def region_map(plan: RegionPlan) -> str:
    """An SVG element; empty where no place is known."""
    places = [r for r in plan.regions if r.latitude_degrees is not None and r.longitude_degrees is not None]
    if not places:
        return ""
    order = sorted(places, key=lambda r: r.is_chosen)
    parts = [*graticule(), *lines(plan), *(dot(r) for r in order), *(person(plan, at) for at in range(len(plan.users)))]
    title = "Regions that were looked at, those chosen, and users"
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


def dot(r: RegionChoiceRow) -> str:
    """A region: filled where it is chosen, a ring where it could serve, a faint point where not."""
    x, y = x_of(r.longitude_degrees or 0.0), y_of(r.latitude_degrees or 0.0)
    told = f"<title>{escape(f'{r.cloud} {r.region}, {r.place}')}</title>"
    if r.is_chosen:
        name = f'<text x="{x + 8:.1f}" y="{y + 4:.1f}" fill="currentColor">{escape(f"{r.cloud} {r.region}")}</text>'
        return f'<g>{told}<circle cx="{x:.1f}" cy="{y:.1f}" r="6" fill="#0a7d4f"/>{name}</g>'
    if r.usd_per_hour_alone is not None:
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
            drawn.append(
                f'<line x1="{x_of(user.longitude_degrees):.1f}" y1="{y_of(user.latitude_degrees):.1f}" '
                f'x2="{x_of(region.longitude_degrees):.1f}" y2="{y_of(region.latitude_degrees):.1f}" '
                'stroke="#b3541e" stroke-width="1.5" stroke-opacity="0.8"/>'
            )
    return drawn


def person(plan: RegionPlan, at: int) -> str:
    """Users: a square as large as their share."""
    user = plan.users[at]
    x, y, half = x_of(user.longitude_degrees), y_of(user.latitude_degrees), 4 + 6 * user.share_ratio
    name = escape(f"{user.name} {user.share_ratio:.0%}")
    return (
        f'<rect x="{x - half:.1f}" y="{y - half:.1f}" width="{2 * half:.1f}" height="{2 * half:.1f}" '
        f'fill="#b3541e" fill-opacity="0.75"/><text x="{x:.1f}" y="{y - half - 3:.1f}" text-anchor="middle" '
        f'fill="currentColor">{name}</text>'
    )
