"""The version of a question picks the container image, wherever one is written."""

from __future__ import annotations

import csv
from typing import Any

import pytest

import gpufleet
from gpufleet.catalog.engine_images import TABLE, engine_images
from gpufleet.errors import Infeasible, UsageError

LOAD: dict[str, Any] = {"input_tokens": 500, "output_tokens": 100, "concurrency": 4}


@pytest.mark.parametrize(
    ("engine", "version", "machine", "image"),
    [
        ("vllm", "0.19.1", ("nvidia", "x86_64"), "vllm/vllm-openai:v0.19.1"),
        ("vllm", "0.8.5.post1", ("nvidia", "x86_64"), "vllm/vllm-openai:v0.8.5.post1"),
        ("vllm", "0.30", ("nvidia", "arm64"), "vllm/vllm-openai:v0.30.0"),
        ("vllm", None, ("nvidia", "x86_64"), "vllm/vllm-openai:v0.33.0"),
        ("vllm", "0.9.2", ("nvidia", "arm64"), None),
        ("vllm", "0.12.0rc6", ("nvidia", "x86_64"), None),
        ("vllm", "nightly", ("nvidia", "x86_64"), None),
        ("vllm", "0.19.1", ("amd", "x86_64"), "vllm/vllm-openai-rocm:v0.19.1"),
        ("vllm", "0.11.2", ("amd", "x86_64"), "rocm/vllm:rocm7.0.0_vllm_0.11.2_20251210"),
        ("sglang", "0.4.7.post1", ("nvidia", "x86_64"), "lmsysorg/sglang:v0.4.7.post1-cu124"),
        ("sglang", "0.5.9", ("amd", "x86_64", "CDNA3"), "lmsysorg/sglang:v0.5.9-rocm700-mi30x"),
        ("sglang", "0.5.9", ("amd", "x86_64", "CDNA4"), "lmsysorg/sglang:v0.5.9-rocm700-mi35x"),
        ("sglang", "0.5.9", ("amd", "x86_64", "CDNA2"), None),
        ("sglang", "0.4.10", ("nvidia", "x86_64"), "lmsysorg/sglang:v0.4.10-cu126"),
        ("sglang", "0.5.8.post1", ("nvidia", "arm64"), "lmsysorg/sglang:v0.5.8.post1"),
        ("tensorrt-llm", "1.2", ("nvidia", "x86_64"), "nvcr.io/nvidia/tensorrt-llm/release:1.2.0"),
        ("tensorrt-llm", "1.3.0rc25", ("nvidia", "x86_64"), "nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc25"),
        ("tensorrt-llm", "0.19.0", ("nvidia", "x86_64"), None),
        ("text-embeddings-inference", "1.8.3", ("nvidia", "x86_64", "8.9"), f"{'ghcr.io/huggingface/'}"
         "text-embeddings-inference:89-1.8"),
        ("text-embeddings-inference", "1.5", ("nvidia", "x86_64", "10.0"), None),
        ("llama.cpp", "b4000", ("nvidia", "x86_64"), None),
    ],
)  # fmt: skip
def test_a_version_has_the_tag_of_its_row_or_of_its_rule(
    engine: str, version: str | None, machine: tuple[str, ...], image: str | None
) -> None:
    assert engine_images(engine).image(version, *machine) == image


def test_every_row_says_where_it_is_from_and_reads_as_an_image() -> None:
    with TABLE.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert all(row["source"] and row["date"] and row["hosts"] and ":" in row["image"] for row in rows)
    assert all(bool(row["version"]) + bool(row["since"]) <= 1 for row in rows)


def test_the_version_of_a_question_is_in_its_image() -> None:
    for said in ({"engine": "vllm==0.19.1"}, {"engine_version": "0.19.1"}):
        launch = gpufleet.estimate("qwen3-0.6b", "L4:1", **LOAD, **said).launch
        assert launch is not None
        assert launch.image == "vllm/vllm-openai:v0.19.1"


def test_an_encoder_has_the_image_and_the_flags_of_its_version() -> None:
    launch = gpufleet.estimate_encoder("bge-base-en-v1.5", "L4", engine="tei==1.8", input_tokens=200).launch
    assert launch is not None
    assert launch.image in launch.arguments
    assert launch.image is not None
    assert launch.image.endswith(":89-1.8")
    assert any("1.9.3, the nearest version" in note for note in launch.notes)
    with pytest.raises(Infeasible):
        gpufleet.estimate_encoder("bge-base-en-v1.5", "B200", engine="tei==1.5", input_tokens=200)
    with pytest.raises(UsageError):
        gpufleet.estimate_encoder("bge-base-en-v1.5", "L4", engine="tei==new", input_tokens=200)
