"""How serving and throughput rows are put to the api, and which of its figures answer them."""

from __future__ import annotations

from typing import Any

import pytest

from gpufleet import api
from gpufleet.accuracy.inference_throughput import score_throughput
from gpufleet.accuracy.models import ModelFinder
from gpufleet.accuracy.serving_points import score_serving_point
from gpufleet.errors import Infeasible, OutOfMemory
from gpufleet.inputs.measurements import MeasurementRow
from gpufleet.results.accuracy import ScoredFigure
from gpufleet.results.base import Figure
from gpufleet.results.estimate import ServingEstimate

POINT = {
    "model_id": "qwen3-32b",
    "gpu_id": "H100-SXM",
    "engine": "sglang",
    "engine_version": "0.5.1",
    "client": "inferencex",
    "isl": "1000",
    "osl": "500",
    "mean_length_ratio": "0.9",
    "concurrency": "16",
    "num_gpus": "4",
    "tp": "4",
    "attention_dp": "1",
    "ep": "1",
    "ttft_ms": "200",
    "tpot_ms": "10",
    "usable": "yes",
}
BATCH = {
    "model_id": "llama-2-7b",
    "gpu_id": "A100-SXM4-80GB",
    "engine": "TensorRT-LLM",
    "engine_version": "0.9.0",
    "num_gpus": "1",
    "tp": "1",
    "scenario": "fixed_batch",
    "batch_or_concurrency": "8",
    "isl": "128",
    "osl": "100",
    "source": "somewhere",
}


