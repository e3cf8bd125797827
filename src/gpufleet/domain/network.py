"""The network between the machines of a run."""

from __future__ import annotations

from gpufleet.domain.interruption import Spread
from gpufleet.provenance import Grade
from gpufleet.records import dataclass

WHOLE_MACHINE_GPUS = 8
"""Machines of so many GPUs are built to work together: cards of fewer are rented one by one."""


@dataclass(frozen=True)
class Network:
    """What a machine sends to others, in bytes per second and direction; `is_known`: published, else assumed."""

    bytes_per_s: Spread
    is_known: bool
    source: str

    @property
    def grade(self) -> Grade:
        """How far plans over several machines can be trusted for it: an assumed network is a judgement."""
        return Grade.MEASURED if self.is_known else Grade.ROOFLINE
