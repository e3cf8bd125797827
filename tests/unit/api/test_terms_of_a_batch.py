"""What is bought for a term, or owned, is paid round the clock: a job that runs once buys no term."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from gpufleet.api import BatchRequest, ServeRequest, plan_batch, plan_serve
from gpufleet.api.comparisons import compare
from gpufleet.api.encoder_batches import EncoderBatchRequest, plan_encoder_batch
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.schema import OFFER_COLUMNS
from gpufleet.catalog.tables import Catalog
from gpufleet.errors import UsageError
from gpufleet.report.decoder_job import WORDS
from gpufleet.report.job_page import job_page
from gpufleet.report.text import page_as_text
from gpufleet.results.job import RentedJob
from gpufleet.units import DAY, HOUR

TODAY = date(2026, 11, 21)
QUOTES = {"on_demand": 21.96, "commit_3y": 9.50, "commit_1y": 13.80, "savings_plan": 15.80, "capacity_block": 11.90}
RACK = """
[rack]
accelerator = "A100-SXM4-40GB"
gpu_count = 8
num_machines = 8
link_kind = "nvswitch"
link_gb_per_s_per_direction = 300
purchase_usd = 120000
years = 4
power_watts = 5000
electricity_usd_per_kwh = 0.20
cooling_ratio = 1.3
as_of = 2026-10-01
"""
JOB = BatchRequest(
    "llama-3.1-8b", 3e6, 1000, 200, deadline_s=6 * HOUR, clouds=("aws",), gpus=("A100-SXM4-40GB",), rows=50,
    regions=("us-east-1",), pricing=tuple(QUOTES),
)  # fmt: skip
DAILY = replace(JOB, period_s=DAY)


@pytest.fixture
def quoted(tmp_path: Path) -> Catalog:
    rows = (
        f"aws,us-east-1,p4d.24xlarge,{kind},0,{usd},observed,your-tables,2026-10-01,\n" for kind, usd in QUOTES.items()
    )
    (tmp_path / "offers").mkdir()
    (tmp_path / "offers" / "quotes.csv").write_text(",".join(OFFER_COLUMNS) + "\n" + "".join(rows), encoding="utf-8")
    (tmp_path / "owned.toml").write_text(RACK, encoding="utf-8")
    return load_catalog(tmp_path, TODAY)


def by_kind(job: BatchRequest, tables: Catalog) -> dict[str, RentedJob]:
    return {d.price_kind: d for d in plan_batch(job, tables).deployments if d.instance in ("p4d.24xlarge", "rack")}


def test_a_job_that_runs_once_buys_no_term_and_says_so(quoted: Catalog) -> None:
    plan = plan_batch(JOB, quoted)
    assert not {d.price_kind for d in plan.deployments} & {"commit_1y", "commit_3y", "savings_plan"}
    [terms] = [r for r in plan.rejections if "not bought for a one-off job" in r.reason]
    assert (terms.count, terms.best) == (3, "aws p4d.24xlarge, commit 1y")
    alone = plan_batch(replace(JOB, pricing=("commit_3y",)), quoted)
    assert not alone.is_feasible
    assert "Bought for a term and paid round the clock" in page_as_text(job_page(alone, WORDS), 200)


def test_a_daily_job_pays_its_term_for_the_whole_day(quoted: Catalog) -> None:
    found = by_kind(DAILY, quoted)
    for kind in ("commit_1y", "commit_3y", "savings_plan"):
        d = found[kind]
        assert d.usd.value == d.usd.low == d.usd.high == pytest.approx(d.instance_count * QUOTES[kind] * 24)
        assert d.used_s.value < d.paid_s.value == DAY
        assert d.usd_per_month == pytest.approx(d.instance_count * QUOTES[kind] * 730)
    hourly = found["on_demand"]
    assert hourly.usd.value == pytest.approx(hourly.instance_count * QUOTES["on_demand"] * hourly.used_s.value / HOUR)


def test_a_term_is_cheaper_by_the_hour_and_dearer_for_a_short_daily_job(quoted: Catalog) -> None:
    found = by_kind(DAILY, quoted)
    assert found["commit_3y"].price_per_instance_usd_per_hour < found["on_demand"].price_per_instance_usd_per_hour / 2
    assert found["commit_3y"].usd.value > found["on_demand"].usd.value


def test_a_capacity_block_is_paid_by_the_day(quoted: Catalog) -> None:
    for job in (JOB, DAILY):
        block = by_kind(job, quoted)["capacity_block"]
        assert block.usd.value == pytest.approx(block.instance_count * QUOTES["capacity_block"] * 24)


@pytest.mark.slow
@pytest.mark.parametrize(("period_s", "held_h"), [(None, 6), (DAY, 24), (7 * DAY, 168)])
def test_own_machines_cost_all_the_time_and_running_them_is_shown_beside(
    quoted: Catalog, period_s: float | None, held_h: float
) -> None:
    own = replace(JOB, clouds=("own",), regions=None, pricing=("owned",), period_s=period_s)
    plan = plan_batch(own, quoted)
    d = plan.answer
    full = 120_000 / (4 * 8760) + 5.0 * 1.3 * 0.20
    assert d.usd.value == pytest.approx(d.instance_count * full * held_h)
    assert d.running_usd == pytest.approx(d.instance_count * 5.0 * 1.3 * 0.20 * d.used_s.value / HOUR)
    text = " ".join(page_as_text(job_page(plan, WORDS), 80).split())
    assert "is electricity while they work" in text
    assert ("per month, one job every" in text) == (period_s is not None)


def test_fewer_machines_are_bought_where_they_are_paid_for_though_they_stand_idle(quoted: Catalog) -> None:
    longer = replace(DAILY, deadline_s=DAY)
    assert by_kind(longer, quoted)["commit_3y"].instance_count < by_kind(DAILY, quoted)["commit_3y"].instance_count


def test_encoders_follow_the_same_rule(quoted: Catalog) -> None:
    job = EncoderBatchRequest(
        "bge-base-en-v1.5",
        1e8,
        DAY,
        input_tokens=200,
        clouds=JOB.clouds,
        gpus=JOB.gpus,
        pricing=("on_demand", "commit_3y"),
    )
    assert not any(d.price_kind == "commit_3y" for d in plan_encoder_batch(job, quoted).deployments)
    daily = plan_encoder_batch(replace(job, period_s=DAY), quoted)
    [term] = [d for d in daily.deployments if d.price_kind == "commit_3y"]
    assert term.usd.value == pytest.approx(term.instance_count * 9.50 * 24)


def test_a_job_must_be_done_before_it_comes_again(quoted: Catalog) -> None:
    with pytest.raises(UsageError, match="the period of the job is out of range"):
        plan_batch(replace(JOB, period_s=HOUR), quoted)


# --- what if prices rise ---------------------------------------------------------------------------------------------

SERVED = ServeRequest("llama-3.1-8b", 5.0, 1000, 200, "tpot.p95<50ms")


@pytest.mark.slow
def test_prices_that_rise_by_a_fifth_cost_a_fifth_more_everywhere() -> None:
    now, dear = plan_serve(SERVED), plan_serve(replace(SERVED, price_change=0.2))
    assert [d.usd_per_hour * 1.2 for d in now.deployments] == pytest.approx([d.usd_per_hour for d in dear.deployments])
    assert dear.spot_alternative.usd_per_hour == pytest.approx(1.2 * now.spot_alternative.usd_per_hour)
    assert "What if: prices +20% on all that is rented" in dear.notes
    assert now.input_hash != dear.input_hash
    sides = [compare(replace(SERVED, price_change=change), "L40S", "H100") for change in (None, 0.2)]
    costs = [side.first.deployment.usd_per_hour for side in sides]
    assert costs[1] == pytest.approx(1.2 * costs[0])


def test_own_machines_cost_what_they_cost_whatever_clouds_ask(quoted: Catalog) -> None:
    own = replace(JOB, clouds=("own",), regions=None, pricing=("owned",))
    assert plan_batch(replace(own, price_change=0.5), quoted).answer.usd == plan_batch(own, quoted).answer.usd


def test_what_was_agreed_on_stays_where_list_prices_rise(quoted: Catalog) -> None:
    """A contract of one's own is no list price: it holds to its end, and the plan says so."""
    now, dear = (plan_batch(replace(JOB, price_change=change), quoted) for change in (None, 0.5))
    paid = [{d.instance: d.usd.value for d in plan.deployments} for plan in (now, dear)]
    assert paid[1]["p4d.24xlarge"] == paid[0]["p4d.24xlarge"]
    assert "What if: prices +50% on all that is rented; your own prices stay as agreed" in dear.notes
    listed = [plan_batch(replace(JOB, price_change=change)).answer.usd.value for change in (None, 0.5)]
    assert listed[1] == pytest.approx(1.5 * listed[0])


