"""What an engine keeps for itself on a device, and which share of memory it hands out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from gpufleet.domain.accelerator import Accelerator
from gpufleet.domain.arrays import FloatArray, Floats, IntArray, Ints
from gpufleet.domain.beside import ALL_PARTS, ATTENTION, MLP
from gpufleet.domain.engine import CardLimits, EngineProfile
from gpufleet.memory.band import Band
from gpufleet.records import dataclass

LEAST_UNCHUNKED_TOKENS = 2048
MULTICAST_GENERATIONS = ("Hopper", "Blackwell", "Blackwell Ultra")
ZERO_WHERE_ABSENT = (
    "states_free_fraction",
    "piece_graph_tokens",
    "decode_graph_tokens",
    "whole_context",
    "unsampled_chunks",
    "peaks_add",
    "shared_pages",
    "whole_windows",
    "admits_whole_steps",
    "admits_longest",
    "window_pool_ratio",
    "latent_head_elements",
    "state_pool_ratio",
    "least_state_bytes",
    "graphs_in_fraction",
    "raised_pool_ratio",
    "draft_passes",
    "verified_logit_bytes",
)
"""Rules that only some engines or versions have."""

NOTHING_WHERE_ABSENT = (
    "graph_layer_bytes",
    "graph_reduction_bytes",
    "startup_bytes",
    "sampler_hidden_copies",
    "moe_workspace_copies",
    "vision_hidden_copies",
    "held_reductions",
)
"""Judged amounts that only some engines or versions have."""

SLOTS = ("adapter_slots", "adapter_rank", "adapts_attention", "adapts_mlp", "adapts_experts", "adapts_ends")
"""What an engine keeps for adapters, where it serves any."""


@dataclass(frozen=True)
class EngineMemory:
    """The memory rules of an engine on an accelerator; scalars, or one element per candidate.

    `memory_fraction` is the engine's default, `largest_memory_fraction` the highest setting that holds in practice, up
    to which it is raised until KV has `raised_pool_ratio` of the card. `free_fraction` is the share of what then
    remains that becomes KV cache. `profiled_share` is 1 where activations come out of the fraction (vLLM, TensorRT-LLM)
    and 0 where they use the rest of the card (SGLang). `whole_prompt` is 1 where a batch of prompts is prefilled at
    once and not in chunks, `logits_of_prompt` where the logits of every prompt position are kept (both: engines with
    static batches). `whole_context` is 1 where the profiled step is one sequence of the whole context up to
    `chunk_above_tokens` and `least_unchunked_tokens` at least (vLLM before 0.8, engines told to cut no prompts),
    `unsampled_chunks` where a profile in chunks samples nothing, `peaks_add`
    where the forward pass and the sampler both count (vLLM before 0.6.4 read free memory, which cached blocks lower).

    `shared_pages` is 1 where layers of all kinds take equal pages of one pool, `whole_windows` where a layer with a
    window keeps the whole context beside layers that see it, `admits_whole_steps` where the engine starts only if such
    a layer has room for its window and a whole step of a prompt (vLLM's V1), `admits_longest` where it starts only if
    the pool holds the longest request that it was told to take (vLLM), `window_pool_ratio` the tokens of a pool
    of such layers in those of the others' pool (SGLang), `latent_head_elements` what every head caches of keys and of
    values where a latent cache is not known (vLLM before 0.7.1). `state_pool_ratio` is the size of a pool of states in
    that of the caches where each has its own, `states_per_sequence` the states that a sequence keeps,
    `least_state_bytes` the narrowest element of a state that the engine keeps.
    `graphs_in_fraction` is 1 where captured graphs come out of the fraction (vLLM from 0.21), `seen_overhead` the share
    of the overhead that the profile sees (none before vLLM 0.2.5), `held_reductions` the share of a step's all-reduced
    tensors that are not freed before it is read (vLLM 0.2.5). `vision_hidden_copies` is 0 where no image is profiled.

    `draft_passes` are those of a draft in a step, which then verifies `verified_tokens` of each sequence, of up to
    `drafted_sequences` unless told otherwise, and keeps `verified_logit_bytes` of a logit of each.
    `piece_graph_tokens` and `decode_graph_tokens` are the largest steps for which graphs are captured, in pieces and
    whole, every `wide_graph_step` above 256; `graph_batch` the largest where the card decides (SGLang). `startup_bytes`
    are taken before free memory is first read, and so lie beside the fraction. `linked_gpus` joins the card's own link.

    `adapter_slots` of `adapter_rank` lie on every layer whose part is adapted (`adapts_...`: 1); `offloaded_bytes` of
    weights are asked to lie in host memory.
    """

    device_bytes: Floats
    memory_fraction: Floats
    largest_memory_fraction: Floats
    free_fraction: Floats
    profiled_share: Floats
    fraction_per_device: Floats
    states_free_fraction: Floats
    logits_of_prompt: Floats
    whole_prompt: Floats
    whole_context: Floats
    chunk_above_tokens: Floats
    least_unchunked_tokens: Floats
    unsampled_chunks: Floats
    peaks_add: Floats
    mxfp4_alignment: Floats
    shared_pages: Floats
    whole_windows: Floats
    admits_whole_steps: Floats
    admits_longest: Floats
    window_pool_ratio: Floats
    latent_head_elements: Floats
    state_pool_ratio: Floats
    states_per_sequence: Floats
    least_state_bytes: Floats
    graphs_in_fraction: Floats
    raised_pool_ratio: Floats
    draft_passes: Floats
    verified_tokens: Floats
    verified_logit_bytes: Floats
    drafted_sequences: Floats
    seen_overhead: Floats
    max_batch: Floats
    prefill_budget_tokens: Floats
    kv_block_tokens: Floats
    piece_graph_tokens: Floats
    decode_graph_tokens: Floats
    wide_graph_step: Floats
    graph_batch: Floats
    linked_gpus: Floats
    adapter_slots: Floats
    adapter_rank: Floats
    adapts_attention: Floats
    adapts_mlp: Floats
    adapts_experts: Floats
    adapts_ends: Floats
    offloaded_bytes: Floats
    reserve_bytes: Band
    graph_bytes: Band
    graph_layer_bytes: Band
    graph_reduction_bytes: Band
    dp_graph_bytes: Band
    startup_bytes: Band
    driver_bytes: Band
    communication_bytes: Band
    logit_bytes: Band
    hidden_copies: Band
    mlp_copies: Band
    sampler_hidden_copies: Band
    moe_workspace_copies: Band
    vision_hidden_copies: Band
    held_reductions: Band
    loaded_ratio: Band

    @classmethod
    def of(cls, engine: EngineProfile, accelerator: Accelerator) -> EngineMemory:
        """The rules of one engine on one accelerator."""
        driver = driver_bytes(engine, accelerator)
        device_bytes = accelerator.memory_bytes - driver.expected
        max_batch, prefill_budget_tokens = batch_limits(engine, accelerator)
        fraction, largest = memory_fractions(engine, accelerator)
        verified = _optional(engine, "verified_tokens", 1.0)
        rare: dict[str, Any] = {name: _optional(engine, name) for name in ZERO_WHERE_ABSENT}
        rare |= {name: _optional_band(engine, name) for name in NOTHING_WHERE_ABSENT}
        return cls(
            device_bytes=device_bytes,
            memory_fraction=fraction,
            largest_memory_fraction=largest,
            fraction_per_device=_optional(engine, "static_bytes_per_device") / device_bytes,
            max_batch=max_batch,
            prefill_budget_tokens=_optional(engine, "profiled_chunk_tokens", prefill_budget_tokens),
            kv_block_tokens=engine.kv_block_tokens,
            wide_graph_step=_optional(engine, "wide_graph_step", 8.0),
            graph_batch=graph_batch(engine, accelerator),
            linked_gpus=accelerator.linked_gpus if accelerator.nvlink_bytes_per_s else 1,
            reserve_bytes=Band.of(engine.reserve_bytes),
            graph_bytes=Band.of(engine.graph_bytes),
            dp_graph_bytes=dp_graph_bytes(engine, accelerator),
            free_fraction=engine.constant("free_fraction"),
            profiled_share=engine.constant("profiled_share"),
            logits_of_prompt=engine.constant("logits_of_prompt"),
            whole_prompt=engine.constant("whole_prompt"),
            chunk_above_tokens=_optional(engine, "chunk_above_tokens", math.inf),
            least_unchunked_tokens=least_unchunked_tokens(engine, prefill_budget_tokens),
            mxfp4_alignment=_optional(engine, "mxfp4_alignment", 1.0),
            states_per_sequence=_optional(engine, "states_per_sequence", 1.0) + verified - 1.0,
            verified_tokens=verified,
            drafted_sequences=_optional(engine, "drafted_sequences", math.inf),
            seen_overhead=_optional(engine, "seen_overhead", 1.0),
            driver_bytes=driver,
            communication_bytes=communication_bytes(engine, accelerator),
            logit_bytes=Band.of(engine.constants["logit_bytes"]),
            hidden_copies=Band.of(engine.constants["hidden_copies"]),
            mlp_copies=Band.of(engine.constants["mlp_copies"]),
            loaded_ratio=_optional_band(engine, "loaded_ratio", 1.0),
            offloaded_bytes=engine.beside.offloaded_bytes,
            **slots_of(engine),
            **rare,
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
        asked = engine_index * len(accelerators) + accelerator_index
        used, row = np.unique(np.append(asked, 0), return_inverse=True)
        cells = [cls.of(engines[cell // len(accelerators)], accelerators[cell % len(accelerators)]) for cell in used]
        row = row[: len(asked)]
        columns: dict[str, Any] = {
            f.name: _gathered([getattr(cell, f.name) for cell in cells], row) for f in fields(cls)
        }
        return cls(**columns)

    @cached_property
    def steps_depend_on_lengths(self) -> bool:
        """Whether the largest step of any candidate depends on prompts or contexts, and not on the engine alone."""
        rules = (self.whole_prompt, self.logits_of_prompt, self.whole_context)
        return any(bool(np.any(np.asarray(rule) > 0)) for rule in rules)

    @cached_property
    def has_adapters(self) -> bool:
        """Whether any candidate serves adapters."""
        return bool(np.any(np.asarray(self.adapter_slots) > 0))

    @cached_property
    def offloads_weights(self) -> bool:
        """Whether any candidate keeps weights in host memory."""
        return bool(np.any(np.asarray(self.offloaded_bytes) > 0))

    def at_its_default(self) -> EngineMemory:
        """The same engine started with its default fraction, which nobody raises."""
        return replace(self, largest_memory_fraction=self.memory_fraction)

    def keeping_states_of_prefixes(self, engine: EngineProfile) -> EngineMemory:
        """The same where prefixes are served from states too: a sequence keeps as many as the engine ever does."""
        states = engine.constants.get("states_per_sequence")
        if states is None or states.high is None:
            return self
        return replace(self, states_per_sequence=np.maximum(np.asarray(self.states_per_sequence), states.high)[()])


def slots_of(engine: EngineProfile) -> dict[str, Any]:
    """Slots of adapters, their rank, and the parts of a layer that they lie on; nothing where none are served.

    An engine that cannot be told which parts has slots on all.
    """
    asked, rules = engine.beside.adapters, engine.adapters
    if asked is None or rules is None:
        return dict.fromkeys(SLOTS, 0.0)
    parts = asked.parts if rules.is_told_parts else ALL_PARTS
    has_mlp = float(MLP in parts)
    figures = (
        asked.slots,
        rules.slot_rank(asked.rank) or asked.rank,
        float(ATTENTION in parts),
        has_mlp,
        has_mlp * rules.takes_experts,
        float(rules.may_adapt_ends and parts == ALL_PARTS),
    )
    return dict(zip(SLOTS, figures, strict=True))


def _optional(engine: EngineProfile, name: str, otherwise: float = 0.0) -> float:
    return engine.constant(name) if name in engine.constants else otherwise


def _optional_band(engine: EngineProfile, name: str, otherwise: float = 0.0) -> Band:
    return Band.of(engine.constants[name]) if name in engine.constants else Band.exact(otherwise)


def _gathered(values: Sequence[Band | float], row: IntArray) -> Band | FloatArray:
    if isinstance(values[0], Band):
        ends = {f.name: np.array([getattr(band, f.name) for band in values])[row] for f in fields(Band)}
        return Band(**ends)
    return np.array(values, dtype=np.float64)[row]


def batch_limits(engine: EngineProfile, accelerator: Accelerator) -> tuple[int, int]:
    """Sequences and prefill tokens per step that the engine allows by default on this card.

    vLLM chooses by card: 70 GiB and more count as large, but in most versions no A100 (vllm/engine/arg_utils.py).
    """
    if "large_card_bytes" not in engine.constants:
        return engine.max_batch, engine.prefill_budget_tokens
    is_small_ampere = accelerator.generation == "Ampere" and not engine.figure("large_ampere", 0.0)
    if accelerator.memory_bytes >= engine.constant("large_card_bytes") and not is_small_ampere:
        return engine.max_batch, engine.prefill_budget_tokens
    return int(engine.constant("small_card_max_batch")), int(engine.constant("small_card_prefill_budget_tokens"))


def least_unchunked_tokens(engine: EngineProfile, budget_tokens: int) -> int:
    """Tokens of the largest step of prompts that are not cut, however short they are: the budget.

    vLLM before 0.8 has a budget for chunks of prompts alone (vllm/config.py: max(max_model_len, 2048)).
    """
    return LEAST_UNCHUNKED_TOKENS if "profiled_chunk_tokens" in engine.constants else budget_tokens


def card_limits(engine: EngineProfile, accelerator: Accelerator) -> CardLimits | None:
    """What the engine chooses for cards of this size; None where it has one choice for all."""
    return next((c for c in engine.cards if accelerator.memory_bytes < c.below_bytes), None)


def graph_batch(engine: EngineProfile, accelerator: Accelerator) -> int:
    """The largest batch that graphs are captured for where the engine chooses it by card (SGLang); 0 elsewhere."""
    card = card_limits(engine, accelerator)
    return 0 if card is None else min(card.graph_batch, engine.max_batch)


def dp_graph_bytes(engine: EngineProfile, accelerator: Accelerator) -> Band:
    """What graphs with attention-DP keep for each sequence of their largest batch and each group, more for large ones.

    [bytes]
    """
    base = _optional_band(engine, "dp_graph_bytes")
    if graph_batch(engine, accelerator) <= _optional(engine, "wide_dp_graph_batch", math.inf):
        return base
    return base.plus(_optional_band(engine, "wide_dp_graph_bytes"))


def memory_fractions(engine: EngineProfile, accelerator: Accelerator) -> tuple[float, float]:
    """The default memory fraction on a card and the largest that holds in practice.

    1 - (fixed + bytes per prefill token x chunk + bytes per graph batch x largest graph) / device where the engine
    sizes it by card (SGLang, server_args.py), one number elsewhere.
    """
    fraction = engine.memory_fraction
    largest = fraction.value if fraction.high is None else fraction.high
    card = card_limits(engine, accelerator)
    if card is None or "static_reserve_bytes" not in engine.constants:
        return fraction.value, largest
    kept = (
        engine.constant("static_reserve_bytes")
        + engine.constant("static_bytes_per_prefill_token") * card.prefill_budget_tokens
        + engine.constant("static_bytes_per_graph_batch") * card.graph_batch
    )
    return 1.0 - kept / accelerator.memory_bytes, max(largest, 1.0 - kept / accelerator.memory_bytes)


def driver_bytes(engine: EngineProfile, accelerator: Accelerator) -> Band:
    """What the driver keeps of the memory that it reports: engines are given the rest.   [bytes]

    An H100 reports 79.65 GiB and gives 79.2, an RTX 3090 24.0 and 23.58. A card whose share was logged keeps that,
    give or take what drivers differ by; others what cards usually keep.
    """
    if accelerator.vendor != "nvidia":
        return Band.exact(0.0)
    kept, spread = accelerator.driver_bytes, engine.constants.get("driver_spread_bytes")
    if kept is None or spread is None:
        return _optional_band(engine, "driver_bytes")
    return Band.of(spread).plus(Band.exact(kept))


def communication_bytes(engine: EngineProfile, accelerator: Accelerator) -> Band:
    """Buffers for collectives of one device: NCCL and custom all-reduce, and multicast where a switch has it.   [bytes]

    NCCL keeps buffers of its own for in-switch reduction (NVLink SHARP: Hopper and newer on NVSwitch).
    """
    plain = Band.of(engine.constants["communication_bytes"])
    switched = accelerator.linked_gpus > 1 and bool(accelerator.nvlink_bytes_per_s)
    has_multicast = accelerator.vendor == "nvidia" and switched and accelerator.generation in MULTICAST_GENERATIONS
    return plain.plus(_optional_band(engine, "multicast_bytes")) if has_multicast else plain


def overhead_bytes(engine: EngineMemory, num_devices: Ints) -> Band:
    """CUDA context and libraries, and communication buffers where a replica has more than one device.   [bytes]"""
    joined = np.where(np.asarray(num_devices) > 1, 1.0, 0.0)
    return engine.reserve_bytes.plus(engine.communication_bytes.scaled(joined))


def driver_variation_bytes(engine: EngineMemory) -> Band:
    """How far what the driver keeps lies from what is taken off the device already.   [bytes]"""
    driver = engine.driver_bytes
    return Band(driver.low - driver.expected, 0.0 * driver.expected, driver.high - driver.expected)
