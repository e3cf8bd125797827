"""Thresholds of slack that cost a job with a deadline least, by dynamic programming backwards from the deadline.

The market is a chain of states, with a machine or without one and for how long (`AgedHazards`). For every time left,
work left and state, the expected cost of the rest is the least of: a tick on spot, a tick on demand, a tick of waiting.
What matters of that is the slack at which on demand begins to be the least: the threshold. It is set where choosing by
slack alone regrets least against choosing freely, and the costs before it are those of the rule.
"""

from __future__ import annotations

import math

import numpy as np

from gpufleet.domain.arrays import AnyArray, FloatArray, IntArray
from gpufleet.domain.spot import ON_DEMAND, ON_SPOT, WAITING, AgedHazards, DeadlineJob, SlackRules
from gpufleet.records import dataclass
from gpufleet.units import HOUR

STEPS_PER_TICK = 4
POINT_APART_S = 2 * HOUR
LATE_USD = 1e7
LARGE_REGRET = 1e3


@dataclass(frozen=True, eq=False)
class Shift:
    """Where costs are read when more work or less is left: between two steps in a straight line."""

    low: IntArray
    high: IntArray
    share: float

    @classmethod
    def by(cls, steps: float, num_steps: int) -> Shift:
        """So many steps further, of which the last is the furthest."""
        whole, last = math.floor(steps), num_steps - 1
        low = np.clip(np.arange(num_steps) + whole, 0, last)
        return cls(low, np.minimum(low + 1, last), steps - whole)

    def of(self, cost: FloatArray, num_steps: int) -> FloatArray:
        """Costs there, of the first so many steps."""
        low, high = (cost.take(at[:num_steps], axis=-1) for at in (self.low, self.high))
        low *= 1 - self.share
        high *= self.share
        low += high
        return low


@dataclass(frozen=True, eq=False)
class Tick:
    """A tick on a machine, by the work left: all there is to do with a start, hours that are paid, and what is left.

    `free_s` is the time from when on demand still ends in time, begun after a tick without any progress and a loss.
    """

    total_s: FloatArray
    paid_h: FloatArray
    after: Shift
    free_s: FloatArray


@dataclass(frozen=True, eq=False)
class Grid:
    """Work left in even steps, and what a tick makes of it, which begins with a start or goes on."""

    step_s: float
    work_s: FloatArray
    lost: Shift
    begun: Tick
    going: Tick

    @classmethod
    def of(cls, job: DeadlineJob, slowest_restart_s: float, tick_s: float) -> Grid:
        """Enough steps for the work and the starts and losses that add to it."""
        step_s = tick_s / STEPS_PER_TICK
        most_s = job.work_s + 2 * (job.restart_s + job.loss_s) + tick_s
        work_s = np.arange(math.ceil(most_s / step_s) + 1, dtype=np.float64) * step_s
        lost = Shift.by(job.loss_s / 2 / step_s, len(work_s))
        begun, going = (
            tick_of(work_s, start_s, work_s + lost_s + slowest_restart_s + tick_s, tick_s, step_s)
            for start_s, lost_s in ((job.restart_s, 0.0), (0.0, job.loss_s))
        )
        return cls(step_s, work_s, lost, begun, going)


def tick_of(work_s: FloatArray, start_s: float, free_s: FloatArray, tick_s: float, step_s: float) -> Tick:
    """A tick that begins with a start."""
    total_s = work_s + start_s
    paid_h = np.minimum(total_s, tick_s) / HOUR
    return Tick(total_s, paid_h, Shift.by((start_s - tick_s) / step_s, len(work_s)), free_s)


def slack_rules(
    job: DeadlineJob,
    hazards: AgedHazards,
    spot_usd_per_hour: float,
    on_demand_usd_per_hour: float,
    slowest_restart_s: float | None = None,
) -> SlackRules:
    """The thresholds of a job above the net of `NeverLate`, which counts on the slowest start, if any is named.

    Losses of unsaved work count by half their most. The time to find them grows with the square of the job's ticks.
    """
    slowest_s = job.restart_s if slowest_restart_s is None else slowest_restart_s
    grid, prices = Grid.of(job, slowest_s, hazards.tick_s), (spot_usd_per_hour, on_demand_usd_per_hour)
    chance, ticks = hazards.transitions, math.ceil(job.deadline_s / hazards.tick_s)
    costs = np.zeros((3, len(chance), len(grid.work_s)))
    costs[:] = np.where(grid.work_s > 0, LATE_USD, 0.0)
    thresholds = np.zeros((3, len(chance), ticks + 1))
    for k in range(1, ticks + 1):
        costs, thresholds[:, :, k] = tick_before(grid, chance, costs, k * hazards.tick_s, prices)
    points = np.unique([*np.arange(0, ticks, max(round(POINT_APART_S / hazards.tick_s), 1)), 1, ticks])
    return SlackRules(hazards, points * hazards.tick_s, thresholds[:, :, points])


def straight_rules(job: DeadlineJob, tick_s: float, slack_s: FloatArray) -> SlackRules:
    """Thresholds that are straight lines from no time left to all of it, whatever the age: [running, has one, end]."""
    return SlackRules(AgedHazards(tick_s, (), (0.0,), (0.0,)), np.array([0.0, job.deadline_s]), slack_s)


