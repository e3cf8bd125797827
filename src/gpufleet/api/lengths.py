"""Tokens of a request that is asked about."""

from __future__ import annotations

from gpufleet.errors import UsageError
from gpufleet.performance.serving import Lengths

MOST_TOKENS = 2**24


def checked_lengths(input_tokens: float, output_tokens: float) -> Lengths:
    """Tokens of a request: one at least, and not absurd."""
    for name, tokens in (("input", input_tokens), ("output", output_tokens)):
        if not 1 <= tokens <= MOST_TOKENS:
            raise UsageError(f"{name} tokens must be from 1 to {MOST_TOKENS:,}", found=tokens)
    return Lengths(float(input_tokens), float(output_tokens))
