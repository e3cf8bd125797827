"""Replicas that start cold and that fail: the changes of a cluster, drawn before it runs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gpufleet.simulate.cluster import Change
from gpufleet.simulate.state import OFF, READY, STARTING


def cold_starts(members: int, at_s: float, cold_start_s: float) -> list[Change]:
    """All replicas switched on at a time, and ready after a cold start."""
    on = [Change(at_s, r, STARTING) for r in range(members)]
    return on + [Change(at_s + cold_start_s, r, READY) for r in range(members)]


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
