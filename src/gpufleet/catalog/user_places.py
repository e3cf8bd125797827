"""Where users are, as people say it: a region of a cloud, a country, an area, a city, or a latitude and a longitude."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from gpufleet.catalog.schema import Place as PlaceOfRow
from gpufleet.catalog.schema import degrees, number, text
from gpufleet.catalog.table_files import SHIPPED, rows_of
from gpufleet.domain.place import MOST_LATITUDE, MOST_LONGITUDE, Place
from gpufleet.errors import UnknownName, UsageError

if TYPE_CHECKING:
    from gpufleet.catalog.schema import Region
    from gpufleet.catalog.tables import Catalog

COLUMNS = ("kind", "name", "country", "latitude_degrees", "longitude_degrees", "spread_km", "also", "source_id")
COORDINATES = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s*,\s*([+-]?\d+(?:\.\d+)?)\s*")
STROKES = str.maketrans("łŁøØđĐ", "lLoOdD")
HINT = "A place is a region such as aws:eu-west-1, a country, an area such as eu, a large city, or latitude,longitude."


def user_place(catalog: Catalog, words: str) -> Place:
    """The place that words mean; an area or a country is stood for by the centre of its people.

    >>> from gpufleet.catalog.load import load_catalog
    >>> shipped = load_catalog()
    >>> user_place(shipped, "São Paulo").latitude_degrees, user_place(shipped, "eu-west-1").name
    (-23.5, 'aws eu-west-1')
    """
    if re.fullmatch(r"[\d\s.,;+-]+", words):
        return place_of_coordinates(words)
    named = spoken_places().get(folded(words)) or place_of_region(catalog, words)
    if named is None:
        raise UnknownName("place of users", words, [*spoken_places(), *regions_by_word(catalog)], hint=HINT)
    return named


def place_of_coordinates(words: str) -> Place:
    """A point given by its latitude and longitude.

    >>> place_of_coordinates("52.5, 13.4").longitude_degrees
    13.4
    """
    match = COORDINATES.fullmatch(words)
    latitude, longitude = (float(part) for part in match.groups()) if match else (MOST_LATITUDE + 1, 0.0)
    if abs(latitude) > MOST_LATITUDE or abs(longitude) > MOST_LONGITUDE:
        expected = f"latitude,longitude within {MOST_LATITUDE:g} and {MOST_LONGITUDE:g} degrees, such as '52.5,13.4'"
        raise UsageError("cannot read a place of users", found=words, expected=expected)
    return Place(f"{latitude:g},{longitude:g}", "", latitude, longitude)


def region_place(catalog: Catalog, cloud: str, region: str) -> Place | None:
    """Where a region lies; the centre of its country's people where no more is known, None where that is not known.

    >>> from gpufleet.catalog.load import load_catalog
    >>> region_place(load_catalog(), "gcp", "europe-north1").country
    'FI'
    """
    located = catalog.located_regions.get((cloud, region))
    return None if located is None else place_of(located)


def place_of(region: Region) -> Place | None:
    """A row of regions.csv on the map."""
    name = f"{region.cloud} {region.region}"
    if region.latitude_degrees is not None and region.longitude_degrees is not None:
        at = (region.latitude_degrees, region.longitude_degrees, 0.0)
    else:
        country = centres_of_countries().get(region.country)
        if country is None:
            return None
        at = (country.latitude_degrees, country.longitude_degrees, country.spread_km)
    return Place(name, region.country, *at, cloud=region.cloud, region=region.region)


def place_of_region(catalog: Catalog, words: str) -> Place | None:
    """The region that words name, alone or after its cloud; of several clouds the one with the most regions."""
    found = regions_by_word(catalog).get(words.strip().casefold())
    return None if found is None else place_of(found)


def regions_by_word(catalog: Catalog) -> Mapping[str, Region]:
    """Regions as people write them: eu-west-1 and aws:eu-west-1."""
    num_regions: dict[str, int] = {}
    for cloud, _ in catalog.located_regions:
        num_regions[cloud] = num_regions.get(cloud, 0) + 1
    rising = sorted(catalog.located_regions.values(), key=lambda region: num_regions[region.cloud])
    alone = {region.region.casefold(): region for region in rising}
    return {f"{region.cloud}:{region.region}".casefold(): region for region in rising} | alone


@lru_cache(maxsize=1)
def spoken_places() -> Mapping[str, Place]:
    """Areas, countries and cities by every word for them; an area before a country, a country before a city."""
    words: dict[str, Place] = {}
    for kind, also, place in told_places():
        names = [place.name, *also]
        if kind == "country":
            names.append(place.country)
        if kind == "city":
            names.append(f"{place.name}, {place.country}")
        for name in names:
            words.setdefault(folded(name), place)
    return words


@lru_cache(maxsize=1)
def centres_of_countries() -> Mapping[str, Place]:
    """Countries by their two letters."""
    return {place.country: place for kind, _, place in told_places() if kind == "country"}


@lru_cache(maxsize=1)
def told_places() -> tuple[tuple[str, tuple[str, ...], Place], ...]:
    """Rows of user_places.csv: kind, other names, and the place."""
    return tuple(told_place(at, row) for at, row in rows_of(SHIPPED / "user_places.csv", COLUMNS))


def told_place(at: PlaceOfRow, row: Mapping[str, str]) -> tuple[str, tuple[str, ...], Place]:
    """One row of the table."""
    latitude = degrees(at, "latitude_degrees", row["latitude_degrees"], MOST_LATITUDE)
    longitude = degrees(at, "longitude_degrees", row["longitude_degrees"], MOST_LONGITUDE)
    assert latitude is not None
    assert longitude is not None
    spread_km = number(at, "spread_km", row["spread_km"]) or 0.0
    also = tuple(word for word in row["also"].split(";") if word)
    return row["kind"], also, Place(text(at, "name", row["name"]), row["country"], latitude, longitude, spread_km)


def folded(words: str) -> str:
    """Words without case, accents, hyphens and spaces at their ends.

    >>> folded(" South-Korea "), folded("Łódź")
    ('south korea', 'lodz')
    """
    plain = unicodedata.normalize("NFKD", words.translate(STROKES)).encode("ascii", "ignore").decode()
    return " ".join(plain.casefold().replace("-", " ").split())
