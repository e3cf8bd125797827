"""What a profiled step holds: images, and tensors that ranks reduce."""

from __future__ import annotations

import pytest

from gpufleet.catalog.engine_eras import load_engine
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.models import shipped_architecture
from gpufleet.memory.activations import activation_bytes_per_device, held_reduction_bytes, vision_bytes
from gpufleet.memory.overhead import EngineMemory
from gpufleet.units import GIB


def engine_on(gpu: str, version: str | None = None, name: str = "vllm") -> EngineMemory:
    return EngineMemory.of(load_engine(name, version), load_catalog().accelerators[gpu])


@pytest.mark.parametrize(("gpu", "logged_gib"), [("RTX-5090", 1.59), ("RTX-3090", 1.66)])
def test_the_largest_image_is_the_peak_of_a_multimodal_model(gpu: str, logged_gib: float) -> None:
    """Qwen3.8-27B, the shape of Qwen3.5-27B, TP2, vLLM 0.27: club-3090 issues/1087 and pull/1139; 5 %."""
    arch, engine = shipped_architecture("qwen3.5-27b"), engine_on(gpu)
    peak = activation_bytes_per_device(engine, arch, batch=2, tp=2)
    assert float(peak.expected) / GIB == pytest.approx(logged_gib, rel=0.05)


def test_ranks_share_only_the_mlp_of_a_vision_tower() -> None:
    arch, engine = shipped_architecture("qwen3.5-27b"), engine_on("RTX-5090")
    one, two = (float(vision_bytes(engine, arch, tp).expected) for tp in (1, 2))
    assert one / 2 < two < one


def test_a_text_model_and_an_engine_that_profiles_no_image_hold_none() -> None:
    assert float(vision_bytes(engine_on("H100-SXM"), shipped_architecture("llama-3.1-8b"), 1).expected) == 0
    sglang = engine_on("H100-SXM", name="sglang")
    assert float(vision_bytes(sglang, shipped_architecture("qwen3.5-27b"), 1).expected) == 0


def test_reductions_of_a_whole_step_were_held_in_december_2023() -> None:
    """vllm issues/2150, pull/2151: Llama-2-70B on 8 GPUs peaked at 25.5 instead of 19.5 GiB."""
    arch = shipped_architecture("llama-2-70b")
    then, later = (engine_on("A100-SXM4-80GB", version) for version in ("0.2.5", "0.2.6"))
    held = held_reduction_bytes(then, arch, 4096.0, 8)
    assert float(held.expected) / GIB == pytest.approx(2 * 80 * 4096 * 8192 * 2 / GIB)
    assert float(held.low) / GIB == pytest.approx(25.5 - 19.5, rel=0.05)
    assert float(held_reduction_bytes(then, arch, 4096.0, 1).expected) == 0
    assert float(held_reduction_bytes(later, arch, 4096.0, 8).expected) == 0


def test_chunks_of_the_end_of_2024_show_no_logits() -> None:
    """vllm issues/10517, Llama-3.1-8B: a peak of 15.05 GiB beside weights of 14.99 for 35,000 tokens; 1.4 in 0.7.2."""
    arch = shipped_architecture("llama-3.1-8b")

    def peak_gib(version: str, context: float) -> float:
        found = activation_bytes_per_device(engine_on("RTX-3090", version), arch, context_tokens=context)
        return float(found.expected) / GIB

    assert peak_gib("0.6.4", 35000) == pytest.approx(15.05 - 14.99, abs=0.01)
    assert peak_gib("0.7.2", 35000) > 1
    assert peak_gib("0.6.4", 32768) > 2
