"""The plain roofline: no kernel beats the arithmetic peak or the memory bandwidth."""

from __future__ import annotations

import numpy as np

from gpufleet.domain.arrays import FloatArray, Floats
from gpufleet.records import dataclass


def roofline_s(flop: Floats, peak_flop_per_s: Floats, size_bytes: Floats, bandwidth_bytes_per_s: Floats) -> FloatArray:
    """Least seconds in which a device can do `flop` operations and move `size_bytes`.

    max(flop / peak, bytes / bandwidth)   [s]   Source: Williams et al. 2009, doi 10.1145/1498765.1498785

    A 70 GB read at 3.35 TB/s takes 20.9 ms however few operations use it:

    >>> round(float(roofline_s(1.4e11, 989.4e12, 70e9, 3.35e12)) * 1e3, 1)
    20.9
    """
    compute_s = np.asarray(flop / np.asarray(peak_flop_per_s), dtype=np.float64)
    memory_s = np.asarray(size_bytes / np.asarray(bandwidth_bytes_per_s), dtype=np.float64)
    return np.asarray(np.maximum(compute_s, memory_s))


@dataclass(frozen=True)
class RowRoofline:
    """The roofline of a kernel over rows: `compute_s` and `moved_s` of each row, `read_s` of what rows share."""

    compute_s: Floats
    read_s: Floats
    moved_s: Floats

    def seconds(self, rows: FloatArray) -> FloatArray:
        """Least seconds on so many rows.

        max(rows compute_s, read_s + rows moved_s)   [s]

        >>> RowRoofline(compute_s=1e-6, read_s=3e-5, moved_s=5e-7).seconds(np.array([1.0, 100.0]))
        array([3.05e-05, 1.00e-04])
        """
        return np.asarray(np.maximum(rows * self.compute_s, self.read_s + rows * self.moved_s))

    def seconds_in(self, groups: Floats, rows: FloatArray) -> FloatArray:
        """Least seconds on so many rows that lie in groups, each with something of its own that its rows share.

        max(rows compute_s, groups read_s + rows moved_s)   [s]
        """
        return np.asarray(np.maximum(rows * self.compute_s, groups * self.read_s + rows * self.moved_s))


@dataclass(frozen=True)
class PairRoofline:
    """The roofline of attention over prompts: `compute_s` of each pair of query and key, `moved_s` of each token."""

    compute_s: Floats
    moved_s: Floats

    def seconds(self, pairs: FloatArray, tokens: FloatArray) -> FloatArray:
        """Least seconds on so many pairs of so many tokens.

        max(pairs compute_s, tokens moved_s)   [s]

        >>> PairRoofline(compute_s=1e-9, moved_s=1e-7).seconds(np.array([55.0, 5050.0]), np.array([20.0, 15.0]))
        array([2.00e-06, 5.05e-06])
        """
        return np.asarray(np.maximum(pairs * self.compute_s, tokens * self.moved_s))
