"""Laws that look ahead by the time that a start takes: two classic forecasts, and our own with a margin that learns."""

from __future__ import annotations

import math
from collections import deque

import numpy as np

from gpufleet.domain.arrays import FloatArray
from gpufleet.simulate.forecasts import Forecast, HoltWinters, LeadForecast, SeasonalNaive
from gpufleet.simulate.scaling import NONE_AT_ALL, Seen, Service
from gpufleet.simulate.scaling_policies import RollingExtreme
from gpufleet.units import DAY, HOUR, MINUTE

FORECAST_STEP_S, OWN_STEP_S = 5 * MINUTE, MINUTE
TAILS = (0.9, 0.92, 0.94, 0.955, 0.97, 0.98, 0.99, 0.995, 0.999)
QUANTILES = np.array([*np.linspace(0.025, 0.875, 18), *TAILS])
WEIGHTS = np.diff(np.concatenate([[0.0], (QUANTILES[1:] + QUANTILES[:-1]) / 2, [1.0]]))
UNKNOWN_RATIOS = np.exp(np.linspace(-0.2, 0.3, len(QUANTILES)))
RATE_STEPS, MOST_RATE_RATIO = 600, 1.5


def lead_steps(service: Service, step_s: float) -> int:
    """Steps from the one that has just ended to the one in which a replica that starts now is ready."""
    return math.ceil(service.lead_ticks * service.tick_s / step_s - NONE_AT_ALL) + 1


class Forecasting:
    """As many replicas as a forecast of the rate needs until a start is over, with headroom; one at the least."""

    def __init__(self, service: Service, forecast: Forecast, headroom_ratio: float = 0.1) -> None:
        self.service, self.forecast, self.headroom_ratio = service, forecast, headroom_ratio
        self.ticks, self.lead = max(round(FORECAST_STEP_S / service.tick_s), 1), lead_steps(service, FORECAST_STEP_S)
        self.count, self.came, self.wanted = 0, 0.0, -1

    @classmethod
    def seasonal_naive(cls, service: Service, headroom_ratio: float = 0.1) -> Forecasting:
        """As the day before."""
        return cls(service, SeasonalNaive(round(DAY / FORECAST_STEP_S)), headroom_ratio)

    @classmethod
    def holt_winters(cls, service: Service, headroom_ratio: float = 0.1, level: float = 0.3) -> Forecasting:
        """By Holt-Winters with a season of a day."""
        return cls(service, HoltWinters(round(DAY / FORECAST_STEP_S), level), headroom_ratio)

    def decide(self, seen: Seen) -> int:
        """Anew once a step."""
        self.wanted = seen.replicas if self.wanted < 0 else self.wanted
        self.came += seen.rate_per_s
        self.count += 1
        if self.count % self.ticks == 0:
            self.forecast.add(self.came / self.ticks)
            self.came = 0.0
            most = max(self.forecast.ahead(steps) for steps in range(1, self.lead + 1))
            self.wanted = max(self.service.replicas_for(most * (1 + self.headroom_ratio)), 1)
        return self.wanted


class DayBudget:
    """How many requests may still miss their limits today, and how strict that makes the next minutes.

    Of the share that may miss, `CAREFUL` is meant to be used at the beginning of a day and `FREE` at its end, less a
    reserve: what the worst hour of two days cost, while an hour is left. `tolerance` is the share of forecasts that
    may come out too low; it is learned from misses meant and misses seen, and shrinks with what is left.
    """

    CAREFUL, FREE, RESERVE_RATIO, LEAST_RATIO, MOST_RESERVE = 0.6, 0.97, 1.2, 0.02, 0.7
    MOST_RATIO, FIRST_HOUR_RATIO, RESERVE_DAYS = 1.0, 0.3, 7
    GAIN, GAIN_S, LEAST, MOST = 0.3, 3 * HOUR, 3e-4, 0.9

    def __init__(self, miss_ratio: float, step_s: float, tolerance: float = 0.03) -> None:
        self.miss_ratio, self.step_s, self.tolerance = miss_ratio, step_s, tolerance
        self.steps = round(DAY / step_s)
        self.hour_steps = round(HOUR / step_s)
        self.hours: deque[float] = deque(maxlen=self.RESERVE_DAYS * round(DAY / HOUR))
        self.hour, self.came, self.missed, self.usual, self.count = 0.0, 0.0, 0.0, 0.0, 0
        self.now = tolerance

    def add(self, came: float, missed: float) -> None:
        """Requests of one step, and those of them that missed their limits."""
        self.came, self.missed, self.hour = self.came + came, self.missed + missed, self.hour + missed
        passed = self.count % self.steps + 1
        if passed % self.hour_steps == 0:
            self.hours.append(self.hour)
            self.hour = 0.0
        allowed = self.allowed(1 - passed / self.steps)
        self.learn(allowed * came - missed, passed)
        self.now = self.tolerance * max(allowed / (self.miss_ratio * self.CAREFUL), self.LEAST_RATIO)
        self.count += 1
        if passed == self.steps:
            self.usual = self.came if not self.usual else (self.usual + self.came) / 2
            self.came = self.missed = 0.0

    def allowed(self, left_ratio: float) -> float:
        """The share of what is still to come today that may miss."""
        by_time = self.came * left_ratio
        rest = self.usual - self.came if self.usual else by_time / max(1 - left_ratio, NONE_AT_ALL)
        rest = max(rest, by_time / 2, NONE_AT_ALL)
        whole = self.miss_ratio * (self.came + rest)
        unknown = self.FIRST_HOUR_RATIO * whole if len(self.hours) < 24 else 0.0
        used = self.FREE - (self.FREE - self.CAREFUL) * rest / (self.came + rest)
        hours_left = left_ratio * DAY / HOUR
        reserve = self.RESERVE_RATIO * max([unknown, *self.hours]) * min(hours_left, 1.0)
        spare = whole * used - self.missed - min(reserve, self.MOST_RESERVE * whole)
        return min(max(spare / rest, 0.0), self.MOST_RATIO * self.miss_ratio)

    def learn(self, unused: float, passed: int) -> None:
        """A larger tolerance where fewer missed than were meant to, a smaller one where more did."""
        usual = (self.usual or self.came * self.steps / passed) / self.steps
        by = unused / max(usual * self.miss_ratio, NONE_AT_ALL)
        self.tolerance *= math.exp(self.GAIN * min(max(by, -3.0), 1.0) * self.step_s / self.GAIN_S)
        self.tolerance = min(max(self.tolerance, self.LEAST), self.MOST)


