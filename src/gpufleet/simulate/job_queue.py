"""Jobs that arrive one after the other and share pools, from event to event: arrivals, ends, maintenance.

Whoever chooses sees what has arrived and how long it is expected to take; how long it takes shows when it ends. A job
that was begun stays on the way that it took. One that pauses repeats its restart, and shares of a GPU do not pause.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple, Protocol

from gpufleet.domain.schedule import SPOT, WHOLE_MILLI, Piece, Pool, Run, ScheduledJob, Way
from gpufleet.errors import Infeasible
from gpufleet.simulate.pool_room import WHOLE, PoolRoom, missing_gpus, watts_of

A_MOMENT_S = 1e-7
"""Events so close are one."""


class Hold(NamedTuple):
    """A job at work: on which way, on which shared GPU, since when, until when as expected and at the latest."""

    job: int
    way: int
    place: int
    since_s: float
    expected_end_s: float
    latest_end_s: float


class QueuePolicy(Protocol):
    """Who runs from a moment on."""

    def choose(self, queue: JobQueue) -> Selection:
        """What is to run from now on; what runs, may pause and is not in it pauses."""
        ...


class JobQueue:
    """What is known at a moment, and what has been.

    `waiting` may begin or go on, `blocked` wait for other jobs, both in the order of arrival. `took_ratio` is how long
    each job takes of what is expected, at most 1 + `spread`; nobody sees it. Pools that are rented are open to jobs
    that cannot run elsewhere, and where there is `burst`.
    """

    def __init__(
        self,
        pools: Sequence[Pool],
        jobs: Sequence[ScheduledJob],
        took_ratio: Sequence[float],
        spread: float,
        burst: bool,
    ) -> None:
        self.pools, self.jobs, self.spread = pools, jobs, spread
        self.number_of = {pool.name: number for number, pool in enumerate(pools)}
        self.ways = [open_ways(job, pools, burst) for job in jobs]
        self.opens_s = [[self._opens_s(job, w) for w in self.ways[j]] for j, job in enumerate(jobs)]
        self.least_milli = [
            min((job.ways[w].milli_gpus for w in self.ways[j]), default=0) for j, job in enumerate(jobs)
        ]
        self.now_s = 0.0
        self.waiting, self.blocked = list[int](), list[int]()
        self.running: dict[int, Hold] = {}
        self.done_s, self.attained_gpu_s = [0.0] * len(jobs), [0.0] * len(jobs)
        self.pieces: list[list[Piece]] = [[] for _ in jobs]
        self.taken: dict[int, Hold] = {}
        self.ended: set[int] = set()
        self._took_ratio, self._end_s = took_ratio, dict[int, float]()
        self._names = {job.name: number for number, job in enumerate(jobs)}
        self._after = [[self._names[name] for name in job.after] for job in jobs]
        self._coming = sorted(range(len(jobs)), key=lambda j: (-jobs[j].earliest_s, -j))

    def _opens_s(self, job: ScheduledJob, w: int) -> float:
        """From when on a way is open: rented ones beside one's own when a job would be late without them."""
        way = job.ways[w]
        if not self.pools[self.number_of[way.pool]].is_rented or all(self._is_rented(other) for other in job.ways):
            return 0.0
        return job.deadline_s - way.work_s * (1 + self.spread)

    def _is_rented(self, way: Way) -> bool:
        return self.pools[self.number_of[way.pool]].is_rented

    def pool_of(self, job: int, way: int) -> int:
        """The pool of a way."""
        return self.number_of[self.jobs[job].ways[way].pool]

    def ways_now(self, job: int) -> list[int]:
        """Ways that a job may take now: the one that it took, else all that are open."""
        if job in self.taken:
            return [self.taken[job].way]
        opens = zip(self.ways[job], self.opens_s[job], strict=True)
        return [w for w, opens_s in opens if opens_s <= self.now_s + A_MOMENT_S]

    def ways_now_or_later(self, job: int) -> list[int]:
        """The same with those that open later."""
        return [self.taken[job].way] if job in self.taken else self.ways[job]

    def left_s(self, job: int, way: int) -> float:
        """How long a job is expected to take from now on   [s]."""
        return self._left_s(job, way, 1.0)

    def _left_s(self, job: int, way: int, ratio: float) -> float:
        how, done_s = self.jobs[job].ways[way], self.done_s[job]
        hold = self.running.get(job)
        if hold is not None:
            return max(hold.expected_end_s - self.now_s, 0.0)
        return max(how.work_s * ratio - done_s, 0.0) + (how.restart_s if self.pieces[job] else 0.0)

    def shortest_left_s(self, job: int) -> float:
        """The same on the fastest of its ways   [s]."""
        return min(self.left_s(job, w) for w in (self.ways_now(job) or self.ways[job]))

    def attained_s(self, job: int) -> float:
        """GPU-time that a job has had   [s]."""
        hold = self.running.get(job)
        now = 0.0 if hold is None else (self.now_s - hold.since_s) * self.jobs[job].ways[hold.way].gpus
        return self.attained_gpu_s[job] + now

    def may_pause(self, job: int, way: int) -> bool:
        """Whether a run may be cut."""
        return self.jobs[job].can_pause and not self.jobs[job].ways[way].is_share

    def has_just_paused(self, job: int) -> bool:
        """Whether maintenance stopped a run at this very moment: it does not go on at once."""
        return bool(self.pieces[job]) and self.pieces[job][-1].end_s >= self.now_s

    def room_at(self, pool: int, moment_s: float, holds: Iterable[Hold]) -> PoolRoom:
        """A pool at a moment at which these are at work."""
        room = PoolRoom(self.pools[pool], missing_gpus(self.pools[pool], moment_s))
        for hold in holds:
            if self.pool_of(hold.job, hold.way) == pool:
                room.take(self.jobs[hold.job].ways[hold.way], hold.place)
        return room

    def hold_from_now(self, job: int, way: int, place: int) -> Hold:
        """A job that begins or goes on now."""
        ends = (self.now_s + self._left_s(job, way, ratio) for ratio in (1.0, 1 + self.spread))
        return Hold(job, way, place, self.now_s, *ends)

    def outlasts_maintenance(self, hold: Hold, beside: Collection[Hold]) -> bool:
        """Whether maintenance that is announced leaves room for a run that cannot pause, at its longest."""
        if self.may_pause(hold.job, hold.way):
            return True
        pool = self.pool_of(hold.job, hold.way)
        for outage in self.pools[pool].outages:
            if self.now_s < outage.start_s < hold.latest_end_s:
                stay = [h for h in beside if h.latest_end_s > outage.start_s and not self.may_pause(h.job, h.way)]
                room = self.room_at(pool, outage.start_s, [*stay, hold])
                if room.free_gpus < 0 or room.free_watts < 0:
                    return False
        return True

    # what happens

    def next_end_s(self) -> float:
        """When the next job ends."""
        return min(self._end_s.values(), default=math.inf)

    def go_on_to(self, moment_s: float) -> None:
        """Time passes: jobs end and arrive, and maintenance makes those pause that it leaves no room."""
        self.now_s = moment_s
        for job in [j for j, end_s in self._end_s.items() if end_s <= moment_s + A_MOMENT_S]:
            self._stop(job, self._end_s[job])
            self.ended.add(job)
        while self._coming and self.jobs[self._coming[-1]].earliest_s <= moment_s + A_MOMENT_S:
            self.blocked.append(self._coming.pop())
        ready = [j for j in self.blocked if all(before in self.ended for before in self._after[j])]
        if ready:
            self.blocked = [j for j in self.blocked if j not in set(ready)]
            self._let_wait(ready)
        self._make_way()

    def _let_wait(self, jobs: Iterable[int]) -> None:
        self.waiting = sorted([*self.waiting, *jobs], key=lambda j: (self.jobs[j].earliest_s, j))

    def _make_way(self) -> None:
        """Those that began last pause first."""
        for pool in (n for n, one in enumerate(self.pools) if one.outages):
            for job in sorted(self.running, key=lambda j: (-self.running[j].since_s, -j)):
                if self.room_at(pool, self.now_s, self.running.values()).free_gpus >= 0:
                    break
                hold = self.running[job]
                if self.pool_of(job, hold.way) == pool and self.may_pause(job, hold.way):
                    self._pause(job)

    def _pause(self, job: int) -> None:
        self._stop(job, self.now_s)
        self._let_wait([job])

    def _stop(self, job: int, end_s: float) -> None:
        hold = self.running.pop(job)
        del self._end_s[job]
        way = self.jobs[job].ways[hold.way]
        lost_s = way.restart_s if self.pieces[job] else 0.0
        self.done_s[job] += max(end_s - hold.since_s - lost_s, 0.0)
        self.attained_gpu_s[job] += (end_s - hold.since_s) * way.gpus
        self.pieces[job].append(Piece(hold.since_s, end_s))

    def take_up(self, selection: Selection) -> None:
        """What was chosen runs, and nothing else."""
        for job in [j for j in self.running if j not in selection.holds]:
            self._pause(job)
        for job, hold in selection.holds.items():
            if job not in self.running:
                left_s = self._left_s(job, hold.way, self._took_ratio[job])
                self.running[job] = self.taken[job] = hold
                self._end_s[job] = self.now_s + left_s
        self.waiting = [j for j in self.waiting if j not in self.running]

    def runs(self) -> list[Run]:
        """When and where every job ran."""
        places = [None if self.taken[j].place == WHOLE else self.taken[j].place for j in range(len(self.jobs))]
        return [Run(job.name, self.taken[j].way, tuple(self.pieces[j]), places[j]) for j, job in enumerate(self.jobs)]


