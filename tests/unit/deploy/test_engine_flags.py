"""Commands are made of flags that their engine's version has; what is not is found when a command is built."""

from __future__ import annotations

import pytest

from gpufleet.catalog.engine_flags import KNOWN, TABLES, engine_flags, flags_by_version
from gpufleet.domain.engine_flags import EngineFlags
from gpufleet.errors import OurBug

VLLM = ["vllm", "serve", "meta-llama/Llama-3.1-8B-Instruct"]
SGLANG = ["python", "-m", "sglang.launch_server", "--model-path", "meta-llama/Llama-3.1-8B-Instruct"]
TRTLLM = ["trtllm-serve", "meta-llama/Llama-3.1-8B-Instruct"]
TEI = ["text-embeddings-router", "--model-id", "BAAI/bge-base-en-v1.5"]


def flags_of(engine: str, version: str | None = None) -> EngineFlags:
    """The table of a version."""
    found = engine_flags(engine, version)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("engine", "asked", "found", "is_exact"),
    [
        ("vllm", None, "0.33.0", True),
        ("vllm", "0.11.0", "0.11.2", True),
        ("vllm", "0.19.1", "0.19.1", True),
        ("vllm", "0.20.1", "0.19.1", False),
        ("vllm", "0.6.4", "0.11.2", False),
        ("sglang", "0.5.9", "0.5.8.post1", True),
        ("tensorrt-llm", "1.2.1", "1.2", True),
        ("text-embeddings-inference", "1.9.3", "1.9.3", True),
    ],
)
def test_the_nearest_version_with_a_table_is_taken(engine: str, asked: str | None, found: str, is_exact: bool) -> None:
    flags = flags_of(engine, asked)
    assert (flags.version, flags.is_exact) == (found, is_exact)


def test_an_engine_without_a_table_is_held_to_none() -> None:
    assert engine_flags("llama.cpp") is None
    assert sorted(file.stem for file in TABLES.iterdir()) == list(KNOWN)


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm", "text-embeddings-inference"])
def test_each_flag_of_a_table_is_one_of_its_version(engine: str) -> None:
    for version, flags in flags_by_version(engine).items():
        table = EngineFlags.of(engine, version, flags)
        groups = [
            [flag.name, *([flag.choices[0] if flag.choices else "x"] if flag.takes_value else [])] for flag in flags
        ]
        assert table.faults([["engine"], *groups]) == []


PLANTED = [
    ("vllm", "0.33.0", [VLLM, ["--tensor-parallel", "2"]], "--tensor-parallel is no flag"),
    ("vllm", "0.19.1", [VLLM, ["--task", "embed"]], "--task is no flag"),
    ("vllm", "0.11.2", [VLLM, ["--shutdown-timeout", "60"]], "--shutdown-timeout is no flag"),
    ("vllm", "0.11.2", [VLLM, ["--max_num_seqs", "64"]], "--max-num-seqs"),
    ("vllm", "0.33.0", [VLLM, ["--max-num-seqs"]], "takes a value"),
    ("vllm", "0.33.0", [VLLM, ["--enable-expert-parallel", "yes"]], "takes no value"),
    ("vllm", "0.11.2", [VLLM, ["--kv-cache-dtype", "float16"]], "has no float16"),
    ("vllm", "0.33.0", [VLLM, ["--scheduling-policy", "fcfs-first"]], "nearest: fcfs"),
    ("vllm", "0.33.0", [VLLM, ["--gpu-memory-utilisation", "0.9"]], "--gpu-memory-utilization"),
    ("vllm", "0.33.0", [VLLM, ["--swap-space-gib", "4"]], "is no flag"),
    ("sglang", "0.5.8", [SGLANG, ["--tp", "2"]], "--tp is no flag"),
    ("sglang", "0.5.23", [SGLANG, ["--dp", "2"]], "--dp is no flag"),
    ("sglang", "0.5.23", [SGLANG, ["--context-len", "8192"]], "--context-length"),
    ("sglang", "0.5.8", [SGLANG, ["--enable-mixed-chunk", "1"]], "takes no value"),
    ("sglang", "0.5.8", [SGLANG, ["--kv-cache-dtype", "fp8"]], "has no fp8"),
    ("sglang", "0.5.8", [["python", "-m", "sglang.launch_server", "--model-dir", "x"]], "--model-dir is no flag"),
    ("tensorrt-llm", "1.1", [TRTLLM, ["--tensor_parallel_size", "2"]], "--tensor_parallel_size is no flag"),
    ("tensorrt-llm", "1.1", [TRTLLM, ["--config", "o.yaml"]], "--config is no flag"),
    ("tensorrt-llm", "1.2", [TRTLLM, ["--max-batch-size", "8"]], "--max_batch_size"),
    ("text-embeddings-inference", "1.9.3", [TEI, ["--max-tokens", "8192"]], "--max-tokens is no flag"),
]


@pytest.mark.parametrize(("engine", "version", "command", "said"), PLANTED, ids=lambda value: str(value)[:40])
def test_a_planted_fault_is_found(engine: str, version: str, command: list[list[str]], said: str) -> None:
    flags = flags_of(engine, version)
    assert any(said in fault for fault in flags.faults(command)), flags.faults(command)
    with pytest.raises(OurBug):
        flags.held(command)