class Predictive:
    """Our own law: the fewest replicas that keep enough requests in time, over what the rate may be once a start ends.

    Every minute the rate one cold start ahead is forecast, with the spread of the forecast's own past errors; the
    plan's closed form says which share of requests keeps its limits at each of those rates. `DayBudget` says how many
    may not. Never fewer than the rate of now needs; the backlog counts as a rate that a cold start works off; fewer
    only after `hold_ratio` cold starts that wanted no more: one is what a new start costs.
    """

    GROWTH = 2.0
    LEAST_LOAD, RECENT_S, QUANTILE_STEPS = 0.05, MINUTE / 2, 5

    def __init__(self, service: Service, hold_ratio: float = 1.0, min_replicas: int = 1) -> None:
        self.service, self.min_replicas = service, min_replicas
        self.each = service.planned_per_s
        self.ticks = max(round(OWN_STEP_S / service.tick_s), 1)
        step_s = self.ticks * service.tick_s
        lead, hour = lead_steps(service, step_s), round(HOUR / step_s)
        self.forecast = LeadForecast(lead, round(DAY / step_s), hour, self.each * self.LEAST_LOAD)
        self.budget = DayBudget(1 - service.target_ratio, step_s)
        self.held = RollingExtreme(hold_ratio * service.cold_start_s, 1.0)
        self.recent: deque[float] = deque(maxlen=max(round(self.RECENT_S / service.tick_s), 1))
        self.hour: deque[float] = deque(maxlen=hour)
        self.kept_at = kept_at_rates(service)
        self.ratios: FloatArray = UNKNOWN_RATIOS
        self.count, self.came, self.missed, self.wanted = 0, 0.0, 0.0, -1

    def decide(self, seen: Seen) -> int:
        """The forecast once a minute, what waits at once."""
        self.wanted = seen.replicas if self.wanted < 0 else self.wanted
        self.recent.append(seen.rate_per_s)
        self.came += seen.rate_per_s
        self.missed += seen.rate_per_s * (1 - seen.kept_ratio)
        self.count += 1
        if self.count % self.ticks == 0:
            self.step()
        wanted, known = self.wanted, sum(self.recent) / len(self.recent)
        if known > wanted * self.each:
            wanted = max(wanted, self.fewest(np.array([known]), np.ones(1)))
        held = self.held.add(seen.time_s, wanted)
        return max(held, self.needed_for_backlog(seen, known)) if seen.queue > 0 else held

    def needed_for_backlog(self, seen: Seen, rate_per_s: float) -> int:
        """Replicas that work off what will wait when a start is over, in as long as the start took."""
        lead_s = max(self.service.cold_start_s, self.service.tick_s)
        grows = max(rate_per_s - seen.ready * self.service.replica.sustained_per_s, 0.0)
        return max(self.needed_now(rate_per_s + self.GROWTH * grows + seen.queue / lead_s), 1)

    def step(self) -> None:
        """One more minute."""
        rate = self.came / self.ticks
        self.budget.add(self.came, self.missed)
        self.came = self.missed = 0.0
        self.hour.append(rate)
        self.forecast.add(rate)
        if self.forecast.count % self.QUANTILE_STEPS == 1:
            ratios = self.forecast.ratios(QUANTILES)
            self.ratios = UNKNOWN_RATIOS if ratios is None else ratios
        if not self.min_replicas and max(self.hour) <= 0:
            self.wanted = 0
            return
        now = self.fewest(np.array([rate]), np.ones(1))
        self.wanted = max(self.fewest(self.forecast.expected * self.ratios, WEIGHTS), now, self.min_replicas)

    def needed_now(self, rate_per_s: float) -> int:
        """Replicas for a rate that is known."""
        return math.ceil(rate_per_s / self.each - NONE_AT_ALL)

    def fewest(self, rates: FloatArray, weights: FloatArray) -> int:
        """The fewest replicas with which at most the tolerance misses, over rates by their weights."""
        most = min(self.needed_now(float(rates[-1])) + 1, max(self.service.max_replicas, 1))
        numbers = np.arange(max(int(rates[len(rates) // 2] / self.each / 2), 1), most + 1)
        if len(numbers) < 2:
            return most
        kept = np.interp(rates[:, None] / numbers, self.kept_at[0], self.kept_at[1], right=0.0)
        enough = np.flatnonzero(weights @ (1 - kept) <= self.budget.now)
        return int(numbers[enough[0]]) if len(enough) else most


def kept_at_rates(service: Service) -> tuple[FloatArray, FloatArray]:
    """The share that keeps its limits at rates of one replica; none above what is sustained: there queues grow."""
    rates = np.linspace(0.0, MOST_RATE_RATIO * service.planned_per_s, RATE_STEPS + 1)
    kept = service.replica.share_within(rates, np.zeros(len(rates)))
    return rates, np.where(rates < service.replica.sustained_per_s, kept, 0.0)
