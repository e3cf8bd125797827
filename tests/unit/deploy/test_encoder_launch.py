"""The command of an encoder says what the answer assumes, in flags that the engine documents."""

from __future__ import annotations

import shlex
from dataclasses import replace

import pytest

from gpufleet.api import estimate_encoder, plan_encoder_batch, plan_encoder_serve
from gpufleet.catalog.engine_flags import engine_flags
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.models import shipped_encoder
from gpufleet.catalog.runtimes import find_runtime
from gpufleet.deploy.encoders import EncoderReplica, encoder_launch
from gpufleet.errors import OurBug
from gpufleet.results.base import Launch

# huggingface/text-embeddings-inference README of 1.9; michaelfeil/infinity docs/docs/cli_v2.md and deploy.md;
# docs.vllm.ai 0.11 pooling models and engine arguments; Softcatala/whisper-ctranslate2 commandline.py
DOCUMENTED = {
    "text-embeddings-inference": {"--model-id", "--dtype", "--max-batch-tokens", "--max-client-batch-size"},
    "infinity": {"--model-id", "--dtype", "--batch-size", "--port", "--engine", "--compile", "--no-bettertransformer"},
    "vllm": {"--runner", "--dtype", "--max-num-batched-tokens", "--max-num-seqs"},
    "faster-whisper": {
        *("--model", "--model_directory", "--device", "--compute_type"),
        *("--beam_size", "--batched", "--batch_size"),
    },
}
OF_DOCKER = {"--gpus", "--device=/dev/kfd", "--device=/dev/dri", "--group-add", "--network"}


def launch_of(model: str, gpu: str, engine: str, **asked: object) -> Launch:
    tokens = {} if "whisper" in model else {"input_tokens": 200}
    found = estimate_encoder(model, gpu, engine=engine, **tokens, **asked).launch
    assert found is not None
    return found


def value_of(launch: Launch, flag: str) -> str:
    return launch.arguments[launch.arguments.index(flag) + 1]


@pytest.mark.parametrize(
    ("engine", "model", "gpu"),
    [
        ("text-embeddings-inference", "bge-base-en-v1.5", "T4"),
        ("infinity", "bge-m3", "MI300X"),
        ("infinity", "bge-m3", "V100"),
        ("vllm", "xlm-roberta-large", "H100"),
        ("faster-whisper", "whisper-large-v3", "L4"),
    ],
)
def test_no_flag_is_invented(engine: str, model: str, gpu: str) -> None:
    launch = launch_of(model, gpu, engine, batch=64)
    flags = {word for word in launch.arguments if word.startswith("--")}
    assert flags <= DOCUMENTED[engine] | OF_DOCKER
    assert shlex.split(launch.command) == launch.arguments
    assert sum(launch.groups) == len(launch.arguments)


@pytest.mark.parametrize(
    ("gpu", "tag"),
    [
        ("T4", "turing-1.9"),
        ("A100", "1.9"),
        ("A30", "1.9"),
        ("A10G", "86-1.9"),
        ("RTX-3090", "86-1.9"),
        ("L4", "89-1.9"),
        ("RTX-4090", "89-1.9"),
        ("H100", "hopper-1.9"),
        ("B200", "100-1.9"),
        ("RTX-5090", "120-1.9"),
    ],
)
def test_the_image_is_the_one_of_the_compute_capability(gpu: str, tag: str) -> None:
    """Table of images in the README of text-embeddings-inference 1.9."""
    launch = launch_of("bge-base-en-v1.5", gpu, "tei")
    assert f"ghcr.io/huggingface/text-embeddings-inference:{tag}" in launch.arguments


def test_a_pass_holds_the_batch_of_the_answer_and_the_longest_text() -> None:
    large, small = (launch_of("bge-base-en-v1.5", "L4", "tei", batch=batch) for batch in (100, 1))
    assert value_of(large, "--max-batch-tokens") == "20000"
    assert value_of(large, "--max-client-batch-size") == "100"
    assert value_of(small, "--max-batch-tokens") == "512"
    assert "--max-client-batch-size" not in small.arguments


