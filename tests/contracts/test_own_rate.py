"""What one copy of one's own carried: plans size by it, laws of scaling and replays run at the pace that it implies."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpufleet import estimate, plan_serve, simulate_serving
from gpufleet.api.answers import ServeAnswer
from gpufleet.api.planned_replicas import planned_replicas
from gpufleet.api.scaled_plans import scaled_plan
from gpufleet.api.simulated_copies import CopyQuestion
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.own_stacks import load_spreads
from gpufleet.domain.own_stack import Factor, Fitted, OwnStack
from gpufleet.errors import UsageError
from gpufleet.inputs.own_stack import as_toml

MODEL = "llama-3.1-8b"
ASKED: dict[str, Any] = {
    "rate": "50/s", "input_tokens": 1000, "output_tokens": 200, "slo": "ttft.p95<1s,tpot.p95<40ms", "gpus": ["H100"],
}  # fmt: skip


@pytest.fixture(scope="module")
def predicted() -> ServeAnswer:
    return plan_serve(MODEL, **ASKED)


@pytest.fixture(scope="module")
def carried(predicted: ServeAnswer) -> float:
    return predicted.answer.requests_per_s_capacity.value / predicted.answer.replicas


@pytest.fixture(scope="module")
def slower(carried: float) -> ServeAnswer:
    return plan_serve(MODEL, **ASKED, replica_rate=f"H100:1@{0.75 * carried}/s")


def at_pace(ratio: float, engine: str = "vllm") -> OwnStack:
    layouts = {(f"{MODEL} in bf16", "TP1"): Factor(math.log(ratio), 0.0)}
    times = {time: Fitted(Factor(0.0, s.stacks), {}, layouts, (), s) for time, s in load_spreads().items()}
    return OwnStack(engine, "H100-SXM", "", 1, times, "mine.toml", "digest")


def test_our_own_rate_given_back_changes_nothing(predicted: ServeAnswer, carried: float) -> None:
    again = plan_serve(MODEL, **ASKED, replica_rate=f"H100:1@{carried}/s").answer
    was = predicted.answer
    assert (again.instance, again.replicas, again.layout, again.usd_per_hour) == (
        was.instance, was.replicas, was.layout, was.usd_per_hour,
    )  # fmt: skip
    assert again.requests_per_s_capacity.value == pytest.approx(was.requests_per_s_capacity.value, rel=1e-4)
    assert again.latency["tpot.p95"].value == pytest.approx(was.latency["tpot.p95"].value, rel=0.02)
    width = [c.high / c.low for c in (again.requests_per_s_capacity, was.requests_per_s_capacity) if c.high and c.low]
    assert width[0] < width[1]


def test_copies_are_sized_by_what_one_carried_and_twice_that_never_needs_more(
    slower: ServeAnswer, carried: float
) -> None:
    rate, answer = 0.75 * carried, slower.answer
    assert (answer.layout, answer.replicas) == ("TP1", math.ceil(60 / rate))
    assert answer.requests_per_s_capacity.value == pytest.approx(answer.replicas * rate, rel=1e-4)
    twice = plan_serve(MODEL, **ASKED, replica_rate=f"H100:1@{2 * rate}/s").answer
    assert (twice.replicas, twice.usd_per_hour) <= (answer.replicas, answer.usd_per_hour)
    assert any("given by you" in note for note in slower.notes)


def test_another_gpu_moves_not() -> None:
    both = {**ASKED, "gpus": ["H100", "L40S"], "rows": 40}
    found = [plan_serve(MODEL, **both, **said) for said in ({}, {"replica_rate": "H100:1@9/s"})]
    rows = [{d.instance: d.requests_per_s_capacity for d in plan.deployments if d.gpu == "L40S"} for plan in found]
    assert rows[0]
    assert rows[1] == {name: rows[0].get(name, figure) for name, figure in rows[1].items()}


def test_laws_of_scaling_follow_it_and_a_calibration(
    predicted: ServeAnswer, slower: ServeAnswer, tmp_path: Path
) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(as_toml(at_pace(1.5)), encoding="utf-8")
    calibrated = plan_serve(MODEL, **{**ASKED, "rate": "5/s"}, calibration=str(path))
    assert calibrated.answer.layout == "TP1"
    usual, own, paced = (scaled_plan(plan, load_catalog()).replica for plan in (predicted, slower, calibrated))
    assert own.sustained_per_s < 0.9 * usual.sustained_per_s
    assert paced.sustained_per_s < 0.75 * usual.sustained_per_s


def test_replays_follow_it(slower: ServeAnswer, carried: float, tmp_path: Path) -> None:
    drawn: dict[str, Any] = {"rate": "15/s", "input_tokens": 1000, "output_tokens": 200, "requests": 300}
    said = {"slo": ASKED["slo"], "replica_rate": f"{0.75 * carried}/s"}
    usual, own = (simulate_serving(MODEL, "H100:1", **drawn, **more) for more in ({}, said))
    assert own.latency["tpot.mean"].value > 1.15 * usual.latency["tpot.mean"].value
    path = tmp_path / "plan.json"
    path.write_text(slower.model_dump_json(), encoding="utf-8")
    planned = planned_replicas(CopyQuestion(str(path)), None, load_catalog())
    replayed = [planned.copy.calibration, slower._prepared.request.calibration]
    factors = [own.times["tpot"].layouts for own in replayed if isinstance(own, OwnStack)]
    assert factors[0] == factors[1]
    assert all(factor.ratio > 1.1 for factor in factors[0].values())


@pytest.mark.parametrize(
    "said",
    [
        {"replica_rate": "1.9"},
        {"replica_rate": "1.9/s"},
        {"replica_rate": "2x H100:1@1.9/s"},
        {"replica_rate": "L4:1@1.9/s"},
        {"replica_rate": "H100:3@1.9/s"},
        {"replica_rate": "H100:1@5000/s"},
        {"replica_rate": "1.9/s", "gpus": ["H100", "L40S"]},
        {"replica_rate": "H100:1@1.9/s", "precision": ["bf16", "fp8"]},
        {"replica_rate": "H100:1@1.9/s", "calibration": at_pace(1.0)},
    ],
)
def test_a_rate_that_does_not_say_whose_it_is_is_one_message(said: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        plan_serve(MODEL, **{**ASKED, **said})


@pytest.mark.parametrize("clients", [1, 16, 128])
def test_a_slope_is_that_of_all_steps_at_a_load(clients: int) -> None:
    own, asked = at_pace(1.0), {"input_tokens": 1000, "output_tokens": 200, "concurrency": clients}
    grown = {key: replace(factor, slope=0.05) for key, factor in own.times["tpot"].layouts.items()}
    growing = replace(own, times={**own.times, "tpot": replace(own.times["tpot"], layouts=grown)})
    usual, found = (estimate(MODEL, "H100:1", **asked, calibration=stack).tpot_s.value for stack in (own, growing))
    assert found / usual == pytest.approx((clients / 16) ** 0.05, rel=1e-3)


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm"])
@pytest.mark.parametrize("concurrency", [1, 64])
def test_a_pace_is_that_of_every_part_of_a_step(engine: str, concurrency: int) -> None:
    asked: dict[str, Any] = {"input_tokens": 1000, "output_tokens": 200, "concurrency": concurrency, "engine": engine}
    usual, own = (estimate(MODEL, "H100:1", **asked, calibration=at_pace(f, engine)) for f in (1.0, 1.7))
    assert own.tpot_s.value == pytest.approx(1.7 * usual.tpot_s.value, rel=1e-6)
    assert own.ttft_s.value == pytest.approx(1.7 * usual.ttft_s.value, rel=1e-3)
