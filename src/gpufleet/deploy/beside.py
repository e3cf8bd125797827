"""How engines are told what to keep beside a model: adapters, and weights and KV cache in host memory."""

from __future__ import annotations

import math

from gpufleet.domain.beside import ALL_PARTS, ATTENTION, MLP, ServedAdapters
from gpufleet.domain.engine import EngineProfile
from gpufleet.units import GB, GIB, in_full

MODULES = {
    "vllm": {ATTENTION: "qkv_proj o_proj", MLP: "gate_up_proj down_proj experts"},
    "sglang": {ATTENTION: "q_proj k_proj v_proj o_proj", MLP: "gate_proj up_proj down_proj"},
    "tensorrt-llm": {ATTENTION: "attn_q attn_k attn_v attn_dense", MLP: "mlp_h_to_4h mlp_gate mlp_4h_to_h"},
}
PATHS = {"vllm": "--lora-modules NAME=PATH for each", "sglang": "--lora-paths NAME=PATH for each"}


def vllm_flags(engine: EngineProfile) -> dict[str, object]:
    """Flags of `vllm serve`; sizes in GiB, of KV cache that of all ranks."""
    kept, asked = engine.beside, engine.beside.adapters
    is_told = asked and asked.parts != ALL_PARTS and engine.adapters and engine.adapters.is_told_parts
    return {
        "--enable-lora": asked is not None,
        "--max-loras": asked and asked.slots,
        "--max-lora-rank": asked and engine.adapters and engine.adapters.slot_rank(asked.rank),
        "--max-cpu-loras": asked and asked.number,
        "--lora-target-modules": modules_of(engine, asked) if asked and is_told else None,
        "--cpu-offload-gb": in_full(kept.offloaded_bytes / GIB) if kept.offloaded_bytes else None,
        "--kv-offloading-size": in_full(kept.kv_bytes / GIB) if kept.kv_bytes else None,
    }


def sglang_flags(engine: EngineProfile, ranks: int) -> dict[str, object]:
    """Flags of `sglang.launch_server`; whole GiB of weights, GB of KV cache of each rank."""
    kept, asked = engine.beside, engine.beside.adapters
    return {
        "--enable-lora": asked is not None,
        "--max-loras-per-batch": asked and asked.slots,
        "--max-lora-rank": asked and asked.rank,
        "--max-loaded-loras": asked and asked.number,
        "--lora-target-modules": asked and ("all" if asked.parts == ALL_PARTS else modules_of(engine, asked)),
        "--cpu-offload-gb": math.ceil(kept.offloaded_bytes / GIB) or None,
        "--enable-hierarchical-cache": kept.kv_bytes > 0,
        "--hicache-size": math.ceil(kept.kv_bytes / ranks / GB) or None,
    }


def tensorrt_llm_lines(engine: EngineProfile) -> list[str]:
    """Lines of the options file for adapters."""
    asked = engine.beside.adapters
    if asked is None:
        return []
    sizes = {"max_lora_rank": asked.rank, "max_loras": asked.slots, "max_cpu_loras": asked.number}
    modules = ", ".join(modules_of(engine, asked))
    return ["lora_config:", *(f"  {n}: {size}" for n, size in sizes.items()), f"  lora_target_modules: [{modules}]"]


def modules_of(engine: EngineProfile, asked: ServedAdapters) -> tuple[str, ...]:
    """Modules that are adapted, as the engine calls them."""
    return tuple(name for part in asked.parts for name in MODULES[engine.name][part].split())


def adapter_notes(engine: EngineProfile) -> list[str]:
    """That the command does not say where adapters are."""
    where = PATHS.get(engine.name)
    return [f"Say where the adapters are: {where}"] if where and engine.beside.adapters else []
