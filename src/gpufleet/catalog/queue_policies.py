"""Rules of schedulers that a replay compares with, from `data/queue_policies.toml`."""

from __future__ import annotations

from functools import lru_cache

from gpufleet.catalog.table_files import SHIPPED, toml_of


@lru_cache(maxsize=1)
def load_service_thresholds_gpu_s() -> tuple[float, ...]:
    """GPU-time after which a job moves to the next queue of least attained service   [GPU-s].

    >>> load_service_thresholds_gpu_s()
    (3250.0,)
    """
    return tuple(map(float, toml_of(SHIPPED / "queue_policies.toml")["least_attained_service"]["thresholds_gpu_s"]))
