"""Machines for training where no machine type is named: those that hold most of a GPU on its usual network."""

from __future__ import annotations

from collections.abc import Iterable

from gpufleet.domain.accelerator import Accelerator
from gpufleet.domain.instance import Instance
from gpufleet.domain.training import TrainingMachine
from gpufleet.optimize.links import usual_link, usual_machine
from gpufleet.units import GBIT

TRAINING_VENDORS = ("nvidia", "amd")


def trains_on(gpu: Accelerator, peak: str) -> bool:
    """Whether a training stack runs on a whole GPU in the arithmetic of this peak."""
    return gpu.vendor in TRAINING_VENDORS and gpu.computes(peak) and gpu.slice_of is None


def usual_training_machine(
    gpu: Accelerator, instances: Iterable[Instance], network_bytes_per_s: float | None = None
) -> TrainingMachine:
    """A full machine of this GPU; without a stated network the fastest that such machines are rented with."""
    num_gpus = usual_machine(gpu)
    is_pcie, link = usual_link(gpu, num_gpus)
    known = [
        instance.network_gbit_per_s * GBIT
        for instance in instances
        if instance.accelerator == gpu.name and instance.gpu_count >= num_gpus and instance.network_gbit_per_s
    ]
    network = network_bytes_per_s if network_bytes_per_s is not None else max(known, default=USUAL_BYTES_PER_S)
    assumed = network_bytes_per_s is None and not known
    return TrainingMachine(gpu, num_gpus, is_pcie, link, network, assumed)


USUAL_BYTES_PER_S = 100 * GBIT
