"""Where a replay has settled: the first requests find an empty cluster, and are no sample of its usual load."""

from __future__ import annotations

import numpy as np

from gpufleet.domain.arrays import FloatArray
from gpufleet.records import dataclass

GROUP, FEWEST_GROUPS = 5, 10


@dataclass(frozen=True)
class WarmUp:
    """How many of the first values are left out; `is_settled`: the rest is level as far as can be seen."""

    num_values: int
    is_settled: bool


def warm_up(values: FloatArray) -> WarmUp:
    """MSER-5: leave out what makes the mean of the rest most certain, at most half.

    d minimises sum (Y_i - mean)^2 / (k - d)^2 over Y_d+1 .. Y_k, means of five values each
    Source: White 1997, Simulation 69(6); in groups of five White, Cobb & Spratt 2000, Winter Simulation Conference.
    Where the least is at the half, the values still change there.

    >>> warm_up(np.array([9.0] * 20 + [1.0, 2.0] * 60)).num_values
    20
    """
    means = values[: len(values) // GROUP * GROUP].reshape(-1, GROUP).mean(axis=1)
    if len(means) < FEWEST_GROUPS:
        return WarmUp(0, True)
    off = means - means.mean()
    left = np.arange(len(off), 0, -1, dtype=np.float64)
    sums, squares = (np.cumsum(column[::-1])[::-1] for column in (off, off**2))
    uncertainty = np.maximum(squares - sums**2 / left, 0.0) / left**2
    latest = len(off) // 2
    cut = int(np.argmin(uncertainty[: latest + 1]))
    return WarmUp(cut * GROUP, cut < latest)
