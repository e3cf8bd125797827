"""Laws of where a job runs: what is allowed more never costs more, what is forbidden never costs less."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.effort import cases

from gpufleet import JobRegionPlan, plan_batch, plan_finetune, plan_job_regions
from gpufleet.catalog.load import load_catalog
from gpufleet.results.job import JobPlan

REGIONS = ("us-east-1", "us-east-2", "us-west-2", "eu-north-1", "eu-central-1", "ap-northeast-1", "ap-northeast-2")
AREAS = ("eu", "us", "germany", "japan", "asia")
NOWHERE = float("inf")


@pytest.fixture(scope="module")
def jobs() -> list[JobPlan]:
    on_aws: dict[str, Any] = {"clouds": ["aws"], "gpus": ["L40S"], "rows": 3}
    batch = plan_batch("llama-3.1-8b", requests="1M", input_tokens=1000, output_tokens=200, deadline="24h", **on_aws)
    return [batch, plan_finetune("llama-3.1-8b", method="lora", tokens="50M", deadline="24h", **on_aws)]


def usd(plan: JobRegionPlan) -> float:
    """What it costs; infinite where no region runs it."""
    return NOWHERE if plan.answer is None or plan.answer.usd is None else plan.answer.usd.value


@pytest.mark.slow
@settings(max_examples=cases(8, 40))
@given(st.data())
def test_a_region_more_never_costs_more(jobs: list[JobPlan], data: st.DataObject) -> None:
    job = data.draw(st.sampled_from(jobs))
    few = data.draw(st.sets(st.sampled_from(REGIONS), min_size=1, max_size=4))
    more = data.draw(st.sampled_from(REGIONS))
    assert usd(plan_job_regions(job, regions=sorted(few | {more}))) <= usd(plan_job_regions(job, regions=sorted(few)))


@pytest.mark.slow
@settings(max_examples=cases(8, 40))
@given(st.data())
def test_what_is_forbidden_never_makes_it_cheaper_and_never_changes_a_row(
    jobs: list[JobPlan], data: st.DataObject
) -> None:
    job = data.draw(st.sampled_from(jobs))
    limits: dict[str, Any] = {
        "stay": data.draw(st.lists(st.sampled_from(AREAS), min_size=1, max_size=2, unique=True)),
        "carbon_budget": data.draw(st.floats(0.001, 30)),
        "budget": data.draw(st.floats(0.5, 30)),
        "max_grid": data.draw(st.floats(10, 900)),
        "quotas": [f"L40S={data.draw(st.integers(0, 8))}"],
    }
    name = data.draw(st.sampled_from(sorted(limits)))
    free, held = plan_job_regions(job), plan_job_regions(job, **{name: limits[name]})
    assert usd(held) >= usd(free)
    rows = {(row.cloud, row.region): row for row in free.regions}
    for row in held.regions:
        own = rows[row.cloud, row.region]
        if row.usd is not None:
            assert own.usd is not None
            assert row.usd.value >= own.usd.value


@pytest.mark.slow
@settings(max_examples=cases(6, 30))
@given(st.data())
def test_more_data_never_costs_less_and_none_where_they_lie(jobs: list[JobPlan], data: st.DataObject) -> None:
    job = data.draw(st.sampled_from(jobs))
    few, many = sorted(data.draw(st.lists(st.floats(0, 1e14), min_size=2, max_size=2)))
    home = data.draw(st.sampled_from(REGIONS))
    less, more = (plan_job_regions(job, data_bytes=size, data_in=f"aws:{home}") for size in (few, many))
    assert usd(less) <= usd(more)
    assert {row.moved_usd for row in more.regions if row.region == home and row.usd is not None} <= {0.0}


TUNING: dict[str, Any] = {"method": "lora", "tokens": "50M", "deadline": "24h", "gpus": ["L40S", "L4"]}


@pytest.fixture(scope="module")
def anywhere() -> JobRegionPlan:
    return plan_job_regions(plan_finetune("llama-3.1-8b", clouds=["aws"], rows=30, **TUNING))


@pytest.mark.slow
@pytest.mark.parametrize("region", ["us-east-2", "eu-north-1", "ap-northeast-1"])
def test_a_plan_made_for_a_region_alone_costs_what_the_job_does_there(anywhere: JobRegionPlan, region: str) -> None:
    """By another way: the whole question is planned anew for the region, at prices of today."""
    tables = load_catalog()
    fresh = replace(tables, offers=tuple(replace(offer, age_ratio=1.0) for offer in tables.offers))
    alone = plan_finetune("llama-3.1-8b", catalog=fresh, clouds=["aws"], regions=[region], **TUNING)
    row = next(row for row in anywhere.regions if row.region == region)
    assert row.usd is not None
    assert row.usd.value - (row.moved_usd or 0.0) == pytest.approx(alone.answer.usd.value, rel=1e-9)