def greedy_rules(job: DeadlineJob, tick_s: float) -> SlackRules:
    """Spot wherever there is one, and else wait: no slack is too little for it, and the net alone goes on demand."""
    return straight_rules(job, tick_s, np.zeros((3, 2, 2)))


def on_demand_rules(job: DeadlineJob, tick_s: float) -> SlackRules:
    """On demand throughout: no slack is as much as the time left."""
    return straight_rules(job, tick_s, np.broadcast_to(np.array([0.0, job.deadline_s]), (3, 2, 2)))


def uniform_rules(job: DeadlineJob, tick_s: float, *, waits_ahead: bool) -> SlackRules:
    """Uniform Progress as slack: behind the line where work left > work x time left / deadline.

        slack < time left x (1 - work / deadline)

    On demand without a spot machine it stays there; beside one it goes back at once, or with `waits_ahead` when it is
    ahead by two starts, of which time left in the line is the less. What is left of a start counts as work here.
    """
    work_s, deadline_s = job.work_s, job.deadline_s
    lead_s = 2 * job.restart_s * work_s / deadline_s
    behind, ahead = (np.array([lead, deadline_s - work_s + lead]) for lead in (0.0, lead_s))
    slack_s = np.zeros((3, 2, 2))
    slack_s[[WAITING, ON_SPOT], 0] = behind
    slack_s[ON_DEMAND, 0] = 0.0, deadline_s
    slack_s[ON_DEMAND, 1] = ahead if waits_ahead else 0.0
    return straight_rules(job, tick_s, slack_s)


def tick_before(
    grid: Grid, chance: FloatArray, after: FloatArray, left_s: float, prices: tuple[float, float]
) -> tuple[FloatArray, FloatArray]:
    """Expected dollars of the rest with one tick more left, and the threshold of each running and state.

    Dollars: [waiting, on spot or on demand, state, work left]. States without a machine come first.
    """
    (on_spot, on_demand), without = prices, len(chance) // 2
    waits = chance @ after[WAITING]
    lost = np.concatenate([grid.lost.of(after[WAITING, :without], len(grid.work_s)), after[ON_SPOT, without:]])
    next_spot, next_demand = chance @ lost, chance @ after[ON_DEMAND]
    free, demand = np.full((2, *after.shape[:2], num_up_to(grid.work_s, left_s)), LATE_USD)
    can_wait = num_up_to(grid.begun.free_s, left_s)
    free[:, :without, :can_wait] = waits[:without, :can_wait]
    for way, tick in ((WAITING, grid.begun), (ON_SPOT, grid.going)):
        steps = num_up_to(tick.free_s, left_s)
        free[way, without:, :steps] = on_spot * tick.paid_h[:steps] + tick.after.of(next_spot[without:], steps)
    free[ON_DEMAND, without:] = free[WAITING, without:]
    for way, tick in ((WAITING, grid.begun), (ON_DEMAND, grid.going)):
        steps = num_up_to(tick.total_s, left_s)
        demand[way, :, :steps] = on_demand * tick.paid_h[:steps] + tick.after.of(next_demand, steps)
    demand[ON_SPOT] = demand[WAITING]
    return by_rule(grid, free, demand, left_s)


def num_up_to(times_s: FloatArray, left_s: float) -> int:
    """How many of times that grow are no longer than what is left."""
    return int(times_s.searchsorted(left_s, side="right"))


def by_rule(grid: Grid, free: FloatArray, demand: FloatArray, left_s: float) -> tuple[FloatArray, FloatArray]:
    """Costs of the threshold that regrets least, and that slack: on demand from some work left on   [way, state].

    More work than time is left is late, whatever is done: costs are those of the steps before.
    """
    gain = np.clip(free[..., 1:] - demand[..., 1:], -LARGE_REGRET, LARGE_REGRET)
    regret = summed_before(np.maximum(gain, 0)) + summed_from(np.maximum(-gain, 0))
    least = regret.argmin(axis=-1)
    first = np.where(least > 0, least + 1, 0)
    steps, all_steps = free.shape[-1], len(grid.work_s)
    is_demand = (np.arange(steps) >= first[..., None]) | (free >= LATE_USD)
    cost = np.full((*free.shape[:-1], all_steps), LATE_USD)
    np.minimum(np.where(is_demand, demand, free), LATE_USD, out=cost[..., :steps])
    cost[..., 0] = 0.0
    return cost, np.where(first == all_steps, 0.0, left_s - (first - 0.5) * grid.step_s)


def summed_before(values: AnyArray) -> FloatArray:
    """The sum of what comes before each place, along rows; one place more."""
    sums = np.zeros((*values.shape[:-1], values.shape[-1] + 1))
    np.cumsum(values, axis=-1, out=sums[..., 1:])
    return sums


def summed_from(values: AnyArray) -> FloatArray:
    """The sum from each place to the end, along rows; one place more."""
    return summed_before(values[..., ::-1])[..., ::-1]
