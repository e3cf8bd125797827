"""The page of a serving plan: what it says of one replica, idle GPUs, tight rows, spot and old prices."""

from __future__ import annotations

import math
from datetime import date
from typing import Any

import pytest

from gpufleet.report.detail import Detail
from gpufleet.report.page import Column, Page, Table
from gpufleet.report.plan import plan_page
from gpufleet.report.search import assumed_line
from gpufleet.report.text import page_as_text
from gpufleet.results.answer import PriceSource
from gpufleet.results.base import Figure, Input
from gpufleet.results.plan import Deployment, RejectionCount, Relaxation, ServePlan

YESTERDAY, TODAY = date(2026, 1, 31), date(2026, 2, 1)


def seconds(value: float, high: float) -> Figure:
    return Figure(value=value, unit="s", low=value / 2, high=high)


def deployment(**changes: Any) -> Deployment:
    found: dict[str, Any] = {
        "cloud": "aws", "region": "us-east-1", "instance": "p5.48xlarge", "instance_count": 1, "gpu": "H100-SXM",
        "gpus_per_instance": 8, "price_kind": "on_demand", "price_basis": "list", "price_source": "aws-price-list",
        "price_as_of": YESTERDAY, "price_per_instance_usd_per_hour": 40.0, "price_per_gpu_usd_per_hour": 5.0,
        "engine": "vllm", "weight_format": "bf16", "kv_precision": "bf16", "layout": "TP4", "gpus_per_replica": 4,
        "replicas": 2, "idle_gpus": 0, "batch": 20.0, "largest_batch": 80.0,
        "latency": {"ttft.p95": seconds(0.2, 0.4), "tpot.p95": seconds(0.02, 0.03)},
        "requests_per_s_capacity": Figure(value=6.0, unit="1/s", low=5.0, high=7.0), "load_ratio": 0.5,
        "headroom_ratio": 0.5, "usd_per_hour": 40.0, "usd_per_month": 29200.0, "usd_per_million_output_tokens": 9.0,
        "usd_per_request": 0.003, "binding_limit": "tpot.p95", "is_tight": False, "grade": "measured",
    }  # fmt: skip
    return Deployment(**(found | changes))


def plan(*deployments: Deployment, **changes: Any) -> ServePlan:
    found: dict[str, Any] = {
        "model": "a-model", "num_parameters": 7, "num_active_parameters": 7, "rate_requests_per_s": 4.0,
        "input_tokens": 1000, "output_tokens": 300, "headroom_wanted_ratio": 0.2,
        "inputs": [Input(name="engine", value="vllm (V1)", origin="default")],
        "objectives": {"ttft.p95": 0.5, "tpot.p95": 0.04}, "deployments": list(deployments), "rejections": [],
        "num_layouts": 10, "num_configurations": 100, "num_offers": 5, "input_hash": "abc",
        "price_sources": [PriceSource(id="aws-price-list", title="AWS", as_of=YESTERDAY)],
    }  # fmt: skip
    return ServePlan(**(found | changes))


def words(answer: ServePlan, **how: Any) -> str:
    """The page with its line breaks forgotten."""
    return " ".join(page_as_text(plan_page(answer, **how), 80).split())


def test_one_replica_on_one_gpu_is_singular() -> None:
    said = words(plan(deployment(replicas=1, gpus_per_replica=1, layout="TP1", idle_gpus=7)))
    assert "1 replica of TP1 (1 GPU) in bf16 with vllm" in said
    assert "7 GPUs idle but paid for" in said


def test_a_tight_answer_points_at_the_cheapest_row_that_is_not() -> None:
    rows = (deployment(is_tight=True), deployment(is_tight=True), deployment(usd_per_hour=55.5))
    assert "row 3 ($55.50/h) keeps its limits there too" in words(plan(*rows))


def test_where_every_row_is_tight_no_row_is_recommended() -> None:
    assert "as in all rows" in words(plan(deployment(is_tight=True), deployment(is_tight=True)))
    assert "as in all rows" not in words(plan(deployment(is_tight=True)))
    assert "Tight:" not in words(plan(deployment()))


def test_the_high_end_of_each_objective_is_judged_by_itself() -> None:
    latency = {"ttft.p95": seconds(0.2, 0.4), "tpot.p95": seconds(0.02, 0.05)}
    lines = page_as_text(plan_page(plan(deployment(latency=latency, is_tight=True))), 80).splitlines()
    assert next(line for line in lines if line.startswith("ttft.p95")).endswith("holds")
    assert next(line for line in lines if line.startswith("tpot.p95")).endswith("breaks")


def test_cheaper_spot_is_offered_with_its_risk_and_dearer_spot_is_not() -> None:
    cheap = deployment(usd_per_hour=15.0, price_kind="spot", price_basis="estimated", interruption="5-10%")
    dear = deployment(usd_per_hour=45.0, price_kind="spot")
    said = words(plan(deployment(), spot_alternative=cheap))
    assert "On spot ~$15.00/h (1x aws p5.48xlarge, us-east-1; price of 2026-01-31)" in said
    assert "machines can be reclaimed; 5-10% of them are reclaimed within a month" in said
    assert "can be reclaimed" in said
    assert "Spot is no cheaper: from $45.00/h" in words(plan(deployment(), spot_alternative=dear))


