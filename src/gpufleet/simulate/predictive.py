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
    """How many requests may still miss their limits today, and what that makes of the next minutes.

    Of the share that may miss, `CAREFUL` is meant to be used at the beginning of a day and `FREE` at its end, less a
    reserve for an hour as bad as the worst of a week, beyond what was meant to miss. `now` is the share of forecasts
    that may come out too low: learned from misses meant and misses seen, smaller as less is left. `price` is what a
    late request is worth: see `Predictive.fewest`.
    """

    CAREFUL, FREE, RESERVE_RATIO, LEAST_RATIO, MOST_RESERVE = 0.6, 0.97, 1.2, 0.02, 0.7
    MOST_RATIO, FIRST_HOUR_RATIO, RESERVE_DAYS = 1.0, 0.3, 7
    GAIN, GAIN_S, LEAST, MOST = 0.3, 3 * HOUR, 3e-4, 0.9
    CHEAP, LEAST_PRICE, DIRE, MOST_PRICE, NEEDED_RATIO = 0.3, 1.5, 40.0, 300.0, 0.5

    def __init__(self, miss_ratio: float, step_s: float, tolerance: float = 0.06) -> None:
        self.miss_ratio, self.step_s, self.tolerance = miss_ratio, step_s, tolerance
        self.steps = round(DAY / step_s)
        self.hour_steps = round(HOUR / step_s)
        self.hours: deque[float] = deque(maxlen=self.RESERVE_DAYS * round(DAY / HOUR))
        self.hour, self.came, self.missed, self.usual, self.count = 0.0, 0.0, 0.0, 0.0, 0
        self.now, self.price = tolerance, self.price_at(0.0)

    def add(self, came: float, missed: float) -> None:
        """Requests of one step, and those of them that missed their limits."""
        self.came, self.missed = self.came + came, self.missed + missed
        passed = self.count % self.steps + 1
        left_ratio = 1 - passed / self.steps
        rest = self.rest(left_ratio)
        worst = self.worst(rest, left_ratio)
        allowed = self.allowed(rest, worst)
        self.hour += missed - allowed * came
        if passed % self.hour_steps == 0:
            self.hours.append(self.hour)
            self.hour = 0.0
        self.learn(allowed * came - missed, passed)
        self.now = self.tolerance * max(allowed / (self.miss_ratio * self.CAREFUL), self.LEAST_RATIO)
        self.price = self.price_at(self.danger(rest, worst))
        self.count += 1
        if passed == self.steps:
            self.usual = self.came if not self.usual else (self.usual + self.came) / 2
            self.came = self.missed = 0.0

    def rest(self, left_ratio: float) -> float:
        """Requests that are still to come today."""
        by_time = self.came * left_ratio
        rest = self.usual - self.came if self.usual else by_time / max(1 - left_ratio, NONE_AT_ALL)
        return max(rest, by_time / 2, NONE_AT_ALL)

    def worst(self, rest: float, left_ratio: float) -> float:
        """What one bad hour may miss; less where no hour is left; of the first day nothing is known."""
        unknown = self.FIRST_HOUR_RATIO * self.miss_ratio * (self.came + rest) if len(self.hours) < 24 else 0.0
        return max([unknown, *self.hours]) * min(left_ratio * DAY / HOUR, 1.0)

    def allowed(self, rest: float, worst: float) -> float:
        """The share of what is still to come today that may miss."""
        whole = self.miss_ratio * (self.came + rest)
        used = self.FREE - (self.FREE - self.CAREFUL) * rest / (self.came + rest)
        spare = whole * used - self.missed - min(self.RESERVE_RATIO * worst, self.MOST_RESERVE * whole)
        return min(max(spare / rest, 0.0), self.MOST_RATIO * self.miss_ratio)

    def danger(self, rest: float, worst: float) -> float:
        """How near the day is to its end: 0 while two bad hours fit in what may miss, 1 where not even one does.

        A bad hour misses no less than half of what the rest of the day may.
        """
        bad = max(worst, self.NEEDED_RATIO * self.miss_ratio * rest)
        return min(max((self.missed + 2 * bad - self.miss_ratio * (self.came + rest)) / bad, 0.0), 1.0)

    def price_at(self, danger: float) -> float:
        """Late requests are cheap where many forecasts may be wrong without harm, dear where the day is in danger.

        (`CHEAP` / tolerance)^2, times `DIRE`^danger   [time of a machine per late request that keeps it busy as long]
        """
        calm = max((self.CHEAP / self.tolerance) ** 2, self.LEAST_PRICE)
        return min(calm * math.pow(self.DIRE, danger), self.MOST_PRICE)

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
    may not, and what a late request is worth: what is dear to prevent is not prevented, as long as the day can bear it.
    Never fewer than the rate of now needs; what will wait when a start is over is worked off in a small part of a
    start, for all who come meanwhile are late; fewer only after `hold_ratio` cold starts that wanted no more.
    """

    DRAIN_RATIO = 0.15
    LEAST_LOAD, RECENT_S, QUANTILE_STEPS = 0.05, MINUTE / 2, 5

    def __init__(self, service: Service, hold_ratio: float = 0.7, min_replicas: int = 1) -> None:
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
        """Replicas for the rate, and to work off in `DRAIN_RATIO` starts what will wait when a start is over."""
        lead_s = max(self.service.cold_start_s, self.service.tick_s)
        rate = max(rate_per_s, seen.rate_per_s)
        grows = max(rate - seen.ready * self.service.replica.sustained_per_s, 0.0)
        return max(self.needed_now(rate + (grows * lead_s + seen.queue) / (self.DRAIN_RATIO * lead_s)), 1)

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
        """The fewest replicas with which at most the tolerance misses, over rates by their weights.

        Fewer where more would cost more than the late requests are worth: n + price x E[late rate] / planned rate is
        least there.
        """
        most = min(self.needed_now(float(rates[-1])) + 1, max(self.service.max_replicas, 1))
        numbers = np.arange(max(int(rates[len(rates) // 2] / self.each / 2), 1), most + 1)
        if len(numbers) < 2:
            return most
        late = 1 - np.interp(rates[:, None] / numbers, self.kept_at[0], self.kept_at[1], right=0.0)
        worth = int(np.argmin(numbers + self.budget.price / self.each * ((weights * rates) @ late)))
        enough = np.flatnonzero(weights @ late <= self.budget.now)
        return int(numbers[min(enough[0], worth) if len(enough) else worth])


def kept_at_rates(service: Service) -> tuple[FloatArray, FloatArray]:
    """The share that keeps its limits at rates of one replica; none above what is sustained: there queues grow."""
    rates = np.linspace(0.0, MOST_RATE_RATIO * service.planned_per_s, RATE_STEPS + 1)
    kept = service.replica.share_within(rates, np.zeros(len(rates)))
    return rates, np.where(rates < service.replica.sustained_per_s, kept, 0.0)
