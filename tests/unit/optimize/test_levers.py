"""What is said to move a bill does: each lever and each neighbour of an edge costs what its own plan costs."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from gpufleet.api import RequestKind, ServeRequest, plan_serve
from gpufleet.api.answers import ServeAnswer, asked_further
from gpufleet.domain.token_counts import TokenCounts
from gpufleet.questions.fields import DEFAULT_STEADY
from gpufleet.report.detail import SCREEN
from gpufleet.report.plan import plan_page
from gpufleet.report.text import page_as_text
from gpufleet.results.levers import Lever

FIRST_TOKENS = ServeRequest("llama-3.1-8b", 60.0, 1000, 200, "ttft.p95<120ms,tpot.p95<40ms", gpus=["H100", "L40S"])
SPARED = ServeRequest("llama-3.1-8b", 5.0, 1000, 200, gpus=["L40S"], spare_machines=3, pricing=["on_demand"])
OF_A_REGION = ServeRequest("llama-3.1-8b", 5.0, 1000, 200, gpus=["A100-SXM4-80GB"], regions=["us-east-1"])
SURE = ServeRequest("llama-3.1-8b", 60.0, 1000, 200, "ttft.p95<120ms,tpot.p95<40ms", gpus=["H100"], confidence=0.9)
ASKED = {"first tokens": FIRST_TOKENS, "spared": SPARED, "region": OF_A_REGION, "sure": SURE}
LONG = ServeRequest("llama-3.3-70b", 10.0, 4000, 800, "ttft.p95<0.5s,tpot.p95<0.05s")


@cache
def planned(name: str) -> ServeAnswer:
    return plan_serve(ASKED[name])


def with_limit(asked: ServeRequest, plan: ServeAnswer, label: str, limit_s: float) -> ServeRequest:
    limits = {**plan.objectives, label: limit_s}
    return replace(asked, slo=",".join(f"{name}<{s}s" for name, s in limits.items()))


def pulled(asked: ServeRequest, plan: ServeAnswer, lever: Lever) -> ServeRequest:
    """The question after the change that a lever names."""
    if lever.limit is not None and isinstance(lever.value, float):
        return with_limit(asked, plan, lever.limit, lever.value)
    changes: dict[str, dict[str, Any]] = {
        "precision": {"precision": ["fp8"]},
        "lengths": {"input_tokens": TokenCounts(plan.input_tokens), "output_tokens": TokenCounts(plan.output_tokens)},
        "price_kind": {"pricing": [lever.value]},
        "regions": {"regions": None},
        "engine": {"engine": "all"},
        "gpus": {"gpus": None},
        "headroom_ratio": {"headroom": lever.value},
    }
    return replace(asked, **changes.get(lever.code, {lever.code: lever.value}))


def assert_levers_are_true(asked: ServeRequest, plan: ServeAnswer) -> None:
    for lever in plan.levers:
        rented = plan_serve(pulled(asked, plan, lever)).answer
        assert lever.winner.usd_per_hour == pytest.approx(rented.usd_per_hour), lever.code
        assert (lever.winner.instance_count * rented.gpus_per_instance) == lever.winner.gpus
        assert lever.winner.doubt_ratio == pytest.approx(rented.doubt_ratio)
        assert lever.saved_ratio == pytest.approx(1 - rented.usd_per_hour / plan.answer.usd_per_hour)
    ratios = [lever.saved_ratio for lever in plan.levers]
    assert ratios == sorted(ratios, reverse=True)
    assert all(ratio > 0.25 for ratio in ratios)


def assert_edges_are_true(asked: ServeRequest, plan: ServeAnswer) -> None:
    for edge in plan.edges:
        for limit_s, winner in ((edge.tighter_s, edge.tighter), (edge.looser_s, edge.looser)):
            if limit_s is None:
                continue
            steady = DEFAULT_STEADY if asked.confidence is None else None
            as_sure = replace(asked, confidence=plan.confidence, steady=steady)
            there = plan_serve(with_limit(as_sure, plan, edge.limit, limit_s))
            assert (winner is None) == (not there.deployments)
            if winner is not None:
                assert winner.usd_per_hour == pytest.approx(there.answer.usd_per_hour)
                is_other = (winner.cloud, winner.instance) != (plan.answer.cloud, plan.answer.instance)
                assert is_other or abs(winner.usd_per_hour / plan.answer.usd_per_hour - 1) > 0.1


@pytest.mark.parametrize("name", ASKED)
def test_each_lever_costs_what_its_own_plan_does(name: str) -> None:
    assert planned(name).levers
    assert_levers_are_true(ASKED[name], planned(name))


@pytest.mark.parametrize(
    ("name", "typed"), [("spared", "--spare-machines 0"), ("region", "--regions all"), ("sure", "--confidence 80%")]
)
def test_what_somebody_asked_for_that_costs_much_is_a_lever(name: str, typed: str) -> None:
    assert typed in [lever.typed for lever in planned(name).levers]


def test_a_limit_at_an_edge_is_named_with_its_neighbours() -> None:
    plan = planned("first tokens")
    assert {edge.limit for edge in plan.edges} == {"ttft.p95"}
    assert_edges_are_true(FIRST_TOKENS, plan)
    words = " ".join(page_as_text(plan_page(plan), 200).split())
    assert "Edge: ttft.p95 < " in words


@pytest.mark.slow
def test_levers_and_edges_are_true_of_any_market() -> None:
    plan = plan_serve(LONG)
    assert {lever.code for lever in plan.levers} >= {"lengths", "limit", "price_kind", "precision"}
    assert_levers_are_true(LONG, plan)
    assert plan.edges
    assert_edges_are_true(LONG, plan)
    assert len(lines_of(plan)) <= 45


@pytest.mark.slow
def test_what_is_dear_to_find_is_asked_for_with_the_flips() -> None:
    asked = replace(OF_A_REGION, regions=None)
    plan = plan_serve(asked)
    more = asked_further(plan, flips=True)
    assert {lever.code for lever in more.levers} - {lever.code for lever in plan.levers} == {"gpus"}
    assert_levers_are_true(asked, more)


def lines_of(plan: ServeAnswer) -> list[str]:
    return page_as_text(plan_page(plan, details=SCREEN, width=80), 80).splitlines()


def test_a_screen_has_room_for_four_levers_a_line_each() -> None:
    lines = lines_of(planned("first tokens"))
    assert len(lines) <= 45
    assert all(len(line) <= 80 for line in lines)
    first = lines.index("What moves the bill") + 1
    levers = planned("first tokens").levers[:4]
    for line, lever in zip(lines[first:], levers, strict=False):
        assert line.startswith(f"  {lever.saved_ratio:.0%} less, ")


def test_spot_and_fp8_are_said_once() -> None:
    plan = planned("first tokens")
    [spot] = [lever for lever in plan.levers if lever.value == "spot"]
    assert plan.spot_alternative is not None
    assert spot.winner.usd_per_hour == pytest.approx(plan.spot_alternative.usd_per_hour)
    words = " ".join(lines_of(plan))
    assert "--pricing spot (can be reclaimed), " in words
    assert "On spot " not in words
    lower = plan_serve(replace(SPARED, spare_machines=None, rate=60.0))
    assert "precision" in [lever.code for lever in lower.levers]
    assert " ".join(lines_of(lower)).count("fp8") == 1


def test_of_classes_each_keeps_its_own_length() -> None:
    chat = RequestKind("chat", 20.0, 1000, 200, "ttft.p95<150ms")
    docs = RequestKind("docs", 2.0, 6000, 400, "ttft.p95<600ms")
    classes = [chat, docs]
    asked = ServeRequest("llama-3.1-8b", 1.0, 1, 1, classes=classes, gpus=["H100", "L40S"])
    [lever] = [lever for lever in plan_serve(asked).levers if lever.code == "lengths"]
    assert (lever.change, lever.typed) == ("one length in each class", "")
    alike = [
        replace(c, input_tokens=TokenCounts(float(c.input_tokens)), output_tokens=TokenCounts(float(c.output_tokens)))
        for c in classes
    ]
    assert plan_serve(replace(asked, classes=alike)).answer.usd_per_hour == pytest.approx(lever.winner.usd_per_hour)


def test_where_lengths_are_said_no_lever_doubts_them() -> None:
    alike = replace(FIRST_TOKENS, input_tokens=TokenCounts(1000.0), output_tokens=TokenCounts(200.0))
    assert "lengths" not in [lever.code for lever in plan_serve(alike).levers]


def test_an_estimated_price_is_marked_wherever_a_change_leads_to_it() -> None:
    plan = plan_serve(replace(LONG, clouds=["aws"], slo="ttft.p95<2s,tpot.p95<50ms"))
    spot = next(lever for lever in plan.levers if lever.code == "price_kind")
    assert spot.winner.price_basis == "estimated"
    assert f"~${spot.winner.usd_per_hour:,.2f}" in page_as_text(plan_page(plan), 200)
