"""How fast requests come over time."""

from __future__ import annotations

import math

import numpy as np

from gpufleet.domain.arrays import FloatArray
from gpufleet.records import dataclass


@dataclass(frozen=True, eq=False)
class RateCurve:
    """Requests per second in bins of equal length: bin i lasts from `start_s + i * bin_s` for `bin_s`.

    `cv` is the coefficient of variation of the gaps between arrivals, bin by bin; None: 1, Poisson.
    `num_filled` bins were not seen: a straight line between their neighbours stands for them.
    """

    start_s: float
    rate_per_s: FloatArray
    bin_s: float
    cv: FloatArray | None = None
    num_filled: int = 0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.start_s) and math.isfinite(self.bin_s) and self.bin_s > 0):
            raise ValueError("rate curve: a start and a positive length of a bin are numbers")
        if not len(self.rate_per_s):
            raise ValueError("rate curve: no bins")
        for name, column in (("rate", self.rate_per_s), ("cv", self.cv)):
            if column is not None and not (np.all(np.isfinite(column)) and np.all(column >= 0)):
                raise ValueError(f"rate curve: a {name} is a number that is not negative")
        if self.cv is not None and len(self.cv) != len(self.rate_per_s):
            raise ValueError("rate curve: columns of different lengths")

    def __len__(self) -> int:
        return len(self.rate_per_s)

    @property
    def span_s(self) -> float:
        """Seconds from the start of the first bin to the end of the last."""
        return len(self) * self.bin_s

    @property
    def times_s(self) -> FloatArray:
        """When each bin starts."""
        return np.asarray(self.start_s + self.bin_s * np.arange(len(self)))

    @property
    def mean_rate_per_s(self) -> float:
        """Requests per second over all of it."""
        return float(self.rate_per_s.mean())

    @property
    def num_expected(self) -> float:
        """How many requests it means.

        >>> RateCurve(0.0, np.array([1.0, 2.0]), 60.0).num_expected
        180.0
        """
        return float(self.rate_per_s.sum()) * self.bin_s

    def scaled(self, ratio: float) -> RateCurve:
        """So many times as many requests at every moment."""
        return RateCurve(self.start_s, self.rate_per_s * ratio, self.bin_s, self.cv, self.num_filled)

    def repeated(self, num_times: int) -> RateCurve:
        """The same again and again, each right after the last: a day made a week."""
        cv = None if self.cv is None else np.tile(self.cv, num_times)
        rates = np.tile(self.rate_per_s, num_times)
        return RateCurve(self.start_s, rates, self.bin_s, cv, self.num_filled * num_times)
