"""Thresholds of slack that cost a job with a deadline least, by dynamic programming backwards from the deadline.

The market is a chain of states, with a machine or without one and for how long (`AgedHazards`). For every time left,
work left and state, the expected cost of the rest is the least of: a tick on spot, a tick on demand, a tick of waiting.
What matters of that is the slack at which on demand begins to be the least: the threshold. It is set where choosing by
slack alone regrets least against choosing freely, and the costs before it are those of the rule.
"""

from __future__ import annotations

import math

import numpy as np

from gpufleet.domain.arrays import AnyArray, BoolArray, FloatArray
from gpufleet.domain.spot import ON_DEMAND, ON_SPOT, WAITING, AgedHazards, DeadlineJob, SlackRules
from gpufleet.records import dataclass
from gpufleet.units import HOUR

STEPS_PER_TICK = 4
POINT_APART_S = 2 * HOUR
LATE_USD = 1e7
LARGE_REGRET = 1e3


@dataclass(frozen=True, eq=False)
class Grid:
    """Work left in even steps, and what a tick makes of it."""

    job: DeadlineJob
    tick_s: float
    step_s: float
    work_s: FloatArray

    @classmethod
    def of(cls, job: DeadlineJob, tick_s: float) -> Grid:
        """Enough steps for the work and the starts and losses that add to it."""
        step_s = tick_s / STEPS_PER_TICK
        most_s = job.work_s + 2 * (job.restart_s + job.loss_s) + tick_s
        return cls(job, tick_s, step_s, np.arange(math.ceil(most_s / step_s) + 1, dtype=np.float64) * step_s)

    def at(self, cost: FloatArray, extra_s: float) -> FloatArray:
        """Costs where so much more work is left, between the steps in a straight line."""
        by = extra_s / self.step_s
        whole = math.floor(by)
        last = len(self.work_s) - 1
        low = np.clip(np.arange(last + 1) + whole, 0, last)
        high = np.minimum(low + 1, last)
        return np.asarray(cost[..., low] * (1 - (by - whole)) + cost[..., high] * (by - whole))

    def paid_h(self, start_s: float) -> FloatArray:
        """Hours that a tick is paid for, where a start comes first."""
        return np.minimum(self.work_s + start_s, self.tick_s) / HOUR

    def can_wait(self, left_s: float) -> BoolArray:
        """Whether on demand still ends in time, begun after this tick."""
        return self.work_s + self.job.restart_s <= left_s - self.tick_s

    def can_spot(self, left_s: float, start_s: float) -> BoolArray:
        """Whether on demand still ends in time, begun after a tick on spot that is lost at its end."""
        total = self.work_s + start_s
        return (np.maximum(total - self.tick_s, 0) + self.job.restart_s <= left_s - self.tick_s) | (
            total <= self.tick_s
        )


@dataclass(frozen=True, eq=False)
class Costs:
    """Expected dollars of the rest, [state, work left], of a job that waits, runs on spot, or on demand."""

    waiting: FloatArray
    on_spot: FloatArray
    on_demand: FloatArray


def slack_rules(
    job: DeadlineJob, hazards: AgedHazards, spot_usd_per_hour: float, on_demand_usd_per_hour: float
) -> SlackRules:
    """The thresholds of a job.

    Losses of unsaved work count by half their most. The time to find them grows with the square of the job's ticks.
    """
    grid, prices = Grid.of(job, hazards.tick_s), (spot_usd_per_hour, on_demand_usd_per_hour)
    has_one = np.arange(2 * hazards.ages) >= hazards.ages
    late = np.where(grid.work_s > 0, LATE_USD, 0.0) + np.zeros((len(has_one), 1))
    costs, ticks = Costs(late, late, late), math.ceil(job.deadline_s / hazards.tick_s)
    thresholds = np.zeros((3, len(has_one), ticks + 1))
    for k in range(1, ticks + 1):
        costs, thresholds[:, :, k] = tick_before(grid, hazards.transitions, has_one, costs, k * hazards.tick_s, prices)
    points = np.unique([*np.arange(0, ticks, max(round(POINT_APART_S / hazards.tick_s), 1)), 1, ticks])
    return SlackRules(hazards, points * hazards.tick_s, thresholds[:, :, points])


def tick_before(
    grid: Grid, chance: FloatArray, has_one: BoolArray, after: Costs, left_s: float, prices: tuple[float, float]
) -> tuple[Costs, FloatArray]:
    """Costs with one tick more left, and the threshold of each running and state."""
    d, on_spot, on_demand = grid.job.restart_s, *prices
    lost = grid.at(after.waiting, grid.job.loss_s / 2)
    waits = np.where(grid.can_wait(left_s), chance @ after.waiting, LATE_USD)
    next_spot = chance @ np.where(has_one[:, None], after.on_spot, lost)
    next_demand = chance @ after.on_demand

    def spot(start_s: float) -> FloatArray:
        cost = on_spot * grid.paid_h(start_s) + grid.at(next_spot, start_s - grid.tick_s)
        return np.where(grid.can_spot(left_s, start_s) & has_one[:, None], cost, LATE_USD)

    def demand(start_s: float) -> FloatArray:
        cost = on_demand * grid.paid_h(start_s) + grid.at(next_demand, start_s - grid.tick_s)
        return np.where(grid.work_s + start_s <= left_s, cost, LATE_USD)

    ways = {WAITING: (spot(d), demand(d)), ON_SPOT: (spot(0.0), demand(d)), ON_DEMAND: (spot(d), demand(0.0))}
    ruled = [by_rule(grid, np.where(has_one[:, None], s, waits), o, left_s) for s, o in ways.values()]
    return Costs(*(cost for cost, _ in ruled)), np.stack([threshold for _, threshold in ruled])


def by_rule(grid: Grid, free: FloatArray, demand: FloatArray, left_s: float) -> tuple[FloatArray, FloatArray]:
    """Costs of the threshold that regrets least, and that slack: on demand from some work left on."""
    gain = np.clip(free - demand, -LARGE_REGRET, LARGE_REGRET) * ((grid.work_s > 0) & (grid.work_s <= left_s))
    regret = summed_before(np.maximum(gain, 0)) + summed_from(np.maximum(-gain, 0))
    first = regret.argmin(axis=1)
    is_demand = (np.arange(len(grid.work_s)) >= first[:, None]) | (free >= LATE_USD)
    cost = np.minimum(np.where(is_demand, demand, free), LATE_USD)
    cost[:, 0] = 0.0
    return cost, np.where(first == len(grid.work_s), 0.0, left_s - (first - 0.5) * grid.step_s)


def summed_before(values: AnyArray) -> FloatArray:
    """The sum of what comes before each place, along rows; one place more."""
    return np.concatenate([np.zeros((len(values), 1)), np.cumsum(values, axis=1)], axis=1)


def summed_from(values: AnyArray) -> FloatArray:
    """The sum from each place to the end, along rows; one place more."""
    return summed_before(values[:, ::-1])[:, ::-1]