# --- what would a commitment save ------------------------------------------------------------------------------------


def test_a_supposed_commitment_is_paid_while_machines_of_the_hour_are_given_back() -> None:
    """40 % off, round the clock, beside on-demand machines that are given back for two thirds of the day."""
    quiet = replace(SERVED, rate=20.0, off_peak_rate=4.0, peak_hours=8.0, gpus=("L40S",), clouds=("aws",))
    plan = plan_serve(replace(quiet, pricing=("on_demand", "commit_3y"), price_change=-0.4))
    cost = {d.price_kind: d for d in plan.deployments if d.instance == plan.answer.instance}
    one = {kind: d.price_per_instance_usd_per_hour for kind, d in cost.items()}
    assert one["commit_3y"] == pytest.approx(0.6 * one["on_demand"])
    assert cost["commit_3y"].price_basis == "estimated"
    assert cost["commit_3y"].usd_per_hour > cost["on_demand"].usd_per_hour
    assert plan.answer.price_kind == "on_demand"


def test_a_supposed_commitment_of_a_daily_job_is_paid_all_day() -> None:
    job = replace(DAILY, pricing=("on_demand", "commit_3y"), price_change=-0.4)
    [term] = [d for d in plan_batch(job).deployments if d.price_kind == "commit_3y" and d.instance == "p4d.24xlarge"]
    assert term.usd.value == pytest.approx(term.instance_count * 0.6 * 21.957642 * 24, rel=0.01)


@pytest.mark.parametrize("change", [-1.0, 11.0])
def test_prices_neither_vanish_nor_grow_without_end(change: float) -> None:
    with pytest.raises(UsageError, match="change of prices is out of range"):
        plan_serve(replace(SERVED, price_change=change))
