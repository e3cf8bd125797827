"""A schedule improved and bounded by CP-SAT: late slots by weight first, then money, then energy.

One start for each job, and one optional interval of fixed size for each of its ways; a job that may pause has a second
choice of two pieces. Shares of GPUs are summed here, which is a little too loose: what comes back is placed again, each
share on a GPU of its own, and the bound stays a bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

from gpufleet.domain.arrays import IntArray
from gpufleet.domain.schedule import WHOLE_MILLI
from gpufleet.optimize.schedule.at_once import placed_from
from gpufleet.optimize.schedule.effort import STEPS_PER_WORK, Effort
from gpufleet.optimize.schedule.grid import NEVER, Grid, Placement, Score, SlotJob, SlotWay, may_be_cut

MOST_INTERVALS, MOST_TABLE_ENTRIES = 4000, 4_000_000
"""A model beyond this takes more memory and time to build than it gives back."""

FEWER_PIECES = 4
"""A table with a piece for so many entries or more is looked up piece by piece: entries take memory by their square."""

MANY_JOBS = 100
"""With more jobs the solver's work is divided by the square of how many times more: there the search finds more."""


class Solved(NamedTuple):
    """The best schedule, and what no schedule is better than, for the levels of which that is known."""

    placed: list[Placement]
    bound: Score
    is_optimal: bool


def looked_up(model: Any, at: Any, table: IntArray) -> Any:
    """The entry of a table at a moment: by its straight pieces where prices by the hour make few of them."""
    found = model.new_int_var(int(table.min()), int(table.max()), "")
    edges = straight_pieces(table)
    if len(edges) * FEWER_PIECES > len(table):
        model.add_element(at, table.tolist(), found)
        return found
    within = [model.new_bool_var("") for _ in edges[1:]]
    model.add_exactly_one(within)
    for here, first, last in zip(within, edges[:-1], edges[1:], strict=True):
        slope = int(table[first + 1] - table[first])
        model.add_linear_constraint(at, first, last).only_enforce_if(here)
        model.add(found == int(table[first]) + slope * (at - first)).only_enforce_if(here)
    return found


def straight_pieces(table: IntArray) -> list[int]:
    """Where a table of two entries or more bends, with both of its ends.

    >>> straight_pieces(np.array([0, 2, 4, 5, 6, 6]))
    [0, 2, 4, 5]
    """
    bends = np.flatnonzero(np.diff(table, 2)) + 1
    return [0, *bends.tolist(), len(table) - 1]


def is_installed() -> bool:
    """Whether OR-Tools is there."""
    return find_spec("ortools") is not None


def is_too_large(grid: Grid) -> bool:
    """Whether a model would take more memory than it is worth."""
    ways = [way for job in grid.jobs for way in job.ways]
    priced = sum(not grid.pools[way.pool].prices.is_flat for way in ways)
    return len(ways) > MOST_INTERVALS or priced * grid.serial_end > MOST_TABLE_ENTRIES


class Choice(NamedTuple):
    """A way in the model: whether it is taken, and the first and last moment of each piece."""

    way: int
    taken: Any
    pieces: tuple[tuple[Any, Any], ...]


