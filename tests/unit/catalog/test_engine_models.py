"""A version of an engine runs the families that it had: older ones are refused, what nobody looked at is said."""

from __future__ import annotations

import csv
from typing import Any

import pytest

import gpufleet
from gpufleet.architecture.families import FAMILIES
from gpufleet.catalog.engine_eras import engine_of_version
from gpufleet.catalog.engine_models import FALLBACK, TABLE, family_notes
from gpufleet.catalog.models import shipped_architecture
from gpufleet.domain.versions import version_key
from gpufleet.errors import Infeasible
from gpufleet.layout.support import architecture_refusal

TOKENS: dict[str, Any] = {"input_tokens": 500, "output_tokens": 100}


@pytest.mark.parametrize(
    ("engine", "lacking", "having", "model"),
    [
        ("vllm", "0.6.6", "0.8.4", "qwen3-0.6b"),
        ("vllm", "0.10.0", "0.10.1", "gpt-oss-20b"),
        ("vllm", "0.6.5", "0.6.6", "deepseek-v3"),
        ("vllm", "0.2.3", "0.2.4", "mixtral-8x7b"),
        ("vllm", "0.10.1.1", "0.10.2", "qwen3-next-80b-a3b"),
        ("sglang", "0.4.5", "0.4.6", "qwen3-30b-a3b"),
        ("sglang", "0.2.5", "0.2.9", "deepseek-v2-lite"),
        ("tensorrt-llm", "1.0.0", "1.1.0", "gpt-oss-120b"),
    ],
)
def test_a_family_is_refused_before_the_version_that_brought_it(
    engine: str, lacking: str, having: str, model: str
) -> None:
    """Release notes of vLLM 0.8.4, 0.10.1, 0.6.6, 0.2.4 and 0.10.2, SGLang 0.4.6, TensorRT-LLM 1.1."""
    arch = shipped_architecture(model)
    refused = architecture_refusal(engine_of_version(engine, lacking), arch)
    if version_key(lacking)[:3] == version_key("0.10.1.1")[:3]:
        assert refused is None
        assert family_notes(engine_of_version(engine, lacking), arch)
    else:
        assert refused is not None
        assert dict(refused.figures)["first"] == having
    for version in (having, "nightly", None):
        assert architecture_refusal(engine_of_version(engine, version), arch) is None
        assert family_notes(engine_of_version(engine, version), arch) == []


@pytest.mark.parametrize("question", ["estimate", "fit", "simulate", "plan"])
def test_every_question_refuses_what_the_version_does_not_know(question: str) -> None:
    if question == "fit":
        refused = gpufleet.fit("qwen3-0.6b", "L4:1", engine="vllm==0.1")
        assert (refused.verdict, refused.launch) == ("does not fit", None)
        return
    if question == "plan":
        plan = gpufleet.plan_serve("qwen3-0.6b", rate="2/s", gpus=["L4"], engine="vllm==0.1", **TOKENS)
        assert not plan.is_feasible
        assert {rejected.code for rejected in plan.rejections} == {"architecture_of_newer_versions"}
        return
    ask = {
        "estimate": lambda: gpufleet.estimate("qwen3-0.6b", "L4:1", engine="vllm==0.1", concurrency=4, **TOKENS),
        "simulate": lambda: gpufleet.simulate_serving("qwen3-0.6b", "L4:1", rate="1/s", engine="vllm==0.1", **TOKENS),
    }[question]
    with pytest.raises(Infeasible, match=r"0\.8\.4"):
        ask()


def test_what_transformers_may_run_is_told_and_not_refused() -> None:
    """vLLM runs dense models through transformers from 0.7.2 on: registry.py of the releases."""
    qwen, oss = shipped_architecture("qwen3-0.6b"), shipped_architecture("gpt-oss-20b")
    falling = engine_of_version("vllm", "0.8.2")
    assert architecture_refusal(falling, qwen) is None
    assert any("transformers" in note for note in family_notes(falling, qwen))
    assert architecture_refusal(falling, oss) is not None
    assert family_notes(falling, oss) == []


def test_a_build_that_is_read_as_another_release_refuses_nothing() -> None:
    """'0.9.1 (V0)' takes the constants of 0.7.3 and knows what 0.9.1 does."""
    assert architecture_refusal(engine_of_version("vllm", "0.9.1 (V0)"), shipped_architecture("qwen3-30b-a3b")) is None


def test_older_than_all_that_was_looked_at_is_said() -> None:
    notes = family_notes(engine_of_version("vllm", "0.1.0"), shipped_architecture("llama-2-7b"))
    assert any("oldest version that is known" in note for note in notes)


def test_each_row_is_of_a_family_and_in_order() -> None:
    with TABLE.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["family"] for row in rows} <= {*FAMILIES, FALLBACK}
    assert all(row["source"] and row["date"] for row in rows)
    assert all(not row["lacked"] or version_key(row["lacked"]) < version_key(row["first"]) for row in rows)
    assert len({(row["engine"], row["family"]) for row in rows}) == len(rows)
