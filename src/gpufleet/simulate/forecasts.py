"""Forecasts of a rate from its own past, step by step: none sees what it has not been told.

Source of the two classics: Hyndman and Athanasopoulos, Forecasting: Principles and Practice, 3rd ed., 5.2 and 8.3.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Protocol

import numpy as np

from gpufleet.domain.arrays import FloatArray


class Forecast(Protocol):
    """Takes one rate after the other and says what comes some steps later."""

    def add(self, value: float) -> None:
        """The value of one more step."""

    def ahead(self, steps: int) -> float:
        """What is expected `steps` after the last one."""


class SeasonalNaive:
    """What there was a season before; within the first season, the last value.

    >>> f = SeasonalNaive(3)
    >>> for value in (1.0, 2.0, 3.0, 4.0):
    ...     f.add(value)
    >>> f.ahead(1), f.ahead(3), f.ahead(4)
    (2.0, 4.0, 2.0)
    """

    def __init__(self, season_steps: int) -> None:
        self.season_steps = season_steps
        self.past: deque[float] = deque(maxlen=season_steps)

    def add(self, value: float) -> None:
        """The value of one more step."""
        self.past.append(value)

    def ahead(self, steps: int) -> float:
        """The value a season before that step."""
        if len(self.past) < self.season_steps:
            return self.past[-1] if self.past else 0.0
        return self.past[(steps - 1) % self.season_steps]


class HoltWinters:
    """Additive Holt-Winters: a level, a trend and a season, each moved towards what came.

    level' = a (x - season) + (1 - a) (level + trend); trend' = b (level' - level) + (1 - b) trend;
    season' = g (x - level') + (1 - g) season. The first season sets the level to its mean and the season to what was
    above it; until then the last value stands for all. Forecasts are not negative.
    """

    def __init__(self, season_steps: int, level: float = 0.3, trend: float = 0.0, season: float = 0.3) -> None:
        self.weights = (level, trend, season)
        self.season = np.zeros(season_steps)
        self.level, self.trend, self.count = 0.0, 0.0, 0

    def add(self, value: float) -> None:
        """The value of one more step."""
        length, (a, b, g) = len(self.season), self.weights
        at = self.count % length
        self.count += 1
        if self.count <= length:
            self.season[at] = value
            self.level = value
            if self.count == length:
                self.begin()
            return
        before = self.level
        self.level = a * (value - self.season[at]) + (1 - a) * (before + self.trend)
        self.trend = b * (self.level - before) + (1 - b) * self.trend
        self.season[at] = g * (value - self.level) + (1 - g) * self.season[at]

    def begin(self) -> None:
        """The first season is over."""
        last = float(self.season[-1])
        self.season -= self.season.mean()
        self.level = last - float(self.season[-1])

    def ahead(self, steps: int) -> float:
        """Level, trend and season that many steps on."""
        if self.count < len(self.season):
            return self.level
        season = float(self.season[(self.count + steps - 1) % len(self.season)])
        return max(self.level + steps * self.trend + season, 0.0)


class LeadForecast:
    """The rate one lead ahead by an online regression of logarithms, and how wrong it was when the rate was like now.

    log(x[t + h] / L) = a . (log(S[t + h] / S[t]), log(S[t] / L), log(L / L[-h]), log(H / L)) with L the level now, H
    the mean of the last hour, S what this time of the day had before. Least squares that forget, from a = (1, 0, 0, 0):
    as a day before, from the level of now. Nothing is known of S on the first day: its terms are zero.
    """

    SMOOTHED, LEVEL_STEPS, MEMORY, PRIOR, CLIP, MOST_SPREAD = 15, 2, 0.9995, 20.0, 1.0, 20.0
    SEASON_WEIGHT, ERRORS_SEASONS, NEAR_RATIO, FEWEST, LATEST_HOURS = 0.4, 3, 0.25, 300, 0.7

    def __init__(self, lead_steps: int, season_steps: int, hour_steps: int, least: float) -> None:
        self.lead, self.hour_steps, self.least = lead_steps, hour_steps, least
        self.season = np.full(season_steps, np.nan)
        self.weights, self.spread = np.array([1.0, 0.0, 0.0, 0.0]), np.eye(4) / self.PRIOR
        self.logs: deque[float] = deque(maxlen=max(hour_steps, self.SMOOTHED, lead_steps + 1))
        self.asked: deque[tuple[FloatArray, float, float]] = deque()
        self.errors, self.forecasts = np.zeros((2, self.ERRORS_SEASONS * season_steps))
        self.judged, self.count, self.expected_log = 0, 0, 0.0

    def add(self, value: float) -> None:
        """The value of one more step: what was forecast of it is judged and learned from, and the next is forecast."""
        log = math.log(max(value, self.least))
        self.logs.append(log)
        if len(self.asked) == self.lead:
            self.learn(log)
        self.remember()
        level = sum(list(self.logs)[-self.LEVEL_STEPS :]) / min(len(self.logs), self.LEVEL_STEPS)
        terms = self.terms(level)
        self.expected_log = level + float(terms @ self.weights)
        self.asked.append((terms, level, self.expected_log))
        self.count += 1

    def learn(self, log: float) -> None:
        """Recursive least squares on the forecast that was for this step."""
        terms, level, expected = self.asked.popleft()
        at = self.judged % len(self.errors)
        self.errors[at], self.forecasts[at] = log - expected, expected
        self.judged += 1
        spread = self.spread @ terms
        gain = spread / (self.MEMORY + terms @ spread)
        miss = log - level - float(terms @ self.weights)
        self.weights = self.weights + gain * min(max(miss, -self.CLIP), self.CLIP)
        self.spread = (self.spread - np.outer(gain, spread)) / self.MEMORY
        if np.trace(self.spread) > 2 * len(terms) * self.MOST_SPREAD / self.PRIOR:
            self.forget_no_further()

    def forget_no_further(self) -> None:
        """Bound what is unknown of each term: of one that nothing is seen of, all would be forgotten in time."""
        widths, directions = np.linalg.eigh((self.spread + self.spread.T) / 2)
        self.spread = (directions * np.clip(widths, 0.0, self.MOST_SPREAD / self.PRIOR)) @ directions.T

    def remember(self) -> None:
        """What this time of the day has, smoothed over some steps about it."""
        if len(self.logs) < self.SMOOTHED:
            return
        at = (self.count - self.SMOOTHED // 2) % len(self.season)
        mean = sum(list(self.logs)[-self.SMOOTHED :]) / self.SMOOTHED
        before = self.season[at]
        self.season[at] = mean if math.isnan(before) else before + self.SEASON_WEIGHT * (mean - before)

    def terms(self, level: float) -> FloatArray:
        """What the forecast is made of."""
        length = len(self.season)
        then, now = float(self.season[(self.count + self.lead) % length]), float(self.season[self.count % length])
        logs = list(self.logs)
        before = logs[-1 - self.lead] if len(logs) > self.lead else logs[0]
        hour = sum(logs[-self.hour_steps :]) / min(len(logs), self.hour_steps)
        known = not (math.isnan(then) or math.isnan(now))
        return np.array([then - now if known else 0.0, now - level if known else 0.0, level - before, hour - level])

    @property
    def expected(self) -> float:
        """What is forecast one lead ahead."""
        return math.exp(self.expected_log)

    def ratios(self, quantiles: FloatArray) -> FloatArray | None:
        """Quantiles of what came over what was forecast, of the forecasts most like this one; None: too few so far."""
        number = min(self.judged, len(self.errors))
        if number < 2 * self.LEVEL_STEPS + self.hour_steps:
            return None
        errors = self.errors[:number]
        near = max(int(number * self.NEAR_RATIO), self.FEWEST)
        if near < number:
            latest = np.arange(self.judged - round(self.LATEST_HOURS * self.hour_steps), self.judged) % number
            distance = np.abs(self.forecasts[:number] - self.expected_log)
            errors = np.concatenate([errors[np.argpartition(distance, near)[:near]], errors[latest]])
        at = quantiles * (len(errors) - 1)
        return np.asarray(np.exp(np.interp(at, np.arange(len(errors)), np.sort(errors))))
