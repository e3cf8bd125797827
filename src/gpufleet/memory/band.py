"""An amount with its 10th and 90th percentile."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

import numpy as np

from gpufleet.domain.arrays import Floats
from gpufleet.provenance import Sourced
from gpufleet.records import dataclass


@dataclass(frozen=True)
class Band:
    """Low, expected and high value of one quantity; scalars or arrays."""

    low: Floats
    expected: Floats
    high: Floats

    @classmethod
    def exact(cls, value: Floats) -> Band:
        """A figure that is counted, not judged."""
        return cls(value, value, value)

    @classmethod
    def of(cls, judged: Sourced) -> Band:
        """The range of a sourced judgement; its value alone where the source gives no range."""
        low = judged.value if judged.low is None else judged.low
        high = judged.value if judged.high is None else judged.high
        return cls(low, judged.value, high)

    def map(self, function: Callable[[Floats], Floats]) -> Band:
        """The same rising function of all three ends."""
        return Band(function(self.low), function(self.expected), function(self.high))

    def plus(self, other: Band) -> Band:
        """Both amounts together; their errors are taken to go together, which is the cautious reading."""
        return Band(self.low + other.low, self.expected + other.expected, self.high + other.high)

    def beside(self, other: Band) -> Band:
        """Both amounts together; their errors are taken to be independent, so that widths add as squares.

        >>> both = Band(7.0, 10.0, 13.0).beside(Band(6.0, 10.0, 14.0))
        >>> float(both.low), both.expected, float(both.high)
        (15.0, 20.0, 25.0)
        """
        expected = self.expected + other.expected
        below = np.hypot(self.expected - self.low, other.expected - other.low)
        above = np.hypot(self.high - self.expected, other.high - other.expected)
        return Band(cast(Floats, expected - below), expected, cast(Floats, expected + above))

    def scaled(self, factor: Floats) -> Band:
        """Multiplied by a factor of zero or more."""
        return Band(self.low * factor, self.expected * factor, self.high * factor)

    def larger_of(self, other: Band) -> Band:
        """End by end the larger one."""
        return Band(
            np.maximum(self.low, other.low),
            np.maximum(self.expected, other.expected),
            np.maximum(self.high, other.high),
        )

    def smaller_of(self, other: Band) -> Band:
        """End by end the smaller one."""
        return Band(
            np.minimum(self.low, other.low),
            np.minimum(self.expected, other.expected),
            np.minimum(self.high, other.high),
        )

    def ends(self) -> Mapping[str, Floats]:
        """The three ends by name."""
        return {"low": self.low, "expected": self.expected, "high": self.high}
