"""Who runs next where nobody knows the future: first come, shortest, earliest deadline, least service, backfill."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import NamedTuple

from gpufleet.records import dataclass
from gpufleet.simulate.job_queue import A_MOMENT_S, Hold, JobQueue, Selection
from gpufleet.simulate.pool_room import PoolRoom

FIFO, SJF, EDF, LAS, BACKFILL, OURS = "fifo", "sjf", "edf", "las", "backfill", "ours"
POLICIES = (FIFO, SJF, EDF, LAS, BACKFILL, OURS)
A_GPU_SECOND = 1e-3


class FirstInFirstOut:
    """In the order of arrival: nobody overtakes on a pool that somebody waits for."""

    def choose(self, queue: JobQueue) -> Selection:
        """Those that come first, until one has no room."""
        selection, shut = Selection(queue), set[int]()
        for job in queue.waiting:
            if len(shut) == len(queue.pools):
                break
            if not selection.start(job, shut):
                shut |= {queue.pool_of(job, w) for w in queue.ways_now(job)}
        return selection


@dataclass(frozen=True)
class InOrder:
    """By a rank, whoever fits: one that has no room is passed by."""

    rank: Callable[[JobQueue, int], float]

    def choose(self, queue: JobQueue) -> Selection:
        """Those of the lowest rank that fit."""
        return filled(Selection(queue), sorted(queue.waiting, key=lambda j: self.rank(queue, j)))


def filled(selection: Selection, jobs: Iterable[int]) -> Selection:
    """A selection with all of these jobs that fit, in this order."""
    for job in jobs:
        if selection.is_full:
            break
        if not selection.is_too_large(job):
            selection.start(job)
    return selection


def shortest_first() -> InOrder:
    """The one that is expected to be done soonest."""
    return InOrder(lambda queue, job: queue.shortest_left_s(job))


def earliest_deadline_first() -> InOrder:
    """The one that has to be done first."""
    return InOrder(lambda queue, job: queue.jobs[job].deadline_s)


@dataclass(frozen=True)
class LeastAttained:
    """Tiresias' discretised two-dimensional least attained service (NSDI 2019), which knows no durations.

    A job whose GPU-time passes a threshold moves to the next queue; within a queue the order is that of arrival. Jobs
    of a later queue pause for those of an earlier one, where they may.
    """

    thresholds_gpu_s: tuple[float, ...]

    def choose(self, queue: JobQueue) -> Selection:
        """Jobs by queue and arrival, and when the next of them changes its queue."""
        stay = [j for j, hold in queue.running.items() if not queue.may_pause(j, hold.way)]
        movable = [*queue.waiting, *(j for j in queue.running if j not in stay)]
        ranked = sorted(movable, key=lambda j: (self.queue_of(queue.attained_s(j)), queue.jobs[j].earliest_s, j))
        selection = filled(Selection(queue, stay), ranked)
        selection.wake_s = min((self.demotion_s(queue, hold) for hold in selection.holds.values()), default=math.inf)
        return selection

    def queue_of(self, attained_gpu_s: float) -> int:
        """The queue by attained GPU-time: 0 is served first."""
        return bisect_right(self.thresholds_gpu_s, attained_gpu_s + A_GPU_SECOND)

    def demotion_s(self, queue: JobQueue, hold: Hold) -> float:
        """When a job passes its next threshold; never for those that cannot pause, or where nobody waits."""
        attained = queue.attained_s(hold.job)
        number = self.queue_of(attained)
        if number == len(self.thresholds_gpu_s) or not queue.may_pause(hold.job, hold.way):
            return math.inf
        gpus = queue.jobs[hold.job].ways[hold.way].gpus
        return queue.now_s + (self.thresholds_gpu_s[number] - attained) / gpus


class Reservation(NamedTuple):
    """What is kept free for whoever waits first: one of its ways, from when on."""

    job: int
    way: int
    pool: int
    from_s: float


class Backfill:
    """EASY backfilling (Lifka 1995): first come first served, and the first that waits has a reservation.

    Others fill holes that end before it as expected, or that leave it its room.
    """

    def choose(self, queue: JobQueue) -> Selection:
        """Those that come first, then whoever does not put off the first that waits."""
        selection = Selection(queue)
        waiting = list(queue.waiting)
        while waiting and selection.start(waiting[0]):
            del waiting[0]
        if not waiting:
            return selection
        head = reservation_of(queue, selection, waiting[0])
        for job in waiting[1:]:
            if selection.is_full:
                break
            hold = None if selection.is_too_large(job) else selection.fitting(job, queue.ways_now(job))
            if hold is not None and (head is None or leaves_room(queue, selection, hold, head)):
                selection.take(hold)
        return selection


def reservation_of(queue: JobQueue, selection: Selection, job: int) -> Reservation | None:
    """Where and when a job is expected to find room first."""
    found = [
        Reservation(job, w, queue.pool_of(job, w), first_room_s(queue, selection, job, w)) for w in queue.ways_now(job)
    ]
    return min(found, key=lambda one: one.from_s + queue.left_s(job, one.way), default=None)


def first_room_s(queue: JobQueue, selection: Selection, job: int, way: int) -> float:
    """When a way is expected to have room first: runs end and maintenance ends as expected."""
    pool = queue.pool_of(job, way)
    ends = [hold.expected_end_s for hold in selection.holds.values()]
    moments = sorted(max(end, queue.now_s) for end in [*ends, *(o.end_s for o in queue.pools[pool].outages)])
    rooms = ((moment_s, room_then(queue, selection.holds.values(), pool, moment_s)) for moment_s in moments)
    wanted = queue.jobs[job].ways[way]
    return next((moment_s for moment_s, room in rooms if room.place_for(wanted) is not None), queue.now_s)


def room_then(queue: JobQueue, holds: Iterable[Hold], pool: int, moment_s: float) -> PoolRoom:
    """A pool at a later moment as it is expected."""
    return queue.room_at(pool, moment_s, [h for h in holds if h.expected_end_s > moment_s + A_MOMENT_S])


def leaves_room(queue: JobQueue, selection: Selection, hold: Hold, head: Reservation) -> bool:
    """Whether a run does not put off the first that waits, as expected."""
    if hold.expected_end_s <= head.from_s + A_MOMENT_S or queue.pool_of(hold.job, hold.way) != head.pool:
        return True
    room = room_then(queue, [*selection.holds.values(), hold], head.pool, head.from_s)
    return room.place_for(queue.jobs[head.job].ways[head.way]) is not None
