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
        return cost[..., np.clip(self.left + extra - self.per_tick, 0, self.steps - 1)]

    def paid_h(self, extra: int) -> FloatArray:
        """Hours that the tick is paid for."""
        return np.minimum(self.left + extra, self.per_tick) * self.step_h


def spot_optimum(job: DeadlineJob, market: SpotMarket, first_tick: IntArray, steps_per_tick: int = 25) -> FloatArray:
    """The least cost of each start under perfect foresight, at the cheapest place that has a machine   [USD].

    Starts and work are rounded up to `1 / steps_per_tick` of a tick; checkpoints lose nothing to those who know. A
    change of place takes no start, so of several places it is a lower bound.
    """
    step_s = market.tick_s / steps_per_tick
    per_start, work = math.ceil(job.restart_s / step_s - 1e-9), math.ceil(job.work_s / step_s - 1e-9)
    grid = Grid(work + per_start + 1, steps_per_tick, per_start, step_s / HOUR)
    late = np.where(grid.left > 0, LATE_USD, 0.0) + np.zeros((len(first_tick), 1))
    waiting = on_spot = on_demand = late
    price = np.where(market.is_available, market.spot_usd_per_hour[:, None], np.inf).min(axis=0)
    for tick in range(math.floor(job.deadline_s / market.tick_s) - 1, -1, -1):
        usd_per_hour = price[first_tick + tick][:, None]
        waiting, on_spot, on_demand = tick_before(grid, (waiting, on_spot, on_demand), usd_per_hour, market)
    cost = waiting[:, work]
    return np.where(cost >= LATE_USD / 2, np.inf, cost)


def tick_before(
    grid: Grid, after: tuple[FloatArray, FloatArray, FloatArray], usd_per_hour: FloatArray, market: SpotMarket
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Least costs with one tick more left, of who waits, runs on spot, and runs on demand."""
    waiting, on_spot, on_demand = after
    has_one: BoolArray = np.isfinite(usd_per_hour)
    price = np.where(has_one, usd_per_hour, 0.0)

    def spot(extra: int) -> FloatArray:
        return np.where(has_one, price * grid.paid_h(extra) + grid.after(on_spot, extra), LATE_USD)

    def demand(extra: int) -> FloatArray:
        return np.asarray(market.on_demand_usd_per_hour * grid.paid_h(extra) + grid.after(on_demand, extra))

    new_spot, new_demand = spot(grid.per_start), demand(grid.per_start)
    free = np.minimum(np.minimum(waiting, new_spot), new_demand)
    staying = np.minimum(np.minimum(waiting, spot(0)), new_demand)
    keeping = np.minimum(np.minimum(waiting, new_spot), demand(0))
    for cost in (free, staying, keeping):
        cost[:, 0] = 0.0
    return free, np.where(has_one, staying, free), keeping
