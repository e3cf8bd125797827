"""A service whose replicas come and go, played tick by tick: a fluid queue over closed forms of one replica.

Requests of a tick join a first-come-first-served queue, ready replicas take from it what they sustain, and a policy
says at the end of the tick how many replicas it wants. A new one is paid at once and ready after the cold start; one
that stops takes no more requests and is paid until those that it has are answered. The time that a request waits
follows from the cumulated arrivals and departures, whatever happened in between; what it takes after that is the
closed form's at the rate of its replica.
"""

from __future__ import annotations

import math
from collections import deque
from functools import cached_property
from typing import Protocol

import numpy as np

from gpufleet.domain.arrays import FloatArray, IntArray
from gpufleet.performance.serving import HIGHEST_LOAD_RATIO
from gpufleet.records import dataclass

TICK_S = 15.0
SIGNAL_STEPS = 1024
PARTS_OF_A_TICK = (0.25, 0.75)
NONE_AT_ALL = 1e-9


@dataclass(frozen=True, eq=False)
class Promise:
    """A limit on every single request, and the share of requests that keeps it.

    `within` is the share [wait, column]: rows are waits before the replica from 0 to the limit, one after the other as
    far apart, columns those of the replica's rates. A limit on the time per token has one row: waits do not touch it.
    """

    limit_s: float
    within: FloatArray

    def share(self, column: FloatArray, wait_s: FloatArray) -> FloatArray:
        """The share that keeps the limit at fractional columns, after waits."""
        rows = len(self.within) - 1
        row = np.clip(wait_s / self.limit_s, 0.0, 1.0) * rows
        at, beside = np.minimum(row.astype(np.int64), max(rows - 1, 0)), np.minimum(rows, 1)
        over = row - at
        left = np.minimum(column.astype(np.int64), self.within.shape[1] - 2)
        right = column - left

        def along(rows_at: IntArray) -> FloatArray:
            return np.asarray(self.within[rows_at, left] * (1 - right) + self.within[rows_at, left + 1] * right)

        kept = along(at) * (1 - over) + along(at + beside) * over
        return np.asarray(kept if rows else np.where(np.isfinite(wait_s), kept, 0.0))


@dataclass(frozen=True, eq=False)
class ClassPromises:
    """All limits of one class of requests, and which share of the requests is of that class."""

    request_ratio: float
    promises: tuple[Promise, ...]


@dataclass(frozen=True, eq=False)
class Replica:
    """What one replica does at a rate: columns of rising rates, the first of which is next to none.

    `batch` requests run at a time of at most `largest_batch`, `waiting` wait for their prompt's turn, a request takes
    `latency_s`. `sustained_per_s` is the most that it carries, whatever the limits.
    """

    rate_per_s: FloatArray
    batch: FloatArray
    waiting: FloatArray
    latency_s: FloatArray
    largest_batch: float
    sustained_per_s: float
    classes: tuple[ClassPromises, ...]

    def column(self, rate_per_s: FloatArray) -> FloatArray:
        """The fractional column of a rate."""
        return np.asarray(np.interp(rate_per_s, self.rate_per_s, np.arange(len(self.rate_per_s))))

    def share_within(self, rate_per_s: FloatArray, wait_s: FloatArray) -> FloatArray:
        """The share of requests that keep their limits at a rate per replica, after a wait.

        Of a class the limit that fewest keep counts: who is late to the first token is late to the last.   [0..1]
        """
        column = self.column(np.asarray(rate_per_s, dtype=np.float64))
        waits = np.asarray(wait_s, dtype=np.float64)
        kept = np.zeros(np.broadcast(column, waits).shape)
        for c in self.classes:
            kept += c.request_ratio * np.min([p.share(column, waits) for p in c.promises], axis=0)
        return kept

    def rate_within(self, share: float) -> float:
        """The highest rate at which this share of requests keeps the limits, without a wait; 0: none   [1/s]."""
        shares = self.share_within(self.rate_per_s, np.zeros(len(self.rate_per_s)))
        broken = np.flatnonzero(shares < share)
        if not len(broken):
            return self.sustained_per_s
        last = int(broken[0])
        if last == 0:
            return 0.0
        rates = np.linspace(self.rate_per_s[last - 1], self.rate_per_s[last], SIGNAL_STEPS)
        kept = np.flatnonzero(self.share_within(rates, np.zeros(SIGNAL_STEPS)) >= share)
        return min(float(rates[kept[-1]]), self.sustained_per_s)


