"""How the engine of a question is started: what was said of it, and whether the engine is told so."""

from __future__ import annotations

from dataclasses import fields, replace
from functools import lru_cache

from gpufleet.catalog.engine_flags import engine_flags
from gpufleet.domain.architecture import Architecture
from gpufleet.domain.engine import EngineProfile
from gpufleet.domain.engine_start import EngineStart
from gpufleet.errors import UsageError

TOLD_BY_FLAG = {
    "block_tokens": "--block-size", "chunks_prompts": "--enable-chunked-prefill", "enforce_eager": "--enforce-eager"
}  # fmt: skip
"""What of a start is told to engines that serve alone, in the words of vLLM."""


def started_of(asked: object) -> EngineStart:
    """How the engine of a question is started."""
    said = {f.name: getattr(asked, f.name, None) for f in fields(EngineStart)}
    return EngineStart(**{name: value for name, value in said.items() if value is not None})


def started_for(arch: Architecture, start: EngineStart) -> Architecture:
    """The model with the longest request that its engine is started for, where somebody says so."""
    longest = start.longest_tokens
    return arch if longest is None else _started_for(arch, start.max_model_len, longest)


@lru_cache(maxsize=64)
def _started_for(arch: Architecture, told: int | None, longest: int) -> Architecture:
    """The same, one object for one question; no longer requests than the model was made for."""
    context = arch.max_context_tokens
    if told is not None and told > context:
        raise UsageError(
            f"{arch.name} does not take contexts that long",
            found=f"max_model_len {told:,}",
            expected=f"at most {context:,}, which it was made for",
            hint="Rope scaling in its config.json extends them: name that file instead of the model.",
        )
    return arch if longest > context else replace(arch, max_model_len=longest)


def checked_start(engine: EngineProfile, start: EngineStart) -> EngineStart:
    """A start that the version of an engine takes."""
    checked_fraction(start.memory_fraction)
    steps, longest, block = start.max_step_tokens, start.max_model_len, start.block_tokens
    if start.chunks_prompts is False and steps and longest and steps < longest:
        raise UsageError(
            "a prompt that is not cut is longer than a step",
            found=f"max_num_batched_tokens {steps:,}, max_model_len {longest:,}",
            expected="steps of as many tokens as the longest request, or prompts that are cut",
        )
    told = [flag for name, flag in TOLD_BY_FLAG.items() if getattr(start, name) != getattr(EngineStart(), name)]
    if told:
        flags = engine_flags(engine.name, engine.version)
        if flags is None:
            raise UsageError(f"{engine.title} is not told {told[0]}", expected="vllm, sglang or tensorrt-llm")
        sizes = flags.flag_of("--block-size")
        if block is not None and sizes is not None and sizes.choices and str(block) not in sizes.choices:
            expected = ", ".join(sizes.choices)
            raise UsageError(f"{engine.title} {flags.version} has no such block", found=block, expected=expected)
    return start


def checked_fraction(memory_fraction: float | None) -> float | None:
    """The share of memory that an engine is told to keep to, if any."""
    if memory_fraction is not None and not 0 < memory_fraction <= 1:
        raise UsageError("not a share of memory", found=memory_fraction, expected="a ratio above 0 and up to 1")
    return memory_fraction
