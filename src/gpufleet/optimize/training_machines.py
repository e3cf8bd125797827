"""Machines for training where no machine type is named: those that hold most of a GPU on its usual network."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpufleet.domain.accelerator import Accelerator
from gpufleet.domain.instance import Instance
from gpufleet.domain.network import Network
from gpufleet.domain.training import TrainingMachine
from gpufleet.optimize.links import usual_link, usual_machine
from gpufleet.records import dataclass
from gpufleet.units import GIB

TRAINING_VENDORS = ("nvidia", "amd")


def trains_on(gpu: Accelerator, peak: str) -> bool:
    """Whether a training stack runs on a whole GPU in the arithmetic of this peak."""
    return gpu.vendor in TRAINING_VENDORS and gpu.computes(peak) and gpu.slice_of is None


@dataclass(frozen=True)
class HostMemory:
    """A machine type by name, its GPUs, and how much memory it has beside them."""

    name: str
    gpu_count: float
    memory_bytes: float


def hosts_of(gpu: Accelerator, instances: Iterable[Instance], num_gpus: int) -> list[HostMemory]:
    """Machine types with at least so many of a GPU and a stated memory; those of fewest GPUs and least memory first."""
    stated = [
        HostMemory(f"{i.cloud} {i.name}", i.gpu_count, i.memory_gib * GIB)
        for i in instances
        if i.accelerator == gpu.name and i.gpu_count >= num_gpus and i.memory_gib is not None and not i.retired
    ]
    return sorted(stated, key=lambda host: (host.gpu_count, host.memory_bytes, host.name))


def host_with(hosts: Sequence[HostMemory], need_bytes: float) -> HostMemory | None:
    """The first machine type with so much memory, else the one with the most; None where none is known."""
    enough = (host for host in hosts if host.memory_bytes >= need_bytes)
    return next(enough, max(hosts, key=lambda host: host.memory_bytes, default=None))


def rising_memory(hosts: Iterable[HostMemory]) -> list[HostMemory]:
    """Of machine types of rising size those with more memory than all smaller ones: the most of each number of GPUs."""
    most: dict[float, HostMemory] = {}
    for host in sorted(hosts, key=lambda host: (host.gpu_count, host.memory_bytes)):
        if all(host.memory_bytes > other.memory_bytes for other in most.values()):
            most[host.gpu_count] = host
    return list(most.values())


def usual_training_machine(gpu: Accelerator, network_of_gpu: Network) -> TrainingMachine:
    """A full machine of this GPU, of whose network each of its GPUs has this share."""
    num_gpus = usual_machine(gpu)
    is_pcie, link = usual_link(gpu, num_gpus)
    network = network_of_gpu.bytes_per_s.expected * num_gpus
    return TrainingMachine(gpu, num_gpus, is_pcie, link, network, not network_of_gpu.is_known)