class Model:
    """All jobs and pools as CP-SAT sees them."""

    def __init__(self, grid: Grid, hint: Sequence[Placement]) -> None:
        from ortools.sat.python import cp_model

        self.grid, self.cp, self.model = grid, cp_model, cp_model.CpModel()
        self.horizon = horizon_of(grid, hint)
        self.starts: list[Any] = []
        self.ends: list[Any] = []
        self.choices: list[list[Choice]] = []
        self.late: list[Any] = []
        self.usd: list[Any] = []
        self.rent: list[Any] = []
        self.energy: list[Any] = []
        self.demands: list[list[tuple[Any, SlotWay]]] = [[] for _ in grid.pools]
        for number, job in enumerate(grid.jobs):
            self._add_job(number, job)
        for number in range(len(grid.pools)):
            self._add_pool(number)
        for number, job in enumerate(grid.jobs):
            for before in job.after:
                self.model.add(self.starts[number] >= self.ends[before])
        if self.rent and grid.budget_milli_usd < NEVER:
            self.model.add(sum(self.rent) <= grid.budget_milli_usd)

    def _add_job(self, number: int, job: SlotJob) -> None:
        start = self.model.new_int_var(job.earliest, self.horizon, f"start{number}")
        end = self.model.new_int_var(job.earliest, self.horizon, f"end{number}")
        self.starts.append(start)
        self.ends.append(end)
        ways = self.grid.possible[number]
        is_alone = len(ways) == 1 and not may_be_cut(job, job.ways[ways[0]])
        self.choices.append([])
        for w in ways:
            way = job.ways[w]
            self._add_whole(number, w, way, is_alone=is_alone)
            if may_be_cut(job, way):
                self._add_cut(number, w, way)
        if not is_alone:
            self.model.add_exactly_one([choice.taken for choice in self.choices[number]])
        if job.deadline < NEVER:
            late = self.model.new_int_var(0, max(self.horizon - job.deadline, 0), f"late{number}")
            self.model.add(late >= end - job.deadline)
            self.late.append(late * job.weight)

    def _add_whole(self, number: int, w: int, way: SlotWay, *, is_alone: bool) -> None:
        model, start, end = self.model, self.starts[number], self.ends[number]
        if is_alone:
            taken: Any = 1
            interval = model.new_fixed_size_interval_var(start, way.slots, "")
            model.add(end == start + way.slots)
        else:
            taken = model.new_bool_var(f"way{number}.{w}")
            interval = model.new_optional_fixed_size_interval_var(start, way.slots, taken, "")
            model.add(end == start + way.slots).only_enforce_if(taken)
        self.demands[way.pool].append((interval, way))
        self.choices[number].append(Choice(w, taken, ((start, start + way.slots),)))
        self._pay(way, taken, self._whole_usd(way, taken, start))
        self.energy.append(way.watts * way.slots * taken)

    def _add_cut(self, number: int, w: int, way: SlotWay) -> None:
        """Two pieces with a pause between them; together they take the restart longer."""
        model, start, end = self.model, self.starts[number], self.ends[number]
        taken = model.new_bool_var(f"cut{number}.{w}")
        first = model.new_int_var(way.restart + 1, way.slots - 1, "")
        paused, again = (model.new_int_var(0, self.horizon, "") for _ in range(2))
        rest = way.slots + way.restart - first
        model.add(paused == start + first).only_enforce_if(taken)
        model.add(again >= paused + 1).only_enforce_if(taken)
        model.add(end == again + rest).only_enforce_if(taken)
        self.demands[way.pool].append((model.new_optional_interval_var(start, first, paused, taken, ""), way))
        self.demands[way.pool].append((model.new_optional_interval_var(again, rest, end, taken, ""), way))
        self.choices[number].append(Choice(w, taken, ((start, paused), (again, end))))
        self._pay(way, taken, self._cut_usd(way, taken, (start, paused, again, end)))
        self.energy.append(way.watts * (way.slots + way.restart) * taken)

    def _pay(self, way: SlotWay, taken: Any, usd: Any) -> None:
        if usd is not None:
            self.usd.append(usd)
            if self.grid.pools[way.pool].is_rented:
                self.rent.append(usd)

    def _whole_usd(self, way: SlotWay, taken: Any, start: Any) -> Any:
        spent = self.grid.spent[way.pool]
        if not spent[-1]:
            return None
        if self.grid.pools[way.pool].prices.is_flat:
            return int(np.rint(spent[way.slots] * way.milli / WHOLE_MILLI)) * taken
        ends = np.minimum(np.arange(self.horizon + 1) + way.slots, len(spent) - 1)
        table = np.rint((spent[ends] - spent[: self.horizon + 1]) * way.milli / WHOLE_MILLI).astype(np.int64)
        return self._if_taken(taken, looked_up(self.model, start, table))

    def _cut_usd(self, way: SlotWay, taken: Any, edges: tuple[Any, ...]) -> Any:
        spent = self.grid.spent[way.pool]
        if not spent[-1]:
            return None
        if self.grid.pools[way.pool].prices.is_flat:
            return int(spent[way.slots + way.restart]) * way.gpus * taken
        start, paused, again, end = (
            looked_up(self.model, edge, spent[: self.horizon + 1] * way.gpus) for edge in edges
        )
        return self._if_taken(taken, paused - start + end - again)

    def _if_taken(self, taken: Any, usd: Any) -> Any:
        if isinstance(taken, int):
            return usd
        paid = self.model.new_int_var(0, NEVER, "")
        self.model.add(paid == usd).only_enforce_if(taken)
        self.model.add(paid == 0).only_enforce_if(~taken)
        return paid

    def _add_pool(self, number: int) -> None:
        pool, demands = self.grid.pools[number], self.demands[number]
        unit = 1 if any(not way.gpus for _, way in demands) else WHOLE_MILLI
        outages = [
            (self.model.new_fixed_size_interval_var(start, end - start, ""), gpus * WHOLE_MILLI // unit)
            for start, end, gpus in self.grid.outages[number]
        ]
        used = [*((interval, way.milli // unit) for interval, way in demands), *outages]
        self._add_cumulative(used, pool.gpus * WHOLE_MILLI // unit)
        if pool.power_cap_watts < NEVER:
            self._add_cumulative([(interval, way.watts) for interval, way in demands], int(pool.power_cap_watts))

    def _add_cumulative(self, used: Sequence[tuple[Any, int]], capacity: int) -> None:
        if used:
            self.model.add_cumulative([interval for interval, _ in used], [demand for _, demand in used], capacity)

    def hint(self, placed: Sequence[Placement]) -> None:
        """Begin from this schedule."""
        clear: Any = self.model.clear_hints
        clear()
        for number, p in enumerate(placed):
            self.model.add_hint(self.starts[number], p.start)
            self.model.add_hint(self.ends[number], p.end)
            for choice in self.choices[number]:
                is_taken = choice.way == p.way and len(choice.pieces) == len(p.pieces)
                if not isinstance(choice.taken, int):
                    self.model.add_hint(choice.taken, is_taken)
                if is_taken and len(p.pieces) > 1:
                    self.model.add_hint(choice.pieces[0][1], p.pieces[0][0] + p.pieces[0][1])
                    self.model.add_hint(choice.pieces[1][0], p.pieces[1][0])

    def chosen(self, solver: Any) -> list[Placement]:
        """What the solver found; shares have no GPU of their own yet."""
        return [self._chosen(solver, choices) for choices in self.choices]

    def _chosen(self, solver: Any, choices: Sequence[Choice]) -> Placement:
        taken = next(c for c in choices if isinstance(c.taken, int) or solver.boolean_value(c.taken))
        ends = [(solver.value(start), solver.value(end)) for start, end in taken.pieces]
        return Placement(taken.way, tuple((start, end - start) for start, end in ends))


def horizon_of(grid: Grid, hint: Sequence[Placement]) -> int:
    """The slot by which everything is done in the model: twice the schedule that is known, or one job after another.

    A day more where hours differ in price: a job may wait for the next night.
    """
    known = max(p.end for p in hint)
    return min(grid.serial_end, max(2 * known, grid.last_fixed + known) + grid.price_slots)


def solved(grid: Grid, placed: Sequence[Placement], effort: Effort, least: Score) -> Solved:
    """The schedule as CP-SAT leaves it: level by level, each no worse than it was in those before.

    Each level has the work that those before it left; one that is not proved leaves none. `least`: what is known
    already that no schedule is better than, level by level.
    """
    best, score = list(placed), grid.score(placed)
    bounds, work = list(least), effort.work / max(len(grid.jobs) / MANY_JOBS, 1.0) ** 2
    model = Model(grid, placed)
    terms: tuple[Sequence[Any], ...] = (model.late, model.usd, model.energy)
    for level, parts in enumerate(terms):
        if score[level] > bounds[level] and parts:
            model.model.add(sum(parts) >= bounds[level])
            found, bound, spent = solved_level(model, parts, best, replace(effort, steps=work * STEPS_PER_WORK))
            work = max(work - spent, 0.0)
            if found is not None and grid.score(found) < score:
                best, score = found, grid.score(found)
            bounds[level] = max(bounds[level], bound)
        if score[level] > bounds[level]:
            return Solved(best, Score(*bounds), False)
        if parts:
            model.model.add(sum(parts) <= score[level])
    return Solved(best, Score(*bounds), True)


def solved_level(
    model: Model, parts: Sequence[Any], known: Sequence[Placement], effort: Effort
) -> tuple[list[Placement] | None, int, float]:
    """The least of one level, its bound, and the work that it took."""
    cp = model.cp
    model.hint(known)
    model.model.minimize(sum(parts))
    solver = cp.CpSolver()
    given = solver.parameters
    given.num_workers, given.random_seed = effort.workers, effort.seed
    given.cp_model_probing_level, given.max_presolve_iterations = 0, 1
    given.max_deterministic_time, given.max_time_in_seconds = effort.work, max(effort.left_s(), 0.0)
    status = solver.solve(model.model)
    spent = solver.response_proto.deterministic_time
    if status not in (cp.OPTIMAL, cp.FEASIBLE):
        return None, 0, spent
    bound = int(np.ceil(solver.best_objective_bound - 1e-6))
    return placed_again(model.grid, model.chosen(solver)), bound, spent


def placed_again(grid: Grid, chosen: Sequence[Placement]) -> list[Placement] | None:
    """Runs where they were chosen, or in the next hole, shares on GPUs of their own; None beyond the budget."""
    found = placed_from(grid, chosen, lambda number, start: start)
    return found if grid.rent(found) <= grid.budget_milli_usd else None
