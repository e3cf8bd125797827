"""What somebody would rent: a limit that takes many times the machines of the load itself is out of reach."""

from __future__ import annotations

import math

import numpy as np

from gpufleet.domain.arrays import FloatArray, Floats
from gpufleet.records import dataclass


@dataclass(frozen=True)
class SensibleSize:
    """How large a plan may be that is told as a change: judgements, in `habits.toml`.

    `most_times_machines`: machines within limits, over those of the same type that carry the same load without any.
    `easily_had_gpus` are sensible whatever the load, more than `most_gpus` never.
    """

    most_times_machines: float = math.inf
    easily_had_gpus: float = math.inf
    most_gpus: float = math.inf

    def most_machines(self, for_load: Floats, gpus_each: Floats) -> FloatArray:
        """The most machines of a type, where `for_load` carry the load without limits.

        min(max(ratio x machines for the load, easily had GPUs / GPUs of each), most GPUs / GPUs of each)   [1]

        >>> SensibleSize(10, 64, 1000).most_machines(np.array([0.5, 2.0, 200.0]), 8.0).tolist()
        [8.0, 20.0, 125.0]
        """
        times = self.most_times_machines * np.asarray(for_load)
        easy, most = (np.floor(gpus / np.asarray(gpus_each)) for gpus in (self.easily_had_gpus, self.most_gpus))
        return np.asarray(np.minimum(np.maximum(times, easy), most))
