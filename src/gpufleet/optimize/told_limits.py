"""What an engine is told when it is started: its share of memory, the longest request, the tokens of a step."""

from __future__ import annotations

import math

import numpy as np

from gpufleet.domain.accelerator import Accelerator
from gpufleet.domain.architecture import Architecture
from gpufleet.domain.arrays import FloatArray, Floats
from gpufleet.domain.candidates import Candidates
from gpufleet.domain.engine import EngineProfile
from gpufleet.memory.overhead import batch_limits, card_limits, least_unchunked_tokens
from gpufleet.optimize.replicas import room
from gpufleet.performance.request_mix import RequestMix


def longest_taken(arch: Architecture, mix: RequestMix, largest_batch: float) -> float:
    """Tokens of the longest request that an engine is told to take: as many as somebody said.

    Where some may be longer than what must fit, all of the model's context, if it takes half of the KV pool at most.
    """
    if arch.max_model_len is not None:
        return float(arch.max_model_len)
    is_roomy = largest_batch * mix.held_tokens >= 2 * arch.max_context_tokens
    return float(arch.max_context_tokens) if is_roomy and mix.beyond_longest_ratio else mix.longest_tokens


def fractions_of(arch: Architecture, candidates: Candidates, mix: RequestMix) -> FloatArray:
    """The memory fraction of each candidate as it is stated to its engine."""
    if not len(candidates):
        return np.zeros(0)
    found: Floats = room(arch, candidates, mix.lengths, mix.held_tokens).budget.memory_fraction
    whole = np.broadcast_to(np.asarray(found, dtype=np.float64), (len(candidates),))
    return np.array([stated_fraction(candidates, row, float(whole[row])) for row in range(len(candidates))])


def stated_fraction(candidates: Candidates, row: int, memory_fraction: float) -> float:
    """What one candidate's engine is told."""
    return of_free(candidates.palette.engines[candidates.engine[row]], memory_fraction)


def of_free(engine: EngineProfile, memory_fraction: float) -> float:
    """The fraction of the device; of what is free beside weights and buffers where the engine is told that."""
    return engine.constant("free_fraction") if engine.figure("states_free_fraction", 0.0) else memory_fraction


def step_tokens(engine: EngineProfile, gpu: Accelerator, longest_tokens: float) -> int:
    """Tokens of a step, as the memory rules assume for this card; all of a request that is not cut."""
    card = None if engine.start.max_step_tokens else card_limits(engine, gpu)
    budget = batch_limits(engine, gpu)[1] if card is None else card.prefill_budget_tokens
    budget = int(engine.figure("profiled_chunk_tokens", budget))
    if not engine.figure("whole_context", 0.0) or longest_tokens > engine.figure("chunk_above_tokens", math.inf):
        return budget
    return engine.start.max_step_tokens or max(least_unchunked_tokens(engine, budget), math.ceil(longest_tokens))
