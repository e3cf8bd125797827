"""When requests come: Poisson, in bursts, evenly, all at once, or by a curve of rates.

Gaps between arrivals are Gamma with mean 1 / rate and shape `burstiness`, as vLLM's benchmark has them: 1 is Poisson,
more is smoother, less comes in bursts; their coefficient of variation is 1 / sqrt(burstiness). A replay begins at any
moment, not at an arrival: so many seconds hold rate x seconds requests on average, whatever the burstiness.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from gpufleet.domain.arrays import FloatArray
from gpufleet.domain.rate_curve import RateCurve
from gpufleet.errors import UsageError
from gpufleet.units import REQUESTS_PER_S, Bounds

MOST_REQUESTS = 20_000_000
BURSTINESS = Bounds(1e-4, 1e6, "")
POISSON = 1.0
SPREADS_OF_A_BATCH, LEAST_OF_A_BATCH = 4.0, 8
CHUNK = 1_000_000


def checked_number(num: float) -> int:
    """A number of requests, refused where memory does not hold them.

    >>> checked_number(1e9)
    Traceback (most recent call last):
    gpufleet.errors.UsageError: too many requests to replay; found '1,000,000,000'; expected at most 20,000,000. \
Replay fewer of them, or a part of the time.
    """
    if not 0 <= num <= MOST_REQUESTS:
        found = f"{num:,.0f}" if math.isfinite(num) else num
        problem = "too many requests to replay" if num > 0 else "a number of requests is not negative"
        hint = "Replay fewer of them, or a part of the time."
        raise UsageError(problem, found=found, expected=f"at most {MOST_REQUESTS:,}", hint=hint)
    return int(num)


def checked_rate(rate_per_s: float) -> float:
    """A rate that somebody means."""
    REQUESTS_PER_S.refuse_outside(rate_per_s, "the rate", rate_per_s)
    return rate_per_s


def checked_burstiness(burstiness: float) -> float:
    """A burstiness that somebody means."""
    BURSTINESS.refuse_outside(burstiness, "the burstiness", burstiness)
    return burstiness


def burstiness_of_cv(cv: float) -> float:
    """The burstiness whose gaps vary so: 1 / cv^2   [1], within BURSTINESS.

    >>> burstiness_of_cv(2.0), burstiness_of_cv(0.0)
    (0.25, 1000000.0)
    """
    least, most = 1 / math.sqrt(BURSTINESS.most), 1 / math.sqrt(BURSTINESS.least)
    return 1 / min(max(cv, least), most) ** 2


def renewal_times_s(rng: np.random.Generator, rate_per_s: float, num: float, burstiness: float = POISSON) -> FloatArray:
    """Arrival times of so many requests at a mean rate   [s], from 0."""
    gaps = unit_gaps(rng, checked_number(num), checked_burstiness(burstiness))
    gaps[:1] = first_unit_gap(rng, burstiness)
    times = np.cumsum(gaps, out=gaps)
    times /= checked_rate(rate_per_s)
    return times


def renewal_times_within_s(
    rng: np.random.Generator, rate_per_s: float, span_s: float, burstiness: float = POISSON
) -> FloatArray:
    """Arrival times in so many seconds at a mean rate   [s], from 0."""
    return curve_times_s(rng, RateCurve(0.0, np.array([checked_rate(rate_per_s)]), span_s), burstiness)


def even_times_s(rate_per_s: float, num: float) -> FloatArray:
    """Arrival times of so many requests at equal distances, the first at 0   [s].

    >>> even_times_s(2.0, 3).tolist()
    [0.0, 0.5, 1.0]
    """
    times = np.arange(checked_number(num), dtype=np.float64)
    times /= checked_rate(rate_per_s)
    return times


def burst_times_s(num: float, at_s: float = 0.0) -> FloatArray:
    """So many requests at once   [s]."""
    return np.full(checked_number(num), at_s)


def curve_times_s(rng: np.random.Generator, curve: RateCurve, burstiness: float | None = None) -> FloatArray:
    """Arrival times whose rate follows a curve   [s], from the start of its first bin as 0.

    A stream of rate 1 runs in the time L(t) = integral of the rate; an arrival at L comes at t(L): exactly the
    inhomogeneous Poisson process where the burstiness is 1 (Cinlar 1975, 4.7), else gaps as bursty at every rate.
    The curve's own cv counts where no burstiness is stated.
    """
    checked_number(curve.num_expected)
    ends = np.cumsum(curve.rate_per_s * curve.bin_s)
    if burstiness is not None or curve.cv is None:
        shapes = [checked_burstiness(POISSON if burstiness is None else burstiness)]
        units = unit_times(rng, ends[-1:], shapes)
    else:
        units = unit_times(rng, ends, [burstiness_of_cv(float(cv)) for cv in curve.cv])
    return times_of_units(curve, ends, units)


def times_of_units(curve: RateCurve, ends: FloatArray, units: FloatArray) -> FloatArray:
    """When the integral of the rate, `ends` at the end of each bin, reaches each of `units`; `units` is taken for it.

    Bins without requests are passed over: no arrival lies in them.
    """
    busy = np.flatnonzero(curve.rate_per_s)
    reached, rates = ends[busy] - curve.rate_per_s[busy] * curve.bin_s, curve.rate_per_s[busy]
    for part in chunks(len(units)):
        bins = np.maximum(np.searchsorted(reached, units[part], side="right") - 1, 0)
        since_s = (units[part] - reached[bins]) / rates[bins]
        units[part] = np.clip(since_s, 0.0, curve.bin_s) + busy[bins] * curve.bin_s
    return np.maximum.accumulate(units, out=units)


def unit_times(rng: np.random.Generator, ends: FloatArray, shapes: Sequence[float]) -> FloatArray:
    """Arrivals at rate 1 up to the last of `ends`; a gap that begins before an end has that piece's shape."""
    parts: list[FloatArray] = []
    reached, num, at = 0.0, 0, int(np.searchsorted(ends, 0.0, side="right"))
    while at < len(ends):
        shape = shapes[at]
        first = first_unit_gap(rng, shape) if not parts else None
        batch = batch_beyond(rng, reached, float(ends[at]) - reached, shape, first)
        inside = int(np.searchsorted(batch, ends[at]))
        is_over = inside < len(batch)
        parts.append(batch[: inside + 1].copy() if is_over else batch)
        reached, num = float(parts[-1][-1]), checked_number(num + len(parts[-1]))
        at += int(np.searchsorted(ends[at:], reached, side="right")) if is_over else 0
    times = parts[0] if len(parts) == 1 else np.concatenate([*parts, np.empty(0)])
    return times[: int(np.searchsorted(times, ends[-1]))]


