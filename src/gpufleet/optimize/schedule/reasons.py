"""Why a job runs now and why there: what would be if it alone were moved and all others stayed."""

from __future__ import annotations

from gpufleet.domain.reason import Reason
from gpufleet.optimize.schedule.at_once import best_hole
from gpufleet.optimize.schedule.grid import MILLI_USD, NEVER, Grid, Placement, SlotWay
from gpufleet.optimize.schedule.search import Workbench

MOST_NAMED = 3


def reasons_of(grid: Grid, bench: Workbench) -> list[tuple[Reason, Reason]]:
    """By job: why now, and why there."""
    ending: dict[tuple[int, int], list[int]] = {}
    for number, placed in bench.placed.items():
        for start, slots in placed.pieces:
            ending.setdefault((grid.jobs[number].ways[placed.way].pool, start + slots), []).append(number)

    def both(number: int) -> tuple[Reason, Reason]:
        return why_now(grid, bench, number, ending), why_there(grid, bench, number)

    return [bench.without(number, both) for number in range(len(grid.jobs))]


def why_now(grid: Grid, bench: Workbench, number: int, ending: dict[tuple[int, int], list[int]]) -> Reason:
    """Why a job does not begin sooner."""
    job, placed = grid.jobs[number], bench.placed[number]
    way = job.ways[placed.way]
    if placed.start == job.earliest:
        return Reason.of("schedule_at_once")
    last = [b for b in job.after if bench.placed[b].end == placed.start]
    if last:
        return Reason.of("schedule_after", job=grid.asked[last[0]].name)
    pool = bench.pools[way.pool]
    slots = placed.pieces[0][1]
    if not pool.clear_starts(way, placed.start - 1, placed.start - 1 + slots, slots).any():
        return waits_for(grid, way, placed, [j for j in ending.get((way.pool, placed.start), []) if j != number])
    if not grid.pools[way.pool].prices.is_flat:
        return Reason.of("schedule_cheaper_hour")
    return Reason.of("schedule_in_time_anyway")


def waits_for(grid: Grid, way: SlotWay, placed: Placement, before: list[int]) -> Reason:
    """What ends when a job begins, for whose GPUs it waited."""
    pool = grid.pools[way.pool]
    if before:
        names = [grid.asked[j].name for j in before]
        more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
        return Reason.of("schedule_waits", jobs=", ".join(names[:MOST_NAMED]) + more, pool=pool.name)
    if any(end == placed.start for _, end, _ in grid.outages[way.pool]):
        return Reason.of("schedule_maintenance", pool=pool.name)
    return Reason.of("schedule_no_gap", pool=pool.name)


def why_there(grid: Grid, bench: Workbench, number: int) -> Reason:
    """Why a job runs on this way and on no other."""
    job, placed = grid.jobs[number], bench.placed[number]
    others = [w for w in grid.possible[number] if w != placed.way]
    if not others:
        return Reason.of("schedule_only_way")
    earliest = max([job.earliest, *(bench.placed[b].end for b in job.after)])
    left = grid.budget_milli_usd - bench.rent + grid.rent_of(number, placed)
    other = best_hole(grid, bench.pools, number, others, earliest, left)
    if other is None:
        return Reason.of("schedule_no_budget")
    return compared(grid, number, placed, other)


def compared(grid: Grid, number: int, placed: Placement, other: Placement) -> Reason:
    """What is better here than on the best of the other ways."""
    late = (grid.late(number, other) - grid.late(number, placed)) * grid.slot_s
    usd = (grid.milli_usd(number, other) - grid.milli_usd(number, placed)) / MILLI_USD
    saved = grid.watt_slots(number, other) - grid.watt_slots(number, placed)
    way = grid.asked[number].ways[other.way]
    than: dict[str, str | float] = {"pool": way.pool, "gpus": way.gpus}
    if late > 0 and grid.jobs[number].deadline < NEVER:
        return Reason.of("schedule_others_late", **than, hours_s=late)
    if usd > 0:
        return Reason.of("schedule_costs_less", **than, usd=usd)
    if saved > 0:
        return Reason.of("schedule_less_energy", **than)
    if other.end > placed.end:
        return Reason.of("schedule_sooner", **than, hours_s=(other.end - placed.end) * grid.slot_s)
    return Reason.of("schedule_leaves_room", **than)
