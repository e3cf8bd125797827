"""Round trips over the network between users and regions: stated where measured, elsewhere from the distance."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from gpufleet.domain.arrays import FloatArray, Floats
from gpufleet.domain.network_latency import MeasuredRoundTrips, NetworkLatency, NetworkModel
from gpufleet.domain.place import Place
from gpufleet.performance.queueing import normal_quantile
from gpufleet.provenance import Grade, Sourced

EARTH_RADIUS_KM = 6371.0
LIGHT_IN_FIBRE_KM_PER_S = 299_792.458 / 1.468
HALF, MOST = 0.5, 0.95


class Path(NamedTuple):
    """A round trip without last mile: its median, the range of that, how it is known and from what."""

    median_s: float
    ratio: Sourced
    grade: Grade
    source: str


def great_circle_km(
    latitude_degrees: Floats, longitude_degrees: Floats, other_latitude_degrees: Floats, other_longitude_degrees: Floats
) -> FloatArray:
    """Shortest way between points on the globe.

    d = 2 R asin sqrt(sin^2(dphi / 2) + cos phi cos phi' sin^2(dlambda / 2))   [km], R = 6371 km

    Frankfurt to Ashburn:

    >>> round(float(great_circle_km(50.1, 8.7, 39.0, -77.5)))
    6555
    """
    phi, other_phi = np.radians(latitude_degrees), np.radians(other_latitude_degrees)
    turned = np.radians(np.asarray(other_longitude_degrees, dtype=np.float64) - longitude_degrees)
    chord = np.sin((other_phi - phi) / 2) ** 2 + np.cos(phi) * np.cos(other_phi) * np.sin(turned / 2) ** 2
    return np.asarray(2 * EARTH_RADIUS_KM * np.arcsin(np.sqrt(np.clip(chord, 0.0, 1.0))))


def fibre_s(distance_km: Floats) -> Floats:
    """Least round trip: light in a fibre that lies on the great circle.

    t = 2 d n / c   [s], n = 1.468

    >>> round(fibre_s(1000.0) * 1000, 2)
    9.79
    """
    return 2 * distance_km / LIGHT_IN_FIBRE_KM_PER_S


def distance_s(distance_km: Floats, model: NetworkModel) -> Floats:
    """Round trip over a distance.

    t = a + b d   [s], a and b fitted to measured pairs of regions (tools/calibrate/network_latency.py)
    """
    return model.intercept_s.value + model.per_km_s.value * distance_km


def detour_s(distance_km: Floats, near_km: Floats, near_s: Floats, model: NetworkModel) -> FloatArray:
    """Round trip over a distance, with the detour of a measured pair near by.

    t = f(d) + (t' - f(d')) (g(d) - f(d)) / (g(d') - f(d'))   [s], f light in fibre, g from the distance, ' of the pair
    """
    usual = distance_s(distance_km, model) - fibre_s(distance_km)
    usual_near = distance_s(near_km, model) - fibre_s(near_km)
    beyond = np.maximum(near_s - fibre_s(near_km), 0.0)
    return np.asarray(fibre_s(distance_km) + beyond * usual / usual_near, dtype=np.float64)


def distance_between_km(place: Place, other: Place) -> float:
    """Great circle between two places, from centre to centre."""
    ends = (place.latitude_degrees, place.longitude_degrees, other.latitude_degrees, other.longitude_degrees)
    return float(great_circle_km(*ends))


def distance_percentile_km(quantile: float, centres_km: float, spread_km: float) -> float:
    """Distance that a share of the people of an area have at most to a point which lies so far from its centre.

    People are spread as a normal distribution in the plane, sigma = spread / sqrt(2 ln 10): nine of ten live within the
    spread. Their squared distances are sigma^2 times a noncentral chi-square with l = (d / sigma)^2, taken as
    c chi-square of n, c = (2 + 2 l) / (2 + l), n = (2 + l)^2 / (2 + 2 l) (Patnaik 1949), and as its cube root's normal
    distribution (Wilson and Hilferty 1931).

    >>> round(distance_percentile_km(0.9, 0.0, 1000.0)), round(distance_percentile_km(0.95, 5000.0, 1000.0))
    (995, 5796)
    """
    if spread_km == 0:
        return centres_km
    sigma_km = spread_km / math.sqrt(2 * math.log(10))
    offset = (centres_km / sigma_km) ** 2
    scale, freedom = (2 + 2 * offset) / (2 + offset), (2 + offset) ** 2 / (2 + 2 * offset)
    deviation = 2 / (9 * freedom)
    return sigma_km * math.sqrt(
        scale * freedom * (1 - deviation + normal_quantile(quantile) * math.sqrt(deviation)) ** 3
    )


def round_trip(users: Place, region: Place, measured: MeasuredRoundTrips, model: NetworkModel) -> NetworkLatency:
    """Round trip between users and a region; users who are in no region of a cloud have a last mile.

    Median: the path's + the last mile's. 95th percentile: what lies beyond the medians (jitter of the path, last mile,
    people who live farther) is independent and adds in squares. A connection is taken to be open already.
    """
    centres_km, spread_km = distance_between_km(users, region), math.hypot(users.spread_km, region.spread_km)
    half_km, most_km = (distance_percentile_km(share, centres_km, spread_km) for share in (HALF, MOST))
    path = path_between(users, region, half_km, measured, model)
    farther_s = float(distance_s(most_km, model) - distance_s(half_km, model))
    low, high = (
        path.median_s * (path.ratio.value if end is None else end) for end in (path.ratio.low, path.ratio.high)
    )
    beyond_s = [farther_s, path.median_s * (model.jitter_ratio.value - 1)]
    last = model.last_mile_s
    if users.is_region:
        return NetworkLatency(path.median_s, path.median_s + math.hypot(*beyond_s), low, high, path.grade, path.source)
    beyond_s.append(model.last_mile_p95_s.value - last.value)
    median_s, low_last, high_last = path.median_s + last.value, last.low or 0.0, last.high or last.value
    low_s = median_s - math.hypot(path.median_s - low, last.value - low_last)
    high_s = median_s + math.hypot(high - path.median_s, high_last - last.value)
    return NetworkLatency(median_s, median_s + math.hypot(*beyond_s), low_s, high_s, path.grade, path.source)


def path_between(
    users: Place, region: Place, distance_km: float, measured: MeasuredRoundTrips, model: NetworkModel
) -> Path:
    """What is stated between the two, else what is of the nearest stated pair, else what the distance says."""
    row = measured.rows.get((users.cloud, users.region, region.cloud, region.region)) if users.is_region else None
    if row is not None:
        return Path(float(measured.median_s[row]), model.repeated_ratio, Grade.MEASURED, measured.sources[row])
    near, off_km = nearest_pair(users, region, measured)
    if near is None or off_km > model.far_km.value:
        fit = model.per_km_s.source.partition(":")[0]
        return Path(float(distance_s(distance_km, model)), model.distance_ratio, Grade.ROOFLINE, fit)
    near_km = float(great_circle_km(*(ends[near, end] for end in (0, 1) for ends in positions(measured))))
    median_s = float(detour_s(distance_km, near_km, float(measured.median_s[near]), model))
    ratio = model.near_ratio if off_km <= model.near_km.value else model.far_ratio
    return Path(median_s, ratio, Grade.TRANSFERRED, measured.sources[near])


def nearest_pair(place: Place, other: Place, measured: MeasuredRoundTrips) -> tuple[int | None, float]:
    """The measured pair whose ends lie nearest to two places, and how far the farther end lies off, in km."""
    if not len(measured.median_s):
        return None, math.inf
    off, other_off = (
        great_circle_km(at.latitude_degrees, at.longitude_degrees, *positions(measured)) for at in (place, other)
    )
    farther = np.minimum(np.maximum(off[:, 0], other_off[:, 1]), np.maximum(off[:, 1], other_off[:, 0]))
    nearest = int(np.argmin(farther))
    return nearest, float(farther[nearest])


def positions(measured: MeasuredRoundTrips) -> tuple[FloatArray, FloatArray]:
    """Latitudes and longitudes [pair, end]."""
    return measured.latitude_degrees, measured.longitude_degrees
