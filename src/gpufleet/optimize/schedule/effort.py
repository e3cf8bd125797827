"""What a search may spend: counted work, in rounds, and seconds where somebody typed a limit."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

from gpufleet.records import dataclass

STEPS_PER_WORK = 1000.0
"""Steps of the search that take about as long as one unit of the solvers' deterministic time."""
FIRST_STEPS, TIMES_MORE = 250.0, 4.0
"""Of the first round, and of each against the one before."""


def without_limit() -> float:
    """Seconds that are left where nobody typed a limit."""
    return math.inf


@dataclass(frozen=True)
class Effort:
    """So many `steps` of the search, and as much work of the solvers; `left_s` tells the seconds until a limit."""

    steps: float
    left_s: Callable[[], float] = without_limit
    workers: int = 1
    seed: int = 0

    @property
    def work(self) -> float:
        """Steps in the solvers' own deterministic time."""
        return self.steps / STEPS_PER_WORK

    def goes_on(self, tries: int) -> bool:
        """Whether another step is made."""
        return tries < self.steps and self.left_s() > 0

    def rounds(self) -> Iterator[Effort]:
        """The same in parts, each four times the one before: small questions are settled in the first.

        >>> [one.steps for one in Effort(2000.0).rounds()]
        [250.0, 1000.0, 750.0]
        """
        left, steps = self.steps, FIRST_STEPS
        while left > 0 and self.left_s() > 0:
            yield replace(self, steps=min(steps, left))
            left -= steps
            steps *= TIMES_MORE