@dataclass(frozen=True, eq=False)
class Service:
    """Replicas of one kind behind a queue: how long a start takes, and between how many there may be."""

    replica: Replica
    cold_start_s: float
    min_replicas: int = 0
    max_replicas: int = 1000
    tick_s: float = TICK_S
    target_ratio: float = 0.95
    copies: int = 1

    @property
    def lead_ticks(self) -> int:
        """Whole ticks that a start takes."""
        return math.ceil(self.cold_start_s / self.tick_s - NONE_AT_ALL)

    @property
    def drain_ticks(self) -> int:
        """Whole ticks until a busy replica has answered what it has."""
        busy = float(np.interp(self.planned_per_s, self.replica.rate_per_s, self.replica.latency_s))
        return math.ceil(busy / self.tick_s)

    @cached_property
    def kept_per_s(self) -> float:
        """The rate per replica up to which the target share keeps its limits; what is sustained where none does."""
        return self.replica.rate_within(self.target_ratio) or self.replica.sustained_per_s

    @property
    def planned_per_s(self) -> float:
        """The rate that a plan gives a replica: what keeps the limits, and at most the load that plans allow."""
        return min(self.kept_per_s, HIGHEST_LOAD_RATIO * self.replica.sustained_per_s)

    @property
    def planned_batch(self) -> float:
        """What a replica runs at that rate."""
        return float(np.interp(self.planned_per_s, self.replica.rate_per_s, self.replica.batch))

    def replicas_for(self, rate_per_s: float) -> int:
        """The fewest replicas that keep the limits at a rate, between least and most."""
        needed = math.ceil(rate_per_s / self.planned_per_s - NONE_AT_ALL)
        return min(max(needed, self.min_replicas), self.max_replicas)


class Seen:
    """What a policy sees at the end of a tick: what an engine and its gateway count, of ready replicas alone.

    `rate_per_s` arrivals; `queue` requests that wait in front of the replicas; `batch` and `waiting` requests of one
    replica; `kv_ratio` of its cache in use; `busy_ratio` of the time in which its GPU has anything to do (what
    nvidia-smi calls utilisation); `load_ratio` of what it sustains; `kept_ratio` of the requests that
    keep their limits, as a histogram of the engine tells.
    """

    __slots__ = (
        "batch",
        "busy_ratio",
        "kept_ratio",
        "kv_ratio",
        "load_ratio",
        "queue",
        "rate_per_s",
        "ready",
        "starting",
        "time_s",
        "waiting",
    )

    time_s: float
    rate_per_s: float
    ready: int
    starting: int
    queue: float
    batch: float
    waiting: float
    kv_ratio: float
    busy_ratio: float
    load_ratio: float
    kept_ratio: float

    @property
    def replicas(self) -> int:
        """Replicas that are ready or on their way."""
        return self.ready + self.starting

    @property
    def waiting_in_all(self) -> float:
        """Requests that wait, in replicas and in front of them."""
        return self.queue + self.waiting * self.ready


class Policy(Protocol):
    """Says at the end of every tick how many replicas there should be."""

    def decide(self, seen: Seen) -> int:
        """Replicas that are wanted; the service keeps them between its least and its most."""


@dataclass(frozen=True, eq=False)
class Played:
    """What came of a policy, tick by tick: `paid` replicas start, are ready or drain.

    `served` requests left the queue in a tick, `queue` waits at its end, `kept` of its arrivals keep their limits,
    `cold` of them found no ready replica.
    """

    tick_s: float
    start_s: float
    arrivals: FloatArray
    paid: IntArray
    ready: IntArray
    served: FloatArray
    queue: FloatArray
    kept: FloatArray
    cold: FloatArray
    scale_ups: int
    scale_downs: int

    @property
    def replica_s(self) -> float:
        """Seconds of replicas that are paid."""
        return float(self.paid.sum()) * self.tick_s


