"""Peak activation bytes of one device in the largest step that its engine allows."""

from __future__ import annotations

import numpy as np

from gpufleet.domain.architecture import Architecture, Block, DenseMlp
from gpufleet.domain.arrays import Floats, Ints
from gpufleet.memory.band import Band
from gpufleet.memory.overhead import EngineMemory
from gpufleet.memory.weights import shard

BYTES_PER_ACTIVATION = 2.0


def sampler_bytes(engine: EngineMemory, vocab_size: int, rows: Floats) -> Band:
    """Logits of `rows` positions with the copies that sampling makes of them.

    rows x vocabulary x logit_bytes   [bytes]
    vLLM profiles 38.6 bytes per logit (fp32 logits, sorted copy, probabilities, 64-bit indices): the peak activation
    that it logs is this and not the forward pass (docs of llm-d-planner, vLLM 0.11, four models within 1 %).
    """
    return engine.logit_bytes.scaled(rows * vocab_size)


def mlp_elements_per_token(block: Block, hidden_size: int, tp: Ints, moe_tp: Ints) -> Floats:
    """Elements that the feed-forward buffers of one layer hold per token on one rank.

    Dense: (1 + gated) ceil(width / tp). MoE: top_k rows of gate, up and the expert's output for each token,
    shared experts added.
    """
    part = block.feed_forward
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


def activation_bytes_per_device(
    engine: EngineMemory,
    arch: Architecture,
    batch: Floats | None = None,
    prompt_tokens: Floats = 0.0,
    tp: Ints = 1,
    ep: Ints = 1,
    attention_dp: Ints = 1,
) -> Band:
    """Peak of the forward pass and the sampler, whichever is larger.   [bytes]

    `batch` sequences per device group; where None, the engine's own limit, or one sequence with static batches.
    An engine that prefills in chunks is bound by its token budget whatever the prompt; one with static batches takes
    batch x prompt at once.
    """
    unstated = np.where(engine.whole_prompt, 1.0, engine.max_batch)
    sequences = unstated if batch is None else np.minimum(batch, engine.max_batch)
    prompt = np.maximum(prompt_tokens, 1.0) * sequences
    tokens = np.where(engine.whole_prompt, prompt, engine.prefill_budget_tokens)
    rows = np.where(engine.logits_of_prompt, prompt, sequences)
    moe_tp = tp * attention_dp // ep
    forward = forward_bytes(engine, arch, tokens, tp, moe_tp)
    return forward.larger_of(sampler_bytes(engine, arch.vocab_size, rows))
