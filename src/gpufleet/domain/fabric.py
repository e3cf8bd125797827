"""Links between the GPUs of one machine."""

from __future__ import annotations

from dataclasses import replace

from gpufleet.records import dataclass

PCIE, THROUGH_HOST = "pcie", "pcie_through_host"
"""PCIe, and PCIe of machines that let no GPU reach another: they exchange through the memory of the host."""


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
        return self.kind not in (PCIE, THROUGH_HOST, "none")

    @property
    def is_through_host(self) -> bool:
        """Whether the machine itself refuses peer-to-peer access, whatever its GPUs could."""
        return self.kind == THROUGH_HOST

    @property
    def with_peers(self) -> Fabric:
        """The same links where GPUs reach each other."""
        return replace(self, kind=PCIE) if self.is_through_host else self
