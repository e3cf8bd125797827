"""Availability of spot machines as it might have been: drawn by what was fitted to measured traces.

A zone has spare capacity that wanders: z(t), normal with mean 0 and variance 1. n nodes can be had while

    z(t) > level + doubling_step * log2(n),   availability of one node = P(z > level)

Its correlation over time is a sum of fading shares and a daily one, the same for all zones but for a pace:

    r(t) = fast e^(-t / (p T1)) + middle e^(-t / (p T2)) + slow e^(-t / (p T3)) + day cos(2 pi t / 24 h) e^(-t / T4)

Several time constants make runs heavy-tailed: many of some ticks, few of days. The pace follows from the mean time up.
Zones of a region share a part of z, all zones a smaller one. Parameters: `data/spot_availability.toml`, from traces of
AWS V100 and K80 machines, 2022-10 to 2023-08 (Can't Be Late, NSDI 24); no newer GPU has traces. Fitted to 2022 alone,
jobs of two policies cost 1 to 6 % less on draws than on thirteen traces of 2023, and from 2 % less to 4 % more than on
the nine longer than a week, where draws are up as often as the trace. A miss: median runs of zones that are mostly up
come out half as long.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np

from gpufleet.domain.arrays import BoolArray, FloatArray, Floats, IntArray
from gpufleet.domain.availability import Availability, AvailabilityFit, SpotZone
from gpufleet.domain.interruption import Interruptions
from gpufleet.errors import UsageError
from gpufleet.provenance import Grade
from gpufleet.units import DAY, HOUR

MOST_POINTS = 20_000_000
SLOWEST_LOG_PACE, HALVINGS, NUM_ANGLES = 14.0, 60, 48
FADING = ("fast", "middle", "slow")
ANGLES, ANGLE_WEIGHTS = np.polynomial.legendre.leggauss(NUM_ANGLES)
NORMAL = NormalDist()


def capacity_correlation(fit: AvailabilityFit, apart_s: Floats, pace: Floats = 1.0) -> FloatArray:
    """Correlation of one zone's spare capacity with itself so many seconds later   [1].

    r(t) = sum of share e^(-t / (pace T)) + day share cos(2 pi t / 24 h) e^(-t / T4)
    """
    faded = sum(fit.value(f"{n}_ratio") * np.exp(-apart_s / (pace * fit.value(f"{n}_s"))) for n in FADING)
    daily = np.cos(2 * np.pi * np.asarray(apart_s) / DAY) * np.exp(-np.asarray(apart_s) / fit.value("day_fades_s"))
    return np.asarray(faded + fit.value("day_ratio") * daily)


def lost_per_tick(level: Floats, correlation: Floats) -> FloatArray:
    """Share of ticks at whose end a zone goes from up to down: P(z > level, later z < level)   [1].

    (1 / 2 pi) * integral over a from asin(r) to pi / 2 of e^(-level^2 / (1 + sin a))   (Sheppard 1899; Owen 1956)
    As many go up as down. At level 0: acos(r) / 2 pi.

    >>> round(float(lost_per_tick(0.0, 0.5)), 4)
    0.1667
    """
    half = np.arccos(np.clip(correlation, -1.0, 1.0))[..., np.newaxis] / 2
    angles = np.pi / 2 - half * (1 + ANGLES)
    squares = np.square(np.asarray(level, dtype=np.float64))[..., np.newaxis]
    with np.errstate(divide="ignore", over="ignore"):
        heights = np.exp(-squares / (1 + np.sin(angles)))
    return np.asarray((half * heights * ANGLE_WEIGHTS).sum(axis=-1) / (2 * np.pi))


def levels_of(availability: Sequence[float] | FloatArray) -> FloatArray:
    """Spare capacity that one node wants in zones of an availability: -inf where it always is, inf where never.

    >>> levels_of([0.5, 1.0]).tolist()
    [0.0, -inf]
    """
    ends = {0.0: math.inf, 1.0: -math.inf}
    return np.array([ends[a] if a in ends else 0.0 - NORMAL.inv_cdf(a) for a in map(float, availability)])


def paces_of(fit: AvailabilityFit, zones: Sequence[SpotZone]) -> FloatArray:
    """Pace of each zone: that at which it is lost as often as its mean time up says.

    Where no pace does, the nearest: a zone cannot be lost more often than at random from tick to tick.
    """
    levels = levels_of([zone.availability_ratio for zone in zones])
    lost = np.array([zone.availability_ratio * fit.tick_s / zone.mean_up_s for zone in zones])
    low, high = np.full(len(zones), -SLOWEST_LOG_PACE), np.full(len(zones), SLOWEST_LOG_PACE)
    wanted = np.where(np.isfinite(levels), levels, 0.0)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        is_too_fast = lost_per_tick(wanted, capacity_correlation(fit, fit.tick_s, np.exp(middle))) > lost
        low, high = np.where(is_too_fast, middle, low), np.where(is_too_fast, high, middle)
    return np.where(np.isfinite(levels), np.exp((low + high) / 2), 1.0)


def spare_capacity(
    rng: np.random.Generator, fit: AvailabilityFit, zones: Sequence[SpotZone], num_ticks: int, num_traces: int = 1
) -> FloatArray:
    """Spare capacity of zones over time, in standard deviations   [trace, zone, tick].

    Exact at all lags by circulant embedding: white noise through the root of its spectrum on a circle of whole days,
    twice as long as asked (Dietrich and Newsam 1997).
    """
    circle = ticks_of_circle(fit, num_ticks)
    regions = list(dict.fromkeys(zone.region for zone in zones))
    refuse_too_many(num_traces * (len(zones) + len(regions) + 1) * circle)
    apart = np.minimum(np.arange(circle), circle - np.arange(circle)) * fit.tick_s
    paces = paces_of(fit, zones)
    spectra = np.fft.rfft(capacity_correlation(fit, apart, paces[:, np.newaxis])).real
    noise = shared_noise(rng, fit, [regions.index(zone.region) for zone in zones], (num_traces, circle))
    wandering = np.fft.irfft(np.fft.rfft(noise) * np.sqrt(np.maximum(spectra, 0.0)), circle)
    return np.asarray(wandering[..., :num_ticks])


def ticks_of_circle(fit: AvailabilityFit, num_ticks: int) -> int:
    """Ticks of whole days, a power of two of them, twice as many as asked at least."""
    day = round(DAY / fit.tick_s)
    return day << max(math.ceil(math.log2(2 * max(num_ticks, 1) / day)), 0)


def refuse_too_many(num_points: int) -> None:
    """Refuse what no longer fits a memory that is bounded."""
    if num_points > MOST_POINTS:
        raise UsageError(
            "too much availability to draw", found=f"{num_points:,} points", expected=f"at most {MOST_POINTS:,}"
        )


def shared_noise(
    rng: np.random.Generator, fit: AvailabilityFit, regions: Sequence[int], shape: tuple[int, int]
) -> FloatArray:
    """White noise of zones, part of it everywhere the same, part of it in a region   [trace, zone, tick]."""
    num_traces, num_ticks = shape
    everywhere, region = fit.value("everywhere_ratio"), fit.value("region_ratio")
    of_all, of_region, own = (
        rng.standard_normal((num_traces, num, num_ticks)) for num in (1, max(regions) + 1, len(regions))
    )
    together = math.sqrt(everywhere) * of_all + math.sqrt(region - everywhere) * of_region[:, regions]
    return np.asarray(together + math.sqrt(1 - region) * own)


def generated_nodes(
    rng: np.random.Generator,
    fit: AvailabilityFit,
    zones: Sequence[SpotZone],
    num_ticks: int,
    num_traces: int = 1,
    most_nodes: int = 1,
) -> IntArray:
    """How many nodes of `most_nodes` could be had, on ticks of the fit   [trace, zone, tick]."""
    levels = levels_of([zone.availability_ratio for zone in zones])[:, np.newaxis]
    above = spare_capacity(rng, fit, zones, num_ticks, num_traces) - levels
    wanted = fit.value("doubling_step") * np.log2(np.arange(1, most_nodes + 1))
    return np.searchsorted(wanted, above, side="left").astype(np.int64)


def generated_availability(
    rng: np.random.Generator, fit: AvailabilityFit, zones: Sequence[SpotZone], num_ticks: int, most_nodes: int = 1
) -> Availability:
    """One trace of these zones."""
    [nodes] = generated_nodes(rng, fit, zones, num_ticks, most_nodes=most_nodes)
    return Availability(fit.tick_s, tuple(zone.name for zone in zones), nodes)


def drawn_zones(
    rng: np.random.Generator, fit: AvailabilityFit, num_zones: int, num_regions: int = 1
) -> tuple[SpotZone, ...]:
    """Zones that nobody measured, as different as measured ones are: each draws its level and its pace.

    Both are normal, the pace by its logarithm; zones are dealt out to regions in turn.
    """
    alike = fit.value("level_pace_correlation")
    first, second = rng.standard_normal((2, num_zones))
    levels = fit.value("level_mean") + fit.value("level_sd") * first
    mixed = alike * first + math.sqrt(1 - alike**2) * second
    paces = np.exp(fit.value("log_pace_mean") + fit.value("log_pace_sd") * mixed)
    ratios = np.array([NORMAL.cdf(-level) for level in levels])
    lost = lost_per_tick(levels, capacity_correlation(fit, fit.tick_s, paces))
    kept = zip(ratios.tolist(), (ratios / lost * fit.tick_s).tolist(), strict=True)
    return tuple(
        SpotZone(
            f"region-{i % num_regions + 1}{letters(i // num_regions)}", f"region-{i % num_regions + 1}", ratio, up_s
        )
        for i, (ratio, up_s) in enumerate(kept)
    )


def letters(index: int) -> str:
    """a, b, ... z, aa, ab, ...

    >>> letters(1), letters(27)
    ('b', 'ab')
    """
    return (letters(index // 26 - 1) if index >= 26 else "") + chr(ord("a") + index % 26)


def zone_of_interruptions(name: str, region: str, per_hour: float, wait_s: float) -> SpotZone:
    """A zone of which nothing is known but how often a machine is lost, and how long until the next can be had.

    mean up = 1 / rate; availability = up / (up + wait). Tails and daily share are those of measured zones: transferred.

    >>> zone_of_interruptions("a", "r", per_hour=0.25, wait_s=3600.0).availability_ratio
    0.8
    """
    if not per_hour > 0:
        return SpotZone(name, region, 1.0, math.inf)
    up_s = HOUR / per_hour
    return SpotZone(name, region, up_s / (up_s + wait_s), up_s)


def zones_of_band(name: str, region: str, interruptions: Interruptions, band: str | None) -> tuple[SpotZone, ...]:
    """Zones of an offer's interruption band, at its low, expected and high rate: the optimistic end beside traces.

    The advisor counts machines that were taken away, not starts that were refused, and names bands as of a month.
    """
    rate, wait = interruptions.per_hour(band), interruptions.wait_s
    return tuple(
        zone_of_interruptions(name, region, per_hour, wait_s)
        for per_hour, wait_s in ((rate.low, wait.low), (rate.expected, wait.expected), (rate.high, wait.high))
    )


def zones_seen(seen: Availability, regions: Sequence[str], tick_s: float, nodes: int = 1) -> tuple[SpotZone, ...]:
    """What a trace says of its zones, for drawing others like it: measured where it lost machines at all."""
    up = seen.available(nodes, tick_s)
    return tuple(
        SpotZone(name, region, float(row.mean()) if len(row) else 0.0, mean_up_s(row, tick_s), Grade.MEASURED)
        for name, region, row in zip(seen.zones, regions, up, strict=True)
    )


def mean_up_s(up: BoolArray, tick_s: float) -> float:
    """Time up for each change between up and down and back   [s]; inf without any.

    >>> mean_up_s(np.array([True, True, False, True, True]), 600.0)
    2400.0
    """
    num_changes = int(np.count_nonzero(up[1:] != up[:-1]))
    return float(np.count_nonzero(up)) * tick_s / (num_changes / 2) if num_changes else math.inf
