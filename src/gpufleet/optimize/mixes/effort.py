"""How long is searched: iterations of the solver are counted, which are the same on any machine, and no clock.

A limit that somebody typed is of seconds, and there is no count then.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

USUAL_ITERATIONS = 80_000
"""Of the simplex method: a processor of 2024 does two to ten thousand of them a second in programmes of this size."""


@dataclass
class Meter:
    """What a search has used of what it may use; `is_cut`: its seconds ended before it did."""

    most_iterations: float = math.inf
    most_s: float = math.inf
    elapsed_s: Callable[[], float] = float
    iterations: float = 0.0
    is_cut: bool = False

    @property
    def used_ratio(self) -> float:
        """The part that is used; more than 1 where the last programme took longer than was left."""
        return max(used(self.iterations, self.most_iterations), used(self.elapsed_s(), self.most_s))


@dataclass(frozen=True)
class Effort:
    """A part of what a search may use: all that is used before `end_ratio` of the whole is.

    >>> whole = Effort.of_iterations(1000.0)
    >>> half = whole.part(0.5)
    >>> half.spend(300.0)
    >>> round(half.left_ratio, 3), round(whole.left_ratio, 3)
    (0.2, 0.7)
    """

    meter: Meter = field(default_factory=Meter)
    end_ratio: float = 1.0

    @classmethod
    def of_iterations(cls, most: float = USUAL_ITERATIONS) -> Effort:
        """So many iterations, however long they take."""
        return cls(Meter(most_iterations=most))

    @classmethod
    def of_seconds(cls, most_s: float, elapsed_s: Callable[[], float]) -> Effort:
        """So many seconds, however many iterations they allow."""
        return cls(Meter(most_s=most_s, elapsed_s=elapsed_s))

    @property
    def left_ratio(self) -> float:
        """What is left, as a part of the whole."""
        return self.end_ratio - self.meter.used_ratio

    @property
    def is_over(self) -> bool:
        """Whether nothing is left; where seconds ended, the meter says so."""
        is_over = self.left_ratio <= 0
        self.meter.is_cut |= is_over and math.isfinite(self.meter.most_s)
        return is_over

    @property
    def seconds_left(self) -> float:
        """Seconds that are left; infinite where they are not limited."""
        return self._left_of(self.meter.most_s)

    @property
    def iterations_left(self) -> float:
        """Iterations that are left; infinite where they are not limited."""
        return self._left_of(self.meter.most_iterations)

    def _left_of(self, most: float) -> float:
        return most if math.isinf(most) else max(self.left_ratio, 0.0) * most

    def until(self, ratio: float) -> Effort:
        """This until so much of the whole is used."""
        return replace(self, end_ratio=min(self.end_ratio, ratio))

    def part(self, ratio: float) -> Effort:
        """So much of what is left now."""
        return replace(self, end_ratio=self.end_ratio - (1 - ratio) * max(self.left_ratio, 0.0))

    def at_least(self, ratio: float) -> Effort:
        """This, or so much of the whole where less is left."""
        return replace(self, end_ratio=max(self.end_ratio, self.meter.used_ratio + ratio))

    def spend(self, iterations: float) -> None:
        """Count what a programme took."""
        self.meter.iterations += iterations


def used(amount: float, most: float) -> float:
    """The part of a limit that is used; a limit of nothing is used from the start."""
    return amount / most if most > 0 else 1.0
