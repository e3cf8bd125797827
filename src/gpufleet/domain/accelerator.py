"""One GPU or other accelerator: what its datasheet and its driver say."""

from __future__ import annotations

from collections.abc import Mapping

from gpufleet.records import dataclass
from gpufleet.units import GB

GENERATIONS_OF_OLDER_MACHINES = frozenset({"Volta", "Turing", "Ampere", "Ada", "CDNA2"})
"""GPUs that mostly stand beside CPUs from before 2023, whose single threads are slower."""
SLOT_LANES, USUAL_GENERATION = 16, 3


@dataclass(frozen=True)
class Accelerator:
    """Figures of one device; dense peaks, one direction per link, memory as the driver reports it.

    `peak_flop_per_s` maps arithmetic (fp32, tf32, fp16, bf16, fp8, int8, fp4) to the dense peak; a missing key
    means that the device cannot compute in it. `linked_gpus` is how many devices its link joins in any
    machine: 1 for cards whose bridge is sold apart, 72 for a rack. `compute_capability` is NVIDIA's number for what
    code runs on it (developer.nvidia.com/cuda-gpus), None for others; `host_architecture` of the CPU that it comes
    with (arm64: Grace, Graviton). `driver_bytes` is what the driver keeps of `memory_bytes` before a program starts;
    None where nobody logged it. `peer_to_peer`: whether devices of a machine reach each other over PCIe without the
    host; drivers of consumer cards and some hosts forbid it. `host_bytes_per_s`: what it reads of the host's memory in
    one direction, all GPUs of the host at once; None: what its PCIe slot carries. `slice_of` names the GPU that a
    fraction is of, `slice_ratio` is its share.
    """

    name: str
    vendor: str
    generation: str
    memory_bytes: float
    marketed_memory_gb: float
    bandwidth_bytes_per_s: float
    peak_flop_per_s: Mapping[str, float]
    nvlink_bytes_per_s: float | None
    pcie_generation: int | None
    board_power_watts: float | None
    sm_count: int | None
    l2_bytes: float | None
    release_year: int | None
    source: str
    evidence: str = ""
    notes: str = ""
    linked_gpus: int = 8
    compute_capability: str | None = None
    host_architecture: str = "x86_64"
    driver_bytes: float | None = None
    peer_to_peer: bool = True
    host_bytes_per_s: float | None = None
    slice_of: str | None = None
    slice_ratio: float = 1.0

    def __post_init__(self) -> None:
        for field_name in ("memory_bytes", "bandwidth_bytes_per_s"):
            value = getattr(self, field_name)
            if not value > 0:
                raise ValueError(f"{self.name}: {field_name} must be positive, found {value!r}")
        bad = {k: v for k, v in self.peak_flop_per_s.items() if not v > 0}
        if bad:
            raise ValueError(f"{self.name}: peaks must be positive, found {bad}")

    @property
    def is_in_older_machines(self) -> bool:
        """Whether the machines that it is sold in mostly have CPUs from before 2023."""
        return self.generation in GENERATIONS_OF_OLDER_MACHINES

    def computes(self, arithmetic: str) -> bool:
        """Whether the device has units for this arithmetic."""
        return arithmetic in self.peak_flop_per_s


def pcie_bytes_per_s(generation: int | None) -> float:
    """Rate of a x16 slot in one direction; generation 3 where it is not known.

    16 lanes x 2**(generation - 3) GB/s   [bytes/s]   Source: PCI-SIG base specifications, before encoding overhead.

    >>> [pcie_bytes_per_s(generation) / 1e9 for generation in (2, 3, 4, 5, 6, None)]
    [8.0, 16.0, 32.0, 64.0, 128.0, 16.0]
    """
    return SLOT_LANES * 2.0 ** ((generation or USUAL_GENERATION) - 3) * GB
