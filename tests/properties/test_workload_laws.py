"""Laws of plans over workloads: what asks for more never costs less."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise

import pytest

from gpufleet.api import RequestKind, ServeRequest, plan_fleet, plan_serve
from gpufleet.catalog.load import Catalog, load_catalog
from gpufleet.inputs.token_counts import parse_token_counts
from gpufleet.results.plan import ServePlan

pytestmark = pytest.mark.usefixtures("rows_alone")

CHAT = ServeRequest("llama-3.1-8b", 30.0, 1000, 200, "ttft.p95<1s,tpot.p95<60ms", headroom=0.2)
LONG = parse_token_counts("mean=1000,p95=3500")


@lru_cache(maxsize=1)
def market() -> Catalog:
    """Machines with one to eight GPUs of three kinds at one cloud, on demand and on spot."""
    catalog = load_catalog()
    kept = {key: i for key, i in catalog.instances.items() if key[0] == "aws" and key[1][:3] in ("g6e", "p5.", "g6.")}
    return replace(catalog, instances=kept, offers=tuple(o for o in catalog.offers if (o.cloud, o.instance) in kept))


def ask(**changes: object) -> ServePlan:
    return plan_serve(replace(CHAT, **changes), market())  # type: ignore[arg-type]


def cost(**changes: object) -> float:
    plan = ask(**changes)
    return plan.answer.usd_per_hour if plan.is_feasible else math.inf


def never_falls(costs: Iterable[float]) -> bool:
    return all(later >= sooner * (1 - 1e-12) for sooner, later in pairwise(costs))


@pytest.mark.slow
def test_more_headroom_never_costs_less() -> None:
    assert never_falls(cost(headroom=h) for h in (0.0, 0.05, 0.2, 0.5, 1.0, 3.0))


@pytest.mark.slow
@pytest.mark.parametrize("lengths", [1000, LONG], ids=["alike", "varied"])
def test_a_looser_objective_never_costs_more(lengths: object) -> None:
    for metric, limits in {"ttft.p95": (0.2, 0.4, 0.8, 3), "tpot.p99": (0.01, 0.02, 0.04, 0.2)}.items():
        costs = [cost(input_tokens=lengths, slo=f"{metric}<{limit}s") for limit in limits]
        assert never_falls(reversed(costs))


def test_a_later_percentile_never_costs_less() -> None:
    assert never_falls(cost(input_tokens=LONG, slo=f"ttft.{s}<400ms") for s in ("p50", "p90", "p95", "p99"))


@pytest.mark.slow
def test_a_larger_failure_domain_never_costs_less() -> None:
    assert never_falls(cost(spare_machines=n) for n in (0, 1, 2, 5))
    assert cost(zones=3) >= cost()
    assert cost(zones=2) >= cost(zones=3) >= cost(zones=6)


def test_what_is_left_without_a_zone_or_the_spare_ones_carries_the_headroom() -> None:
    for zones in (2, 3, 4):
        d = ask(zones=zones).answer
        left = d.instance_count - math.ceil(d.instance_count / zones)
        assert left * d.requests_per_s_capacity.value / d.instance_count >= CHAT.rate * 1.2 * (1 - 1e-9)
    d = ask(spare_machines=2).answer
    assert (d.instance_count - 2) * d.requests_per_s_capacity.value / d.instance_count >= CHAT.rate * 1.2 * (1 - 1e-9)


def test_a_larger_prefix_cache_never_costs_more() -> None:
    costs = [cost(input_tokens=6000, prefix_cache=share) for share in (0.0, 0.2, 0.5, 0.8, 0.95)]
    assert never_falls(reversed(costs))
    assert costs[-1] < costs[0]


def test_prefill_saved_alone_never_costs_less_than_kv_saved_too() -> None:
    assert cost(input_tokens=6000, prefix_cache=0.6, prefix_kv=0.0) >= cost(input_tokens=6000, prefix_cache=0.6)


@pytest.mark.slow
def test_more_spot_never_costs_more_and_no_more_is_bought_than_allowed() -> None:
    shares = (0.0, 0.25, 0.5, 0.75, 1.0)
    plans = [ask(max_spot=share) for share in shares]
    assert never_falls(reversed([p.answer.usd_per_hour for p in plans]))
    assert plans[0].answer.usd_per_hour == cost()
    for share, plan in zip(shares, plans, strict=True):
        for d in plan.deployments:
            on_spot = d.instance_count - d.steady_instance_count if d.price_kind == "spot" else 0
            assert on_spot <= share * d.instance_count + 1e-9


def test_quiet_hours_never_cost_more_and_terms_are_paid_round_the_clock() -> None:
    costs = [cost(off_peak_rate=rate, peak_hours=8) for rate in (1.0, 5.0, 15.0, 30.0)]
    assert never_falls([*costs, cost() * (1 + 1e-12)])
    d = ask(off_peak_rate=5.0, peak_hours=6).answer
    assert d.busy_usd_per_hour is not None
    assert d.quiet_instance_count is not None
    price = d.price_per_instance_usd_per_hour
    assert d.usd_per_hour == pytest.approx(price * (0.25 * d.instance_count + 0.75 * d.quiet_instance_count))
    assert d.usd_per_request == pytest.approx(d.usd_per_hour / 3600 / (0.25 * 30 + 0.75 * 5))


def test_a_budget_is_never_exceeded_and_never_changes_what_is_cheapest() -> None:
    cheapest = cost()
    assert cost(budget_usd_per_hour=cheapest) == cheapest
    over = ask(budget_usd_per_hour=cheapest * 0.999)
    assert not over.is_feasible
    [budget] = [r for r in over.relaxations if r.limit == "budget"]
    assert float(budget.needed.strip("$/h").replace(",", "")) == pytest.approx(cheapest, abs=0.01)
    assert any("over the budget" in r.reason for r in over.rejections)


def test_lengths_that_vary_never_cost_less_than_their_mean() -> None:
    assert cost(input_tokens=LONG) >= cost()
    assert cost(output_tokens=parse_token_counts("mean=200,p95=700")) >= cost()


def test_one_class_is_the_plain_question_under_a_name() -> None:
    kind = RequestKind("chat", CHAT.rate, 1000, 200, CHAT.slo)
    plain, named = ask(), ask(classes=[kind], slo=None)
    assert named.answer.usd_per_hour == plain.answer.usd_per_hour
    assert named.answer.latency["chat.ttft.p95"].value == pytest.approx(plain.answer.latency["ttft.p95"].value)
    assert named.objectives == {f"chat.{label}": limit for label, limit in plain.objectives.items()}


def test_two_equal_halves_are_one_whole() -> None:
    halves = [RequestKind(name, CHAT.rate / 2, 1000, 200, CHAT.slo) for name in ("left", "right")]
    answer = ask(classes=halves).answer
    assert answer.usd_per_hour == cost()
    assert answer.latency["left.tpot.p95"].value == answer.latency["right.tpot.p95"].value


def test_every_class_keeps_its_own_objectives_and_one_more_never_costs_less() -> None:
    chat = RequestKind("chat", 30.0, 1000, 200, "ttft.p95<1s,tpot.p95<60ms")
    report = RequestKind("report", 2.0, 6000, 800, "latency.p95<60s")
    plan = ask(classes=[chat, report])
    for d in plan.deployments:
        assert all(d.latency[label].value <= limit for label, limit in plan.objectives.items())
    assert plan.answer.latency["report.ttft.p95"].value > plan.answer.latency["chat.ttft.p95"].value
    assert plan.answer.usd_per_hour >= cost(classes=[chat])


MODELS = [
    replace(CHAT, rate=2.0),
    replace(CHAT, model="qwen3-32b", rate=1.0, slo="tpot.p95<80ms"),
    replace(CHAT, model="llama-3.3-70b", rate=0.5, slo="tpot.p95<80ms"),
]


@pytest.mark.slow
@pytest.mark.parametrize("chosen", [(0, 1), (1, 2), (0, 1, 2), (0, 0, 0, 0), (2,)], ids=str)
def test_models_planned_together_never_cost_more_than_apart(chosen: tuple[int, ...]) -> None:
    fleet = plan_fleet([MODELS[i] for i in chosen], catalog=market())
    assert fleet.usd_per_hour_apart == pytest.approx(
        sum(plan_serve(MODELS[i], market()).answer.usd_per_hour for i in chosen)
    )
    assert fleet.usd_per_hour is not None
    assert fleet.usd_per_hour <= fleet.usd_per_hour_apart * (1 + 1e-12)


def test_shared_machines_hold_every_replica_of_their_tenants() -> None:
    only_large = replace(
        market(), offers=tuple(o for o in market().offers if o.instance in ("p5.48xlarge", "g6e.48xlarge"))
    )
    fleet = plan_fleet(MODELS, catalog=only_large)
    assert fleet.shared
    assert fleet.usd_per_hour < fleet.usd_per_hour_apart
    for s in fleet.shared:
        held = sum(t.replicas * t.gpus_per_replica for t in s.tenants)
        assert held + s.idle_gpus == s.instance_count * s.gpus_per_instance
        assert s.idle_gpus >= 0
        assert len(s.tenants) > 1


def test_a_fleet_over_its_budget_or_with_an_unserved_model_is_infeasible() -> None:
    assert not plan_fleet(MODELS, budget_usd_per_hour=0.01, catalog=market()).is_feasible
    unserved = plan_fleet([MODELS[0], replace(MODELS[2], slo="tpot.p95<1ms")], catalog=market())
    assert (unserved.usd_per_hour, unserved.unserved) == (None, ["llama-3.3-70b"])


def test_machines_on_spot_and_on_demand_add_up_to_the_price_by_the_hour() -> None:
    mixed = [d for d in ask(max_spot=0.5, rows=100).deployments if d.steady_instance_count]
    assert mixed
    for d in mixed:
        assert d.steady_price_per_instance_usd_per_hour is not None
        on_spot = (d.instance_count - d.steady_instance_count) * d.price_per_instance_usd_per_hour
        beside = d.steady_instance_count * d.steady_price_per_instance_usd_per_hour
        assert d.usd_per_hour == pytest.approx(on_spot + beside)
