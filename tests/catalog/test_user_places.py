"""Where users are, as they say it, and where regions lie."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.user_places import centres_of_countries, place_of, region_place, spoken_places, user_place
from gpufleet.errors import UnknownName, UsageError
from gpufleet.performance.network_latency import great_circle_km

SHIPPED = load_catalog()
HEADER = "cloud,region,country,place,source_id,latitude_degrees,longitude_degrees\n"


@pytest.mark.parametrize(
    ("words", "name", "country"),
    [
        ("aws:eu-west-1", "aws eu-west-1", "IE"),
        ("eu-west-1", "aws eu-west-1", "IE"),
        ("US-WEST-2", "aws us-west-2", "US"),
        ("lambda:us-west-2", "lambda us-west-2", "US"),
        ("de", "Germany", "DE"),
        ("South-Korea", "South Korea", "KR"),
        ("usa", "United States", "US"),
        ("north-america", "north-america", ""),
        ("São Paulo", "Sao Paulo", "BR"),
        ("San Jose", "San Jose", "US"),
        ("san jose, cr", "San Jose", "CR"),
        ("52.5, 13.4", "52.5,13.4", ""),
    ],
)
def test_users_say_where_they_are_as_they_like(words: str, name: str, country: str) -> None:
    place = user_place(SHIPPED, words)
    assert (place.name, place.country) == (name, country)


def test_a_word_of_two_clouds_means_the_one_with_more_regions_and_the_other_is_had_by_its_name() -> None:
    ours, other = user_place(SHIPPED, "us-west-2"), user_place(SHIPPED, "lambda:us-west-2")
    assert (ours.cloud, other.cloud) == ("aws", "lambda")
    assert ours.latitude_degrees - other.latitude_degrees > 10


@pytest.mark.parametrize(("words", "meant"), [("germny", "germany"), ("eu-west-11", "eu-west-1"), ("lodnon", "london")])
def test_a_misspelt_place_is_refused_with_the_nearest(words: str, meant: str) -> None:
    with pytest.raises(UnknownName, match=rf"unknown place of users '{words}'\. Did you mean .*{meant}.*latitude"):
        user_place(SHIPPED, words)


@pytest.mark.parametrize("words", ["91,0", "0,181", "1,2,3", "52,5;13,4", "52.5"])
def test_what_is_on_no_map_is_refused(words: str) -> None:
    with pytest.raises(UsageError, match="cannot read a place of users; found"):
        user_place(SHIPPED, words)


def test_every_shipped_region_is_on_the_map_in_its_country() -> None:
    for region in SHIPPED.located_regions.values():
        place, country = place_of(region), centres_of_countries()[region.country]
        assert place is not None
        assert place.country == region.country
        at = (place.latitude_degrees, place.longitude_degrees)
        far_km = float(great_circle_km(*at, country.latitude_degrees, country.longitude_degrees))
        assert far_km < 3 * country.spread_km + 300, region


def test_a_region_whose_town_is_not_known_lies_somewhere_in_its_country_and_says_so() -> None:
    place = region_place(SHIPPED, "lambda", "asia-south-1")
    assert place is not None
    assert place.spread_km > 1000
    assert region_place(SHIPPED, "aws", "all") is None


def test_a_declared_region_may_say_where_it_lies(tmp_path: Path) -> None:
    (tmp_path / "regions.csv").write_text(f"{HEADER}aws,eu-polar-1,NO,Tromso,,69.6,18.9\n", encoding="utf-8")
    assert user_place(load_catalog(tmp_path), "eu-polar-1").latitude_degrees == 69.6


@pytest.mark.parametrize("cells", ["69.6,", ",18.9", "99,18.9", "north,18.9"])
def test_half_a_position_or_one_that_is_on_no_map_is_refused_with_its_line(tmp_path: Path, cells: str) -> None:
    (tmp_path / "regions.csv").write_text(f"{HEADER}aws,eu-polar-1,NO,Tromso,,{cells}\n", encoding="utf-8")
    with pytest.raises(UsageError, match=r"regions\.csv line 2: cannot read l\w+_degrees"):
        load_catalog(tmp_path)


def test_areas_of_the_tables_have_a_centre_that_lies_among_their_countries() -> None:
    areas = {area for country in SHIPPED.countries.values() for area in country.areas}
    for area in areas:
        place = spoken_places()[area.replace("-", " ")]
        at = (place.latitude_degrees, place.longitude_degrees)
        within = [centres_of_countries()[c.code] for c in SHIPPED.countries.values() if area in c.areas]
        far = [float(great_circle_km(*at, c.latitude_degrees, c.longitude_degrees)) for c in within]
        assert min(far) < place.spread_km
