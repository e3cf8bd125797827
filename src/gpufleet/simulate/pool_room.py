"""What of a pool is free at one moment: whole GPUs, those that jobs share, and power."""

from __future__ import annotations

from gpufleet.domain.schedule import WHOLE_MILLI, Pool, Way

WHOLE = -1
"""In place of the number of a shared GPU: whole ones."""


def missing_gpus(pool: Pool, moment_s: float) -> int:
    """GPUs that maintenance takes at a moment."""
    return sum(o.gpus for o in pool.outages if o.start_s <= moment_s < o.end_s)


def watts_of(pool: Pool, way: Way) -> float:
    """What a job draws on all of its GPUs   [W]."""
    return (pool.watts if way.watts_per_gpu is None else way.watts_per_gpu) * way.gpus


class PoolRoom:
    """A pool at one moment. A GPU that is shared counts as taken while anybody is on it."""

    def __init__(self, pool: Pool, missing: int = 0) -> None:
        self.pool, self.free_gpus, self.free_watts = pool, pool.gpus - missing, pool.power_cap_watts
        self.shared_milli: dict[int, int] = {}

    def place_for(self, way: Way) -> int | None:
        """The GPU to share: the fullest that has room, else a free one; `WHOLE` of whole GPUs; None without room."""
        if watts_of(self.pool, way) > self.free_watts:
            return None
        if not way.is_share:
            return WHOLE if way.milli_gpus <= self.free_gpus * WHOLE_MILLI else None
        open_to = [(milli, gpu) for gpu, milli in self.shared_milli.items() if milli + way.milli_gpus <= WHOLE_MILLI]
        if open_to:
            return max(open_to)[1]
        return next(n for n in range(self.pool.gpus) if n not in self.shared_milli) if self.free_gpus >= 1 else None

    def take(self, way: Way, place: int) -> None:
        """Let a job in."""
        self.free_watts -= watts_of(self.pool, way)
        if place == WHOLE:
            self.free_gpus -= way.milli_gpus // WHOLE_MILLI
            return
        self.free_gpus -= place not in self.shared_milli
        self.shared_milli[place] = self.shared_milli.get(place, 0) + way.milli_gpus

    @property
    def most_milli(self) -> int:
        """The largest job that fits   [thousandths of a GPU]."""
        if self.free_gpus >= 1:
            return self.free_gpus * WHOLE_MILLI
        return WHOLE_MILLI - min(self.shared_milli.values(), default=WHOLE_MILLI)