@pytest.mark.parametrize(("precision", "dtype"), [("fp32", "float32"), ("fp16", "float16")])
def test_the_format_is_the_one_that_was_planned(precision: str, dtype: str) -> None:
    for engine in ("tei", "infinity", "vllm"):
        assert value_of(launch_of("bge-base-en-v1.5", "L4", engine, precision=precision), "--dtype") == dtype


def test_whisper_is_started_by_its_name_with_the_beams_and_windows_of_the_answer() -> None:
    launch = launch_of("openai/whisper-large-v3-turbo", "A10G", "faster-whisper", batch=8, precision="int8")
    assert value_of(launch, "--model") == "large-v3-turbo"
    assert value_of(launch, "--compute_type") == "int8_bfloat16"
    assert (value_of(launch, "--beam_size"), value_of(launch, "--batch_size")) == ("5", "8")
    distilled = launch_of("distil-whisper/distil-large-v3", "T4", "faster-whisper")
    assert value_of(distilled, "--model") == "distil-large-v3"
    assert value_of(distilled, "--compute_type") == "float16"


def test_a_library_has_no_command() -> None:
    for model, asked in (("vit-base", {}), ("bge-base-en-v1.5", {"input_tokens": 64, "engine": "transformers"})):
        assert estimate_encoder(model, "L4", **asked).launch is None


@pytest.mark.slow
def test_plans_start_what_they_rank() -> None:
    service = plan_encoder_serve("bge-base-en-v1.5", rate="300/s", input_tokens=128, slo="latency.p95<50ms")
    job = plan_encoder_batch("bge-base-en-v1.5", requests="10M", deadline="24h", input_tokens=200)
    for row in (*service.deployments, *job.deployments):
        assert row.launch is not None
        assert row.launch.engine.casefold().startswith(row.engine)


def test_copies_that_share_a_machine_get_a_gpu_each() -> None:
    found = plan_encoder_serve("bge-base-en-v1.5", rate="20k/s", input_tokens=500, clouds=["aws"], gpus=["A100"])
    launch = found.answer.launch
    assert launch.replicas_per_machine == found.answer.replicas / found.answer.instance_count > 1
    assert value_of(launch, "--gpus") == "device=0"
    assert "a port and a GPU of its own" in launch.notes[-1]


def test_a_folder_without_a_known_checkpoint_is_to_be_named() -> None:
    model, gpu = shipped_encoder("bert-base"), load_catalog().accelerators["L4"]
    replica = EncoderReplica(model, model.towers[0], None, False, find_runtime("tei"), gpu, "fp16", 8, 128, 1)
    assert encoder_launch(replica).notes == [
        "Put the hub id or folder of your checkpoint in place of path/to/bert-base-uncased"
    ]
    known = encoder_launch(replace(replica, checkpoint="BAAI/bge-base-en-v1.5"))
    assert known.notes == []


@pytest.mark.parametrize(("runtime", "flag"), [("tei", "--max-batch-tokens"), ("vllm", "--runner")])
def test_a_command_is_of_flags_that_its_engine_has(runtime: str, flag: str) -> None:
    model, gpu = shipped_encoder("bert-base"), load_catalog().accelerators["L4"]
    found = find_runtime(runtime)
    flags = engine_flags(found.name)
    assert flags is not None
    replica = EncoderReplica(model, model.towers[0], None, False, found, gpu, "fp16", 64, 128, 1, flags=flags)
    assert flag in encoder_launch(replica).arguments
    without = {name: each for name, each in flags.by_spelling.items() if name != flag}
    with pytest.raises(OurBug, match=f"{flag} is no flag"):
        encoder_launch(replace(replica, flags=replace(flags, by_spelling=without)))
