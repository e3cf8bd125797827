"""Links between the GPUs of one machine."""

from __future__ import annotations

from gpufleet.records import dataclass


@dataclass(frozen=True)
class Fabric:
    """How the GPUs of an instance reach each other; `bytes_per_s` per GPU and direction, None where unknown."""

    kind: str
    bytes_per_s: float | None
    description: str = ""
    evidence: str = ""

    @property
    def is_switched(self) -> bool:
        """Whether every GPU reaches every other at full rate without the host (NVLink, Infinity Fabric, ICI)."""
        return self.kind not in ("pcie", "none")
