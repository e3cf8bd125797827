"""Round trips: stated where measured, from the nearest measured pair, and from the distance."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gpufleet.catalog.network_latency import MeasuredPair, load_network_model, measured_round_trips
from gpufleet.domain.network_latency import MeasuredRoundTrips
from gpufleet.domain.place import Place
from gpufleet.performance.network_latency import (
    detour_s,
    distance_percentile_km,
    distance_s,
    fibre_s,
    great_circle_km,
    round_trip,
)
from gpufleet.provenance import Grade

MODEL = load_network_model()
FRANKFURT = Place("aws eu-central-1", "DE", 50.1, 8.7, cloud="aws", region="eu-central-1")
BERLIN_REGION = Place("azure germanynorth", "DE", 52.5, 13.4, cloud="azure", region="germanynorth")
ASHBURN = Place("aws us-east-1", "US", 39.0, -77.5, cloud="aws", region="us-east-1")
ACROSS = measured_round_trips([MeasuredPair(FRANKFURT, ASHBURN, 0.090, "cloudping-2023")])
NOTHING: MeasuredRoundTrips = measured_round_trips([])


def test_new_york_and_london_are_as_far_apart_as_pilots_fly() -> None:
    assert float(great_circle_km(40.64, -73.78, 51.47, -0.45)) == pytest.approx(5540, rel=0.002)
    assert float(great_circle_km(0.0, 179.9, 0.0, -179.9)) == pytest.approx(22.2, abs=0.1)
    assert float(great_circle_km(90.0, 0.0, -90.0, 0.0)) == pytest.approx(np.pi * 6371)


def test_what_was_measured_between_two_regions_is_stated_in_either_direction() -> None:
    there, back = (round_trip(a, b, ACROSS, MODEL) for a, b in ((FRANKFURT, ASHBURN), (ASHBURN, FRANKFURT)))
    assert there == back
    assert there.is_measured
    assert (there.median_s, there.source) == (0.090, "cloudping-2023")


def test_people_in_the_town_of_a_region_have_a_last_mile_that_its_machines_do_not() -> None:
    people = replace(FRANKFURT, name="Frankfurt", cloud="", region="")
    ours, theirs = (round_trip(at, ASHBURN, ACROSS, MODEL) for at in (FRANKFURT, people))
    assert theirs.median_s == pytest.approx(ours.median_s + MODEL.last_mile_s.value)
    assert theirs.p95_s - theirs.median_s > ours.p95_s - ours.median_s
    assert theirs.grade is Grade.TRANSFERRED


def test_a_pair_near_a_measured_one_takes_its_detour_and_has_a_wider_range() -> None:
    found = round_trip(BERLIN_REGION, ASHBURN, ACROSS, MODEL)
    assert found.grade is Grade.TRANSFERRED
    assert found.source == "cloudping-2023"
    assert found.median_s == pytest.approx(0.0925, abs=0.003)
    measured = round_trip(FRANKFURT, ASHBURN, ACROSS, MODEL)
    assert found.high_s / found.low_s > measured.high_s / measured.low_s


def test_without_a_measured_pair_near_by_the_distance_says_it_and_the_range_is_the_widest() -> None:
    sydney = Place("aws ap-southeast-2", "AU", -33.9, 151.2, cloud="aws", region="ap-southeast-2")
    far = round_trip(sydney, ASHBURN, ACROSS, MODEL)
    alone = round_trip(sydney, ASHBURN, NOTHING, MODEL)
    assert far == alone
    assert alone.grade is Grade.ROOFLINE
    assert alone.source == "network-latency-fit"
    assert alone.high_s / alone.median_s == pytest.approx(MODEL.distance_ratio.high)


@pytest.mark.parametrize("km", [0.0, 10.0, 600.0, 9000.0])
@pytest.mark.parametrize("near_s", [0.001, 0.05, 0.3])
def test_no_round_trip_is_faster_than_light_in_a_fibre(km: float, near_s: float) -> None:
    assert float(detour_s(km, 100.0, near_s, MODEL)) >= fibre_s(km)
    assert distance_s(km, MODEL) > fibre_s(km)


def test_a_pair_at_the_distance_of_the_measured_one_takes_as_long() -> None:
    assert float(detour_s(1234.0, 1234.0, 0.04, MODEL)) == pytest.approx(0.04)


def test_the_spread_of_people_is_that_of_a_normal_distribution_in_the_plane() -> None:
    generator = np.random.default_rng(3)
    sigma_km = 1000.0 / np.sqrt(2 * np.log(10))
    at = generator.normal(0.0, sigma_km, size=(2, 200_000))
    for centres_km in (0.0, 300.0, 500.0, 1500.0, 6000.0):
        away = np.hypot(at[0] + centres_km, at[1])
        for share in (0.5, 0.9, 0.95):
            expected = pytest.approx(np.quantile(away, share), rel=0.02)
            assert distance_percentile_km(share, centres_km, 1000.0) == expected


def test_people_of_a_town_are_as_far_away_as_the_town() -> None:
    assert distance_percentile_km(0.95, 1234.5, 0.0) == 1234.5


def test_people_who_live_farther_apart_wait_longer_and_less_alike() -> None:
    together, apart = (Place("here", "", 48.0, 9.0, spread_km=km) for km in (0.0, 1500.0))
    near, wide = (round_trip(people, FRANKFURT, ACROSS, MODEL) for people in (together, apart))
    assert wide.median_s > near.median_s
    assert wide.p95_s - wide.median_s > near.p95_s - near.median_s
