"""Questions asked in Python by the words of the command line."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import gpufleet
from gpufleet import BatchRequest, EncoderServeRequest, MixRequest, ServeRequest
from gpufleet.api.spoken import spoken
from gpufleet.domain.token_counts import TokenCounts
from gpufleet.errors import GpufleetError, UnknownName
from gpufleet.questions.fields import PlanRequest

CHAT = {"rate": "10/s", "input_tokens": 1000, "output_tokens": "300"}


def test_text_is_read_as_its_option_is_and_anything_else_is_taken_as_it_is() -> None:
    asked = spoken(ServeRequest, "llama-3.1-8b", {**CHAT, "clouds": "aws, gcp", "headroom": "30%", "budget": "480/day"})
    expected = ServeRequest(
        "llama-3.1-8b", 10.0, 1000, 300.0, clouds=["aws", "gcp"], headroom=0.3, budget_usd_per_hour=20.0
    )
    assert asked == expected
    assert spoken(ServeRequest, "llama-3.1-8b", {**CHAT, "rate": 10, "clouds": ["aws"]}).clouds == ["aws"]


def test_a_request_is_asked_again_with_other_words() -> None:
    chat = spoken(ServeRequest, "llama-3.1-8b", CHAT)
    assert spoken(ServeRequest, chat, {}) == chat
    assert spoken(ServeRequest, chat, {"rate": "600/min", "regions": "eu"}).regions == ["eu"]


def test_lengths_that_differ_are_said_as_on_the_command_line() -> None:
    counts = spoken(ServeRequest, "llama-3.1-8b", {**CHAT, "input_tokens": "mean=1200,p95=4000"}).input_tokens
    assert isinstance(counts, TokenCounts)
    assert counts.mean == 1200


@pytest.mark.parametrize(
    ("kind", "said", "told"),
    [
        (ServeRequest, {}, "rate is missing; expected it beside the model, such as rate='10/s'"),
        (BatchRequest, {"requests": "1M", "input_tokens": 1, "output_tokens": 1}, "deadline_s is missing"),
        (ServeRequest, {**CHAT, "rat": "5/s"}, "unknown word of a question 'rat'. Did you mean rate"),
        (ServeRequest, {**CHAT, "model": "another"}, "unknown word of a question 'model'"),
        (ServeRequest, {**CHAT, "input_tokens": "2z"}, "input_tokens: cannot read a number of tokens; found '2z'"),
        (ServeRequest, {**CHAT, "budget": "lots"}, "cannot read USD per time"),
        (EncoderServeRequest, {"rate": "5/s", "input_tokens": "mean=5,p95=9"}, "are not planned for encoders"),
    ],
)
def test_a_word_that_is_wrong_is_one_sentence(kind: type[PlanRequest], said: dict[str, Any], told: str) -> None:
    with pytest.raises(GpufleetError) as refusal:
        spoken(kind, "bge-base-en-v1.5", said)
    assert told in str(refusal.value)


def test_words_and_a_request_lead_to_the_same_plan() -> None:
    words = gpufleet.plan_serve("llama-3.1-8b", gpus="L4", clouds="aws", **CHAT)  # type: ignore[arg-type]
    request = gpufleet.plan_serve(ServeRequest("llama-3.1-8b", 10.0, 1000, 300, gpus=["L4"], clouds=["aws"]))
    assert words.deployments == request.deployments
    assert words.input_hash == request.input_hash


@pytest.mark.slow
def test_a_job_and_an_encoder_are_asked_by_words() -> None:
    job = gpufleet.plan_batch(
        "llama-3.1-8b", requests="10k", input_tokens="1k", output_tokens=200, deadline="24h", gpus="L4", max_machines=3
    )
    assert job.deadline_s == 86_400
    speech = gpufleet.plan_encoder_batch("whisper-large-v3", requests=100, audio="5min", deadline="12h", gpus="L4")
    assert speech.audio_s == 300
    texts = gpufleet.plan_encoder_serve("bge-base-en-v1.5", rate="300/s", input_tokens=128, gpus="L4")
    assert texts.rate_requests_per_s == 300


def test_every_function_of_a_plan_takes_a_model_or_a_request() -> None:
    for ask in (gpufleet.plan_serve, gpufleet.plan_batch, gpufleet.plan_encoder_serve, gpufleet.plan_encoder_batch):
        assert list(inspect.signature(ask).parameters) == ["request", "catalog", "said"]


@pytest.mark.parametrize(
    "wrong",
    [{"input_tokens": None}, {"input_tokens": "x"}, {"clouds": 5}, {"clouds": [1]}, {"headroom": [1]}, {"rate": None},
     {"fleet_today": 3}, {"fractions": "maybe"}, {"zones": 1.5}, {"slo": 5}, {"gpus": {"L4": 1}}, {"rate": True}],
    ids=str,
)  # fmt: skip
def test_what_no_value_of_a_word_can_be_is_refused_in_one_sentence(wrong: dict[str, object]) -> None:
    said = {"rate": 1.0, "input_tokens": 100, "output_tokens": 10, **wrong}
    with pytest.raises(GpufleetError) as refused:
        gpufleet.plan_serve("llama-3.1-8b", **said)
    assert "\n" not in str(refused.value)


def test_what_a_mix_is_held_to_is_read_as_its_options_are() -> None:
    asked = spoken(MixRequest, MixRequest(), {"time_limit": "1min", "quotas": "H100=1", "tolerance": "20%"})
    assert asked == MixRequest(time_limit_s=60.0, quotas=["H100=1"], tolerance=0.2)
    with pytest.raises(UnknownName):
        spoken(MixRequest, MixRequest(), {"quota_": ["H100=1"]})
