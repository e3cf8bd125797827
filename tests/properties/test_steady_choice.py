"""What holds more surely is worth up to so much more: checked pair by pair, by another way to its machines."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import pytest

from gpufleet.api import ServeRequest, plans
from gpufleet.api.serve_questions import architecture_of, serve_question
from gpufleet.catalog.calibration import calibration_of
from gpufleet.catalog.load import load_catalog
from gpufleet.domain.offer import Offer
from gpufleet.optimize.copies.decoder import WriterQuestion
from gpufleet.optimize.dated import undated_apart
from gpufleet.optimize.market import effective_price
from gpufleet.optimize.service import solve_serve
from gpufleet.report.numbers import usd_per_hour
from gpufleet.report.plan import plan_page
from gpufleet.report.text import page_as_text

pytestmark = pytest.mark.usefixtures("planned_once", "rows_alone")
CHAT_70B = ServeRequest("llama-3.3-70b", 20.43, 582, 309, "ttft.p95<2.9s,tpot.p95<23.4ms")
EXPERTS = ServeRequest("mixtral-8x7b", 47.8, 413, 577, "ttft.p95<742ms,tpot.p95<67ms")
MANY = ServeRequest("qwen2.5-7b", 69.6, 3888, 121, "ttft.p95<485ms,tpot.p95<66ms")
SURE_ALREADY = ServeRequest("llama-3.1-8b", 20.0, 1000, 200, "ttft.p95<1s")
OFFICE = replace(EXPERTS, off_peak_rate=5.0, peak_hours=9.0)
every_question = pytest.mark.parametrize(
    "asked", [CHAT_70B, EXPERTS, MANY, SURE_ALREADY, OFFICE], ids=["70b", "experts", "many", "sure already", "office"]
)
HALFWAY, STEADY = 0.9, 0.2


def machines_for(question: WriterQuestion, rate: float, of_replica: float, per_machine: int) -> float:
    """Whole machines with whole replicas, the headroom counted."""
    if of_replica <= 0:
        return math.inf
    replicas = max(math.ceil(rate * (1 + question.demand.headroom_ratio) / of_replica), 1)
    return math.ceil(replicas / per_machine)


def counted(asked: ServeRequest) -> Iterator[tuple[float, float, Offer]]:
    """Counted cost, bill and offer of every pair of candidate and offer; certainty solved for, not derived."""
    tables = load_catalog()
    question = undated_apart(serve_question(asked, architecture_of(asked), tables)[0])
    surely = replace(question, demand=replace(question.demand, confidence=HALFWAY))
    now, then = (solve_serve(q, calibration_of(tables)) for q in (question, surely))
    machine = {(i.cloud, i.name): i for i in question.instances}
    demand = question.demand
    for offer in question.offers:
        instance = machine[offer.cloud, offer.instance]
        for row in (int(r) for r in now.copies.on(instance)):
            each = int(instance.gpu_count // now.copies.num_devices[row])
            rate = demand.workload.rate_requests_per_s
            first, sure = (machines_for(question, rate, float(s.found.requests_per_s[row]), each) for s in (now, then))
            if not math.isfinite(first) or (offer.most_instances or math.inf) < first:
                continue
            mean = first
            if demand.quiet is not None:
                quiet_rate = demand.quiet.rate_requests_per_s
                quiet = machines_for(question, quiet_rate, float(now.found.requests_per_s[row]), each)
                mean = demand.busy_ratio * first + (1 - demand.busy_ratio) * quiet
            usd = mean * effective_price(offer)
            yield usd * offer.age_ratio * min((1 + sure / first) / 2, 1 + STEADY), usd, offer


@pytest.mark.slow
@every_question
def test_the_answer_is_the_pair_that_counts_least(asked: ServeRequest) -> None:
    answer = plans.plan_serve(asked).answer
    pairs = list(counted(asked))
    least = min(pairs, key=lambda row: row[0])
    assert answer.counted_usd_per_hour == pytest.approx(least[0])
    ties = [(o.cloud, o.instance) for cost, _, o in pairs if cost <= least[0] * (1 + 1e-9)]
    assert (answer.cloud, answer.instance) in ties


@every_question
@pytest.mark.parametrize("steady", [0.05, 0.2, 0.5])
def test_never_more_than_so_much_is_paid_for_it(asked: ServeRequest, steady: float) -> None:
    cheapest, chosen = (plans.plan_serve(replace(asked, steady=ratio)).answer for ratio in (0.0, steady))
    assert (cheapest.doubt_ratio, cheapest.doubt_ratio <= chosen.doubt_ratio <= 1 + steady) == (1.0, True)
    likely = [d.usd_per_hour * d.price_age_ratio for d in (cheapest, chosen)]
    assert likely[0] <= likely[1] * (1 + 1e-9)
    assert likely[1] <= likely[0] * (1 + steady) * (1 + 1e-9)


def test_of_rows_within_it_the_one_that_holds_replaces_the_one_that_breaks() -> None:
    cheapest, plan = plans.plan_serve(replace(CHAT_70B, steady=0.0)).answer, plans.plan_serve(CHAT_70B)
    doubts = {d.instance: d.doubt_ratio for d in plan.deployments}
    assert doubts[cheapest.instance] > 1.0 == plan.answer.doubt_ratio
    assert plan.answer.usd_per_hour > cheapest.usd_per_hour


@every_question
def test_a_confidence_that_is_asked_for_counts_alone(asked: ServeRequest) -> None:
    said = plans.plan_serve(replace(asked, confidence=0.8))
    assert {d.doubt_ratio for d in said.deployments} == {1.0}
    assert said.answer == plans.plan_serve(replace(asked, steady=0.0)).answer


def test_a_budget_is_kept_by_the_cheapest_where_the_surer_one_breaks_it() -> None:
    cheapest, chosen = (plans.plan_serve(replace(CHAT_70B, steady=ratio)).answer for ratio in (0.0, None))
    within = (cheapest.usd_per_hour + chosen.usd_per_hour) / 2
    assert cheapest.usd_per_hour < within < chosen.usd_per_hour
    kept = plans.plan_serve(replace(CHAT_70B, budget_usd_per_hour=within)).answer
    assert kept.usd_per_hour <= within


def test_the_page_names_the_cheaper_row_and_how_to_take_it() -> None:
    text = page_as_text(plan_page(plans.plan_serve(CHAT_70B)), 10_000)
    cheapest = plans.plan_serve(replace(CHAT_70B, steady=0.0))
    [line] = [line for line in text.splitlines() if "--steady 0" in line]
    assert usd_per_hour(cheapest.answer.usd_per_hour) in line
    assert "and certainty, one row" in text
    assert "--steady 0" not in page_as_text(plan_page(cheapest), 10_000)
