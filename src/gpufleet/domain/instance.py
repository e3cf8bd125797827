"""A rentable machine type."""

from __future__ import annotations

from gpufleet.domain.fabric import Fabric
from gpufleet.records import dataclass


@dataclass(frozen=True)
class Instance:
    """One cloud's machine type: its accelerators, host and links. `gpu_count` may be a fraction (0.125 = a slice).

    `retired`: prices may still be listed somewhere but the cloud no longer starts it.
    """

    cloud: str
    name: str
    accelerator: str
    gpu_count: float
    vcpus: int | None
    memory_gib: float | None
    fabric: Fabric
    network_gbit_per_s: float | None
    local_ssd_gb: float | None
    source: str
    evidence: str = ""
    retired: bool = False

    def __post_init__(self) -> None:
        if not self.gpu_count > 0:
            raise ValueError(f"{self.cloud} {self.name}: an instance needs a GPU, found {self.gpu_count!r}")

    @property
    def host(self) -> tuple[str, float, bool, bool, float]:
        """What decides which copies of a model a machine holds: its GPUs, how many of them, and the link between."""
        link = self.fabric
        return self.accelerator, self.gpu_count, link.is_switched, link.is_through_host, link.bytes_per_s or 0.0