def batch_beyond(
    rng: np.random.Generator, reached: float, length: float, shape: float, first: float | None
) -> FloatArray:
    """Arrivals at rate 1 after `reached`, as many as a piece of this length nearly always needs."""
    spread = SPREADS_OF_A_BATCH * math.sqrt(length / shape)
    gaps = unit_gaps(rng, checked_number(min(length + spread + LEAST_OF_A_BATCH, MOST_REQUESTS)), shape)
    gaps[0] = reached + (gaps[0] if first is None else first)
    return np.cumsum(gaps, out=gaps)


def unit_gaps(rng: np.random.Generator, num: int, shape: float) -> FloatArray:
    """Gaps between arrivals at rate 1."""
    if shape == POISSON:
        return rng.standard_exponential(num)
    gaps = rng.standard_gamma(shape, num)
    gaps /= shape
    return gaps


def first_unit_gap(rng: np.random.Generator, shape: float) -> float:
    """From a moment that knows nothing of arrivals to the next one, at rate 1.

    U x Gamma(k + 1) / k   [1]   A uniform share of a gap that is met by its length (Feller 1971, XI.4).
    """
    return float(rng.random() * rng.standard_gamma(shape + 1) / shape)


def chunks(num: int) -> list[slice]:
    """Slices that cover so many: what is drawn for millions passes through a few megabytes."""
    return [slice(start, min(start + CHUNK, num)) for start in range(0, num, CHUNK)]
