"""What somebody would run who knows the day before it begins."""

from __future__ import annotations

import numpy as np

from gpufleet.domain.arrays import FloatArray, IntArray
from gpufleet.simulate.scaling import NONE_AT_ALL, Played, Service, settled


def needed_replicas(service: Service, arrivals: FloatArray) -> IntArray:
    """The fewest replicas in each tick at which the target share of its requests keeps the limits, with no backlog."""
    rates = arrivals / service.tick_s
    return np.ceil(rates / service.kept_per_s - NONE_AT_ALL).astype(np.int64)


def perfect_play(service: Service, arrivals: FloatArray, start_s: float = 0.0) -> Played:
    """As many replicas in every tick as it needs, started in time, at the least cost.

    Each of them, the first, the second and so on, is kept over a gap in which it is not needed where the gap is no
    longer than a start, for a new start would cost as much. Those that the first ticks need are there, as nobody can
    start them in time. No least and no most number binds.
    """
    needed = needed_replicas(service, arrivals)
    ready, paid = np.zeros(len(arrivals), dtype=np.int64), np.zeros(len(arrivals), dtype=np.int64)
    ups = downs = 0
    for level in range(1, int(needed.max(initial=0)) + 1):
        begins, ends = spells(np.flatnonzero(needed >= level), service.lead_ticks)
        for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
            first = max(begin - service.lead_ticks, 0)
            paid[first:end] += 1
            ready[(0 if first == 0 else begin) : end] += 1
            ups, downs = ups + (first > 0), downs + (end < len(arrivals))
    queue = np.zeros(len(arrivals))
    return settled(service, arrivals, (paid, ready, arrivals, queue), (ups, downs), start_s)


def spells(ticks: IntArray, longest_gap: int) -> tuple[IntArray, IntArray]:
    """Beginnings and ends of runs of ticks, where gaps up to a length do not end a run.

    >>> spells(np.array([0, 1, 3, 7]), 1)
    (array([0, 7]), array([4, 8]))
    """
    parts = np.flatnonzero(np.diff(ticks) - 1 > longest_gap)
    return ticks[np.concatenate([[0], parts + 1])], ticks[np.concatenate([parts, [len(ticks) - 1]])] + 1
