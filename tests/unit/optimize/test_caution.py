"""A plan at a confidence keeps its limits where the plan that expects breaks them; a looser limit is priced truly."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpufleet.api import ServeRequest, plans
from gpufleet.api.answers import ServeAnswer
from gpufleet.catalog.load import load_catalog
from gpufleet.domain.token_counts import TokenCounts
from gpufleet.errors import UsageError
from gpufleet.report.numbers import significant, usd, usd_per_hour
from gpufleet.report.plan import own_columns, plan_page
from gpufleet.report.service_tables import ranking_table
from gpufleet.report.text import page_as_text

pytestmark = pytest.mark.usefixtures("planned_once")
CHAT = ServeRequest("llama-3.3-70b", 20.0, 1000, 300, "ttft.p95<800ms,tpot.p95<40ms,latency.p95<40s", rows=40)
ASKED = {
    "a chat": CHAT,
    "one small model": ServeRequest("llama-3.1-8b", 20.0, 1000, 200, "ttft.p95<500ms,tpot.p95<40ms", rows=40),
    "a mixture on spot": ServeRequest("qwen3-235b-a22b", 5.0, 2000, 800, "tpot.p99<80ms", pricing=["spot"], rows=40),
    "latent attention": ServeRequest("deepseek-v3", 2.0, 8000, 500, "ttft.p90<12s", engine="all", rows=40),
    "no limit": ServeRequest("qwen3-32b", 3.0, 4000, 500, rows=40),
}
SMALL = {
    "first tokens": ServeRequest(
        "llama-3.1-8b", 60.0, 1000, 200, "ttft.p95<120ms,tpot.p95<40ms", gpus=["H100", "L40S"]
    ),
    "steps": ServeRequest("llama-3.1-8b", 20.0, 1000, 200, "tpot.p95<22ms", gpus=["L40S"]),
    "no limit": ServeRequest("llama-3.1-8b", 90.0, 1000, 200, gpus=["L4", "L40S"], off_peak_rate=9.0, peak_hours=8.0),
}
every_question = pytest.mark.parametrize("asked", ASKED.values(), ids=ASKED)


def sure(asked: ServeRequest, confidence: float | None) -> ServeAnswer:
    """The plan at a confidence."""
    return plans.plan_serve(replace(asked, confidence=confidence))


@pytest.mark.slow
@every_question
def test_every_row_keeps_its_limits_at_the_high_end(asked: ServeRequest) -> None:
    plan = sure(asked, 0.9)
    assert plan.deployments
    for d in plan.deployments:
        assert not d.is_tight
        assert all((d.latency[name].high or 0.0) <= limit_s for name, limit_s in plan.objectives.items())
        assert d.headroom_ratio >= 0.2 - 1e-9


@pytest.mark.slow
@every_question
def test_more_confidence_never_costs_less(asked: ServeRequest) -> None:
    costs = [sure(asked, c).answer.usd_per_hour for c in (0.5, 0.7, 0.9, 0.95)]
    assert costs == sorted(costs)


@pytest.mark.slow
@every_question
def test_four_of_five_is_what_is_planned_for_where_nothing_is_said(asked: ServeRequest) -> None:
    said, plain = sure(asked, 0.8), plans.plan_serve(replace(asked, steady=0.0))
    assert said.deployments == plain.deployments
    assert plain.confidence == 0.8
    assert plain.missed_confidence is None


@pytest.mark.parametrize("asked", SMALL.values(), ids=SMALL)
def test_the_price_of_certainty_is_what_a_plan_at_that_confidence_costs(asked: ServeRequest) -> None:
    plan = plans.plan_serve(asked)
    assert [x.confidence for x in plan.certainty] == [0.5, 0.7, 0.8, 0.9]
    for x in plan.certainty:
        typed = sure(asked, x.confidence)
        assert typed.certainty == []
        if x.winner is None:
            assert not typed.deployments
            continue
        told, rented = x.winner, typed.answer
        assert told.usd_per_hour == pytest.approx(rented.usd_per_hour)
        assert (told.instance, told.instance_count, told.gpu) == (rented.instance, rented.instance_count, rented.gpu)


@pytest.mark.slow
@every_question
def test_the_price_of_certainty_is_true_of_any_market(asked: ServeRequest) -> None:
    test_the_price_of_certainty_is_what_a_plan_at_that_confidence_costs(asked)


def test_copies_that_only_move_a_percentile_are_those_beyond_what_holds_as_expected_on_the_same_machines() -> None:
    asked = ServeRequest("llama-3.1-8b", 60.0, 1000, 200, "ttft.p95<80ms,tpot.p95<40ms", gpus=["H100"])
    plan = plans.plan_serve(asked)
    found, answer = plan.for_certainty, plan.answer
    assert found is not None
    few = next(d for d in sure(asked, 0.5).deployments if (d.instance, d.layout) == (answer.instance, answer.layout))
    assert (found.expected_replicas, found.replicas) == (few.replicas, answer.replicas)
    assert found.replicas > 1.5 * found.expected_replicas
    assert (found.expected_s, found.all_s) == pytest.approx(
        [d.latency[found.limit].value for d in (few, answer)], rel=1e-9
    )
    assert found.limit == answer.binding
    more = found.replicas - found.expected_replicas
    assert f"{more} only move {found.limit} from" in page_as_text(plan_page(plan), 200)
    roomy = replace(asked, slo="ttft.p95<2s,tpot.p95<40ms")
    assert plans.plan_serve(roomy).for_certainty is None


def test_where_no_plan_keeps_the_promise_the_expected_one_says_so() -> None:
    asked = replace(CHAT, slo="tpot.p95<9.6ms", gpus=["H200"])
    plan = plans.plan_serve(asked)
    assert plan.deployments == sure(asked, 0.5).deployments
    assert (plan.confidence, plan.missed_confidence) == (0.5, 0.8)
    assert plan.is_feasible
    assert "No plan of sensible size holds at 80% confidence: this one holds as expected." in " ".join(
        plan_page(plan).headline.split()
    )
    asked_for = sure(asked, 0.8)
    assert not asked_for.deployments
    assert asked_for.missed_confidence is None


def test_the_rate_is_kept_at_the_confidence_and_the_headroom_as_expected() -> None:
    plan = sure(CHAT, 0.9)
    for d in plan.deployments:
        assert d.requests_per_s_capacity.low >= 20.0 * (1 - 1e-6)
        assert d.requests_per_s_capacity.value >= 20.0 * 1.2 * (1 - 1e-6)


def test_what_is_carried_surely_is_the_rate_or_more_and_less_than_expected() -> None:
    plan, expected = sure(CHAT, 0.9), sure(CHAT, 0.5)
    for d in plan.deployments:
        assert d.sure_requests_per_s is not None
        assert 20.0 * (1 - 1e-6) <= d.sure_requests_per_s < d.requests_per_s_capacity.value
        assert d.spare_ratio == pytest.approx(d.sure_requests_per_s / 20.0 - 1)
    for d in expected.deployments:
        assert d.sure_requests_per_s == pytest.approx(d.requests_per_s_capacity.value)
        assert d.spare_ratio == pytest.approx(d.headroom_ratio)
    carried = f"Carries {significant(plan.answer.sure_requests_per_s)} requests/s at 90% confidence"
    assert carried in " ".join(page_as_text(plan_page(plan), 200).split())


@pytest.mark.slow
@pytest.mark.parametrize("asked", [q for q in ASKED.values() if q.slo])
@pytest.mark.parametrize("rate_ratio", [1.0, 0.5])
def test_limits_hold_at_the_slow_end_up_to_the_low_end_of_what_is_carried(
    asked: ServeRequest, rate_ratio: float
) -> None:
    plan = plans.plan_serve(replace(asked, rate=asked.rate * rate_ratio, headroom=0.0, confidence=0.5))
    assert plan.deployments
    for d in plan.deployments:
        low_ratio = (d.requests_per_s_capacity.low or 0.0) / plan.rate_requests_per_s
        assert low_ratio <= 1.02 if d.is_tight else low_ratio >= 0.9


def test_one_machine_is_not_called_enough_where_an_objective_breaks_at_its_high_end() -> None:
    asked = ServeRequest("qwen3-32b", 6.0, 1500, 350, "ttft.p95<260ms,tpot.p95<35ms", clouds=["aws"], rows=1)
    plan = plans.plan_serve(asked)
    d = plan.answer
    assert (d.instance_count, d.is_tight, d.binding_limit) == (1, True, "ttft.p95")
    words = " ".join(page_as_text(plan_page(plan), 200).split())
    assert (
        "ttft.p95 sets the number: it is the first limit to break, and it breaks at the high end of its range" in words
    )
    assert "no limit is near" not in words


@pytest.mark.slow
def test_what_is_needed_grows_with_the_confidence() -> None:
    impossible = replace(CHAT, slo="ttft.p95<1ms")
    needed = [sure(impossible, c).relaxations[0].needed for c in (0.5, 0.9)]
    assert [int(n.removesuffix(" ms")) for n in needed] == sorted(int(n.removesuffix(" ms")) for n in needed)
    assert needed[0] != needed[1]


@pytest.mark.parametrize("confidence", [0.0, 0.49, 0.995, 1.0, float("nan")])
def test_a_confidence_below_the_expected_value_is_refused(confidence: float) -> None:
    with pytest.raises(UsageError, match="confidence is out of range"):
        sure(CHAT, confidence)


def test_the_page_says_how_sure_the_plan_is_and_how_to_be_surer() -> None:
    asked = ASKED["one small model"]
    words = {c: " ".join(page_as_text(plan_page(sure(asked, c)), 200).split()) for c in (0.5, 0.9)}
    plan = plans.plan_serve(SMALL["first tokens"])
    cheap = next(x.winner.usd_per_hour for x in plan.certainty if x.winner)
    rare = ServeRequest("llama-3.1-8b", 1.0, 1000, 200, gpus=["H100"])
    said, free = (" ".join(page_as_text(plan_page(p), 200).split()) for p in (plan, plans.plan_serve(rare)))
    assert "Holds at 90% confidence." in words[0.9]
    assert "Tight" not in words[0.9]
    assert "Holds as expected, breaks at 90%." in words[0.5]
    assert "tight" not in words[0.5].lower()
    assert {row["verdict"] for row in ranking_table(sure(asked, 0.5), own_columns(sure(asked, 0.5))).rows} == {
        "holds", "expected",
    }  # fmt: skip
    assert "confidence 0.9 plans for it" in words[0.5]
    assert "Certainty" not in words[0.9] + words[0.5]
    assert f"Certainty (--confidence), an hour: as expected {usd(cheap)}, " in said
    assert "; to know, run 'vllm bench serve' on " in said
    assert "Certainty costs nothing: " in free


LONG = ServeRequest("llama-3.3-70b", 12.0, TokenCounts(16384.0), TokenCounts(300.0), "ttft.p95<1.5s")


@pytest.mark.slow
@pytest.mark.parametrize("asked", [LONG, replace(LONG, confidence=0.9), replace(LONG, clouds=["aws"]), CHAT])
def test_a_looser_limit_costs_what_is_said(asked: ServeRequest) -> None:
    plan = plans.plan_serve(asked)
    for x in plan.looser_limits:
        limits = {**plan.objectives, x.limit: x.looser_s}
        again = plans.plan_serve(replace(asked, slo=",".join(f"{name}<{s}s" for name, s in limits.items())))
        assert again.answer.usd_per_hour == pytest.approx(x.usd_per_hour)
        assert again.answer.usd_per_hour < 0.75 * plan.answer.usd_per_hour
        assert x.lone_s < x.limit_s < x.looser_s <= 2.1 * x.limit_s


def test_a_tight_limit_on_long_prompts_says_what_it_costs() -> None:
    plan = plans.plan_serve(LONG)
    [costly] = plan.looser_limits
    [lever] = [lever for lever in plan.levers if lever.limit == costly.limit]
    assert (lever.value, lever.saved_ratio) == (costly.looser_s, costly.saved_ratio)
    words = " ".join(page_as_text(plan_page(plan), 200).split())
    assert f"{costly.saved_ratio:.0%} less, {usd_per_hour(costly.usd_per_hour)}" in words
    assert "with ttft.p95 up to" in words


def test_latency_decides_only_where_a_limit_was_asked_for() -> None:
    rare = ServeRequest("llama-3.1-8b", 0.01, 100, 20, min_replicas=3)
    assert plans.plan_serve(rare).answer.load_ratio < 0.2
    assert "Latency decides" not in page_as_text(plan_page(plans.plan_serve(rare)), 200)


def test_the_source_of_the_price_under_a_looser_limit_is_named() -> None:
    plan = plans.plan_serve(replace(LONG, rows=1))
    [costly] = plan.looser_limits
    [offer] = [
        o for o in load_catalog().offers
        if (o.cloud, o.region, o.instance, o.price_kind.value)
        == (costly.cloud, costly.region, costly.instance, costly.price_kind)
    ]  # fmt: skip
    assert offer.source in {source.id for source in plan.price_sources}
