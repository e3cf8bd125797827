"""What a plan answers when it is asked further."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from itertools import pairwise

import numpy as np
import pytest

from gpufleet.api import ServeRequest, compare, compare_plans, plan_serve
from gpufleet.api.answers import ServeAnswer, asked_further
from gpufleet.api.inquiries import parse_token_price
from gpufleet.catalog.load import load_catalog
from gpufleet.errors import Infeasible, UnknownName, UsageError
from gpufleet.pricing.token_price import TokenPrice
from gpufleet.results.comparison import Comparison
from gpufleet.results.plan import Deployment

GPUS = ["L40S", "H100", "L4", "A10G", "B200"]
CHAT = ServeRequest("llama-3.1-8b", 5.0, 1000, 200, "tpot.p95<60ms,ttft.p95<2s", gpus=GPUS)
BUSY = replace(CHAT, model="llama-3.3-70b", rate=20.0)


@lru_cache(maxsize=8)
def asked(request_key: str) -> ServeAnswer:
    return plan_serve({"chat": CHAT, "busy": BUSY}[request_key])


def test_the_answer_itself_is_not_asked_why_not() -> None:
    plan = asked("chat")
    found = plan.why_not(f"{plan.answer.gpu}:{plan.answer.gpus_per_replica}")
    assert found.is_answer
    assert found.cheapest is not None
    assert found.cheapest.usd_per_hour == plan.answer.usd_per_hour


def test_what_would_serve_says_at_which_price_it_wins() -> None:
    """At that price the same machines are the answer, a cent above they are not."""
    plan = asked("chat")
    found = plan.why_not("B200:1")
    assert found.cheapest is not None
    assert found.wins_below_usd_per_hour is not None
    for cents, wins in ((-0.01, True), (0.01, False)):
        key = (found.cheapest.cloud, found.cheapest.instance)
        usd = found.wins_below_usd_per_hour + cents
        catalog = load_catalog()
        offers = tuple(
            replace(o, price_per_instance_usd_per_hour=usd) if (o.cloud, o.instance) == key else o
            for o in catalog.offers
            if o.price_kind.value == "on_demand"
        )
        answer = plan_serve(CHAT, replace(catalog, offers=offers)).answer
        assert ((answer.cloud, answer.instance) == key) is wins


def test_gpus_that_the_question_left_out_are_judged_all_the_same() -> None:
    found = asked("chat").why_not("A100-SXM-80GB:1")
    assert found.not_asked == "--gpus"
    assert found.cheapest is not None


def test_a_bare_name_is_replicas_of_any_size_and_a_machine_is_itself() -> None:
    plan = asked("chat")
    assert plan.why_not("L40S").gpus_per_replica is None
    machine = plan.why_not("aws:p5.48xlarge")
    assert (plan.why_not("p5.48xlarge:2").gpu, plan.why_not("p5.48xlarge:2").gpus_per_replica) == (machine.gpu, 2)
    assert machine.cheapest is not None
    assert (machine.cheapest.cloud, machine.cheapest.instance) == ("aws", "p5.48xlarge")


def test_more_gpus_than_any_machine_has_are_refused_with_the_largest() -> None:
    found = asked("chat").why_not("L40S:64")
    assert found.cheapest is None
    assert found.largest_machine_gpus == 8


def test_a_misspelt_gpu_is_offered_the_nearest() -> None:
    with pytest.raises(UnknownName, match="L40S"):
        asked("chat").why_not("L40Z:4")


def test_of_a_plan_without_an_answer_only_why_not_can_be_asked() -> None:
    plan = plan_serve(replace(CHAT, slo="tpot.p95<0.5ms"))
    found = plan.why_not("H100:1")
    assert found.answer is None
    assert {r.reason for r in found.refused} == {"tpot.p95 above 0.5 ms at any load"}
    with pytest.raises(Infeasible):
        plan.what_flips()


def test_nothing_on_the_front_is_beaten_and_no_row_beats_the_front() -> None:
    plan = asked("busy")
    front = plan.pareto("latency.p95")
    places = [(d.usd_per_hour, d.latency[front.figure].value) for d in front.points]
    assert places == sorted(places)
    assert [s for _, s in places] == sorted((s for _, s in places), reverse=True)
    assert len({usd for usd, _ in places}) == len(places)
    for row in plan.deployments:
        assert any(usd <= row.usd_per_hour and s <= row.latency[front.figure].value for usd, s in places)
    assert places[0][0] == plan.answer.usd_per_hour


def test_every_point_of_the_front_keeps_the_objectives() -> None:
    plan = asked("busy")
    points = plan.pareto("ttft.p95").points
    assert len(points) > 1
    for d in points:
        assert all(d.latency[label].value <= limit_s for label, limit_s in plan.objectives.items())


def test_a_latency_figure_that_nobody_computed_is_unknown() -> None:
    with pytest.raises(UnknownName, match=r"latency\.p95"):
        asked("busy").pareto("latency.p96")


def test_at_the_break_even_rate_machines_and_api_cost_the_same() -> None:
    plan, price = asked("busy"), TokenPrice(0.6, 1.2)
    found = plan.against_tokens(price)
    first = found.first_requests_per_s
    assert first is not None
    assert counted_usd(first) == pytest.approx(price.usd_per_hour(first, 1000, 200))
    below = 0.97 * first
    assert counted_usd(below) > price.usd_per_hour(below, 1000, 200)


def counted_usd(rate: float) -> float:
    """What machines count at a rate, at the age of their price."""
    answer = plan_serve(replace(BUSY, rate=rate)).answer
    return answer.counted_usd_per_hour


@pytest.mark.slow
def test_from_the_settled_rate_on_machines_never_cost_more() -> None:
    plan, price = asked("busy"), TokenPrice(0.6, 1.2)
    settled = plan.against_tokens(price).settled_requests_per_s
    assert settled is not None
    for ratio in np.geomspace(1.0001, 30, 12):
        rate = float(settled * ratio)
        assert plan_serve(replace(BUSY, rate=rate)).answer.usd_per_hour <= price.usd_per_hour(rate, 1000, 200)


def test_an_api_that_is_nearly_free_is_never_beaten() -> None:
    assert asked("busy").against_tokens("0.0001/0.0001").first_requests_per_s is None


@pytest.mark.parametrize("text", ["", "x", "1/2/3", "-1/2", "0/0", "nan", "inf/1", "1,5"])
def test_a_token_price_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="token price"):
        parse_token_price(text)


def test_electricity_is_at_most_board_power_and_never_nothing() -> None:
    for d in asked("busy").deployments:
        energy = d.energy
        assert energy is not None
        kwh = energy.kwh_per_hour
        assert kwh.low is not None
        assert kwh.high == pytest.approx(energy.board_power_watts * energy.num_gpus / 1000)
        assert 0 < kwh.low <= kwh.value <= kwh.high
        tokens_per_hour = 20.0 * 200 * 3600
        assert energy.kwh_per_million_output_tokens.value == pytest.approx(kwh.value / tokens_per_hour * 1e6)


def test_emissions_follow_the_grid_that_was_given_and_are_unknown_without() -> None:
    plan = asked("busy")
    assert plan.answer.energy is not None
    assert plan.answer.energy.kg_co2_per_hour is None
    energy = asked_further(plan, grid_g_co2_per_kwh=400.0).answer.energy
    assert energy is not None
    assert energy.kg_co2_per_hour is not None
    assert energy.kg_co2_per_hour.value == pytest.approx(0.4 * energy.kwh_per_hour.value)


def test_slack_is_what_is_left_of_every_limit() -> None:
    plan = asked("busy")
    for d in plan.deployments:
        assert set(d.slack_ratio) == {*plan.objectives, "load", "KV room"}
        assert all(0 <= slack < 1 for slack in d.slack_ratio.values())
        for label, limit_s in plan.objectives.items():
            assert d.slack_ratio[label] == pytest.approx(1 - d.latency[label].value / limit_s)


def test_an_answer_explains_itself_in_words_and_in_a_notebook() -> None:
    plan = asked("chat")
    assert plan.answer.instance.removeprefix("Standard_") in plan.why()
    page = plan._repr_html_()
    assert page.startswith('<div class="gpufleet">')
    assert "<script" not in page


def both(comparison: Comparison) -> tuple[Deployment, Deployment]:
    assert comparison.first.deployment is not None
    assert comparison.second.deployment is not None
    return comparison.first.deployment, comparison.second.deployment


def test_who_is_cheaper_at_a_rate_is_who_planning_finds_cheaper() -> None:
    found = compare(BUSY, "H100", "H200")
    assert {stretch.cheaper for stretch in found.ranges} >= {"H100", "H200"}
    for stretch in (*found.ranges[:3], *found.ranges[-3:]):
        rate = (stretch.from_requests_per_s * stretch.to_requests_per_s) ** 0.5
        one, other = both(compare(replace(BUSY, rate=rate), "H100", "H200"))
        cheaper = (
            None
            if one.usd_per_hour == other.usd_per_hour
            else "H100"
            if one.usd_per_hour < other.usd_per_hour
            else "H200"
        )
        assert cheaper == stretch.cheaper, rate


def test_ranges_join_without_gap_and_change_hands_at_every_border() -> None:
    ranges = compare(BUSY, "H100", "H200").ranges
    assert len(ranges) > 1
    for before, after in pairwise(ranges):
        assert before.to_requests_per_s == after.from_requests_per_s
        assert before.cheaper != after.cheaper


def test_a_side_that_cannot_serve_says_why() -> None:
    found = compare(replace(BUSY, slo="ttft.p95<300ms"), "L4:1", "H100:4")
    assert not found.is_feasible
    assert {r.reason for r in found.first.refused} == {"does not fit in memory"}


def test_two_plan_files_stand_beside_each_other(tmp_path) -> None:
    names = []
    for name, request in (("a", BUSY), ("b", replace(BUSY, gpus=["H100"]))):
        file = tmp_path / f"{name}.json"
        file.write_text(plan_serve(request).to_json(), encoding="utf-8")
        names.append(file)
    found = compare_plans(*names)
    assert [c.name for c in found.changed_inputs] == ["GPUs"]
    assert found.ranges
    same = compare_plans(names[0], names[0])
    assert (same.changed_inputs, [r.cheaper for r in same.ranges]) == ([], [None])


def test_what_would_serve_under_looser_limits_is_of_a_sensible_size() -> None:
    """Half as much again as one request takes leaves L4 so little room that 349 machines of 8 would be needed."""
    request = ServeRequest("llama-3.1-8b", 75.28, 300.0, 100.0, "latency.p95<1.1s,tpot.p95<4.49ms", gpus=["H100"])
    then = plan_serve(request).why_not("L4")
    free = plan_serve(replace(request, gpus=["L4"], clouds=[then.serves_then.cloud], slo=None, rows=100)).deployments
    for_load = next(d.instance_count for d in free if d.instance == then.serves_then.instance)
    assert then.serves_then.instance_count <= 10 * for_load
    slo = ",".join(f"{label}<{seconds * 1.001:.5f}s" for label, seconds in then.needed_limits_s.items())
    assert plan_serve(replace(request, gpus=["L4"], slo=slo)).is_feasible
