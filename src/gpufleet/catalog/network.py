"""The network between machines of one type: published, else what such machines usually have."""

from __future__ import annotations

from gpufleet.catalog.training_runs import load_training_runs
from gpufleet.domain.instance import Instance
from gpufleet.domain.interruption import Spread
from gpufleet.domain.network import WHOLE_MACHINE_GPUS, Network
from gpufleet.domain.training_runs import TrainingRuns
from gpufleet.provenance import Sourced
from gpufleet.units import GBIT

SEVERAL_GPUS = 4
LINKED_ACROSS_MACHINES = "nvlink_domain"


def network_of(instance: Instance, runs: TrainingRuns | None = None) -> Network:
    """The network of a machine, per direction; where none is published, what is usual for its kind, with its range."""
    published = instance.network_gbit_per_s
    if published is not None and published > 0:
        return Network(Spread(*(published * GBIT,) * 3), True, instance.source)
    usual = usual_gbit_per_s(instance, runs or load_training_runs())
    low, high = (usual.value if end is None else end for end in (usual.low, usual.high))
    return Network(Spread(low * GBIT, usual.value * GBIT, high * GBIT), False, usual.source)


def usual_gbit_per_s(instance: Instance, runs: TrainingRuns) -> Sourced:
    """What machines of this kind usually have."""
    is_whole = instance.gpu_count >= WHOLE_MACHINE_GPUS or instance.fabric.kind == LINKED_ACROSS_MACHINES
    if is_whole and instance.fabric.is_switched:
        return runs.network_switched_gbit_per_s
    return runs.network_several_gbit_per_s if instance.gpu_count >= SEVERAL_GPUS else runs.network_few_gbit_per_s
