"""Small services to scale: one replica carries 10 requests/s at all and 8 in time; a TTFT limit of one second."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpufleet.simulate.scaling import ClassPromises, Promise, Replica, Seen, Service

IN_TIME_PER_S, SUSTAINED_PER_S, LIMIT_S = 8.0, 10.0, 1.0


def small_replica() -> Replica:
    """Almost all requests in time up to 8/s, none at 10/s; waits eat the limit."""
    rates = np.array([0.01, 4.0, IN_TIME_PER_S, 9.0, SUSTAINED_PER_S])
    at_once = np.array([1.0, 0.99, 0.95, 0.30, 0.0])
    within = np.outer(np.linspace(1.0, 0.0, 5), at_once)
    return Replica(
        rate_per_s=rates,
        batch=np.array([0.02, 8.0, 20.0, 40.0, 80.0]),
        waiting=np.array([0.0, 0.1, 0.5, 1.0, 4.0]),
        latency_s=np.array([2.0, 2.0, 2.5, 4.0, 8.0]),
        largest_batch=100.0,
        sustained_per_s=SUSTAINED_PER_S,
        classes=(ClassPromises(1.0, (Promise(LIMIT_S, within),)),),
    )


def small_service(cold_start_s: float = 60.0, **changes: Any) -> Service:
    """A service of such replicas, at most 50 of them."""
    return Service(small_replica(), cold_start_s, **{"max_replicas": 50, **changes})


def seen_at(time_s: float, ready: int, **signals: float) -> Seen:
    """A tick as a law sees it; what is not said is zero."""
    seen = Seen()
    figures = dict.fromkeys(("rate_per_s", "starting", "queue", "batch", "waiting", "kv_ratio", "busy_ratio"), 0)
    for name, value in {**figures, "load_ratio": 0, "kept_ratio": 1, **signals}.items():
        setattr(seen, name, value)
    seen.time_s, seen.ready = time_s, ready
    return seen
