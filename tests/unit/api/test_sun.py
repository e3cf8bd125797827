"""Machines by the hour where users are awake, beside machines for every place's peak all day."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gpufleet import RegionRequest, ServeRequest, plan_regions
from gpufleet.domain.place import Place
from gpufleet.errors import UsageError
from gpufleet.optimize.mixes.reach import Reach, UserGroup
from gpufleet.optimize.mixes.sun import awake_ratio
from gpufleet.report.regions import sun_lines
from gpufleet.results.regions import FollowedSun, RegionPlan

CHAT = ServeRequest(
    "llama-3.1-8b", 100.0, 1000, 200, slo="ttft.p95<800ms", clouds=["aws"], gpus=["H100"],
    regions=["us-west-2", "eu-north-1"],
)  # fmt: skip


def planned(request: ServeRequest = CHAT) -> RegionPlan:
    asked = RegionRequest(users=["eu=50%", "japan=50%"], follow_the_sun=True)
    return plan_regions(request, asked)


@pytest.fixture(scope="module")
def plan() -> RegionPlan:
    return planned()


def followed(plan: RegionPlan) -> FollowedSun:
    assert plan.sun is not None
    return plan.sun


def test_users_ask_most_at_the_hour_of_their_place() -> None:
    places = (Place("Berlin", "DE", 52.5, 13.4), Place("Tokyo", "JP", 35.7, 139.7), Place("Denver", "US", 39.7, -105.0))
    ratio = awake_ratio(Reach(tuple(UserGroup(place, 1 / 3) for place in places), {}), 1.6, 15.0)
    assert ratio.shape == (24, 3)
    assert ratio.argmax(axis=0).tolist() == [14, 5, 21]  # the hours that begin at 14, 5 and 21 UTC hold 15:00 there
    assert np.all(ratio <= 1)
    assert ratio.max() > 0.99
    assert ratio.mean() == pytest.approx(1 / 1.6)


@pytest.mark.slow
def test_the_day_has_every_hour_once_and_costs_what_its_hours_and_starts_do(plan: RegionPlan) -> None:
    sun = followed(plan)
    assert [h.from_hour for h in sun.hours] == [0, *(h.to_hour for h in sun.hours[:-1])]
    assert sun.hours[-1].to_hour == 24
    running = sum((h.to_hour - h.from_hour) * h.usd_per_hour for h in sun.hours)
    assert sun.usd_per_day == pytest.approx(running + sun.starts_usd_per_day)


def test_following_costs_no_more_than_the_same_regions_by_the_hour_or_one_fleet(plan: RegionPlan) -> None:
    sun = followed(plan)
    assert sun.usd_per_day <= sun.usd_per_day_in_place + 1e-6
    assert sun.usd_per_day <= sun.usd_per_day_one_fleet + sun.starts_usd_per_day + 1e-6
    assert (
        sun.usd_per_day_one_fleet < sun.usd_per_day_static
    )  # peaks of Europe and Japan do not meet, and one region serves both
    assert sun.usd_per_day < 0.9 * sun.usd_per_day_static


def test_machines_in_use_change_with_the_hours_and_starts_are_paid(plan: RegionPlan) -> None:
    sun = followed(plan)
    assert len(sun.hours) > 1
    assert sun.starts >= 1
    assert sun.starts_usd_per_day > 0


def test_where_one_machine_is_enough_at_every_hour_nothing_is_saved() -> None:
    sun = followed(planned(replace(CHAT, rate=0.5)))
    assert len(sun.hours) == 1
    assert sun.starts == 0
    assert sun.usd_per_day == pytest.approx(sun.usd_per_day_static)
    assert "following costs as much" in sun_lines(sun)[0]


def test_that_following_costs_more_is_said_plainly(plan: RegionPlan) -> None:
    dearer = followed(plan).model_copy(update={"usd_per_day": followed(plan).usd_per_day_static * 1.2})
    assert "following costs 20% MORE" in sun_lines(dearer)[0]


def test_without_users_there_is_no_sun_to_follow() -> None:
    with pytest.raises(UsageError, match="there are none"):
        plan_regions(CHAT, follow_the_sun=True)
