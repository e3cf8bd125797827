"""The page of a choice of regions, and its map: nothing is cut, no name stands over another."""

from __future__ import annotations

import re
from itertools import combinations
from typing import Any

import pytest

from gpufleet import RegionPlan, RegionRequest, ServeRequest, plan_regions
from gpufleet.report.region_map import NARROW, WIDE, Box, free_box, region_map, shortest
from gpufleet.report.regions import network_words, regions_page
from gpufleet.report.text import page_as_text
from gpufleet.results.regions import UserPlace

CHAT = ServeRequest(
    "llama-3.1-8b", 20.0, 1000, 200, slo="ttft.p95<800ms", clouds=["aws", "azure"], gpus=["L40S", "H100-NVL"],
    regions=["eu-central-1", "us-east-1", "us-east-2", "germanywestcentral", "northeurope"],
)  # fmt: skip


def planned(**said: Any) -> RegionPlan:
    return plan_regions(CHAT, RegionRequest(**said))


@pytest.fixture(scope="module")
def plan() -> RegionPlan:
    return planned(users=["eu=60%", "us=40%"])


def page_of(plan: RegionPlan) -> str:
    return page_as_text(regions_page(plan), 80)


@pytest.mark.slow
def test_eighty_columns_hold_every_name_whole(plan: RegionPlan) -> None:
    page = page_of(plan)
    assert max(map(len, page.splitlines())) <= 80
    assert "…" not in page
    words = " ".join(page.split())
    for m in plan.machines:
        assert m.region in words
    assert "at users (80% range)" in words


def test_the_headline_says_where_what_runs_what_it_costs_and_that_limits_hold_at_users(plan: RegionPlan) -> None:
    headline = regions_page(plan).headline
    assert headline.startswith("Run ")
    for m in plan.machines:
        assert f"in {m.cloud} {m.region}" in headline
    assert f"${plan.usd_per_hour:,.2f}/h" in headline
    assert "Limits hold at the users, the network included." in headline


def test_every_region_is_in_the_table_or_counted_with_its_reason(plan: RegionPlan) -> None:
    page = page_of(plan)
    serve = [r for r in plan.regions if r.usd_per_hour_alone is not None]
    counted = sum(int(n) for n in re.findall(r"^(\d+) regions?: ", page, re.MULTILINE))
    assert counted == len(plan.regions) - len(serve)


def test_what_leaves_is_said_with_its_part_of_the_total(plan: RegionPlan) -> None:
    assert f"What leaves the regions: ${plan.egress_usd_per_hour:.2f}/h of the total" in page_of(plan)


def test_without_users_lengths_are_routed_and_users_are_asked_for() -> None:
    page = page_of(planned())
    assert "Where requests go" in page
    assert "What users meet" not in page
    assert "No users were said" in page


def test_where_nothing_keeps_the_limits_the_smallest_change_is_first() -> None:
    page = page_of(planned(users=["eu"], carbon_budget=0.001))
    assert page.startswith("No mix keeps all limits.")
    assert "kg CO2e an hour from 0.001 to" in page
    assert page.index("The smallest change that helps") < page.index("Regions that serve everything alone")


@pytest.mark.slow
def test_a_region_that_is_lost_says_who_takes_over() -> None:
    page = " ".join(page_of(planned(users=["us"], survive_region=True)).split())
    assert "with any one region lost" in page
    assert "When a region is lost without aws" in page


def test_round_trips_are_listed_up_to_three_places() -> None:
    assert network_words([0.0288, 0.1324]) == "29, 132 ms"
    assert network_words([0.01, 0.02, 0.03, 0.3]) == "10-300 ms"
    assert network_words([]) == "unknown"


def boxes(drawn: str) -> list[Box]:
    """Where names stand on a map, as far as letters are all as wide."""
    found = re.findall(r'<text x="([\d.]+)" y="([\d.]+)" fill="currentColor" stroke[^>]*>([^<]+)<', drawn)
    return [Box(float(x), float(y) - 11, float(x) + 6.4 * len(words), float(y) + 3) for x, y, words in found]


def test_names_on_the_map_are_never_over_each_other(plan: RegionPlan) -> None:
    near = [UserPlace(name=f"place {n}", share_ratio=0.1, latitude_degrees=50 + n / 3, longitude_degrees=8 + n / 3)
            for n in range(9)]  # fmt: skip
    drawn = region_map(plan.model_copy(update={"users": near, "at_users": []}))
    assert drawn is not None
    for svg, frame in ((drawn.wide, WIDE), (drawn.narrow, NARROW)):
        found = boxes(svg)
        assert len(found) == len(near) + sum(r.is_chosen for r in plan.regions)
        assert not any(one.meets(other) for one, other in combinations(found, 2))
        assert all(box.left >= 0 and box.right <= frame.width for box in found)


def test_the_map_has_every_region_once_and_names_are_escaped(plan: RegionPlan) -> None:
    drawn = region_map(plan)
    assert drawn is not None
    assert drawn.wide.count("<circle") == sum(r.latitude_degrees is not None for r in plan.regions)
    odd = [plan.users[0].model_copy(update={"name": "<b>"})]
    named = region_map(plan.model_copy(update={"users": odd, "at_users": []}))
    assert named is not None
    assert "<b>" not in named.wide + named.narrow


def test_a_line_over_the_pacific_goes_the_shorter_way_round() -> None:
    assert len(shortest((10.0, 50.0), (-77.0, 39.0))) == 1
    from_oregon = shortest((-120.0, 45.0), (140.0, 36.0))
    assert len(from_oregon) == 2
    assert from_oregon[0][1][0] == pytest.approx(-220.0)


def test_north_is_up_and_east_is_right_and_a_full_map_still_has_room_somewhere() -> None:
    assert WIDE.y(60) < WIDE.y(0) < WIDE.y(-40)
    assert WIDE.x(-120) < WIDE.x(0) < WIDE.x(120)
    everywhere = Box(0, 0, 720, 400)
    assert free_box(WIDE, 100, 100, 5, 60, [everywhere]).right <= 720
