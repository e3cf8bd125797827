"""How rows of prefill and decode apart are put to the api."""

from __future__ import annotations

from typing import Any

import pytest

from gpufleet import api
from gpufleet.accuracy.models import ModelFinder
from gpufleet.accuracy.pools import in_usual_columns, score_disagg_point
from gpufleet.catalog.benchmark_scripts import load_benchmark_scripts
from gpufleet.inputs.gpu_request import PoolRequest
from gpufleet.inputs.measurements import MeasurementRow

POINT = {
    "backend": "trtllm",
    "backend_version": "0.8.1.post3",
    "model_path": "deepseek-ai/DeepSeek-V3",
    "system": "h100_sxm",
    "isl": "1024",
    "osl": "1024",
    "gemm_quant_mode": "fp8",
    "moe_quant_mode": "fp8",
    "concurrency": "6",
    "prefill_num_workers": "1.0",
    "prefill_tp_size": "1.0",
    "prefill_attention_dp_size": "16.0",
    "prefill_moe_ep_size": "16.0",
    "decode_num_workers": "3.0",
    "decode_tp_size": "16.0",
    "decode_attention_dp_size": "1.0",
    "decode_moe_ep_size": "0.0",
    "silicon_ttft_ms": "12345",
    "silicon_tpot_ms": "14.0",
    "source": "db-dump/2026-04-27; nvcr.io/nvidia/ai-dynamo/tensorrtllm-runtime:0.8.1.post3",
}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The words of the last question, which is answered as it is."""
    question: dict[str, Any] = {}
    answer = api.estimate

    def remember(model: Any, **words: Any) -> Any:
        question.update(words, model=model)
        return answer(model, **words)

    monkeypatch.setattr(api, "estimate", remember)
    return question


def scored(**changes: str) -> dict[str, Any]:
    row = MeasurementRow(2, {**POINT, **changes})
    return {f.quantity: f for f in score_disagg_point(row, "mine.csv", ModelFinder()).figures}


def test_a_row_is_asked_as_both_pools_with_the_lengths_that_its_client_sends(asked: dict[str, Any]) -> None:
    figures = scored()
    assert asked["model"].name == "deepseek-v3"
    assert asked["prefill"][:7] == PoolRequest(1, "H100-SXM", 16, 1, None, 16, 16)[:7]
    assert asked["decode"][:7] == PoolRequest(3, "H100-SXM", 16, 16, None, None, 1)[:7]
    assert asked["input_tokens"] == pytest.approx(0.9 * 1024)
    assert (asked["concurrency"], asked["waves"]) == (6, 10)
    assert figures["tpot"].predicted > 0


def test_copies_are_started_for_what_the_recipe_of_the_client_says(asked: dict[str, Any]) -> None:
    """One slot on each of 3 copies under 6 clients: half of the time they wait for it, as was measured (12.3 s)."""
    assert scored()["ttft"].predicted == pytest.approx(12_345, rel=0.4)
    assert asked["decode"].max_batch == 1
    assert (asked["prefill"].max_batch, asked["prefill"].max_step_tokens) == (2, 2048)
    scored(concurrency="7")
    assert asked["decode"].max_batch is None


def test_a_version_of_dynamo_is_not_that_of_the_engine_in_its_image() -> None:
    assert in_usual_columns(MeasurementRow(2, POINT)).text("engine_version") == ""
    own = in_usual_columns(MeasurementRow(2, {**POINT, "source": "lmsysorg/sglang:v0.5.8", "backend_version": "0.5.8"}))
    assert own.text("engine_version") == "0.5.8"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"prefill_num_workers": ""}, "workers not stated"),
        ({"decode_num_workers": ""}, "workers not stated"),
        ({"concurrency": ""}, "concurrency not stated"),
        ({"system": "", "source": ""}, "GPU not stated"),
        ({"system": "h999"}, "unknown GPU"),
        ({"decode_tp_size": "-1"}, "decode_tp_size must be positive"),
        ({"isl": "-5"}, "isl must be positive"),
        ({"prefill_num_workers": "1.5"}, "must be a whole number"),
    ],
)
def test_what_a_row_lacks_is_the_reason_of_both_figures(changes: dict[str, str], reason: str) -> None:
    figures = scored(**changes)
    assert set(figures) == {"ttft", "tpot"}
    assert all(reason in figure.reason and figure.predicted is None for figure in figures.values())


def test_recipes_name_a_source_and_a_load_once() -> None:
    pools = load_benchmark_scripts().pools
    assert len({tuple(sorted(started.load.items())) for started in pools}) == len(pools) > 0
    assert all(started.source for started in pools)
