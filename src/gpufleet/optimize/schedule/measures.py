"""What runs of a schedule come to: how fair they are, how busy one's own GPUs, what they cost."""

from __future__ import annotations

from collections.abc import Sequence

from gpufleet.domain.arrays import FloatArray
from gpufleet.domain.schedule import Pool, Run, ScheduledJob


def jain_index(values: FloatArray) -> float:
    """(sum x)^2 / (n sum x^2): 1 where all are equal, 1 / n where one has it all (Jain, Chiu and Hawe 1984).

    >>> import numpy as np
    >>> jain_index(np.array([2.0, 2.0])), jain_index(np.array([1.0, 0.0]))
    (1.0, 0.5)
    """
    return float(values.sum() ** 2 / (len(values) * (values**2).sum()))


def used_ratio(
    pools: Sequence[Pool], jobs: Sequence[ScheduledJob], runs: Sequence[Run], makespan_s: float
) -> float | None:
    """GPU-time at work over what one's own pools have until the last job ends."""
    owned = {pool.name: pool for pool in pools if not pool.is_rented}
    ways = [(job.ways[run.way], run) for job, run in zip(jobs, runs, strict=True)]
    used = sum(way.gpus * (p.end_s - p.start_s) for way, run in ways if way.pool in owned for p in run.pieces)
    had = sum(pool.gpus * makespan_s - lost_gpu_s(pool, makespan_s) for pool in owned.values())
    return used / had if had else None


def lost_gpu_s(pool: Pool, until_s: float) -> float:
    """GPU-time that maintenance takes."""
    return sum(o.gpus * (min(o.end_s, until_s) - min(o.start_s, until_s)) for o in pool.outages)


def usd_of(pools: Sequence[Pool], jobs: Sequence[ScheduledJob], runs: Sequence[Run]) -> float:
    """What all runs cost   [USD]."""
    prices = {pool.name: pool.prices for pool in pools}
    return sum(
        job.ways[run.way].gpus * prices[job.ways[run.way].pool].over(piece.start_s, piece.end_s)
        for job, run in zip(jobs, runs, strict=True)
        for piece in run.pieces
    )
