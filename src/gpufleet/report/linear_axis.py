"""An axis from zero, with round ticks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from gpufleet import units
from gpufleet.records import dataclass
from gpufleet.report.numbers import amount

STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
CLOCK_S = (15.0, 30.0, units.MINUTE, 5 * units.MINUTE, 15 * units.MINUTE, units.HOUR, 2 * units.HOUR,
           6 * units.HOUR, 12 * units.HOUR, units.DAY)  # fmt: skip


@dataclass(frozen=True)
class LinearAxis:
    """From zero to `high`, which is above zero."""

    high: float

    def position(self, value: float) -> float:
        """Where a value stands, 0 to 1."""
        return min(max(value / self.high, 0.0), 1.0)


def round_steps(high: float, most: int, rounded: Sequence[float] = STEPS) -> list[float]:
    """Zero and round values up to `high`, at most so many steps, each `rounded` within its power of ten.

    >>> round_steps(23.0, 4), round_steps(1.0, 2), round_steps(90.0, 8, (1.0, 2.0, 5.0, 10.0))
    ([0.0, 10.0, 20.0], [0.0, 0.5, 1.0], [0.0, 20.0, 40.0, 60.0, 80.0])
    """
    least = high / most
    decade = 10.0 ** math.floor(math.log10(least))
    return multiples(next(step * decade for step in rounded if step * decade >= least * (1 - 1e-9)), high)


def multiples(step: float, high: float) -> list[float]:
    """Zero and the multiples of a step."""
    return [n * step for n in range(math.floor(high / step * (1 + 1e-9)) + 1)]


def time_ticks(high_s: float, most: int) -> tuple[list[float], Callable[[float], str]]:
    """Moments that are round on a clock, and how each of them is written: all in one unit.

    >>> ticks, show = time_ticks(7200.0, 6)
    >>> [show(tick) for tick in ticks]
    ['0 min', '60 min', '120 min']
    """
    step_s = next((step for step in CLOCK_S if step >= high_s / most and high_s >= units.MINUTE), None)
    ticks = round_steps(high_s, most) if step_s is None or high_s > most * units.DAY else multiples(step_s, high_s)
    unit, scale = clock_unit(high_s)
    return ticks, lambda tick: f"{amount(tick / scale)} {unit}"


def clock_unit(high_s: float) -> tuple[str, float]:
    """The unit of all ticks on an axis of time.

    >>> clock_unit(90.0), clock_unit(3600.0)[0], clock_unit(90_000.0)[0]
    (('s', 1.0), 'min', 'h')
    """
    named = (("days", 10 * units.DAY, units.DAY), ("h", 6 * units.HOUR, units.HOUR))
    found = next(((name, scale) for name, least_s, scale in named if high_s >= least_s), None)
    return found or (("min", units.MINUTE) if high_s >= 5 * units.MINUTE else ("s", 1.0))
