"""How a serving engine is started, in the words that all engines share."""

from __future__ import annotations

from gpufleet.records import dataclass


@dataclass(frozen=True)
class EngineStart:
    """What an engine is told when it starts; None leaves it to the engine.

    `max_batch` sequences at once, `max_step_tokens` of a step, `memory_fraction` of the device, requests of up to
    `max_model_len` tokens, KV in blocks of `block_tokens`. `chunks_prompts`: prompts may be cut over several steps.
    `enforce_eager`: no CUDA graphs. `mixes_prompts` lets prompts and decoding share steps where it would part them.
    """

    max_batch: int | None = None
    max_step_tokens: int | None = None
    memory_fraction: float | None = None
    mixes_prompts: bool = False
    max_model_len: int | None = None
    block_tokens: int | None = None
    chunks_prompts: bool | None = None
    enforce_eager: bool = False

    @property
    def longest_tokens(self) -> int | None:
        """The longest request that the engine then takes: a prompt that is not cut is no longer than a step.

        >>> EngineStart(max_step_tokens=4096, chunks_prompts=False).longest_tokens
        4096
        """
        whole = self.max_step_tokens if self.chunks_prompts is False else None
        return min(filter(None, (self.max_model_len, whole)), default=None)
