"""Serving points replayed as they were measured: clients that start together, and lengths as the client drew them."""

from __future__ import annotations

import numpy as np
import pytest

from gpufleet import estimate
from gpufleet.accuracy.conditions import EngineLabel
from gpufleet.accuracy.models import ModelFinder
from gpufleet.accuracy.serving import Setup
from gpufleet.accuracy.serving_points import (
    among_others,
    experiment_of,
    length_spreads,
    load_of,
    replay_serving_point,
    score_serving_point,
)
from gpufleet.api.simulated_copies import CopyQuestion, copy_of
from gpufleet.inputs.measurements import MeasurementRow
from gpufleet.performance.serving import Client
from gpufleet.simulate.arrivals import burst_times_s
from gpufleet.simulate.cluster import Copy, EngineRules
from gpufleet.simulate.generated import requests_of

POINT = {
    "engine": "vllm", "engine_version": "0.15.1", "model_id": "llama-3.1-8b", "gpu_id": "H100-SXM", "num_gpus": "1",
    "tp": "1", "isl": "1000", "osl": "200", "concurrency": "16", "ttft_ms": "60", "tpot_ms": "9", "usable": "yes",
}  # fmt: skip
FEW = requests_of(burst_times_s(4), np.full(4, 500), np.full(4, 100))


def copy_at(version: str, gpu: str = "H100") -> Copy:
    return copy_of(CopyQuestion("llama-3.1-8b", gpu, engine="vllm", engine_version=version), FEW).copy


def test_a_replayed_point_is_near_the_closed_form_and_is_the_same_again() -> None:
    row, models = MeasurementRow(2, POINT), ModelFinder()
    replayed, again = (replay_serving_point(row, "mine.csv", models).figures for _ in range(2))
    assert replayed == again
    for figure, other in zip(replayed, score_serving_point(row, "mine.csv", models).figures, strict=True):
        assert figure.quantity == other.quantity
        assert figure.predicted == pytest.approx(other.predicted, rel=0.4)
        assert (figure.low or 0) < (figure.predicted or 0) < (figure.high or 0)


def test_clients_start_together_and_send_as_many_prompts_as_stated() -> None:
    row = MeasurementRow(2, {**POINT, "waves": "3"})
    setup = Setup.of(row, ModelFinder())
    experiment = experiment_of(row, setup, load_of(row, setup.engine))
    assert (experiment.clients, len(experiment.draws[0])) == (16, 48)
    assert not experiment.draws[0].arrival_s.any()


def test_lengths_are_spread_as_stated_and_alike_ones_do_not_stay_in_step() -> None:
    stated, alike = (load_of(MeasurementRow(2, {**POINT, "mean_length_ratio": r}), VLLM) for r in ("0.9", "1"))
    assert length_spreads(stated, VLLM) == pytest.approx((0.2, 0.2))
    assert length_spreads(alike, VLLM)[0] == 0 < length_spreads(alike, VLLM)[1]
    assert length_spreads(alike, EngineLabel("sglang")) == (0, 0)


def test_the_first_engine_of_vllm_takes_host_time_for_every_further_sequence() -> None:
    """20 ms a step at 200 sequences: vllm issues/6801; one sequence takes what was measured of one."""
    old, new = copy_at("0.7.3", "A100-SXM4-80GB").table, copy_at("0.11.0", "A100-SXM4-80GB").table
    crowd = int(np.searchsorted(old.batches, 200))
    beyond = old.decode_s[crowd, 0] - new.decode_s[np.searchsorted(new.batches, old.batches[crowd]), 0]
    assert beyond == pytest.approx(1e-4 * old.batches[crowd], rel=0.4)


def test_an_engine_that_schedules_ahead_answers_a_step_later() -> None:
    """--async-scheduling is vLLM's default from 0.14 on: vllm pull/27614."""
    assert copy_at("0.9.2").rules.late_steps == 0
    assert copy_at("0.19.0").rules.late_steps == 1
    assert copy_at("0.19.0").rules.stream_s > 0


def test_overlapped_scheduling_hands_tokens_on_a_step_later() -> None:
    """The default of SGLang from 0.4 on (pull/2067) and of TensorRT-LLM from 0.20 on (pull/4174)."""
    for engine, older, newer in (("sglang", "0.3.0", "0.4.0"), ("tensorrt-llm", "0.14.0", "1.2.0")):
        rules = [copy_of(CopyQuestion("llama-3.1-8b", "H100", engine=engine, engine_version=v), FEW).copy.rules
                 for v in (older, newer)]  # fmt: skip
        assert [each.late_steps for each in rules] == [0, 1]


