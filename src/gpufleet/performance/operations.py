"""What a step executes: each operation with its shape, its work, its time and what bounds it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpufleet.domain.arrays import FloatArray
from gpufleet.domain.calibration import CollectiveCurves, Curves
from gpufleet.records import dataclass

COMPUTE, BANDWIDTH, LINK, LATENCY, NOTHING = "compute", "bandwidth", "link", "latency", "nothing"
MOSTLY_FIXED_RATIO = 2.0


@dataclass(frozen=True)
class Operation:
    """One operator of a step: `count` executions of `kernel`, on one device, one element per candidate.

    `shape` holds its dimensions in field terms, such as ("m", ...), ("n", ...), ("k", ...). Everything but `count`
    belongs to one execution: `flop`, `moved_bytes` (over the memory bus, or over the link where `link_s` is set), the
    seconds that arithmetic, memory and link need at their peak, and `seconds`, which the measured `curves` give.
    `fixed_s` is what the curve adds to the roofline before it scales; `curves` is None where a formula gives the time.
    """

    name: str
    kernel: str
    count: int
    shape: tuple[tuple[str, FloatArray], ...]
    seconds: FloatArray
    flop: FloatArray
    moved_bytes: FloatArray
    compute_s: FloatArray
    memory_s: FloatArray
    link_s: FloatArray
    fixed_s: float
    curves: Curves | CollectiveCurves | None

    @property
    def total_s(self) -> FloatArray:
        """Seconds of all executions in the step."""
        return self.count * self.seconds

    @property
    def roofline_s(self) -> FloatArray:
        """Least seconds of one execution: the slowest of arithmetic, memory and link at their peak."""
        return np.maximum(np.maximum(self.compute_s, self.memory_s), self.link_s)

    @property
    def bound(self) -> NDArray[Any]:
        """What one execution waits for: compute, bandwidth, link, latency, or nothing where it does not run.

        Latency: it takes over twice its roofline, and fixed time is more than the roofline.
        """
        roofline = self.roofline_s
        is_latency = (self.seconds > MOSTLY_FIXED_RATIO * roofline) & (self.fixed_s > roofline)
        cases = [self.seconds <= 0, is_latency, self.link_s > 0, self.compute_s > self.memory_s]
        return np.select(cases, [NOTHING, LATENCY, LINK, COMPUTE], BANDWIDTH)
