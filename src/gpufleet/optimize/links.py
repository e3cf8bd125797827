"""The link between GPUs where no instance is named."""

from __future__ import annotations

from gpufleet.domain.accelerator import Accelerator
from gpufleet.units import GB

GPUS_OF_A_MACHINE = 8
SLOT_LANES, USUAL_GENERATION = 16, 3


def pcie_bytes_per_s(generation: int | None) -> float:
    """Rate of a x16 slot in one direction; generation 3 where it is not known.

    16 lanes x 2**(generation - 3) GB/s   [bytes/s]   Source: PCI-SIG base specifications, before encoding overhead.

    >>> [pcie_bytes_per_s(generation) / 1e9 for generation in (2, 3, 4, 5, 6, None)]
    [8.0, 16.0, 32.0, 64.0, 128.0, 16.0]
    """
    return SLOT_LANES * 2.0 ** ((generation or USUAL_GENERATION) - 3) * GB


def usual_machine(gpu: Accelerator) -> int:
    """GPUs that share a machine, or a rack of linked machines, where no instance is named."""
    return max(gpu.linked_gpus, GPUS_OF_A_MACHINE)


def usual_link(gpu: Accelerator, num_gpus: int) -> tuple[bool, float]:
    """(is PCIe, bytes/s per GPU and direction) of a stage: NVLink where it joins so many GPUs, else a full slot."""
    if gpu.nvlink_bytes_per_s and num_gpus <= gpu.linked_gpus:
        return False, gpu.nvlink_bytes_per_s
    return True, pcie_bytes_per_s(gpu.pcie_generation)
