"""What an engine is told to keep beside a model, as it was said."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from gpufleet.domain.beside import NOTHING_BESIDE, Beside, parse_adapters
from gpufleet.domain.engine import EngineProfile
from gpufleet.errors import UsageError
from gpufleet.questions.fields import CPU_OFFLOAD, KV_OFFLOAD, LORA_SLOWDOWN
from gpufleet.units import GIB

if TYPE_CHECKING:
    from gpufleet.questions.estimate import CopyQuestion
    from gpufleet.questions.fields import WriterRequest
    from gpufleet.questions.fit import FitRequest


def kept_beside(engine: EngineProfile, asked: CopyQuestion | WriterRequest | FitRequest) -> EngineProfile:
    """The engine with what it is told to keep beside a model; as it is where that is nothing."""
    if asked.lora_slowdown is not None and asked.lora is None:
        raise UsageError("a slowdown by adapters without any", expected="--lora, such as 20xr16, beside it")
    said = (asked.lora_slowdown, asked.cpu_offload_gib, asked.kv_offload_bytes)
    for word, value in zip((LORA_SLOWDOWN, CPU_OFFLOAD, KV_OFFLOAD), said, strict=True):
        word.refuse_outside(value)
    adapters = None if asked.lora is None else parse_adapters(asked.lora)
    away, kv = (asked.cpu_offload_gib or 0.0) * GIB, asked.kv_offload_bytes or 0.0
    beside = Beside(adapters, asked.lora_slowdown, away, kv)
    return engine if beside == NOTHING_BESIDE else _kept_beside(engine, beside)


@lru_cache(maxsize=64)
def _kept_beside(engine: EngineProfile, beside: Beside) -> EngineProfile:
    """The same, one object for one question: replicas are kept by it."""
    return engine.keeping_beside(beside)
