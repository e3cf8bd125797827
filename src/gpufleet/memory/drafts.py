"""Bytes that a draft takes beside the model whose tokens it proposes: weights on every device, KV of every sequence."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np

from gpufleet.domain.architecture import Architecture, Draft
from gpufleet.domain.arrays import Floats, Ints
from gpufleet.memory.kv import kv_bytes_per_sequence_per_device
from gpufleet.memory.overhead import EngineMemory
from gpufleet.memory.weights import AnyFormat, weights_bytes_per_device


def draft_weights_bytes(
    arch: Architecture, weights: AnyFormat, passes: Floats, tp: Ints = 1, ep: Ints = 1, attention_dp: Ints = 1
) -> Floats:
    """Weights of the draft on one device, cut as the model's are; 0 without `passes` of one.   [bytes]

    A draft lies whole on the last pipeline stage. One that shares the model's vocabulary has no embedding and head.
    """
    model = held_model(arch.draft)
    if model is None or arch.draft is None:
        return 0.0
    own = weights if arch.draft.shares_format else model.weights
    held = weights_bytes_per_device(model, own, tp, 1, ep, attention_dp)
    return cast(Floats, np.where(np.asarray(passes) > 0, held, 0.0)[()])


def draft_kv_bytes_per_sequence(
    arch: Architecture, engine: EngineMemory, kv_bytes_per_element: Floats, context_tokens: Floats, tp: Ints = 1
) -> Floats:
    """KV that one sequence holds in the layers of the draft, on one device   [bytes]."""
    if arch.draft is None or arch.draft.model is None:
        return 0.0
    held = kv_bytes_per_sequence_per_device(
        arch.draft.model, kv_bytes_per_element, context_tokens, tp, 1, engine.kv_block_tokens
    )
    return cast(Floats, np.where(np.asarray(engine.draft_passes) > 0, held, 0.0)[()])


def held_model(draft: Draft | None) -> Architecture | None:
    """The model that drafts as it lies in memory; None where none does."""
    if draft is None or draft.model is None or not draft.shares_vocabulary:
        return None if draft is None else draft.model
    return replace(draft.model, vocab_size=1)
