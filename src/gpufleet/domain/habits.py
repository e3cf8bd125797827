"""What people do, where a question leaves it open."""

from __future__ import annotations

from gpufleet.provenance import Sourced
from gpufleet.records import dataclass


@dataclass(frozen=True)
class Habits:
    """Judgements about people: `spoken_tokens_per_s` is what a decoder writes for a second of ordinary speech."""

    spoken_tokens_per_s: Sourced