class Selection:
    """Jobs that are to run from now on, taken in one by one while there is room. `wake_s`: ask again by then."""

    def __init__(self, queue: JobQueue, kept: Iterable[int] | None = None) -> None:
        self.queue, self.wake_s = queue, math.inf
        self.holds = {j: queue.running[j] for j in (queue.running if kept is None else kept)}
        self.rooms = [queue.room_at(n, queue.now_s, self.holds.values()) for n in range(len(queue.pools))]
        self.most_milli = max(room.most_milli for room in self.rooms)

    @property
    def is_full(self) -> bool:
        """Whether nobody fits anywhere."""
        return self.most_milli <= 0

    def is_too_large(self, job: int) -> bool:
        """Whether a job certainly fits nowhere."""
        return self.queue.least_milli[job] > self.most_milli

    def fitting(self, job: int, ways: Iterable[int], shut: Collection[int] = ()) -> Hold | None:
        """The first of these ways that has room, outside of pools that are shut."""
        queue = self.queue
        for w in () if queue.has_just_paused(job) else ways:
            pool = queue.pool_of(job, w)
            place = None if pool in shut else self.rooms[pool].place_for(queue.jobs[job].ways[w])
            if place is not None:
                hold = queue.running.get(job) or queue.hold_from_now(job, w, place)
                if job in queue.running or queue.outlasts_maintenance(hold, self.holds.values()):
                    return hold
        return None

    def take(self, hold: Hold) -> None:
        """Let a job in."""
        self.holds[hold.job] = hold
        way = self.queue.jobs[hold.job].ways[hold.way]
        self.rooms[self.queue.pool_of(hold.job, hold.way)].take(way, hold.place)
        self.most_milli = max(room.most_milli for room in self.rooms)

    def start(self, job: int, shut: Collection[int] = ()) -> bool:
        """Let a job in where it is done soonest of where there is room."""
        hold = self.fitting(job, self.queue.ways_now(job), shut)
        if hold is not None:
            self.take(hold)
        return hold is not None


