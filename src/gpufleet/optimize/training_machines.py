"""Machines for training where no machine type is named: those that hold most of a GPU on its usual network."""

from __future__ import annotations

from gpufleet.domain.accelerator import Accelerator
from gpufleet.domain.network import Network
from gpufleet.domain.training import TrainingMachine
from gpufleet.optimize.links import usual_link, usual_machine

TRAINING_VENDORS = ("nvidia", "amd")


def trains_on(gpu: Accelerator, peak: str) -> bool:
    """Whether a training stack runs on a whole GPU in the arithmetic of this peak."""
    return gpu.vendor in TRAINING_VENDORS and gpu.computes(peak) and gpu.slice_of is None


def usual_training_machine(gpu: Accelerator, network_of_gpu: Network) -> TrainingMachine:
    """A full machine of this GPU, of whose network each of its GPUs has this share."""
    num_gpus = usual_machine(gpu)
    is_pcie, link = usual_link(gpu, num_gpus)
    network = network_of_gpu.bytes_per_s.expected * num_gpus
    return TrainingMachine(gpu, num_gpus, is_pcie, link, network, not network_of_gpu.is_known)
