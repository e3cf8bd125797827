"""Several models draw on one quota, one reservation, one rack: limits hold for their sum."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import date
from itertools import product
from pathlib import Path

import pytest

from gpufleet.api import ServeRequest
from gpufleet.api.fleets import plan_fleet
from gpufleet.api.plan_changes import explain_plan
from gpufleet.api.plans import plan_serve
from gpufleet.api.serve_questions import architecture_of, serve_question
from gpufleet.catalog.calibration import calibration_of
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.own_terms import QUOTA_COLUMNS
from gpufleet.catalog.tables import Catalog
from gpufleet.optimize.joint import options_of
from gpufleet.optimize.service import solve_serve
from gpufleet.report.fleet_plan import fleet_page
from gpufleet.report.text import page_as_text
from gpufleet.results.fleet import FleetPlan
from gpufleet.results.plan_changes import FleetChanges

pytestmark = pytest.mark.usefixtures("rows_alone")

TODAY = date(2026, 11, 21)
RACK = """
[box]
accelerator = "H100-SXM"
gpu_count = 8
num_machines = {boxes}
link_kind = "nvswitch"
link_gb_per_s_per_direction = 450
purchase_usd = 250000
years = 5
power_watts = 8000
electricity_usd_per_kwh = 0.10
as_of = 2026-10-01
"""
LARGE = ServeRequest(
    "llama-3.3-70b", 3.0, 2000, 300, "tpot.p95<35ms", clouds=("own", "aws"), pricing=("on_demand", "owned")
)
MODELS = (LARGE, replace(LARGE, model="qwen2.5-72b"), replace(LARGE, model="qwen3-32b", rate=5.0))


def tables(directory: Path, boxes: int, quota: str = "") -> Catalog:
    (directory / "owned.toml").write_text(RACK.format(boxes=boxes), encoding="utf-8")
    if quota:
        (directory / "quotas.csv").write_text(",".join(QUOTA_COLUMNS) + "\n" + quota, encoding="utf-8")
    return load_catalog(directory, TODAY)


def machines_used(fleet: FleetPlan) -> Counter[tuple[str, str]]:
    used: Counter[tuple[str, str]] = Counter()
    tenants = {tenant.plan for s in fleet.shared for tenant in s.tenants}
    for index, plan in enumerate(fleet.plans):
        if index not in tenants:
            used[plan.answer.cloud, plan.answer.instance] += plan.answer.instance_count
    for s in fleet.shared:
        used[s.cloud, s.instance] += s.instance_count
    return used


@pytest.mark.slow
@pytest.mark.parametrize("boxes", [1, 2, 3, 9])
def test_no_more_boxes_are_used_than_the_rack_holds(tmp_path: Path, boxes: int) -> None:
    fleet = plan_fleet(MODELS, catalog=tables(tmp_path, boxes))
    used = machines_used(fleet)
    assert fleet.is_feasible
    assert used["own", "box"] <= boxes
    assert fleet.usd_per_hour == pytest.approx(cost_of_what_is_shown(fleet))


def cost_of_what_is_shown(fleet: FleetPlan) -> float:
    tenants = {tenant.plan for s in fleet.shared for tenant in s.tenants}
    own = sum(p.answer.usd_per_hour for i, p in enumerate(fleet.plans) if i not in tenants)
    return own + sum(s.usd_per_hour for s in fleet.shared)


@pytest.mark.slow
def test_a_larger_rack_never_costs_more(tmp_path: Path) -> None:
    costs = []
    for boxes in (1, 2, 3, 9):
        (tmp_path / str(boxes)).mkdir()
        costs.append(plan_fleet(MODELS, catalog=tables(tmp_path / str(boxes), boxes)).usd_per_hour)
    assert costs == sorted(costs, reverse=True)
    assert costs[0] > costs[-1]


@pytest.mark.slow
def test_machines_of_their_own_are_the_cheapest_that_the_limits_allow_for_all(tmp_path: Path) -> None:
    catalog = tables(tmp_path, 2, "aws,us-east-1,p5.48xlarge,on_demand,1\n")
    fleet = plan_fleet(MODELS, catalog=catalog)
    every = []
    for request in MODELS:
        question, _ = serve_question(request, architecture_of(request), catalog)
        every.append(options_of(question, solve_serve(question, calibration_of(catalog))))
    held = {("own", "box"): 2, ("aws", "p5.48xlarge"): 1}
    allowed = []
    for choice in product(*every):
        used: Counter[tuple[str, str]] = Counter()
        for option in choice:
            used[option.priced.offer.cloud, option.priced.offer.instance] += option.priced.placement.instance_count
        if all(used[key] <= most for key, most in held.items()):
            allowed.append(sum(option.usd_per_hour for option in choice))
    assert fleet.usd_per_hour_apart == pytest.approx(min(allowed))


@pytest.mark.slow
def test_a_model_that_gives_way_says_so_and_leads_its_own_plan(tmp_path: Path) -> None:
    fleet = plan_fleet(MODELS[:2], catalog=tables(tmp_path, 1))
    assert not fleet.shared
    clouds = sorted(plan.answer.cloud for plan in fleet.plans)
    assert clouds == ["aws", "own"]
    [rented] = [plan for plan in fleet.plans if plan.answer.cloud == "aws"]
    assert any("1x own box would cost less" in note for note in rented.notes)


def test_where_nothing_else_can_be_had_the_shortfall_is_told(tmp_path: Path) -> None:
    own = [replace(request, clouds=("own",)) for request in MODELS[:2]]
    fleet = plan_fleet(own, catalog=tables(tmp_path, 1))
    assert not fleet.is_feasible
    assert fleet.usd_per_hour is None
    [lack] = fleet.missing
    assert (lack.instance, lack.can_be_had, lack.needed) == ("box", 1, 2)
    assert "together they need 2 machines, 1 available: own box, home, owned" in " ".join(
        page_as_text(fleet_page(fleet), 80).split()
    )


def test_models_that_fit_one_box_together_share_it_where_there_is_no_second(tmp_path: Path) -> None:
    small = [
        replace(LARGE, model="llama-3.1-8b", rate=2.0, clouds=("own",)),
        replace(LARGE, model="qwen3-32b", rate=1.0, clouds=("own",)),
    ]
    fleet = plan_fleet(small, catalog=tables(tmp_path, 1))
    assert fleet.is_feasible
    assert [s.instance_count for s in fleet.shared] == [1]
    assert fleet.usd_per_hour_apart is None


@pytest.mark.slow
@pytest.mark.parametrize("boxes", [1, 2, 9])
def test_a_fleet_within_a_rack_is_reproduced_as_it_was_shared_out(tmp_path: Path, boxes: int) -> None:
    market = tables(tmp_path, boxes)
    changes = explain_plan(plan_fleet(MODELS, catalog=market), market)
    assert isinstance(changes, FleetChanges)
    assert changes.stands
    assert not any(model.model_changed_it or model.prices_changed_it for model in changes.models)


@pytest.mark.slow
def test_every_answer_within_a_rack_says_how_it_is_started(tmp_path: Path) -> None:
    fleet = plan_fleet(MODELS, catalog=tables(tmp_path, 1))
    assert all(plan.answer.launch is not None for plan in fleet.plans)


@pytest.mark.slow
def test_two_services_of_one_model_have_headings_of_their_own() -> None:
    one = ServeRequest("llama-3.1-8b", 5.0, 1000, 200, clouds=["aws"], rows=1)
    same, other = plan_fleet([one, replace(one, rate=9.0)]), plan_fleet([one, replace(one, model="qwen3-32b")])
    titles = [table.title for table in fleet_page(same).tables]
    assert {title.partition(":")[0] for title in titles if ":" in title} == {
        "llama-3.1-8b (1 of 2)", "llama-3.1-8b (2 of 2)",
    }  # fmt: skip
    assert not any("of 2)" in table.title for table in fleet_page(other).tables)


def test_several_models_may_rent_slices_of_gpus() -> None:
    """Each model alone is planned on the tables that hold the slices, its kernels among them."""
    small = ServeRequest("qwen3-0.6b", 0.5, 100, 20, gpus=["L4"], clouds=["aws"], fractions=True)
    fleet = plan_fleet([small, replace(small, rate=0.6)])
    assert all(plan.answer and plan.answer.instance.startswith("g6f.") for plan in fleet.plans)
    assert fleet.plans[0].answer == plan_serve(small).answer
