"""What a GPU more in each pool of a schedule comes to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from gpufleet.optimize.schedule.best import Found, best_found
from gpufleet.optimize.schedule.effort import Effort
from gpufleet.optimize.schedule.grid import Grid, Score


def one_more_of_each(
    grid: Grid, best: Found, effort_of: Callable[[float, float], Effort], dice: Callable[[], np.random.Generator]
) -> dict[str, tuple[Score, bool]]:
    """By pool: the score with one GPU more, and whether both schedules are proven to be the best.

    `effort_of`: until such a share of what is left of a limit, with such a share of the steps.
    None where some lateness is not proven to be needed: a longer search might save as much with the same GPUs.
    """
    found: dict[str, tuple[Score, bool]] = {}
    score = grid.score(best.placed)
    if not best.is_optimal and score.late > best.bound.late:
        return found
    for number, pool in enumerate(grid.pools):
        if score.late == grid.least.late and score.milli_usd == grid.least.milli_usd:
            found[pool.name] = (score, best.is_optimal)
            continue
        wider = with_one_more(grid, number)
        effort = effort_of((number + 1) / len(grid.pools), 1 / (4 * len(grid.pools)))
        again = best_found(wider, best.placed, effort, dice())
        found[pool.name] = (wider.score(again.placed), again.is_optimal and best.is_optimal)
    return found


def with_one_more(grid: Grid, number: int) -> Grid:
    """The same question with one GPU more in a pool; what takes all of it takes that one too."""
    pool = grid.pools[number]
    outages = tuple(replace(o, gpus=o.gpus + 1) if o.gpus == pool.gpus else o for o in pool.outages)
    pools = list(grid.pools)
    pools[number] = replace(pool, gpus=pool.gpus + 1, outages=outages)
    return Grid(tuple(pools), grid.asked, grid.slot_s, grid.budget_usd)
