"""An engine as it was started: its version, its largest batch, its step and its share of memory."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TypeAlias

from gpufleet.catalog.engine_eras import load_engine
from gpufleet.catalog.engines import find_engine
from gpufleet.domain.engine import EngineProfile
from gpufleet.domain.token_counts import TokenCounts
from gpufleet.errors import UsageError
from gpufleet.performance.serving import Client
from gpufleet.questions.estimate import CopyQuestion, EstimateRequest

Started: TypeAlias = tuple[int | None, int | None, float | None, bool]
"""Sequences and tokens of a step, share of memory, and whether prompts and decoding share steps by request."""


def started_of(asked: CopyQuestion) -> Started:
    """How the engine of a copy is started."""
    return asked.max_batch, asked.max_step_tokens, asked.memory_fraction, asked.mixes_prompts


def client_of(asked: EstimateRequest) -> Client:
    """The client of an estimate, and how it had the engine started to look for requests."""
    return Client(
        asked.waves or math.inf,
        0.0 if is_of_one_length(asked) else asked.length_spread,
        asked.poll_interval_steps,
        asked.gather_steps,
        asked.batch_wait_steps,
        asked.batch_wait_ratio,
    )


def is_of_one_length(asked: EstimateRequest) -> bool:
    """Whether all requests were said to have the same numbers of tokens.

    >>> is_of_one_length(EstimateRequest("llama-3.1-8b", "H100", input_tokens=1000, output_tokens=200, concurrency=8))
    False
    """
    both = (asked.input_tokens, asked.output_tokens)
    return all(isinstance(tokens, TokenCounts) and tokens.is_alike for tokens in both)


def started_engine(name: str, version: str | None, limits: Started) -> EngineProfile:
    """The engine as its version behaves, started as stated."""
    return _engine(find_engine(name), name, version, limits)


@lru_cache(maxsize=64)
def _engine(read: EngineProfile, name: str, version: str | None, limits: Started) -> EngineProfile:
    """The engine as its version behaves and as it was started, one object for one question: replicas are kept by it.

    Another overlay is another `read` profile, and is not answered from memory.
    """
    max_batch, max_step_tokens, memory_fraction, mixes_prompts = limits
    kept_to = checked_fraction(memory_fraction)
    return load_engine(name, version).started_with(max_batch, max_step_tokens, kept_to, mixes_prompts)


def checked_fraction(memory_fraction: float | None) -> float | None:
    """The share of memory that an engine is told to keep to, if any."""
    if memory_fraction is not None and not 0 < memory_fraction <= 1:
        raise UsageError("not a share of memory", found=memory_fraction, expected="a ratio above 0 and up to 1")
    return memory_fraction
