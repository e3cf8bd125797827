"""One's own stack in questions: what was measured of it, how its engine is started, and which version it is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import gpufleet
from gpufleet import ServeRequest
from gpufleet.cli.answered import answered
from gpufleet.errors import UsageError
from gpufleet.results.base import Figure

QWEN, LLAMA = "qwen3-0.6b", "llama-3.1-8b"
LOAD: dict[str, Any] = {"input_tokens": 1024, "output_tokens": 128}
BENCHMARK = Path(__file__).resolve().parents[2] / "examples" / "benchmarks" / "qwen3-0.6b-h100.csv"


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A stack on which TPOT took a fifth more, TTFT a tenth less than predicted, of one layout."""
    text = gpufleet.calibrate_stack([BENCHMARK]).toml.splitlines()
    at = {time: next(i for i, line in enumerate(text) if line == f"[{time}.layouts]") + 1 for time in ("tpot", "ttft")}
    for time, log in (("tpot", 0.1823), ("ttft", -0.1054)):
        text[at[time]] = f'"qwen3-0.6b in bf16 | TP1" = {{ log = {log}, spread = 0.03 }}'
    path = tmp_path_factory.mktemp("own") / "mine.toml"
    path.write_text("\n".join(text), encoding="utf-8")
    return str(path)


def estimated(gpus: str = "H100:1", **said: Any) -> gpufleet.ServingEstimate:
    """Eight clients of a small model."""
    return gpufleet.estimate(QWEN, gpus, concurrency=8, **LOAD, **said)


def test_measured_times_are_taken_and_their_ranges_narrow(own: str) -> None:
    was, now = estimated(), estimated(calibration=own)
    assert now.tpot_s.value / was.tpot_s.value == pytest.approx(1.2, abs=0.01)
    assert width(now.tpot_s) < 0.8 * width(was.tpot_s)
    assert any("mine.toml" in note and "TPOT x1.20" in note for note in now.notes)
    assert now.input_hash != was.input_hash
    [word] = [word for word in now.question if word.word == "calibration"]
    assert (word.value["file"], word.origin) == ("mine.toml", "given")


def width(figure: Figure) -> float:
    """High over low, less one."""
    assert figure.high is not None
    assert figure.low is not None
    return figure.high / figure.low - 1


@pytest.mark.parametrize("said", [{"gpus": "L4:1"}, {"engine": "sglang"}])
def test_another_gpu_or_engine_is_not_moved(said: dict[str, Any], own: str) -> None:
    was, now = estimated(**said), estimated(**said, calibration=own)
    assert (now.tpot_s, now.ttft_s, now.output_tokens_per_s) == (was.tpot_s, was.ttft_s, was.output_tokens_per_s)


def test_another_model_is_moved_by_what_models_share_alone(own: str) -> None:
    was, now = (gpufleet.estimate(LLAMA, "H100:1", concurrency=8, **LOAD, calibration=c) for c in (None, own))
    assert now.tpot_s.value == pytest.approx(was.tpot_s.value, rel=0.01)


def test_a_plan_and_a_replay_run_at_the_same_pace(own: str) -> None:
    request = ServeRequest(QWEN, 40.0, 1024, 128, slo="tpot.p95<20ms", gpus=["H100", "L4"], clouds=["gcp", "aws"])
    was, now = gpufleet.plan_serve(request), gpufleet.plan_serve(replace(request, calibration=own))
    by_gpu = [{d.gpu: d.latency["tpot.p95"].value for d in plan.deployments} for plan in (was, now)]
    assert by_gpu[1]["L4"] == by_gpu[0]["L4"]
    assert by_gpu[1]["H100-SXM"] > 1.1 * by_gpu[0]["H100-SXM"]
    played = [
        gpufleet.simulate_serving(QWEN, "H100:1", rate="5/s", requests=60, calibration=c, **LOAD) for c in (None, own)
    ]
    assert played[1].latency["tpot.p50"].value / played[0].latency["tpot.p50"].value == pytest.approx(1.2, abs=0.05)


def test_a_version_is_said_in_either_way() -> None:
    for ask in (
        lambda **said: estimated(**said).tpot_s,
        lambda **said: gpufleet.fit(LLAMA, "L4:1", **said).users,
        lambda **said: gpufleet.plan_serve(ServeRequest(LLAMA, 2.0, 500, 100, gpus=["L4"]), **said).answer.usd_per_hour,
    ):
        assert ask(engine="vllm==0.11.0") == ask(engine="vllm", engine_version="0.11.0")
    with pytest.raises(UsageError):
        estimated(engine="vllm==0.11.0", engine_version="0.12.0")
    with pytest.raises(UsageError):
        gpufleet.plan_serve(ServeRequest(LLAMA, 2.0, 500, 100, engine="all"), engine_version="0.11.0")


@pytest.mark.parametrize(
    "said", [{"max_num_seqs": 1024}, {"max_num_batched_tokens": 8192}, {"gpu_memory_utilization": 0.9}], ids=str
)
def test_a_limit_said_as_it_is_by_default_changes_nothing(said: dict[str, Any]) -> None:
    was, now = estimated(engine_version="0.11.0"), estimated(engine_version="0.11.0", **said)
    assert (now.tpot_s, now.ttft_s, now.largest_batch) == (was.tpot_s, was.ttft_s, was.largest_batch)


@pytest.mark.parametrize(
    ("word", "values"), [("max_num_seqs", (4, 16, 64)), ("gpu_memory_utilization", (0.85, 0.9, 0.95))]
)
def test_less_never_carries_more(word: str, values: tuple[float, ...]) -> None:
    request = ServeRequest(LLAMA, 2.0, 1000, 200, slo="tpot.p95<80ms", gpus=["L4"], clouds=["gcp"])
    carried = [gpufleet.plan_serve(request, **{word: value}).answer.requests_per_s_capacity.value for value in values]
    machines = [gpufleet.plan_serve(request, **{word: value}).answer.replicas for value in values]
    assert carried == sorted(carried)
    assert machines == sorted(machines, reverse=True)


def test_limits_are_in_the_command_by_new_and_old_names() -> None:
    words = ["plan", "serve", LLAMA, "--rate", "2/s", "--in", "500", "--out", "100", "--gpus", "L4", "-o", "json"]
    one, other = (answered([*words, flag, "8"]) for flag in ("--max-num-seqs", "--max-batch"))
    assert one.code == other.code == 0
    assert "--max-num-seqs 8 " in one.result.answer.launch.command  # type: ignore[attr-defined]
    assert one.result.answer.launch == other.result.answer.launch  # type: ignore[attr-defined]
