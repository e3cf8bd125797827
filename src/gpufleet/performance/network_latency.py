"""Round trips over the network between users and regions: stated where measured, elsewhere from the distance."""

from __future__ import annotations

import numpy as np

from gpufleet.domain.arrays import FloatArray, Floats

EARTH_RADIUS_KM = 6371.0


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
