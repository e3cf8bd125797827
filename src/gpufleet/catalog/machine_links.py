"""Over what the GPUs of a copy reach each other: the link of a named machine, or the network between several."""

from __future__ import annotations

from gpufleet.catalog.load import Catalog
from gpufleet.catalog.network import network_of, network_of_gpu
from gpufleet.catalog.query import resolve_instance
from gpufleet.domain.accelerator import Accelerator, pcie_bytes_per_s
from gpufleet.domain.layout import Layout
from gpufleet.domain.network import Network
from gpufleet.optimize.links import largest_machine, link_of_instance, usual_link


def gpus_of_machine(tables: Catalog, gpu: Accelerator, instance: str | None) -> int:
    """GPUs of the named machine; where none is, of the largest known with this kind, or of an ordinary server."""
    if instance is not None:
        return max(int(resolve_instance(tables, instance).gpu_count), 1)
    return largest_machine(tables.instances.values(), gpu)


def is_of(tables: Catalog, instance: str, gpu: Accelerator) -> bool:
    """Whether a machine type has this GPU."""
    return resolve_instance(tables, instance).accelerator == gpu.name


def link_of(tables: Catalog, gpu: Accelerator, layout: Layout, instance: str | None) -> tuple[bool, float]:
    """(is PCIe, bytes/s) of the link that the GPUs of a stage share: of the named machine, else of the device.

    A stage on several machines exchanges over their network.
    """
    if instance is None and layout.devices_per_stage > gpus_of_machine(tables, gpu, None):
        return True, network_link_bytes_per_s(tables, gpu, layout)
    if instance is None:
        return usual_link(gpu, layout.devices_per_stage)
    return link_of_instance(resolve_instance(tables, instance), gpu, layout)


def network_link_bytes_per_s(tables: Catalog, gpu: Accelerator, layout: Layout) -> float:
    """What a stage on several machines has between two ranks: the network, and no more than a full slot   [bytes/s].

    A ring of reductions enters and leaves a machine once, by all its adapters together (8 GPUs of a p5.48xlarge with
    400 Gbit/s each reduced at 478 GB/s over two machines: crazyguitar/aws-gpu-communication-benchmark, 2025-09). Tokens
    that go to experts or to other groups leave by the share of their own GPU.
    """
    share = network_between(tables, gpu, None).bytes_per_s.expected
    sends_tokens = layout.ep > 1 or layout.attention_dp > 1
    network = share if sends_tokens else share * gpus_of_machine(tables, gpu, None)
    return min(network, pcie_bytes_per_s(gpu.pcie_generation))


def network_between(tables: Catalog, gpu: Accelerator, instance: str | None) -> Network:
    """What a GPU has of the network: in the named machine, else in most machines with it."""
    if instance is not None and is_of(tables, instance, gpu):
        machine = resolve_instance(tables, instance)
        return network_of(machine).share_of(machine.gpu_count)
    return network_of_gpu(gpu, tables.instances.values())


def is_through_host(tables: Catalog, instance: str | None) -> bool:
    """Whether a named machine lets its GPUs exchange through the memory of the host alone."""
    return instance is not None and resolve_instance(tables, instance).fabric.is_through_host
