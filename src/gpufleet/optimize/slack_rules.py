"""Thresholds of slack that cost a job with a deadline least, by dynamic programming backwards from the deadline.

The market is a chain of states, with a machine or without one and for how long (`AgedHazards`). For every time left,
work left and state, the expected cost of the rest is the least of: a tick on spot, a tick on demand, a tick of waiting.
What matters of that is the slack at which on demand begins to be the least: the threshold. It is set where choosing by
slack alone regrets least against choosing freely, and the costs before it are those of the rule.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from gpufleet.domain.arrays import FloatArray, IntArray
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
        low = cost.take(self.low[:num_steps], axis=-1)
        if self.share == 0:
            return low
        high = cost.take(self.high[:num_steps], axis=-1)
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


@dataclass(frozen=True, eq=False)
class Bills:
    """What the tick costs by the work left, on spot and on demand, where it begins with a start or goes on   [USD]."""

    grid: Grid
    begun_spot: FloatArray
    going_spot: FloatArray
    begun_demand: FloatArray
    going_demand: FloatArray

    @classmethod
    def of(cls, grid: Grid, spot_usd_per_hour: float, on_demand_usd_per_hour: float) -> Bills:
        """At a price of each."""
        prices = (spot_usd_per_hour, on_demand_usd_per_hour)
        return cls(grid, *(usd * tick.paid_h for usd in prices for tick in (grid.begun, grid.going)))


class UpTo(NamedTuple):
    """How many steps of work left have times that are no longer than what is left: of the work, and of ticks."""

    work: int
    begun_free: int
    going_free: int
    begun_total: int
    going_total: int


def numbers_up_to(grid: Grid, left_s: FloatArray) -> list[list[int]]:
    """The numbers of `UpTo`, for every time left."""
    begun, going = grid.begun, grid.going
    times = (grid.work_s, begun.free_s, going.free_s, begun.total_s, going.total_s)
    return [each.searchsorted(left_s, side="right").tolist() for each in times]


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
    grid, chance = Grid.of(job, slowest_s, hazards.tick_s), hazards.transitions
    ticks, all_steps = math.ceil(job.deadline_s / hazards.tick_s), len(grid.work_s)
    left_s: FloatArray = np.arange(1, ticks + 1, dtype=np.float64) * hazards.tick_s
    bills = Bills.of(grid, spot_usd_per_hour, on_demand_usd_per_hour)
    costs = np.full((3, len(chance), all_steps), LATE_USD)
    costs[..., 0] = 0.0
    first = np.full((3, len(chance), ticks + 1), all_steps)
    for k, up_to in enumerate(zip(*numbers_up_to(grid, left_s), strict=True), start=1):
        costs, first[:, :, k] = tick_before(bills, chance, costs, UpTo(*up_to))
    points = np.unique([*np.arange(0, ticks, max(round(POINT_APART_S / hazards.tick_s), 1)), 1, ticks])
    at_s, begins = points * hazards.tick_s, first[:, :, points]
    return SlackRules(hazards, at_s, np.where(begins == all_steps, 0.0, at_s - (begins - 0.5) * grid.step_s))


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


def tick_before(bills: Bills, chance: FloatArray, after: FloatArray, steps: UpTo) -> tuple[FloatArray, IntArray]:
    """Expected dollars of the rest with one tick more left, and the first step on demand of each running and state.

    Dollars: [waiting, on spot or on demand, state, work left]. States without a machine come first.
    """
    grid, without = bills.grid, len(chance) // 2
    begun, going = grid.begun.after, grid.going.after
    lost = np.concatenate([grid.lost.of(after[WAITING, :without], after.shape[-1]), after[ON_SPOT, without:]])
    next_spot, next_demand = (chance @ lost)[without:], chance @ after[ON_DEMAND]
    free, demand = np.full((2, *after.shape[:2], steps.work), LATE_USD)
    free[:, :without, : steps.begun_free] = (chance @ after[WAITING])[:without, : steps.begun_free]
    n, m = steps.begun_free, steps.going_free
    free[WAITING, without:, :n] = bills.begun_spot[:n] + begun.of(next_spot, n)
    free[ON_SPOT, without:, :m] = bills.going_spot[:m] + going.of(next_spot, m)
    free[ON_DEMAND, without:] = free[WAITING, without:]
    n, m = steps.begun_total, steps.going_total
    demand[WAITING, :, :n] = bills.begun_demand[:n] + begun.of(next_demand, n)
    demand[ON_DEMAND, :, :m] = bills.going_demand[:m] + going.of(next_demand, m)
    demand[ON_SPOT] = demand[WAITING]
    return by_rule(free, demand, after.shape[-1])


def by_rule(free: FloatArray, demand: FloatArray, all_steps: int) -> tuple[FloatArray, IntArray]:
    """Costs of the threshold that regrets least, and from which step of work left it is on demand   [way, state].

    More work than time is left is late, whatever is done: costs are those of the steps before.
    """
    gain = free[..., 1:] - demand[..., 1:]
    np.minimum(gain, LARGE_REGRET, out=gain)
    np.maximum(gain, -LARGE_REGRET, out=gain)
    gained, regret, later = np.maximum(gain, 0), np.zeros(free.shape), np.zeros(free.shape)
    np.add.accumulate(gained, axis=-1, out=regret[..., 1:])
    gained -= gain
    np.add.accumulate(gained[..., ::-1], axis=-1, out=later[..., 1:])
    regret += later[..., ::-1]
    least = regret.argmin(axis=-1)
    first = least + (least > 0)
    steps = free.shape[-1]
    is_demand = (np.arange(steps) >= first[..., None]) | (free >= LATE_USD)
    cost = np.full((*free.shape[:-1], all_steps), LATE_USD)
    np.minimum(np.where(is_demand, demand, free), LATE_USD, out=cost[..., :steps])
    cost[..., 0] = 0.0
    return cost, first
