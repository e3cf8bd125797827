"""What keeps jobs from being scheduled at all, and the least that has to change."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from gpufleet.domain.reason import Reason
from gpufleet.domain.schedule import Pool, ScheduledJob, Way
from gpufleet.optimize.schedule.at_once import edf_schedule, thrifty_schedule
from gpufleet.optimize.schedule.grid import MILLI_USD, NEVER, Grid

Relaxation = tuple[Reason, Reason]
"""Why not, and what to change."""


def circle_of(jobs: Sequence[ScheduledJob]) -> list[str]:
    """Jobs that wait for each other in a circle; none where there is no circle.

    >>> from gpufleet.domain.schedule import ScheduledJob
    >>> circle_of([ScheduledJob("a", (), after=("b",)), ScheduledJob("b", (), after=("a",)), ScheduledJob("c", ())])
    ['a', 'b']
    """
    waits = {job.name: set(job.after) for job in jobs}
    while done := {name for name, others in waits.items() if not others}:
        waits = {name: others - done for name, others in waits.items() if name not in done}
    if not waits:
        return []
    path = [min(waits)]
    while path.count(path[-1]) == 1:
        path.append(min(waits[path[-1]] & waits.keys()))
    circle = path[path.index(path[-1]) : -1]
    first = circle.index(min(circle))
    return [*circle[first:], *circle[:first]]


def circle_relaxation(circle: Sequence[str]) -> Relaxation:
    """A circle, and the dependency without which it is none."""
    shown = " after ".join([*circle[:4], *(["..."] if len(circle) > 4 else []), circle[0]])
    return Reason.of("schedule_circle", jobs=shown), Reason.of("schedule_cut", job=circle[0], after=circle[1])


def relaxations_of(grid: Grid) -> list[Relaxation]:
    """What has to change before every job can run; none where all can."""
    found = [least_change(grid, number) for number in range(len(grid.jobs)) if not grid.possible[number]]
    if found:
        return merged(found)
    return budget_relaxation(grid)


def merged(found: Iterable[Relaxation]) -> list[Relaxation]:
    """Changes of one pool, of which the largest is enough for all."""
    largest: dict[tuple[str, object], Relaxation] = {}
    for why, change in found:
        figures = dict(change.figures)
        key = (change.code, figures.get("pool") or figures.get("job"))
        known = largest.get(key)
        if known is None or size_of(change) > size_of(known[1]):
            largest[key] = (why, change)
    return list(largest.values())


def size_of(change: Reason) -> float:
    """How large a change is."""
    return float(next((value for name, value in change.figures if name in ("gpus", "watts")), None) or 0.0)


def least_change(grid: Grid, number: int) -> Relaxation:
    """For a job that none of its ways can run: that of the ways that misses by least."""
    job = grid.asked[number]
    pools = {pool.name: pool for pool in grid.pools}
    misses = [miss_of(job, way, pools[way.pool]) for way in job.ways]
    return min(misses, key=lambda miss: miss[0])[1]


def miss_of(job: ScheduledJob, way: Way, pool: Pool) -> tuple[float, Relaxation]:
    """By how much a way misses, as a share of what the pool has, and the change that it needs."""
    needed = math.ceil(way.gpus)
    each = pool.watts if way.watts_per_gpu is None else way.watts_per_gpu
    if needed > pool.gpus:
        why = Reason.of("schedule_gang", job=job.name, gpus=needed, pool=pool.name, has=pool.gpus)
        return needed / pool.gpus, (why, Reason.of("schedule_more_gpus", pool=pool.name, gpus=needed, has=pool.gpus))
    if each * way.gpus > pool.power_cap_watts:
        draws = math.ceil(each * way.gpus)
        why = Reason.of("schedule_power", job=job.name, draws_watts=draws, pool=pool.name, watts=pool.power_cap_watts)
        change = Reason.of("schedule_more_power", pool=pool.name, watts=draws)
        return draws / pool.power_cap_watts, (why, change)
    why = Reason.of("schedule_not_on_spot", job=job.name, pool=pool.name)
    return 1.0, (why, Reason.of("schedule_preemptible", job=job.name))


def budget_relaxation(grid: Grid) -> list[Relaxation]:
    """Too small a budget for the jobs that have to rent, and one that is enough."""
    if grid.budget_milli_usd >= NEVER or not grid.has_rent or edf_schedule(grid) is not None:
        return []
    free = Grid(grid.pools, grid.asked, grid.slot_s)
    rents = [free.rent_of(j, p) for j, p in enumerate(thrifty_schedule(free) or [])]
    why = Reason.of("schedule_budget", jobs=sum(rent > 0 for rent in rents), usd=grid.budget_usd)
    return [(why, Reason.of("schedule_more_budget", usd=sum(rents) / MILLI_USD))]