class Fleet:
    """Replicas that start, are ready and drain, with the ticks at which that changes."""

    __slots__ = ("drain_ticks", "draining", "lead_ticks", "num_draining", "num_starting", "ready", "starting")

    def __init__(self, ready: int, lead_ticks: int, drain_ticks: int) -> None:
        self.ready, self.num_starting, self.num_draining = ready, 0, 0
        self.lead_ticks, self.drain_ticks = lead_ticks, drain_ticks
        self.starting: deque[list[int]] = deque()
        self.draining: deque[tuple[int, int]] = deque()

    def advance(self, tick: int) -> None:
        """Those whose start, or last request, is over at the beginning of a tick."""
        while self.starting and self.starting[0][0] <= tick:
            number = self.starting.popleft()[1]
            self.num_starting -= number
            self.ready += number
        while self.draining and self.draining[0][0] <= tick:
            self.num_draining -= self.draining.popleft()[1]

    def scale_to(self, wanted: int, tick: int) -> int:
        """Start or stop replicas from a tick on: those that are still starting stop first, the youngest first."""
        more = wanted - self.ready - self.num_starting
        if more > 0:
            self.starting.append([tick + self.lead_ticks, more])
            self.num_starting += more
        else:
            self.stop(-more, tick)
        return more

    def stop(self, fewer: int, tick: int) -> None:
        """Stop as many."""
        while fewer and self.starting:
            last = self.starting[-1]
            number = min(fewer, last[1])
            last[1] -= number
            self.num_starting -= number
            fewer -= number
            if not last[1]:
                self.starting.pop()
        if fewer:
            self.ready -= fewer
            self.num_draining += fewer
            self.draining.append((tick + self.drain_ticks, fewer))


@dataclass(frozen=True, eq=False)
class Signals:
    """Figures of one replica at equal steps of the rate, as lists: looked up once a tick."""

    per_step: float
    batch: list[float]
    waiting: list[float]
    busy: list[float]
    kept: list[float]
    shortest_limit_s: float

    @classmethod
    def of(cls, replica: Replica) -> Signals:
        """From next to no rate to what is sustained; busy where at least one of a Poisson number is there."""
        rates = np.linspace(0.0, replica.sustained_per_s, SIGNAL_STEPS + 1)
        grid, shown = replica.rate_per_s, np.minimum(replica.batch, replica.largest_batch)
        batch = np.where(rates < grid[0], rates / grid[0] * shown[0], np.interp(rates, grid, shown))
        waiting = np.interp(rates, grid, replica.waiting)
        busy = -np.expm1(-batch)
        kept = replica.share_within(rates, np.zeros(len(rates)))
        limits = [p.limit_s for c in replica.classes for p in c.promises if len(p.within) > 1]
        return cls(
            SIGNAL_STEPS / replica.sustained_per_s,
            batch=batch.tolist(),
            waiting=waiting.tolist(),
            busy=busy.tolist(),
            kept=kept.tolist(),
            shortest_limit_s=min(limits, default=math.inf),
        )


