"""Places on the map: regions of clouds, and where users are."""

from __future__ import annotations

from gpufleet.records import dataclass

MOST_LATITUDE, MOST_LONGITUDE = 90.0, 180.0


@dataclass(frozen=True)
class Place:
    """A point on the map with a name; `country` is its two letters, empty where it spans several or is not known.

    `spread_km`: nine of ten people of an area or a country live within so far of the point that stands for it.
    `cloud` and `region` name the region of a cloud that the place is.
    """

    name: str
    country: str
    latitude_degrees: float
    longitude_degrees: float
    spread_km: float = 0.0
    cloud: str = ""
    region: str = ""

    def __post_init__(self) -> None:
        bounds = ((self.latitude_degrees, MOST_LATITUDE), (self.longitude_degrees, MOST_LONGITUDE))
        for degrees, most in bounds:
            if not -most <= degrees <= most:
                raise ValueError(f"{self.name}: {degrees!r} degrees is on no map, which ends at {most:g}")
        if not self.spread_km >= 0:
            raise ValueError(f"{self.name}: a spread is a distance, found {self.spread_km!r} km")

    @property
    def is_region(self) -> bool:
        """Whether it is a region of a cloud, whose machines have no last mile."""
        return bool(self.region)
