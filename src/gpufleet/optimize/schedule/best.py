"""The best schedule that is found in a time: orders at once, a search from the best of them, then the solver.

The relaxation that bounds how late everything is at least tells further orders; the search goes on from the best.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from gpufleet.domain.arrays import FloatArray
from gpufleet.optimize.schedule.at_once import placed_in_order, topological
from gpufleet.optimize.schedule.bound import Relaxed, relaxed, roughly_relaxed
from gpufleet.optimize.schedule.grid import Grid, Placement
from gpufleet.optimize.schedule.search import Neighbours, improved
from gpufleet.optimize.schedule.solver import Effort, Solved, is_installed, is_too_large, solved

LEFT_AFTER_ROUGH, LEFT_AFTER_FIRST, LEFT_AFTER_BOUND, LEFT_AFTER_SEARCH = 0.85, 0.5, 0.25, 0.12
"""Of the time: what is left when the rough relaxation ends, a first search, the whole relaxation, and the search from
its orders; the solver has the rest."""


class Found(NamedTuple):
    """What the search came to, and what the solver left of it."""

    searched: list[Placement]
    solved: Solved


def best_found(grid: Grid, known: Sequence[Placement], effort: Effort, rng: np.random.Generator) -> Found:
    """A schedule no worse than one that is known, bounded where the solver is there and the question not too large."""
    whole_s = effort.left_s()
    first = min([list(known), *in_order_of_weight(grid)], key=grid.score)
    if not is_installed() or is_too_large(grid):
        found = improved(grid, first, rng, goes_on(effort, 0.0))
        return Found(found, Solved(found, grid.least, is_least(grid, found)))
    if effort.steps is None:
        rough = relaxation(grid, first, effort, whole_s * LEFT_AFTER_ROUGH, roughly_relaxed)
        first = min([first, *in_orders_of(grid, rough)], key=grid.score)
        first = improved(grid, first, rng, goes_on(effort, whole_s * LEFT_AFTER_FIRST))
    bound = relaxation(grid, first, effort, whole_s * LEFT_AFTER_BOUND, relaxed)
    found = min([first, *in_orders_of(grid, bound)], key=grid.score)
    found = improved(grid, found, rng, goes_on(effort, whole_s * LEFT_AFTER_SEARCH))
    if is_least(grid, found) or (effort.steps is None and effort.left_s() <= 0):
        return Found(found, Solved(found, grid.least._replace(late=bound.late), is_least(grid, found)))
    return Found(found, solved(grid, found, effort, bound.late))


def goes_on(effort: Effort, left_s: float) -> Callable[[int], bool]:
    """Whether another try is made: until so much time is left, or all steps are made."""
    if effort.steps is not None:
        steps = effort.steps
        return lambda tries: tries < steps
    return lambda _: effort.left_s() > left_s


def is_least(grid: Grid, placed: Sequence[Placement]) -> bool:
    """Whether each job alone would do no better."""
    return all(part <= least for part, least in zip(grid.score(placed), grid.least, strict=True))


def relaxation(
    grid: Grid, placed: Sequence[Placement], effort: Effort, left_s: float, solve: Callable[..., Relaxed]
) -> Relaxed:
    """The relaxation, where anything is late that need not be, until so much time is left."""
    if grid.score(placed).late <= grid.least.late:
        return Relaxed(grid.least.late)
    if effort.work is not None:
        return solve(grid, placed, None, effort.work)
    return solve(grid, placed, max(effort.left_s() - left_s, 0.0), None)


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
