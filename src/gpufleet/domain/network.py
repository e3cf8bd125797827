"""The network between the machines of a run."""

from __future__ import annotations

from gpufleet.domain.interruption import Spread
from gpufleet.provenance import Grade
from gpufleet.records import dataclass

WHOLE_MACHINE_GPUS = 8
"""Machines of so many GPUs are built to work together: cards of fewer are rented one by one."""


@dataclass(frozen=True)
class Network:
    """What a machine, or a GPU of one, sends to others, in bytes/s and direction; `is_known`: published, or assumed."""

    bytes_per_s: Spread
    is_known: bool
    source: str

    @property
    def grade(self) -> Grade:
        """How far plans over several machines can be trusted for it: an assumed network is a judgement."""
        return Grade.MEASURED if self.is_known else Grade.ROOFLINE

    def share_of(self, num_gpus: float) -> Network:
        """What each of so many GPUs of a machine has of it."""
        each = self.bytes_per_s
        spread = Spread(each.low / num_gpus, each.expected / num_gpus, each.high / num_gpus)
        return Network(spread, self.is_known, self.source)
