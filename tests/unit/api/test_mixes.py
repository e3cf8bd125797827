"""Which machines of several types serve, under what limits, and what each limit costs."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from gpufleet import FleetMix, MixRequest, ServeRequest, plan_mix, plan_serve
from gpufleet.api import mixes
from gpufleet.errors import Infeasible, UnknownName, UsageError

pytestmark = pytest.mark.usefixtures("rows_alone")

CHAT = ServeRequest(
    "llama-3.1-8b", 40.0, 700, 150, slo="ttft.p95<1s,tpot.p95<50ms", clouds=["aws"], gpus=["H100", "L40S"]
)
ANYWHERE = replace(CHAT, clouds=["aws", "gcp"], gpus=["L40S", "L4", "H100"], rate=60.0)


@pytest.fixture(scope="module")
def mix() -> FleetMix:
    return plan_mix(CHAT)


@pytest.mark.slow
def test_short_requests_go_to_a_cheap_gpu_and_long_ones_to_a_fast_one(mix: FleetMix) -> None:
    gpu_of = [c.deployment.gpu for c in mix.copies]
    assert set(gpu_of) == {"H100-SXM", "L40S"}
    assert "L40S" in {gpu_of[at] for at in mix.routes[0].copies}
    assert {gpu_of[at] for at in mix.routes[-1].copies} == {"H100-SXM"}
    assert mix.usd_per_hour is not None
    assert mix.usd_per_hour_one_type is not None
    assert mix.usd_per_hour < 0.95 * mix.usd_per_hour_one_type


def test_it_is_proved_and_each_type_says_what_it_saves(mix: FleetMix) -> None:
    assert mix.gap_ratio == pytest.approx(0.0, abs=1e-6)
    for machines in mix.machines:
        assert machines.usd_per_hour_without is not None
        assert machines.usd_per_hour_without >= (mix.usd_per_hour or 0.0)


def test_an_answer_is_read_back_from_its_json(mix: FleetMix) -> None:
    again = FleetMix.model_validate_json(mix.model_dump_json())
    assert again == mix
    assert again.gap_ratio == mix.gap_ratio
    assert "usd_per_hour" in json.loads(mix.model_dump_json())


@pytest.mark.slow
def test_words_may_be_said_one_by_one_or_as_a_request(mix: FleetMix) -> None:
    asked = plan_mix(CHAT, MixRequest())
    assert asked.usd_per_hour == mix.usd_per_hour
    assert asked.input_hash == mix.input_hash


@pytest.mark.slow
def test_a_quota_that_binds_says_what_one_more_machine_is_worth() -> None:
    heavy = plan_mix(replace(CHAT, rate=80.0), quotas=["H100=1"])
    assert [b.name for b in heavy.binding] == ["H100=1"]
    assert heavy.binding[0].usd_per_hour_with_more < (heavy.usd_per_hour or 0)


def test_without_a_gpu_that_long_prompts_need_the_others_carry_all_lengths_mixed() -> None:
    """Long prompts alone break the limit on an L40S; as a few of all requests they do not, as in a plan of one type."""
    alone = plan_serve(replace(CHAT, gpus=["L40S"]))
    found = plan_mix(CHAT, quotas=["H100=0"])
    assert {m.gpu for m in found.machines} == {"L40S"}
    assert found.usd_per_hour == pytest.approx(alone.answer.usd_per_hour)


def test_limits_that_contradict_say_the_least_that_gives_way() -> None:
    both = plan_mix(replace(CHAT, gpus=["H100"]), quotas=["H100=1"], budget_usd_per_hour=0.5)
    assert not both.is_feasible
    assert {g.name for g in both.given_way} == {"H100=1", "budget"}
    assert all(g.needed > g.limit for g in both.given_way)


@pytest.mark.slow
def test_shares_are_kept_within_one_machine_and_free_choice_costs_no_more() -> None:
    found = plan_mix(ANYWHERE, shares=["aws=60%", "gcp=40%"])
    dearest = {
        cloud: max((m.price_per_instance_usd_per_hour for m in found.machines if m.cloud == cloud), default=0.0)
        for cloud in found.asked_shares
    }
    for cloud, asked in found.asked_shares.items():
        off = abs(found.cloud_shares[cloud] - asked) * (found.usd_per_hour or 0)
        assert dearest[cloud] == 0 or off <= dearest[cloud] + 1e-6
    assert found.usd_per_hour_free is not None
    assert found.usd_per_hour_free <= (found.usd_per_hour or 0) + 1e-9


def test_impossible_shares_name_the_nearest_and_what_each_cloud_has_there() -> None:
    big = ServeRequest(
        "llama-3.3-70b", 20.0, 1500, 300, slo="ttft.p95<2s,tpot.p95<50ms", clouds=["aws", "gcp", "azure"], gpus=["H100"]
    )
    found = plan_mix(big, shares=["aws=60%", "gcp=30%", "azure=10%"], tolerance=0.02, budget_usd_per_hour=300.0)
    assert not found.is_feasible
    tolerance, *clouds = found.given_way
    assert tolerance.needed > tolerance.limit == 0.02
    assert [g.name for g in clouds] == ["share of aws", "share of gcp", "share of azure"]
    assert sum(g.needed for g in clouds) == pytest.approx(1.0)
    assert max(abs(g.needed - g.limit) for g in clouds) <= tolerance.needed + 1e-6


@pytest.mark.slow
def test_a_reason_is_kept_beside_its_service() -> None:
    pinned = replace(CHAT, model="qwen3-8b", rate=5.0, reason="compliance")
    found = plan_mix([CHAT, pinned])
    assert [s.reason for s in found.services] == ["", "compliance"]
    assert found.services[1].clouds == ["aws"]


@pytest.mark.slow
def test_services_share_a_machine_where_that_saves() -> None:
    alone = ServeRequest("llama-3.1-8b", 2.0, 1000, 200, clouds=["nebius"], gpus=["H100"])
    both = plan_mix([alone, replace(alone, model="qwen3-8b")])
    assert {c.service for c in both.copies} == {0, 1}
    assert (both.usd_per_hour or 0) <= (both.usd_per_hour_one_type or 0)


@pytest.mark.slow
def test_giving_up_machines_of_today_is_part_of_the_cost_or_they_stay() -> None:
    today = replace(CHAT, fleet_today="12 aws:g6e.xlarge")
    kept = plan_mix(today, leaving_usd=1e6)
    gone = plan_mix(today, leaving_usd=0.0)
    assert sum(m.instance_count for m in kept.machines if m.gpu == "L40S") == 12
    assert kept.leaving_usd_per_hour == 0
    assert (gone.usd_per_hour or 0) < (kept.usd_per_hour or 0)
    cheap = plan_mix(today, leaving_usd=10.0)
    left = 12 - sum(m.instance_count for m in cheap.machines if m.gpu == "L40S")
    assert cheap.leaving_usd_per_hour == pytest.approx(left * 10.0 / 730)


@pytest.mark.slow
def test_without_the_solver_what_is_found_at_once_is_the_answer_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("api.mixes", "optimize.mixes.search"):
        monkeypatch.setattr(f"gpufleet.{module}.is_installed", lambda: False)
    found = plan_mix(CHAT)
    assert found.is_feasible
    assert found.is_greedy
    assert found.least_usd_per_hour is None or found.least_usd_per_hour <= (found.usd_per_hour or 0)
    with pytest.raises(Infeasible, match="pip install"):
        plan_mix(CHAT, budget_usd_per_hour=0.5)


def test_what_a_mix_cannot_be_asked_is_refused() -> None:
    for request, words, said in (
        (CHAT, {"leaving_usd": 10.0}, "--today"),
        (CHAT, {"tolerance": 0.1}, "--shares"),
        (CHAT, {"share_of": "gpus"}, "--shares"),
        (replace(CHAT, off_peak_rate=1.0, peak_hours=10.0), {}, "autoscale"),
        (replace(CHAT, disagg=True), {}, "--disagg"),
    ):
        with pytest.raises(UsageError, match=said):
            plan_mix(request, **words)
    with pytest.raises(UsageError, match="number of services"):
        plan_mix([])
    with pytest.raises(UnknownName, match="us-east-1"):
        plan_mix(CHAT, quotas=["aws:us-eas-1:H100=8"])
    with pytest.raises(UsageError, match="not asked for"):
        plan_mix(CHAT, shares=["aws=60%", "gcp=40%"])
    with pytest.raises(Infeasible, match="nothing to rent from gcp"):
        plan_mix(replace(CHAT, clouds=["aws", "gcp"], gpus=["L40S"]), shares=["aws=60%", "gcp=40%"])


def test_no_time_still_answers() -> None:
    assert plan_mix(CHAT, time_limit_s=0.0).is_feasible


def test_inputs_record_what_was_said(mix: FleetMix) -> None:
    said = {
        i.name: i.value for i in plan_mix(CHAT, quotas=["H100=8"], budget_usd_per_hour=50.0, time_limit_s=1.0).inputs
    }
    assert (said["quotas"], said["budget"], said["time limit"]) == ("H100=8", "$50.00/h", "1 s")
    assert mixes.BY_PROMPT in mix.notes
