"""Bytes of adapters: published files, slots over ranks, and what the engine's version adapts."""

from __future__ import annotations

from typing import Any

import pytest

import gpufleet
from gpufleet.architecture.linears import num_adapter_parameters
from gpufleet.catalog.engine_eras import engine_of_version
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.models import shipped_architecture
from gpufleet.domain.beside import Beside, parse_adapters
from gpufleet.domain.training import ATTENTION_MODULES, Adapter
from gpufleet.errors import Infeasible, UsageError
from gpufleet.memory.adapters import adapter_bytes, slots_bytes_per_device
from gpufleet.memory.overhead import EngineMemory

HEADER_BYTES = 40_000
H100 = load_catalog().accelerators["H100-SXM"]


def slots_bytes(
    model: str, said: str, tp: int = 1, ep: int = 1, engine: str = "vllm", version: str | None = None
) -> Any:
    told = engine_of_version(engine, version).keeping_beside(Beside(parse_adapters(said)))
    return slots_bytes_per_device(shipped_architecture(model), EngineMemory.of(told, H100), tp, 1, ep)


@pytest.mark.parametrize(
    ("model", "rank", "modules", "file_bytes"),
    [
        # adapter_model.safetensors in fp32: huggingface.co/metythorn/khmerllm-llama2-7b-v1, commit 60b50ba
        ("llama-2-7b", 64, ("q", "v"), 134_235_048),
        # huggingface.co/CCDS-Scaling/llama2-7b-ifeval-less-p0.10-lora-seed2-linear-1epoch, commit 6be85ab
        ("llama-2-7b", 128, ATTENTION_MODULES, 536_906_096),
    ],
)
def test_published_adapters_have_their_size(model: str, rank: int, modules: tuple[str, ...], file_bytes: int) -> None:
    arch = shipped_architecture(model)
    counted = 4 * num_adapter_parameters(arch, Adapter(rank, modules))
    assert 0 < file_bytes - counted < HEADER_BYTES
    if modules == ATTENTION_MODULES:
        assert 2 * adapter_bytes(arch, rank, ("attention",)) == counted


def test_slots_take_what_lies_in_them_and_ranks_copy_one_factor() -> None:
    llama = shipped_architecture("llama-3.1-8b")
    whole = adapter_bytes(llama, 16, ("attention", "mlp"))
    assert slots_bytes("llama-3.1-8b", "20xr16").expected == 20 * whole
    assert slots_bytes("llama-3.1-8b", "20xr16/4").expected == 4 * whole
    assert slots_bytes("llama-3.1-8b", "r20").expected == 2 * whole, "vLLM has slots of rank 16 and 32"
    assert slots_bytes("llama-3.1-8b", "r20", engine="sglang").expected == pytest.approx(20 / 16 * whole)
    over_two = slots_bytes("llama-3.1-8b", "r16", tp=2).expected
    h, kv, ffn = 4096, 1024, 14336
    copied = 3 * h + h + 2 * h + h  # A of q, k, v; B of o; A of gate and up; B of down
    cut = h + 2 * kv + h + 2 * ffn + ffn
    assert over_two == 2 * 16 * 32 * (copied + cut / 2)
    of_kv_head = slots_bytes("llama-3.1-8b", "r16@attention", tp=16).expected
    assert of_kv_head == 2 * 16 * 32 * (3 * h + h + h / 16 + 2 * 128 + h / 16), "a KV head is never cut"


def test_experts_are_adapted_from_the_version_on_that_does() -> None:
    older, newer = (slots_bytes("qwen3-30b-a3b", "r16", version=v).expected for v in ("0.10.0", "0.11.2"))
    experts = 128 * 48 * 3 * (2048 + 768) * 16 * 2
    assert newer - older == experts
    with pytest.raises(Infeasible):
        gpufleet.estimate("qwen3-30b-a3b", "H100:2", tp=2, ep=2, batch=1, input_tokens=99, output_tokens=9, lora="r8")


def test_a_version_that_is_not_told_modules_keeps_slots_on_all() -> None:
    told, untold = (slots_bytes("llama-3.1-8b", "r16@attention", version=v).expected for v in ("0.19.1", "0.11.2"))
    assert told < untold == slots_bytes("llama-3.1-8b", "r16", version="0.11.2").expected


@pytest.mark.parametrize("said", ["0xr16", "20x16", "r0", "20xr16/0", "20xr16@heads", "", "r9999", "xr16", "r1²"])
def test_strange_spellings_are_refused(said: str) -> None:
    with pytest.raises(UsageError):
        parse_adapters(said)
