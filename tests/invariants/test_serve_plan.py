"""Invariants of every serving plan over the shipped prices, whatever is asked.

I1  replicas x GPUs per replica + idle GPUs = GPUs that are paid for
I2  every objective of every row is kept at the asked rate
I3  $/h = machines x price; month, token and request follow from it
I4  rows come cheapest first; each instance type and price kind once
I5  low <= value <= high
I6  rows need no more GPUs per replica than a machine has, and decode no more sequences than there is room for
I7  a plan without rows says why, and what would have to give way or what does not fit
"""

from __future__ import annotations

from functools import cache, partial

import pytest

from gpufleet.api import ServeRequest, plan_serve
from gpufleet.results.plan import ServePlan

REQUESTS = {
    "a chat of a 70B": ServeRequest(
        "llama-3.3-70b", 50.0, 1000, 300, "ttft.p95<500ms,tpot.p95<40ms,latency.p95<12s", rows=100
    ),
    "no objective at all": ServeRequest("qwen3-32b", 3.0, 4000, 500, rows=100),
    "a mixture of experts on spot": ServeRequest(
        "qwen3-235b-a22b", 5.0, 2000, 800, "tpot.p99<80ms", pricing=["spot", "on_demand"], rows=100
    ),
    "latent attention, all engines": ServeRequest("deepseek-v3", 2.0, 8000, 500, "ttft.p90<8s", engine="all", rows=100),
    "lower precision": ServeRequest(
        "llama-3.1-70b", 20.0, 500, 100, "latency.mean<6s", allow_lower_precision=True, min_replicas=3, rows=100
    ),
    "many small requests": ServeRequest("llama-3.1-8b", 900.0, 60, 5, "ttft.p95<300ms", headroom=0.5, rows=100),
    "one rare request": ServeRequest("gemma-3-12b-text", 0.001, 100, 100, "tpot.p50<100ms", headroom=0.0, rows=100),
    "the impossible": ServeRequest("llama-3.3-70b", 1.0, 1000, 300, "tpot.p95<1ms,ttft.p95<1ms", rows=100),
    "a model too large": ServeRequest("llama-3.1-405b", 1.0, 1000, 300, gpus=["L4"], rows=100),
}
PLANS = {name: cache(partial(plan_serve, request)) for name, request in REQUESTS.items()}
every_plan = pytest.mark.parametrize(
    ("request_", "plan"), [(REQUESTS[n], PLANS[n]) for n in REQUESTS], ids=REQUESTS, indirect=["plan"]
)


@pytest.fixture
def plan(request: pytest.FixtureRequest) -> ServePlan:
    """The plan of a parameter, made where its first test runs: every worker reads this file, one runs it."""
    made: ServePlan = request.param()
    return made


def test_only_the_impossible_has_no_answer() -> None:
    """What the other tests say of every row would hold of no rows too."""
    unanswered = {name for name, plan in PLANS.items() if not plan().deployments}
    assert unanswered == {"the impossible", "a model too large"}


@every_plan
def test_gpus_that_are_paid_for_run_replicas_or_idle(request_: ServeRequest, plan: ServePlan) -> None:
    for d in plan.deployments:
        assert d.replicas * d.gpus_per_replica + d.idle_gpus == d.instance_count * d.gpus_per_instance
        assert 0 <= d.idle_gpus < d.instance_count * d.gpus_per_replica
        assert d.replicas >= (request_.min_replicas or 1)


@every_plan
def test_every_objective_is_kept(request_: ServeRequest, plan: ServePlan) -> None:
    headroom = 0.2 if request_.headroom is None else request_.headroom
    for d in plan.deployments:
        for label, limit_s in plan.objectives.items():
            assert d.latency[label].value <= limit_s
        assert d.headroom_ratio >= headroom - 1e-9
        assert d.load_ratio <= 0.95


@every_plan
def test_one_price_in_all_units(request_: ServeRequest, plan: ServePlan) -> None:
    for d in plan.deployments:
        assert d.usd_per_hour == pytest.approx(d.instance_count * d.price_per_instance_usd_per_hour)
        assert d.usd_per_month == pytest.approx(730 * d.usd_per_hour)
        assert d.usd_per_request == pytest.approx(d.usd_per_hour / 3600 / request_.rate)
        assert d.usd_per_million_output_tokens == pytest.approx(d.usd_per_request / request_.output_tokens * 1e6)


@every_plan
def test_rows_come_cheapest_first_and_once(request_: ServeRequest, plan: ServePlan) -> None:
    counted = [d.counted_usd_per_hour for d in plan.deployments]
    assert counted == sorted(counted)
    kinds = [(d.cloud, d.instance, d.price_kind) for d in plan.deployments]
    assert len(kinds) == len(set(kinds))


@every_plan
def test_every_figure_lies_in_its_range(request_: ServeRequest, plan: ServePlan) -> None:
    for d in plan.deployments:
        for figure in d.latency.values():
            assert 0 < figure.low <= figure.value <= figure.high
        assert 0 <= d.requests_per_s_capacity.low <= d.requests_per_s_capacity.value <= d.requests_per_s_capacity.high


@every_plan
def test_rows_fit_their_machines(request_: ServeRequest, plan: ServePlan) -> None:
    for d in plan.deployments:
        assert d.gpus_per_replica <= d.gpus_per_instance
        assert d.batch <= d.largest_batch


@every_plan
def test_a_plan_without_rows_says_why(request_: ServeRequest, plan: ServePlan) -> None:
    if plan.is_feasible:
        return
    assert plan.rejections
    assert plan.relaxations or any(r.reason == "does not fit in memory" for r in plan.rejections)


def test_the_questions_cover_answers_and_refusals() -> None:
    feasible = {name for name, plan in PLANS.items() if plan().is_feasible}
    assert set(PLANS) - feasible == {"the impossible", "a model too large"}
