"""How late every schedule is at least: the time-indexed relaxation, which is far closer than what CP-SAT proves.

A job may begin in parts, each part in another slot, as long as the parts that run together fit the pool (Sousa and
Wolsey 1992, doi:10.1007/BF01585641). Dependencies and budgets are left out, which only makes it looser; jobs that may
pause take no room, for a pause could let others be in time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpufleet.domain.schedule import WHOLE_MILLI
from gpufleet.optimize.schedule.grid import NEVER, Grid, Placement, SlotJob, SlotWay

MOST_COLUMNS = 250_000
"""Job, way and slot together: more take minutes."""
ROUNDING = 1e-6


def least_late(grid: Grid, placed: Sequence[Placement], limit_s: float | None, work: float | None) -> int:
    """Late slots by weight that no schedule is below; that of each job alone where the limit is too short.

    `work` is a limit in the solver's own deterministic time, in place of seconds.
    """
    horizon = max(p.end for p in placed)
    counted = [j for j, job in enumerate(grid.jobs) if job.weight and job.deadline < horizon]
    columns = sum(max(horizon - grid.jobs[j].earliest, 0) * len(grid.possible[j]) for j in counted)
    if not counted or columns > MOST_COLUMNS:
        return grid.least.late
    solver = Relaxation(grid, horizon, counted).solver
    if limit_s is not None:
        solver.SetTimeLimit(max(int(limit_s * WHOLE_MILLI), 1))
    if work is not None:
        solver.SetSolverSpecificParametersAsString(f"max_deterministic_time: {work}")
    if solver.Solve() != solver.OPTIMAL:
        return grid.least.late
    return max(int(np.ceil(solver.Objective().Value() - ROUNDING)), grid.least.late)


class Relaxation:
    """The linear programme: for each job its starts by way and slot, for each pool what runs in each slot."""

    def __init__(self, grid: Grid, horizon: int, counted: Sequence[int]) -> None:
        from ortools.linear_solver import pywraplp

        self.grid, self.horizon = grid, horizon
        self.solver: Any = pywraplp.Solver.CreateSolver("GLOP")
        self.objective = self.solver.Objective()
        self.objective.SetMinimization()
        self.room = [self._rows(self._free(number)) for number in range(len(grid.pools))]
        self.power = [
            self._rows([int(pool.power_cap_watts)] * horizon) if pool.power_cap_watts < NEVER else None
            for pool in grid.pools
        ]
        for number in counted:
            self._add(grid.jobs[number], grid.possible[number])

    def _free(self, number: int) -> list[int]:
        free = np.full(self.horizon, self.grid.pools[number].gpus, dtype=np.int64)
        for start, end, gpus in self.grid.outages[number]:
            free[start:end] -= gpus
        return [int(gpus) * WHOLE_MILLI for gpus in np.maximum(free, 0)]

    def _rows(self, most: Sequence[int]) -> list[Any]:
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

    def _add(self, job: SlotJob, ways: Sequence[int]) -> None:
        once = self.solver.Constraint(1, 1)
        beyond = self.solver.NumVar(0, 1, "")
        once.SetCoefficient(beyond, 1)
        self.objective.SetCoefficient(beyond, job.weight * max(self.horizon + 1 - job.deadline, 0))
        for w in ways:
            way = job.ways[w]
            for start in range(job.earliest, self.horizon - way.slots + 1):
                begins = self.solver.NumVar(0, 1, "")
                once.SetCoefficient(begins, 1)
                self.objective.SetCoefficient(begins, job.weight * max(start + way.slots - job.deadline, 0))
                if not job.can_pause:
                    self._take(way, start, begins)

    def _take(self, way: SlotWay, start: int, begins: Any) -> None:
        for rows, amount in ((self.room[way.pool], way.milli), (self.power[way.pool], way.watts)):
            if rows is not None:
                rows[start].SetCoefficient(begins, -amount)
                if start + way.slots < self.horizon:
                    rows[start + way.slots].SetCoefficient(begins, amount)
