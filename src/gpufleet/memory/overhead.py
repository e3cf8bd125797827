"""What an engine keeps for itself on a device, and which share of memory it hands out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from gpufleet.domain.accelerator import Accelerator
from gpufleet.domain.arrays import FloatArray, Floats, IntArray, Ints
from gpufleet.domain.engine import EngineProfile
from gpufleet.memory.band import Band


@dataclass(frozen=True)
class EngineMemory:
    """The memory rules of an engine on an accelerator; scalars, or one element per candidate.

    `memory_fraction` is the engine's default, `largest_memory_fraction` the highest setting that holds in practice.
    `free_fraction` is the share of what then remains that becomes KV cache. `profiled_share` is 1 where activations
    come out of the fraction (vLLM, TensorRT-LLM) and 0 where they use the rest of the card (SGLang). `whole_prompt`
    is 1 where a batch of prompts is prefilled at once and not in chunks, `logits_of_prompt` where the logits of
    every prompt position are kept (both: engines with static batches).
    """

    device_bytes: Floats
    memory_fraction: Floats
    largest_memory_fraction: Floats
    free_fraction: Floats
    profiled_share: Floats
    logits_of_prompt: Floats
    whole_prompt: Floats
    max_batch: Floats
    prefill_budget_tokens: Floats
    kv_block_tokens: Floats
    reserve_bytes: Band
    graph_bytes: Band
    communication_bytes: Band
    logit_bytes: Band
    hidden_copies: Band
    mlp_copies: Band

    @classmethod
    def of(cls, engine: EngineProfile, accelerator: Accelerator) -> EngineMemory:
        """The rules of one engine on one accelerator."""
        fraction = engine.memory_fraction
        max_batch, prefill_budget_tokens = batch_limits(engine, accelerator)
        return cls(
            device_bytes=accelerator.memory_bytes,
            memory_fraction=fraction.value,
            largest_memory_fraction=fraction.value if fraction.high is None else fraction.high,
            max_batch=max_batch,
            prefill_budget_tokens=prefill_budget_tokens,
            kv_block_tokens=engine.kv_block_tokens,
            reserve_bytes=Band.of(engine.reserve_bytes),
            graph_bytes=Band.of(engine.graph_bytes),
            free_fraction=engine.constant("free_fraction"),
            profiled_share=engine.constant("profiled_share"),
            logits_of_prompt=engine.constant("logits_of_prompt"),
            whole_prompt=engine.constant("whole_prompt"),
            communication_bytes=Band.of(engine.constants["communication_bytes"]),
            logit_bytes=Band.of(engine.constants["logit_bytes"]),
            hidden_copies=Band.of(engine.constants["hidden_copies"]),
            mlp_copies=Band.of(engine.constants["mlp_copies"]),
        )

    @classmethod
    def gather(
        cls,
        engines: Sequence[EngineProfile],
        accelerators: Sequence[Accelerator],
        engine_index: IntArray,
        accelerator_index: IntArray,
    ) -> EngineMemory:
        """The rules of many candidates, each naming its engine and accelerator by position."""
        cells = [cls.of(engine, accelerator) for engine in engines for accelerator in accelerators]
        row = engine_index * len(accelerators) + accelerator_index
        columns: dict[str, Any] = {
            f.name: _gathered([getattr(cell, f.name) for cell in cells], row) for f in fields(cls)
        }
        return cls(**columns)

    def with_fraction(self, memory_fraction: Floats) -> EngineMemory:
        """The same engine started with a stated memory fraction, which it then keeps to."""
        stated = {"memory_fraction": memory_fraction, "largest_memory_fraction": memory_fraction}
        return EngineMemory(**{f.name: stated.get(f.name, getattr(self, f.name)) for f in fields(self)})


def _gathered(values: Sequence[Band | float], row: IntArray) -> Band | FloatArray:
    if isinstance(values[0], Band):
        ends = {f.name: np.array([getattr(band, f.name) for band in values])[row] for f in fields(Band)}
        return Band(**ends)
    return np.array(values, dtype=np.float64)[row]


def batch_limits(engine: EngineProfile, accelerator: Accelerator) -> tuple[int, int]:
    """Sequences and prefill tokens per step that the engine allows by default on this card.

    vLLM chooses by card: 70 GiB and more, A100 excepted, count as large (vllm/engine/arg_utils.py).
    """
    if "large_card_bytes" not in engine.constants:
        return engine.max_batch, engine.prefill_budget_tokens
    large = accelerator.memory_bytes >= engine.constant("large_card_bytes") and accelerator.generation != "Ampere"
    if large:
        return engine.max_batch, engine.prefill_budget_tokens
    return int(engine.constant("small_card_max_batch")), int(engine.constant("small_card_prefill_budget_tokens"))


def overhead_bytes(engine: EngineMemory, num_devices: Ints) -> Band:
    """CUDA context and libraries, and communication buffers where a replica has more than one device.   [bytes]"""
    return engine.reserve_bytes.plus(engine.communication_bytes.scaled(np.where(np.asarray(num_devices) > 1, 1.0, 0.0)))
