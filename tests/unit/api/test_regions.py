"""Where services run: limits at users, who has to stay, grids, what leaves, and one region lost."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gpufleet import RegionPlan, RegionRequest, ServeRequest, plan_regions
from gpufleet.errors import Infeasible, UnknownName, UsageError
from gpufleet.questions.regions import parse_users
from gpufleet.results.base import Figure
from gpufleet.results.regions import RegionChoiceRow

ALL_PERCENTILES = "ttft.p50<800ms,ttft.p90<800ms,ttft.p95<800ms,ttft.p99<1.5s"
FOUR = ["eu-central-1", "eu-north-1", "us-east-1", "us-east-2"]
CHAT = ServeRequest(
    "llama-3.1-8b", 20.0, 1000, 200, slo="ttft.p95<800ms", clouds=["aws"], gpus=["L40S", "H100"], regions=FOUR
)
TWO = ["eu=60%", "us=40%"]


def planned(request: ServeRequest = CHAT, **said: Any) -> RegionPlan:
    return plan_regions(request, RegionRequest(**said))


def region_of(plan: RegionPlan, name: str) -> RegionChoiceRow:
    return next(r for r in plan.regions if r.region == name)


@pytest.fixture(scope="module")
def two() -> RegionPlan:
    return planned(replace(CHAT, slo=ALL_PERCENTILES), users=TWO)


@pytest.fixture(scope="module")
def europe() -> RegionPlan:
    return planned(users=TWO, stay=["eu"])


def test_limits_hold_at_the_users_of_every_place(two: RegionPlan) -> None:
    assert {two.users[a.users].name for a in two.at_users} == {"eu", "us"}
    assert all(a.latency.value <= a.limit_s for a in two.at_users)


def test_users_of_a_service_without_limits_are_told_when_the_first_token_comes(two: RegionPlan) -> None:
    free = planned(replace(CHAT, slo=None), users=TWO)
    assert {free.users[a.users].name for a in free.at_users} == {"eu", "us"}
    assert {(a.objective, a.limit_s) for a in free.at_users} == {("ttft.p95", None)}
    assert all(a.latency.value > free.copies[a.copies].deployment.latency["ttft.p95"].value for a in free.at_users)


def test_what_is_printed_at_users_is_the_percentile_of_both_drawn_together(two: RegionPlan) -> None:
    """A million requests: the model's latency from its percentiles, the network's log-normal from its two."""
    rng = np.random.default_rng(7)
    depth = -np.log1p(-np.array([0.5, 0.9, 0.95, 0.99]))
    drawn = rng.exponential(size=1_000_000)
    for a in (a for a in two.at_users if a.objective == "ttft.p95"):
        d = two.copies[a.copies].deployment
        network = next(n for n in region_of(two, d.region).network if n.users == a.users)
        own = np.array([d.latency[f"ttft.{p}"].value for p in ("p50", "p90", "p95", "p99")])
        slopes = np.diff(own) / np.diff(depth)
        at = np.clip(np.searchsorted(depth, drawn) - 1, 0, len(slopes) - 1)
        model_s = np.maximum(own[at] + slopes[at] * (drawn - depth[at]), own[0])
        sigma = math.log(network.p95_s / network.median.value) / 1.6448536
        both_s = model_s + network.median.value * np.exp(sigma * rng.standard_normal(len(drawn)))
        assert a.latency.value == pytest.approx(float(np.quantile(both_s, 0.95)), rel=0.02)
        assert a.latency.value < own[2] + network.p95_s  # percentiles do not add


def test_users_of_an_area_stay_there_and_others_need_not(europe: RegionPlan) -> None:
    served = {(europe.users[a.users].name, europe.copies[a.copies].deployment.region) for a in europe.at_users}
    countries = {r.region: r.country for r in europe.regions}
    assert all(
        region.startswith("eu-") and countries[region] != "United Kingdom" for at, region in served if at == "eu"
    )
    elsewhere = region_of(europe, "us-east-1")
    assert elsewhere.why_not == "users_stay_elsewhere"
    assert not elsewhere.is_chosen


@pytest.mark.slow
def test_staying_costs_no_less_and_two_longer_limits_no_more(two: RegionPlan, europe: RegionPlan) -> None:
    free, longer = planned(users=TWO), planned(replace(CHAT, slo="ttft.p95<1500ms"), users=TWO)
    assert free.usd_per_hour is not None
    assert (longer.usd_per_hour or 0) <= free.usd_per_hour <= (europe.usd_per_hour or 0)


@pytest.mark.slow
def test_a_region_more_never_costs_more() -> None:
    some, more = planned(replace(CHAT, regions=["eu-central-1", "us-east-1"]), users=TWO), planned(users=TWO)
    assert (more.usd_per_hour or math.inf) <= (some.usd_per_hour or 0) + 1e-6


def test_a_region_that_serves_alone_costs_no_less_than_the_answer(two: RegionPlan) -> None:
    alone = [r.usd_per_hour_alone for r in two.regions if r.usd_per_hour_alone is not None]
    assert alone
    assert two.usd_per_hour is not None
    assert two.usd_per_hour <= min(alone) + 1e-6
    unserved = [r for r in two.regions if r.usd_per_hour_alone is None]
    assert all(r.why_not for r in unserved)
    assert all(r.why_not is None for r in two.regions if r.usd_per_hour_alone is not None)


def test_egress_is_in_the_total_and_each_region_says_its_part(two: RegionPlan) -> None:
    machines = sum(m.usd_per_hour for m in two.machines)
    assert two.egress_usd_per_hour > 0
    assert two.usd_per_hour == pytest.approx(machines + two.egress_usd_per_hour)
    assert sum(e.usd_per_hour or 0.0 for e in two.egress) == pytest.approx(two.egress_usd_per_hour)
    # 20 requests/s of 200 tokens, streamed with 250 bytes each, at $0.09 a GB
    assert two.egress_usd_per_hour == pytest.approx(20 * 200 * 250 * 3600 / 1e9 * 0.09)


def test_a_clean_grid_leaves_regions_out_and_says_how_clean_the_best_is() -> None:
    clean = planned(max_grid=30.0)
    assert {m.region for m in clean.machines} == {"eu-north-1"}
    assert all(r.grid is not None and r.grid.value <= 30 for r in clean.regions)
    with pytest.raises(Infeasible, match="at most 1 g"):
        planned(max_grid=1.0)


@pytest.mark.slow
def test_a_carbon_budget_holds_and_less_than_any_fleet_emits_says_how_much_it_takes() -> None:
    free, lean = planned(users=["eu"]), planned(users=["eu"], carbon_budget=0.2)
    assert (lean.g_co2e_per_hour or math.inf) <= 200
    assert (lean.usd_per_hour or 0) >= (free.usd_per_hour or math.inf)
    none = planned(users=["eu"], carbon_budget=0.001)
    assert not none.is_feasible
    assert none.given_way[0].name == "kg CO2e an hour"
    assert none.given_way[0].needed > 0.001


def test_carbon_is_electricity_times_grid(two: RegionPlan) -> None:
    for e in two.emitted:
        grid = region_of(two, two.copies[e.copies].deployment.region).grid
        assert grid is not None
        assert e.g_co2e_per_hour is not None
        assert e.g_co2e_per_hour.value == pytest.approx(e.kwh_per_hour.value * grid.value)
        assert ranged(e.kwh_per_hour)


def ranged(figure: Figure) -> bool:
    return figure.low is not None and figure.high is not None and figure.low < figure.value < figure.high


@pytest.mark.slow
def test_with_one_region_lost_others_carry_all() -> None:
    plan = planned(users=["us"], survive_region=True)
    regions = {m.region for m in plan.machines}
    assert len(regions) > 1
    assert {lost.region for lost in plan.lost} == regions
    for lost in plan.lost:
        assert f"{lost.cloud} {lost.region}" not in lost.shares
        assert sum(lost.shares.values()) == pytest.approx(1.0)
        assert lost.busiest_ratio <= 1 + 1e-6
    one = planned(users=["us"])
    assert (plan.usd_per_hour or 0) > (one.usd_per_hour or math.inf)
    assert not one.lost


def test_machines_that_are_alike_stand_in_one_region() -> None:
    """Both regions sell them at one price: users in the east of the US would be split over both for nothing."""
    same = replace(CHAT, gpus=["RTX-PRO-6000-Server"], regions=["us-east-1", "us-east-2"])
    plan = planned(same, users=TWO)
    assert len(plan.machines) == 1
    assert plan.machines[0].instance_count > 1


@pytest.mark.slow
def test_several_services_have_users_alike() -> None:
    other = ServeRequest("qwen3-8b", 5.0, 500, 100, slo="ttft.p95<1s", clouds=["aws"], gpus=["L40S"], regions=FOUR)
    plan = plan_regions([replace(CHAT, gpus=["L40S"]), other], users=TWO)
    assert {(c.service, a.users) for a in plan.at_users for c in [plan.copies[a.copies]]} == {
        (0, 0), (0, 1), (1, 0), (1, 1)
    }  # fmt: skip


@pytest.mark.parametrize(
    ("said", "error", "told"),
    [
        ({"users": ["atlantis"]}, UnknownName, "unknown place of users"),
        ({"users": ["eu", "us"]}, UsageError, "users of several places have shares"),
        ({"users": ["eu=60%", "us=60%"]}, UsageError, "do not add up"),
        ({"users": ["eu=0%", "us=100%"]}, UsageError, "are none of them"),
        ({"users": ["eu="]}, UsageError, "cannot be read"),
        ({"users": ["91,200"]}, UsageError, "cannot read a place"),
        ({"users": ["eu"], "stay": ["narnia"]}, UnknownName, "unknown area"),
        ({"stay": ["eu"]}, UsageError, "there are none"),
        ({"users": ["eu"], "year": 2050}, UsageError, "no grid is known"),
        ({"max_grid": -5.0}, UsageError, "out of range"),
    ],
)
def test_words_that_mean_nothing_are_refused(said: dict[str, Any], error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=told):
        planned(**said)


def test_what_contradicts_itself_says_why() -> None:
    with pytest.raises(Infeasible, match="users in eu have to be served in eu, where nothing allowed is sold"):
        planned(replace(CHAT, regions=["us"]), users=["eu"], stay=["eu"])
    with pytest.raises(Infeasible, match="keeps the limits of users in New Zealand"):
        planned(replace(CHAT, slo="ttft.p95<100ms", regions=["eu"]), users=["new zealand"])
    with pytest.raises(Infeasible, match="no other region can take over for aws eu-north-1"):
        planned(replace(CHAT, regions=["eu-north-1"]), users=["eu"], survive_region=True)


def test_an_area_that_holds_nobody_is_said() -> None:
    plan = planned(replace(CHAT, regions=["us-east-1"]), users=["us"], stay=["eu"])
    assert any("--stay holds nobody" in note for note in plan.notes)


def test_users_are_read_with_shares_or_one_place_alone() -> None:
    assert parse_users(["eu=60%", "us-east-1=0.4"]) == [("eu", 0.6), ("us-east-1", 0.4)]
    assert parse_users(["52.5", "13.4"]) == [("52.5,13.4", 1.0)]
    assert planned(replace(CHAT, regions=["eu-central-1"]), users=["52.5", "13.4"]).users[0].latitude_degrees == 52.5