def open_ways(job: ScheduledJob, pools: Sequence[Pool], burst: bool) -> list[int]:
    """Ways that can ever run: one's own first, then those that take least time."""
    by_name = {pool.name: pool for pool in pools}
    found = [w for w, way in enumerate(job.ways) if is_possible(job, way, by_name[way.pool])]
    owned = [w for w in found if not by_name[job.ways[w].pool].is_rented]
    used = found if burst or not owned else owned
    return sorted(used, key=lambda w: (by_name[job.ways[w].pool].is_rented, job.ways[w].work_s, w))


def is_possible(job: ScheduledJob, way: Way, pool: Pool) -> bool:
    """Whether a pool without anybody else runs a job."""
    if pool.kind == SPOT and not job.can_pause:
        return False
    return way.milli_gpus <= pool.gpus * WHOLE_MILLI and watts_of(pool, way) <= pool.power_cap_watts


def replay_queue(queue: JobQueue, policy: QueuePolicy) -> list[Run]:
    """Every job from its arrival to its end, under a policy that is asked at every event."""
    events = [job.earliest_s for job in queue.jobs]
    events += [edge for pool in queue.pools for o in pool.outages for edge in (o.start_s, o.end_s)]
    events += [opens_s for row in queue.opens_s for opens_s in row if 0 < opens_s < math.inf]
    heapq.heapify(events)
    while len(queue.ended) < len(queue.jobs):
        moment_s = min(queue.next_end_s(), events[0] if events else math.inf)
        if math.isinf(moment_s):
            raise Infeasible("jobs wait for ever", found=f"{len(queue.jobs) - len(queue.ended)} of them")
        while events and events[0] <= moment_s + A_MOMENT_S:
            heapq.heappop(events)
        queue.go_on_to(moment_s)
        selection = policy.choose(queue)
        queue.take_up(selection)
        if queue.now_s < selection.wake_s < math.inf:
            heapq.heappush(events, selection.wake_s)
    return queue.runs()
