"""How late every schedule is at least: the time-indexed relaxation, which is far closer than what CP-SAT proves.

A job may begin in parts, each part in another slot, as long as the parts that run together fit the pool (Sousa and
Wolsey 1992, doi:10.1007/BF01585641). Dependencies and budgets are left out, which only makes it looser; jobs that may
pause take no room, for a pause could let others be in time.

The order in which shares of jobs begin there is also a good one to place whole jobs in (alpha points: Goemans 1997,
doi:10.5555/314161.314394).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gpufleet.domain.schedule import WHOLE_MILLI
from gpufleet.optimize.schedule.effort import Effort
from gpufleet.optimize.schedule.grid import NEVER, Grid, Placement, SlotJob, SlotWay

FEW_COLUMNS, MOST_COLUMNS = 80_000, 250_000
"""Job, way and slot together: so many take a second or two, and more take minutes."""
ROUNDING = 1e-6
SHARES_BEGUN = (0.1, 0.3, 0.5, 0.7, 0.9)
"""Of a job: by when so much of it has begun tells an order."""
LONGEST_STEP = 64
"""Slots from start to start, beyond which an order tells little."""


class Relaxed(NamedTuple):
    """Late slots by weight that no schedule is below, and when so much of each job has begun, by share of it.

    Shares are those of `SHARES_BEGUN`. Nothing has begun where the work was too little, or the question too large.
    """

    late: int
    begun: tuple[tuple[int, ...], ...] = ()


def relaxed(grid: Grid, placed: Sequence[Placement], effort: Effort) -> Relaxed:
    """The relaxation solved; what each job alone is late where that takes too much work."""
    horizon = max(p.end for p in placed)
    counted = counted_jobs(grid, horizon)
    if not counted or columns_of(grid, horizon) > MOST_COLUMNS:
        return Relaxed(grid.least.late)
    relaxation = Relaxation(grid, horizon, counted)
    if not relaxation.is_solved(effort):
        return Relaxed(grid.least.late)
    least = int(np.ceil(relaxation.solver.Objective().Value() - ROUNDING))
    return Relaxed(max(least, grid.least.late), tuple(relaxation.begun(share) for share in SHARES_BEGUN))


def roughly_relaxed(grid: Grid, placed: Sequence[Placement], effort: Effort) -> Relaxed:
    """The same with starts at every few slots alone, which takes little work and tells an order but no bound."""
    horizon = max(p.end for p in placed)
    step = math.ceil(columns_of(grid, horizon) / FEW_COLUMNS)
    if not 1 < step <= LONGEST_STEP:
        return Relaxed(grid.least.late)
    relaxation = Relaxation(grid, horizon, counted_jobs(grid, horizon), step)
    if not relaxation.is_solved(effort):
        return Relaxed(grid.least.late)
    return Relaxed(grid.least.late, tuple(relaxation.begun(share) for share in SHARES_BEGUN))


def counted_jobs(grid: Grid, horizon: int) -> list[int]:
    """Jobs that can be late."""
    return [j for j, job in enumerate(grid.jobs) if job.weight and job.deadline < horizon]


def columns_of(grid: Grid, horizon: int) -> int:
    """How large the programme is: job, way and slot together."""
    return sum(max(horizon - grid.jobs[j].earliest, 0) * len(grid.possible[j]) for j in counted_jobs(grid, horizon))


class Relaxation:
    """The linear programme: for each job its starts by way and slot, for each pool what runs in each slot.

    With a `step` jobs begin at every so many slots, and what they take of the last of them is spread over all.
    """

    def __init__(self, grid: Grid, horizon: int, counted: Sequence[int], step: int = 1) -> None:
        from ortools.linear_solver import pywraplp

        self.grid, self.horizon, self.step = grid, horizon, step
        self.begins: dict[int, list[tuple[int, Any]]] = {number: [] for number in counted}
        self.solver: Any = pywraplp.Solver.CreateSolver("GLOP")
        self.objective = self.solver.Objective()
        self.objective.SetMinimization()
        self.room = [self._rows(self._free(number)) for number in range(len(grid.pools))]
        self.power = [
            self._rows([pool.power_cap_watts] * math.ceil(horizon / step)) if pool.power_cap_watts < NEVER else None
            for pool in grid.pools
        ]
        for number in counted:
            self._add(number, grid.jobs[number], grid.possible[number])

    def is_solved(self, effort: Effort) -> bool:
        """Whether the work was enough."""
        if math.isfinite(effort.left_s()):
            self.solver.SetTimeLimit(max(int(effort.left_s() * WHOLE_MILLI), 1))
        if math.isfinite(effort.work):
            self.solver.SetSolverSpecificParametersAsString(f"max_deterministic_time: {effort.work}")
        return bool(self.solver.Solve() == self.solver.OPTIMAL)

    def begun(self, share: float) -> tuple[int, ...]:
        """By job: the slot by which such a share of it has begun; the deadline of what is never late."""
        return tuple(
            self._begun(self.begins[number], share) if number in self.begins else job.deadline if job.weight else NEVER
            for number, job in enumerate(self.grid.jobs)
        )

    def _begun(self, begins: Sequence[tuple[int, Any]], share: float) -> int:
        parts = 0.0
        for start, part in begins:
            parts += part.solution_value()
            if parts >= share - ROUNDING:
                return start
        return self.horizon

    def _free(self, number: int) -> list[float]:
        pool = self.grid.pools[number]
        free = np.full(math.ceil(self.horizon / self.step) * self.step, pool.gpus, dtype=np.int64)
        for start, end, gpus in self.grid.outages[number]:
            free[start:end] -= gpus
        least = np.maximum(free, 0).reshape(-1, self.step).mean(axis=1)
        return [float(gpus) * WHOLE_MILLI for gpus in least]

    def _rows(self, most: Sequence[float]) -> list[Any]:
        """For each slot: what runs is what ran before, and what begins, less what ends."""
        rows, before = [], None
        for limit in most:
            runs, row = self.solver.NumVar(0, limit, ""), self.solver.Constraint(0, 0)
            row.SetCoefficient(runs, 1)
            if before is not None:
                row.SetCoefficient(before, -1)
            rows.append(row)
            before = runs
        return rows

    def _add(self, number: int, job: SlotJob, ways: Sequence[int]) -> None:
        once = self.solver.Constraint(1, 1)
        beyond = self.solver.NumVar(0, 1, "")
        once.SetCoefficient(beyond, 1)
        self.objective.SetCoefficient(beyond, job.weight * max(self.horizon + 1 - job.deadline, 0))
        for w in ways:
            way = job.ways[w]
            first = job.earliest // self.step * self.step
            for at in range(first, self.horizon - way.slots + 1, self.step):
                start = max(at, job.earliest)
                begins = self.solver.NumVar(0, 1, "")
                self.begins[number].append((start, begins))
                once.SetCoefficient(begins, 1)
                self.objective.SetCoefficient(begins, job.weight * max(start + way.slots - job.deadline, 0))
                if not job.can_pause:
                    self._take(way, start, begins)
        self.begins[number].sort(key=lambda begun: begun[0])

    def _take(self, way: SlotWay, start: int, begins: Any) -> None:
        at, steps = start // self.step, math.ceil(way.slots / self.step)
        share = way.slots / (steps * self.step)
        for rows, amount in ((self.room[way.pool], way.milli), (self.power[way.pool], way.watts)):
            if rows is not None:
                rows[at].SetCoefficient(begins, -amount * share)
                if at + steps < len(rows):
                    rows[at + steps].SetCoefficient(begins, amount * share)
