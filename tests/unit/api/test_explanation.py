"""Why an estimate is what it is: parts that sum to the figures, bounds that physics demands, changes that hold."""

from __future__ import annotations

import json
import math
import re

import pytest

from gpufleet.api.estimates import estimate
from gpufleet.report.formats import as_json
from gpufleet.results.estimate import ExplainedStep, Explanation, ServingEstimate
from gpufleet.units import MILLISECOND

LOADS = [{"concurrency": 64}, {"concurrency": 5000}, {"rate": 1.0}, {"batch": 8}, {"full_queue": True}]
SHAPES = [
    ("llama-3.3-70b", "H100:8", {}),
    ("llama-3.1-8b", "L4:1", {"precision": "fp8"}),
    ("deepseek-v3", "H200:8", {}),
    ("qwen3-30b-a3b", "H100:4", {"tp": 1, "attention_dp": 4, "ep": 4}),
    ("llama-3.3-70b", "A100:8", {"tp": 4, "pp": 2, "engine": "tensorrt-llm"}),
    ("llama-3.1-8b", "MI300X:1", {}),
]


def ask(model: str = "llama-3.3-70b", gpus: str = "H100:8", **more) -> ServingEstimate:
    lengths = {"input_tokens": 1000, "output_tokens": 200}
    load = {} if {"concurrency", "rate", "batch", "full_queue"} & set(more) else {"concurrency": 16}
    return estimate(model, gpus, **{**lengths, **load, **more}, explain=True)


def reasons(*question: str, **more) -> Explanation:
    found = ask(*question, **more).explanation
    assert found is not None
    return found


@pytest.mark.slow
@pytest.mark.parametrize("load", LOADS, ids=str)
@pytest.mark.parametrize(("model", "gpus", "more"), SHAPES, ids=lambda value: str(value)[:30])
def test_operations_sum_to_the_kernels_and_parts_to_the_latency(model: str, gpus: str, more: dict, load: dict) -> None:
    found = ask(model, gpus, **more, **load)
    assert found.explanation is not None
    for step, figure in ((found.explanation.decode, found.tpot_s), (found.explanation.prefill, found.ttft_s)):
        assert sum(o.seconds for o in step.operations) == pytest.approx(step.kernels_s)
        assert sum(o.share_ratio for o in step.operations) == pytest.approx(1.0)
        assert step.parts[0].value == pytest.approx(step.kernels_s)
        assert sum(part.value for part in step.parts) == pytest.approx(figure.value, rel=1e-6)
        assert step.total_s == figure.value


@pytest.mark.parametrize("clients", [8, 64, 500])
def test_prompts_per_step_are_those_that_arrive(clients: int) -> None:
    """Each of B - 1 neighbours sends one prompt in the time of an answer: (B - 1) / output_tokens a step.

    Hardly less: a client is away for some steps of a neighbour's course.
    """
    parts = reasons(concurrency=clients).decode.parts
    met, mixed, extra_ms = (float(n) for n in re.findall(r"[0-9.]+", parts[-1].formula))
    assert 0.97 * (clients - 1) / 200 < met < (clients - 1) / 200
    assert met * mixed * extra_ms * MILLISECOND == pytest.approx(parts[-1].value, rel=1.5e-2)


def each(step: ExplainedStep) -> list[tuple[float, float]]:
    return [(o.seconds_each, o.slowdown_ratio * (o.roofline_s + o.fixed_s)) for o in step.operations]


def test_every_formula_gives_its_seconds_and_none_beats_its_roofline() -> None:
    found = reasons()
    for step in (found.decode, found.prefill):
        assert all(seconds == pytest.approx(computed) for seconds, computed in each(step))
        assert all(o.seconds_each >= o.roofline_s * (1 - 1e-9) for o in step.operations if not o.over_link)
        assert all(o.seconds == pytest.approx(o.count * o.seconds_each) for o in step.operations)
        names = [o.name for o in step.operations]
        assert len(names) == len(set(names))


def bound_of_largest(step: ExplainedStep) -> str:
    return max(step.operations, key=lambda o: o.seconds).bound


def test_one_sequence_waits_for_memory_and_a_long_prompt_for_arithmetic() -> None:
    found = reasons(gpus="H100:4", batch=1, input_tokens=16000)
    assert bound_of_largest(found.decode) == "bandwidth"
    assert bound_of_largest(found.prefill) == "compute"


def test_gpus_over_pcie_wait_for_their_link_in_a_long_prompt() -> None:
    found = reasons(gpus="L40S:8", batch=1, input_tokens=8000)
    assert {o.bound for o in found.prefill.operations if o.over_link and o.share_ratio > 0.01} == {"link"}


def test_one_gpu_has_no_exchange_in_its_step() -> None:
    assert not [o.name for o in reasons("llama-3.1-8b", "H100:1").decode.operations if o.over_link]


def test_curves_name_whose_kernels_they_are() -> None:
    own = {o.curve for o in reasons().decode.operations}
    assert own == {"H100-SXM bf16", "H100-SXM bf16 vllm", "H100-SXM switched vllm", "formula"}
    lent = reasons("llama-3.1-8b", "A10G:1").decode.operations
    assert {o.grade for o in lent if o.curve != "formula"} == {"transferred"}
    assert not any(o.curve.startswith("A10G") for o in lent)


