"""Peak activation bytes of one device in the largest step that its engine allows."""

from __future__ import annotations

from typing import cast

import numpy as np

from gpufleet.architecture.sharding import shard
from gpufleet.domain.architecture import Architecture, Block, DenseMlp, MixtureOfExperts
from gpufleet.domain.arrays import AnyArray, Floats, Ints
from gpufleet.domain.mixers import NoFeedForward
from gpufleet.memory.band import Band
from gpufleet.memory.overhead import EngineMemory

BYTES_PER_ACTIVATION = 2.0


def sampler_bytes(engine: EngineMemory, arch: Architecture, rows: Floats, tokens: Floats) -> Band:
    """Logits of `rows` positions with the copies that sampling makes of them, beside the step's hidden states.

    rows x vocabulary x logit_bytes + tokens x 2 B x sampler_hidden_copies h   [bytes]
    vLLM profiles this and not the forward pass wherever the vocabulary is large: 38.6 bytes per logit up to 0.16
    (docs of llm-d-planner, vLLM 0.11, four models within 1 %), 14.15 from 0.17 (its accuracy report, vLLM 0.19, ten
    models within 3 %).
    """
    logits = engine.logit_bytes.scaled(rows * arch.vocab_size)
    return logits.plus(engine.sampler_hidden_copies.scaled(BYTES_PER_ACTIVATION * tokens * arch.hidden_size))


def verified_bytes(engine: EngineMemory, arch: Architecture, sequences: Floats, tokens: Floats) -> Band:
    """Copies of the logits of drafted tokens that a step verifies, beside those of one token a sequence.

    min((verified - 1) x sequences, tokens of a step) x vocabulary x verified_logit_bytes   [bytes]
    Source: vllm pull/48037, 48630: 4.1 GiB in fp32 of Qwen3-8B with 7 drafted on H100, in parts since July 2026.
    """
    drafted = (engine.verified_tokens - 1.0) * np.minimum(sequences, engine.drafted_sequences)
    rows = np.minimum(drafted, tokens)
    return Band.exact(cast(Floats, rows * arch.vocab_size * engine.verified_logit_bytes))


def mlp_elements_per_token(block: Block, hidden_size: int, tp: Ints, moe_tp: Ints) -> Floats:
    """Elements that the feed-forward buffers of one layer hold per token on one rank.

    Dense: (1 + gated) ceil(width / tp). MoE: top_k rows of gate, up and the expert's output for each token,
    shared experts added.
    """
    part = block.feed_forward
    if isinstance(part, NoFeedForward):
        return 0.0
    if isinstance(part, DenseMlp):
        return (1 + part.gated) * shard(part.width, tp)
    routed = (1 + part.gated) * shard(part.expert_width, moe_tp) + hidden_size
    return part.top_k * routed + (1 + part.gated) * shard(part.shared_width, tp)


def forward_bytes(engine: EngineMemory, arch: Architecture, tokens: Floats, tp: Ints, moe_tp: Ints) -> Band:
    """Buffers of the widest layer while `tokens` pass through it.

    tokens x 2 B x (hidden_copies h + mlp_copies x feed-forward elements)   [bytes]
    """
    widths = [mlp_elements_per_token(block, arch.hidden_size, tp, moe_tp) for block in arch.blocks]
    widest = widths[0]
    for width in widths[1:]:
        widest = np.maximum(widest, width)
    per_token = engine.hidden_copies.scaled(arch.hidden_size).plus(engine.mlp_copies.scaled(widest))
    return per_token.scaled(BYTES_PER_ACTIVATION * tokens)


def moe_workspace_bytes(engine: EngineMemory, arch: Architecture, tokens: Floats, moe_tp: Ints) -> Band:
    """Buffers of the grouped expert kernels that stay allocated while logits are sampled.

    tokens x top_k x 2 B x (max(gate and up, hidden) + half of gate and up) x moe_workspace_copies   [bytes]
    Source: activation memory that vLLM 0.19 logged beyond its logits (DeepSeek-V2-Lite, Qwen1.5-MoE, Mixtral).
    """
    widest: Floats = 0.0
    for block in arch.blocks:
        part = block.feed_forward
        if isinstance(part, MixtureOfExperts):
            gate_up = (1 + part.gated) * shard(part.expert_width, moe_tp)
            widest = np.maximum(widest, part.top_k * (np.maximum(gate_up, arch.hidden_size) + gate_up / 2))
    return engine.moe_workspace_copies.scaled(BYTES_PER_ACTIVATION * tokens * widest)