def test_weights_below_the_checkpoint_say_beside_the_answer_what_they_cost() -> None:
    costs = {"fp8": "fp8 weights: within 0.5 % of bf16", "int4": "int4 weights: 1-2 % below bf16"}
    notes = [*costs.values(), "H100 read as H100-SXM"]
    said = words(plan(deployment(weight_format="fp8"), notes=notes, quality_costs=costs))
    assert "Quality: fp8 weights: within 0.5 % of bf16." in said.partition("Cheapest first")[0]
    assert said.count("fp8 weights: ") == said.count("int4 weights: ") == 1
    assert "Quality" not in words(plan(deployment(), notes=notes, quality_costs=costs))


def test_the_age_of_the_oldest_price_is_said_where_the_day_is_known() -> None:
    assert "Oldest: 2026-01-31, 1 day old." in words(plan(deployment()), today=TODAY)
    assert " old." not in words(plan(deployment()))


def test_what_nobody_said_is_said_to_be_assumed() -> None:
    assert "Assumed: engine vllm (V1)." in words(plan(deployment()))
    given = [Input(name="engine", value="vllm (V1)", origin="given")]
    assert "Assumed" not in words(plan(deployment(), inputs=given))


def test_the_commonest_rejections_are_shown_and_the_others_counted() -> None:
    reasons = [RejectionCount(reason=f"reason {n}", count=10 - n, best=f"nearest {n}") for n in range(8)]
    short, full = (
        words(plan(deployment(), rejections=reasons)),
        words(plan(deployment(), rejections=reasons), details=frozenset(Detail)),
    )
    assert "Rejected: 52 candidates" in short
    assert "And 7 candidates for 2 more reasons: --show rejected." in short
    assert "nearest 7" not in short
    assert "nearest 7" in full


def test_without_an_answer_the_page_says_what_must_give_way() -> None:
    give = [
        Relaxation(limit=name, asked_s=0.004, needed_s=0.008, asked="4 ms", needed="8 ms", candidate="8x B300")
        for name in ("ttft", "tpot")
    ]
    said = words(plan(relaxations=give))
    assert said.startswith(
        "a-model at 4 requests/s, 1,000 tokens in, 300 out: no machine on offer meets every objective."
    )
    assert "Any one of these is enough." in said
    together = [r.model_copy(update={"together": True}) for r in give]
    assert "all of these are needed together" in words(plan(relaxations=together))


def test_a_fraction_of_a_request_per_second_is_not_rounded_away() -> None:
    assert words(plan(deployment(), rate_requests_per_s=0.5)).startswith("a-model at 0.5 requests/s, ")


def test_lengths_stand_in_the_first_line_with_what_nobody_said() -> None:
    def first(**lengths: Any) -> str:
        return words(plan(deployment(), **lengths)).split(": ")[0]

    asked, both = "a-model at 4 requests/s, 1,000 tokens in", ["input", "output"]
    spread = {"input_p95_tokens": 2931.4, "output_p95_tokens": 791.2}
    assert first() == f"{asked}, 300 out"
    assert first(**spread, lengths_assumed=both) == f"{asked} (p95 2,931 as in published traces), 300 out (p95 791)"
    assert first(**spread) == f"{asked} (p95 2,931), 300 out (p95 791)"
    said = first(output_p95_tokens=791.2, lengths_assumed=["output"])
    assert said == f"{asked}, 300 out (p95 791 as in published traces)"
    stated = {"input_p90_tokens": 2000.0, "output_p90_tokens": 600.0, **spread}
    said = first(**stated, lengths_assumed=["output"])
    assert said == f"{asked} (mean; p90 2,000, p95 2,931), 300 out (p95 791 as in published traces)"
    assert first(num_classes=3, lengths_assumed=both).startswith("a-model at 4 requests/s in 3 classes, 1,000 tokens")


@pytest.mark.parametrize(
    ("assumed", "said"),
    [(["input", "output"], "lengths"), (["input"], "prompts"), (["output"], "answers"), ([], "")],
)
def test_only_lengths_of_which_nobody_said_how_they_spread_are_assumed(assumed: list[str], said: str) -> None:
    spread = [Input(name="spread of lengths", value="p95 528 out", origin="default")] if assumed else []
    lines = " ".join(assumed_line(plan(deployment(), lengths_assumed=assumed, inputs=spread)))
    option = "--out" if said == "answers" else "--in"
    assert (f"{said} spread: as published (or {option} fixed=N)" in lines) == bool(said)


def test_what_is_cheaper_if_true_says_how_many_of_its_machines_are_not_on_spot() -> None:
    beside = deployment(instance_count=5, price_kind="spot", steady_instance_count=3, usd_per_hour=30.0)
    assert "spot (3 of them on demand): $30.00/h" in words(plan(deployment(), undated_alternative=beside))


def test_an_end_that_nobody_knows_says_how_far_the_figure_goes_at_least() -> None:
    latency = {"ttft.p95": seconds(0.2, math.inf), "tpot.p95": seconds(0.02, 0.03)}
    said = words(plan(deployment(latency=latency, is_tight=True)), details=frozenset())
    assert "-over 2,000) ms" in said
    assert "unknown" not in said


def test_a_wrapping_cell_loses_no_word() -> None:
    reason = "the link between the graphics cards of this machine is described nowhere that we know of"
    columns = [Column("n", "n", align="right"), Column("why", "why", wraps=True), Column("what", "what")]
    table = Table(columns, [{"n": 3, "why": reason, "what": "2x Trainium1"}], chosen=0)
    lines = page_as_text(Page(tables=[table]), 50).splitlines()
    assert max(map(len, lines)) <= 50
    assert "2x Trainium1" in lines[2]
    assert " ".join(line[5 : 50 - len("2x Trainium1") - 2].strip() for line in lines[2:]) == reason
