"""The best of all schedules of a few jobs, by trying every one; it shares nothing with what makes schedules.

Hours are slots: a job is (ways, earliest, deadline, weight, after), a way (pool, GPUs, hours), a pool (GPUs, price of a
GPU and hour, hours in which all are missing).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class TriedPool(NamedTuple):
    """GPUs of one kind."""

    gpus: int
    usd_per_hour: float
    missing: tuple[int, int] = (0, 0)


class TriedJob(NamedTuple):
    """One job, with the numbers of those that it waits for."""

    ways: tuple[tuple[int, int, int], ...]
    earliest: int
    deadline: int
    weight: int
    after: tuple[int, ...]


def least_late_and_usd(pools: Sequence[TriedPool], jobs: Sequence[TriedJob]) -> tuple[int, float]:
    """Hours late by weight of the best schedule, and its money."""
    last = max(job.earliest for job in jobs) + sum(max(hours for _, _, hours in job.ways) for job in jobs)
    last += max(pool.missing[1] for pool in pools)
    free = [[0 if p.missing[0] <= hour < p.missing[1] else p.gpus for hour in range(last + 1)] for p in pools]
    return Tries(pools, jobs, free, last).best(0, [], 0, 0.0, (10**9, 0.0))


class Tries(NamedTuple):
    """Everything that is tried, one job after the other."""

    pools: Sequence[TriedPool]
    jobs: Sequence[TriedJob]
    free: list[list[int]]
    last: int

    def best(self, number: int, ends: list[int], late: int, usd: float, known: tuple[int, float]) -> tuple[int, float]:
        if (late, usd) >= known:
            return known
        if number == len(self.jobs):
            return late, usd
        job = self.jobs[number]
        first = max([job.earliest, *(ends[other] for other in job.after)])
        for pool, gpus, hours in job.ways:
            room = self.free[pool]
            for start in range(first, self.last - hours + 1):
                if min(room[start : start + hours]) < gpus:
                    continue
                for hour in range(start, start + hours):
                    room[hour] -= gpus
                more = job.weight * max(start + hours - job.deadline, 0)
                paid = gpus * hours * self.pools[pool].usd_per_hour
                known = self.best(number + 1, [*ends, start + hours], late + more, round(usd + paid, 6), known)
                for hour in range(start, start + hours):
                    room[hour] += gpus
        return known
