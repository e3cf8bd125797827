"""Schedules at once: earliest deadline first, each job in the first hole that holds it."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence

from gpufleet.optimize.schedule.grid import Grid, Placement, SlotJob
from gpufleet.optimize.schedule.occupancy import PoolOccupancy


def edf_schedule(grid: Grid) -> list[Placement] | None:
    """Earliest deadline first with holes filled: jobs by deadline, each where it is in time for the least money.

    Where nothing is in time it runs where it is done first. A job inherits the deadline of what waits for it. Where the
    budget does not last, jobs that can do without rent take none; None where it does not last even so.
    """
    placed = placed_in_order(grid, by_deadline(grid))
    return thrifty_schedule(grid) if placed is None else placed


def thrifty_schedule(grid: Grid) -> list[Placement] | None:
    """The same where only those rent that have to."""
    return placed_in_order(grid, by_deadline(grid), thrifty=True)


def by_deadline(grid: Grid) -> Callable[[int], tuple[int, int]]:
    """The rank of a job: its deadline or that of what waits for it."""
    inherited = inherited_deadlines(grid)
    return lambda job: (inherited[job], job)


def inherited_deadlines(grid: Grid) -> list[int]:
    """The latest end of each job with which those that wait for it can still be in time."""
    found = [job.deadline for job in grid.jobs]
    for number in reversed(topological(grid.jobs)):
        job = grid.jobs[number]
        begins = found[number] - min(way.slots for way in job.ways)
        for before in job.after:
            found[before] = min(found[before], begins)
    return found


def topological(jobs: Sequence[SlotJob]) -> list[int]:
    """Jobs in an order in which each comes after those that it waits for."""
    return ordered(jobs, lambda job: (0, job))


def ordered(jobs: Sequence[SlotJob], rank: Callable[[int], tuple[int, int]]) -> list[int]:
    """Jobs by rank, but none before those that it waits for."""
    waits = [len(job.after) for job in jobs]
    then: list[list[int]] = [[] for _ in jobs]
    for number, job in enumerate(jobs):
        for before in job.after:
            then[before].append(number)
    ready = [(rank(number), number) for number, count in enumerate(waits) if not count]
    heapq.heapify(ready)
    found = []
    while ready:
        _, number = heapq.heappop(ready)
        found.append(number)
        for later in then[number]:
            waits[later] -= 1
            if not waits[later]:
                heapq.heappush(ready, (rank(later), later))
    return found


def placed_in_order(
    grid: Grid, rank: Callable[[int], tuple[int, int]], *, thrifty: bool = False
) -> list[Placement] | None:
    """Each job in its turn in the best hole that is left; None where the budget does not last."""
    pools = empty_pools(grid)
    placed: dict[int, Placement] = {}
    left = grid.budget_milli_usd
    for number in ordered(grid.jobs, rank):
        ways = thrifty_ways(grid, number) if thrifty else grid.possible[number]
        found = best_hole(grid, pools, number, ways, earliest_start(grid, placed, number), left)
        if found is None:
            return None
        placed[number] = found
        way = grid.jobs[number].ways[found.way]
        pools[way.pool].take(way, found)
        left -= grid.rent_of(number, found)
    return [placed[number] for number in range(len(grid.jobs))]


def empty_pools(grid: Grid) -> list[PoolOccupancy]:
    """All pools before any job."""
    return [PoolOccupancy(grid, number) for number in range(len(grid.pools))]


def earliest_start(grid: Grid, placed: Mapping[int, Placement], number: int) -> int:
    """When a job may begin: when it is there, and all is done that it waits for."""
    job = grid.jobs[number]
    return max([job.earliest, *(placed[before].end for before in job.after)])


def thrifty_ways(grid: Grid, number: int) -> Sequence[int]:
    """Ways on one's own GPUs, where there are some."""
    owned = [w for w in grid.possible[number] if not grid.pools[grid.jobs[number].ways[w].pool].is_rented]
    return owned or grid.possible[number]


def best_hole(
    grid: Grid, pools: Sequence[PoolOccupancy], number: int, ways: Sequence[int], earliest: int, left: int
) -> Placement | None:
    """The cheapest hole in time, else the one that ends first; None where nothing is left for the rent.

    None too behind the slot by which everything is done one after another: among jobs that are moved, one that nobody
    misses could drift ever later.
    """
    job = grid.jobs[number]
    found = (pools[job.ways[w].pool].hole(job, w, earliest) for w in ways)
    holes = [hole for hole in found if hole.end <= grid.serial_end]
    if len(holes) == 1 and not grid.pools[job.ways[holes[0].way].pool].is_rented:
        return holes[0]
    paid = [hole for hole in holes if grid.rent_of(number, hole) <= left]
    if not paid:
        return None
    return min(paid, key=lambda p: (grid.late(number, p), grid.milli_usd(number, p), p.end, grid.watt_slots(number, p)))


def placed_from(grid: Grid, chosen: Sequence[Placement], not_before: Callable[[int, int], int]) -> list[Placement]:
    """The same ways in the same order: each piece in the first hole, not before a slot that its job and start tell."""
    pools, placed = empty_pools(grid), dict[int, Placement]()
    for number in sorted(range(len(chosen)), key=lambda j: chosen[j].start):
        wanted = chosen[number]
        way = grid.jobs[number].ways[wanted.way]
        earliest, lane = earliest_start(grid, placed, number), -1
        pieces = []
        for start, slots in wanted.pieces:
            begin, lane = pools[way.pool].first_hole(way, max(earliest, not_before(number, start)), slots)
            pieces.append((begin, slots))
            earliest = begin + slots + 1
        placed[number] = Placement(wanted.way, tuple(pieces), lane)
        pools[way.pool].take(way, placed[number])
    return [placed[number] for number in range(len(chosen))]


def begun_sooner(grid: Grid, placed: Sequence[Placement]) -> Sequence[Placement]:
    """Each run as soon as there is room, but where hours differ in price: kept where that is no worse."""

    def not_before(number: int, start: int) -> int:
        pool = grid.pools[grid.jobs[number].ways[placed[number].way].pool]
        return 0 if pool.prices.is_flat else start

    sooner = placed_from(grid, placed, not_before)
    is_no_worse = grid.score(sooner) <= grid.score(placed) and grid.rent(sooner) <= grid.budget_milli_usd
    return sooner if is_no_worse else placed
