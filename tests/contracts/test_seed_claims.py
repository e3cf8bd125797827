"""What the seeds say in a sentence of engines, frameworks and money, asked of the planner that answers for it."""

from __future__ import annotations

import pytest
from tools.seed_index import all_elements

from gpufleet.api import ServeRequest, estimate, fit, plan_serve
from gpufleet.catalog.load import load_catalog
from gpufleet.errors import GpufleetError
from gpufleet.results.plan import ServePlan

TEXT = {element.id: element.text for element in all_elements()}
FRAMEWORKS = ("vllm", "sglang", "tensorrt-llm", "transformers", "llama.cpp")
OUTSIDE_THE_MODEL = ("graphs", "context, libraries, buffers")


def plan(engine: str = "vllm", rate: float = 10.0) -> ServePlan:
    return plan_serve(ServeRequest("llama-3.1-8b", rate, 1000, 200, engine=engine, rows=100))


def overhead_bytes(engine: str) -> float:
    """What an engine takes beside weights, activations and KV cache."""
    parts = fit("llama-3.1-8b", "H100:1", 4096, engine=engine).parts
    return sum(part.size.value for part in parts if part.name in OUTSIDE_THE_MODEL)


def test_the_overhead_of_frameworks_varies() -> None:
    assert "Framework overhead varies" in TEXT["computation:75"]
    taken = {engine: overhead_bytes(engine) for engine in FRAMEWORKS}
    assert min(taken.values()) > 0
    assert len(set(taken.values())) == len(FRAMEWORKS), taken


def test_tensorrt_is_asked_where_it_runs_and_refused_where_it_does_not() -> None:
    assert "TensorRT optimization where applicable" in TEXT["assessment:457"]
    asked = {"input_tokens": 1000, "output_tokens": 200, "batch": 8, "engine": "tensorrt-llm"}
    other = estimate("llama-3.1-8b", ("H100", 1), **{**asked, "engine": "vllm"})
    assert estimate("llama-3.1-8b", ("H100", 1), **asked).tpot_s.value != other.tpot_s.value
    for gpu in ("T4", "MI300X"):
        with pytest.raises(GpufleetError, match=f"TensorRT-LLM does not run on {gpu}"):
            estimate("llama-3.1-8b", (gpu, 1), **asked)
    supported = {d.gpu for d in plan("tensorrt-llm").deployments}
    assert supported
    assert not supported & {gpu.name for gpu in load_catalog().accelerators.values() if gpu.vendor != "nvidia"}


def test_an_hour_and_an_inference_cost_what_the_machines_cost() -> None:
    """The metrics cost_per_hour and cost_per_inference, as figures of each row of a plan."""
    assert "cost_per_hour" in TEXT["assessment:364"]
    assert "cost_per_inference" in TEXT["assessment:365"]
    rows = plan(rate=10.0).deployments
    assert rows
    for row in rows:
        assert row.usd_per_hour == pytest.approx(row.instance_count * row.price_per_instance_usd_per_hour)
        assert row.usd_per_request * 10.0 * 3600 == pytest.approx(row.usd_per_hour)


def test_a_forecast_tells_hundreds_of_dollars_a_month_from_a_hundred_thousand() -> None:
    assert "$100 or $100,000" in TEXT["lesson:75"]
    small, large = (plan(rate=rate).answer for rate in (0.1, 2000.0))
    assert small.usd_per_month < 1_000
    assert large.usd_per_month > 100_000
    for row in (small, large):
        assert row.usd_per_month == pytest.approx(row.instance_count * row.price_per_instance_usd_per_hour * 730)
