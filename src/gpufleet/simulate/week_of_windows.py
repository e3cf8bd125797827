"""Machines by the time of the week: a forecast that a cron trigger runs, learnt from days and written as windows.

A window has its machines from a cold start before it begins until it ends; where two overlap the larger counts, as
KEDA takes the largest of its triggers. What the trace does not date begins on a Monday.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from typing import Protocol

import numpy as np

from gpufleet.domain.arrays import FloatArray, IntArray
from gpufleet.records import dataclass
from gpufleet.simulate.scaling import NONE_AT_ALL, Service
from gpufleet.units import DAY, HOUR, MINUTE

STEP_S, SAMPLE_S = HOUR, 5 * MINUTE
WEEK_DAYS, FIRST_OF_WEEKEND, EPOCH_WEEKDAY = 7, 5, 3
"""Days are counted from Monday; 1970-01-01 was a Thursday."""
LEAST_DATED_S = 365 * DAY
"""A trace that begins within a year of 1970 counts from its own start and says no dates; a judgement."""
LONGEST_WINDOW_S = DAY / 2
"""So that a window which returns every day has ended before it begins again, a cold start early."""
KINDS_OF_DAYS = (1, 2, WEEK_DAYS)
"""All days alike; from Monday to Friday, and the weekend; each day of the week by itself."""


@dataclass(frozen=True)
class Window:
    """Machines from `start_s` to `end_s` of the days of the week that are named, from Monday = 0 on."""

    days: tuple[int, ...]
    start_s: float
    end_s: float
    machines: int


class Clocked(Protocol):
    """Machines by the clock."""

    def at(self, time_s: float) -> int:
        """Machines that are wanted at a moment, those of a window that begins within a cold start too."""


@dataclass(frozen=True, eq=False)
class WeekOfWindows:
    """Machines of each step of a day, for each day of the week from Monday on; started `lead_s` before."""

    machines: IntArray
    lead_s: float
    is_dated: bool

    @cached_property
    def around(self) -> list[int]:
        """A week, and as much of the next as a start reaches into."""
        steps: list[int] = self.machines.ravel().tolist()
        return steps + steps[: math.ceil(self.lead_s / STEP_S) + 1]

    def at(self, time_s: float) -> int:
        """The most of all windows that have begun by the end of a start, and have not ended."""
        moment = of_the_week(time_s, self.is_dated)
        return max(self.around[int(moment // STEP_S) : int((moment + self.lead_s) // STEP_S) + 1])

    @property
    def least(self) -> int:
        """Machines that there are at any time."""
        return int(self.machines.min())

    def windows(self) -> list[Window]:
        """What is above the least, as windows: equal ones of several days are one."""
        found: dict[tuple[float, float, int], list[int]] = {}
        for day, row in enumerate(self.machines.tolist()):
            for start, end, number in runs(row):
                if number > self.least:
                    found.setdefault((start, end, number), []).append(day)
        return [Window(tuple(days), *window) for window, days in sorted(found.items())]


@dataclass(frozen=True, eq=False)
class HeldOut:
    """For each day of a play the week that was learnt from the others: what settings are searched with."""

    weeks: tuple[WeekOfWindows, ...]
    whole: WeekOfWindows
    start_s: float

    def at(self, time_s: float) -> int:
        """Of the week that did not see the day of this moment; of the whole one after the days that taught it."""
        day = int((time_s - self.start_s - NONE_AT_ALL) // DAY)
        return (self.weeks[day] if 0 <= day < len(self.weeks) else self.whole).at(time_s)


def runs(row: list[int]) -> Iterator[tuple[float, float, int]]:
    """Spans of equal numbers within a day, none longer than half of it.

    >>> list(runs([1] * 6 + [3] * 18))
    [(0.0, 21600.0, 1), (21600.0, 43200.0, 3), (43200.0, 86400.0, 3)]
    """
    begun = 0
    for step in range(1, len(row) + 1):
        if step == len(row) or row[step] != row[begun] or step * STEP_S % LONGEST_WINDOW_S == 0:
            yield begun * STEP_S, step * STEP_S, row[begun]
            begun = step


def of_the_week(time_s: float, is_dated: bool) -> float:
    """Seconds since Monday 00:00, of the clock that the trace is told in.

    >>> of_the_week(0.0, True) / DAY, of_the_week(0.0, False)
    (3.0, 0.0)
    """
    return (time_s + EPOCH_WEEKDAY * DAY * is_dated) % (WEEK_DAYS * DAY)


def kind_of(weekday: IntArray, kinds: int) -> IntArray:
    """Which days are taken as alike.

    >>> kind_of(np.arange(7), 2).tolist()
    [0, 0, 0, 0, 0, 1, 1]
    """
    if kinds == 1:
        return np.zeros_like(weekday)
    return weekday if kinds == WEEK_DAYS else (weekday >= FIRST_OF_WEEKEND).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Learnt:
    """Rates of the days that are learnt from: mean rates of five minutes, where in the week, and on which day."""

    rates: FloatArray
    weekday: IntArray
    step: IntArray
    day: IntArray
    start_s: float
    is_dated: bool

    @classmethod
    def of(cls, arrivals: FloatArray, tick_s: float, start_s: float) -> Learnt:
        """From requests of every tick; a rest shorter than five minutes is left out."""
        ticks = max(round(SAMPLE_S / tick_s), 1)
        number = max(len(arrivals) // ticks, 1)
        cut = arrivals[: number * ticks]
        rates = cut.reshape(number, -1).sum(axis=1) / (len(cut) / number * tick_s)
        since_s = (np.arange(number) + 0.5) * ticks * tick_s
        is_dated = start_s >= LEAST_DATED_S
        moment = (start_s + since_s + EPOCH_WEEKDAY * DAY * is_dated) % (WEEK_DAYS * DAY)
        weekday, step = (moment // DAY).astype(np.int64), (moment % DAY // STEP_S).astype(np.int64)
        return cls(rates, weekday, step, (since_s // DAY).astype(np.int64), start_s, is_dated)

    @property
    def num_days(self) -> int:
        """Days that are learnt from, begun ones too."""
        return int(self.day[-1]) + 1

    @cached_property
    def known(self) -> dict[tuple[Service, float, float, float], HeldOut]:
        """What was held out of it: settings of a law are searched with the same windows many times."""
        return {}

    @cached_property
    def known_rates(self) -> dict[tuple[float, int, int], FloatArray]:
        """Rates of a week that were taken from it."""
        return {}

    def week(self, service: Service, quantile_ratio: float, days_apart: float, spare_ratio: float) -> WeekOfWindows:
        """Machines for a high rate of each hour, of days that are alike.

        `days_apart` kinds of them are told apart: 1, 2 or 7; under a week of days, all are taken as alike.
        """
        return self._week(service, quantile_ratio, days_apart, spare_ratio, -1)

    def held_out(self, service: Service, quantile_ratio: float, days_apart: float, spare_ratio: float) -> HeldOut:
        """For each day what the others teach; of a single day, what it teaches itself."""
        said = (service, quantile_ratio, days_apart, spare_ratio)
        if said not in self.known:
            days = range(self.num_days) if self.num_days > 1 else ()
            self.known[said] = HeldOut(tuple(self._week(*said, day) for day in days), self.week(*said), self.start_s)
        return self.known[said]

    def _week(
        self, service: Service, quantile_ratio: float, days_apart: float, spare_ratio: float, without: int
    ) -> WeekOfWindows:
        said = (quantile_ratio, int(days_apart) if self.num_days >= WEEK_DAYS else 1, without)
        if said not in self.known_rates:
            self.known_rates[said] = self.rates_of_week(*said)
        rates = self.known_rates[said]
        needed = np.ceil(rates * (1 + spare_ratio) / service.planned_per_s - NONE_AT_ALL)
        machines = np.clip(needed, max(service.min_replicas, 1), max(service.max_replicas, 1)).astype(np.int64)
        return WeekOfWindows(machines, math.ceil(service.cold_start_s / MINUTE) * MINUTE, self.is_dated)

    def rates_of_week(self, quantile_ratio: float, days_apart: int, without: int = -1) -> FloatArray:
        """A high rate of each hour of each day of the week, of all days but one; of days like it where it had none."""
        steps, seen = round(DAY / STEP_S), self.day != without
        rates = np.full((WEEK_DAYS, steps), self.rates.max())
        for coarser in (kinds for kinds in KINDS_OF_DAYS if kinds <= days_apart):
            learnt, own = kind_of(self.weekday, coarser), kind_of(np.arange(WEEK_DAYS), coarser)
            for kind, step in np.ndindex(coarser, steps):
                held = self.rates[seen & (learnt == kind) & (self.step == step)]
                if len(held):
                    rates[own == kind, step] = np.quantile(held, quantile_ratio)
        return rates
