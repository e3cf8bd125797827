"""A second play of a scaled service, machine by machine and parcel by parcel; it shares no code with the first.

A service of one kind of machine as `tests.unit.simulate.scaled_services` has it. Requests of a tick that finds no
queue are served in it; others wait in order, cut into parcels, and what is served in a tick leaves evenly over it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

DAY_S, PARCELS = 86_400, 10
RATES, IN_TIME = (0.01, 4.0, 8.0, 9.0, 10.0), (1.0, 0.99, 0.95, 0.30, 0.0)
MOST_PER_S, PLANNED_PER_S, LIMIT_S = 10.0, 8.0, 1.0
Law = Callable[[float, float, int], int]


@dataclass
class Machine:
    """From the order to the end of its last request, in ticks."""

    ready_at: int
    gone_at: float = math.inf


@dataclass
class Service:
    """Machines that start within so many ticks and drain in one, at most so many of them."""

    tick_s: float
    start_ticks: int
    drain_ticks: int
    most: int
    machines: list[Machine] = field(default_factory=list)
    stopped: list[Machine] = field(default_factory=list)

    def scale(self, wanted: int, tick: int) -> None:
        """Order machines, or stop them: the youngest that still start first, those that serve drain."""
        while len(self.machines) < wanted:
            self.machines.append(Machine(tick + self.start_ticks))
        while len(self.machines) > wanted:
            last = max(self.machines, key=lambda m: m.ready_at)
            self.machines.remove(last)
            if last.ready_at <= tick - 1:
                last.gone_at = tick + self.drain_ticks
                self.stopped.append(last)


@dataclass
class Told:
    """Machine-seconds and the share in time of each whole day."""

    machine_s: float
    days: list[float]

    @property
    def worst(self) -> float:
        return min(self.days)


def told(service: Service, arrivals: Sequence[float], law: Law, first: int, hopeless: float = 0.0) -> Told:
    """What becomes of requests under a law, which sees the time, the rate and the machines it has.

    A day of fewer in time than `hopeless` ends it.
    """
    service.machines = [Machine(0) for _ in range(first)]
    queue: deque[tuple[float, int, float]] = deque()
    waiting = 0.0
    came_by_day, kept_by_day, paid, day = [0.0] * 400, [0.0] * 400, 0, 0
    for tick, came in enumerate(arrivals):
        if tick and tick * service.tick_s % DAY_S == 0 and kept_by_day[day] < hopeless * came_by_day[day]:
            arrivals = arrivals[:tick]
            break
        ready = sum(m.ready_at <= tick for m in service.machines)
        service.stopped = [m for m in service.stopped if m.gone_at > tick]
        paid += len(service.machines) + len(service.stopped)
        room = ready * MOST_PER_S * service.tick_s
        day = int(tick * service.tick_s // DAY_S)
        came_by_day[day] += came
        done = min(waiting + came, room)
        each = done / ready / service.tick_s if ready else 0.0
        if not queue and came <= room:
            kept_by_day[day] += came * in_time(each, 0.0)
        elif came or queue:
            queue.extend((came / PARCELS, day, (tick + (i + 0.5) / PARCELS) * service.tick_s) for i in range(PARCELS))
            waiting = serve(queue, done, waiting + came, tick * service.tick_s, service.tick_s, each, kept_by_day)
        service.scale(min(law((tick + 1) * service.tick_s, came / service.tick_s, len(service.machines)), service.most),
                      tick + 1)  # fmt: skip
    days = int(len(arrivals) * service.tick_s // DAY_S)
    return Told(paid * service.tick_s, [kept_by_day[d] / came_by_day[d] for d in range(days)])


def serve(
    queue: deque[tuple[float, int, float]],
    done: float,
    waiting: float,
    since_s: float,
    tick_s: float,
    each: float,
    kept: list[float],
) -> float:
    """Take so much of the queue, evenly over a tick; who was in time counts on the day he came. What waits then."""
    gone = 0.0
    while queue and done - gone > 1e-9:
        amount, day, came_s = queue.popleft()
        taken = min(amount, done - gone)
        leaves_s = since_s + (gone + taken / 2) / done * tick_s
        kept[day] += taken * in_time(each, max(leaves_s - came_s, 0.0))
        gone += taken
        if amount - taken > 1e-9:
            queue.appendleft((amount - taken, day, came_s))
    if waiting - gone < 1e-6:
        queue.clear()
    return waiting - gone if queue else 0.0


def in_time(rate_per_s: float, wait_s: float) -> float:
    """Straight lines between the points of a machine, less what a wait takes of the limit."""
    left = max(1 - wait_s / LIMIT_S, 0.0)
    for (x0, y0), (x1, y1) in pairwise(zip(RATES, IN_TIME, strict=True)):
        if rate_per_s <= x1:
            return left * (y0 + (y1 - y0) * max(rate_per_s - x0, 0.0) / (x1 - x0))
    return 0.0


def static(replicas: int) -> Law:
    """Always as many."""
    return lambda time_s, rate, machines: replicas


def by_hour(day: int, night: int) -> Law:
    """As many from six to ten at night, others else."""
    return lambda time_s, rate, machines: day if 6 <= time_s / 3600 % 24 < 22 else night


def hpa_on_rate(target_ratio: float, window_s: float, tick_s: float) -> Law:
    """Two minutes' rate over a target, a tenth of tolerance; up to double or four more, down to the window's most."""
    rates: list[float] = []
    said: list[tuple[float, int]] = []

    def law(time_s: float, rate: float, machines: int) -> int:
        rates.append(rate)
        recent = rates[-max(round(120 / tick_s), 1) :]
        total = sum(recent) / len(recent) / (target_ratio * PLANNED_PER_S)
        near = machines > 0 and abs(total / machines - 1) <= 0.1 + 1e-9
        wanted = machines if near else math.ceil(total - 1e-9)
        if not said:
            said.append((time_s, machines))
        said.append((time_s, wanted))
        said[:] = [(at, number) for at, number in said if at > time_s - window_s or at == time_s]
        highest = max(number for _, number in said)
        if wanted > machines:
            return min(wanted, max(2 * machines, machines + 4))
        return max(min(machines, highest), 1)

    return law
