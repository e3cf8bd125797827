"""Requests one by one, as they arrive: what a replay serves."""

from __future__ import annotations

import numpy as np

from gpufleet.domain.arrays import FloatArray, IntArray
from gpufleet.records import dataclass


@dataclass(frozen=True, eq=False)
class PrefixBlocks:
    """Prompts cut into blocks of `block_tokens`, each named by all that stands before and in it.

    Request i has the blocks `block[first[i] : first[i + 1]]`; equal numbers are equal prefixes.
    """

    block_tokens: int
    first: IntArray
    block: IntArray

    def __post_init__(self) -> None:
        if self.block_tokens < 1 or self.first[0] != 0 or self.first[-1] != len(self.block):
            raise ValueError("prefix blocks: not one run of blocks for each request")

    @property
    def num_distinct(self) -> int:
        """How many different blocks there are; they are numbered from 0."""
        return int(self.block.max()) + 1 if len(self.block) else 0


@dataclass(frozen=True, eq=False)
class Requests:
    """Requests in the order of their arrival: equal-length arrays.

    `request_class` indexes `class_names`; a class that stands earlier goes first. `prefix` is None where prompts share
    nothing.
    """

    arrival_s: FloatArray
    input_tokens: IntArray
    output_tokens: IntArray
    request_class: IntArray
    class_names: tuple[str, ...] = ("",)
    prefix: PrefixBlocks | None = None

    def __post_init__(self) -> None:
        columns = (self.arrival_s, self.input_tokens, self.output_tokens, self.request_class)
        if len({len(column) for column in columns}) != 1:
            raise ValueError("requests: columns of different lengths")
        if len(self) and not (np.all(np.isfinite(self.arrival_s)) and np.all(np.diff(self.arrival_s) >= 0)):
            raise ValueError("requests: arrival times that are not finite and in order")
        if len(self) and min(self.input_tokens.min(), self.output_tokens.min()) < 1:
            raise ValueError("requests: a prompt or an answer without tokens")
        if self.prefix is not None and len(self.prefix.first) != len(self) + 1:
            raise ValueError("requests: prefix blocks of other requests")

    def __len__(self) -> int:
        return len(self.arrival_s)

    @property
    def span_s(self) -> float:
        """Seconds from the first arrival to the last."""
        return float(self.arrival_s[-1] - self.arrival_s[0]) if len(self) else 0.0
