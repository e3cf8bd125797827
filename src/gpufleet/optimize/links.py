"""The link between GPUs where no instance is named."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from gpufleet.domain.accelerator import Accelerator, pcie_bytes_per_s
from gpufleet.domain.instance import Instance
from gpufleet.domain.layout import Layout
from gpufleet.errors import UsageError

GPUS_OF_A_MACHINE = 8


def usual_machine(gpu: Accelerator) -> int:
    """GPUs that share a machine, or a rack of linked machines, where no instance is named."""
    return max(gpu.linked_gpus, GPUS_OF_A_MACHINE)


def largest_machine(instances: Iterable[Instance], gpu: Accelerator) -> int:
    """GPUs of the largest machine type with this kind that is known, and at least those of an ordinary server."""
    return max(usual_machine(gpu), *(int(i.gpu_count) for i in instances if i.accelerator == gpu.name), 1)


def usual_link(gpu: Accelerator, num_gpus: int) -> tuple[bool, float]:
    """(is PCIe, bytes/s per GPU and direction) of a stage: NVLink where it joins so many GPUs, else a full slot."""
    if gpu.nvlink_bytes_per_s and num_gpus <= gpu.linked_gpus:
        return False, gpu.nvlink_bytes_per_s
    return True, pcie_bytes_per_s(gpu.pcie_generation)


def usual_instance(instances: Iterable[Instance], gpu: Accelerator, layout: Layout) -> Instance | None:
    """The smallest machine type that holds a stage, on the link that most such types have; None where none is known."""
    least = layout.devices_per_stage
    holding = [i for i in instances if i.accelerator == gpu.name and i.gpu_count >= least and i.fabric.bytes_per_s]
    if layout.num_devices == 1 or not holding:
        return None
    links = Counter(i.host[2:] for i in holding)
    of_most = [i for i in holding if i.host[2:] == links.most_common(1)[0][0]]
    return min(of_most, key=lambda i: (i.gpu_count, i.cloud, i.name))


def link_of_instance(machine: Instance, gpu: Accelerator, layout: Layout) -> tuple[bool, float]:
    """(is PCIe, bytes/s) inside a machine that must hold these GPUs, as many as a stage of the layout needs."""
    if machine.accelerator != gpu.name or machine.gpu_count < layout.devices_per_stage:
        raise UsageError(
            f"{machine.cloud} {machine.name} does not hold {layout.devices_per_stage}x {gpu.name}",
            found=f"{machine.gpu_count:g}x {machine.accelerator}",
        )
    return not machine.fabric.is_switched, machine.fabric.bytes_per_s or 0.0
