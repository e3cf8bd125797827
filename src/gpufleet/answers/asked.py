"""What a plan says of its question."""

from __future__ import annotations

from collections.abc import Mapping

from gpufleet.provenance import Source
from gpufleet.records import dataclass
from gpufleet.results.base import Input


@dataclass(frozen=True)
class Asked:
    """The inputs with their origins, their digest, notes, the sources of prices, and how many rows are shown.

    Nothing is kept with `missed_confidence`, which nobody asked for: the plan is that of expected values.
    """

    inputs: list[Input]
    input_hash: str
    notes: list[str]
    sources: Mapping[str, Source]
    num_rows: int = 10
    missed_confidence: float | None = None