def test_requests_alike_to_the_token_are_replayed_and_their_clients_come_back_in_groups() -> None:
    alike = MeasurementRow(2, {**POINT, "client": "AsyncLLM (in process)", "concurrency": "32", "isl": "1024"})
    models = ModelFinder()
    setup = Setup.of(alike, models)
    experiment = experiment_of(alike, setup, load_of(alike, setup.engine))
    assert len(set(experiment.draws[0].output_tokens)) == 1
    (ttft, tpot), (usual_ttft, usual_tpot) = (
        [figure.predicted or 0 for figure in score_serving_point(row, "mine.csv", models).figures]
        for row in (alike, MeasurementRow(2, {**alike.cells, "client": ""}))
    )
    assert ttft > 2 * usual_ttft
    assert tpot < usual_tpot


def test_clients_of_closed_loops_see_first_tokens_later_than_the_engine_has_them() -> None:
    """Fitted to the closed loops of serving_points.csv."""
    vllm, late, new = (
        among_others(LOAD, EngineLabel(*of)) for of in (("vllm", "0.19.0"), ("trtllm", "1.0.0rc3"), TRTLLM)
    )
    assert vllm.late_steps == 2.25
    assert (late.late_steps, late.late_s) == (3.25, 0.085)
    assert (new.late_steps, new.late_s) == (5, 0.0)
    assert rules_for(vllm).late_steps == 2.25


def test_a_fitted_wait_for_polling_beyond_what_the_simulator_plays_comes_late() -> None:
    """SGLang's fitted share of the interval is about 0.6; a request that comes at any moment waits half of it."""
    asked = CopyQuestion("llama-3.1-8b", "H100", engine="sglang", engine_version="0.5.9")
    every, polled = (copy_of(asked, FEW, Client(poll_interval_steps=n)).copy.rules for n in (1.0, 31.0))
    assert 0.05 * 30 < polled.late_steps - every.late_steps <= 0.5 * 30


def test_prompts_that_wait_for_others_come_later_and_disturb_less() -> None:
    """batch_wait_timeout_iters and batch_wait_max_tokens_ratio of TensorRT-LLM, replayed and in closed form."""
    asked = {"concurrency": 32, "input_tokens": 1000, "output_tokens": 250, "engine": "trtllm"}
    wait = {"batch_wait_steps": 20.0, "batch_wait_ratio": 0.9}
    for run in ({}, {"requests": 640}):
        plain, waiting = (estimate("llama-3.1-8b", "H100:1", **asked, **run, **words) for words in ({}, wait))
        steps = (waiting.ttft_s.value - plain.ttft_s.value) / plain.tpot_s.value
        assert 5 < steps < 20
        assert waiting.tpot_s.value < plain.tpot_s.value


def test_a_host_that_the_device_waits_for_takes_longer_in_older_machines() -> None:
    """AccelMark, Qwen2.5-0.5B in bf16 under vLLM 0.7.3: 10 requests/s take 3.0 ms a token on H100, 6.0 on A100."""
    found = {}
    for gpu in ("H100-SXM", "A100-SXM4-80GB"):
        for version in ("0.7.3", "0.19.0"):
            words = {"engine": "vllm", "engine_version": version, "input_tokens": 100, "output_tokens": 200}
            one, many = (estimate("qwen2.5-0.5b", (gpu, 1), concurrency=c, **words).tpot_s.value for c in (1, 65))
            found[gpu, version] = many - one
    assert found["A100-SXM4-80GB", "0.7.3"] - found["H100-SXM", "0.7.3"] > 64 * 0.00005
    assert found["A100-SXM4-80GB", "0.19.0"] < 2 * found["H100-SXM", "0.19.0"]


def test_prompts_stand_apart_where_the_device_waits_for_the_host() -> None:
    """vLLM's first engine makes steps of prompts alone, and launches their kernels while the device waits."""
    assert copy_at("0.7.3").rules.waits_for_host
    assert not copy_at("0.9.2").rules.waits_for_host


def rules_for(client: Client) -> EngineRules:
    return copy_of(CopyQuestion("llama-3.1-8b", "H100", engine="vllm", engine_version="0.19.0"), FEW, client).copy.rules


VLLM, TRTLLM = EngineLabel("vllm", "0.15.1"), ("trtllm", "1.2.0rc6")
LOAD = load_of(MeasurementRow(2, POINT), VLLM)