def test_the_ceilings_are_those_of_the_formats_in_use() -> None:
    assert [c.arithmetic for c in reasons().ceilings] == ["bf16"]
    assert {c.arithmetic for c in reasons(precision="fp8").ceilings} == {"bf16", "fp8"}


def test_an_estimate_that_is_not_explained_carries_no_explanation() -> None:
    assert estimate("llama-3.1-8b", "H100:1", input_tokens=10, output_tokens=10, batch=1).explanation is None


def test_the_explanation_is_plain_json() -> None:
    content = json.loads(as_json(ask("deepseek-v3", "H200:8")))["explanation"]
    assert content["decode"]["operations"][0]["shape"]
    assert {"changes", "tried", "prefill", "ceilings"} <= set(content)


def test_a_change_is_what_asking_for_it_gives() -> None:
    """The prediction beside a change is the estimate of the changed question, not a rule of thumb."""
    found = reasons(concurrency=64)
    asked = ask(gpus="B200:8", concurrency=64)
    change = next(c for c in found.changes if c.gpus == "8x B200")
    assert change.tpot_s.value == pytest.approx(asked.tpot_s.value)
    assert change.output_tokens_per_s_per_gpu.value == pytest.approx(asked.output_tokens_per_s.value / 8)
    halved = next(c for c in found.changes if c.name.startswith("half of the load"))
    assert halved.tpot_s.value == pytest.approx(ask(concurrency=32).tpot_s.value)


def gains(found: Explanation) -> list[float]:
    of_goal = {
        "TPOT": lambda c: 1 / c.tpot_ratio,
        "latency": lambda c: 1 / c.latency_ratio,
        "throughput per GPU": lambda c: c.throughput_per_gpu_ratio,
    }
    return [of_goal[found.goal](c) for c in found.changes]


@pytest.mark.slow
@pytest.mark.parametrize("load", LOADS, ids=str)
@pytest.mark.parametrize("gpus", ["H100:8", "A100:4", "L40S:8"])
def test_the_greatest_gain_stands_first_and_the_most_work_per_gpu_at_the_end(gpus: str, load: dict) -> None:
    found = reasons(gpus=gpus, **{**load, "rate": 0.2} if "rate" in load else load)
    shown = gains(found)
    *first, last = shown
    assert first == sorted(first, reverse=True)
    assert all(gain > 1.02 for gain in first)
    assert last > 1.02 or found.changes[-1].throughput_per_gpu_ratio > 1.05
    assert all(c.cost for c in found.changes)


def test_what_faster_means_follows_the_load() -> None:
    """Where clients wait for a place, room is worth more than a short step: the step of a fuller batch is longer."""
    assert reasons(concurrency=64).goal == "TPOT"
    assert reasons(full_queue=True).goal == "throughput per GPU"
    crowded = reasons(gpus="H100:2", concurrency=100, input_tokens=16000)
    assert crowded.goal == "latency"
    assert crowded.changes[0].latency_ratio < 0.5
    assert crowded.changes[0].tpot_ratio > 1


def test_only_changes_that_engine_and_gpu_take_are_tried() -> None:
    """TensorRT-LLM has no fp4 on A100; 8 heads cannot be cut in 16; a mixture of experts has layouts to choose from."""
    names = [c.name for c in reasons(gpus="A100:8", engine="tensorrt-llm").tried]
    assert not any("nvfp4" in name or "TP16" in name for name in names)
    mixture = [c.name for c in reasons("qwen3-235b-a22b", "H200:8").tried]
    assert "TP1/DP8/EP8" in mixture


def test_half_of_the_load_takes_less_time_per_token_and_serves_less_per_gpu() -> None:
    half = next(c for c in reasons(concurrency=64).tried if c.name == "half of the load on each copy")
    assert half.tpot_ratio < 1
    assert half.throughput_per_gpu_ratio < 1


def test_a_batch_without_room_is_explained_all_the_same() -> None:
    found = ask("llama-3.3-70b", "H100:2", batch=2000, input_tokens=8000)
    assert not found.is_held
    assert found.explanation is not None
    assert math.isfinite(found.explanation.decode.total_s)


def test_no_split_by_layer_is_called_faster() -> None:
    """More stages that take turns make no token faster: only copies over fewer GPUs are offered beside other GPUs."""
    found = reasons("llama-3.1-8b", "L4:4", engine="llama.cpp", batch=8)
    tried = [change.name for change in (*found.changes, *found.tried)]
    assert "two copies of TP1/PP2, half of the load each" in tried
    assert not any(name.startswith("TP") for name in tried)


@pytest.mark.parametrize("engine", ["transformers", "llama.cpp"])
def test_one_gpu_of_an_engine_that_splits_by_layer_is_explained(engine: str) -> None:
    """One stage cannot be halved."""
    found = reasons("llama-3.1-8b", "L4:1", engine=engine, batch=4)
    assert not any("copies" in change.name for change in found.changes)
