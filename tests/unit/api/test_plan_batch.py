"""The batch question as users ask it, and the laws of its answers."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache, lru_cache, partial

import pytest

from gpufleet.api import BatchRequest, plan_batch
from gpufleet.catalog.load import Catalog, load_catalog
from gpufleet.domain.offer import PriceKind
from gpufleet.errors import UsageError
from gpufleet.inputs.token_counts import parse_token_counts
from gpufleet.results.job import BatchPlan
from gpufleet.units import HOUR

JOB = BatchRequest("llama-3.1-8b", 1e6, 1000, 200, deadline_s=24 * HOUR)


@lru_cache(maxsize=1)
def market() -> Catalog:
    """L40S, A100 and H100 machines of one cloud."""
    catalog = load_catalog()
    kept = {key: i for key, i in catalog.instances.items() if key[0] == "aws" and key[1][:3] in ("g6e", "p5.", "p4d")}
    return replace(catalog, instances=kept, offers=tuple(o for o in catalog.offers if (o.cloud, o.instance) in kept))


ANSWERED: dict[str, BatchPlan] = {}


def ask(**changes: object) -> BatchPlan:
    """The plan of a job, made once however many tests ask for it."""
    asked = replace(JOB, **changes)  # type: ignore[arg-type]
    if (key := repr(asked)) not in ANSWERED:
        ANSWERED[key] = plan_batch(asked, market())
    return ANSWERED[key]


def once(**changes: object) -> Callable[[], BatchPlan]:
    """A question that is answered when it is first asked."""
    return cache(partial(ask, **changes))


@pytest.fixture
def plan(request: pytest.FixtureRequest) -> BatchPlan:
    """The plan of a parameter, made where its first test runs: every worker reads this file, one runs it."""
    made: BatchPlan = request.param()
    return made


PLANS = {
    "a day": once(rows=100),
    "two hours": once(deadline_s=2 * HOUR, rows=100),
    "answers that differ": once(output_tokens=parse_token_counts("p50=100,p95=800"), rows=100),
    "few requests": once(requests=7, rows=100),
    "a large model": once(model="llama-3.3-70b", requests=20_000, pricing=["on_demand"], rows=100),
}
every_plan = pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS, indirect=True)


@pytest.mark.slow
@every_plan
def test_every_row_is_done_in_time(plan: BatchPlan) -> None:
    assert plan.deployments
    for d in plan.deployments:
        assert d.finish_s.value <= plan.deadline_s
        assert d.is_tight == (d.finish_s.high > plan.deadline_s)
        assert d.replicas * d.requests_per_replica >= plan.requests
        assert d.batch <= d.largest_batch


@pytest.mark.slow
@every_plan
def test_one_cost_in_all_units(plan: BatchPlan) -> None:
    for d in plan.deployments:
        tokens = plan.requests * (plan.input_tokens + plan.output_tokens)
        paid = d.instance_count * d.price_per_instance_usd_per_hour * d.paid_s.value / HOUR
        assert d.usd.value == pytest.approx(paid) or (d.played is not None and d.usd.value >= paid)
        assert d.usd.value == pytest.approx(d.usd_per_million_tokens.value * tokens / 1e6)
        assert d.usd.value == pytest.approx(d.usd_per_thousand_requests.value * plan.requests / 1e3)
        assert d.usd.low <= d.usd.value <= d.usd.high
        assert d.paid_s.value <= d.finish_s.value


@pytest.mark.slow
@every_plan
def test_gpus_that_are_paid_for_run_replicas_or_idle(plan: BatchPlan) -> None:
    for d in plan.deployments:
        assert d.replicas * d.gpus_per_replica + d.idle_gpus == d.instance_count * d.gpus_per_instance
        assert 0 <= d.idle_gpus < d.instance_count * d.gpus_per_replica


@pytest.mark.slow
def test_what_is_planned_at_the_high_end_is_in_time_there() -> None:
    asked = {"requests": 1e8, "headroom": 0.0, "rows": 100}
    expected, sure = ask(**asked), ask(**asked, confidence=0.9)
    assert any(d.is_tight for d in expected.deployments)
    assert sure.deployments
    assert not any(d.is_tight for d in sure.deployments)


def test_more_confidence_never_costs_less() -> None:
    costs = [
        ask(requests=1e8, confidence=c, pricing=["on_demand"]).answer.usd.value
        for c in (0.5, 0.6, None, 0.8, 0.9, 0.99)
    ]
    assert costs[2] == costs[3] < costs[-1]
    assert costs == sorted(costs)


@pytest.mark.parametrize("confidence", [0.0, 0.49, 0.995, float("nan")])
def test_a_confidence_below_the_expected_value_is_refused(confidence: float) -> None:
    with pytest.raises(UsageError, match="confidence is out of range"):
        ask(confidence=confidence)


def test_a_late_job_says_at_which_confidence_it_is_late() -> None:
    plan = ask(requests=1e8, confidence=0.9, most_machines=2)
    assert any("with the headroom or at 90% confidence" in r.best for r in plan.rejections if r.best)


@pytest.mark.slow
@every_plan
def test_rows_come_cheapest_first_and_once(plan: BatchPlan) -> None:
    costs = [d.usd.value * d.price_age_ratio for d in plan.deployments]
    kinds = [(d.cloud, d.instance, d.price_kind) for d in plan.deployments]
    assert costs == sorted(costs)
    assert len(kinds) == len(set(kinds))


def cost(**changes: object) -> float:
    plan = ask(**changes)
    return plan.answer.usd.value if plan.is_feasible else float("inf")


@pytest.mark.slow
def test_a_longer_deadline_never_costs_more() -> None:
    costs = [cost(deadline_s=h * HOUR) for h in (0.2, 0.5, 1, 1.5, 3, 8, 24, 100)]
    assert costs == sorted(costs, reverse=True)


def test_more_machines_on_spot_than_the_deadline_needs_leave_time_to_wait_for_it() -> None:
    plan = ask(deadline_s=24 * HOUR)
    assert plan.answer.played is not None
    assert plan.answer.binding == "wait_for_spot"
    steady = ask(deadline_s=24 * HOUR, pricing=["on_demand"], gpus=[plan.answer.gpu]).answer
    assert plan.answer.instance_count > steady.instance_count
    assert plan.answer.played.on_demand_ratio < 0.1


def test_more_headroom_never_costs_less() -> None:
    costs = [cost(deadline_s=1.5 * HOUR, headroom=h, pricing=["on_demand"]) for h in (0, 0.1, 0.2, 0.5, 1, 2)]
    assert costs == sorted(costs)


@pytest.mark.slow
def test_more_requests_never_cost_less() -> None:
    costs = [cost(requests=n) for n in (1, 1e3, 1e5, 1e6, 3e7)]
    assert costs == sorted(costs)


@pytest.mark.slow
def test_a_cache_never_costs_more() -> None:
    costs = [cost(prefix_cache=share) for share in (0.0, 0.5, 0.9)]
    assert costs == sorted(costs, reverse=True)


def test_a_larger_choice_never_costs_more() -> None:
    assert cost(pricing=["on_demand", "spot"]) <= cost(pricing=["on_demand"])
    assert cost() <= cost(gpus=["L40S"])


def test_interruptions_cost_time_and_money_on_spot_alone() -> None:
    for d in ask(rows=100).deployments:
        assert (d.interruptions > 0) == (d.price_kind == "spot") == (d.repeated_ratio > 0)


def test_spot_without_a_known_rate_is_taken_away_more_often_than_with_one() -> None:
    offers = tuple(replace(o, interruption=None) for o in market().offers if o.price_kind is PriceKind.SPOT)
    known = {d.instance: d for d in ask(pricing=["spot"], rows=100).deployments}
    blind = plan_batch(replace(JOB, pricing=["spot"], rows=100), replace(market(), offers=offers)).deployments
    both = [d for d in blind if d.instance in known]
    assert both
    assert all(d.interruptions > known[d.instance].interruptions for d in both)


@pytest.mark.slow
@pytest.mark.parametrize("most", [1, 2, 5])
def test_no_more_machines_are_planned_than_a_quota_holds(most: int) -> None:
    held = replace(market(), offers=tuple(replace(o, max_instances=most) for o in market().offers))
    plan = plan_batch(replace(JOB, requests=3e6, deadline_s=12 * HOUR, rows=100), held)
    assert all(d.instance_count <= most for d in plan.deployments)
    free = ask(requests=3e6, deadline_s=12 * HOUR)
    assert (plan.answer.usd.value if plan.is_feasible else float("inf")) >= free.answer.usd.value


def test_what_a_quota_shuts_out_is_said() -> None:
    none = replace(market(), offers=tuple(replace(o, max_instances=0) for o in market().offers))
    plan = plan_batch(JOB, none)
    assert not plan.is_feasible
    [quota] = [r for r in plan.rejections if "quota" in r.reason]
    assert "none available; " in quota.best
    assert quota.best.endswith("would be enough")


def test_a_cap_that_is_the_reason_is_said_with_the_number_that_would_do() -> None:
    """The number is the fewest: with it the job is done in time, with one less it is not."""
    capped = ask(gpus=("L40S",), most_machines=1, requests=2e6, deadline_s=3600)
    [late] = [r for r in capped.rejections if "cap" in r.reason]
    assert late.reason == "not done by the deadline with the cap of 1 machine"
    told = re.fullmatch(r"aws (\S+), .*: [\d.]+ h with the headroom; ([\d,]+) machines would be enough", late.best)
    assert told is not None
    machine, enough = told[1], int(told[2].replace(",", ""))
    with_enough = ask(gpus=("L40S",), most_machines=enough, requests=2e6, deadline_s=3600)
    with_less = ask(gpus=("L40S",), most_machines=enough - 1, requests=2e6, deadline_s=3600)
    assert machine in {d.instance for d in with_enough.deployments}
    assert machine not in {d.instance for d in with_less.deployments}


def test_no_number_of_machines_is_said_where_none_does_it() -> None:
    """A minute of work is shorter than one batch, however many share the requests."""
    plan = ask(deadline_s=10 * 60 + 1, most_machines=1)
    assert not plan.is_feasible
    [late] = [r for r in plan.rejections if r.code == "late"]
    assert late.reason.endswith("a start and one request alone take longer")
    assert "min with the headroom" in late.best
    assert "would be enough" not in late.best
    assert "available" not in late.best


def test_a_budget_leaves_out_what_is_dearer() -> None:
    cheapest = cost()
    assert not ask(budget_usd=cheapest * 0.99).is_feasible
    assert ask(budget_usd=cheapest * 1.01).answer.usd.value == cheapest


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"requests": 0}, "number of requests"),
        ({"requests": float("nan")}, "number of requests"),
        ({"deadline_s": 600}, "leaves no time"),
        ({"deadline_s": float("inf")}, "deadline"),
        ({"startup_s": -1}, "time to start"),
        ({"most_machines": 0}, "machines"),
        ({"budget_usd": 0}, "budget"),
        ({"prefix_cache": 1.0}, "prefix-cache"),
        ({"headroom": -1}, "headroom"),
        ({"input_tokens": 0}, "token"),
    ],
)
def test_what_makes_no_sense_is_refused(changes: dict, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        ask(**changes)
    assert told in str(caught.value)


def test_spot_costs_what_drawn_markets_make_of_it() -> None:
    """The advisor counts machines taken away: starts that are refused, and on demand in between, cost more."""
    asked = {"requests": 1e5, "deadline_s": 8 * HOUR, "gpus": ["L40S"], "rows": 10}
    both = ask(**asked, pricing=["spot", "on_demand"])
    rows = [d for d in both.deployments if d.played is not None]
    counted = [d.usd.value * d.price_age_ratio for d in both.deployments]
    assert counted == sorted(counted)
    assert {d.price_kind for d in both.deployments if d.played is None} == {"on_demand"}
    assert rows
    for d in rows:
        assert d.usd.low <= d.played.usd_if_seldom_taken < d.usd.value < d.usd.high
        assert 0 < d.played.on_demand_ratio < 1
        assert d.played.late_ratio <= 1 - both.confidence


@pytest.mark.slow
def test_spot_that_plays_dearer_than_on_demand_is_not_before_it() -> None:
    plan = ask(requests=3e6, deadline_s=8 * HOUR, gpus=["L40S"], rows=100, headroom=0.0)
    first = next(d for d in plan.deployments if d.price_kind == "on_demand")
    dearer = [d for d in plan.deployments if d.played is not None and d.usd.value > first.usd.value]
    assert any(d.played.usd_if_seldom_taken < first.usd.value for d in dearer)
    assert plan.deployments.index(first) < min(map(plan.deployments.index, dearer))
