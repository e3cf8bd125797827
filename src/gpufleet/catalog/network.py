"""The network between machines of one type, and what a GPU has of it: published, or what is usual."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from gpufleet.catalog.training_runs import load_training_runs
from gpufleet.domain.accelerator import Accelerator
from gpufleet.domain.instance import Instance
from gpufleet.domain.interruption import Spread
from gpufleet.domain.network import WHOLE_MACHINE_GPUS, Network
from gpufleet.domain.training_runs import TrainingRuns
from gpufleet.optimize.links import usual_link, usual_machine
from gpufleet.provenance import Sourced
from gpufleet.units import GBIT

SEVERAL_GPUS = 4
LINKED_ACROSS_MACHINES = "nvlink_domain"


def network_of(instance: Instance, runs: TrainingRuns | None = None) -> Network:
    """The network of a machine, per direction; where none is published, what is usual for its kind, with its range."""
    published = instance.network_gbit_per_s
    if published is not None and published > 0:
        return Network(Spread(*(published * GBIT,) * 3), True, instance.source)
    fabric = instance.fabric
    is_whole = instance.gpu_count >= WHOLE_MACHINE_GPUS or fabric.kind == LINKED_ACROSS_MACHINES
    return usual_network(instance.gpu_count, is_whole and fabric.is_switched, runs or load_training_runs())


def usual_network(num_gpus: float, is_linked: bool, runs: TrainingRuns) -> Network:
    """What machines of so many GPUs usually have, which links may join."""
    usual = usual_gbit_per_s(num_gpus, is_linked, runs)
    low, high = (usual.value if end is None else end for end in (usual.low, usual.high))
    return Network(Spread(low * GBIT, usual.value * GBIT, high * GBIT), False, usual.source)


def usual_gbit_per_s(num_gpus: float, is_linked: bool, runs: TrainingRuns) -> Sourced:
    """The row of the tables on machines of a kind."""
    if is_linked:
        return runs.network_switched_gbit_per_s
    return runs.network_several_gbit_per_s if num_gpus >= SEVERAL_GPUS else runs.network_few_gbit_per_s


def network_of_gpu(gpu: Accelerator, instances: Iterable[Instance], runs: TrainingRuns | None = None) -> Network:
    """What a GPU has of the network between machines, where no machine type is named.

    The share of a GPU in most whole machine types with it, the most among equals; where no whole one publishes its
    network, in most of the largest. Types that are sold no more count where there are no others. Where none publishes
    it, the share in what whole machines of its kind usually have.
    """
    shares = [network_of(i).share_of(i.gpu_count) for i in most_telling(gpu, instances)]
    if not shares:
        is_pcie, _ = usual_link(gpu, usual_machine(gpu))
        usual = usual_network(WHOLE_MACHINE_GPUS, not is_pcie, runs or load_training_runs())
        return usual.share_of(WHOLE_MACHINE_GPUS)
    shares.sort(key=lambda share: share.bytes_per_s.expected, reverse=True)
    of_most = Counter(share.bytes_per_s.expected for share in shares).most_common(1)[0][0]
    return next(share for share in shares if share.bytes_per_s.expected == of_most)


def most_telling(gpu: Accelerator, instances: Iterable[Instance]) -> list[Instance]:
    """The machine types with a GPU that publish their network: those sold today, and of them the whole or largest."""
    known = [i for i in instances if i.accelerator == gpu.name and i.network_gbit_per_s]
    known = [i for i in known if not i.retired] or known
    least = min(max((i.gpu_count for i in known), default=0.0), WHOLE_MACHINE_GPUS)
    return [i for i in known if i.gpu_count >= least]
