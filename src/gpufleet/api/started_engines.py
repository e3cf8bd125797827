"""An engine as it was started: its version, its largest batch, its step and its share of memory."""

from __future__ import annotations

from functools import lru_cache

from gpufleet.catalog.engine_eras import load_engine
from gpufleet.catalog.engines import find_engine
from gpufleet.domain.engine import EngineProfile
from gpufleet.errors import UsageError


def started_engine(
    name: str, version: str | None, limits: tuple[int | None, int | None, float | None]
) -> EngineProfile:
    """The engine as its version behaves, started for stated sequences, tokens of a step and share of memory."""
    return _engine(find_engine(name), name, version, limits)


@lru_cache(maxsize=64)
def _engine(
    read: EngineProfile, name: str, version: str | None, limits: tuple[int | None, int | None, float | None]
) -> EngineProfile:
    """The engine as its version behaves and as it was started, one object for one question: replicas are kept by it.

    Another overlay is another `read` profile, and is not answered from memory.
    """
    max_batch, max_step_tokens, memory_fraction = limits
    return load_engine(name, version).started_with(max_batch, max_step_tokens, checked_fraction(memory_fraction))


def checked_fraction(memory_fraction: float | None) -> float | None:
    """The share of memory that an engine is told to keep to, if any."""
    if memory_fraction is not None and not 0 < memory_fraction <= 1:
        raise UsageError("not a share of memory", found=memory_fraction, expected="a ratio above 0 and up to 1")
    return memory_fraction
