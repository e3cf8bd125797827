"""Over what the GPUs of a copy reach each other: the link of a machine, or the network between several."""

from __future__ import annotations

import math

from gpufleet.catalog.load import Catalog
from gpufleet.catalog.network import network_of, network_of_gpu
from gpufleet.catalog.query import resolve_instance
from gpufleet.domain.accelerator import Accelerator
from gpufleet.domain.instance import Instance
from gpufleet.domain.layout import Layout
from gpufleet.domain.network import Network
from gpufleet.errors import UsageError
from gpufleet.optimize.links import largest_machine, pcie_bytes_per_s, usual_instance, usual_link
from gpufleet.results.base import Input
from gpufleet.units import GB


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


def link_of_instance(machine: Instance, gpu: Accelerator, layout: Layout) -> tuple[bool, float]:
    """(is PCIe, bytes/s) inside a machine that must hold these GPUs, as many as a stage of the layout needs."""
    if machine.accelerator != gpu.name or machine.gpu_count < layout.devices_per_stage:
        raise UsageError(
            f"{machine.cloud} {machine.name} does not hold {layout.devices_per_stage}x {gpu.name}",
            found=f"{machine.gpu_count:g}x {machine.accelerator}",
        )
    return not machine.fabric.is_switched, machine.fabric.bytes_per_s or 0.0


def is_through_host(tables: Catalog, instance: str | None) -> bool:
    """Whether a named machine lets its GPUs exchange through the memory of the host alone."""
    return instance is not None and resolve_instance(tables, instance).fabric.is_through_host


def link_rows(tables: Catalog, gpu: Accelerator, layout: Layout, instance: str | None) -> list[Input]:
    """The link between the GPUs of a copy, where there are several, and whose it is."""
    if layout.num_devices == 1:
        return []
    is_pcie, bytes_per_s = link_of(tables, gpu, layout, instance)
    machine = gpus_of_machine(tables, gpu, instance)
    if layout.devices_per_stage > machine:
        machines = math.ceil(layout.devices_per_stage / machine)
        value = f"{machines} machines of {machine} GPUs, their network at {bytes_per_s / GB:g} GB/s"
    else:
        value = f"{instance or 'any machine'}, {link_words(is_pcie, bytes_per_s)}"
    return [Input(name="link", value=value, origin="given" if instance else "default")]


def link_note(tables: Catalog, gpu: Accelerator, layout: Layout, instance: str | None) -> str | None:
    """That the usual machine has another link than the one that was taken where no machine was named."""
    taken, usual = link_of(tables, gpu, layout, instance), usual_instance(tables.instances.values(), gpu, layout)
    if instance is not None or usual is None or link_of_instance(usual, gpu, layout) == taken:
        return None
    words = link_words(*link_of_instance(usual, gpu, layout))
    return (
        f"The link is taken as {link_words(*taken)}; {usual.cloud} {usual.name} and its like have {words}: "
        f"--instance {usual.name}"
    )


def link_words(is_pcie: bool, bytes_per_s: float) -> str:
    """A link as people call it.

    >>> link_words(True, 32e9)
    'PCIe at 32 GB/s'
    """
    return f"{'PCIe' if is_pcie else 'NVLink or the like'} at {bytes_per_s / GB:g} GB/s"
