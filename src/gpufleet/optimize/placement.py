"""How many machines of one type carry a demand, and which candidate they run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import numpy as np

from gpufleet.domain.arrays import BoolArray, FloatArray, Floats, IntArray
from gpufleet.domain.candidates import Candidates
from gpufleet.domain.instance import Instance
from gpufleet.optimize.demand import Demand
from gpufleet.optimize.size import Capacity
from gpufleet.records import dataclass

Found = TypeVar("Found")


@dataclass(frozen=True)
class Placement:
    """Replicas of one candidate on one instance type: as many as needed, packed whole into machines.

    `quiet_instance_count` are kept in quiet hours, `busy_ratio` of the time all are.
    """

    instance: Instance
    row: int
    replicas: int
    instance_count: int
    gpus_per_replica: int
    quiet_instance_count: int = 0
    busy_ratio: float = 1.0

    @property
    def idle_gpus(self) -> int:
        """GPUs that are paid for and hold no replica."""
        return round(self.instance.gpu_count * self.instance_count) - self.replicas * self.gpus_per_replica


def once_per_host(instances: Iterable[Instance], find: Callable[[Instance], Found]) -> list[tuple[Instance, Found]]:
    """What is found for every machine type, asked once of those with as many of the same GPUs on the same link."""
    of_host = {host_of(instance): instance for instance in instances}
    found = {host: find(instance) for host, instance in of_host.items()}
    return [(instance, found[host_of(instance)]) for instance in instances]


def host_of(instance: Instance) -> tuple[str, float, bool, float]:
    """What decides which replicas a machine type holds: its GPUs, how many of them, and the link between them."""
    fabric = instance.fabric
    return instance.accelerator, instance.gpu_count, fabric.is_switched, fabric.bytes_per_s or 0.0


def is_host(instance: Instance, candidates: Candidates) -> BoolArray:
    """Candidates whose replica fits into one machine of this type and was rated on its link."""
    accelerator, gpu_count, is_switched, link_bytes_per_s = host_of(instance)
    accelerators = [a.name for a in candidates.palette.accelerators]
    if accelerator not in accelerators:
        return np.zeros(len(candidates), dtype=np.bool_)
    same_gpu = candidates.accelerator == accelerators.index(accelerator)
    same_link = (candidates.link_is_pcie != is_switched) & (candidates.link_bytes_per_s == link_bytes_per_s)
    return np.asarray(same_gpu & (same_link | (candidates.num_devices == 1)) & (candidates.num_devices <= gpu_count))


def place(instance: Instance, candidates: Candidates, found: Capacity, demand: Demand) -> Placement | None:
    """The candidate that needs the fewest machines of this type; among equals the one with most capacity to spare."""
    rows = np.flatnonzero(is_host(instance, candidates) & found.is_feasible)
    return place_best(instance, rows, candidates.num_devices[rows], found, demand)


def place_best(
    instance: Instance, rows: IntArray, num_devices: IntArray, found: Capacity, demand: Demand
) -> Placement | None:
    """The same among these rows, whose replicas take so many devices each."""
    if not len(rows):
        return None
    per_instance = np.floor(instance.gpu_count / num_devices)
    carried = per_instance * found.requests_per_s[rows]
    machines = machines_for(demand.planned_requests_per_s, per_instance, found.requests_per_s[rows], demand)
    quiet = machines
    if demand.quiet is not None:
        planned = demand.quiet.rate_requests_per_s * (1 + demand.headroom_ratio)
        quiet = machines_for(planned, per_instance, found.requests_per_s[rows], demand)
    paid = demand.busy_ratio * machines + (1 - demand.busy_ratio) * quiet
    chosen = np.lexsort((rows, -machines * carried, paid))[0]
    row, count = int(rows[chosen]), int(machines[chosen])
    replicas = count * int(per_instance[chosen])
    return Placement(instance, row, replicas, count, int(num_devices[chosen]), int(quiet[chosen]), demand.busy_ratio)


def machines_for(rate: Floats, replicas_each: FloatArray, replica_rate: FloatArray, demand: Demand) -> FloatArray:
    """Machines that carry a rate, also without the spare ones or without a zone.

    n = ceil(max(ceil(rate / replica rate), least replicas) / replicas of a machine); n + spare, or ceil(n z / (z - 1))
    over z zones: what is left without the fullest of them is n.   [1]
    """
    needed = np.ceil(np.maximum(np.ceil(rate / replica_rate), demand.min_replicas) / replicas_each)
    spread = np.ceil(needed * demand.zones / (demand.zones - 1)) if demand.zones > 1 else needed
    return np.asarray(spread + demand.spare_machines)
