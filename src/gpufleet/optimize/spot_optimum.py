"""What a job with a deadline would cost if all of the market's future were known: the measure of every policy."""

from __future__ import annotations

import math

import numpy as np

from gpufleet.domain.arrays import BoolArray, FloatArray, IntArray
from gpufleet.domain.spot import DeadlineJob, SpotMarket
from gpufleet.records import dataclass
from gpufleet.units import HOUR

LATE_USD = 1e9


@dataclass(frozen=True, eq=False)
class Grid:
    """Machine time left in even steps; a start adds whole steps."""

    steps: int
    per_tick: int
    per_start: int
    step_h: float

    @property
    def left(self) -> IntArray:
        """Steps of machine time left."""
        return np.arange(self.steps)

    def after(self, cost: FloatArray, extra: int) -> FloatArray:
        """What is to be paid after a tick on a machine, of which a start may take some steps."""
        less = self.per_tick - extra
        if less <= 0:
            return np.concatenate([cost[..., -less:], np.repeat(cost[..., -1:], -less, axis=-1)], axis=-1)
        done = np.repeat(cost[..., :1], min(less, self.steps), axis=-1)
        return np.concatenate([done, cost[..., : max(self.steps - less, 0)]], axis=-1)

    def paid_h(self, extra: int) -> FloatArray:
        """Hours that the tick is paid for."""
        return np.minimum(self.left + extra, self.per_tick) * self.step_h


@dataclass(frozen=True, eq=False)
class Costs:
    """Least dollars of the rest, [start of the job, work left], of who waits, runs on spot (by place), on demand."""

    waiting: FloatArray
    on_spot: FloatArray
    on_demand: FloatArray


def spot_optimum(job: DeadlineJob, market: SpotMarket, first_tick: IntArray, steps_per_tick: int = 25) -> FloatArray:
    """The least cost of each start under perfect foresight   [USD].

    Starts and work are rounded up to `1 / steps_per_tick` of a tick; checkpoints lose nothing to those who know. A
    change of place takes a start, as in the replay.
    """
    step_s = market.tick_s / steps_per_tick
    per_start, work = math.ceil(job.restart_s / step_s - 1e-9), math.ceil(job.work_s / step_s - 1e-9)
    grid = Grid(work + per_start + 1, steps_per_tick, per_start, step_s / HOUR)
    late = np.where(grid.left > 0, LATE_USD, 0.0) + np.zeros((len(first_tick), 1))
    costs = Costs(late, np.repeat(late[np.newaxis], len(market.is_available), axis=0), late)
    for tick in range(math.floor(job.deadline_s / market.tick_s) - 1, -1, -1):
        costs = tick_before(grid, costs, market.is_available[:, first_tick + tick, np.newaxis], market)
    cost = costs.waiting[:, work]
    return np.where(cost >= LATE_USD / 2, np.inf, cost)


def tick_before(grid: Grid, after: Costs, has_one: BoolArray, market: SpotMarket) -> Costs:
    """Least costs with one tick more left; `has_one`: [place, start of the job, 1]."""
    usd_per_hour = market.spot_usd_per_hour[:, np.newaxis, np.newaxis]

    def spot(extra: int) -> FloatArray:
        return np.where(has_one, usd_per_hour * grid.paid_h(extra) + grid.after(after.on_spot, extra), LATE_USD)

    def demand(extra: int) -> FloatArray:
        return np.asarray(market.on_demand_usd_per_hour * grid.paid_h(extra) + grid.after(after.on_demand, extra))

    begun = np.minimum(spot(grid.per_start).min(axis=0), demand(grid.per_start))
    free = np.minimum(after.waiting, begun)
    costs = Costs(free, np.minimum(free, spot(0)), np.minimum(free, demand(0)))
    for cost in (costs.waiting, costs.on_spot, costs.on_demand):
        cost[..., 0] = 0.0
    return costs
