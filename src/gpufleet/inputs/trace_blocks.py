"""Blocks of prompts as a trace names them, by hashes of all that stands before and in each."""

from __future__ import annotations

import math
from array import array

import numpy as np

from gpufleet.domain.requests import PrefixBlocks

USUAL_BLOCK_TOKENS = 512
"""Of Mooncake's traces; smaller where prompts have more blocks than that."""
NONE = array("q")


class SeenBlocks:
    """Numbers blocks in the order they are met, and counts how much of prompts stands in blocks that were met before.

    Those are the leading blocks that an earlier prompt began with too.
    """

    def __init__(self) -> None:
        self.known: dict[int, int] = {}
        self.hit_tokens, self.all_tokens, self.kept_tokens = 0.0, 0.0, 0.0
        self.counts, self.blocks, self.num_followed = array("q"), array("q"), 0

    def numbered(self, hashes: object, prompt_tokens: float) -> array[int]:
        """The numbers of one prompt's blocks, by their hashes in order; none where they are no list of numbers."""
        if not isinstance(hashes, list) or not hashes or not all(isinstance(h, int) for h in hashes):
            return NONE
        known, before = self.known, len(self.known)
        numbers = array("q", [known.setdefault(h, len(known)) for h in hashes])
        hits = next((i for i, number in enumerate(numbers) if number >= before), len(hashes))
        self.hit_tokens += prompt_tokens * hits / len(hashes)
        self.all_tokens += prompt_tokens
        return numbers

    def keep(self, row: int, numbers: array[int], prompt_tokens: float) -> None:
        """Blocks of a request that is replayed, the `row`-th; rows without any are filled in."""
        if numbers:
            self.fill(row)
            self.num_followed += len(numbers) - 1
            self.kept_tokens += prompt_tokens
            self.counts.append(len(numbers))
            self.blocks.extend(numbers)

    def fill(self, num_rows: int) -> None:
        """No blocks for rows that were not kept, up to so many."""
        self.counts.frombytes(bytes(self.counts.itemsize * (num_rows - len(self.counts))))

    def prefix(self, num_rows: int) -> PrefixBlocks | None:
        """The blocks of so many requests; None where no request has any."""
        if not self.blocks:
            return None
        self.fill(num_rows)
        first = np.zeros(num_rows + 1, dtype=np.int64)
        np.cumsum(np.frombuffer(self.counts, dtype=np.int64), out=first[1:])
        return PrefixBlocks(self.block_tokens, first, np.frombuffer(self.blocks, dtype=np.int64))

    @property
    def block_tokens(self) -> int:
        """Tokens of a block, a power of two: a block that another one follows is full; 0 where there are more blocks.

        The largest b with b x (blocks - 1) <= tokens over all prompts, at most USUAL_BLOCK_TOKENS.
        """
        most = self.kept_tokens / self.num_followed if self.num_followed else math.inf
        return USUAL_BLOCK_TOKENS if most >= USUAL_BLOCK_TOKENS else (1 << int(most).bit_length()) >> 1

    @property
    def hit_ratio(self) -> float | None:
        """The share of prompt tokens that were hits; None where no prompt has blocks."""
        return self.hit_tokens / self.all_tokens if self.all_tokens else None
