"""What an engine is served with is in its command, under the flags of its version, and moves no figure."""

from __future__ import annotations

from typing import Any

import pytest

import gpufleet
from gpufleet import ServeRequest
from gpufleet.errors import GpufleetError, Infeasible, UnknownName, UsageError
from gpufleet.results.base import Launch

QWEN = "qwen3-0.6b"
LOAD: dict[str, Any] = {"input_tokens": 500, "output_tokens": 100, "concurrency": 4}
WORDS = {"tool_call_parser": "hermes", "reasoning_parser": "qwen3", "chat_template": "my chat.jinja"}


def launch_of(gpus: str = "L4:1", **said: Any) -> Launch:
    found = gpufleet.estimate(QWEN, gpus, **LOAD, **said).launch
    assert found is not None
    return found


def value_of(launch: Launch, flag: str) -> str:
    return launch.arguments[launch.arguments.index(flag) + 1]


@pytest.mark.parametrize("version", ["0.11.2", "0.19.1", None])
def test_vllm_is_told_under_its_flags_and_to_call_tools(version: str | None) -> None:
    launch = launch_of(engine_version=version, dtype="float16", **WORDS)
    told = [value_of(launch, flag) for flag in ("--dtype", "--tool-call-parser", "--reasoning-parser")]
    assert told == ["float16", "hermes", "qwen3"]
    assert "--enable-auto-tool-choice" in launch.arguments
    assert "--chat-template 'my chat.jinja'" in launch.command
    assert "--enable-auto-tool-choice" not in launch_of(reasoning_parser="qwen3").arguments


def test_other_engines_say_the_same_in_their_words() -> None:
    sglang = launch_of(engine="sglang", dtype="bf16", tool_call_parser="qwen25")
    assert (value_of(sglang, "--dtype"), value_of(sglang, "--tool-call-parser")) == ("bfloat16", "qwen25")
    trtllm = launch_of(engine="tensorrt-llm==1.2", dtype="half", tool_call_parser="qwen3", chat_template="t.jinja")
    assert (value_of(trtllm, "--tool_parser"), value_of(trtllm, "--chat_template")) == ("qwen3", "t.jinja")
    assert trtllm.options == "dtype: float16\n"


def test_figures_are_those_of_the_checkpoint() -> None:
    was = gpufleet.estimate(QWEN, "L4:1", **LOAD)
    now = gpufleet.estimate(QWEN, "L4:1", **LOAD, dtype="float16", **WORDS)
    for figure in ("tpot_s", "ttft_s", "output_tokens_per_s", "largest_batch"):
        assert getattr(now, figure) == getattr(was, figure)
    assert now.input_hash != was.input_hash


def test_fit_plan_and_replay_take_the_same_words() -> None:
    fitted = gpufleet.fit(QWEN, "L4:1", dtype="float16", **WORDS).launch
    plan = gpufleet.plan_serve(ServeRequest(QWEN, 2.0, 500, 100, gpus=["L4"], clouds=["gcp"]), dtype="bf16", **WORDS)
    assert fitted is not None
    assert plan.answer.launch is not None
    assert (value_of(fitted, "--dtype"), value_of(plan.answer.launch, "--dtype")) == ("float16", "bfloat16")
    assert value_of(plan.answer.launch, "--tool-call-parser") == "hermes"
    assert plan.answer.weight_format == "bf16"
    replay = gpufleet.simulate_serving(QWEN, "L4:1", rate="1/s", requests=20, input_tokens=100, output_tokens=20,
                                       dtype="float16", **WORDS)  # fmt: skip
    assert replay.weight_format == "fp16"


@pytest.mark.parametrize("gpu", ["T4", "V100-SXM2-16GB"])
def test_bf16_is_refused_where_the_card_has_none(gpu: str) -> None:
    version = {"engine_version": "0.19.1"} if gpu.startswith("V") else {}
    with pytest.raises(Infeasible):
        gpufleet.estimate(QWEN, f"{gpu}:1", dtype="bfloat16", **LOAD, **version)
    assert gpufleet.fit(QWEN, f"{gpu}:1", dtype="bfloat16", **version).verdict == "does not fit"
    plan = gpufleet.plan_serve(ServeRequest(QWEN, 2.0, 500, 100, gpus=[gpu, "L4"]), dtype="bfloat16", **version)
    assert {d.gpu for d in plan.deployments} == {"L4"}
    for dtype in ("float16", "auto", None):
        assert value_of(launch_of(f"{gpu}:1", dtype=dtype, **version), "--dtype") == "float16"


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ({"dtype": "float32"}, UnknownName),
        ({"dtype": "float16", "precision": "bf16"}, UsageError),
        ({"dtype": "bfloat16", "precision": "fp16"}, UsageError),
        ({"tool_call_parser": "hermess"}, UnknownName),
        ({"tool_call_parser": "qwen25"}, UnknownName),
        ({"engine": "sglang", "tool_call_parser": "hermess"}, UnknownName),
        ({"engine": "tensorrt-llm==1.1", "tool_call_parser": "qwen3"}, UsageError),
        ({"engine": "llama.cpp", "chat_template": "t.jinja"}, UsageError),
    ],
)
def test_what_the_version_does_not_take_is_refused(said: dict[str, Any], error: type[GpufleetError]) -> None:
    with pytest.raises(error) as refused:
        gpufleet.estimate(QWEN, "L4:1", **LOAD, **said)
    assert refused.value.exit_code == 2


def test_a_parser_is_of_one_engine() -> None:
    asked = ServeRequest(QWEN, 2.0, 500, 100, gpus=["L4"], engine="all")
    with pytest.raises(UsageError):
        gpufleet.plan_serve(asked, tool_call_parser="hermes")
