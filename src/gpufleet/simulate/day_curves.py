"""Rates that rise and fall with the hours of a day and the days of a week."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from gpufleet.domain.rate_curve import RateCurve
from gpufleet.errors import UsageError
from gpufleet.simulate.arrivals import checked_rate
from gpufleet.units import DAY, HOUR

DAYS_OF_A_WEEK, WORKING_DAYS = 7, 5


def daily_curve(mean_rate_per_s: float, peak_ratio: float, peak_at_s: float, num_days: int, bin_s: float) -> RateCurve:
    """Days that rise and fall as a cosine about a mean rate; the most is `peak_ratio` times that, at `peak_at_s`.

    rate(t) = mean (1 + (peak - 1) cos(2 pi (t - peak_at) / day))   [requests/s], peak 1 to 2

    >>> curve = daily_curve(10.0, 1.5, 12 * HOUR, 1, HOUR)
    >>> round(curve.mean_rate_per_s, 9), round(float(curve.rate_per_s.max()), 2)
    (10.0, 14.96)
    """
    if not 1 <= peak_ratio <= 2:
        raise UsageError("the peak of a day over its mean is out of range", found=peak_ratio, expected="from 1 to 2")
    num_bins = bins_of(num_days * DAY, bin_s)
    angles = 2 * math.pi * ((np.arange(num_bins) + 0.5) * bin_s - peak_at_s) / DAY
    return RateCurve(0.0, checked_rate(mean_rate_per_s) * (1 + (peak_ratio - 1) * np.cos(angles)), bin_s)


def weekly_curve(day: RateCurve, weekend_ratio: float, num_weeks: int) -> RateCurve:
    """Weeks of five such days and two of which each has `weekend_ratio` times its requests, from a Monday on."""
    ratios = np.repeat([1.0, weekend_ratio], [WORKING_DAYS, DAYS_OF_A_WEEK - WORKING_DAYS])
    week = day.repeated(DAYS_OF_A_WEEK)
    return RateCurve(day.start_s, week.rate_per_s * np.repeat(ratios, len(day)), day.bin_s, week.cv).repeated(num_weeks)


def hourly_curve(rates_per_s: Sequence[float]) -> RateCurve:
    """One rate for each hour: 24 are a day, 168 a week."""
    return RateCurve(0.0, np.array(rates_per_s, dtype=np.float64), HOUR)


def bins_of(span_s: float, bin_s: float) -> int:
    """How many whole bins a span has."""
    num = round(span_s / bin_s)
    if num < 1 or not math.isclose(num * bin_s, span_s):
        raise UsageError("the bins of a curve do not divide its days", found=bin_s, expected="such as 600 seconds")
    return num
