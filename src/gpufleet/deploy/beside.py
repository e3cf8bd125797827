"""How engines are told what to keep beside a model: adapters, and weights and KV cache in host memory."""

from __future__ import annotations

import math

from gpufleet.domain.beside import ALL_PARTS, ATTENTION, MLP, Beside, ServedAdapters
from gpufleet.domain.engine import EngineProfile
from gpufleet.units import GB, GIB, in_full

Flags = dict[str, object]
MODULES = {
    "vllm": {ATTENTION: ("qkv_proj", "o_proj"), MLP: ("gate_up_proj", "down_proj", "experts")},
    "sglang": {ATTENTION: ("q_proj", "k_proj", "v_proj", "o_proj"), MLP: ("gate_proj", "up_proj", "down_proj")},
    "tensorrt-llm": {
        ATTENTION: ("attn_q", "attn_k", "attn_v", "attn_dense"),
        MLP: ("mlp_h_to_4h", "mlp_gate", "mlp_4h_to_h"),
    },
}
PATHS = {"vllm": "--lora-modules NAME=PATH for each", "sglang": "--lora-paths NAME=PATH for each"}


def vllm_flags(engine: EngineProfile) -> Flags:
    """Flags of `vllm serve`; sizes in GiB, of KV cache that of all ranks."""
    beside, rank = engine.beside, slot_rank(engine)
    asked = beside.adapters
    return {
        "--enable-lora": asked is not None,
        "--max-loras": asked and asked.slots,
        "--max-lora-rank": rank,
        "--max-cpu-loras": asked and asked.number,
        "--lora-target-modules": modules_of(engine, asked),
        "--cpu-offload-gb": in_full(beside.offloaded_bytes / GIB) if beside.offloaded_bytes else None,
        "--kv-offloading-size": in_full(beside.kv_bytes / GIB) if beside.kv_bytes else None,
    }


def sglang_flags(engine: EngineProfile, ranks: int) -> Flags:
    """Flags of `sglang.launch_server`; whole GiB of weights, GB of KV cache of each rank."""
    beside, rank = engine.beside, slot_rank(engine)
    asked = beside.adapters
    return {
        "--enable-lora": asked is not None,
        "--max-loras-per-batch": asked and asked.slots,
        "--max-lora-rank": rank,
        "--max-loaded-loras": asked and asked.number,
        "--lora-target-modules": asked and (modules_of(engine, asked) or "all"),
        "--cpu-offload-gb": math.ceil(beside.offloaded_bytes / GIB) or None,
        "--enable-hierarchical-cache": beside.kv_bytes > 0,
        "--hicache-size": math.ceil(beside.kv_bytes / ranks / GB) or None,
    }


def tensorrt_llm_lines(engine: EngineProfile) -> list[str]:
    """Lines of the options file for adapters."""
    asked = engine.beside.adapters
    if asked is None:
        return []
    modules = [name for part in asked.parts for name in MODULES[engine.name][part]]
    sizes = {"max_lora_rank": asked.rank, "max_loras": asked.slots, "max_cpu_loras": asked.number}
    said = [f"  {name}: {size}" for name, size in sizes.items()]
    return ["lora_config:", *said, f"  lora_target_modules: [{', '.join(modules)}]"]


def slot_rank(engine: EngineProfile) -> int | None:
    """The rank that slots are made for; None without adapters."""
    asked, rules = engine.beside.adapters, engine.adapters
    return None if asked is None or rules is None else rules.slot_rank(asked.rank)


def modules_of(engine: EngineProfile, asked: ServedAdapters | None) -> tuple[str, ...] | None:
    """Modules that are adapted, where the engine is told that not all are."""
    is_told = asked is not None and asked.parts != ALL_PARTS and engine.adapters and engine.adapters.is_told_parts
    return tuple(name for part in asked.parts for name in MODULES[engine.name][part]) if asked and is_told else None


def adapter_notes(engine: str, beside: Beside) -> list[str]:
    """That the command does not say where adapters are."""
    where = PATHS.get(engine)
    return [f"Say where the adapters are: {where}"] if where and beside.adapters else []