def seconds(value: float) -> Figure:
    return Figure(value=value, unit="s", low=value / 2, high=value * 2)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The last question, answered with 0.1 s to the first token, 10 ms a token, 1.1 s in all and 700 tokens/s."""
    question: dict[str, Any] = {}

    def answer(model: object, gpus: object, **load: object) -> ServingEstimate:
        question.clear()
        question.update(load, gpus=gpus)
        return ServingEstimate(
            scenario="static_batch",
            model="m",
            gpu="g",
            num_gpus=1,
            layout="TP1",
            engine="e",
            weight_format="bf16",
            kv_precision="bf16",
            inputs=[],
            verdict="fits",
            grade="measured",
            ttft_s=seconds(0.1),
            tpot_s=seconds(0.01),
            latency_s=seconds(1.1),
            output_tokens_per_s=Figure(value=700, unit="tokens/s", low=350, high=1400),
            requests_per_s=Figure(value=7, unit="requests/s"),
            batch=8,
            largest_batch=12,
            binding_limit="bandwidth",
        )

    monkeypatch.setattr(api, "estimate", answer, raising=False)
    return question


def throughput(**cells: str) -> dict[str, ScoredFigure]:
    scores = score_throughput(MeasurementRow(2, {**BATCH, **cells}), "mine.csv", ModelFinder())
    return {figure.quantity: figure for figure in scores.figures}


def test_a_serving_point_is_a_closed_loop_with_the_lengths_as_sent(asked: dict[str, Any]) -> None:
    scores = score_serving_point(MeasurementRow(2, POINT), "mine.csv", ModelFinder())
    assert asked["gpus"] == ("H100-SXM", 4)
    assert (asked["input_tokens"], asked["output_tokens"], asked["concurrency"]) == (900, 450, 16)
    assert (asked["waves"], asked["poll_interval_steps"], asked["gather_steps"]) == (10, 1, 0)
    assert (asked["engine"], asked["engine_version"], asked["tp"]) == ("sglang", "0.5.1", 4)
    assert asked["precision"] is None
    found = {figure.quantity: (figure.measured, figure.predicted) for figure in scores.figures}
    assert found == {"ttft": (200, pytest.approx(100)), "tpot": (10, pytest.approx(10))}
    assert {figure.group for figure in scores.figures} == {"inferencex x sglang x H100-SXM"}
    assert {figure.kv_room for figure in scores.figures} == {"room for under 16"}


@pytest.mark.parametrize(
    "marks",
    [{"usable": "", "why_not": "no concurrency"}, {"speculative_suspect": "yes"}, {"mode": "disagg"}],
)
def test_rows_that_the_file_marks_are_left_out(asked: dict[str, Any], marks: dict[str, str]) -> None:
    scores = score_serving_point(MeasurementRow(2, {**POINT, **marks}), "mine.csv", ModelFinder())
    assert scores.left_out
    assert not asked


def test_a_fixed_batch_counts_output_tokens_over_the_whole_time(asked: dict[str, Any]) -> None:
    assert throughput(out_tokens_per_s_total="650")["out_tokens_per_s"].predicted == 700
    assert asked["batch"] == 8


def test_a_rate_that_is_batch_over_tpot_leaves_the_prefill_out(asked: dict[str, Any]) -> None:
    figures = throughput(out_tokens_per_s_total="800", tpot_ms="10")
    rate = figures["out_tokens_per_s"]
    assert (rate.predicted, rate.low, rate.high) == (pytest.approx(800), pytest.approx(400), pytest.approx(1600))
    assert figures["tpot"].predicted == pytest.approx(10)


def test_a_queue_that_never_empties_has_no_batch_of_its_own(asked: dict[str, Any]) -> None:
    throughput(scenario="max_throughput", batch_or_concurrency="all requests queued", out_tokens_per_s_total="650")
    assert asked["full_queue"] is True
    assert "batch" not in asked


def test_a_first_token_row_asks_for_one_token(asked: dict[str, Any]) -> None:
    figures = throughput(scenario="single_stream", batch_or_concurrency="1", osl="1", ttft_ms="80")
    assert (asked["batch"], asked["output_tokens"]) == (1, 1)
    assert figures["ttft"].predicted == pytest.approx(100)


def test_a_prompt_rate_is_prompt_tokens_over_the_first_token(asked: dict[str, Any]) -> None:
    figures = throughput(scenario="single_stream", batch_or_concurrency="1", osl="", in_tokens_per_s_total="1000")
    assert figures["in_tokens_per_s"].predicted == pytest.approx(128 / 0.1)


def test_short_lengths_stand_in_only_for_a_lone_stream(asked: dict[str, Any]) -> None:
    alone = throughput(scenario="single_stream", batch_or_concurrency="1", isl="", osl="", tpot_ms="11")
    assert alone["tpot"].predicted == pytest.approx(10)
    crowd = throughput(isl="", osl="", out_tokens_per_s_total="650")
    assert crowd["out_tokens_per_s"].reason == "lengths not stated"


def test_text_where_a_number_belongs_is_the_reason_of_that_row(asked: dict[str, Any]) -> None:
    figures = throughput(batch_or_concurrency="many", out_tokens_per_s_total="650", latency_ms="fast")
    assert "batch_or_concurrency is not a number" in str(figures["out_tokens_per_s"].reason)
    assert figures["latency"].measured is None


def test_what_the_api_refuses_is_the_reason(asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> ServingEstimate:
        raise OutOfMemory("does not fit: short by 3 GiB")

    monkeypatch.setattr(api, "estimate", refuse, raising=False)
    scores = score_throughput(MeasurementRow(2, {**BATCH, "latency_ms": "900"}), "mine.csv", ModelFinder())
    assert (scores.ran, scores.fits) == (True, False)
    assert scores.figures[0].reason == "does not fit: short by 3 GiB"


@pytest.mark.parametrize(
    ("refusal", "fits", "reason"),
    [
        (OutOfMemory("llama-2-7b in fp16 does not fit 1x A100-SXM4-80GB (TP1)"), False, "oom: predicted does not fit"),
        (Infeasible("A100-SXM4-80GB does not run fp8 weights"), None, "A100-SXM4-80GB does not run fp8 weights"),
    ],
)
def test_only_the_memory_verdict_is_an_answer_to_a_run_that_failed(
    asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch, refusal: Infeasible, fits: bool | None, reason: str
) -> None:
    def refuse(*_: object, **__: object) -> ServingEstimate:
        raise refusal

    monkeypatch.setattr(api, "estimate", refuse)
    cells = {**BATCH, "out_tokens_per_s_total": "OOM"}
    scores = score_throughput(MeasurementRow(2, cells), "mine.csv", ModelFinder())
    assert (scores.ran, scores.fits) == (False, fits)
    assert [figure.reason for figure in scores.figures] == [reason]
