"""Where a job runs: its plan's own row, prices of every kind, what moves, limits, and what would help."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from gpufleet import (
    BatchPlan,
    JobRegionPlan,
    JobRegionRequest,
    plan_batch,
    plan_encoder_batch,
    plan_finetune,
    plan_job_regions,
)
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.query import OfferFilter, matching_offers
from gpufleet.domain.offer import PriceKind
from gpufleet.errors import DataMissing, Infeasible, UnknownName, UsageError
from gpufleet.results.job import JobPlan
from gpufleet.results.regions import JobRegionRow
from gpufleet.results.training import TrainingPlan
from gpufleet.units import HOUR

AWS: dict[str, Any] = {"clouds": ["aws"], "gpus": ["L40S", "A10G"]}


@pytest.fixture(scope="module")
def batch() -> BatchPlan:
    return plan_batch("llama-3.1-8b", requests="1M", input_tokens=1000, output_tokens=200, deadline="24h", **AWS)


@pytest.fixture(scope="module")
def tuning() -> TrainingPlan:
    return plan_finetune("llama-3.1-8b", method="lora", tokens="50M", deadline="24h", **AWS)


@pytest.fixture(scope="module")
def anywhere(batch: BatchPlan) -> JobRegionPlan:
    return plan_job_regions(batch)


def row_of(plan: JobRegionPlan, region: str) -> JobRegionRow:
    return next(row for row in plan.regions if row.region == region)


def usd_of(plan: JobRegionPlan) -> float:
    assert plan.answer is not None
    assert plan.answer.usd is not None
    return plan.answer.usd.value


@pytest.mark.slow
@pytest.mark.parametrize("which", ["batch", "tuning"])
def test_the_place_of_the_plan_costs_what_the_plan_says_and_what_moves(
    which: str, request: pytest.FixtureRequest
) -> None:
    plan: JobPlan = request.getfixturevalue(which)
    own = row_of(plan_job_regions(plan), plan.deployments[0].region)
    assert own.usd is not None
    assert own.moved_usd is not None
    assert own.usd.value - own.moved_usd == pytest.approx(plan.deployments[0].usd.value, rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("which", ["batch", "tuning"])
def test_on_demand_every_region_costs_its_own_price_for_the_time_of_the_plan(
    which: str, request: pytest.FixtureRequest
) -> None:
    plan: JobPlan = request.getfixturevalue(which)
    found = plan_job_regions(plan, pricing=["on_demand"], regions="us")
    offers = matching_offers(load_catalog(), OfferFilter(clouds={"aws"}, price_kinds=[PriceKind.ON_DEMAND]))
    prices = {(o.region, o.instance): o.price_per_instance_usd_per_hour for o in offers if o.is_dated}
    checked = [row for row in found.regions if row.usd is not None]
    assert checked
    for row in checked:
        assert row.machines is not None
        assert row.usd is not None
        assert row.done_s is not None
        paid = prices[row.region, row.machines.instance] * row.machines.instance_count * row.done_s.value / HOUR
        assert row.usd.value == pytest.approx(paid + (row.moved_usd or 0.0), rel=1e-6)


def test_a_run_of_training_on_demand_takes_what_its_plan_says(tuning: TrainingPlan) -> None:
    steady = plan_finetune("llama-3.1-8b", method="lora", tokens="50M", deadline="24h", pricing="on_demand", **AWS)
    found = plan_job_regions(steady)
    own = row_of(found, steady.answer.region)
    assert own.done_s is not None
    assert own.done_s.value == pytest.approx(steady.answer.used_s.value, rel=1e-6)
    assert found.moved.data_bytes == tuning.tokens * 4.5


@pytest.mark.slow
@pytest.mark.parametrize("deadline", ["24h", None])
def test_every_row_of_a_plan_runs_where_the_plan_has_it_for_no_more(deadline: str | None) -> None:
    said = {} if deadline is None else {"deadline": deadline}
    plan = plan_finetune("llama-3.1-8b", method="lora", tokens="50M", clouds=["aws", "gcp"], rows=30, **said)
    found = plan_job_regions(plan)
    for row in plan.deployments:
        own = next(r for r in found.regions if (r.cloud, r.region) == (row.cloud, row.region))
        assert own.usd is not None, row
        assert own.usd.value - (own.moved_usd or 0.0) <= row.usd.value * (1 + 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("deadline", ["24h", None])
def test_a_run_of_training_has_the_range_of_its_plan(deadline: str | None) -> None:
    said = {} if deadline is None else {"deadline": deadline}
    plan = plan_finetune("llama-3.1-8b", method="lora", tokens="50M", rows=1, **AWS, **said)
    own = row_of(plan_job_regions(plan), plan.answer.region)
    assert own.done_s is not None
    for end in ("low", "value", "high"):
        assert getattr(own.done_s, end) == pytest.approx(getattr(plan.answer.finish_s, end), rel=1e-9)


@pytest.mark.parametrize("which", ["batch", "tuning"])
def test_where_the_deadline_is_sooner_than_the_work_every_region_is_late(
    which: str, request: pytest.FixtureRequest
) -> None:
    plan: JobPlan = request.getfixturevalue(which)
    sooner = plan.model_copy(update={"deadline_s": min(row.work_s for row in plan.deployments)})
    found = plan_job_regions(sooner)
    assert not found.is_feasible
    assert found.changes == []
    assert {row.why_not for row in found.regions} == {"late", "not_sold", "no_price"}


@pytest.mark.slow
def test_regions_are_ranked_and_every_other_says_why_not(anywhere: JobRegionPlan) -> None:
    costs = [row.usd.value for row in anywhere.regions if row.usd is not None]
    assert costs == sorted(costs)
    assert [row.is_chosen for row in anywhere.regions] == [True] + [False] * (len(anywhere.regions) - 1)
    assert all((row.usd is None) == (row.why_not is not None) for row in anywhere.regions)


def test_a_machine_has_its_price_of_every_kind_there(anywhere: JobRegionPlan) -> None:
    assert anywhere.answer is not None
    kinds = {price.price_kind: price for price in anywhere.answer.prices}
    assert {"on_demand", "spot", "commit_1y"} <= set(kinds)
    assert kinds["spot"].interruption
    assert kinds["spot"].usd_per_hour < kinds["commit_1y"].usd_per_hour < kinds["on_demand"].usd_per_hour


def test_data_are_copied_from_where_they_lie_and_not_within_a_region(batch: BatchPlan) -> None:
    here = plan_job_regions(batch, data="10TB", data_in="aws:us-west-2")
    assert row_of(here, "us-west-2").moved_usd == 0
    size_gb = (here.moved.weights_bytes + here.moved.data_bytes) / 1e9
    assert size_gb == pytest.approx(10_016, rel=1e-3)
    east = row_of(here, "us-east-2").moved_usd
    assert east is not None
    assert east == pytest.approx(size_gb * 0.02, rel=0.01)
    assert here.answer is not None
    assert here.answer.region == "us-west-2"


def test_bytes_of_a_known_price_count_though_others_have_none() -> None:
    everywhere = plan_finetune("llama-3.1-8b", method="lora", tokens="50M", deadline="24h", gpus=["RTX-6000-Ada"])
    found = plan_job_regions(everywhere, data="2TB", data_in="aws:us-east-1", clouds=["verda"])
    row = row_of(found, "FIN")
    assert not row.is_moved_known
    assert row.moved_usd == pytest.approx(2016 * 0.09, rel=0.01)
    assert any("verda" in note for note in found.notes)


def test_a_job_stays_in_its_area_whatever_that_costs(batch: BatchPlan, anywhere: JobRegionPlan) -> None:
    germany = plan_job_regions(batch, stay=["germany"])
    assert {row.country for row in germany.regions if row.usd is not None} == {"Germany"}
    assert {row.why_not for row in germany.regions if row.country != "Germany"} == {"job_stays_elsewhere"}
    assert usd_of(germany) > usd_of(anywhere)


def test_a_clean_grid_and_a_budget_of_carbon_hold_at_the_high_end(batch: BatchPlan) -> None:
    clean = plan_job_regions(batch, max_grid=30.0)
    assert all(row.grid is not None and row.grid.value <= 30 for row in clean.regions if row.usd is not None)
    few = plan_job_regions(batch, carbon_budget=2.0)
    kept = [row for row in few.regions if row.usd is not None]
    assert kept
    assert all(row.g_co2e is not None and (row.g_co2e.high or 0) <= 2000 for row in kept)


@pytest.mark.slow
def test_a_quota_leaves_out_machines_with_more_gpus() -> None:
    said = {"requests": "1M", "input_tokens": 1000, "output_tokens": 200, "deadline": "24h"}
    batch = plan_batch("llama-3.1-8b", **said, clouds=["aws"], gpus=["L40S"])
    found = plan_job_regions(batch, quotas=["aws:L40S=3"])
    rented = [row.machines for row in found.regions if row.machines is not None]
    assert {m.instance_count * m.gpus_per_instance for m in rented} == {3.0}
    us = plan_job_regions(batch, quotas=["aws:us-east-1:L40S=2"])
    assert row_of(us, "us-east-1").why_not == "quota"
    assert us.is_feasible
    [change] = plan_job_regions(batch, quotas=["L40S=2"]).changes
    assert (change.limit, change.asked, change.needed) == ("L40S=2", 2, 3)


@pytest.mark.slow
@pytest.mark.parametrize("limit", ["budget", "carbon_budget"])
def test_where_a_limit_leaves_nothing_the_change_that_helps_is_enough(batch: BatchPlan, limit: str) -> None:
    none = plan_job_regions(batch, **{limit: 0.01})
    assert not none.is_feasible
    [change] = none.changes
    assert plan_job_regions(batch, **{limit: change.needed * 1.000001}).is_feasible
    assert not plan_job_regions(batch, **{limit: change.needed * 0.999}).is_feasible


def test_a_term_binds_longer_than_a_job_that_runs_once(batch: BatchPlan) -> None:
    once = plan_job_regions(batch, pricing=["commit_1y"])
    assert not once.is_feasible
    assert "binds_longer" in {row.why_not for row in once.regions}
    again = batch.model_copy(update={"period_s": 2 * batch.deadline_s})
    weekly = plan_job_regions(again, pricing=["commit_1y"])
    assert weekly.answer is not None
    assert weekly.answer.machines is not None
    assert weekly.answer.machines.price_kind == "commit_1y"
    [price] = [price for price in weekly.answer.prices if price.price_kind == "commit_1y"]
    round_the_clock = price.usd_per_hour * weekly.answer.machines.instance_count * 2 * batch.deadline_s / HOUR
    assert usd_of(weekly) - (weekly.answer.moved_usd or 0.0) == pytest.approx(round_the_clock)


def test_the_cleanest_grid_is_told_where_no_other_is_clean_enough(batch: BatchPlan) -> None:
    none = plan_job_regions(batch, max_grid=0.0)
    assert {row.why_not for row in none.regions} <= {"grid", "not_sold", "no_price"}
    [change] = none.changes
    assert plan_job_regions(batch, max_grid=change.needed).is_feasible


@pytest.mark.slow
def test_so_many_machines_train_on_spot_only_where_the_plan_says_so(tuning: TrainingPlan) -> None:
    row = tuning.answer.model_copy(update={"instance_count": 9, "price_kind": "on_demand"})
    steady = plan_job_regions(tuning.model_copy(update={"deployments": [row]}))
    assert {row.machines.price_kind for row in steady.regions if row.machines} == {"on_demand"}
    on_spot = row.model_copy(update={"price_kind": "spot"})
    spot = plan_job_regions(tuning.model_copy(update={"deployments": [row, on_spot]}), pricing=["spot"])
    assert "spot_gang" not in {row.why_not for row in spot.regions}
    refused = plan_job_regions(tuning.model_copy(update={"deployments": [row]}), pricing=["spot"])
    assert {row.why_not for row in refused.regions} == {"spot_gang", "not_sold", "no_price"}


def test_machines_of_ones_own_stand_where_they_stand(batch: BatchPlan) -> None:
    own = batch.answer.model_copy(update={"cloud": "own", "instance": "2x", "price_kind": "owned"})
    beside = plan_job_regions(batch.model_copy(update={"deployments": [own, *batch.deployments]}))
    assert not any(way.startswith("own") for way in beside.ways)
    with pytest.raises(Infeasible, match="stand where they stand"):
        plan_job_regions(batch.model_copy(update={"deployments": [own]}))


@pytest.mark.slow
def test_images_count_no_bytes_until_somebody_says_them() -> None:
    plan = plan_encoder_batch("vit-base", requests="10M", deadline="24h", clouds=["aws"])
    unsaid, said = plan_job_regions(plan), plan_job_regions(plan, data="1TB", data_in="aws:us-east-1")
    assert unsaid.moved.data_bytes is None
    assert said.moved.data_bytes == 1e12
    texts = plan_encoder_batch("bge-base-en-v1.5", requests="10M", input_tokens=200, deadline="24h", clouds=["aws"])
    assert plan_job_regions(texts).moved.data_bytes == 10e6 * 200 * 4.5


@pytest.mark.slow
def test_a_run_without_a_deadline_is_placed_too() -> None:
    plan = plan_finetune("llama-3.1-8b", method="lora", tokens="50M", **AWS)
    found = plan_job_regions(plan)
    own = row_of(found, plan.answer.region)
    assert own.usd is not None
    assert own.usd.value - (own.moved_usd or 0.0) == pytest.approx(plan.answer.usd.value, rel=1e-3)


def test_prices_that_are_too_old_end_the_question(batch: BatchPlan) -> None:
    with pytest.raises(DataMissing, match="older than"):
        plan_job_regions(JobRegionRequest(batch, max_price_age_s=86400.0, today=date(2030, 1, 1)))


@pytest.mark.slow
def test_dearer_prices_cost_more(batch: BatchPlan, anywhere: JobRegionPlan) -> None:
    dearer = plan_job_regions(JobRegionRequest(batch, price_change=0.5))
    assert usd_of(anywhere) < usd_of(dearer) <= 1.5 * usd_of(anywhere) + 1e-9


@pytest.mark.parametrize(
    ("said", "error", "told"),
    [
        ({"regions": ["atlantis"]}, UnknownName, "atlantis"),
        ({"stay": ["narnia"]}, UnknownName, "narnia"),
        ({"data_in": "nowhere"}, UnknownName, "nowhere"),
        ({"stay": ["eu"], "regions": ["us"]}, Infeasible, "has to stay in eu"),
        ({"year": 2050}, UsageError, "no grid is known"),
        ({"carbon_budget": -1.0}, UsageError, "the carbon budget is out of range"),
        ({"budget_usd": -5.0}, UsageError, "budget"),
        ({"quotas": ["aws:H100"]}, UsageError, "a quota cannot be read"),
        ({"users": ["eu"]}, UnknownName, "users"),
    ],
)
def test_what_cannot_be_is_refused(batch: BatchPlan, said: dict[str, Any], error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=told):
        plan_job_regions(batch, **said)


def test_a_plan_without_machines_is_refused(batch: BatchPlan) -> None:
    empty = batch.model_copy(update={"deployments": []})
    with pytest.raises(Infeasible, match="has no machines"):
        plan_job_regions(empty)


def test_the_answer_is_read_back_from_its_file(anywhere: JobRegionPlan) -> None:
    assert JobRegionPlan.model_validate_json(anywhere.model_dump_json()) == anywhere


def test_a_request_is_the_same_as_its_words(batch: BatchPlan) -> None:
    request = JobRegionRequest(batch, stay=["eu"])
    assert plan_job_regions(request) == plan_job_regions(batch, stay=["eu"])
    assert plan_job_regions(replace(request, stay=None)) == plan_job_regions(batch)
