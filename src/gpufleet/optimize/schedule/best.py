"""The best schedule that is found with so much work: orders at once, then a search and the solver by turns.

The relaxation that bounds how late everything is at least tells further orders; the search goes on from the best.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from gpufleet.domain.arrays import FloatArray
from gpufleet.optimize.schedule.at_once import placed_in_order, topological
from gpufleet.optimize.schedule.bound import Relaxed, relaxed, roughly_relaxed
from gpufleet.optimize.schedule.effort import Effort
from gpufleet.optimize.schedule.grid import Grid, Placement, Score
from gpufleet.optimize.schedule.search import Neighbours, improved
from gpufleet.optimize.schedule.solver import is_installed, is_too_large, solved

EDF, SEARCH, SOLVER = "edf", "search", "solver"
RELAXING_STEPS = 1000.0
"""What a relaxation is worth at least: from its orders a search comes further than from that of deadlines."""
Relaxing = Callable[[Grid, Sequence[Placement], Effort], Relaxed]


class Found(NamedTuple):
    """The best schedule so far, what no schedule is better than, and who found it.

    `is_cut`: a limit of seconds ended the work before it was done.
    """

    placed: Sequence[Placement]
    bound: Score
    found_by: str = EDF
    is_optimal: bool = False
    is_cut: bool = False


def best_found(grid: Grid, known: Sequence[Placement], effort: Effort, rng: np.random.Generator) -> Found:
    """A schedule no worse than one that is known, bounded where the solver is there and the question not too large."""
    found = better(grid, Found(known, grid.least), SEARCH, in_order_of_weight(grid))
    if not is_installed() or is_too_large(grid):
        found = searched(grid, found, effort, rng)
    else:
        relaxations: list[Relaxing] = [roughly_relaxed, relaxed]
        for one in effort.rounds():
            found = solved_round(grid, found, one, rng, relaxations)
            if found.is_optimal:
                break
    return found._replace(is_cut=not found.is_optimal and effort.left_s() <= 0)


def solved_round(
    grid: Grid, found: Found, effort: Effort, rng: np.random.Generator, relaxations: list[Relaxing]
) -> Found:
    """A search from what the relaxations tell, and the solver after it; a relaxation is solved once."""
    for solve in tuple(relaxations):
        if grid.score(found.placed).late > found.bound.late:
            told = solve(grid, found.placed, replace(effort, steps=max(effort.steps, RELAXING_STEPS)))
            late = max(found.bound.late, told.late)
            found = better(
                grid, found._replace(bound=found.bound._replace(late=late)), SEARCH, in_orders_of(grid, told)
            )
            if told.begun:
                relaxations.remove(solve)
    found = searched(grid, found, effort, rng)
    if found.is_optimal:
        return found
    placed, bound, is_optimal = solved(grid, found.placed, effort, found.bound)
    return better(grid, found, SOLVER, [placed])._replace(bound=bound, is_optimal=is_optimal)


def searched(grid: Grid, found: Found, effort: Effort, rng: np.random.Generator) -> Found:
    """What a search makes of it, proved where no part could be less."""
    found = better(grid, found, SEARCH, [improved(grid, found.placed, rng, effort.goes_on)])
    parts = zip(grid.score(found.placed), found.bound, strict=True)
    return found._replace(is_optimal=all(part <= least for part, least in parts))


def better(grid: Grid, found: Found, who: str, others: Iterable[Sequence[Placement]]) -> Found:
    """The best of these, where it is better than what was found."""
    best = min(others, key=grid.score, default=found.placed)
    return found._replace(placed=best, found_by=who) if grid.score(best) < grid.score(found.placed) else found


def in_order_of_weight(grid: Grid) -> Iterator[list[Placement]]:
    """Jobs by what they weigh for what they take: where most are late, those come first that make way soonest."""
    yield from placed_by(grid, -Neighbours(grid).worth)


def in_orders_of(grid: Grid, bound: Relaxed) -> Iterator[list[Placement]]:
    """Jobs as shares of them begin in the relaxation."""
    for begun in bound.begun:
        yield from placed_by(grid, begun)


def placed_by(grid: Grid, ranks: Sequence[float] | FloatArray) -> Iterator[list[Placement]]:
    """Jobs by rank, or by that of what waits for them; nothing where the budget does not last."""
    found = list(ranks)
    for number in reversed(topological(grid.jobs)):
        for before in grid.jobs[number].after:
            found[before] = min(found[before], found[number])
    places = np.argsort(np.argsort(np.array(found, dtype=np.float64), kind="stable"))
    placed = placed_in_order(grid, lambda job: (int(places[job]), job))
    if placed is not None:
        yield placed
