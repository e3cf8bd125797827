"""Replicas that start cold, fail or are taken away: the changes of a cluster, known before it runs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np

from gpufleet.domain.arrays import BoolArray, IntArray
from gpufleet.domain.availability import Availability
from gpufleet.records import dataclass
from gpufleet.simulate.cluster import Change
from gpufleet.simulate.state import DRAINING, OFF, READY, STARTING


def cold_starts(members: int, at_s: float, cold_start_s: float) -> list[Change]:
    """All replicas switched on at a time, and ready after a cold start."""
    on = [Change(at_s, r, STARTING) for r in range(members)]
    return on + [Change(at_s + cold_start_s, r, READY) for r in range(members)]


def scaled(ready: IntArray, tick_s: float) -> list[Change]:
    """Replicas that are ready tick by tick after the first: the last one to come drains first."""
    return [
        Change(tick * tick_s, replica, READY if now > before else DRAINING)
        for tick, (before, now) in enumerate(itertools.pairwise(ready.tolist()), 1)
        for replica in range(min(before, now), max(before, now))
    ]


def failures(
    rng: np.random.Generator, members: int, start_s: float, end_s: float, mtbf_s: float, restart_s: float
) -> list[Change]:
    """Losses of replicas, each an exponential time after its last start, and the cold starts that follow.

    Source: times between failures are taken as memoryless; measured ones come in bursts more often than that.
    """
    changes = [c for r in range(members) for c in failures_of(rng, r, start_s, end_s, mtbf_s, restart_s)]
    return sorted(changes, key=lambda change: change.time_s)


def failures_of(
    rng: np.random.Generator, replica: int, start_s: float, end_s: float, mtbf_s: float, restart_s: float
) -> Iterator[Change]:
    """The losses of one replica."""
    at_s = start_s + float(rng.exponential(mtbf_s))
    while at_s < end_s:
        yield Change(at_s, replica, OFF)
        yield Change(at_s, replica, STARTING)
        yield Change(at_s + restart_s, replica, READY)
        at_s += restart_s + float(rng.exponential(mtbf_s))


@dataclass(frozen=True)
class SpotStart:
    """How a spot machine comes and goes: ready `restart_s` after its order, told `notice_s` before it is taken.

    `is_cold`: machines that are there at the beginning start then; else they are ready.
    """

    restart_s: float
    notice_s: float = 0.0
    is_cold: bool = False


def preemptions(
    seen: Availability, replicas: Sequence[int], start_s: float, end_s: float, how: SpotStart
) -> list[Change]:
    """Replicas that are there while their zone has a machine for them; the trace begins anew where it ends.

    The i-th of them is machine i // zones of zone i % zones: it is there while the zone has more than i // zones.
    """
    ticks = np.arange(math.ceil((end_s - start_s) / seen.tick_s) + 1) % seen.num_ticks
    zones = len(seen.zones)
    changes = [
        change
        for i, replica in enumerate(replicas)
        for change in spells_of(seen.nodes[i % zones, ticks] > i // zones, seen.tick_s, replica, start_s, how)
    ]
    return sorted(changes, key=lambda change: change.time_s)


def spells_of(is_there: BoolArray, tick_s: float, replica: int, start_s: float, how: SpotStart) -> Iterator[Change]:
    """One replica: ordered where a spell of its machine begins, drained `notice_s` before it ends, and lost there."""
    if not is_there[0]:
        yield Change(start_s, replica, OFF)
    edges = np.flatnonzero(np.diff(is_there, prepend=False, append=False))
    for first, end in edges.reshape(-1, 2):
        began_s, lost_s = start_s + first * tick_s, start_s + end * tick_s
        is_up = first == 0 and not how.is_cold
        ready_s = began_s if is_up else began_s + how.restart_s
        told_s = max(lost_s - how.notice_s, began_s) if end < len(is_there) else math.inf
        if not is_up:
            yield Change(began_s, replica, STARTING)
            if ready_s < told_s:
                yield Change(ready_s, replica, READY)
        if end < len(is_there):
            if how.notice_s and (is_up or ready_s < told_s):
                yield Change(told_s, replica, DRAINING)
            yield Change(lost_s, replica, OFF)
