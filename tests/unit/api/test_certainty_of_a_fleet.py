"""How surely several models hold at once: those that err together by the least sure, all others apart."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpufleet.api import ServeRequest, plan_fleet, plan_serve
from gpufleet.report.fleet_plan import headline
from gpufleet.report.numbers import percent

CHAT = ServeRequest("llama-3.1-8b", 60.0, 1000, 200, "ttft.p95<80ms,tpot.p95<40ms", gpus=["H100"])
CODE = replace(CHAT, model="qwen2.5-7b")
SMALL = ServeRequest("llama-3.1-8b", 20.0, 1000, 200, "tpot.p95<22ms", gpus=["L40S"])


def test_models_on_one_gpu_err_together_and_those_on_another_apart() -> None:
    fleet = plan_fleet([CHAT, CODE, SMALL])
    assert not fleet.shared
    chat, code, small = fleet.held_confidences
    assert all(0.8 <= held <= 0.99 for held in fleet.held_confidences)
    assert fleet.held_together == pytest.approx(min(chat, code) * small)
    assert f"All hold at once with {percent(fleet.held_together)} confidence." in headline(fleet)
    assert plan_fleet([CHAT]).held_together == pytest.approx(chat)


def test_machines_are_enough_up_to_the_confidence_that_is_said_and_not_beyond() -> None:
    fleet = plan_fleet([CHAT, SMALL])
    for asked, plan, held in zip((CHAT, SMALL), fleet.plans, fleet.held_confidences, strict=True):
        machines = plan.answer.instance_count
        one = replace(asked, steady=0.0, clouds=[plan.answer.cloud])
        rows = {c: plan_serve(replace(one, confidence=c, steady=None)).deployments for c in (held - 0.01, held + 0.01)}
        few, more = (next((d for d in found if d.instance == plan.answer.instance), None) for found in rows.values())
        assert few is not None
        assert few.instance_count <= machines
        assert held >= 0.98 or more is None or more.instance_count > machines


def test_without_machines_for_all_nothing_is_sure() -> None:
    fleet = plan_fleet([CHAT, replace(SMALL, slo="tpot.p95<1ms")])
    assert (fleet.held_together, fleet.held_confidences) == (None, [])
