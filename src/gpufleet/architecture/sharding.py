"""How tensor-parallel ranks divide what cannot be cut further: heads, channels, experts, layers."""

from __future__ import annotations

from typing import cast

from gpufleet.domain.arrays import Floats, Ints
from gpufleet.records import dataclass


def shard(size: int, parts: Ints) -> Floats:
    """Elements of the largest of `parts` near-equal pieces: what the fullest rank holds.

    ceil(size / parts). One KV head over many ranks is one per rank: replication needs no rule of its own.
    Exact over a plain number of parts; floating point over arrays, so that no size overflows 64-bit integers.

    >>> shard(8, 16), shard(10, 4)
    (1, 3)
    """
    return -(-size // parts) if isinstance(parts, int) else cast(Floats, -(-float(size) // parts))


@dataclass(frozen=True)
class SplitParams:
    """Matrix parameters of one layer: those cut over tensor-parallel ranks, and those that every rank copies."""

    sharded: int
    copied: int = 0

    def on_rank(self, tp: Ints = 1) -> Floats:
        """What one rank holds; both over one rank."""
        return self.copied + shard(self.sharded, tp)
