"""What copies get done of a job, whatever their kind."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np

from gpufleet.domain.arrays import FloatArray, IntArray
from gpufleet.domain.instance import Instance
from gpufleet.records import dataclass


@dataclass(frozen=True)
class WorkRates:
    """What one replica of each candidate gets done: [candidate, batch] over a shared grid, 0 where there is no room."""

    batch: FloatArray
    requests_per_s: FloatArray

    @cached_property
    def best(self) -> IntArray:
        """The batch that gets most done, the smallest of equals."""
        return np.asarray(np.argmax(self.requests_per_s, axis=1))

    @cached_property
    def best_batch(self) -> FloatArray:
        """Requests together at the best batch."""
        return np.asarray(self.batch[self.best])

    @cached_property
    def best_per_s(self) -> FloatArray:
        """Requests per second at the best batch."""
        return np.asarray(self.requests_per_s[np.arange(len(self.best)), self.best])

    def wave_s(self, rows: IntArray) -> FloatArray:
        """Time of one full batch, from the first to the last of its requests."""
        return np.asarray(self.best_batch[rows] / self.best_per_s[rows])


@dataclass(frozen=True)
class Hosts:
    """Machine types, the rows of `WorkRates` that each can host, and the GPUs of a replica of each row.

    A replica of a row is planned to work `slow_ratio` times as long as expected: 1 where the expected value is planned.
    """

    instances: Mapping[tuple[str, str], Instance]
    rows: Mapping[tuple[str, str], IntArray]
    num_devices: IntArray
    slow_ratio: FloatArray
