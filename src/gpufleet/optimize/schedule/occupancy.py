"""Who keeps which GPUs busy, slot by slot, and where the next hole is that holds a job."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from gpufleet.domain.arrays import AnyArray, BoolArray, IntArray
from gpufleet.domain.schedule import WHOLE_MILLI
from gpufleet.optimize.schedule.grid import Grid, Placement, SlotJob, SlotWay
from gpufleet.units import DAY

FIRST_LOOK, MOST_GAPS = 256, 16


class Stretch(NamedTuple):
    """Where a run finds room: its first slot, and the GPU that it shares with others (none of whole GPUs)."""

    start: int
    lane: int


class PoolOccupancy:
    """One pool. Whole GPUs are counted; a shared GPU is a lane that counts as busy while anybody is on it.

    Times in which a GPU is whole or shared are intervals, of which at most as many overlap as there are GPUs: so each
    of them can be given a GPU of its own, which it keeps.
    """

    def __init__(self, grid: Grid, number: int) -> None:
        pool = grid.pools[number]
        self.gpus = pool.gpus
        held = [one for one in grid.held if one.way.pool == number]
        self.has_shares = any(way.pool == number and not way.gpus for job in grid.jobs for way in job.ways)
        self.has_shares |= any(not one.way.gpus for one in held)
        length = grid.last_fixed + FIRST_LOOK
        self.free: IntArray = np.full(length, pool.gpus, dtype=np.int64)
        self.watts: IntArray | None = None
        self.cap_watts = pool.power_cap_watts
        if np.isfinite(self.cap_watts):
            self.watts = np.zeros(length, dtype=np.int64)
        self.lanes: AnyArray = np.zeros((pool.gpus if self.has_shares else 0, length), dtype=np.int16)
        for start, end, gpus in grid.outages[number]:
            self.free[start:end] -= gpus
        self.busy_until = max([0, *(end for _, end, _ in grid.outages[number])])
        self.spent = grid.spent[number]
        self.last = grid.serial_end
        self.period = 0 if pool.prices.is_flat else math.ceil(DAY / grid.slot_s)
        for one in held:
            self.take(one.way, one.placed)

    def grow(self, length: int) -> None:
        """Room for so many slots."""
        more = max(length - len(self.free), 0)
        if more:
            more += len(self.free)
            self.free = np.concatenate([self.free, np.full(more, self.gpus, dtype=np.int64)])
            self.lanes = np.concatenate([self.lanes, np.zeros((len(self.lanes), more), dtype=np.int16)], axis=1)
            if self.watts is not None:
                self.watts = np.concatenate([self.watts, np.zeros(more, dtype=np.int64)])

    def room(self, way: SlotWay, start: int, end: int) -> BoolArray:
        """Whether a way could run in each slot: [lane, slot], one lane for whole GPUs."""
        free = self.free[start:end]
        if way.gpus:
            fits = (free >= way.gpus)[None]
        else:
            used = self.lanes[:, start:end]
            fits = (used + way.milli <= WHOLE_MILLI) & ((used > 0) | (free >= 1))
        if self.watts is not None:
            fits = fits & (self.watts[start:end] + way.watts <= self.cap_watts)
        return np.asarray(fits)

    def clear_starts(self, way: SlotWay, start: int, end: int, slots: int) -> BoolArray:
        """Where so many slots in a row have room within a stretch of time: [lane, first slot]."""
        blocked = np.cumsum(~self.room(way, start, end), axis=1)
        missing = blocked[:, slots - 1 :].copy()
        missing[:, 1:] -= blocked[:, :-slots]
        return np.asarray(missing == 0)

    def first_hole(self, way: SlotWay, earliest: int, slots: int) -> Stretch:
        """The earliest stretch of so many slots, and its lane."""
        look = max(FIRST_LOOK, 2 * slots)
        while True:
            end = min(earliest + look, max(self.busy_until, earliest)) + slots
            self.grow(end)
            clear = self.clear_starts(way, earliest, end, slots)
            at = int(np.argmax(clear[0] if way.gpus else clear.any(axis=0)))
            if clear[:, at].any():
                return Stretch(earliest + at, self.fullest_lane(way, clear[:, at], earliest + at, slots))
            look *= 4

    def cheapest_hole(self, way: SlotWay, earliest: int, latest_end: int, slots: int) -> Stretch | None:
        """The cheapest stretch that ends in time, the earliest of several; None where nothing is in time."""
        end = min(latest_end, max(self.busy_until, earliest) + self.period + slots)
        if end - earliest < slots:
            return None
        self.grow(end)
        clear = self.clear_starts(way, earliest, end, slots)
        starts = np.flatnonzero(clear.any(axis=0))
        if not len(starts):
            return None
        first = earliest + starts
        at = int(starts[np.argmin(self.spent[first + slots] - self.spent[first])])
        return Stretch(earliest + at, self.fullest_lane(way, clear[:, at], earliest + at, slots))

    def fullest_lane(self, way: SlotWay, is_clear: BoolArray, start: int, slots: int) -> int:
        """Of the shared GPUs that have room, the one that others use most."""
        if way.gpus:
            return -1
        used = self.lanes[:, start : start + slots].sum(axis=1, dtype=np.int64)
        return int(np.argmax(np.where(is_clear, used, -1)))

    def hole(self, job: SlotJob, number: int, earliest: int) -> Placement:
        """Where a job runs on one of its ways: in time for the least money, else where it is done first."""
        way = job.ways[number]
        if self.period:
            cheapest = self.cheapest_hole(way, earliest, min(job.deadline, self.last), way.slots)
            if cheapest is not None:
                return Placement(number, ((cheapest.start, way.slots),), cheapest.lane)
        first = self.first_hole(way, earliest, way.slots)
        whole = Placement(number, ((first.start, way.slots),), first.lane)
        if not job.can_pause or not way.gpus or first.start == earliest:
            return whole
        return min([whole, *self.cut_runs(number, way, earliest, first.start)], key=lambda p: (p.end, len(p.pieces)))

    def cut_runs(self, number: int, way: SlotWay, earliest: int, before: int) -> list[Placement]:
        """Runs in two pieces, the first of which fills a hole that is too short for all of it."""
        fits = self.room(way, earliest, before)[0].astype(np.int8)
        edges = np.flatnonzero(np.diff(np.concatenate([[0], fits, [0]])))
        found = []
        for start, end in edges.reshape(-1, 2)[:MOST_GAPS].tolist():
            length = min(end - start, way.slots - 1)
            if length > way.restart:
                rest_slots = way.slots - length + way.restart
                rest = self.first_hole(way, earliest + start + length + 1, rest_slots)
                found.append(Placement(number, ((earliest + start, length), (rest.start, rest_slots))))
        return found

    def take(self, way: SlotWay, placed: Placement) -> None:
        """Keep GPUs busy."""
        for start, slots in placed.pieces:
            end = start + slots
            self.grow(end)
            if way.gpus:
                self.free[start:end] -= way.gpus
            else:
                lane = self.lanes[placed.lane, start:end]
                self.free[start:end] -= lane == 0
                lane += way.milli
            if self.watts is not None:
                self.watts[start:end] += way.watts
            self.busy_until = max(self.busy_until, end)

    def give_back(self, way: SlotWay, placed: Placement) -> None:
        """Free what was taken."""
        for start, slots in placed.pieces:
            end = start + slots
            if way.gpus:
                self.free[start:end] += way.gpus
            else:
                lane = self.lanes[placed.lane, start:end]
                lane -= way.milli
                self.free[start:end] += lane == 0
            if self.watts is not None:
                self.watts[start:end] -= way.watts