def vision_bytes(engine: EngineMemory, arch: Architecture, tp: Ints) -> Band:
    """Buffers of a vision tower while the largest image that its processor lets through passes one of its layers.

    patches x 2 B x (3 patch elements + 2 ceil(width / tp) + vision_hidden_copies h)   [bytes]
    Pixels arrive in fp32 and are copied in 16 bits; the MLP holds its output before and after the activation.
    vLLM profiles this before it sizes the KV cache: "profiled with 1 image items of the maximum feature size".

    Source: peak activation of Qwen3.8-27B on two GPUs in vLLM 0.27, 1.59 to 1.66 GiB (noonghunna/club-3090 issues/1087,
    pull/1139); one GPU holds about 2.2 GiB of Qwen3.6-35B-A3B (issues/612).
    """
    tower = arch.vision
    if tower is None or not tower.largest_image_tokens:
        return Band.exact(0.0)
    patches = tower.largest_image_tokens * tower.patches_per_token
    is_profiled = np.where(np.asarray(engine.vision_hidden_copies.expected) > 0, 1.0, 0.0)
    held = Band.exact(3.0 * tower.patch_elements + 2.0 * shard(tower.width, tp))
    hidden = engine.vision_hidden_copies.scaled(tower.hidden_size)
    return held.plus(hidden).scaled(BYTES_PER_ACTIVATION * patches * is_profiled)


def held_reduction_bytes(engine: EngineMemory, arch: Architecture, tokens: Floats, tp: Ints) -> Band:
    """All-reduced hidden states that are not freed before a step ends: of every layer where tensor parallelism is used.

    held_reductions x reductions x tokens x h x 2 B   [bytes]
    Source: vLLM issues/2150 and pull/2151 (December 2023): 25.5 instead of 19.5 GiB for Llama-2-70B on 8 GPUs.
    """
    held_tokens = tokens * np.where(np.asarray(tp) > 1, 1.0, 0.0)
    return engine.held_reductions.scaled(BYTES_PER_ACTIVATION * arch.num_reductions * arch.hidden_size * held_tokens)


def profiled_tokens(engine: EngineMemory, context_tokens: Floats) -> Floats:
    """Prefill tokens of the largest step: the engine's chunk, or one sequence of the whole context.

    vLLM before 0.8 chunks nothing but contexts above 32,768 tokens.
    """
    chunk = np.asarray(engine.prefill_budget_tokens, dtype=np.float64)
    whole = is_unchunked(engine, context_tokens)
    return cast(Floats, np.where(whole, np.maximum(context_tokens, engine.least_unchunked_tokens), chunk)[()])


def is_unchunked(engine: EngineMemory, context_tokens: Floats) -> AnyArray:
    """Whether the largest step is one sequence of the whole context."""
    return np.asarray(engine.whole_context * (np.asarray(context_tokens) <= engine.chunk_above_tokens)) > 0


def sampled_rows(engine: EngineMemory, sequences: Floats, prompt: Floats, context_tokens: Floats) -> Floats:
    """Positions with logits in the largest step: a sequence's last one, every prompt position, or none."""
    rows = np.where(engine.logits_of_prompt, prompt, sequences)
    skipped = (np.asarray(engine.unsampled_chunks) > 0) & ~is_unchunked(engine, context_tokens)
    return cast(Floats, np.where(skipped, 0.0, rows)[()])


def activation_bytes_per_device(
    engine: EngineMemory,
    arch: Architecture,
    batch: Floats | None = None,
    prompt_tokens: Floats = 0.0,
    tp: Ints = 1,
    ep: Ints = 1,
    attention_dp: Ints = 1,
    context_tokens: Floats = 0.0,
) -> Band:
    """Peak of forward pass and sampler: the larger, or both where the engine's profile adds them; or of an image.


    `batch` sequences per device group; where None, the engine's own limit, or one sequence with static batches.
    An engine that prefills in chunks is bound by its token budget whatever the prompt; one with static batches takes
    batch x prompt at once.   [bytes]
    """
    unstated = np.where(engine.whole_prompt, 1.0, engine.max_batch)
    sequences = unstated if batch is None else np.minimum(batch, engine.max_batch)
    prompt = np.maximum(prompt_tokens, 1.0) * sequences
    tokens = np.where(engine.whole_prompt, prompt, profiled_tokens(engine, context_tokens))
    rows = sampled_rows(engine, sequences, prompt, context_tokens)
    moe_tp = tp * attention_dp // ep
    forward = forward_bytes(engine, arch, tokens, tp, moe_tp)
    sampler = sampler_bytes(engine, arch, rows, tokens).plus(verified_bytes(engine, arch, sequences, tokens))
    peak = forward.larger_of(sampler).plus(forward.smaller_of(sampler).scaled(engine.peaks_add))
    of_text = peak.plus(moe_workspace_bytes(engine, arch, tokens, moe_tp))
    return of_text.larger_of(vision_bytes(engine, arch, tp)).plus(held_reduction_bytes(engine, arch, tokens, tp))
