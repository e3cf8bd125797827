"""Random jobs and pools of every kind: gangs, shares, outages, power caps, dependencies, tariffs, spot, budgets."""

from __future__ import annotations

import math

import numpy as np

from gpufleet.domain.schedule import DayPrices, Outage, Pool, ScheduledJob, Way
from gpufleet.optimize.schedule.grid import Grid

SLOT_S = 1800.0


def random_grid(rng: np.random.Generator, most_jobs: int = 14, *, rents: bool = True) -> Grid:
    """One question, of which the first pool is one's own and holds every job."""
    pools = [random_pool(rng, "own", "owned")]
    if rents and rng.random() < 0.5:
        pools.append(random_pool(rng, "cloud", "on-demand"))
    if rents and rng.random() < 0.3:
        pools.append(random_pool(rng, "spot", "spot"))
    jobs = tuple(random_job(rng, number, pools) for number in range(int(rng.integers(1, most_jobs + 1))))
    budget = float(rng.uniform(0, 60)) if rng.random() < 0.5 else math.inf
    return Grid(tuple(pools), jobs, SLOT_S, budget)


def random_pool(rng: np.random.Generator, name: str, kind: str) -> Pool:
    gpus = int(rng.integers(2, 9))
    outages: tuple[Outage, ...] = ()
    if rng.random() < 0.4:
        start = float(rng.integers(0, 20)) * SLOT_S
        outages = (Outage(start, start + float(rng.integers(1, 8)) * SLOT_S, int(rng.integers(1, gpus + 1))),)
    hours = tuple(float(usd) for usd in rng.uniform(0.5, 4, 24)) if rng.random() < 0.5 else (2.0,)
    cap = 400.0 * gpus * float(rng.uniform(0.6, 1.0)) if rng.random() < 0.3 else math.inf
    return Pool(name, "A100", gpus, kind, DayPrices((0.0,) if kind == "owned" else hours), 400.0, cap, outages)


def random_job(rng: np.random.Generator, number: int, pools: list[Pool]) -> ScheduledJob:
    work = float(rng.integers(1, 13)) * SLOT_S * float(rng.uniform(0.7, 1))
    earliest = float(rng.integers(0, 12)) * SLOT_S * float(rng.integers(0, 2))
    most = (
        min(pools[0].gpus, int(pools[0].power_cap_watts // 400))
        if pools[0].power_cap_watts < math.inf
        else pools[0].gpus
    )
    milli = (
        int(rng.choice([250, 300, 500, 600])) if rng.random() < 0.3 else 1000 * int(rng.integers(1, max(most, 1) + 1))
    )
    ways = [Way("own", milli, work, float(rng.integers(0, 2)) * SLOT_S)]
    ways += [
        Way(pool.name, milli, work * float(rng.uniform(0.5, 1.5)), SLOT_S) for pool in pools[1:] if rng.random() < 0.6
    ]
    if rng.random() < 0.3 and milli >= 2000:
        ways.append(Way("own", 1000, work * 1.8, SLOT_S))
    deadline = earliest + work * float(rng.uniform(0.8, 4)) if rng.random() < 0.8 else math.inf
    after = tuple(f"job-{other}" for other in range(number) if rng.random() < 0.08)
    weight = float(rng.choice([0, 0.5, 1, 2, 5]))
    return ScheduledJob(f"job-{number}", tuple(ways), earliest, deadline, weight, after, bool(rng.random() < 0.4))