@dataclass(frozen=True, eq=False)
class Bound:
    """The most replicas times ticks of which a play is of any use, and how many it still needs at the least.

    `least_rest[i]` are needed from the tick `i * every` on, whatever a policy does.
    """

    most: float
    least_rest: FloatArray
    every: int

    def is_passed(self, paid: int, tick: int) -> bool:
        """Whether what was paid before a tick, with what is needed from it on, is above the most."""
        return paid + float(self.least_rest[tick // self.every]) > self.most


UNBOUND = Bound(math.inf, np.zeros(1), 10**18)


def play(service: Service, arrivals: FloatArray, policy: Policy, initial: int, start_s: float = 0.0) -> Played:
    """Requests of each tick against a policy that begins with `initial` ready replicas."""
    played = play_within(UNBOUND, service, arrivals, policy, initial, start_s)
    assert played is not None
    return played


def play_within(
    bound: Bound, service: Service, arrivals: FloatArray, policy: Policy, initial: int, start_s: float = 0.0
) -> Played | None:
    """The same, given up as soon as it is of no use."""
    number, tick_s, replica = len(arrivals), service.tick_s, service.replica
    fleet = Fleet(initial, service.lead_ticks, service.drain_ticks)
    signals, seen = Signals.of(replica), Seen()
    room_each, largest = replica.sustained_per_s * tick_s, replica.largest_batch
    least, most, steps = service.min_replicas, service.max_replicas, signals.per_step / tick_s
    paid, ready, served, queues = [0] * number, [0] * number, [0.0] * number, [0.0] * number
    queue, ups, downs, paid_so_far, next_look = 0.0, 0, 0, 0, bound.every
    for tick, came in enumerate(arrivals.tolist()):
        if tick == next_look:
            paid_so_far, next_look = paid_so_far + sum(paid[tick - bound.every : tick]), tick + bound.every
            if bound.is_passed(paid_so_far, tick):
                return None
        fleet.advance(tick)
        up = fleet.ready
        work, room = queue + came, up * room_each
        done = work if work < room else room
        queue = work - done
        ready[tick], served[tick], queues[tick] = up, done, queue
        paid[tick] = up + fleet.num_starting + fleet.num_draining
        step = int(done / up * steps) if up else 0
        step = step if step < SIGNAL_STEPS else SIGNAL_STEPS
        seen.time_s, seen.rate_per_s = start_s + (tick + 1) * tick_s, came / tick_s
        seen.ready, seen.starting, seen.queue = up, fleet.num_starting, queue
        seen.batch = batch = signals.batch[step]
        seen.waiting, seen.busy_ratio = signals.waiting[step], signals.busy[step]
        seen.kv_ratio, seen.load_ratio = batch / largest, (done / room if up else 0.0)
        late = queue * tick_s / room / signals.shortest_limit_s if up else 1.0
        seen.kept_ratio = signals.kept[step] * (1 - late) if late < 1 else 0.0
        wanted = policy.decide(seen)
        wanted = least if wanted < least else most if wanted > most else wanted
        if wanted != up + fleet.num_starting:
            more = fleet.scale_to(wanted, tick + 1)
            ups, downs = ups + (more > 0), downs + (more < 0)
    counted = np.array(ready, dtype=np.int64), np.array(served), np.array(queues)
    return settled(service, arrivals, (np.array(paid, dtype=np.int64), *counted), (ups, downs), start_s)


def settled(
    service: Service,
    arrivals: FloatArray,
    counts: tuple[IntArray, IntArray, FloatArray, FloatArray],
    events: tuple[int, int],
    start_s: float,
) -> Played:
    """The play with what it meant for its requests."""
    paid, ready, served, queue = counts
    each = np.divide(served, ready * service.tick_s, out=np.zeros(len(served)), where=ready > 0)
    kept = kept_requests(service, arrivals, served, each)
    cold = np.where(ready == 0, arrivals, 0.0)
    return Played(service.tick_s, start_s, arrivals, paid, ready, served, queue, kept, cold, *events)


def kept_requests(service: Service, arrivals: FloatArray, served: FloatArray, each_per_s: FloatArray) -> FloatArray:
    """Requests of each tick that keep their limits, at two moments of the tick."""
    shares = []
    for part in PARTS_OF_A_TICK:
        wait_s = waits_s(service.tick_s, arrivals, served, part)
        begun = np.minimum((np.arange(len(arrivals)) + part) + wait_s / service.tick_s, len(arrivals) - 1.0)
        rates = each_per_s[begun.astype(np.int64)]
        shares.append(service.replica.share_within(rates, wait_s))
    return np.asarray(arrivals * np.mean(shares, axis=0)) if len(arrivals) else arrivals


def waits_s(tick_s: float, arrivals: FloatArray, served: FloatArray, part: float) -> FloatArray:
    """How long requests wait in front of replicas that come when this part of a tick is over; inf: beyond the end.

    First come, first served: what came so far leaves when as much has left   [s].
    """
    edges = np.arange(len(arrivals) + 1, dtype=np.float64)
    left = np.concatenate([[0.0], np.cumsum(served)])
    came = np.concatenate([[0.0], np.cumsum(arrivals)])[:-1] + part * arrivals
    leaves = np.where(came > left[-1] * (1 + NONE_AT_ALL), np.inf, np.interp(came, left, edges))
    return np.asarray(np.maximum(leaves - (edges[:-1] + part), 0.0) * tick_s)
