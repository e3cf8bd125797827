"""Two simple policies on ticks of availability, to tell whether generated traces cost what measured ones do.

Greedy takes spot whenever it is there. Uniform Progress (Can't Be Late, NSDI 24) also rents on demand while it is
behind the straight line to the deadline, until it is two overheads ahead. Both go on demand for good when waiting one
tick more would be late. Prices are of one V100: p3.2xlarge in us-west-2, on demand and spot.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from gpufleet.domain.arrays import AnyArray, BoolArray, FloatArray
from gpufleet.units import HOUR

SPOT_USD_PER_HOUR, ON_DEMAND_USD_PER_HOUR = 0.9731, 3.06
NONE, SPOT, ON_DEMAND = 0, 1, 2
USD_PER_HOUR = np.array([0.0, SPOT_USD_PER_HOUR, ON_DEMAND_USD_PER_HOUR])
WORK_S = 48 * HOUR
CELLS = [(overhead * HOUR, deadline * HOUR) for overhead in (0.02, 0.20) for deadline in (52, 70, 92)]
POLICIES = ("greedy", "uniform progress")
DONE_S = 1e-6


@dataclass
class Jobs:
    """Jobs that run side by side, one for each trace."""

    overhead_s: float
    deadline_s: float
    num: int
    left_s: FloatArray = field(init=False)
    start_left_s: FloatArray = field(init=False)
    rented: AnyArray = field(init=False)
    is_locked: BoolArray = field(init=False)
    usd: FloatArray = field(init=False)
    end_s: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        self.left_s, self.start_left_s = np.full(self.num, WORK_S), np.zeros(self.num)
        self.rented, self.is_locked = np.zeros(self.num, dtype=np.int64), np.zeros(self.num, dtype=bool)
        self.usd, self.end_s = np.zeros(self.num), np.full(self.num, np.inf)

    def lock(self, now_s: float, tick_s: float) -> None:
        """On demand for good where one more tick without progress, and a start, would be too late."""
        self.is_locked |= self.deadline_s - now_s - tick_s < self.left_s + 2 * self.overhead_s + tick_s

    def wanted(self, policy: str, now_s: float, is_up: BoolArray) -> AnyArray:
        """What each job rents in this tick."""
        choice = np.where(is_up, SPOT, NONE)
        if policy == "uniform progress":
            done_s, line = WORK_S - self.left_s, WORK_S / self.deadline_s
            choice = np.where(~is_up & (done_s < now_s * line), ON_DEMAND, choice)
            is_ahead = done_s >= (now_s + 2 * self.overhead_s) * line
            choice = np.where((self.rented == ON_DEMAND) & ~is_ahead, ON_DEMAND, choice)
        return np.where(self.is_locked, ON_DEMAND, choice)

    def run(self, choice: AnyArray, now_s: float, tick_s: float) -> None:
        """One tick: a machine of another kind starts anew, and is paid for until the work is done."""
        is_open = self.left_s > DONE_S
        is_new = (choice != self.rented) & (choice != NONE)
        start_s = np.where(choice == NONE, 0.0, np.where(is_new, self.overhead_s, self.start_left_s))
        used_s = np.where(is_open & (choice != NONE), np.minimum(start_s + self.left_s, tick_s), 0.0)
        self.usd += USD_PER_HOUR[choice] * used_s / HOUR
        self.left_s = self.left_s - np.maximum(used_s - start_s, 0.0)
        self.start_left_s = np.maximum(start_s - used_s, 0.0)
        self.end_s = np.where(is_open & (self.left_s <= DONE_S), now_s + used_s, self.end_s)
        self.rented = choice


def cost_and_lateness(up: BoolArray, tick_s: float, policy: str, overhead_s: float, deadline_s: float) -> AnyArray:
    """USD and seconds after the deadline of a job on each trace   [2, trace]; on demand alone after a trace's end."""
    jobs, tick = Jobs(overhead_s, deadline_s, len(up)), 0
    while np.any(jobs.left_s > DONE_S):
        is_up = up[:, tick] if tick < up.shape[1] else np.zeros(len(up), dtype=bool)
        jobs.rented = np.where((jobs.rented == SPOT) & ~is_up, NONE, jobs.rented)
        jobs.lock(tick * tick_s, tick_s)
        jobs.run(jobs.wanted(policy, tick * tick_s, is_up), tick * tick_s, tick_s)
        tick += 1
    return np.stack([jobs.usd, np.maximum(jobs.end_s - deadline_s, 0.0)])


def windows(up: BoolArray, num_ticks: int, step: int) -> BoolArray:
    """All stretches of so many ticks that begin every `step` of them   [stretch, tick]."""
    return np.lib.stride_tricks.sliding_window_view(up, num_ticks)[::step]
