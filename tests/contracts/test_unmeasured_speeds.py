"""A job whose cheapest row runs at a speed that nobody measured: it wins only if it pays for its range."""

from __future__ import annotations

import json
from datetime import date
from functools import cache
from itertools import pairwise
from statistics import NormalDist
from typing import Any

import pytest

from gpufleet.api import plan_batch, plan_finetune, plan_train
from gpufleet.catalog.load import load_catalog
from gpufleet.cli import main
from gpufleet.results.job import JobPlan, RentedJob

TEN_PERCENT_LATER = NormalDist().inv_cdf(0.9)
SUMMARIES: dict[str, Any] = {"requests": "2M", "input_tokens": 1500, "output_tokens": 200}
PRETRAINING: dict[str, Any] = {"tokens": "2T", "deadline": "60d"}
JUNE = date(2026, 6, 30)
"""MI300X cost 1.99 an hour then."""
CLOUDS = ["azure", "aws", "digitalocean", "vultr"]


@cache
def batch(hours: float, **said: Any) -> JobPlan:
    asked = {**SUMMARIES, "deadline": f"{hours}h", "rows": 40, "pricing": ["on_demand"], **said}
    return plan_batch("llama-3.1-8b", load_catalog(as_of=JUNE), **asked)


@cache
def pretraining() -> JobPlan:
    return plan_train("llama-3.1-70b", **PRETRAINING, clouds=["azure", "aws"], rows=40)


def tuning() -> JobPlan:
    return plan_finetune("llama-3.1-8b", tokens="500M", deadline="24h", clouds=CLOUDS, pricing=["on_demand"], rows=40)


def counts_usd(d: RentedJob, confidence: float) -> float:
    """What a row counts, from the figures that it shows: its range is log-normal, its high end the 90th percentile."""
    slow: float = d.work_ratios[1] ** (NormalDist().inv_cdf(confidence) / TEN_PERCENT_LATER)
    return d.usd.value * d.price_age_ratio * (slow if d.grade == "roofline" else 1.0)


@pytest.mark.parametrize("plan", [lambda: batch(8), pretraining], ids=["batch", "pretraining"])
def test_a_measured_row_wins_over_one_that_is_cheaper_only_if_its_speed_holds(plan: Any) -> None:
    found = plan()
    first, beside = found.deployments[0], found.unmeasured_alternative
    assert first.grade in ("measured", "transferred")
    assert beside is not None
    assert (beside.gpu, beside.grade) == ("MI300X", "roofline")
    assert beside.usd.value < first.usd.value < counts_usd(beside, found.confidence)


@pytest.mark.parametrize("plan", [lambda: batch(8), pretraining, tuning], ids=["batch", "pretraining", "tuning"])
def test_rows_stand_in_the_order_in_which_they_count(plan: Any) -> None:
    found = plan()
    counted = [counts_usd(d, found.confidence) for d in found.deployments]
    assert len(counted) > 2
    assert all(later >= sooner * 0.999 for sooner, later in pairwise(counted))


def test_it_wins_where_it_is_named_alone_and_as_expected() -> None:
    assert batch(8, gpus=("MI300X",)).deployments[0].gpu == "MI300X"
    as_expected = batch(8, confidence=0.5)
    assert as_expected.unmeasured_alternative is None
    costs = [d.usd.value * d.price_age_ratio for d in as_expected.deployments]
    assert costs == sorted(costs)


def test_a_longer_deadline_never_makes_the_headline_count_more() -> None:
    plans = [batch(hours, confidence=0.8) for hours in (2, 3, 4, 6, 8, 12, 16, 24, 48, 96)]
    counted = [counts_usd(plan.deployments[0], 0.8) for plan in plans]
    assert all(longer <= shorter * 1.000001 for shorter, longer in pairwise(counted))


def test_the_page_names_what_it_passed_over_and_how_to_take_it(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("plan", "batch", "llama-3.1-8b", "--requests", "2M", "--in", "1500", "--out", "200", "--deadline", "8h")
    words += ("--as-of", str(JUNE))
    assert main([*words]) == 0
    page = " ".join(capsys.readouterr().out.split())
    assert "Cheaper if its speed holds: 6x digitalocean 1x_MI300X" in page
    assert "(--gpus MI300X takes it)" in page
    assert main([*words, "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["unmeasured_alternative"]["gpu"] == "MI300X"
